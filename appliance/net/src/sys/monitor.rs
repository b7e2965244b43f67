//! Registering a monitor with the runtime.

use std::io;

use tokio::io::{Interest, unix::AsyncFd};

use crate::monitor::Monitor;

/// Watches the monitor's socket for readability on the current runtime.
///
/// # Errors
///
/// The runtime cannot register the socket.
pub fn watch(monitor: Monitor) -> io::Result<AsyncFd<Monitor>> {
    // SAFETY: a monitor owns its socket, keeps it open as long as it lives and never replaces it,
    // and nothing that has `&mut` access to a watched monitor hands it out.
    let watched = unsafe { AsyncFd::register_with_interest(monitor, Interest::READABLE) };
    watched.map_err(io::Error::from)
}
