//! Zeros behind a packet, so that its length tells less.

use crate::{
    drops::DropReason,
    noise::{HEAD, TAIL},
};

/// The packet that stands in a slot behind room for a datagram's head, [padded](pad).
pub(super) fn padded(slot: &mut [u8], length: usize, mtu: usize) -> Result<&[u8], DropReason> {
    let last = slot.len().saturating_sub(TAIL);
    slot.get_mut(HEAD..last)
        .and_then(|inner| pad(inner, length, mtu))
        .ok_or(DropReason::Oversized)
}

/// The packet with zeros up to a multiple of 16, so that its length tells less, but not beyond the
/// MTU.
fn pad(buffer: &mut [u8], length: usize, mtu: usize) -> Option<&[u8]> {
    let padded = length
        .next_multiple_of(16)
        .min(mtu.max(length))
        .min(buffer.len());
    buffer.get_mut(length..padded)?.fill(0);
    buffer.get(..padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_fills_to_sixteen_but_not_beyond_the_mtu_or_the_buffer() {
        for (length, mtu, room, padded) in [
            (20, 1420, 64, 32),
            (32, 1420, 64, 32),
            (1417, 1420, 1500, 1420),
            (60, 1420, 62, 62),
            (1500, 1420, 1600, 1500),
        ] {
            let mut buffer = vec![0xff; room];
            let packet = pad(&mut buffer, length, mtu).unwrap();
            assert_eq!(packet.len(), padded, "{length} of {room}");
            assert!(packet[length..].iter().all(|byte| *byte == 0));
            assert!(packet[..length].iter().all(|byte| *byte == 0xff));
        }
        assert_eq!(pad(&mut [0; 8], 9, 1420), None);
    }
}
