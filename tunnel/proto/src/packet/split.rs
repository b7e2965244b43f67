//! A super packet of the host, cut into the packets that travel.

mod outer;

use self::outer::Outer;
use super::{
    LARGEST,
    checksum::{IP_CHECKSUM, Sum, TCP_CHECKSUM, UDP_CHECKSUM},
    field::{self, short},
    view::{Transport, Version, tcp_header},
    vnet::{Gso, Header},
};

/// The segments of one super packet, written one by one into the caller's slots: each a packet of
/// its own with the lengths, numbers and checksums the network expects.
#[derive(Clone, Debug)]
pub struct Split<'a> {
    /// What the packet is inside of, and each segment, too.
    outer: Option<Outer<'a>>,
    packet: &'a [u8],
    version: Version,
    transport: Transport,
    transport_at: usize,
    /// Where the payload begins: what stands before it is repeated.
    headers: usize,
    /// Bytes of payload in each segment but the last.
    segment: usize,
    /// Where the next segment's payload begins.
    next: usize,
    /// How many there were.
    number: u16,
    done: bool,
    /// The IPv4 header without length, identification and checksum.
    ip_sum: Sum,
    /// The pseudo-header and the TCP or UDP header without what differs from segment to segment.
    transport_sum: Sum,
    /// Whether segments carry a checksum: UDP in IPv4 may go without.
    summed: bool,
}

/// A super packet that is not what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No segmentation is asked for, or in steps of nothing.
    #[error("nothing to split")]
    NoSegments,
    /// Another IP version, or none.
    #[error("not the IP version that the header says")]
    Version,
    /// The headers do not fit into it, or it is too long.
    #[error("the packet's length is not what its headers say")]
    Length,
}

impl<'a> Split<'a> {
    /// Prepares to cut `packet` as `header` says.
    ///
    /// # Errors
    ///
    /// The two do not go together.
    pub fn new(header: &Header, packet: &'a [u8]) -> Result<Self, Malformed> {
        if packet.len() > LARGEST {
            return Err(Malformed::Length);
        }
        let Some(tunnel) = header.tunnel else {
            return Self::plain(header, packet);
        };
        let (outer, packet) = Outer::before(tunnel, packet)?;
        let split = Self::plain(&outer.inside(header)?, packet)?;
        Ok(Self {
            outer: Some(outer),
            ..split
        })
    }

    /// How long the longest segment is.
    #[must_use]
    pub fn longest(&self) -> usize {
        let outside = self.outer.as_ref().map_or(0, Outer::length);
        outside + (self.headers + self.segment).min(self.packet.len())
    }

    /// Writes the next segment to the start of `slot`, which must have room for the
    /// [`longest`](Self::longest), and returns its length; `None` after the last one.
    pub fn next_into(&mut self, slot: &mut [u8]) -> Option<usize> {
        let Some(outer) = self.outer.take() else {
            return self.next_inner(slot);
        };
        let number = self.number;
        let length = slot
            .get_mut(outer.length()..)
            .and_then(|room| self.next_inner(room))
            .map(|inner| outer.length() + inner);
        if let Some(segment) = length.and_then(|length| slot.get_mut(..length)) {
            outer.put_before(segment, number);
        }
        self.outer = Some(outer);
        length
    }

    fn plain(header: &Header, packet: &'a [u8]) -> Result<Self, Malformed> {
        let version = Version::of(packet).ok_or(Malformed::Version)?;
        let transport = match (header.gso, version) {
            (Gso::None, _) => return Err(Malformed::NoSegments),
            (Gso::TcpV4, Version::V4) | (Gso::TcpV6, Version::V6) => Transport::Tcp,
            (Gso::Udp, _) => Transport::Udp,
            _ => return Err(Malformed::Version),
        };
        if header.segment == 0 {
            return Err(Malformed::NoSegments);
        }
        Self::measured(header, packet, version, transport).ok_or(Malformed::Length)
    }

    fn next_inner(&mut self, slot: &mut [u8]) -> Option<usize> {
        if self.done {
            return None;
        }
        let end = (self.next + self.segment).min(self.packet.len());
        let payload = self.packet.get(self.next..end)?;
        let headers = self.packet.get(..self.headers)?;
        let length = headers.len() + payload.len();
        let (head, body) = slot.get_mut(..length)?.split_at_mut_checked(self.headers)?;
        head.copy_from_slice(headers);
        body.copy_from_slice(payload);
        self.done = end == self.packet.len();
        self.fix_ip(head, length);
        match self.transport {
            Transport::Tcp => self.fix_tcp(head, length, Sum::of(payload)),
            Transport::Udp => self.fix_udp(head, length, payload),
        }
        self.next = end;
        self.number = self.number.wrapping_add(1);
        Some(length)
    }

    fn measured(
        header: &Header,
        packet: &'a [u8],
        version: Version,
        transport: Transport,
    ) -> Option<Self> {
        let ip_length = match version {
            Version::V4 => usize::from(packet.first()? & 0x0f) * 4,
            Version::V6 => 40,
        };
        // IPv6 may have extension headers, which only the kernel has read.
        let transport_at = match (version, header.partial) {
            (Version::V6, Some(partial)) => usize::from(partial.start),
            _ => ip_length,
        };
        if transport_at < ip_length || transport_at % 2 != 0 {
            return None;
        }
        let rest = packet.get(transport_at..)?;
        let transport_length = match transport {
            Transport::Tcp => tcp_header(rest)?,
            Transport::Udp => 8,
        };
        let fixed = rest.get(..transport_length)?;
        let ip_sum = match version {
            Version::V4 => Sum::of(packet.get(..2)?)
                .plus(Sum::of(packet.get(6..IP_CHECKSUM)?))
                .plus(Sum::of(packet.get(12..ip_length)?)),
            Version::V6 => Sum::default(),
        };
        let pseudo = Sum::pseudo(version.addresses(packet)?, transport.number(), 0);
        let ports = Sum::of(fixed.get(..4)?);
        let (transport_sum, summed) = match transport {
            // Sequence number, flags and checksum differ.
            Transport::Tcp => (
                pseudo
                    .plus(ports)
                    .plus(Sum::of(fixed.get(8..12)?))
                    .plus(Sum::of(fixed.get(14..TCP_CHECKSUM)?))
                    .plus(Sum::of(fixed.get(18..)?)),
                true,
            ),
            // Length and checksum differ.
            Transport::Udp => (
                pseudo.plus(ports),
                header.partial.is_some() || field::word(fixed, UDP_CHECKSUM)? != 0,
            ),
        };
        let headers = transport_at + transport_length;
        Some(Self {
            outer: None,
            packet,
            version,
            transport,
            transport_at,
            headers,
            segment: usize::from(header.segment),
            next: headers,
            number: 0,
            done: false,
            ip_sum,
            transport_sum,
            summed,
        })
    }

    fn fix_ip(&self, head: &mut [u8], length: usize) {
        match self.version {
            Version::V4 => {
                let length = short(length);
                let id = field::word(head, 4)
                    .unwrap_or_default()
                    .wrapping_add(self.number);
                field::set_word(head, 2, length);
                field::set_word(head, 4, id);
                let sum = self.ip_sum.plus(Sum::word(length)).plus(Sum::word(id));
                field::set_word(head, IP_CHECKSUM, sum.checksum());
            }
            Version::V6 => field::set_word(head, 4, short(length.saturating_sub(40))),
        }
    }

    fn fix_tcp(&self, head: &mut [u8], length: usize, payload: Sum) {
        let Some(header) = head.get_mut(self.transport_at..) else {
            return;
        };
        let passed = u32::try_from(self.next - self.headers).unwrap_or_default();
        let sequence = field::double(header, 4)
            .unwrap_or_default()
            .wrapping_add(passed);
        let mut flags = field::word(header, 12).unwrap_or_default();
        if !self.done {
            flags &= !(FIN | PSH);
        }
        if self.number > 0 {
            // The sender reduced its window once (RFC 3168 section 6.1.2).
            flags &= !CWR;
        }
        field::set_double(header, 4, sequence);
        field::set_word(header, 12, flags);
        let sum = self
            .transport_sum
            .plus(Sum::word(short(length - self.transport_at)))
            .plus(Sum::double(sequence))
            .plus(Sum::word(flags))
            .plus(payload);
        field::set_word(header, TCP_CHECKSUM, sum.checksum());
    }

    fn fix_udp(&self, head: &mut [u8], length: usize, payload: &[u8]) {
        let Some(header) = head.get_mut(self.transport_at..) else {
            return;
        };
        let length = short(length - self.transport_at);
        field::set_word(header, 4, length);
        let checksum = if self.summed {
            // Once in the pseudo-header, once in the header.
            self.transport_sum
                .plus(Sum::word(length))
                .plus(Sum::word(length))
                .plus(Sum::of(payload))
                .udp_checksum()
        } else {
            0
        };
        field::set_word(header, UDP_CHECKSUM, checksum);
    }
}

const FIN: u16 = 0x01;
const PSH: u16 = 0x08;
const CWR: u16 = 0x80;

#[cfg(test)]
mod tests;
