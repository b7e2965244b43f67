//! One rtnetlink socket that asks the kernel and waits for its answer.
//!
//! Requests are answered before `send` returns, so nothing here waits in practice; a limit on the
//! socket keeps a kernel that breaks that promise from stopping the thread.

use std::{io, net::IpAddr, ops::Range, time::Duration};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use tracing::debug;

/// What the kernel calls the family of an address.
pub(crate) const fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// A request socket.
#[derive(Debug)]
pub(crate) struct Requests {
    socket: Socket,
    sequence: u32,
    out: Vec<u8>,
    buffer: Vec<u8>,
}

impl Requests {
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        // Filters in dumps (`ifindex`) are honoured in strict mode only; older kernels ignore it.
        let _ = socket.set_netlink_get_strict_chk(true);
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1)))?;
        Ok(Self {
            socket,
            sequence: 0,
            out: Vec::new(),
            buffer: Vec::with_capacity(BUFFER),
        })
    }

    /// Asks for a change and waits until the kernel has made or refused it.
    pub(crate) fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.repeat(&mut Prepared::new(message, flags))
    }

    /// The same for a change that is asked for again and again: nothing is composed, nothing allocated.
    pub(crate) fn repeat(&mut self, change: &mut Prepared) -> io::Result<()> {
        let sequence = self.next();
        change.number(sequence);
        self.socket.send_to(&change.0, &SocketAddr::new(0, 0), 0)?;
        loop {
            self.receive()?;
            if let Some(answer) = slices(&self.buffer).find_map(|it| answer(it, sequence)) {
                return answer;
            }
        }
    }

    /// The name of a link, if there is one of that index.
    pub(crate) fn link_name(&self, ifindex: u32) -> Option<String> {
        rustix::net::netdevice::index_to_name(&self.socket, ifindex).ok()
    }

    /// Asks for every object of a kind. An answer that changes of the kernel's tables ran through
    /// may lack objects that stood there all the time: it is thrown away and asked for again.
    pub(crate) fn dump(
        &mut self,
        message: RouteNetlinkMessage,
        each: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            let sequence = self.send(message.clone(), NLM_F_REQUEST | NLM_F_DUMP)?;
            let mut dump = Dump::new(sequence);
            while !dump.is_done {
                self.receive()?;
                dump.take(&self.buffer)?;
            }
            if !dump.is_interrupted {
                dump.objects.into_iter().for_each(each);
                return Ok(());
            }
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the kernel's tables changed during every attempt to read them",
        ))
    }

    /// Asks for one object.
    pub(crate) fn get(&mut self, message: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        let sequence = self.send(message, NLM_F_REQUEST)?;
        loop {
            self.receive()?;
            for reply in messages(&self.buffer) {
                let reply = reply?;
                if reply.header.sequence_number != sequence {
                    continue;
                }
                match reply.payload {
                    NetlinkPayload::InnerMessage(object) => return Ok(object),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
        }
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<u32> {
        let sequence = self.next();
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = sequence;
        let mut message = NetlinkMessage::new(header, message.into());
        message.finalize();
        self.out.clear();
        self.out.resize(message.buffer_len(), 0);
        message.serialize(&mut self.out);
        self.socket.send_to(&self.out, &SocketAddr::new(0, 0), 0)?;
        Ok(sequence)
    }

    fn next(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    fn receive(&mut self) -> io::Result<()> {
        receive(&self.socket, &mut self.buffer)
    }
}

/// A change as the kernel reads it.
#[derive(Debug)]
pub(crate) struct Prepared(Vec<u8>);

impl Prepared {
    pub(crate) fn new(message: RouteNetlinkMessage, flags: u16) -> Self {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut message = NetlinkMessage::new(header, message.into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        Self(bytes)
    }

    fn number(&mut self, sequence: u32) {
        if let Some(place) = self.0.get_mut(SEQUENCE) {
            place.copy_from_slice(&sequence.to_ne_bytes());
        }
    }
}

/// What a message says to the change of that number, if it is the answer to it (`NLMSG_ERROR`, which
/// holds 0 where the change was made).
fn answer(message: &[u8], sequence: u32) -> Option<io::Result<()>> {
    let is_it = message.get(SEQUENCE)? == sequence.to_ne_bytes()
        && message.get(TYPE)? == NLMSG_ERROR.to_ne_bytes();
    let code = message.get(HEADER..)?.first_chunk::<4>()?;
    let errno = i32::from_ne_bytes(*code).saturating_neg();
    is_it.then(|| match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    })
}

/// One answer to "every object of a kind", datagram by datagram.
struct Dump {
    sequence: u32,
    objects: Vec<RouteNetlinkMessage>,
    is_interrupted: bool,
    is_done: bool,
}

impl Dump {
    fn new(sequence: u32) -> Self {
        Self {
            sequence,
            objects: Vec::new(),
            is_interrupted: false,
            is_done: false,
        }
    }

    fn take(&mut self, datagram: &[u8]) -> io::Result<()> {
        for reply in messages(datagram) {
            let reply = match reply {
                Ok(reply) => reply,
                // One object of a kind this library cannot read must not hide all the others.
                Err(error) => {
                    debug!(%error, "an object of the kernel's cannot be read");
                    continue;
                }
            };
            if reply.header.sequence_number != self.sequence {
                continue;
            }
            self.is_interrupted |= reply.header.flags & NLM_F_DUMP_INTR != 0;
            match reply.payload {
                NetlinkPayload::InnerMessage(object) => self.objects.push(object),
                NetlinkPayload::Done(_) => self.is_done = true,
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(error.to_io());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Takes one datagram that the kernel sent; what other processes send is dropped.
pub(crate) fn receive(socket: &Socket, buffer: &mut Vec<u8>) -> io::Result<()> {
    loop {
        buffer.clear();
        match socket.recv_from(buffer, 0) {
            Ok((_, from)) if from.port_number() == 0 => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The messages in a datagram. One that cannot be read is an error of its own and does not hide
/// the next.
pub(crate) fn messages(
    datagram: &[u8],
) -> impl Iterator<Item = io::Result<NetlinkMessage<RouteNetlinkMessage>>> {
    slices(datagram).map(|message| {
        NetlinkMessage::deserialize(message)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    })
}

/// The same before they are read.
pub(crate) fn slices(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = rest
            .first_chunk::<4>()
            .map(|bytes| u32::from_ne_bytes(*bytes))?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length >= HEADER)?;
        let message = rest.get(..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The kernel never sends a datagram larger than this (`NLMSG_GOODSIZE` is at most 32 KiB).
pub(crate) const BUFFER: usize = 32 * 1024;
/// `struct nlmsghdr`.
const HEADER: usize = 16;
const TYPE: Range<usize> = 4..6;
const SEQUENCE: Range<usize> = 8..12;
const NLMSG_ERROR: u16 = 2;
/// How often a dump is asked for when changes run through it.
const ATTEMPTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_cannot_be_read_does_not_hide_the_next() {
        let mut broken = vec![
            17, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0,
        ];
        let done = [16, 0, 0, 0, 3, 0, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        broken.extend(done);
        let read: Vec<_> = messages(&broken).collect();
        assert_eq!(read.len(), 2);
        assert!(read[0].is_err());
        assert_eq!(read[1].as_ref().unwrap().header.sequence_number, 2);
    }

    #[test]
    fn the_answer_to_a_change_is_the_one_of_its_number() {
        let refused = |sequence: u8, kind: u8| {
            let errno = (-libc::EEXIST).to_ne_bytes();
            let [a, b, c, d] = errno;
            vec![
                20, 0, 0, 0, kind, 0, 0, 0, sequence, 0, 0, 0, 0, 0, 0, 0, a, b, c, d,
            ]
        };
        let error = answer(&refused(7, 2), 7).unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EEXIST));
        assert!(answer(&refused(6, 2), 7).is_none(), "another's");
        assert!(answer(&refused(7, 3), 7).is_none(), "not an answer");
        let mut made = refused(7, 2);
        made[16..].fill(0);
        assert!(answer(&made, 7).unwrap().is_ok());
        for length in 0..20 {
            assert!(answer(&made[..length], 7).is_none(), "{length}");
        }
    }

    #[test]
    fn a_dump_that_changes_ran_through_is_known_as_one() {
        let done =
            |flags: u8, sequence| [16, 0, 0, 0, 3, 0, flags, 0, sequence, 0, 0, 0, 0, 0, 0, 0];
        for (flags, is_interrupted) in [(2, false), (2 | 16, true)] {
            let mut dump = Dump::new(7);
            dump.take(&done(2 | 16, 6)).unwrap();
            assert!(!dump.is_done && !dump.is_interrupted, "another's answer");
            dump.take(&done(flags, 7)).unwrap();
            assert!(dump.is_done);
            assert_eq!(dump.is_interrupted, is_interrupted);
        }
    }

    #[test]
    fn no_datagram_makes_it_panic_or_loop() {
        for length in [0_u32, 1, 15, 16, 17, 4096, u32::MAX] {
            let mut datagram = length.to_ne_bytes().to_vec();
            for size in 4..40 {
                datagram.resize(size, 0xa5);
                assert!(messages(&datagram).count() <= 3);
            }
        }
    }
}
