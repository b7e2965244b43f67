//! The laws of signed adverts, for any key, sender, advert, clock and order of delivery.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use kedge_core::vip::Vrid;
use proptest::prelude::*;

use super::bench::{
    PDU, at, by_time, hears, host, id, monotonic, on, router, signed, window, with,
};
use crate::auth::{
    AntiReplay, Config, Identity, Key, Keys, Mark, Mode, Senders, Signer, Stamp, Trailer, Verified,
    Verifier,
};

fn any_stamp() -> impl Strategy<Value = Stamp> {
    let near = (0..200_u32, any::<u32>())
        .prop_map(|(seconds, rest)| at(100).plus_seconds(seconds).bits() | u64::from(rest));
    let wrap = (0..200_u32, any::<u32>()).prop_map(|(seconds, rest)| {
        on(u32::MAX - 100).plus_seconds(seconds).bits() | u64::from(rest)
    });
    prop_oneof![any::<u64>(), near, wrap].prop_map(Stamp::from_bits)
}

fn any_identity() -> impl Strategy<Value = Identity> {
    let v4 = any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
    let v6 = any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)));
    (prop_oneof![v4, v6], 2..=3_u8, 1..=255_u8).prop_map(|(source, version, vrid)| Identity {
        source,
        version,
        vrid: Vrid::new(vrid).unwrap(),
    })
}

fn any_anti_replay() -> impl Strategy<Value = AntiReplay> {
    (1..=300_u16).prop_flat_map(|seconds| {
        let window = window(seconds);
        let first_contact = Some(window);
        prop_oneof![
            Just(AntiReplay::Time { window }),
            Just(AntiReplay::Monotonic { first_contact }),
            Just(AntiReplay::Monotonic {
                first_contact: None
            }),
        ]
    })
}

fn any_config() -> impl Strategy<Value = Config> {
    let secret = prop::collection::vec(any::<u8>(), 32..=64);
    let mode = prop_oneof![Just(Mode::Permissive), Just(Mode::Enforce)];
    (secret, 1..=255_u8, mode, any_anti_replay()).prop_map(|(secret, number, mode, anti_replay)| {
        let all = BTreeMap::from([(id(number), Key::new(&secret).unwrap())]);
        Config {
            keys: Keys::new(id(number), all).unwrap(),
            mode,
            anti_replay,
        }
    })
}

fn any_pdu() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 8..=1_052)
}

fn marks(verifier: &Verifier) -> Vec<Mark> {
    verifier.marks().collect()
}

/// What happens to a host that sends.
#[derive(Clone, Copy, Debug)]
enum Sending {
    /// It sends an advert.
    Sign,
    /// The mark it wants is written.
    Write,
    /// It loses power and starts again, with what is on disk.
    Reboot,
    /// Its clock is set to a number of seconds around noon.
    Set(i32),
}

fn any_sending() -> impl Strategy<Value = Sending> {
    // Three decades either way: RFC 1982 tells an order up to 68 years.
    let thirty_years = 900_000_000;
    prop_oneof![
        6 => Just(Sending::Sign),
        2 => Just(Sending::Write),
        1 => Just(Sending::Reboot),
        1 => (-thirty_years..thirty_years).prop_map(Sending::Set),
        2 => (-100..100_i32).prop_map(Sending::Set),
    ]
}

proptest! {
    #[test]
    fn what_is_signed_verifies_exactly_once(
        config in any_config(),
        identity in any_identity(),
        pdu in any_pdu(),
        wall in any_stamp(),
    ) {
        let payload = {
            let mut signer = Signer::new(config.clone(), None);
            let trailer = signer.sign(wall, &identity, &pdu).unwrap();
            [&pdu[..], &trailer].concat()
        };
        let (pdu, trailer) = Trailer::split(&payload, pdu.len()).unwrap();
        let key = config.keys.active().0;
        for senders in [Senders::Group, Senders::Peers(vec![identity.source])] {
            let mut verifier = Verifier::new(config.clone(), senders);
            let verified = verifier.verify(wall, &identity, pdu, Some(trailer));
            prop_assert_eq!(verified, Ok(Verified::Signed { key, skew: None }));
            let again = verifier.verify(wall, &identity, pdu, Some(trailer));
            prop_assert!(again.is_err());
        }
    }

    #[test]
    fn a_changed_byte_is_never_accepted(
        config in any_config(),
        identity in any_identity(),
        pdu in any_pdu(),
        wall in any_stamp(),
        place: prop::sample::Index,
        by in 1..=255_u8,
    ) {
        let trailer = Signer::new(config.clone(), None).sign(wall, &identity, &pdu).unwrap();
        let mut payload = [&pdu[..], &trailer].concat();
        let place = place.index(payload.len());
        payload[place] ^= by;
        let (pdu, trailer) = Trailer::split(&payload, pdu.len()).unwrap();
        let mut verifier = hears(config);
        let verified = verifier.verify(wall, &identity, pdu, Some(trailer));
        prop_assert_eq!(verified.is_ok(), (6..8).contains(&place), "{}: {:?}", place, verified);
    }

    /// Whatever is refused leaves every mark alone, and whatever is not signed with the key is
    /// refused.
    #[test]
    fn only_a_right_tag_moves_a_mark(
        anti_replay in any_anti_replay(),
        steps in prop::collection::vec(
            (10..16_u8, any_stamp(), any_stamp(), any::<[u8; 28]>(), 0..4_u8),
            1..40,
        ),
    ) {
        let mut verifier = hears(with(anti_replay));
        for (last, wall, stamp, noise, kind) in steps {
            let mut trailer = signed(last, stamp);
            match kind {
                0 => {}
                1 => trailer = noise,
                2 => trailer[12..].copy_from_slice(&noise[12..]),
                _ => trailer[4..12].copy_from_slice(&noise[4..12]),
            }
            let before = marks(&verifier);
            let verified = verifier.verify(wall, &router(last), &PDU, Some(&trailer));
            let after = marks(&verifier);
            if verified.is_err() {
                prop_assert_eq!(after, before);
            } else {
                prop_assert_eq!(kind, 0);
                let sender = host(last);
                prop_assert_eq!(after.last(), Some(&Mark { sender, stamp }));
            }
        }
    }

    /// Any number of old adverts in any order, under any clock: what was accepted never is again.
    #[test]
    fn monotonic_nothing_is_accepted_twice(
        first_contact in prop::option::of(Just(window(120))),
        steps in prop::collection::vec((10..14_u8, 0..20_u32, any_stamp()), 1..100),
    ) {
        let mut verifier = hears(with(AntiReplay::Monotonic { first_contact }));
        let mut newest = BTreeMap::new();
        for (last, second, wall) in steps {
            let stamp = at(0).plus_seconds(second);
            let verified =
                verifier.verify(wall, &router(last), &PDU, Some(&signed(last, stamp)));
            if verified.is_ok() {
                let old = newest.insert(last, second);
                prop_assert!(old.is_none_or(|old| second > old));
            }
        }
    }

    #[test]
    fn by_time_nothing_is_accepted_twice_while_our_clock_does_not_go_back(
        steps in prop::collection::vec((10..14_u8, 0..40_u32, 0..4_u32), 1..100),
    ) {
        let mut verifier = hears(by_time(5));
        let mut wall = on(u32::MAX - 10);
        let mut newest: BTreeMap<u8, Stamp> = BTreeMap::new();
        for (last, second, passed) in steps {
            wall = wall.plus_seconds(passed);
            let stamp = on(u32::MAX - 15).plus_seconds(second);
            let verified =
                verifier.verify(wall, &router(last), &PDU, Some(&signed(last, stamp)));
            if verified.is_ok() {
                let old = newest.insert(last, stamp);
                prop_assert!(old.is_none_or(|old| stamp.is_after(old)));
            }
        }
    }

    #[test]
    fn monotonic_the_sequence_grows_under_any_clock(
        mark in prop::option::of(any_stamp()),
        steps in prop::collection::vec((any_stamp(), any::<bool>()), 2..60),
    ) {
        let mut signer = Signer::new(monotonic(), mark);
        let mut last = mark;
        for (wall, write) in steps {
            if write && let Some(mark) = signer.wants_mark(wall) {
                signer.marked(mark);
            }
            let trailer = signer.sign(wall, &router(10), &PDU).unwrap();
            let stamp = Trailer::parse(&trailer).unwrap().stamp;
            prop_assert!(last.is_none_or(|last| stamp.is_after(last)));
            last = Some(stamp);
        }
    }

    /// A host that writes a mark before its first advert never repeats a sequence, whatever its
    /// clock does and whenever it loses power.
    #[test]
    fn monotonic_the_sequence_grows_over_reboots(
        steps in prop::collection::vec(any_sending(), 1..100),
    ) {
        let mut wall = at(0);
        let mut disk: Option<Stamp> = None;
        let mut last: Option<Stamp> = None;
        let mut signer = Signer::new(monotonic(), disk);
        let write = |signer: &mut Signer, disk: &mut Option<Stamp>, wall| {
            if let Some(mark) = signer.wants_mark(wall) {
                *disk = Some(mark);
                signer.marked(mark);
            }
        };
        write(&mut signer, &mut disk, wall);
        for step in steps {
            match step {
                Sending::Set(seconds) => wall = at(seconds),
                Sending::Write => write(&mut signer, &mut disk, wall),
                Sending::Reboot => {
                    signer = Signer::new(monotonic(), disk);
                    write(&mut signer, &mut disk, wall);
                }
                Sending::Sign => {
                    let trailer = signer.sign(wall, &router(10), &PDU).unwrap();
                    let stamp = Trailer::parse(&trailer).unwrap().stamp;
                    prop_assert!(last.is_none_or(|last| stamp.is_after(last)));
                    prop_assert!(disk.is_some_and(|disk| !stamp.is_after(disk)));
                    last = Some(stamp);
                }
            }
        }
    }

    /// A receiver with the same clock always finds the sequence within its window, and newer
    /// than the last one unless that is outside.
    #[test]
    fn by_time_the_sequence_stays_within_the_window_and_grows_inside_of_it(
        steps in prop::collection::vec(any_stamp(), 1..60),
    ) {
        let mut signer = Signer::new(by_time(5), None);
        let mut last: Option<Stamp> = None;
        for wall in steps {
            let trailer = signer.sign(wall, &router(10), &PDU).unwrap();
            let stamp = Trailer::parse(&trailer).unwrap().stamp;
            prop_assert!(stamp.seconds_since(wall).abs() <= 5);
            let counts = last.filter(|last| last.next().seconds_since(wall).abs() <= 5);
            prop_assert!(counts.is_none_or(|last| stamp.is_after(last)));
            last = Some(stamp);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_never_verify(
        payload in prop::collection::vec(any::<u8>(), 0..80),
        pdu_len in 0..80_usize,
        wall in any_stamp(),
    ) {
        if let Some((pdu, trailer)) = Trailer::split(&payload, pdu_len) {
            let verified = hears(monotonic()).verify(wall, &router(10), pdu, Some(trailer));
            prop_assert!(verified.is_err());
        }
    }
}
