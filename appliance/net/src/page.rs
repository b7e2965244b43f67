//! A file of 64-bit words that two processes share, to tell each other without a system call where
//! they are.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::Path,
    sync::atomic::AtomicU64,
};

use crate::sys::page::Words;

/// The shared words.
#[derive(Debug)]
pub struct Page {
    file: File,
    words: Words,
}

impl Page {
    /// A page of `count` zeros in the place of a file of that name, for this user alone. Who has
    /// the earlier one open keeps it.
    ///
    /// # Errors
    ///
    /// The directory cannot be written, or there is no memory.
    pub fn create(path: &Path, count: usize) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let bytes = u64::try_from(count * size_of::<AtomicU64>()).unwrap_or(u64::MAX);
        file.set_len(bytes)?;
        let words = Words::map(file.as_fd(), count)?;
        Ok(Self { file, words })
    }

    /// The page of another process.
    ///
    /// # Errors
    ///
    /// It is no file of that length, or there is no memory.
    pub fn open(file: OwnedFd, count: usize) -> io::Result<Self> {
        let file = File::from(file);
        let bytes = u64::try_from(count * size_of::<AtomicU64>()).unwrap_or(u64::MAX);
        if file.metadata()?.size() != bytes {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let words = Words::map(file.as_fd(), count)?;
        Ok(Self { file, words })
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.words.get()
    }
}

impl AsFd for Page {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_one_writes_the_other_reads_and_a_new_page_is_another() {
        let path = std::env::temp_dir().join(format!("kedge-page-{}", std::process::id()));
        let first = Page::create(&path, 16).unwrap();
        let other = Page::open(first.as_fd().try_clone_to_owned().unwrap(), 16).unwrap();
        first.words()[15].store(7, Ordering::Release);
        assert_eq!(other.words()[15].load(Ordering::Acquire), 7);
        let second = Page::create(&path, 16).unwrap();
        assert_eq!(second.words()[15].load(Ordering::Acquire), 0);
        assert_eq!(other.words()[15].load(Ordering::Acquire), 7);
        let shorter = second.as_fd().try_clone_to_owned().unwrap();
        assert!(Page::open(shorter, 17).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
