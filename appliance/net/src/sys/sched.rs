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

/// Ends restartable sequences for the calling thread, which the C library asked for when it began.
///
/// # Errors
///
/// The C library asked for none, or in a way that is not known here: then nothing has changed.
pub fn end_restartable_sequences() -> io::Result<()> {
    let area = rseq_area().ok_or(io::ErrorKind::Unsupported)?;
    // SAFETY: the kernel compares all four with what was registered, refuses anything else, and then writes
    // to that area once more, which belongs to this thread as long as it lives. Who reads it there finds that
    // no processor is told any more and asks the kernel.
    let status = unsafe {
        libc::syscall(
            libc::SYS_rseq,
            area,
            RSEQ_LENGTH,
            RSEQ_FLAG_UNREGISTER,
            RSEQ_SIGNATURE,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Where the C library has the calling thread's `struct rseq`: glibc says so from 2.35 on.
fn rseq_area() -> Option<usize> {
    // SAFETY: the name is a string that ends; the answer is the place of a variable or nothing.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    if offset.is_null() {
        return None;
    }
    // SAFETY: it is a `ptrdiff_t` that is set before the program begins and never changes.
    let offset = unsafe { *offset.cast::<isize>() };
    Some(thread_pointer()?.wrapping_add_signed(offset))
}

#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> Option<usize> {
    let pointer: usize;
    // SAFETY: the first word of a thread's control block is its own address, in every ABI of this processor.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    Some(pointer)
}

#[cfg(target_arch = "aarch64")]
fn thread_pointer() -> Option<usize> {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    Some(pointer)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn thread_pointer() -> Option<usize> {
    None
}

/// `sizeof(struct rseq)` as it was first.
const RSEQ_LENGTH: libc::c_uint = 32;
const RSEQ_FLAG_UNREGISTER: libc::c_int = 1;
/// `RSEQ_SIG` of glibc.
#[cfg(target_arch = "aarch64")]
const RSEQ_SIGNATURE: libc::c_uint = 0xd428_bc00;
#[cfg(not(target_arch = "aarch64"))]
const RSEQ_SIGNATURE: libc::c_uint = 0x5305_3053;
