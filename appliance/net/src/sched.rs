//! The scheduling class of a thread whose deadlines matter.

use std::{
    fmt, io,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    process::{Resource, getrlimit},
    thread::{CapabilitySet, capabilities},
};

use crate::sys;

/// The real-time priority of the thread that speaks VRRP.
pub const VRRP_PRIORITY: i32 = 40;

/// The real-time priority of the process that speaks when that thread can no longer.
pub const GUARDIAN_PRIORITY: i32 = 41;

/// What a thread got, to be shown where the intervals it can keep are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `SCHED_FIFO` at this priority.
    Fifo(i32),
    /// The normal class, because real time was not asked for.
    Normal,
    /// The normal class, because the kernel refused real time (the OS error number).
    Refused(i32),
}

/// Asks for `SCHED_FIFO` for the calling thread and says what came of it.
#[must_use]
pub fn real_time(priority: i32) -> Class {
    match sys::sched::set_fifo(priority) {
        Ok(()) => Class::Fifo(priority),
        Err(error) => Class::Refused(error.raw_os_error().unwrap_or_default()),
    }
}

/// Has the kernel no longer write down for the calling thread, each time that is woken, on which processor it
/// is: the C library wants to know, and a thread that sleeps for a tenth of a second between two packets
/// pays for that with memory that has to be fetched. Nothing else changes: who asks is told by the kernel.
///
/// # Errors
///
/// Nothing is written down, or it cannot be changed.
pub fn without_restartable_sequences() -> io::Result<()> {
    sys::sched::end_restartable_sequences()
}

/// Keeps the process's pages in memory once they were touched, so that a deadline does not wait for
/// a disk.
///
/// # Errors
///
/// The kernel's answer, or there is a limit: a process that reaches one later gets no memory at
/// all. Working without it is possible.
pub fn lock_memory() -> io::Result<()> {
    let limit = getrlimit(Resource::Memlock).current;
    let capable = capabilities(None)?
        .effective
        .contains(CapabilitySet::IPC_LOCK);
    match limit {
        Some(limit) if !capable => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("RLIMIT_MEMLOCK is {limit} bytes, and CAP_IPC_LOCK is missing"),
        )),
        Some(_) | None => {
            sys::sched::lock_memory()?;
            LOCKED.store(true, Ordering::Release);
            Ok(())
        }
    }
}

/// Does something for which nothing may be locked, and locks the memory again if it was.
///
/// # Errors
///
/// The kernel's answer.
pub(crate) fn while_unlocked<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    if !LOCKED.load(Ordering::Acquire) {
        return Ok(act());
    }
    sys::memory::unlock()?;
    let done = act();
    sys::sched::lock_memory()?;
    Ok(done)
}

/// Whether the memory of this process is locked.
static LOCKED: AtomicBool = AtomicBool::new(false);

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(priority) => write!(f, "real time (SCHED_FIFO {priority})"),
            Self::Normal => f.write_str("normal"),
            Self::Refused(errno) => write!(
                f,
                "normal, because real time was refused ({}): set LimitRTPRIO={VRRP_PRIORITY} or \
                 give CAP_SYS_NICE",
                io::Error::from_raw_os_error(*errno)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_restartable_sequences_still_knows_its_processor() {
        let first = std::thread::spawn(|| {
            let first = without_restartable_sequences();
            if first.is_ok() {
                let again = without_restartable_sequences().unwrap_err();
                assert_eq!(again.raw_os_error(), Some(libc::EINVAL), "it is done");
            }
            let here = rustix::thread::sched_getcpu();
            let all = std::thread::available_parallelism().unwrap().get();
            assert!(here < all.max(1024), "{here}");
            first
        });
        // The C library of this system writes down since 2.35.
        if cfg!(target_env = "gnu") {
            first.join().unwrap().unwrap();
        }
    }

    #[test]
    fn memory_is_locked_where_no_limit_can_be_reached_later() {
        match lock_memory() {
            Ok(()) => {
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let locked = status.lines().find(|line| line.starts_with("VmLck:"));
                let locked = locked.and_then(|line| line.split_whitespace().nth(1));
                assert!(locked.unwrap().parse::<u64>().unwrap() > 0, "{locked:?}");
            }
            Err(error) => assert!(error.to_string().contains("RLIMIT_MEMLOCK"), "{error}"),
        }
    }
}
