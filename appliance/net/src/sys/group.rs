//! Membership of a multicast group for one source only, on an interface that is named by its index.

use std::{
    io,
    mem::{size_of, zeroed},
    net::Ipv4Addr,
    os::fd::BorrowedFd,
};

use super::packet::set_option;

/// Joins `group` on an interface for what `source` sends there (RFC 3376 section 2, `INCLUDE`).
///
/// # Errors
///
/// The kernel's answer: no such interface, or too many memberships.
pub fn join_for_source(
    socket: BorrowedFd<'_>,
    ifindex: u32,
    group: Ipv4Addr,
    source: Ipv4Addr,
) -> io::Result<()> {
    let request = libc::group_source_req {
        gsr_interface: ifindex,
        gsr_group: storage(group),
        gsr_source: storage(source),
    };
    let name = libc::MCAST_JOIN_SOURCE_GROUP;
    set_option(socket, libc::IPPROTO_IP, name, &request)
}

fn storage(address: Ipv4Addr) -> libc::sockaddr_storage {
    // SAFETY: all zero is valid for both.
    let (mut storage, mut v4): (libc::sockaddr_storage, libc::sockaddr_in) =
        unsafe { (zeroed(), zeroed()) };
    v4.sin_family = u16::try_from(libc::AF_INET).unwrap_or_default();
    v4.sin_addr.s_addr = u32::from(address).to_be();
    const { assert!(size_of::<libc::sockaddr_in>() <= size_of::<libc::sockaddr_storage>()) };
    // SAFETY: a `sockaddr_storage` has room for, and the alignment of, any socket address.
    unsafe {
        std::ptr::from_mut(&mut storage)
            .cast::<libc::sockaddr_in>()
            .write(v4)
    };
    storage
}
