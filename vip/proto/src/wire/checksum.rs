//! The Internet checksum, and the two forms that VRRPv3 over IPv4 is seen with.

use std::net::IpAddr;

/// What a checksum was computed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The message alone (RFC 9568 section 5.2.8 for IPv4, and version 2).
    Message,
    /// The message and a pseudo-header (IPv6; for IPv4 RFC 5798, what keepalived and FRR send by
    /// default).
    PseudoHeader,
}

/// Which forms a received checksum matches; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forms {
    /// Only [`Form::Message`].
    Message,
    /// Only [`Form::PseudoHeader`].
    PseudoHeader,
    /// Both: the pseudo-header happens to sum to zero.
    Both,
}

/// The 16-bit one's complement sum of a message, folded but not inverted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum(u32);

impl Sum {
    /// The sum over `bytes`, padded with a zero byte to full words.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<2>();
        let sum = words.iter().fold(0_u32, |sum, word| {
            // Folding as it goes keeps 32 bits enough for any length.
            fold(sum + u32::from(u16::from_be_bytes(*word)))
        });
        let last = rest.first().map_or(0, |byte| u32::from(*byte) << 8);
        Self(fold(sum + last))
    }

    /// The sum of both.
    pub(super) fn plus(self, other: Self) -> Self {
        Self(fold(self.0 + other.0))
    }

    /// The sum of the pseudo-header of a payload of `length` bytes (RFC 8200 section 8.1; RFC 768
    /// for IPv4).
    pub(super) fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, length: usize) -> Self {
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        Self::of_address(src)
            .plus(Self::of_address(dst))
            .plus(Self::of(&length))
            .plus(Self::of(&[0, protocol]))
    }

    fn of_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::of(&v4.octets()),
            IpAddr::V6(v6) => Self::of(&v6.octets()),
        }
    }

    /// The checksum field that makes the whole sum to [`Sum::VALID`].
    pub(super) fn checksum(self) -> u16 {
        !u16::try_from(self.0).unwrap_or(u16::MAX)
    }

    /// What a message sums to when its checksum field is right.
    pub(super) const VALID: Self = Self(0xffff);
}

/// Of two folded numbers' sum, whose carry cannot carry again.
fn fold(sum: u32) -> u32 {
    (sum & 0xffff) + (sum >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_one_of_rfc_1071() {
        // The worked example of RFC 1071 section 3: the words sum to ddf2.
        let sum = Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum, Sum(0xddf2));
        assert_eq!(sum.checksum(), 0x220d);
    }

    #[test]
    fn a_carry_never_carries_again() {
        assert_eq!(Sum::of(&[0xff; 7]), Sum(0xff00));
        assert_eq!(Sum(0xffff).plus(Sum(0xffff)), Sum(0xffff));
        assert_eq!(Sum(0xffff).plus(Sum(1)), Sum(1));
    }

    #[test]
    fn an_odd_byte_is_the_high_half_of_a_word() {
        assert_eq!(Sum::of(&[0x12]), Sum(0x1200));
    }
}
