//! Signals that this process does not react to.

use std::io;

/// Ignores `signals` from here on.
///
/// # Errors
///
/// The kernel's answer: no such signal.
pub fn ignore(signals: &[i32]) -> io::Result<()> {
    for signal in signals {
        // SAFETY: SIG_IGN runs no code of ours.
        if unsafe { libc::signal(*signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
