//! What we accept, what we refuse and by which name, and what moves a mark.

use super::bench::{
    PDU, at, by_time, fine, hears, hears_peers, host, id, keys, monotonic, on, router, signed,
    signed_with, skewed, verify, window, with,
};
use crate::auth::{
    AntiReplay, Config, Identity, Mark, Mode, Reject, Senders, Stamp, Trailer, Verified, Verifier,
};

fn mark(last: u8, stamp: Stamp) -> Mark {
    let sender = host(last);
    Mark { sender, stamp }
}

fn marks(verifier: &Verifier) -> Vec<Mark> {
    verifier.marks().collect()
}

#[test]
fn each_mode_accepts_its_adverts() {
    let right = signed(10, at(0));
    let mut wrong = right;
    wrong[20] ^= 1;
    let bare = Ok(Verified::Bare);
    for (mode, without) in [
        (Mode::ReceiveOnly, bare),
        (Mode::Permissive, bare),
        (Mode::Enforce, Err(Reject::Missing)),
    ] {
        let config = Config {
            mode,
            ..monotonic()
        };
        let mut verifier = hears(config);
        assert_eq!(verifier.verify(at(0), &router(10), &PDU, None), without);
        assert_eq!(
            verify(&mut verifier, at(0), 10, &wrong),
            Err(Reject::BadHmac)
        );
        assert_eq!(verify(&mut verifier, at(0), 10, &right), fine(), "{mode:?}");
        assert_eq!(
            verify(&mut verifier, at(0), 10, &right),
            Err(Reject::Replay)
        );
    }
}

/// An advert that is wrong in every way is repaired from the first check to the last.
#[test]
fn the_first_check_that_fails_wins() {
    let mut verifier = hears_peers(by_time(5), &[10]);
    assert_eq!(verify(&mut verifier, at(0), 10, &signed(10, at(1))), fine());
    let mut trailer = signed(10, at(-60));
    trailer[0] = 2;
    trailer[1] = 0;
    trailer[20] ^= 1;
    assert_eq!(
        verify(&mut verifier, at(0), 99, &trailer),
        Err(Reject::UnknownSender)
    );
    assert_eq!(
        verify(&mut verifier, at(0), 10, &trailer),
        Err(Reject::Malformed)
    );
    trailer[0] = 1;
    assert_eq!(
        verify(&mut verifier, at(0), 10, &trailer),
        Err(Reject::Stale)
    );
    let seconds = Trailer::parse(&signed(10, at(0))).unwrap().emit();
    trailer[4..12].copy_from_slice(&seconds[4..12]);
    for unknown in [0, 2, 255] {
        trailer[1] = unknown;
        assert_eq!(
            verify(&mut verifier, at(0), 10, &trailer),
            Err(Reject::UnknownKey)
        );
    }
    trailer[1] = 1;
    assert_eq!(
        verify(&mut verifier, at(0), 10, &trailer),
        Err(Reject::BadHmac)
    );
    trailer = signed(10, at(0));
    assert_eq!(
        verify(&mut verifier, at(0), 10, &trailer),
        Err(Reject::Replay)
    );
    trailer = signed(10, at(2));
    assert_eq!(verify(&mut verifier, at(0), 10, &trailer), fine());
}

#[test]
fn by_time_an_advert_is_fresh_up_to_the_window_and_worth_a_warning_beyond_half_of_it() {
    for (window, silent) in [(5, 2), (10, 5), (300, 150), (1, 0)] {
        for off in -window - 2_i32..=window + 2 {
            let mut verifier = hears(by_time(u16::try_from(window).unwrap()));
            let expected = match off.abs() {
                far if far > window => Err(Reject::Stale),
                wide if wide > silent => skewed(Some(off)),
                _ => fine(),
            };
            let trailer = signed(10, at(0));
            let verified = verify(&mut verifier, at(off), 10, &trailer);
            assert_eq!(verified, expected, "{off} of {window}");
        }
    }
}

#[test]
fn the_window_reaches_over_the_wrap_of_the_seconds() {
    for (ours, theirs, expected) in [
        (u32::MAX, 1, fine()),
        (u32::MAX, 2, skewed(Some(-3))),
        (u32::MAX, 4, skewed(Some(-5))),
        (u32::MAX, 5, Err(Reject::Stale)),
        (1, u32::MAX, fine()),
        (4, u32::MAX, skewed(Some(5))),
        (5, u32::MAX, Err(Reject::Stale)),
        (0, 1 << 31, Err(Reject::Stale)),
        (1 << 31, 0, Err(Reject::Stale)),
    ] {
        let mut verifier = hears(by_time(5));
        let trailer = signed(10, on(theirs));
        let verified = verify(&mut verifier, on(ours), 10, &trailer);
        assert_eq!(verified, expected, "{theirs} at {ours}");
    }
}

#[test]
fn marks_grow_over_the_wrap_of_the_seconds() {
    for config in [by_time(5), monotonic()] {
        let mut verifier = hears(config);
        let wall = on(0);
        let old = signed(10, on(u32::MAX));
        let new = signed(10, on(1));
        assert_eq!(verify(&mut verifier, wall, 10, &old), fine());
        assert_eq!(verify(&mut verifier, wall, 10, &new), fine());
        assert_eq!(verify(&mut verifier, wall, 10, &old), Err(Reject::Replay));
    }
}

#[test]
fn monotonic_clocks_do_not_matter_once_a_sender_is_known() {
    let mut verifier = hears(with(AntiReplay::MONOTONIC));
    assert_eq!(verify(&mut verifier, at(0), 10, &signed(10, at(0))), fine());
    let hour = 3_600;
    assert_eq!(
        verify(&mut verifier, at(-hour), 10, &signed(10, at(1))),
        fine()
    );
    assert_eq!(
        verify(&mut verifier, on(0), 10, &signed(10, at(hour))),
        fine()
    );
    assert_eq!(
        verify(&mut verifier, at(hour), 10, &signed(10, at(hour - 1))),
        Err(Reject::Replay)
    );
}

#[test]
fn monotonic_a_sender_without_a_mark_must_be_within_the_window_of_the_first_contact() {
    let first_contact = Some(window(120));
    for (off, expected) in [
        (-121, Err(Reject::Stale)),
        (-120, skewed(Some(-120))),
        (60, fine()),
        (61, skewed(Some(61))),
        (121, Err(Reject::Stale)),
    ] {
        let mut verifier = hears(with(AntiReplay::Monotonic { first_contact }));
        let verified = verify(&mut verifier, at(off), 10, &signed(10, at(0)));
        assert_eq!(verified, expected, "{off}");
        let mut anyone = hears(monotonic());
        assert_eq!(verify(&mut anyone, at(off), 10, &signed(10, at(0))), fine());
    }
}

#[test]
fn by_time_a_mark_outside_the_window_is_forgotten() {
    // The sender's clock ran an hour ahead together with ours; both are set right.
    let mut verifier = hears(by_time(5));
    let hour = 3_600;
    let ahead = signed(10, at(hour));
    assert_eq!(verify(&mut verifier, at(hour), 10, &ahead), fine());
    assert_eq!(verify(&mut verifier, at(0), 10, &signed(10, at(0))), fine());
    assert_eq!(
        verify(&mut verifier, at(0), 10, &signed(10, at(0))),
        Err(Reject::Replay)
    );
    // Within the window it is not.
    let mut verifier = hears(by_time(5));
    assert_eq!(
        verify(&mut verifier, at(0), 10, &signed(10, at(5))),
        skewed(Some(-5))
    );
    assert_eq!(
        verify(&mut verifier, at(0), 10, &signed(10, at(4))),
        Err(Reject::Replay)
    );
}

#[test]
fn monotonic_a_mark_is_never_forgotten() {
    let mut verifier = hears(monotonic());
    assert_eq!(verify(&mut verifier, at(0), 10, &signed(10, at(0))), fine());
    let years = on(0x7836_f400);
    assert_eq!(
        verify(&mut verifier, years, 10, &signed(10, at(-1))),
        Err(Reject::Replay)
    );
}

#[test]
fn each_peer_has_its_own_mark_and_strangers_have_none() {
    let mut verifier = hears_peers(monotonic(), &[10, 11, 12, 13, 14, 15]);
    for last in 10..=15 {
        let trailer = signed(last, at(0));
        assert_eq!(verify(&mut verifier, at(0), last, &trailer), fine());
    }
    // More peers than a group has marks: none is forgotten.
    for last in 10..=15 {
        let trailer = signed(last, at(0));
        let verified = verify(&mut verifier, at(0), last, &trailer);
        assert_eq!(verified, Err(Reject::Replay));
    }
    let stranger = signed(16, at(1));
    assert_eq!(
        verify(&mut verifier, at(0), 16, &stranger),
        Err(Reject::UnknownSender)
    );
    assert_eq!(marks(&verifier).len(), 6);
}

#[test]
fn a_group_keeps_the_marks_of_the_four_heard_last() {
    let mut verifier = hears(monotonic());
    for last in [10, 11, 12, 13] {
        let trailer = signed(last, at(0));
        assert_eq!(verify(&mut verifier, at(0), last, &trailer), fine());
    }
    assert_eq!(verify(&mut verifier, at(0), 10, &signed(10, at(1))), fine());
    assert_eq!(verify(&mut verifier, at(0), 14, &signed(14, at(0))), fine());
    // 11 was heard the longest time ago.
    let left = [
        mark(12, at(0)),
        mark(13, at(0)),
        mark(10, at(1)),
        mark(14, at(0)),
    ];
    assert_eq!(marks(&verifier), left);
}

#[test]
fn a_replay_does_not_keep_a_mark_young() {
    let mut verifier = hears(monotonic());
    for last in [10, 11, 12, 13] {
        let trailer = signed(last, at(0));
        assert_eq!(verify(&mut verifier, at(0), last, &trailer), fine());
    }
    let old = signed(10, at(0));
    assert_eq!(verify(&mut verifier, at(0), 10, &old), Err(Reject::Replay));
    assert_eq!(verify(&mut verifier, at(0), 14, &signed(14, at(0))), fine());
    assert!(marks(&verifier).iter().all(|mark| mark.sender != host(10)));
}

#[test]
fn marks_that_were_written_down_refuse_replays_after_a_restart() {
    let mut before = hears(monotonic());
    for last in [10, 11, 12, 13] {
        let trailer = signed(last, at(0));
        assert_eq!(verify(&mut before, at(0), last, &trailer), fine());
    }
    let mut after = hears(monotonic());
    for mark in before.marks() {
        after.restore(mark);
    }
    assert_eq!(marks(&after), marks(&before));
    let replay = signed(11, at(0));
    assert_eq!(verify(&mut after, at(0), 11, &replay), Err(Reject::Replay));
}

#[test]
fn a_mark_that_is_restored_never_goes_back_and_makes_nobody_a_peer() {
    let mut verifier = hears_peers(monotonic(), &[10]);
    verifier.restore(mark(10, at(5)));
    verifier.restore(mark(10, at(4)));
    verifier.restore(mark(11, at(5)));
    assert_eq!(marks(&verifier), [mark(10, at(5))]);
}

#[test]
fn a_new_configuration_keeps_the_marks_of_those_who_stay() {
    let mut verifier = hears_peers(monotonic(), &[10, 11]);
    for last in [10, 11] {
        let trailer = signed(last, at(0));
        assert_eq!(verify(&mut verifier, at(0), last, &trailer), fine());
    }
    let peers = Senders::Peers(vec![host(11), host(12)]);
    verifier.reconfigure(monotonic(), peers);
    assert_eq!(marks(&verifier), [mark(11, at(0))]);
    verifier.reconfigure(monotonic(), Senders::Group);
    assert_eq!(marks(&verifier), [mark(11, at(0))]);
}

#[test]
fn a_rotation_of_keys_is_heard_at_every_step() {
    let by = |active, all: &[u8]| Config {
        keys: keys(active, all),
        ..monotonic()
    };
    let with_key = |number| {
        Ok(Verified::Signed {
            key: id(number),
            skew: None,
        })
    };
    let mut verifier = hears(by(1, &[1]));
    let second = signed_with(2, 10, at(1));
    assert_eq!(
        verify(&mut verifier, at(1), 10, &second),
        Err(Reject::UnknownKey)
    );
    verifier.reconfigure(by(1, &[1, 2]), Senders::Group);
    assert_eq!(verify(&mut verifier, at(1), 10, &second), with_key(2));
    let first = signed_with(1, 11, at(1));
    assert_eq!(verify(&mut verifier, at(1), 11, &first), with_key(1));
    verifier.reconfigure(by(2, &[2]), Senders::Group);
    let late = signed_with(1, 11, at(2));
    assert_eq!(
        verify(&mut verifier, at(2), 11, &late),
        Err(Reject::UnknownKey)
    );
    assert_eq!(
        verify(&mut verifier, at(2), 10, &second),
        Err(Reject::Replay)
    );
}

#[test]
fn the_bytes_of_one_key_under_the_number_of_another_are_a_wrong_signature() {
    let config = Config {
        keys: keys(1, &[1, 2]),
        ..monotonic()
    };
    let mut trailer = signed(10, at(0));
    trailer[1] = 2;
    assert_eq!(
        verify(&mut hears(config), at(0), 10, &trailer),
        Err(Reject::BadHmac)
    );
}

#[test]
fn version_two_is_signed_with_its_authentication_bytes() {
    let identity = Identity {
        version: 2,
        ..router(10)
    };
    let mut pdu = vec![0x21, 51, 200, 1, 0, 1, 0xbe, 0xef, 192, 0, 2, 100];
    pdu.extend([0; 8]);
    let mut signer = crate::auth::Signer::new(monotonic(), None);
    let trailer = signer.sign(at(0), &identity, &pdu).unwrap();
    let said = |pdu: &[u8]| {
        let mut verifier = hears(monotonic());
        verifier.verify(at(0), &identity, pdu, Some(&trailer))
    };
    assert_eq!(said(&pdu), fine());
    pdu[19] = 1;
    assert_eq!(said(&pdu), Err(Reject::BadHmac));
    assert_eq!(said(&pdu[..12]), Err(Reject::BadHmac));
}
