//! What stands before a packet that is inside a UDP datagram: IP, UDP, and whatever the tunnel puts
//! behind it. Each segment is inside of the same, with other lengths and numbers.

use super::Malformed;
use crate::packet::{
    checksum::{IP_CHECKSUM, Sum, UDP_CHECKSUM},
    field::{self, short},
    view::{Transport, Version},
    vnet::{Header, Partial, Tunnel},
};

/// The headers outside.
#[derive(Clone, Debug)]
pub(super) struct Outer<'a> {
    headers: &'a [u8],
    version: Version,
    /// Where UDP begins.
    udp_at: usize,
    /// Whether it has a checksum.
    summed: bool,
}

impl<'a> Outer<'a> {
    /// Parts a packet into these and the packet inside.
    pub(super) fn before(tunnel: Tunnel, packet: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let version = Version::of(packet).ok_or(Malformed::Version)?;
        let (udp_at, inner_at) = (
            usize::from(tunnel.outer_transport),
            usize::from(tunnel.inner_network),
        );
        let ip = match version {
            Version::V4 => 20,
            Version::V6 => 40,
        };
        if udp_at < ip || udp_at % 2 != 0 || inner_at < udp_at + UDP {
            return Err(Malformed::Length);
        }
        let parts = packet.split_at_checked(inner_at);
        let (headers, inner) = parts.ok_or(Malformed::Length)?;
        let checksum = field::word(headers, udp_at + UDP_CHECKSUM);
        let outer = Self {
            headers,
            version,
            udp_at,
            summed: checksum.is_some_and(|sum| sum != 0),
        };
        Ok((outer, inner))
    }

    /// What the header of the whole says of the packet inside.
    pub(super) fn inside(&self, header: &Header) -> Result<Header, Malformed> {
        let start = |partial: Partial| {
            let start = partial.start.checked_sub(short(self.length()));
            start.map(|start| Partial { start, ..partial })
        };
        let partial = match header.partial {
            Some(partial) => Some(start(partial).ok_or(Malformed::Length)?),
            None => None,
        };
        Ok(Header {
            partial,
            tunnel: None,
            ..*header
        })
    }

    /// How long they are.
    pub(super) const fn length(&self) -> usize {
        self.headers.len()
    }

    /// Puts them before the packet that stands in `segment` behind their length: the one of that
    /// number.
    pub(super) fn put_before(&self, segment: &mut [u8], number: u16) {
        let whole = segment.len();
        if let Some(headers) = segment.get_mut(..self.headers.len()) {
            headers.copy_from_slice(self.headers);
        }
        match self.version {
            Version::V4 => {
                let id = field::word(segment, 4).unwrap_or_default();
                field::set_word(segment, 2, short(whole));
                field::set_word(segment, 4, id.wrapping_add(number));
                field::set_word(segment, IP_CHECKSUM, 0);
                let sum = Sum::of(segment.get(..self.udp_at).unwrap_or_default());
                field::set_word(segment, IP_CHECKSUM, sum.checksum());
            }
            Version::V6 => field::set_word(segment, 4, short(whole.saturating_sub(40))),
        }
        let length = whole.saturating_sub(self.udp_at);
        let addresses = self.version.addresses(self.headers).unwrap_or_default();
        let Some(datagram) = segment.get_mut(self.udp_at..) else {
            return;
        };
        field::set_word(datagram, 4, short(length));
        if self.summed {
            field::set_word(datagram, UDP_CHECKSUM, 0);
            let pseudo = Sum::pseudo(addresses, Transport::Udp.number(), length);
            let sum = pseudo.plus(Sum::of(datagram));
            field::set_word(datagram, UDP_CHECKSUM, sum.udp_checksum());
        }
    }
}

/// The length of a UDP header, in bytes.
const UDP: usize = 8;
