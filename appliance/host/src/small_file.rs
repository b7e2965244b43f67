//! Small files that a configuration points at: whatever lies there, reading it ends soon.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _},
    path::Path,
};

use zeroize::Zeroizing;

/// Opens a file, and nothing but a file.
///
/// # Errors
///
/// There is none, or it is a folder, a pipe or a device.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    // Before it is opened: opening a pipe keeps one of the role's threads until somebody writes.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// Reads a file of at most `at_most` bytes. What was read is wiped when it is dropped.
///
/// # Errors
///
/// It cannot be read, or has more.
pub fn read(file: File, at_most: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    // With its place from the start it never moves, which would leave a copy behind.
    let room = at_most.saturating_add(1);
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    let limit = u64::try_from(room).unwrap_or(u64::MAX);
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > at_most {
        let why = format!("it has more than {at_most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The first line of a file of the system, as far as it may stand anywhere; empty without one.
pub(crate) fn first_line(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default().trim();
    line.chars().filter(|c| !c.is_control()).take(253).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_no_further() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "12345").unwrap();
        let read = |at_most| read(open(&path).unwrap().0, at_most);
        assert_eq!(*read(5).unwrap(), b"12345");
        let error = read(4).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 4 bytes");
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        for no_file in [dir.path(), Path::new("/dev/zero")] {
            assert_eq!(open(no_file).unwrap_err().to_string(), "it is no file");
        }
        let nothing = open(&dir.path().join("nothing")).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::NotFound);
    }
}
