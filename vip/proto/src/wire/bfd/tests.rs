use proptest::prelude::*;

use super::*;

/// Init with a poll: 1 s and 300 ms, three times, echo at 50 ms.
const INIT: [u8; LEN] = [
    0x20, 0xa0, 0x03, 0x18, 0x5d, 0x0c, 0x9a, 0x31, 0x7b, 0x22, 0x00, 0x01, 0x00, 0x0f, 0x42, 0x40,
    0x00, 0x04, 0x93, 0xe0, 0x00, 0x00, 0xc3, 0x50,
];

fn micros(micros: u32) -> Interval {
    Interval::from_micros(micros)
}

fn any_state() -> impl Strategy<Value = SessionState> {
    (0..4_u8).prop_map(state)
}

fn any_control() -> impl Strategy<Value = Control> {
    let flags = any::<[bool; 4]>();
    let numbers = (1..=u32::MAX, any::<u32>(), any::<[u32; 3]>());
    (0..32_u8, any_state(), flags, 1..=255_u8, numbers).prop_map(
        |(
            diagnostic,
            state,
            [poll, fin, independent, demand],
            multiplier,
            (my, your, [t, r, e]),
        )| {
            Control {
                diagnostic: Diagnostic::new(diagnostic).unwrap(),
                state,
                poll,
                fin,
                independent,
                demand,
                multiplier: Multiplier::new(multiplier).unwrap(),
                my: Discriminator::new(my).unwrap(),
                your: Discriminator::new(your),
                desired_min_tx: micros(t),
                required_min_rx: micros(r),
                required_min_echo_rx: micros(e),
            }
        },
    )
}

#[test]
fn the_fields_stand_where_the_rfc_has_them() {
    let packet = Control::parse(&INIT).unwrap();
    let expected = Control {
        diagnostic: Diagnostic::NONE,
        state: SessionState::Init,
        poll: true,
        fin: false,
        independent: false,
        demand: false,
        multiplier: Multiplier::DEFAULT,
        my: Discriminator::new(0x5d0c_9a31).unwrap(),
        your: Discriminator::new(0x7b22_0001),
        desired_min_tx: Interval::SLOW,
        required_min_rx: micros(300_000),
        required_min_echo_rx: micros(50_000),
    };
    assert_eq!(
        packet,
        Packet {
            control: expected,
            auth: None
        }
    );
    assert_eq!(expected.emit(), INIT);
}

#[test]
fn what_is_to_be_discarded_is_and_says_why() {
    let broken = |at: usize, value: u8| {
        let mut bytes = INIT;
        bytes[at] = value;
        Control::parse(&bytes).err()
    };
    assert_eq!(broken(0, 0x40), Some(Malformed::Version));
    assert_eq!(broken(0, 0x00), Some(Malformed::Version));
    assert_eq!(broken(3, 23), Some(Malformed::Length));
    assert_eq!(broken(3, 25), Some(Malformed::Truncated));
    assert_eq!(broken(2, 0), Some(Malformed::Multiplier));
    assert_eq!(broken(1, 0xa1), Some(Malformed::Multipoint));
    let mut anonymous = INIT;
    anonymous[4..8].fill(0);
    assert_eq!(Control::parse(&anonymous), Err(Malformed::Discriminator));
    // Of two faults the one counts that the RFC checks first.
    let mut both = INIT;
    (both[0], both[2], both[3]) = (0x40, 0, 10);
    assert_eq!(Control::parse(&both), Err(Malformed::Version));
    both[0] = 0x20;
    assert_eq!(Control::parse(&both), Err(Malformed::Length));
}

#[test]
fn an_authentication_section_is_set_apart_and_needs_its_two_bytes() {
    let mut sealed = INIT.to_vec();
    sealed[1] |= 1 << 2;
    assert_eq!(Control::parse(&sealed), Err(Malformed::Length));
    sealed[3] = 25;
    sealed.push(1);
    assert_eq!(Control::parse(&sealed), Err(Malformed::Length));
    sealed[3] = 27;
    sealed.extend([3, 9, 0xff]);
    let packet = Control::parse(&sealed).unwrap();
    assert_eq!(packet.auth, Some([1, 3, 9].as_slice()));
    // Without the bit they are of no packet.
    sealed[1] &= !(1 << 2);
    assert_eq!(Control::parse(&sealed).unwrap().auth, None);
}

#[test]
fn every_truncation_is_refused() {
    for length in 0..LEN {
        assert_eq!(Control::parse(&INIT[..length]), Err(Malformed::Truncated));
    }
}

#[test]
fn each_reason_to_discard_has_a_counter_of_its_own() {
    let labels = [
        Malformed::Truncated,
        Malformed::Version,
        Malformed::Length,
        Malformed::Multiplier,
        Malformed::Multipoint,
        Malformed::Discriminator,
    ]
    .map(Malformed::label);
    assert_eq!(
        labels,
        [
            "truncated",
            "version",
            "length",
            "multiplier",
            "multipoint",
            "discriminator"
        ]
    );
}

#[test]
fn an_interval_is_whole_microseconds_up_to_the_longest() {
    let of = |nanos| Interval::saturating(Duration::from_nanos(nanos));
    assert_eq!(of(50_000_999), micros(50_000));
    assert_eq!(of(u64::MAX), micros(u32::MAX));
}

#[test]
fn a_discriminator_reads_as_in_a_capture() {
    let number = Discriminator::new(0x0c_9a31).unwrap();
    assert_eq!(number.to_string(), "0x000c9a31");
}

proptest! {
    #[test]
    fn what_is_written_reads_back(control in any_control(), padding in any::<[u8; 4]>()) {
        let mut bytes = control.emit().to_vec();
        bytes.extend(padding);
        prop_assert_eq!(Control::parse(&bytes), Ok(Packet { control, auth: None }));
    }

    #[test]
    fn what_is_read_is_written_as_it_was(bytes in any::<[u8; LEN]>()) {
        // Made likely.
        let mut bytes = bytes;
        bytes[0] = 0x20 | bytes[0] & 0x1f;
        bytes[1] &= !0b101;
        bytes[3] = 24;
        if let Ok(packet) = Control::parse(&bytes) {
            prop_assert_eq!(packet.control.emit(), bytes);
        }
    }
}
