//! Pages of this process.

use std::io;

/// Gives back the pages of a mapping of a file that holds what the file holds: without the right to
/// write, and never written to.
///
/// # Errors
///
/// The kernel's answer: the range is not mapped.
pub fn forget(from: usize, to: usize) -> io::Result<()> {
    let address = from as *mut libc::c_void;
    let length = to.saturating_sub(from);
    // SAFETY: the pages hold what the file holds, and nobody can write to them; dropping and unlocking
    // them changes nothing that can be read.
    let done = unsafe {
        // What is locked cannot be given back, and whether it is cannot be asked.
        let locked = libc::madvise(address, length, libc::MADV_DONTNEED) != 0;
        if !locked {
            return Ok(());
        }
        libc::munlock(address, length) == 0
            && libc::madvise(address, length, libc::MADV_DONTNEED) == 0
            && libc::mlock2(address, length, libc::MLOCK_ONFAULT) == 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
