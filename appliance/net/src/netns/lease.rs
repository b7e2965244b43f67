//! Which run a namespace belongs to, and whether that run still lives.
//!
//! A run takes a [`Lease`]: four hex digits and a directory `/run/kedge-lab/<id>` whose `lock`
//! file it holds locked while it lives. The kernel drops the lock with the process, however it
//! ended, so an unlocked file means leftovers: namespaces `kedge-<id>-*`, the processes in them
//! and the directory. Namespaces without such a directory are nobody's business here.

use std::{
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
};

use kedge_core::{Code, Coded, Fix, Problem};
use rustix::{fs::FlockOperation, mount::UnmountFlags};

use super::{Namespace, NetnsError, list};

/// Where the directories of the runs stand.
const DIRECTORY: &str = "/run/kedge-lab";

/// The mark of a live run, given back in `Drop` together with its directory.
#[derive(Debug)]
pub struct Lease {
    id: String,
    directory: PathBuf,
    _lock: File,
}

/// Why a run cannot be marked, looked for or collected.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// A file of the mark cannot be used.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Every id that was tried is taken.
    #[error("no free id for a run below {DIRECTORY}")]
    Full,
    /// Something about a namespace failed.
    #[error(transparent)]
    Netns(#[from] NetnsError),
}

/// What a killed run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftovers {
    /// The run's four hex digits.
    pub id: String,
    /// Its namespaces, by name.
    pub namespaces: Vec<String>,
    /// The processes in them.
    pub processes: Vec<i32>,
    /// Its directory.
    pub directory: PathBuf,
}

/// What [`collect`] removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// How many runs had left something.
    pub runs: usize,
    /// How many namespaces.
    pub namespaces: usize,
    /// How many processes.
    pub processes: usize,
}

impl Lease {
    /// Marks a run of this process.
    ///
    /// # Errors
    /// When `/run/kedge-lab` cannot be written.
    pub fn take() -> Result<Self, LeaseError> {
        let _guard = Guard::take()?;
        let taken = list()?;
        for attempt in 0..64_u32 {
            let id = format!("{:04x}", RandomState::new().hash_one(attempt) & 0xffff);
            let directory = Path::new(DIRECTORY).join(&id);
            let strangers = taken.iter().any(|name| run_of(name) == Some(&id));
            if strangers || directory.exists() {
                continue;
            }
            fs::create_dir(&directory).map_err(at(&directory))?;
            let path = directory.join(LOCK);
            let lock = File::create_new(&path).map_err(at(&path))?;
            try_lock(&lock).map_err(at(&path))?;
            return Ok(Self {
                id,
                directory,
                _lock: lock,
            });
        }
        Err(LeaseError::Full)
    }

    /// The run's four hex digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The run's directory, `/run/kedge-lab/<id>`; whatever stands in it goes with the lease.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The name of a node's namespace: `kedge-<id>-<node>`.
    #[must_use]
    pub fn namespace(&self, node: &str) -> String {
        format!("kedge-{}-{node}", self.id)
    }

    /// Whether the run of an id lives in some process.
    #[must_use]
    pub fn is_live(id: &str) -> bool {
        File::open(Path::new(DIRECTORY).join(id).join(LOCK)).is_ok_and(|file| is_held(&file))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Err(err) = fs::remove_dir_all(&self.directory) {
            let error = &err as &dyn std::error::Error;
            tracing::warn!(directory = %self.directory.display(), error, "run directory left behind");
        }
    }
}

/// The runs that live, in whatever process: their ids and directories.
///
/// # Errors
/// When `/run/kedge-lab` cannot be read.
pub fn live() -> Result<Vec<(String, PathBuf)>, LeaseError> {
    let _guard = Guard::take()?;
    let entries = fs::read_dir(DIRECTORY).map_err(at(Path::new(DIRECTORY)))?;
    let named = entries.flatten().filter_map(|entry| {
        let id = entry.file_name().into_string().ok()?;
        (is_id(&id) && Lease::is_live(&id)).then(|| (id, entry.path()))
    });
    let mut runs: Vec<_> = named.collect();
    runs.sort();
    Ok(runs)
}

/// What killed runs left, without touching it.
///
/// # Errors
/// When `/run/kedge-lab` cannot be read.
pub fn leftovers() -> Result<Vec<Leftovers>, LeaseError> {
    let _guard = Guard::take()?;
    find()
}

/// Removes what killed runs left, and nothing else.
///
/// # Errors
/// When something resists; the rest is removed on the next call.
pub fn collect() -> Result<Collected, LeaseError> {
    let _guard = Guard::take()?;
    let mut collected = Collected::default();
    for run in find()? {
        for name in &run.namespaces {
            Namespace::open(name)?.destroy()?;
        }
        release(&run.directory)?;
        fs::remove_dir_all(&run.directory).map_err(at(&run.directory))?;
        collected.runs += 1;
        collected.namespaces += run.namespaces.len();
        collected.processes += run.processes.len();
    }
    Ok(collected)
}

impl Coded for LeaseError {
    fn problem(&self) -> Problem {
        match self {
            Self::Netns(err) => err.problem(),
            Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Problem::new(Code::LabPrivilege, self.to_string())
                    .caused_by(source)
                    .consequence("the lab cannot start")
                    .fix(Fix::text("run the command as root"))
            }
            Self::File { .. } | Self::Full => Problem::new(Code::LabBusy, self.to_string())
                .caused_by(self)
                .consequence("the lab cannot start")
                .fix(Fix::text(
                    "look into /run/kedge-lab and end runs nobody needs",
                )),
        }
    }
}

/// Unmounts what a killed gateway left in a run's folder: namespaces of tenants.
fn release(directory: &Path) -> Result<(), LeaseError> {
    let table = Path::new("/proc/self/mounts");
    let mounts = fs::read_to_string(table).map_err(at(table))?;
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for place in places.map(Path::new).filter(|it| it.starts_with(directory)) {
        let gone = rustix::mount::unmount(place, UnmountFlags::DETACH);
        gone.map_err(io::Error::from).map_err(at(place))?;
    }
    Ok(())
}

fn find() -> Result<Vec<Leftovers>, LeaseError> {
    let names = list()?;
    let mut runs = Vec::new();
    let entries = fs::read_dir(DIRECTORY).map_err(at(Path::new(DIRECTORY)))?;
    for entry in entries.flatten() {
        let Ok(id) = entry.file_name().into_string() else {
            continue;
        };
        let dead = is_id(&id)
            && match File::open(entry.path().join(LOCK)) {
                Ok(file) => !is_held(&file),
                Err(err) => err.kind() == io::ErrorKind::NotFound,
            };
        if !dead {
            continue;
        }
        let namespaces: Vec<String> = names
            .iter()
            .filter(|name| run_of(name) == Some(&id))
            .cloned()
            .collect();
        let mut processes = Vec::new();
        for namespace in namespaces
            .iter()
            .filter_map(|name| Namespace::open(name).ok())
        {
            processes.extend(
                namespace
                    .processes()
                    .iter()
                    .map(|pid| pid.as_raw_nonzero().get()),
            );
        }
        runs.push(Leftovers {
            id,
            namespaces,
            processes,
            directory: entry.path(),
        });
    }
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(runs)
}

/// The run's id in a namespace's name.
fn run_of(name: &str) -> Option<&str> {
    let (id, node) = name.strip_prefix("kedge-")?.split_once('-')?;
    (is_id(id) && !node.is_empty()).then_some(id)
}

fn is_id(text: &str) -> bool {
    text.len() == 4
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_held(file: &File) -> bool {
    // A shared lock that is got is given back when the file closes.
    rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).is_err()
}

fn try_lock(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(
        file,
        FlockOperation::NonBlockingLockExclusive,
    )?)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LeaseError + use<> {
    let path = path.to_owned();
    move |source| LeaseError::File { path, source }
}

/// Held while runs begin and are collected: between a directory's creation and its lock a run
/// would look dead.
struct Guard {
    _file: File,
}

impl Guard {
    fn take() -> Result<Self, LeaseError> {
        let directory = Path::new(DIRECTORY);
        fs::create_dir_all(directory).map_err(at(directory))?;
        let path = directory.join("guard");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(at(&path))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)
            .map_err(|errno| at(&path)(errno.into()))?;
        Ok(Self { _file: file })
    }
}

const LOCK: &str = "lock";
