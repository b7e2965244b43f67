//! The VRRPv3 advertisement for IPv4 (RFC 9568 section 5.2).
//!
//! ```text
//! 0x31 vrid prio count | rsvd(4)=0 max_adv(12, cs) | checksum | addresses
//! ```

use std::net::Ipv4Addr;

use kedge_core::vip::{AdvertInterval, Priority, Vrid};

use super::{
    Addresses, Mac, ParseError,
    checksum::{Form, Forms, Sum},
    ipv4,
};

/// The longest advertisement: 8 bytes and 255 addresses.
pub const MAX_LEN: usize = 8 + 255 * 4;

/// A VRRPv3 advertisement for IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advert {
    /// The virtual router.
    pub vrid: Vrid,
    /// The sender's priority; `None` is priority 0, "I am leaving".
    pub priority: Option<Priority>,
    /// How often the sender advertises.
    pub interval: AdvertInterval,
    /// The addresses of the virtual router.
    pub addresses: Addresses,
}

/// An advertisement with what its packet told about the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The source address, the sender's primary address on the link.
    pub src: Ipv4Addr,
    /// The sender's hardware address, from the Ethernet header.
    pub mac: Mac,
    /// Which checksum forms matched.
    pub forms: Forms,
    /// The advertisement.
    pub advert: Advert,
}

impl Received {
    /// Reads an IPv4 packet (without Ethernet header), as a packet socket delivers it; `mac` is
    /// its Ethernet source. The checks are those of RFC 9568 section 7.1 in a fixed order; the
    /// VRID is left to whoever knows the configured routers.
    ///
    /// # Errors
    ///
    /// The packet is not a valid VRRPv3 advertisement.
    pub fn parse(mac: Mac, packet: &[u8]) -> Result<Self, ParseError> {
        let (header, payload) = ipv4::Header::parse(packet)?;
        if header.protocol != ipv4::PROTOCOL_VRRP {
            return Err(ParseError::NotVrrp);
        }
        let (advert, forms) = Advert::parse(&header, payload)?;
        Ok(Self {
            src: header.src,
            mac,
            forms,
            advert,
        })
    }
}

impl Advert {
    /// Reads the payload of an IPv4 packet with `header`; returns which checksum forms matched.
    ///
    /// Padding behind the message is tolerated.
    ///
    /// # Errors
    ///
    /// See [`ParseError`]; the first failing check wins.
    pub fn parse(header: &ipv4::Header, payload: &[u8]) -> Result<(Self, Forms), ParseError> {
        let (fixed, rest) = payload
            .split_first_chunk::<8>()
            .ok_or(ParseError::Truncated)?;
        let [version_type, vrid, priority, count, hi, lo, _, _] = *fixed;
        let length = fixed.len() + usize::from(count) * 4;
        let message = payload.get(..length).ok_or(ParseError::Truncated)?;
        let list = rest
            .get(..usize::from(count) * 4)
            .ok_or(ParseError::Truncated)?;
        let addresses = addresses(list).ok_or(ParseError::NoAddress)?;
        // The four reserved bits are ignored on reception (RFC 9568 section 5.2.6).
        let interval = AdvertInterval::from_centis(u16::from_be_bytes([hi & 0x0f, lo]))
            .map_err(|_| ParseError::ZeroInterval)?;
        if header.ttl != ipv4::TTL {
            return Err(ParseError::Ttl);
        }
        match version_type >> 4 {
            3 => {}
            2 => return Err(ParseError::VersionTwo),
            _ => return Err(ParseError::Version),
        }
        if version_type & 0x0f != TYPE_ADVERTISEMENT {
            return Err(ParseError::NotAdvertisement);
        }
        let forms = verify(header, message).ok_or(ParseError::Checksum)?;
        let vrid = Vrid::new(vrid).map_err(|_| ParseError::ZeroVrid)?;
        let priority = Priority::new(priority).ok();
        Ok((
            Self {
                vrid,
                priority,
                interval,
                addresses,
            },
            forms,
        ))
    }

    /// Writes the message into `buffer` with the checksum of `form` for a packet from `src` to
    /// `dst`, and returns its length.
    ///
    /// `buffer` always suffices: [`MAX_LEN`] is the longest message.
    #[must_use]
    pub fn emit(
        &self,
        form: Form,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        buffer: &mut [u8; MAX_LEN],
    ) -> usize {
        let [hi, lo] = self.interval.centis().to_be_bytes();
        let priority = self.priority.map_or(0, Priority::get);
        let count = self.addresses.count();
        let fixed = [
            VERSION_3 | TYPE_ADVERTISEMENT,
            self.vrid.get(),
            priority,
            count,
            hi,
            lo,
            0,
            0,
        ];
        let (head, body) = buffer.split_at_mut(fixed.len());
        head.copy_from_slice(&fixed);
        let (slots, _) = body.as_chunks_mut::<4>();
        for (slot, address) in slots.iter_mut().zip(self.addresses.iter()) {
            *slot = address.octets();
        }
        let length = 8 + u16::from(count) * 4;
        let message = buffer.get(..usize::from(length)).unwrap_or(buffer);
        let sum = match form {
            Form::Message => Sum::of(message),
            Form::PseudoHeader => Sum::of(message).plus(Sum::pseudo_header(src, dst, length)),
        };
        if let Some(field) = buffer.get_mut(6..8) {
            field.copy_from_slice(&sum.checksum().to_be_bytes());
        }
        usize::from(length)
    }
}

fn verify(header: &ipv4::Header, message: &[u8]) -> Option<Forms> {
    let length = u16::try_from(message.len()).ok()?;
    let sum = Sum::of(message);
    let plain = sum == Sum::VALID;
    let pseudo = sum.plus(Sum::pseudo_header(header.src, header.dst, length)) == Sum::VALID;
    match (plain, pseudo) {
        (true, true) => Some(Forms::Both),
        (true, false) => Some(Forms::Message),
        (false, true) => Some(Forms::PseudoHeader),
        (false, false) => None,
    }
}

fn addresses(list: &[u8]) -> Option<Addresses> {
    let (chunks, _) = list.as_chunks::<4>();
    let mut all = [Ipv4Addr::UNSPECIFIED; 255];
    for (slot, octets) in all.iter_mut().zip(chunks) {
        *slot = Ipv4Addr::from_octets(*octets);
    }
    Addresses::new(all.get(..chunks.len())?).ok()
}

const VERSION_3: u8 = 0x30;
const TYPE_ADVERTISEMENT: u8 = 1;
