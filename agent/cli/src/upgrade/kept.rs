//! What the last upgrade replaced, kept so that there is a way back.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use kedge_control::local::PackageForm;
use kedge_core::{Code, Fix, Problem};
use kedge_host::Root;
use semver::Version;
use serde::{Deserialize, Serialize};

use super::{
    archive::Content,
    files::{Staged, remove_if_there},
    installed::{Installed, is_ours},
};

/// The folder of upgrades, held by one process at a time.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
    root: PathBuf,
    _lock: File,
}

/// What was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Its version.
    pub version: Version,
    /// How it was installed.
    pub form: PackageForm,
    /// The version that took its place.
    pub replaced_by: Version,
    /// Files that are kept, by where they belong.
    pub files: Vec<String>,
    /// Files that came with the other version and were not there before.
    pub added: Vec<String>,
    /// The image that was merged, of a system extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<PathBuf>,
}

impl Kept {
    /// The folder below a root.
    ///
    /// # Errors
    ///
    /// It cannot be written, or another upgrade is under way.
    pub fn of(root: &Root) -> Result<Self, Problem> {
        let folder = root.path().join(FOLDER);
        let failed = |error: &io::Error| super::not_installed(&folder, error);
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| failed(&error))?;
        let lock = File::create(folder.join("lock")).map_err(|error| failed(&error))?;
        if lock.try_lock().is_err() {
            return Err(
                Problem::new(Code::PkgNotInstalled, "another upgrade is under way")
                    .consequence("nothing was changed")
                    .fix(Fix::text("wait until it has ended")),
            );
        }
        Ok(Self {
            folder,
            root: root.path().to_owned(),
            _lock: lock,
        })
    }

    /// Keeps what is installed, until [`Kept::settle`] beside what was kept before.
    ///
    /// # Errors
    ///
    /// The disk is full, or a file is not there.
    pub fn keep(&self, installed: &Installed, mut before: Before) -> io::Result<()> {
        let fresh = self.folder.join("new");
        remove_folder(&fresh)?;
        for path in &installed.files {
            let (from, to) = (self.root.join(path), fresh.join("files").join(path));
            fs::create_dir_all(to.parent().unwrap_or(&fresh))?;
            match copy(&from, &to) {
                Ok(()) => before.files.push(path.clone()),
                // Somebody took it away: there is nothing to put back.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        fs::create_dir_all(&fresh)?;
        fs::write(fresh.join(RECORD), serde_json::to_vec_pretty(&before)?)?;
        File::open(&fresh)?.sync_all()?;
        remove_folder(&self.attempt())?;
        fs::rename(&fresh, self.attempt())?;
        File::open(&self.folder)?.sync_all()
    }

    /// The upgrade has succeeded: what it replaced is what there is to go back to.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn settle(&self) -> io::Result<()> {
        let previous = self.folder.join(PREVIOUS);
        remove_folder(&previous)?;
        fs::rename(self.attempt(), previous)?;
        File::open(&self.folder)?.sync_all()
    }

    /// What there is to go back to.
    ///
    /// # Errors
    ///
    /// There is nothing, or it cannot be read.
    pub fn before(&self) -> Result<Before, Problem> {
        let path = self.place().join(RECORD);
        let nothing = |error: &dyn std::error::Error| {
            Problem::new(Code::PkgNoWayBack, Code::PkgNoWayBack.title())
                .object(path.display().to_string())
                .caused_by(error)
                .consequence("nothing was changed")
                .fix(
                    Fix::text("install the version you want from its release")
                        .command("kedge upgrade RELEASE --to VERSION --allow-downgrade"),
                )
        };
        let text = fs::read(&path).map_err(|error| nothing(&error))?;
        let before: Before = serde_json::from_slice(&text).map_err(|error| nothing(&error))?;
        match before
            .files
            .iter()
            .chain(&before.added)
            .find(|it| !is_ours(it))
        {
            Some(path) => Err(nothing(&io::Error::other(format!("it names {path}")))),
            None => Ok(before),
        }
    }

    /// Puts the files back into their places, and takes away what came with the other version.
    ///
    /// # Errors
    ///
    /// A folder cannot be written.
    pub fn put_back(&self, before: &Before) -> io::Result<()> {
        let mut staged = Staged::default();
        for path in &before.files {
            let kept = self.place().join("files").join(path);
            staged.add(self.root.join(path), &content(&kept)?)?;
        }
        staged.commit()?;
        for path in &before.added {
            remove_if_there(&self.root.join(path))?;
        }
        Ok(())
    }

    /// What was kept last is installed again. What was kept before it stays.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn forget(&self) -> io::Result<()> {
        remove_folder(&self.place())
    }

    /// Where packages lie that were installed, for a way back.
    ///
    /// # Errors
    ///
    /// The folder cannot be made.
    pub fn packages(&self) -> io::Result<PathBuf> {
        let place = self.folder.join("packages");
        fs::create_dir_all(&place)?;
        Ok(place)
    }

    /// What was replaced last: by an upgrade that is under way or was cut short, or by one that succeeded.
    fn place(&self) -> PathBuf {
        let attempt = self.attempt();
        match attempt.exists() {
            true => attempt,
            false => self.folder.join(PREVIOUS),
        }
    }

    fn attempt(&self) -> PathBuf {
        self.folder.join("attempt")
    }
}

/// The same file under another name, or a copy of it where that is on another file system.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.symlink_metadata()?.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    match fs::hard_link(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => fs::copy(from, to).map(drop),
        done => done,
    }
}

fn content(path: &Path) -> io::Result<Content> {
    let metadata = path.symlink_metadata()?;
    if metadata.is_symlink() {
        let to = fs::read_link(path)?;
        return Ok(Content::Link(to.to_string_lossy().into_owned()));
    }
    let mode = metadata.permissions().mode() & 0o777;
    Ok(Content::Bytes(fs::read(path)?, mode))
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

const FOLDER: &str = "var/lib/kedge/upgrade";
const PREVIOUS: &str = "previous";
const RECORD: &str = "record.json";
