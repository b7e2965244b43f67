//! What waits where the kernel cannot wait in fractions of a millisecond.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
};

/// Adds the keys of what is ready in `epoll` at this moment, `N` at the most. Waits for nothing; any kernel
/// has this call.
///
/// # Errors
///
/// The kernel's answer, `EINTR` included.
pub fn ready<const N: usize>(epoll: BorrowedFd<'_>, keys: &mut Vec<u64>) -> io::Result<()> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; N];
    let most = libc::c_int::try_from(N).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel writes at most `most` events, and there is room for `N`.
    let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), most, 0) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    keys.extend(events.iter().take(count).map(|event| event.u64));
    Ok(())
}

/// From here on the kernel answers the calling thread's `epoll_pwait2` with `errno`, as one that does not
/// know it does.
#[cfg(test)]
pub fn forget_pwait2(errno: i32) -> io::Result<()> {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};

    let step = |code: u32, jf, k| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: 0,
        jf,
        k,
    };
    let mut steps = [
        // The number of the call is what comes first.
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0),
        step(
            BPF_JMP | BPF_JEQ | BPF_K,
            1,
            u32::try_from(libc::SYS_epoll_pwait2).unwrap(),
        ),
        step(
            BPF_RET | BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | u32::try_from(errno).unwrap(),
        ),
        step(BPF_RET | BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).unwrap(),
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: flags only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel copies the program, which is as long as it says, before the call returns.
    let status = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
