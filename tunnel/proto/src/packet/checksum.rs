//! The Internet checksum (RFC 1071), and what a `virtio_net_hdr` leaves to be finished.

use super::field::{self, short};

/// A one's complement sum. It is kept in the machine's byte order and 64 bits wide, which the
/// compiler adds up many at a time; only [`folded`](Self::folded) knows what the network's order is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum over `bytes`, padded with zeros to full words. What is added after an odd number of
    /// bytes would be off by one, so only the last part of a message may be odd.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        // Below 2^32 words of 32 bits cannot overflow 64.
        let sum = words.iter().fold(0_u64, |sum, word| {
            sum + u64::from(u32::from_ne_bytes(*word))
        });
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        Self(sum + u64::from(u32::from_ne_bytes(last)))
    }

    /// The sum of a field of 16 bits.
    #[must_use]
    pub fn word(value: u16) -> Self {
        Self(u64::from(u16::from_ne_bytes(value.to_be_bytes())))
    }

    /// The sum of a field of 32 bits.
    #[must_use]
    pub fn double(value: u32) -> Self {
        Self(u64::from(u32::from_ne_bytes(value.to_be_bytes())))
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        let (sum, carried) = self.0.overflowing_add(other.0);
        Self(if carried { sum + 1 } else { sum })
    }

    /// The pseudo-header of a payload of `length` bytes (RFC 9293 section 3.1, RFC 768, RFC 8200
    /// section 8.1). `addresses` is source and destination as they stand in the IP header.
    #[must_use]
    pub fn pseudo(addresses: &[u8], protocol: u8, length: usize) -> Self {
        Self::of(addresses)
            .plus(Self::word(u16::from(protocol)))
            .plus(Self::word(short(length)))
    }

    /// The sum in 16 bits, as a number of the network's byte order.
    #[must_use]
    pub fn folded(self) -> u16 {
        let mut sum = self.0;
        for _ in 0..4 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        // Four rounds leave 16 bits of any 64.
        u16::from_be_bytes(u16::try_from(sum).unwrap_or(u16::MAX).to_ne_bytes())
    }

    /// What a header's checksum field must hold.
    #[must_use]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }

    /// The same for UDP, where zero says that there is none.
    #[must_use]
    pub fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            other => other,
        }
    }

    /// Whether a message that was summed with its checksum is intact.
    #[must_use]
    pub fn is_intact(self) -> bool {
        self.folded() == 0xffff
    }
}

/// Finishes a checksum that the host left to the device: over everything from `start`, with the
/// pseudo-header's sum in the field `offset` bytes behind it. `false` when the field is not inside
/// the packet, which is then as it was.
pub fn finish(packet: &mut [u8], start: u16, offset: u16) -> bool {
    let (start, offset) = (usize::from(start), usize::from(offset));
    let Some(message) = packet.get_mut(start..) else {
        return false;
    };
    if offset % 2 != 0 || field::word(message, offset).is_none() {
        return false;
    }
    let sum = Sum::of(message);
    // Only UDP has its checksum there, and only there zero means something.
    let checksum = match offset {
        UDP_CHECKSUM => sum.udp_checksum(),
        _ => sum.checksum(),
    };
    field::set_word(message, offset, checksum);
    true
}

/// Where the checksum is in a UDP header.
pub(super) const UDP_CHECKSUM: usize = 6;
/// Where the checksum is in a TCP header.
pub(super) const TCP_CHECKSUM: usize = 16;
/// Where the checksum is in an IPv4 header.
pub(super) const IP_CHECKSUM: usize = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::model::naive, *};

    /// Zero has two forms; which one stands in `folded` says only whether all bytes are zero.
    fn same(a: u16, b: u16) -> bool {
        a == b || (a.is_multiple_of(0xffff) && b.is_multiple_of(0xffff))
    }

    #[test]
    fn the_example_of_rfc_1071_adds_up() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&bytes).folded(), 0xddf2);
        assert_eq!(Sum::of(&bytes).checksum(), 0x220d);
        assert_eq!(Sum::of(&[]).checksum(), 0xffff);
        assert_eq!(Sum::of(&[0xff; 65_535]).folded(), naive(&[0xff; 65_535]));
    }

    #[test]
    fn an_ipv4_header_from_a_capture_is_intact_until_a_bit_flips() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert!(Sum::of(&header).is_intact());
        for bit in 0..header.len() * 8 {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!Sum::of(&flipped).is_intact(), "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn the_fast_sum_agrees_with_the_naive_one(bytes: Vec<u8>) {
            prop_assert_eq!(Sum::of(&bytes).folded(), naive(&bytes));
        }

        #[test]
        fn parts_add_up_to_the_whole(bytes: Vec<u8>, cut: usize) {
            let cut = cut % (bytes.len() + 1) / 2 * 2;
            let (first, second) = bytes.split_at(cut);
            let sum = Sum::of(second).plus(Sum::of(first));
            prop_assert_eq!(sum.folded(), Sum::of(&bytes).folded());
        }

        #[test]
        fn fields_add_up_as_their_bytes_do(a: u16, b: u32, full: u64) {
            prop_assert_eq!(Sum::word(a).folded(), naive(&a.to_be_bytes()));
            prop_assert_eq!(Sum::double(b).folded(), naive(&b.to_be_bytes()));
            let carried = Sum(full).plus(Sum(u64::MAX)).folded();
            prop_assert!(same(carried, Sum(full).folded()), "adding all ones adds nothing");
        }

        #[test]
        fn a_finished_checksum_is_intact(
            mut packet in prop::collection::vec(any::<u8>(), 0..200),
            start in 0_u16..220,
            offset in 0_u16..40,
        ) {
            let before = packet.clone();
            let at = usize::from(start) + usize::from(offset);
            if finish(&mut packet, start, offset) {
                // The field held a pseudo-header's sum; the checksum covers it and the rest.
                let held = Sum::word(u16::from_be_bytes([before[at], before[at + 1]]));
                let sum = Sum::of(&packet[usize::from(start)..]).plus(held);
                prop_assert!(same(sum.folded(), 0xffff));
                prop_assert!(offset != 6 || packet[at..at + 2] != [0, 0]);
            } else {
                prop_assert_eq!(&packet, &before);
                prop_assert!(at + 2 > packet.len() || offset % 2 != 0);
            }
        }

        #[test]
        fn a_pseudo_header_is_what_the_rfc_draws(a: [u8; 4], b: [u8; 4], protocol: u8, length: u16) {
            let [hi, lo] = length.to_be_bytes();
            let drawn = [&a[..], &b[..], &[0, protocol, hi, lo]].concat();
            let addresses = [a, b].concat();
            let sum = Sum::pseudo(&addresses, protocol, usize::from(length));
            prop_assert_eq!(sum.folded(), naive(&drawn));
        }
    }
}
