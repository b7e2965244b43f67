//! Datagrams on their way out: a run of one size in one system call (`UDP_SEGMENT`), which the kernel
//! or the network card cuts.

use std::{
    io::{self, IoSlice},
    mem::size_of,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use socket2::{MsgHdr, SockAddr, SockRef};

use super::{Family, Sockets};
use crate::clock;

/// How datagrams are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// How long each is but the last, which may be shorter; `None` is one.
    pub segment: Option<u16>,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
}

impl Form {
    /// One datagram, of no class.
    pub const ONE: Self = Self {
        segment: None,
        traffic_class: 0,
    };

    /// So many bytes each, of no class.
    #[must_use]
    pub const fn segments(segment: Option<u16>) -> Self {
        Self {
            segment,
            traffic_class: 0,
        }
    }
}

impl Sockets {
    /// Sends the datagrams that stand in `parts` one behind the other: one, or several of one size, of
    /// which the last may be shorter. They leave from the address `from`, or from
    /// whichever the routes choose. When the kernel's buffer is full it waits a
    /// moment.
    ///
    /// # Errors
    ///
    /// The kernel's answer: `WouldBlock` when its buffer stays full; see
    /// [`refuses_segments`] and [`refuses_source`]. Nothing was sent then.
    pub fn send(
        &self,
        to: SocketAddr,
        from: Option<IpAddr>,
        parts: &[IoSlice<'_>],
        form: Form,
    ) -> io::Result<()> {
        let socket = self
            .socket(Family::of(to.ip()))
            .ok_or_else(|| io::Error::from(Errno::AFNOSUPPORT))?;
        let address = SockAddr::from(to);
        let mut control = Control::new();
        if let Some(segment) = form.segment {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        match from {
            Some(IpAddr::V4(from)) => {
                // `struct in_pktinfo`: no interface, the address, and one that counts on arrival only.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&from.octets());
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            Some(IpAddr::V6(from)) => {
                // `struct in6_pktinfo`: the address, no interface.
                let mut info = [0; 20];
                info[..16].copy_from_slice(&from.octets());
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        if form.traffic_class != 0 {
            let (level, kind) = match to {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            let class = libc::c_int::from(form.traffic_class);
            control.push(level, kind, &class.to_ne_bytes());
        }
        let message = MsgHdr::new().with_addr(&address).with_buffers(parts);
        let message = match control.bytes() {
            [] => message,
            control => message.with_control(control),
        };
        let send = || SockRef::from(socket).sendmsg(&message, libc::MSG_DONTWAIT);
        let mut patience_ends = None;
        loop {
            match send() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let now = clock::now();
                    if now >= *patience_ends.get_or_insert(now + PATIENCE) {
                        return Err(error);
                    }
                    // A signal ends the wait early, and the next try may begin another.
                    let _ = poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&PAUSE));
                }
                sent => return sent.map(drop),
            }
        }
    }
}

/// Whether an error of [`Sockets::send`] may mean that this destination takes no runs, but the same
/// datagrams one by one: the interface cannot compute their checksums (`EIO`), or a segment is larger
/// than the route's MTU (`EINVAL`, `EMSGSIZE`), or the kernel knows no `UDP_SEGMENT`.
#[must_use]
pub fn refuses_segments(error: &io::Error) -> bool {
    let refusals = [Errno::IO, Errno::INVAL, Errno::MSGSIZE, Errno::OPNOTSUPP];
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    number.is_some_and(|number| refusals.contains(&number))
}

/// Whether an error of [`Sockets::send`] may mean that the address to send from is none of this host's,
/// or that no route leads on from there.
#[must_use]
pub fn refuses_source(error: &io::Error) -> bool {
    let refusals = [Errno::INVAL, Errno::ADDRNOTAVAIL, Errno::NETUNREACH];
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    number.is_some_and(|number| refusals.contains(&number))
}

/// Control messages, one behind the other (`CMSG_SPACE`).
struct Control {
    bytes: [u8; CONTROL],
    used: usize,
}

impl Control {
    const fn new() -> Self {
        Self {
            bytes: [0; CONTROL],
            used: 0,
        }
    }

    fn push(&mut self, level: libc::c_int, kind: libc::c_int, payload: &[u8]) {
        let length = HEADER + payload.len();
        let head = length.to_ne_bytes().into_iter();
        let head = head.chain(level.to_ne_bytes()).chain(kind.to_ne_bytes());
        let fields = head.chain(payload.iter().copied());
        let room = self.bytes.iter_mut().skip(self.used);
        for (to, from) in room.zip(fields) {
            *to = from;
        }
        self.used += length.next_multiple_of(size_of::<usize>());
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

/// The most datagrams in a run (`UDP_MAX_SEGMENTS` of older kernels).
pub const LONGEST_RUN: usize = 64;

/// The most bytes in a run: an IPv4 packet without its headers.
pub const LARGEST_RUN: usize = 65_507;

/// `struct cmsghdr`: a length as wide as a pointer, level and type.
const HEADER: usize = size_of::<usize>() + 2 * size_of::<libc::c_int>();
/// Two numbers, and an address with its interface.
const CONTROL: usize = 3 * HEADER + 2 * size_of::<usize>() + 24;

/// A full send buffer empties at line rate: 8 MB take 67 ms at 1 Gbit/s.
const PATIENCE: Duration = Duration::from_millis(100);
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
