//! Writing files so that a reader sees the old content or the new, never half of either.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Mode of files anybody may read.
pub const PUBLIC: u32 = 0o644;
/// Mode of files that hold secrets.
pub const SECRET: u32 = 0o600;

/// Replaces the file at once: written beside it, flushed, renamed, and the directory flushed.
///
/// # Errors
///
/// The directory cannot be made or written.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let (directory, temporary) = prepare(path)?;
    let written = write_new(&temporary, content, mode).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _: io::Result<()> = fs::remove_file(&temporary);
    }
    written?;
    sync(&directory)
}

/// Creates the file unless it exists; says whether it did. The content is complete before the
/// name appears, so that of two creators one wins and both read the same bytes.
///
/// # Errors
///
/// The directory cannot be made or written.
pub fn create(path: &Path, content: &[u8], mode: u32) -> io::Result<bool> {
    let (directory, temporary) = prepare(path)?;
    let linked =
        write_new(&temporary, content, mode).and_then(|()| match fs::hard_link(&temporary, path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        });
    let _: io::Result<()> = fs::remove_file(&temporary);
    let created = linked?;
    sync(&directory)?;
    Ok(created)
}

/// Removes the file and the directories it leaves empty, up to and without `root`.
///
/// # Errors
///
/// The file exists and cannot be removed.
pub fn remove(path: &Path, root: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    let above = path.ancestors().skip(1);
    for directory in above.take_while(|directory| *directory != root && directory.starts_with(root))
    {
        if fs::remove_dir(directory).is_err() {
            break;
        }
    }
    Ok(())
}

/// A folder that cannot be listed, and why.
pub type Unlisted = (PathBuf, io::Error);

/// The YAML files below `base`, in order, without hidden ones and without these top directories.
///
/// # Errors
///
/// A folder cannot be listed: what is in it may still be there.
pub fn yaml(base: &Path, without: &[&str]) -> Result<Vec<PathBuf>, Unlisted> {
    let mut found = Vec::new();
    let mut open = vec![(base.to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        let failed = |error| (directory.clone(), error);
        let entries = match fs::read_dir(&directory) {
            // Removed between two looks.
            Err(error) if depth > 0 && error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || (depth == 0 && without.contains(&&*name)) {
                continue;
            }
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() || (kind.is_symlink() && path.is_dir()) {
                if depth < MAX_DEPTH {
                    open.push((path, depth + 1));
                }
            } else if name.ends_with(".yaml") || name.ends_with(".yml") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn prepare(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // One process writes a store (it holds its lock), so its id makes the name unique.
    let temporary = directory.join(format!(".{name}.{}.tmp", std::process::id()));
    Ok((directory.to_owned(), temporary))
}

fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let _: io::Result<()> = fs::remove_file(path);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

const MAX_DEPTH: usize = 16;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_are_replaced_whole_created_once_and_removed_with_their_directories() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/c.yaml");
        replace(&path, b"one", SECRET).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            SECRET
        );
        replace(&path, b"two", SECRET).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert!(!create(&path, b"three", SECRET).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        remove(&path, root.path()).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        assert!(create(&path, b"three", SECRET).unwrap());
    }
}
