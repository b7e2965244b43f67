//! The codec, the detection by length, and the values that can only be right.

use std::{collections::BTreeMap, time::Duration};

use kedge_core::vip::AdvertInterval;
use proptest::prelude::*;

use super::bench::{PDU, at, id, key, on, signed, window};
use crate::auth::{
    BadKey, Key, KeyId, Keys, Malformed, NoActiveKey, Reject, Stamp, Trailer, Window,
};

#[test]
fn no_truncation_and_no_other_length_has_a_trailer() {
    let trailer = signed(10, at(0));
    let whole = [&PDU[..], &trailer].concat();
    for length in 0..whole.len() {
        assert_eq!(
            Trailer::split(&whole[..length], PDU.len()),
            None,
            "{length}"
        );
    }
    let split = Trailer::split(&whole, PDU.len());
    assert_eq!(split, Some((&PDU[..], &trailer)));
    for more in 1..100 {
        let longer = [&whole[..], &vec![0; more]].concat();
        assert_eq!(Trailer::split(&longer, PDU.len()), None, "{more} more");
    }
}

#[test]
fn ethernet_padding_is_no_trailer() {
    for padding in 0..=18 {
        let padded = [&PDU[..], &vec![0; padding]].concat();
        assert_eq!(Trailer::split(&padded, PDU.len()), None, "{padding}");
    }
}

#[test]
fn another_type_or_a_reserved_bit_is_malformed() {
    let good = signed(10, at(0));
    assert!(Trailer::parse(&good).is_ok());
    for ext_type in (0..=255).filter(|ext_type| *ext_type != 1) {
        let mut bytes = good;
        bytes[0] = ext_type;
        assert_eq!(Trailer::parse(&bytes), Err(Malformed), "{ext_type}");
    }
    for bit in 0..16 {
        let mut bytes = good;
        bytes[2 + bit / 8] = 1 << (bit % 8);
        assert_eq!(Trailer::parse(&bytes), Err(Malformed), "{bit}");
    }
}

#[test]
fn labels_are_those_of_the_metric_and_all_different() {
    use Reject as R;
    let all = [
        (R::UnknownSender, "auth_sender"),
        (R::Malformed, "auth_malformed"),
        (R::Stale, "auth_stale"),
        (R::UnknownKey, "auth_key"),
        (R::BadHmac, "auth_bad"),
        (R::Replay, "auth_replay"),
        (R::Missing, "auth_missing"),
    ];
    for (reject, label) in all {
        assert_eq!(reject.label(), label);
    }
}

#[test]
fn a_key_has_32_to_64_bytes_and_is_never_shown() {
    for length in [0, 1, 31, 65, 1000] {
        assert_eq!(Key::new(&vec![7; length]), Err(BadKey(length)));
    }
    for length in 32..=64 {
        let key = Key::new(&vec![0xab; length]).unwrap();
        assert_eq!(format!("{key:?}"), "Key(***)");
    }
    let keys = Keys::new(id(1), BTreeMap::from([(id(1), key(0)), (id(2), key(1))])).unwrap();
    let shown = format!("{keys:?}");
    assert_eq!(shown.matches("Key(***)").count(), 2, "{shown}");
    assert!(!shown.contains('['), "{shown}");
}

#[test]
fn a_key_id_is_1_to_255() {
    assert!(KeyId::new(0).is_err());
    for value in 1..=255 {
        assert_eq!(KeyId::new(value).unwrap().get(), value);
        assert_eq!(KeyId::try_from(i64::from(value)).unwrap().get(), value);
    }
    for value in [-1, 0, 256, 257, i64::MAX, i64::MIN] {
        assert_eq!(KeyId::try_from(value).unwrap_err().value, value);
    }
}

#[test]
fn the_active_key_is_one_of_the_keys_and_all_are_found() {
    let all = BTreeMap::from([(id(1), key(0)), (id(7), key(6))]);
    assert_eq!(Keys::new(id(2), all.clone()), Err(NoActiveKey(id(2))));
    let keys = Keys::new(id(7), all).unwrap();
    assert_eq!(keys.active(), (id(7), &key(6)));
    assert_eq!(keys.find(id(1)), Some(&key(0)));
    assert_eq!(keys.find(id(7)), Some(&key(6)));
    assert_eq!(keys.find(id(2)), None);
}

#[test]
fn a_window_is_1_to_300_seconds_and_by_default_three_intervals_or_five_seconds() {
    assert!(Window::new(0).is_err());
    assert!(Window::new(301).is_err());
    assert_eq!(window(1).seconds(), 1);
    assert_eq!(window(300).seconds(), 300);
    for (centis, seconds) in [(1, 5), (100, 5), (166, 5), (167, 6), (200, 6), (4095, 123)] {
        let interval = AdvertInterval::from_centis(centis).unwrap();
        assert_eq!(Window::of(interval).seconds(), seconds, "{centis} cs");
    }
}

#[test]
fn a_stamp_is_seconds_and_a_65536th_of_them() {
    for (secs, nanos, bits) in [
        (0, 0, 0),
        (1, 500_000_000, 0x0000_0001_8000_0000),
        (0x6800_0000, 999_999_999, 0x6800_0000_ffff_0000),
        // 65536 parts of a second are 15 259 ns each.
        (0, 15_258, 0),
        (0, 15_259, 0x1_0000),
        (0x1_0000_0002, 0, 0x0000_0002_0000_0000),
    ] {
        let stamp = Stamp::from_unix(Duration::new(secs, nanos));
        assert_eq!(stamp.bits(), bits, "{secs} s {nanos} ns");
    }
}

#[test]
fn stamps_are_compared_around_the_wrap() {
    let before = on(u32::MAX);
    let after = on(0);
    assert!(after.is_after(before));
    assert!(!before.is_after(after));
    assert!(!after.is_after(after));
    assert_eq!(after.seconds_since(before), 1);
    assert_eq!(before.seconds_since(after), -1);
    assert_eq!(Stamp::from_bits(u64::MAX).next(), on(0));
    assert_eq!(before.plus_seconds(3), on(2));
    assert_eq!(on(2).minus_seconds(3), before);
    assert_eq!((before.later(after), after.later(before)), (after, after));
    // At exactly half of the circle neither is the later one.
    let opposite = on(1 << 31);
    assert!(!opposite.is_after(on(0)));
    assert!(!on(0).is_after(opposite));
}

proptest! {
    #[test]
    fn what_is_emitted_parses_back(key_id: u8, bits: u64, tag: [u8; 16]) {
        let stamp = Stamp::from_bits(bits);
        let trailer = Trailer { key_id, stamp, tag };
        prop_assert_eq!(Trailer::parse(&trailer.emit()), Ok(trailer));
    }

    #[test]
    fn what_parses_is_emitted_again(bytes: [u8; Trailer::LEN], real: bool) {
        let mut bytes = bytes;
        if real {
            bytes[0] = 1;
            bytes[2..4].fill(0);
        }
        if let Ok(trailer) = Trailer::parse(&bytes) {
            prop_assert_eq!(trailer.emit(), bytes);
        }
    }

    #[test]
    fn of_two_stamps_less_than_half_the_circle_apart_one_is_later(a: u64, by in 1..1_u64 << 63) {
        let (early, late) = (Stamp::from_bits(a), Stamp::from_bits(a.wrapping_add(by)));
        prop_assert!(late.is_after(early) && !early.is_after(late));
    }
}

#[test]
fn a_key_is_shown_as_the_block_it_is() {
    let secret = [7; 40];
    let key = Key::new(&secret).unwrap();
    let shown = key.expose();
    assert_eq!(shown.len(), Key::MAX);
    assert_eq!((&shown[..40], &shown[40..]), (&secret[..], &[0; 24][..]));
    assert_eq!(Key::new(shown), Ok(key.clone()), "it is the same key");
    assert_eq!(id(7).to_string(), "7");
}

#[test]
fn all_keys_are_told_and_the_active_one_is_among_them() {
    let keys = super::bench::keys(2, &[1, 2, 3]);
    let all: BTreeMap<_, _> = keys.iter().map(|(id, key)| (id, key.clone())).collect();
    let expected = [1, 2, 3].map(|number| (id(number), key(number - 1)));
    assert_eq!(all, BTreeMap::from(expected));
}
