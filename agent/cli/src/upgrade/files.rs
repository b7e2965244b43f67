//! Files that take the place of others: all of them written first, then each in one step.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use super::{
    archive::{Content, File},
    installed::EXECUTABLE,
};

/// Files that lie beside those whose place they will take. They go when it is dropped.
#[derive(Debug, Default)]
pub struct Staged {
    /// Where each lies, and where it belongs.
    files: Vec<(PathBuf, PathBuf)>,
}

impl Staged {
    /// Writes these files. Configuration that is there stays as it is.
    ///
    /// # Errors
    ///
    /// A folder cannot be written. Nothing has changed then.
    pub fn write(root: &Path, files: &[File]) -> io::Result<Self> {
        let mut staged = Self::default();
        for file in files {
            let place = root.join(&file.path);
            if file.is_configuration() && place.symlink_metadata().is_ok() {
                continue;
            }
            staged.add(place, &file.content)?;
        }
        Ok(staged)
    }

    /// Writes one more.
    ///
    /// # Errors
    ///
    /// Its folder cannot be written.
    pub fn add(&mut self, place: PathBuf, content: &Content) -> io::Result<()> {
        let folder = place.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let beside = folder.join(format!(".{name}.kedge-new"));
        remove_if_there(&beside)?;
        self.files.push((beside.clone(), place));
        match content {
            Content::Link(to) => symlink(to, beside),
            Content::Bytes(bytes, mode) => {
                let mut options = OpenOptions::new();
                let mut file = options
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&beside)?;
                file.write_all(bytes)?;
                file.set_permissions(fs::Permissions::from_mode(*mode))?;
                file.sync_all()
            }
        }
    }

    /// Where the executable lies until then, if it is among them.
    pub fn executable(&self, root: &Path) -> Option<&Path> {
        let place = root.join(EXECUTABLE);
        let staged = self.files.iter().find(|(_, to)| *to == place);
        staged.map(|(beside, _)| beside.as_path())
    }

    /// Puts each into its place; the executable last, so that what it needs is there.
    ///
    /// # Errors
    ///
    /// A folder cannot be written: some are in their places then.
    pub fn commit(mut self) -> io::Result<()> {
        self.files.sort_by_key(|(_, to)| to.ends_with(EXECUTABLE));
        for (beside, place) in &self.files {
            fs::rename(beside, place)?;
        }
        let mut folders: Vec<_> = self.files.iter().filter_map(|it| it.1.parent()).collect();
        folders.sort_unstable();
        folders.dedup();
        for folder in folders {
            fs::File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for (beside, _) in &self.files {
            _ = fs::remove_file(beside);
        }
    }
}

/// Puts one file into its place.
///
/// # Errors
///
/// Its folder cannot be written.
pub fn put(place: &Path, content: &Content) -> io::Result<()> {
    let mut staged = Staged::default();
    staged.add(place.to_owned(), content)?;
    staged.commit()
}

/// Removes a file that need not be there.
///
/// # Errors
///
/// It is there, and stays.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
