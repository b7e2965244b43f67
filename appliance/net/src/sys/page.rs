//! Memory that two processes share.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::NonNull,
    sync::atomic::AtomicU64,
};

/// Words of a file, mapped and shared. They are there as long as this is.
#[derive(Debug)]
pub struct Words {
    base: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: it owns its mapping, and all access to it is by atomics.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Maps the first `count` words of a file that is at least that long and never gets shorter.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn map(file: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        let bytes = count * size_of::<AtomicU64>();
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(address.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { base, count })
    }

    /// The words.
    pub fn get(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is `count` words long, page-aligned, readable and writable, every
        // bit pattern is an `AtomicU64`, and it lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and no reference outlives `self`.
        unsafe {
            libc::munmap(
                self.base.as_ptr().cast(),
                self.count * size_of::<AtomicU64>(),
            );
        }
    }
}
