//! What routers of a link and those that look for them say (RFC 4861 sections 4.1 and 4.2), as messages
//! of ICMPv6: the kernel adds the header and the checksum, and has checked both on arrival.

use std::net::Ipv6Addr;

use super::{SOURCE_OPTION, link_layer_option};
use crate::wire::{Mac, ip};

/// Where solicitations go: every router of the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// The type of a Router Solicitation.
pub const SOLICITATION: u8 = 133;
/// The type of a Router Advertisement.
pub const ADVERTISEMENT: u8 = 134;
/// The length of the longest message emitted here, in bytes.
pub const LEN: usize = SHORTEST_ADVERTISEMENT + OPTION;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// "Which routers are there?"
    Solicitation,
    /// "I am here."
    Advertisement {
        /// For how many seconds packets to anywhere may be sent there; 0: it is no default router.
        lifetime: u16,
    },
}

/// Why a message is dropped (RFC 4861 sections 6.1.1 and 6.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The hop limit is not 255: it crossed a router.
    #[error("the hop limit is not 255, so the packet crossed a router")]
    HopLimit,
    /// Its source is no address of the link.
    #[error("its source is not an address of the link")]
    Source,
    /// It is shorter than its fields or options say.
    #[error("the packet is shorter than its fields claim")]
    Truncated,
    /// It is something else.
    #[error("neither a solicitation of routers nor an advertisement of one")]
    Other,
}

impl Message {
    /// What a speaker says that is there, and is nobody's default router.
    pub const HERE: Self = Self::Advertisement { lifetime: 0 };

    /// Writes it into `buffer`, for a sender at `mac`, and returns its length. The checksum is left to
    /// the kernel (RFC 3542 section 3.1).
    #[must_use]
    pub fn emit(self, mac: Option<Mac>, buffer: &mut [u8; LEN]) -> usize {
        let head = match self {
            Self::Solicitation => [SOLICITATION, 0, 0, 0, 0, 0, 0, 0],
            Self::Advertisement { lifetime } => {
                let [high, low] = lifetime.to_be_bytes();
                // No hop limit is recommended, and no address is configured by anybody's leave.
                [ADVERTISEMENT, 0, 0, 0, 0, 0, high, low]
            }
        };
        // Neither a time of reachability nor one of retransmission is said.
        let times: &[u8] = match self {
            Self::Solicitation => &[],
            Self::Advertisement { .. } => &[0; 8],
        };
        let option = mac.map(|Mac([a, b, c, d, e, f])| [SOURCE_OPTION, 1, a, b, c, d, e, f]);
        let option = option.as_ref().map_or(&[][..], |bytes| bytes);
        let bytes = head.iter().chain(times).chain(option);
        let mut length = 0;
        for (slot, byte) in buffer.iter_mut().zip(bytes) {
            *slot = *byte;
            length += 1;
        }
        length
    }

    /// Reads a message that came from `source` with `hop_limit`.
    ///
    /// # Errors
    ///
    /// It crossed a router, is cut, or is none of the two.
    pub fn parse(source: Ipv6Addr, hop_limit: u8, bytes: &[u8]) -> Result<Self, Malformed> {
        if hop_limit != ip::TTL {
            return Err(Malformed::HopLimit);
        }
        let (head, rest) = bytes.split_first_chunk::<8>().ok_or(Malformed::Truncated)?;
        let [kind, code, _, _, _, _, high, low] = *head;
        let (message, options) = match (kind, code) {
            (SOLICITATION, 0) => (Self::Solicitation, rest),
            (ADVERTISEMENT, 0) => {
                let options = rest.get(8..).ok_or(Malformed::Truncated)?;
                let lifetime = u16::from_be_bytes([high, low]);
                (Self::Advertisement { lifetime }, options)
            }
            _ => return Err(Malformed::Other),
        };
        // Who has no address yet may look for routers, but is none.
        let asks = message == Self::Solicitation && source.is_unspecified();
        if !source.is_unicast_link_local() && !asks {
            return Err(Malformed::Source);
        }
        // Options come in units of 8 bytes, and none is empty.
        match link_layer_option(options, SOURCE_OPTION) {
            Ok(_) if options.len().is_multiple_of(8) => Ok(message),
            Ok(_) | Err(_) => Err(Malformed::Truncated),
        }
    }
}

const SHORTEST_ADVERTISEMENT: usize = 16;
const OPTION: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn bytes(message: Message) -> Vec<u8> {
        let mut buffer = [0xff; LEN];
        let length = message.emit(Some(MAC), &mut buffer);
        buffer.get(..length).unwrap_or_default().to_vec()
    }

    #[test]
    fn what_is_said_is_laid_out_as_in_the_rfc_and_read_back() {
        assert_eq!(
            bytes(Message::HERE),
            [
                134, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 9
            ]
        );
        assert_eq!(
            bytes(Message::Solicitation),
            [133, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 9]
        );
        for message in [
            Message::HERE,
            Message::Solicitation,
            Message::Advertisement { lifetime: 1_800 },
        ] {
            assert_eq!(Message::parse(FROM, 255, &bytes(message)), Ok(message));
        }
        let mut bare = [0; LEN];
        assert_eq!(Message::HERE.emit(None, &mut bare), 16);
        assert_eq!(Message::parse(FROM, 255, &bare[..16]), Ok(Message::HERE));
    }

    #[test]
    fn what_crossed_a_router_or_is_no_routers_is_dropped() {
        let whole = bytes(Message::HERE);
        let from = |source: &str| Message::parse(source.parse().unwrap(), 255, &whole);
        assert_eq!(Message::parse(FROM, 254, &whole), Err(Malformed::HopLimit));
        assert_eq!(from("2001:db8::1"), Err(Malformed::Source));
        assert_eq!(from("::"), Err(Malformed::Source));
        let asked = bytes(Message::Solicitation);
        let nobody = Message::parse(Ipv6Addr::UNSPECIFIED, 255, &asked);
        assert_eq!(nobody, Ok(Message::Solicitation));
        let mut other = whole.clone();
        other[0] = 136;
        assert_eq!(Message::parse(FROM, 255, &other), Err(Malformed::Other));
        other = whole.clone();
        other[1] = 1;
        assert_eq!(Message::parse(FROM, 255, &other), Err(Malformed::Other));
        // An option of no length (RFC 4861 section 6.1.2).
        other = whole.clone();
        other[17] = 0;
        assert_eq!(Message::parse(FROM, 255, &other), Err(Malformed::Truncated));
        for length in 0..whole.len() {
            let cut = Message::parse(FROM, 255, &whole[..length]);
            // It may end where the options begin.
            let expected = if length == 16 {
                Ok(Message::HERE)
            } else {
                Err(Malformed::Truncated)
            };
            assert_eq!(cut, expected, "{length}");
        }
    }
}
