//! The VRRP advertisement: version 3 (RFC 9568 section 5.2) and version 2 (RFC 3768 section 5.3).
//!
//! ```text
//! 3: 0x31 vrid prio count | rsvd(4)=0 max_adv(12, cs) | checksum | addresses
//! 2: 0x21 vrid prio count | auth_type adv(8, s)       | checksum | addresses | 8 auth bytes
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kedge_core::vip::{AdvertInterval, Priority, Vrid};

use super::{
    Addresses, Mac, ParseError, Password,
    checksum::{Form, Forms, Sum},
    ip,
};
use crate::auth::{Identity, Trailer};

/// The longest advertisement: 8 bytes, 255 IPv6 addresses and a trailer.
pub const MAX_LEN: usize = HEADER + 255 * 16 + Trailer::LEN;

/// The protocol version of an advertisement, with what only that version carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// VRRPv3 (RFC 9568): IPv4 and IPv6, centiseconds.
    #[default]
    Three,
    /// VRRPv2 (RFC 3768): IPv4, whole seconds.
    Two {
        /// The password of RFC 2338, if there is one.
        password: Option<Password>,
    },
}

impl Version {
    /// The number in the first half byte of a message: 2 or 3.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Three => 3,
            Self::Two { .. } => 2,
        }
    }
}

/// A VRRP advertisement.
///
/// One of version 2 has IPv4 addresses and an interval of whole seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advert {
    /// The protocol version.
    pub version: Version,
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
    pub src: IpAddr,
    /// The destination: the group, or an address of this host.
    pub dst: IpAddr,
    /// The TTL or hop limit it arrived with, 255 if it was sent to the group.
    pub ttl: u8,
    /// The sender's hardware address, from the Ethernet header.
    pub mac: Mac,
    /// Which checksum forms matched.
    pub forms: Forms,
    /// The advertisement.
    pub advert: Advert,
}

/// An advertisement with the bytes that a trailer signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard<'a> {
    /// What it says.
    pub received: Received,
    /// The message.
    pub pdu: &'a [u8],
    /// The trailer behind it, if there is one: told by its length alone.
    pub trailer: Option<&'a [u8; Trailer::LEN]>,
}

impl Heard<'_> {
    /// Whom the trailer is about.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        Identity {
            source: self.received.src,
            version: self.received.advert.version.number(),
            vrid: self.received.advert.vrid,
        }
    }
}

impl Received {
    /// Reads an IP packet (without Ethernet header), as a packet socket delivers it; `mac` is its
    /// Ethernet source. The checks are those of RFC 9568 section 7.1 in a fixed order; the VRID,
    /// and who may send to an address of this host with which TTL, is left to whoever knows the
    /// configured routers.
    ///
    /// # Errors
    ///
    /// The packet is not a valid VRRP advertisement.
    pub fn parse(mac: Mac, packet: &[u8]) -> Result<Self, ParseError> {
        Self::hear(mac, packet).map(|heard| heard.received)
    }

    /// The same, with what it takes to verify who sent it.
    ///
    /// # Errors
    ///
    /// As [`Received::parse`].
    pub fn hear(mac: Mac, packet: &[u8]) -> Result<Heard<'_>, ParseError> {
        let (header, payload) = ip::Header::parse(packet)?;
        if header.protocol != ip::PROTOCOL_VRRP {
            return Err(ParseError::NotVrrp);
        }
        let (advert, forms) = Advert::parse(&header, payload)?;
        let length = advert.length();
        let signed = Trailer::split(payload, length);
        let bare = payload.get(..length).unwrap_or(payload);
        Ok(Heard {
            received: Self {
                src: header.src,
                dst: header.dst,
                ttl: header.ttl,
                mac,
                forms,
                advert,
            },
            pdu: signed.map_or(bare, |(pdu, _)| pdu),
            trailer: signed.map(|(_, trailer)| trailer),
        })
    }
}

impl Advert {
    /// Reads the payload of an IP packet with `header`; returns which checksum forms matched.
    ///
    /// Padding behind the message is tolerated.
    ///
    /// # Errors
    ///
    /// See [`ParseError`]; the first failing check wins.
    pub fn parse(header: &ip::Header, payload: &[u8]) -> Result<(Self, Forms), ParseError> {
        let (fixed, rest) = payload
            .split_first_chunk::<HEADER>()
            .ok_or(ParseError::Truncated)?;
        let [version_type, vrid, priority, count, hi, lo, _, _] = *fixed;
        let ipv6 = header.src.is_ipv6();
        let is_two = version_type >> 4 == 2;
        let list_length = usize::from(count) * if ipv6 { 16 } else { 4 };
        let (list, behind) = rest
            .split_at_checked(list_length)
            .ok_or(ParseError::Truncated)?;
        let authentication = match behind.first_chunk::<{ Password::LEN }>() {
            Some(field) if is_two => Some(*field),
            None if is_two => return Err(ParseError::Truncated),
            Some(_) | None => None,
        };
        let length = HEADER + list_length + authentication.map_or(0, |field| field.len());
        let message = payload.get(..length).ok_or(ParseError::Truncated)?;
        let addresses = addresses(list, ipv6).ok_or(ParseError::NoAddress)?;
        if header.dst.is_multicast() && header.ttl != ip::TTL {
            return Err(ParseError::Ttl);
        }
        let version = match (version_type >> 4, authentication) {
            (3, _) => Version::Three,
            // Without authentication the field is ignored (RFC 3768 section 5.3.10).
            (2, Some(field)) if !ipv6 => Version::Two {
                password: match hi {
                    AUTH_NONE => None,
                    AUTH_PASSWORD => Some(Password::from_field(field)),
                    _ => return Err(ParseError::AuthType),
                },
            },
            _ => return Err(ParseError::Version),
        };
        let interval = interval(version, [hi, lo])?;
        if version_type & 0x0f != TYPE_ADVERTISEMENT {
            return Err(ParseError::NotAdvertisement);
        }
        // Over IPv6 everything behind the header is summed, whatever follows the message.
        let summed = if ipv6 { payload } else { message };
        let forms = verify(version, header, summed).ok_or(ParseError::Checksum)?;
        let vrid = Vrid::new(vrid).map_err(|_| ParseError::ZeroVrid)?;
        let priority = Priority::new(priority).ok();
        Ok((
            Self {
                version,
                vrid,
                priority,
                interval,
                addresses,
            },
            forms,
        ))
    }

    /// The length of the message, without a trailer.
    fn length(&self) -> usize {
        let address = if self.addresses.is_ipv6() { 16 } else { 4 };
        let authentication = match self.version {
            Version::Three => 0,
            Version::Two { .. } => Password::LEN,
        };
        HEADER + usize::from(self.addresses.count()) * address + authentication
    }

    /// Appends a trailer to a message of `length` bytes that [`emit`](Self::emit) wrote for a
    /// packet from `src` to `dst`, and returns the length of both. Over IPv6 the checksum covers
    /// the trailer, over IPv4 it stops before it.
    #[must_use]
    pub fn seal(
        buffer: &mut [u8; MAX_LEN],
        length: usize,
        trailer: &[u8; Trailer::LEN],
        src: IpAddr,
        dst: IpAddr,
    ) -> usize {
        let whole = length + trailer.len();
        let Some(slots) = buffer.get_mut(length..whole) else {
            return length;
        };
        slots.copy_from_slice(trailer);
        if src.is_ipv6() {
            write_checksum(buffer, whole, |sum| {
                sum.plus(pseudo_header(src, dst, whole))
            });
        }
        whole
    }

    /// Writes the message into `buffer` with the checksum of `form` for a packet from `src` to
    /// `dst`, and returns its length. Version 2 knows [`Form::Message`] only.
    ///
    /// `buffer` always suffices: [`MAX_LEN`] is the longest message.
    #[must_use]
    pub fn emit(&self, form: Form, src: IpAddr, dst: IpAddr, buffer: &mut [u8; MAX_LEN]) -> usize {
        let priority = self.priority.map_or(0, Priority::get);
        let count = self.addresses.count();
        let [hi, lo] = self.interval.centis().to_be_bytes();
        let (version, hi, lo, authentication) = match self.version {
            Version::Three => (3, hi, lo, None),
            Version::Two { password } => {
                let seconds = u8::try_from(self.interval.centis() / 100).unwrap_or(u8::MAX);
                let kind = password.map_or(AUTH_NONE, |_| AUTH_PASSWORD);
                let field = password.map_or([0; Password::LEN], |password| password.field());
                (2, kind, seconds, Some(field))
            }
        };
        let first = version << 4 | TYPE_ADVERTISEMENT;
        let fixed = [first, self.vrid.get(), priority, count, hi, lo, 0, 0];
        let mut length = 0;
        let mut write = |bytes: &[u8]| {
            if let Some(slots) = buffer.get_mut(length..length + bytes.len()) {
                slots.copy_from_slice(bytes);
                length += bytes.len();
            }
        };
        write(&fixed);
        for address in self.addresses.iter() {
            match address {
                IpAddr::V4(v4) => write(&v4.octets()),
                IpAddr::V6(v6) => write(&v6.octets()),
            }
        }
        if let Some(field) = authentication {
            write(&field);
        }
        write_checksum(buffer, length, |sum| match form {
            Form::Message => sum,
            Form::PseudoHeader => sum.plus(pseudo_header(src, dst, length)),
        });
        length
    }
}

fn interval(version: Version, [hi, lo]: [u8; 2]) -> Result<AdvertInterval, ParseError> {
    let centis = match version {
        // The four reserved bits are ignored on reception (RFC 9568 section 5.2.6).
        Version::Three => u16::from_be_bytes([hi & 0x0f, lo]),
        Version::Two { .. } => u16::from(lo) * 100,
    };
    AdvertInterval::from_centis(centis).map_err(|_| {
        if centis == 0 {
            ParseError::ZeroInterval
        } else {
            ParseError::LongInterval
        }
    })
}

fn verify(version: Version, header: &ip::Header, message: &[u8]) -> Option<Forms> {
    let sum = Sum::of(message);
    let with = |dst| sum.plus(pseudo_header(header.src, dst, message.len())) == Sum::VALID;
    let plain = sum == Sum::VALID;
    if version != Version::Three {
        return plain.then_some(Forms::Message);
    }
    if header.src.is_ipv6() {
        return with(header.dst).then_some(Forms::PseudoHeader);
    }
    // Older keepalived sums the group's address in unicast adverts too.
    let pseudo = with(header.dst) || with(ip::group(false));
    match (plain, pseudo) {
        (true, true) => Some(Forms::Both),
        (true, false) => Some(Forms::Message),
        (false, true) => Some(Forms::PseudoHeader),
        (false, false) => None,
    }
}

/// Makes the checksum of a message right; `more` adds what else is summed.
fn write_checksum(buffer: &mut [u8; MAX_LEN], length: usize, more: impl FnOnce(Sum) -> Sum) {
    if let Some(field) = buffer.get_mut(CHECKSUM) {
        field.fill(0);
    }
    let sum = more(Sum::of(buffer.get(..length).unwrap_or(buffer)));
    if let Some(field) = buffer.get_mut(CHECKSUM) {
        field.copy_from_slice(&sum.checksum().to_be_bytes());
    }
}

fn pseudo_header(src: IpAddr, dst: IpAddr, length: usize) -> Sum {
    Sum::pseudo_header(src, dst, ip::PROTOCOL_VRRP, length)
}

fn addresses(list: &[u8], ipv6: bool) -> Option<Addresses> {
    let (v4, v6) = (list.as_chunks::<4>().0, list.as_chunks::<16>().0);
    let v4 = v4
        .iter()
        .map(|octets| Ipv4Addr::from_octets(*octets).into());
    let v6 = v6
        .iter()
        .map(|octets| Ipv6Addr::from_octets(*octets).into());
    if ipv6 { listed(v6) } else { listed(v4) }
}

/// A list that is shared when it is long is made on the stack when it is not: room there for 255 would be
/// filled for each advertisement, most of which have one.
fn listed(each: impl ExactSizeIterator<Item = IpAddr>) -> Option<Addresses> {
    let mut few = [IpAddr::V4(Ipv4Addr::UNSPECIFIED); FEW];
    let Some(few) = few.get_mut(..each.len()) else {
        return Addresses::new(&each.collect::<Vec<_>>()).ok();
    };
    for (slot, address) in few.iter_mut().zip(each) {
        *slot = address;
    }
    Addresses::new(few).ok()
}

/// So many addresses are few.
const FEW: usize = 8;
const HEADER: usize = 8;
const CHECKSUM: std::ops::Range<usize> = 6..8;
const TYPE_ADVERTISEMENT: u8 = 1;
const AUTH_NONE: u8 = 0;
const AUTH_PASSWORD: u8 = 1;
