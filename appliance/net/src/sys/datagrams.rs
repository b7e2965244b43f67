//! System calls for many datagrams at once, which no safe wrapper offers: `recvmmsg` with `UDP_GRO`.

use std::{
    io,
    mem::{MaybeUninit, size_of, zeroed},
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    os::fd::{AsRawFd, BorrowedFd},
};

use super::udp::v4;

/// What the kernel put into one buffer: a datagram, or several of one sender and one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// How many bytes of the buffer it fills.
    pub length: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// To which address of this host, if the kernel said so.
    pub at: Option<IpAddr>,
    /// The size of every datagram in it but the last, which may be shorter; the whole where it is
    /// one.
    pub stride: usize,
    /// Type of service, or traffic class; zero if the kernel did not say.
    pub traffic_class: u8,
    /// Whether the buffer was too small for it.
    pub cut: bool,
}

/// Takes what is queued, at most [`MOST`] bundles, each into its own `size` bytes of `buffers`, and
/// says in `bundles` what came. Never waits. `None` stands for a sender that is no IP address.
///
/// # Errors
///
/// The kernel's answer: `WouldBlock` when nothing is queued.
pub fn receive(
    socket: BorrowedFd<'_>,
    buffers: &mut [u8],
    size: usize,
    bundles: &mut [Option<Bundle>],
) -> io::Result<usize> {
    let mut names = [const { MaybeUninit::<Name>::uninit() }; MOST];
    let mut told = [const { MaybeUninit::<Told>::uninit() }; MOST];
    let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; MOST];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MOST];
    let mut count = 0;
    let places = names.iter_mut().zip(&mut told).zip(&mut parts);
    for ((((name, told), part), message), buffer) in places
        .zip(&mut messages)
        .zip(buffers.chunks_exact_mut(size))
        .take(bundles.len())
    {
        let part = part.write(libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        });
        // SAFETY: all zero is a valid `mmsghdr`.
        let message = message.write(unsafe { zeroed() });
        message.msg_hdr.msg_name = name.as_mut_ptr().cast();
        message.msg_hdr.msg_namelen =
            libc::socklen_t::try_from(size_of::<Name>()).unwrap_or_default();
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = told.as_mut_ptr().cast();
        message.msg_hdr.msg_controllen = size_of::<Told>();
        count += 1;
    }
    // SAFETY: the first `count` messages are initialised, and every pointer in them is valid for the
    // length given with it until this function returns; the buffers do not overlap.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr().cast(),
            count,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
        )
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (bundle, message) in bundles.iter_mut().zip(&messages).take(received) {
        // SAFETY: `recvmmsg` has filled the first `received` messages, which were initialised.
        let message = unsafe { message.assume_init_ref() };
        // SAFETY: its name and control messages live on in `names` and `told`, as far as the kernel
        // says that it has written them.
        *bundle = unsafe { read(message) };
    }
    Ok(received)
}

/// What a filled message says.
///
/// # Safety
///
/// Name and control messages are valid as far as their lengths in `message` go.
unsafe fn read(message: &libc::mmsghdr) -> Option<Bundle> {
    let length = usize::try_from(message.msg_len).ok()?;
    let header = &message.msg_hdr;
    // SAFETY: by the caller.
    let from = unsafe { sender(header) }?;
    let (mut stride, mut at, mut traffic_class) = (length, None, 0);
    // SAFETY: by the caller; `Told` is aligned for control messages.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !control.is_null() {
        // SAFETY: `control` points to a whole control message.
        let (level, kind, payload) = unsafe {
            let payload = libc::CMSG_DATA(control);
            ((*control).cmsg_level, (*control).cmsg_type, payload)
        };
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                // SAFETY: the kernel gives this type an `int`.
                let told = unsafe { payload.cast::<libc::c_int>().read_unaligned() };
                stride = usize::try_from(told)
                    .unwrap_or_default()
                    .clamp(1, length.max(1));
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: the kernel gives this type an `in_pktinfo`.
                let told = unsafe { payload.cast::<libc::in_pktinfo>().read_unaligned() };
                at = Some(v4(told.ipi_spec_dst).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: the kernel gives this type an `in6_pktinfo`.
                let told = unsafe { payload.cast::<libc::in6_pktinfo>().read_unaligned() };
                at = Some(Ipv6Addr::from(told.ipi6_addr.s6_addr).into());
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                // SAFETY: the kernel gives this type a byte.
                traffic_class = unsafe { payload.read() };
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // SAFETY: the kernel gives this type an `int`.
                let told = unsafe { payload.cast::<libc::c_int>().read_unaligned() };
                traffic_class = u8::try_from(told).unwrap_or_default();
            }
            _ => {}
        }
        // SAFETY: as above; it answers null behind the last.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
    Some(Bundle {
        length,
        from,
        at,
        stride,
        traffic_class,
        cut: header.msg_flags & libc::MSG_TRUNC != 0,
    })
}

/// Who sent it.
///
/// # Safety
///
/// The name in `header` is a [`Name`], written as far as its length goes.
unsafe fn sender(header: &libc::msghdr) -> Option<SocketAddr> {
    let written = usize::try_from(header.msg_namelen).ok()?;
    if written < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: the family is the first field of both, and was written.
    let family = i32::from(unsafe { (*header.msg_name.cast::<libc::sockaddr_in>()).sin_family });
    match family {
        libc::AF_INET => {
            // SAFETY: so many bytes were written, and every bit pattern is valid.
            let name = unsafe { *header.msg_name.cast::<libc::sockaddr_in>() };
            Some(SocketAddrV4::new(v4(name.sin_addr), u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 if written >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: so many bytes were written, and every bit pattern is valid.
            let name = unsafe { *header.msg_name.cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            // A flow label is the sender's, and none of where an answer goes.
            Some(SocketAddrV6::new(address, port, 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Room for the address of either family; that of IPv6 is the longer and more aligned one.
type Name = libc::sockaddr_in6;

/// Room for the control messages that were asked for, aligned as they are.
#[repr(C, align(8))]
struct Told([u8; 128]);

/// The most bundles that one call takes.
pub const MOST: usize = 32;
