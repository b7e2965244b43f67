//! System calls for `netns`: leaving a namespace, and children that die with their parent.

use std::{
    io,
    os::unix::process::{CommandExt, parent_id},
    process::Command,
};

use rustix::{
    process::{Signal, set_parent_process_death_signal},
    thread::UnshareFlags,
};

/// Moves the calling thread into a fresh, empty network namespace.
///
/// # Errors
/// What the kernel answered; without privilege `EPERM`.
pub fn leave_network() -> io::Result<()> {
    // SAFETY: `NEWNET` alone: the file table stays shared, which is what the contract of
    // `unshare_unsafe` is about.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from)
}

/// Makes the child ask for SIGKILL when the *thread* that spawned it ends.
///
/// The child asks for itself, because the setting belongs to the process that dies and is
/// cleared by fork; it survives exec, so it also covers programs that know nothing of it. A
/// parent that died in between is noticed by the changed parent id.
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if parent_id() == parent {
            Ok(())
        } else {
            Err(io::ErrorKind::NotConnected.into())
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls (prctl, getppid) and
    // allocates nothing; `ErrorKind` converts without allocating.
    unsafe { command.pre_exec(ask) };
}
