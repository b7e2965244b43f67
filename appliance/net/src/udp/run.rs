//! Datagrams on their way out: a run of one size in one system call (`UDP_SEGMENT`), which the kernel
//! or the network card cuts.

use std::{
    io::{self, IoSlice},
    mem::size_of,
    net::SocketAddr,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use socket2::{MsgHdr, SockAddr, SockRef};

use super::{Family, Sockets};
use crate::clock;

impl Sockets {
    /// Sends the datagrams that stand in `parts` one behind the other: one, or several of `segment`
    /// bytes each, of which the last may be shorter. When the kernel's buffer is full it waits a
    /// moment.
    ///
    /// # Errors
    ///
    /// The kernel's answer: `WouldBlock` when its buffer stays full; see
    /// [`refuses_segments`]. Nothing was sent then.
    pub fn send(
        &self,
        to: SocketAddr,
        parts: &[IoSlice<'_>],
        segment: Option<u16>,
    ) -> io::Result<()> {
        let socket = self
            .socket(Family::of(to.ip()))
            .ok_or_else(|| io::Error::from(Errno::AFNOSUPPORT))?;
        let address = SockAddr::from(to);
        let control = segment.map(segment_size);
        let message = MsgHdr::new().with_addr(&address).with_buffers(parts);
        let message = match &control {
            Some(control) => message.with_control(control),
            None => message,
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

/// The control message that says how long each datagram is (`CMSG_SPACE(sizeof(__u16))`).
fn segment_size(segment: u16) -> [u8; CONTROL] {
    let mut control = [0; CONTROL];
    let length = (HEADER + size_of::<u16>()).to_ne_bytes();
    let fields = length
        .into_iter()
        .chain(libc::SOL_UDP.to_ne_bytes())
        .chain(libc::UDP_SEGMENT.to_ne_bytes())
        .chain(segment.to_ne_bytes());
    for (to, from) in control.iter_mut().zip(fields) {
        *to = from;
    }
    control
}

/// The most datagrams in a run (`UDP_MAX_SEGMENTS` of older kernels).
pub const LONGEST_RUN: usize = 64;

/// The most bytes in a run: an IPv4 packet without its headers.
pub const LARGEST_RUN: usize = 65_507;

/// `struct cmsghdr`: a length as wide as a pointer, level and type.
const HEADER: usize = size_of::<usize>() + 2 * size_of::<libc::c_int>();
/// With one word of payload.
const CONTROL: usize = HEADER + size_of::<usize>();

/// A full send buffer empties at line rate: 8 MB take 67 ms at 1 Gbit/s.
const PATIENCE: Duration = Duration::from_millis(100);
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
