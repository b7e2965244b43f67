//! `AF_PACKET` sockets: the parts of the interface that no safe wrapper offers.

use std::{
    io,
    mem::{MaybeUninit, size_of, zeroed},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    time::Duration,
};

use rustix::net::{
    SendFlags,
    addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque},
    sendto,
};

/// A classic BPF instruction.
pub type Instruction = libc::sock_filter;

/// A station's hardware address.
pub type Mac = [u8; 6];

/// What a packet socket hands over: whole frames, or packets without the link-layer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Ethernet frames.
    Frame,
    /// Network-layer packets.
    Packet,
}

/// One received frame's size and origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its full length; more than the buffer when it was cut.
    pub length: usize,
    /// Who sent it.
    pub mac: Mac,
    /// The kernel saw it addressed to somebody else (a promiscuous interface).
    pub for_other_host: bool,
    /// This host sent it.
    pub outgoing: bool,
}

/// A packet socket bound to one interface. Unless it was opened to, it never sees what this host
/// sends.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    ifindex: i32,
    ethertype: u16,
}

impl PacketSocket {
    /// Opens the socket; the filter stands before the first packet can arrive.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `EPERM` without `CAP_NET_RAW`.
    pub fn open(
        layer: Layer,
        ethertype: u16,
        ifindex: u32,
        filter: &[Instruction],
    ) -> io::Result<Self> {
        Self::open_seeing(layer, ethertype, ifindex, filter, false)
    }

    /// The same for one that also sees what this host sends, where `own`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_seeing(
        layer: Layer,
        ethertype: u16,
        ifindex: u32,
        filter: &[Instruction],
        own: bool,
    ) -> io::Result<Self> {
        let socket = Self::create(layer, ethertype, ifindex)?;
        socket.set_filter(filter)?;
        set_option(
            socket.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            &libc::c_int::from(!own),
        )?;
        let address = socket.link_address([0; 6]);
        // SAFETY: `address` is a valid `sockaddr_ll` and its size is given.
        let status = unsafe {
            libc::bind(
                socket.fd.as_raw_fd(),
                (&raw const address).cast(),
                socklen::<libc::sockaddr_ll>(),
            )
        };
        if status == 0 {
            Ok(socket)
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Opens a socket that only sends. One that is waited for as well would have whoever waits looked up
    /// after each frame, to say that there is room again.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open).
    pub fn to_send(layer: Layer, ethertype: u16, ifindex: u32) -> io::Result<Self> {
        Self::create(layer, ethertype, ifindex)
    }

    fn create(layer: Layer, ethertype: u16, ifindex: u32) -> io::Result<Self> {
        let kind = match layer {
            Layer::Frame => libc::SOCK_RAW,
            Layer::Packet => libc::SOCK_DGRAM,
        };
        let ifindex = i32::try_from(ifindex).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers. Protocol 0 means that nothing arrives before `bind`.
        let fd = unsafe { libc::socket(libc::AF_PACKET, flags, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            fd,
            ifindex,
            ethertype,
        })
    }

    /// A duplicate of a socket of another process, which was opened with these.
    ///
    /// # Errors
    ///
    /// No such interface index.
    pub fn adopt(fd: OwnedFd, ethertype: u16, ifindex: u32) -> io::Result<Self> {
        let ifindex = i32::try_from(ifindex).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Self {
            fd,
            ifindex,
            ethertype,
        })
    }

    /// Replaces the filter in one step.
    ///
    /// # Errors
    ///
    /// The kernel refused the program.
    pub fn set_filter(&self, filter: &[Instruction]) -> io::Result<()> {
        set_filter(self.as_fd(), filter)
    }

    /// Takes one queued frame, if there is one. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` or `ENODEV` once after the interface went.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        // SAFETY: all zero is a valid `sockaddr_ll`.
        let mut from: libc::sockaddr_ll = unsafe { zeroed() };
        let mut from_length = socklen::<libc::sockaddr_ll>();
        // SAFETY: both pointers are valid for the lengths given with them.
        let length = unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                (&raw mut from).cast(),
                &raw mut from_length,
            )
        };
        match usize::try_from(length) {
            Ok(length) => {
                let [a, b, c, d, e, f, ..] = from.sll_addr;
                let for_other_host = from.sll_pkttype == libc::PACKET_OTHERHOST;
                Ok(Some(Arrival {
                    length,
                    mac: [a, b, c, d, e, f],
                    for_other_host,
                    outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
                }))
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Sends one frame. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn send(&self, to: Mac, frame: &[u8]) -> io::Result<()> {
        self.send_to(self.link_address(to), frame)
    }

    /// The same through another interface of the same namespace, from its hardware address.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` while that is down; no such interface index.
    pub fn send_through(&self, ifindex: u32, to: Mac, frame: &[u8]) -> io::Result<()> {
        let mut address = self.link_address(to);
        address.sll_ifindex = i32::try_from(ifindex).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.send_to(address, frame)
    }

    /// Not by the C library: ten times a second and nothing else, its code would be one more place to
    /// fetch from memory each time.
    fn send_to(&self, address: libc::sockaddr_ll, frame: &[u8]) -> io::Result<()> {
        sendto(&self.fd, frame, SendFlags::DONTWAIT, &LinkAddress(address))?;
        Ok(())
    }

    /// Packets the kernel dropped on this socket since the last call because the queue was full.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn take_drops(&self) -> io::Result<u32> {
        let mut statistics = MaybeUninit::<libc::tpacket_stats>::zeroed();
        let mut length = socklen::<libc::tpacket_stats>();
        // SAFETY: the pointer is valid for the length given with it.
        let status = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                statistics.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all zero is a valid `tpacket_stats`, and the kernel has filled it.
        Ok(unsafe { statistics.assume_init() }.tp_drops)
    }

    /// When the frame that was received last was seen, since 1970. The first call asks for stamps, and has
    /// none.
    ///
    /// # Errors
    ///
    /// The kernel's answer: nothing with a stamp was received yet.
    pub fn stamp(&self) -> io::Result<Duration> {
        // SAFETY: all zero is a valid `timespec`.
        let mut at: libc::timespec = unsafe { zeroed() };
        // SAFETY: the kernel fills the `timespec` that the pointer leads to.
        let status = unsafe { libc::ioctl(self.fd.as_raw_fd(), SIOCGSTAMPNS, &raw mut at) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        let seconds = u64::try_from(at.tv_sec).unwrap_or_default();
        Ok(Duration::new(
            seconds,
            u32::try_from(at.tv_nsec).unwrap_or_default(),
        ))
    }

    fn link_address(&self, mac: Mac) -> libc::sockaddr_ll {
        let [a, b, c, d, e, f] = mac;
        // SAFETY: all zero is a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
        address.sll_protocol = self.ethertype.to_be();
        address.sll_ifindex = self.ifindex;
        address.sll_halen = 6;
        address.sll_addr = [a, b, c, d, e, f, 0, 0];
        address
    }
}

/// A `sockaddr_ll` for the kernel.
struct LinkAddress(libc::sockaddr_ll);

// SAFETY: the pointer is to a valid `sockaddr_ll`, and its size is given.
unsafe impl SocketAddrArg for LinkAddress {
    unsafe fn with_sockaddr<R>(
        &self,
        act: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        act((&raw const self.0).cast(), socklen::<libc::sockaddr_ll>())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sets the queueing priority of everything a socket sends (`SO_PRIORITY`).
///
/// # Errors
///
/// The kernel's answer; values above 6 need `CAP_NET_ADMIN`.
pub fn set_priority(socket: BorrowedFd<'_>, priority: u8) -> io::Result<()> {
    set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_PRIORITY,
        &libc::c_int::from(priority),
    )
}

/// Replaces the filter of any socket in one step.
///
/// # Errors
///
/// The kernel refused the program.
pub fn set_filter(socket: BorrowedFd<'_>, filter: &[Instruction]) -> io::Result<()> {
    attach(socket, libc::SO_ATTACH_FILTER, filter)
}

/// Says which of the sockets that share a port gets a datagram: the number that the program answers with,
/// in the order of their binding.
///
/// # Errors
///
/// The kernel refused the program, or knows no such sharing.
pub fn set_steering(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    attach(socket, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

fn attach(socket: BorrowedFd<'_>, option: i32, program: &[Instruction]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel only reads the instructions.
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast_mut(),
    };
    set_option(socket, libc::SOL_SOCKET, option, &program)
}

/// Sets an option that has no other way in.
///
/// # Errors
///
/// The kernel's answer.
pub fn set_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` is valid for its own size and the kernel only reads it.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            socklen::<T>(),
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// From `asm-generic/sockios.h`; the libc crate lacks it. (`timespec` as C has it.)
const SIOCGSTAMPNS: libc::Ioctl = 0x8907;

fn socklen<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(libc::socklen_t::MAX)
}
