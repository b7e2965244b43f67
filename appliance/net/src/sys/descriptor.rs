//! Registering a descriptor with the runtime.

use std::{io, os::fd::OwnedFd};

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
