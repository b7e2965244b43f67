//! Descriptors: registering one with the runtime, taking one over that was inherited.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd, RawFd},
};

use tokio::io::{Interest, unix::AsyncFd};

/// Watches a descriptor for readability on the current runtime.
///
/// # Errors
///
/// The runtime cannot register it.
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned by what is returned, which keeps it open and is the only one
    // to have it; nothing replaces it.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    watched.map_err(io::Error::from)
}

/// A descriptor of our own for what an inherited one of this number is open on.
///
/// # Errors
///
/// The number is no open descriptor's.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call touches no memory, whatever the number is.
    let own = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if own < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(own) })
}
