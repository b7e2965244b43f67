//! System calls for `tun`.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Asks the kernel to make a TUN interface called `name` and to attach `fd` to it.
///
/// Without packet information, without persistence: the interface lives as long as the
/// descriptor. Each packet stands behind a `virtio_net_hdr`. One that exists already is refused, so that
/// nobody else's is taken over, unless `takes_over` says that it would be ours.
pub(crate) fn attach(fd: BorrowedFd<'_>, name: &str, takes_over: bool) -> io::Result<()> {
    let exclusive = if takes_over { 0 } else { libc::IFF_TUN_EXCL };
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | exclusive;
    let flags = libc::c_short::try_from(flags)
        .or_else(|_| u16::try_from(flags).map(u16::cast_signed))
        .map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags },
    };
    // The last byte stays zero: a longer name was refused by the caller.
    let room = libc::IFNAMSIZ - 1;
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: TUNSETIFF reads and writes one `ifreq` through the pointer, which is valid and
    // exclusively borrowed for the call; the descriptor is open while `fd` is borrowed.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Has the interface outlive the descriptor.
///
/// # Errors
///
/// The kernel's answer.
pub(crate) fn persist(fd: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_ulong = 1;
    // SAFETY: TUNSETPERSIST takes its argument by value; the descriptor is open while `fd` is borrowed.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETPERSIST, on) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The name of the interface that `fd` is attached to, and the flags it was made with.
pub(crate) fn attached(fd: BorrowedFd<'_>) -> io::Result<(String, libc::c_short)> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: 0 },
    };
    // SAFETY: TUNGETIFF writes one `ifreq` through the pointer, which is valid and exclusively
    // borrowed for the call; the descriptor is open while `fd` is borrowed.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNGETIFF, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let name = request.ifr_name.iter().take_while(|byte| **byte != 0);
    // C's characters have a sign on some machines and none on others.
    let name = name
        .map(|byte| char::from(u8::from_ne_bytes(byte.to_ne_bytes())))
        .collect();
    // SAFETY: the kernel wrote the flags, and zero before that is valid, too.
    Ok((name, unsafe { request.ifr_ifru.ifru_flags }))
}

/// Says which kinds of super packets may be read (`TUN_F_*`), in place of what was said before.
///
/// # Errors
///
/// The kernel's answer: `EINVAL` for a kind it does not know.
pub(crate) fn set_offload(fd: BorrowedFd<'_>, kinds: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value; the descriptor is open while `fd` is
    // borrowed.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, kinds) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Says how long the `virtio_net_hdr` before each packet is, in bytes.
///
/// # Errors
///
/// The kernel's answer.
pub(crate) fn set_header_length(fd: BorrowedFd<'_>, length: libc::c_int) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one `int` through the pointer, which is valid for the call; the
    // descriptor is open while `fd` is borrowed.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const length) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
