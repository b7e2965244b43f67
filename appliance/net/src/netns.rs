//! Network namespaces by name, as `ip netns` knows them: a bind mount below `/run/netns`.
//!
//! [`Namespace`] is the thing itself, [`Worker`] a thread that lives in one, [`Lease`] the mark
//! of a live run, by which the next run tells a killed run's leftovers from somebody else's work.

mod enclosure;
mod lease;
mod worker;

use std::{
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use kedge_core::{Code, Coded, Fix, Problem};
use rustix::{
    mount::{MountPropagationFlags, UnmountFlags},
    process::PidfdFlags,
    thread::LinkNameSpaceType,
};

pub use rustix::process::{Pid, Signal};

pub use self::{
    enclosure::{Enclosure, EnclosureError, within},
    lease::{Collected, Lease, LeaseError, Leftovers, collect, leftovers, live},
    worker::Worker,
};
use crate::{privilege, sys};

/// Where named namespaces stand.
const DIRECTORY: &str = "/run/netns";

/// How long processes of a namespace may take to disappear after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// A named network namespace.
///
/// The value that [`create`](Self::create)d it removes it again in `Drop`, with every process in
/// it; one that was [`open`](Self::open)ed removes nothing.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
    identity: Identity,
    owned: bool,
}

/// What tells one namespace from another: device and inode of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// Why something about a namespace failed.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The name does not fit `[a-z0-9-]{1,64}`.
    #[error("`{0}` is no name for a namespace")]
    Name(String),
    /// The namespace cannot be made.
    #[error("cannot create the network namespace {name}")]
    Create {
        /// Its name.
        name: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The namespace cannot be opened.
    #[error("cannot open the network namespace {name}")]
    Open {
        /// Its name.
        name: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The calling thread cannot move into the namespace.
    #[error("cannot enter the network namespace {name}")]
    Enter {
        /// Its name.
        name: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The namespace cannot be removed.
    #[error("cannot remove the network namespace {name}")]
    Remove {
        /// Its name.
        name: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The namespaces cannot be listed.
    #[error("cannot read {DIRECTORY}")]
    List(#[source] io::Error),
    /// Processes outlive SIGKILL.
    #[error("processes in {name} outlive SIGKILL: {pids:?}")]
    Alive {
        /// The namespace's name.
        name: String,
        /// Their ids.
        pids: Vec<i32>,
    },
    /// The thread that lives in a namespace has ended.
    #[error("the thread of the network namespace {0} has ended")]
    WorkerGone(String),
}

impl Namespace {
    /// Makes a namespace with its loopback down, and owns it.
    ///
    /// # Errors
    /// When the name is taken or no name, and without privilege.
    pub fn create(name: &str) -> Result<Self, NetnsError> {
        let path = path(name)?;
        let refused = |source| NetnsError::Create {
            name: name.to_owned(),
            source,
        };
        share(Path::new(DIRECTORY)).map_err(refused)?;
        bind_new(&path).map_err(refused)?;
        let mut namespace = Self::open(name)?;
        namespace.owned = true;
        Ok(namespace)
    }

    /// Opens a namespace that exists.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn open(name: &str) -> Result<Self, NetnsError> {
        let refused = |source| NetnsError::Open {
            name: name.to_owned(),
            source,
        };
        let file = File::open(path(name)?).map_err(refused)?;
        let identity = Identity::of(&file.metadata().map_err(refused)?);
        Ok(Self {
            name: name.to_owned(),
            file,
            identity,
            owned: false,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for it.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// What tells it from other namespaces.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Leaves it in place when the value goes.
    pub fn keep(&mut self) {
        self.owned = false;
    }

    /// Moves the calling *thread* into the namespace, for the rest of its life.
    ///
    /// # Errors
    /// Without privilege.
    pub fn enter(&self) -> Result<(), NetnsError> {
        enter(&self.file, &self.name)
    }

    /// Runs a job inside the namespace, on a thread of its own, and waits for it. A panic of the
    /// job goes on in the caller.
    ///
    /// Processes that are spawned with a parent-death signal belong on a [`Worker`] instead: the
    /// kernel sends the signal when the spawning thread ends.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        run(&self.file, &self.name, job)
    }

    /// The processes in it, by `/proc/*/ns/net`.
    #[must_use]
    pub fn processes(&self) -> Vec<Pid> {
        self.identity.processes()
    }

    /// Sends a signal to every process in it, and returns them.
    pub fn signal(&self, signal: Signal) -> Vec<Pid> {
        let mut reached = self.processes();
        reached.retain(|pid| self.identity.signal(*pid, signal));
        reached
    }

    /// Sends a signal to one process, if that is in it.
    pub fn signal_process(&self, pid: u32, signal: Signal) -> bool {
        i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_some_and(|pid| self.identity.signal(pid, signal))
    }

    /// Kills every process in it and waits until they are gone.
    ///
    /// # Errors
    /// When some outlive SIGKILL by five seconds.
    pub fn kill_all(&self) -> Result<(), NetnsError> {
        let limit = Instant::now() + KILL_LIMIT;
        loop {
            let alive = self.signal(Signal::KILL);
            if alive.is_empty() {
                return Ok(());
            }
            if Instant::now() > limit {
                let pids = alive.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
                return Err(NetnsError::Alive {
                    name: self.name.clone(),
                    pids,
                });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills every process in it and removes it, whoever made it.
    ///
    /// # Errors
    /// When a process outlives SIGKILL or the name cannot be removed.
    pub fn destroy(mut self) -> Result<(), NetnsError> {
        self.owned = false;
        self.kill_all()?;
        remove(&self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        let gone = self.kill_all().and_then(|()| remove(&self.name));
        if let Err(err) = gone {
            let error = &err as &dyn std::error::Error;
            tracing::warn!(netns = self.name, error, "network namespace left behind");
        }
    }
}

impl Identity {
    /// The namespace the calling thread is in.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn current() -> io::Result<Self> {
        fs::metadata("/proc/thread-self/ns/net").map(|metadata| Self::of(&metadata))
    }

    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }

    /// Whether a process is in this namespace.
    fn holds(self, pid: Pid) -> bool {
        fs::metadata(format!("/proc/{}/ns/net", pid.as_raw_nonzero()))
            .is_ok_and(|metadata| Self::of(&metadata) == self)
    }

    fn processes(self) -> Vec<Pid> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(Pid::from_raw)
            .filter(|pid| self.holds(*pid))
            .collect()
    }

    /// Signals a process that is still in this namespace; a pid that another process took over in
    /// the meantime is left alone.
    fn signal(self, pid: Pid, signal: Signal) -> bool {
        rustix::process::pidfd_open(pid, PidfdFlags::empty()).is_ok_and(|pidfd| {
            self.holds(pid) && rustix::process::pidfd_send_signal(&pidfd, signal).is_ok()
        })
    }
}

/// The names of all namespaces, in order.
///
/// # Errors
/// When the directory exists and cannot be read.
pub fn list() -> Result<Vec<String>, NetnsError> {
    let entries = match fs::read_dir(DIRECTORY) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(NetnsError::List(err)),
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// Removes the name. The namespace itself ends with its last process and file descriptor.
///
/// # Errors
/// When there is none of that name, and without privilege.
pub fn remove(name: &str) -> Result<(), NetnsError> {
    let path = path(name)?;
    let refused = |source| NetnsError::Remove {
        name: name.to_owned(),
        source,
    };
    unbind(&path).map_err(refused)
}

/// Takes a mount and its file away. A run that was killed between making the two leaves a plain file.
fn unbind(path: &Path) -> io::Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Ok(()) | Err(rustix::io::Errno::INVAL) => fs::remove_file(path),
        Err(errno) => Err(errno.into()),
    }
}

fn enter(file: &File, name: &str) -> Result<(), NetnsError> {
    let network = Some(LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(file.as_fd(), network).map_err(|errno| {
        NetnsError::Enter {
            name: name.to_owned(),
            source: errno.into(),
        }
    })
}

/// Runs a job inside, on a thread of its own, if one can be had.
fn run<T: Send>(file: &File, name: &str, job: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
    std::thread::scope(|scope| {
        let inside = std::thread::Builder::new()
            .spawn_scoped(scope, || enter(file, name).map(|()| job()))
            .map_err(|source| NetnsError::Enter {
                name: name.to_owned(),
                source,
            })?;
        let done = inside.join();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes children that die with the thread that spawned them; see [`Worker::spawn`].
pub use crate::sys::netns::die_with_parent;

impl Coded for NetnsError {
    fn problem(&self) -> Problem {
        let source = std::error::Error::source(self).and_then(|err| err.downcast_ref());
        let (code, fix) = if source.is_some_and(privilege::is_missing) {
            (Code::NetPermission, "run the command as root")
        } else {
            (
                Code::NetKernel,
                "see what the kernel said; namespaces need CONFIG_NET_NS",
            )
        };
        let mut problem = Problem::new(code, self.to_string()).fix(Fix::text(fix));
        if let Some(source) = source {
            problem = problem.caused_by(source);
        }
        problem.consequence("the lab cannot be built")
    }
}

fn path(name: &str) -> Result<PathBuf, NetnsError> {
    let fits = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    if fits {
        Ok(Path::new(DIRECTORY).join(name))
    } else {
        Err(NetnsError::Name(name.to_owned()))
    }
}

/// Makes a new namespace, and a file at `path` that stands for it.
fn bind_new(path: &Path) -> io::Result<()> {
    File::options().write(true).create_new(true).open(path)?;
    // `unshare` changes the thread for good, so it is a thread of its own.
    let bound = std::thread::scope(|scope| {
        let apart = || {
            sys::netns::leave_network()?;
            rustix::mount::mount_bind("/proc/thread-self/ns/net", path)?;
            Ok(())
        };
        std::thread::Builder::new()
            .spawn_scoped(scope, apart)?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    });
    if bound.is_err() {
        _ = fs::remove_file(path);
    }
    bound
}

/// Makes a directory of namespaces a shared mount, as `ip netns add` does: a name removed in one mount
/// namespace then goes in all of them.
fn share(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    match rustix::mount::mount_change(directory, shared) {
        Err(rustix::io::Errno::INVAL) => {
            rustix::mount::mount_bind_recursive(directory, directory)?;
            Ok(rustix::mount::mount_change(directory, shared)?)
        }
        other => Ok(other?),
    }
}

#[cfg(test)]
pub(crate) mod tests;
