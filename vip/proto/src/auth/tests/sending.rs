//! The sequence of what we send, and the mark ahead of it.

use super::bench::{PDU, at, by_time, id, keys, monotonic, on, router, window};
use crate::auth::{AntiReplay, Config, Mode, Signer, Stamp, Trailer};

/// The sequence of an advert signed at the time `wall`.
fn next(signer: &mut Signer, wall: Stamp) -> Stamp {
    let trailer = signer.sign(wall, &router(10), &PDU).unwrap();
    Trailer::parse(&trailer).unwrap().stamp
}

/// `stamp` and `count` more.
fn and(stamp: Stamp, count: u64) -> Stamp {
    Stamp::from_bits(stamp.bits().wrapping_add(count))
}

/// A monotonic signer that has been asked for a mark at the time `wall` and wrote it.
fn marked(wall: Stamp) -> Signer {
    let mut signer = Signer::new(monotonic(), None);
    write(&mut signer, wall);
    signer
}

/// Writes the mark the signer wants, and returns it.
fn write(signer: &mut Signer, wall: Stamp) -> Option<Stamp> {
    let mark = signer.wants_mark(wall)?;
    signer.marked(mark);
    Some(mark)
}

#[test]
fn the_sequence_is_the_clock_while_it_grows_and_the_last_plus_one_while_it_stands() {
    for config in [by_time(5), monotonic()] {
        let mut signer = Signer::new(config, None);
        assert_eq!(next(&mut signer, at(0)), at(0));
        assert_eq!(next(&mut signer, at(0)), and(at(0), 1));
        assert_eq!(next(&mut signer, at(0)), and(at(0), 2));
        assert_eq!(next(&mut signer, at(-1)), and(at(0), 3));
        assert_eq!(next(&mut signer, at(1)), at(1));
    }
}

#[test]
fn by_time_a_clock_set_back_beyond_the_window_starts_the_sequence_again() {
    let mut signer = Signer::new(by_time(5), None);
    assert_eq!(next(&mut signer, at(0)), at(0));
    assert_eq!(next(&mut signer, at(-5)), and(at(0), 1));
    assert_eq!(next(&mut signer, at(-6)), at(-6));
    assert_eq!(next(&mut signer, at(-6)), and(at(-6), 1));
    assert_eq!(next(&mut signer, at(-3_600)), at(-3_600));
}

#[test]
fn monotonic_a_clock_set_back_never_takes_the_sequence_back() {
    let mut signer = Signer::new(monotonic(), None);
    assert_eq!(next(&mut signer, at(0)), at(0));
    assert_eq!(next(&mut signer, at(-3_600)), and(at(0), 1));
    assert_eq!(next(&mut signer, on(0)), and(at(0), 2));
}

#[test]
fn a_full_counter_carries_into_the_time() {
    for config in [by_time(5), monotonic()] {
        let mut signer = Signer::new(config, None);
        assert_eq!(
            next(&mut signer, and(at(0), 0xffff_ffff)),
            and(at(0), 0xffff_ffff)
        );
        assert_eq!(next(&mut signer, at(0)), at(1));
    }
}

#[test]
fn by_time_a_carry_does_not_leave_the_window() {
    let mut signer = Signer::new(by_time(5), None);
    let full = and(at(5), 0xffff_ffff);
    assert_eq!(next(&mut signer, full), full);
    assert_eq!(next(&mut signer, at(0)), at(0));
}

#[test]
fn the_sequence_goes_on_when_the_seconds_wrap() {
    for config in [by_time(5), monotonic()] {
        let mut signer = Signer::new(config, None);
        assert_eq!(next(&mut signer, on(u32::MAX)), on(u32::MAX));
        assert_eq!(next(&mut signer, on(0)), on(0));
        assert_eq!(next(&mut signer, on(u32::MAX)), and(on(0), 1));
        assert_eq!(next(&mut signer, on(2)), on(2));
    }
}

#[test]
fn a_mark_is_wanted_before_the_first_advert_and_whenever_half_of_it_is_used() {
    let mut signer = Signer::new(monotonic(), None);
    assert_eq!(write(&mut signer, at(0)), Some(at(60)));
    for second in 0..30 {
        assert_eq!(signer.wants_mark(at(second)), None, "{second}");
        next(&mut signer, at(second));
    }
    assert_eq!(write(&mut signer, at(30)), Some(at(90)));
    assert_eq!(signer.wants_mark(at(30)), None);
    assert_eq!(signer.wants_mark(at(60)), Some(at(120)));
    assert_eq!(signer.wants_mark(at(-3_600)), None);
}

#[test]
fn by_time_or_without_signing_no_mark_is_wanted() {
    assert_eq!(Signer::new(by_time(5), None).wants_mark(at(0)), None);
    let silent = Config {
        mode: Mode::ReceiveOnly,
        ..monotonic()
    };
    assert_eq!(Signer::new(silent, None).wants_mark(at(0)), None);
}

#[test]
fn after_a_reboot_without_a_clock_the_sequence_goes_on_behind_the_mark() {
    let mut signer = marked(at(0));
    let before = next(&mut signer, at(29));
    let mut signer = Signer::new(monotonic(), Some(at(60)));
    assert_eq!(write(&mut signer, on(0)), Some(at(120)));
    let after = next(&mut signer, on(0));
    assert_eq!(after, and(at(60), 1));
    assert!(after.is_after(before));
}

#[test]
fn after_a_long_rest_the_sequence_is_the_clock_again() {
    let mut signer = Signer::new(monotonic(), Some(at(60)));
    assert_eq!(write(&mut signer, at(3_600)), Some(at(3_660)));
    assert_eq!(next(&mut signer, at(3_600)), at(3_600));
}

#[test]
fn a_clock_that_jumps_ahead_is_followed_once_the_mark_is_written() {
    let mut signer = marked(at(0));
    assert_eq!(next(&mut signer, at(1)), at(1));
    let year = 31_536_000;
    assert_eq!(next(&mut signer, at(year)), and(at(1), 1));
    assert_eq!(next(&mut signer, at(year)), and(at(1), 2));
    assert_eq!(write(&mut signer, at(year)), Some(at(year + 60)));
    assert_eq!(next(&mut signer, at(year)), at(year));
}

#[test]
fn a_clock_that_jumps_between_the_first_mark_and_the_first_advert_is_not_followed() {
    let mut signer = marked(at(0));
    assert_eq!(next(&mut signer, at(31_536_000)), and(at(0), 1));
}

#[test]
fn a_mark_that_cannot_be_written_stops_no_advert_and_is_not_passed() {
    let mut signer = marked(at(0));
    for second in 1..=59 {
        assert_eq!(next(&mut signer, at(second)), at(second));
    }
    for (step, second) in (60..3_600).enumerate() {
        let expected = and(at(59), u64::try_from(step).unwrap() + 1);
        assert_eq!(next(&mut signer, at(second)), expected, "{second}");
    }

    let mut never = Signer::new(monotonic(), None);
    assert_eq!(next(&mut never, at(0)), at(0));
    assert_eq!(next(&mut never, at(9)), at(9));
    assert_eq!(never.wants_mark(at(9)), Some(at(69)));
}

#[test]
fn with_nothing_but_an_old_mark_the_sequence_is_the_clock() {
    let mut signer = Signer::new(monotonic(), Some(at(60)));
    assert_eq!(next(&mut signer, at(0)), and(at(60), 1));
    assert_eq!(next(&mut signer, at(100)), at(100));
}

#[test]
fn an_older_mark_that_is_confirmed_late_changes_nothing() {
    let mut signer = marked(at(0));
    signer.marked(at(-100));
    assert_eq!(signer.wants_mark(at(0)), None);
}

#[test]
fn a_new_configuration_goes_on_with_the_sequence() {
    let mut signer = Signer::new(by_time(5), None);
    assert_eq!(next(&mut signer, at(0)), at(0));
    let rotated = Config {
        keys: keys(2, &[1, 2]),
        ..monotonic()
    };
    signer.reconfigure(rotated);
    let trailer = signer.sign(at(-60), &router(10), &PDU).unwrap();
    let trailer = Trailer::parse(&trailer).unwrap();
    assert_eq!((trailer.key_id, trailer.stamp), (2, and(at(0), 1)));
    assert_eq!(signer.wants_mark(at(-60)), Some(and(at(60), 1)));
}

#[test]
fn only_receive_only_sends_bare_adverts() {
    for (mode, signs) in [
        (Mode::ReceiveOnly, false),
        (Mode::Permissive, true),
        (Mode::Enforce, true),
    ] {
        assert_eq!(mode.signs(), signs);
        let config = Config {
            mode,
            ..monotonic()
        };
        let trailer = Signer::new(config, None).sign(at(0), &router(10), &PDU);
        assert_eq!(trailer.is_some(), signs, "{mode:?}");
    }
}

#[test]
fn routers_of_kedge_alone_start_with_enforced_signatures_that_need_no_clock() {
    let config = Config::new(keys(1, &[1]));
    assert_eq!(config.mode, Mode::Enforce);
    let first_contact = Some(window(120));
    assert_eq!(config.anti_replay, AntiReplay::Monotonic { first_contact });
    assert_eq!(config.keys.active().0, id(1));
}

#[test]
fn who_restarts_is_within_the_window_of_the_first_contact() {
    let signer = marked(at(0));
    drop(signer);
    let mut signer = Signer::new(monotonic(), Some(at(60)));
    let ahead = next(&mut signer, at(0)).seconds_since(at(0));
    let AntiReplay::Monotonic { first_contact } = AntiReplay::MONOTONIC else {
        panic!("not monotonic");
    };
    assert!(ahead * 2 <= i32::from(first_contact.unwrap().seconds()));
}
