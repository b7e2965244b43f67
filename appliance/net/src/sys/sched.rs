//! Scheduling class and memory locking of the calling thread and process.

use std::io;

/// Puts the calling thread into `SCHED_FIFO`; threads it starts later return to the normal class.
///
/// # Errors
///
/// The kernel's answer, `EPERM` without `CAP_SYS_NICE` or a sufficient `RLIMIT_RTPRIO`.
pub fn set_fifo(priority: i32) -> io::Result<()> {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `param` is a valid `sched_param` for the time of the call; pid 0 is this thread.
    let status = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Keeps every page of the process in memory once it was touched.
///
/// # Errors
///
/// The kernel's answer, `EPERM` or `ENOMEM` without a sufficient `RLIMIT_MEMLOCK`.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: the call takes flags only and changes no memory Rust knows of.
    let status =
        unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
