//! Pages of this process.

use std::io;

/// Gives back the pages of a mapping of a file that holds what the file holds: without the right to
/// write, and never written to. Nothing may be locked.
///
/// # Errors
///
/// The kernel's answer: the range is not mapped, or locked.
pub fn forget(from: usize, to: usize) -> io::Result<()> {
    let (address, length) = (from as *mut libc::c_void, to.saturating_sub(from));
    // SAFETY: the pages hold what the file holds, and nobody can write to them; dropping them changes
    // nothing that can be read.
    let done = unsafe { libc::madvise(address, length, libc::MADV_DONTNEED) == 0 };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Gives back what lies free in the heap of the C library. Nothing may be locked.
pub fn trim_heap() {
    // SAFETY: it gives back what is allocated to nobody.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Gives back what the calling thread used of its stack, which begins at `end`, and uses no longer.
/// Nothing may be locked, and it must be the thread of that stack: nothing is done otherwise.
pub fn forget_stack(end: usize, start: usize) {
    let here = &raw const end as usize;
    // What is called from here lies below, and takes far less.
    let Some(unused) = here.checked_sub(BELOW).map(|it| it - it % PAGE) else {
        return;
    };
    if !(end..start).contains(&here) || unused <= end {
        return;
    }
    // SAFETY: the stack of this thread grows down to here and no further: below is what calls that have
    // returned left behind, which nobody may read.
    unsafe {
        libc::madvise(end as *mut libc::c_void, unused - end, libc::MADV_DONTNEED);
    }
}

/// Unlocks everything, and nothing will be locked that is mapped later.
///
/// # Errors
///
/// The kernel's answer.
pub fn unlock() -> io::Result<()> {
    // SAFETY: the call takes nothing and changes no memory Rust knows of.
    match unsafe { libc::munlockall() } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

const PAGE: usize = 4096;
const BELOW: usize = 4 * PAGE;
