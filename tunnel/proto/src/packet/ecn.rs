//! What routers say of congestion, carried across the tunnel (RFC 3168, RFC 6040).
//!
//! Outside stands what the packet inside says, so that a router that marks instead of dropping can; and
//! what it marked is told to whoever gets the packet. The rest of the field (DSCP) is zero outside: it is
//! nobody's business what is inside.

use super::{
    checksum::{IP_CHECKSUM, Sum},
    field,
};

/// The two bits of an IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ecn(u8);

impl Ecn {
    /// Whoever sends it would not understand.
    pub const NOT_ECT: Self = Self(0);
    /// It may be marked, and is told apart from the other one by some queues (RFC 9331).
    pub const ECT_1: Self = Self(1);
    /// It may be marked.
    pub const ECT_0: Self = Self(2);
    /// It is marked.
    pub const CE: Self = Self(3);

    /// Those of a header's whole field.
    #[must_use]
    pub const fn of(field: u8) -> Self {
        Self(field & 0b11)
    }

    /// What stands outside of a packet. One that is marked already counts as one that may be, as in the
    /// kernel's WireGuard: what was said inside is not said again.
    #[must_use]
    pub fn outside(packet: &[u8]) -> Self {
        match traffic_class(packet).map(Self::of) {
            Some(Self::CE) => Self::ECT_0,
            Some(inner) => inner,
            None => Self::NOT_ECT,
        }
    }

    /// The field with these bits and nothing else.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether a router marked it.
    #[must_use]
    pub const fn is_marked(self) -> bool {
        self.0 == Self::CE.0
    }
}

/// Marks a packet whose datagram was marked on its way. Of a sender that would not understand it stays
/// as it is.
pub fn mark(packet: &mut [u8]) {
    let Some(class) = traffic_class(packet) else {
        return;
    };
    if Ecn::of(class) == Ecn::NOT_ECT || Ecn::of(class).is_marked() {
        return;
    }
    let Some(first) = field::word(packet, 0) else {
        return;
    };
    match first >> 12 {
        4 => {
            let marked = first | u16::from(Ecn::CE.0);
            // The checksum knows what stood there (RFC 1624).
            let Some(before) = field::word(packet, IP_CHECKSUM) else {
                return;
            };
            let sum = Sum::word(!before)
                .plus(Sum::word(!first))
                .plus(Sum::word(marked));
            field::set_word(packet, 0, marked);
            field::set_word(packet, IP_CHECKSUM, sum.checksum());
        }
        _ => field::set_word(packet, 0, first | u16::from(Ecn::CE.0) << 4),
    }
}

/// Type of service, or traffic class.
fn traffic_class(packet: &[u8]) -> Option<u8> {
    let [first, second, ..] = *packet else {
        return None;
    };
    match first >> 4 {
        4 if packet.len() >= 20 => Some(second),
        6 if packet.len() >= 40 => Some(first << 4 | second >> 4),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v4(tos: u8, rest: [u8; 18]) -> Vec<u8> {
        let mut packet = vec![0x45, tos];
        packet.extend(rest);
        field::set_word(&mut packet, IP_CHECKSUM, 0);
        let sum = Sum::of(&packet).checksum();
        field::set_word(&mut packet, IP_CHECKSUM, sum);
        packet
    }

    fn v6(class: u8) -> Vec<u8> {
        let mut packet = vec![0; 40];
        (packet[0], packet[1]) = (0x60 | class >> 4, class << 4 | 0x0f);
        packet
    }

    /// RFC 6040 section 4.2, with what was marked outside; and what the kernel's WireGuard writes there.
    const TABLE: [(Ecn, Ecn, Ecn); 4] = [
        // Inside, outside, inside once it was marked outside.
        (Ecn::NOT_ECT, Ecn::NOT_ECT, Ecn::NOT_ECT),
        (Ecn::ECT_0, Ecn::ECT_0, Ecn::CE),
        (Ecn::ECT_1, Ecn::ECT_1, Ecn::CE),
        (Ecn::CE, Ecn::ECT_0, Ecn::CE),
    ];

    proptest! {
        #[test]
        fn marks_go_in_and_out_and_nothing_else_changes(dscp in 0_u8..64, rest: [u8; 18]) {
            for (inside, outside, marked) in TABLE {
                let class = dscp << 2 | inside.bits();
                for packet in [v4(class, rest), v6(class)] {
                    prop_assert_eq!(Ecn::outside(&packet), outside);
                    let mut after = packet.clone();
                    mark(&mut after);
                    prop_assert_eq!(traffic_class(&after), Some(dscp << 2 | marked.bits()));
                    if packet[0] == 0x45 {
                        prop_assert!(Sum::of(&after).is_intact(), "{:?}", after);
                    } else {
                        prop_assert_eq!(after[1] & 0x0f, 0x0f, "the flow label");
                    }
                    prop_assert_eq!(&after[12..], &packet[12..]);
                }
            }
        }

        #[test]
        fn any_bytes_are_left_alone_or_marked(mut bytes: Vec<u8>) {
            let length = bytes.len();
            let _ = Ecn::outside(&bytes);
            mark(&mut bytes);
            prop_assert_eq!(bytes.len(), length);
        }
    }
}
