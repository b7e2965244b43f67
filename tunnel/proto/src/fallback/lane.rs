//! Places that are streams: an address stands for one, so that all that knows peers by where they are
//! knows these as well.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The place that stands for the stream of that number. It lies in 100::/64, which no network has
/// (RFC 6666).
#[must_use]
pub fn lane(number: u64) -> SocketAddr {
    let bits = PREFIX | u128::from(number);
    SocketAddr::new(Ipv6Addr::from_bits(bits).into(), PORT)
}

/// Whether a place stands for a stream.
#[must_use]
pub fn is_lane(place: SocketAddr) -> bool {
    match place.ip() {
        IpAddr::V6(address) => address.to_bits() & !u128::from(u64::MAX) == PREFIX,
        IpAddr::V4(_) => false,
    }
}

const PREFIX: u128 = 0x0100 << 112;
/// That of HTTPS: it is never looked at.
const PORT: u16 = 443;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_have_places_of_their_own() {
        assert_eq!(lane(1).to_string(), "[100::1]:443");
        for number in [0, 1, u64::MAX] {
            assert!(is_lane(lane(number)));
        }
        assert_ne!(lane(1), lane(2));
        for other in ["[100:0:0:1::1]:443", "[::1]:443", "[1::]:1", "1.0.0.0:443"] {
            assert!(!is_lane(other.parse().unwrap()), "{other}");
        }
    }
}
