//! System calls for UDP: how a datagram arrived, which no safe wrapper tells.

use std::{
    io,
    mem::{MaybeUninit, size_of, zeroed},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsRawFd, BorrowedFd},
};

use super::packet::set_option;

/// A datagram's size, and how it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its full length in bytes; more than the buffer when it was cut.
    pub length: usize,
    /// Who sent it.
    pub from: IpAddr,
    /// Where it was sent to, if the kernel said so.
    pub to: Option<IpAddr>,
    /// The index of the interface it came in by, 0 if the kernel did not say so.
    pub ifindex: u32,
    /// Its TTL or hop limit, if the kernel said so.
    pub ttl: Option<u8>,
}

/// Asks the kernel to say with each datagram where it was sent to, by which interface it came, and
/// with which TTL.
///
/// # Errors
///
/// The kernel's answer.
pub fn tell_arrivals(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    let options = if ipv6 {
        [libc::IPV6_RECVPKTINFO, libc::IPV6_RECVHOPLIMIT]
    } else {
        [libc::IP_PKTINFO, libc::IP_RECVTTL]
    };
    let level = if ipv6 {
        libc::IPPROTO_IPV6
    } else {
        libc::IPPROTO_IP
    };
    options
        .into_iter()
        .try_for_each(|option| set_option(socket, level, option, &1_i32))
}

/// Asks the kernel to say with each datagram where it was sent to, and with which traffic class.
///
/// # Errors
///
/// The kernel's answer.
pub fn tell_headers(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    let (level, options) = if ipv6 {
        let options = [libc::IPV6_RECVPKTINFO, libc::IPV6_RECVTCLASS];
        (libc::IPPROTO_IPV6, options)
    } else {
        (libc::IPPROTO_IP, [libc::IP_PKTINFO, libc::IP_RECVTOS])
    };
    options
        .into_iter()
        .try_for_each(|option| set_option(socket, level, option, &1_i32))
}

/// Takes one queued datagram, if there is one. Never waits.
///
/// # Errors
///
/// The kernel's answer.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
    // SAFETY: all zero is a valid `sockaddr_storage`.
    let mut from: libc::sockaddr_storage = unsafe { zeroed() };
    let mut told = MaybeUninit::<Told>::zeroed();
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zero is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = libc::socklen_t::try_from(size_of::<libc::sockaddr_storage>())
        .unwrap_or(libc::socklen_t::MAX);
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = told.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Told>();
    // SAFETY: every pointer in `message` is valid for the length given with it, for the call.
    let length = unsafe {
        libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut message,
            libc::MSG_DONTWAIT | libc::MSG_TRUNC,
        )
    };
    let Ok(length) = usize::try_from(length) else {
        return match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        };
    };
    let Some(sender) = address(&from) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut arrival = Arrival {
        length,
        from: sender,
        to: None,
        ifindex: 0,
        ttl: None,
    };
    // SAFETY: the kernel has written `msg_controllen` bytes of control messages into `told`, which
    // lives on and is aligned for them.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: `header` points to a whole control message within `told`.
        unsafe { take(&mut arrival, header) };
        // SAFETY: as above; it answers null behind the last.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(Some(arrival))
}

/// Notes what a control message says.
///
/// # Safety
///
/// `header` points to a whole control message.
unsafe fn take(arrival: &mut Arrival, header: *const libc::cmsghdr) {
    // SAFETY: by the caller; the kernel gives each of these types its own payload in full.
    unsafe {
        let payload = libc::CMSG_DATA(header);
        match ((*header).cmsg_level, (*header).cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                let ttl = payload.cast::<libc::c_int>().read_unaligned();
                arrival.ttl = u8::try_from(ttl).ok();
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let info = payload.cast::<libc::in_pktinfo>().read_unaligned();
                arrival.ifindex = u32::try_from(info.ipi_ifindex).unwrap_or_default();
                arrival.to = Some(v4(info.ipi_addr).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let info = payload.cast::<libc::in6_pktinfo>().read_unaligned();
                arrival.ifindex = info.ipi6_ifindex;
                arrival.to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
            }
            _ => {}
        }
    }
}

fn address(from: &libc::sockaddr_storage) -> Option<IpAddr> {
    let from = std::ptr::from_ref(from);
    // SAFETY: `sockaddr_storage` is large enough and aligned for both, and every bit pattern of
    // either is valid; the family says which one the kernel wrote.
    unsafe {
        match i32::from((*from).ss_family) {
            libc::AF_INET => Some(v4((*from.cast::<libc::sockaddr_in>()).sin_addr).into()),
            libc::AF_INET6 => {
                let address = (*from.cast::<libc::sockaddr_in6>()).sin6_addr;
                Some(Ipv6Addr::from(address.s6_addr).into())
            }
            _ => None,
        }
    }
}

pub(super) const fn v4(address: libc::in_addr) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from_be(address.s_addr))
}

/// Room for what [`tell_arrivals`] asks for, aligned as control messages are.
#[repr(C, align(8))]
struct Told([u8; 128]);
