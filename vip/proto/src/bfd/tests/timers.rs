//! Intervals: slow start, jitter, and what changes only once the peer knows.

use std::time::Duration;

use kedge_core::{
    Machine,
    bfd::SessionState::{Down, Up},
};

use super::bench::{Bench, ms, packet, says};
use crate::{
    bfd::{Config, Window},
    wire::bfd::{Control, Interval, Multiplier},
};

fn interval(bench: &Bench) -> u128 {
    bench.session.view().transmit_interval.as_millis()
}

fn detection(bench: &Bench) -> u128 {
    let time = bench.session.view().detection_time;
    time.map_or(0, |time| time.as_millis())
}

fn with(tx: u32, rx: u32) -> Config {
    Config {
        desired_min_tx: ms(tx),
        required_min_rx: ms(rx),
        ..Config::DEFAULT
    }
}

fn answer(bench: &mut Bench, millis: u64) {
    let fin = Control {
        fin: true,
        ..says(Up)
    };
    bench.input(millis, packet(fin));
}

#[test]
fn until_it_is_up_it_sends_once_a_second() {
    let mut bench = Bench::new(with(10, 10));
    bench.timeout(0);
    let mut last = 0.0;
    for _ in 0..100 {
        let (when, words) = bench.due();
        assert_eq!(words, ["send Down your 0 tx 1000 rx 10 x3 diag 0"]);
        assert!(
            (750.0..=1_000.0).contains(&(when - last)),
            "{}",
            when - last
        );
        last = when;
    }
    let slow = Bench::new(with(2_500, 300));
    assert_eq!(interval(&slow), 2_500);
}

#[test]
fn the_slower_of_both_sides_is_the_interval_and_each_packet_is_jittered() {
    let mut bench = Bench::up(with(100, 300));
    assert_eq!(interval(&bench), 300);
    let mut last = bench.deadline().unwrap();
    let mut spread = Vec::new();
    bench.due();
    for _ in 0..200 {
        // It is heard all along.
        let fresh = bench.deadline().unwrap();
        bench.session.handle_timeout(kedge_core::Instant::ZERO);
        bench.hear(last.ceil() as u64, Up);
        let (when, words) = bench.due();
        assert!(words[0].starts_with("send Up your"), "{words:?}");
        assert!(when >= fresh - 1.0);
        spread.push(when - last);
        last = when;
    }
    let least = spread.iter().copied().fold(f64::MAX, f64::min);
    let most = spread.iter().copied().fold(0.0, f64::max);
    assert!(least >= 243.0 && most <= 300.0, "{least} {most}");
    assert!(
        least < 252.0 && most > 291.0,
        "all that is left to chance: {least} {most}"
    );
}

#[test]
fn a_packet_goes_within_its_window_if_anybody_is_awake() {
    let mut bench = Bench::up(with(320, 300));
    let (mut sent, _) = bench.due();
    for _ in 0..100 {
        bench.hear(sent.ceil() as u64, Up);
        let (opens, closes) = (bench.ready().unwrap(), bench.deadline().unwrap());
        assert!((closes - opens - 20.0).abs() < 0.001, "{opens} {closes}");
        let quarter = (sent + 239.999, sent + 320.001);
        assert!(
            opens > quarter.0 && closes < quarter.1,
            "{sent} {opens} {closes}"
        );
        assert!(bench.wake(opens - 0.1).is_empty(), "too soon");
        sent = opens + 10.0;
        let words = bench.wake(sent);
        assert!(words[0].starts_with("send Up your"), "{words:?}");
    }
}

#[test]
fn with_a_multiplier_of_one_a_tenth_is_left_at_least() {
    let one = Multiplier::new(1).unwrap();
    let span = |own, draw| Window::of(ms(1_000), own, draw);
    assert_eq!(span(one, 0).closes, Duration::from_millis(900));
    assert_eq!(span(Multiplier::DEFAULT, 0).closes, Duration::from_secs(1));
    for own in [one, Multiplier::DEFAULT] {
        let early = span(own, u32::MAX);
        assert!(early.opens >= Duration::from_millis(750), "{early:?}");
        assert!(early.opens < Duration::from_millis(751), "{early:?}");
        assert_eq!(early.closes - early.opens, Duration::from_micros(62_500));
    }
    assert!(Window::of(Interval::LEAST, one, u32::MAX).opens > Duration::ZERO);
}

#[test]
fn a_slower_interval_waits_for_the_answer_and_a_quicker_one_does_not() {
    let mut bench = Bench::up(Config::DEFAULT);
    let words = bench.configure(10, with(900, 300));
    assert_eq!(words, ["send Up P your 34 tx 900 rx 300 x3 diag 0"]);
    assert_eq!(interval(&bench), 300, "the peer still counts on it");
    bench.hear(20, Up);
    assert_eq!(interval(&bench), 300);
    answer(&mut bench, 30);
    assert_eq!(interval(&bench), 900);
    assert!(!bench.session.view().polling);
    let words = bench.configure(40, with(400, 300));
    assert_eq!(words, ["send Up P your 34 tx 400 rx 300 x3 diag 0"]);
    assert_eq!(interval(&bench), 400, "at once");
    assert!(bench.deadline().unwrap() <= 440.0);
}

#[test]
fn a_shorter_detection_time_waits_for_the_answer_and_a_longer_one_does_not() {
    let mut bench = Bench::up(Config::DEFAULT);
    let quick = Control {
        desired_min_tx: ms(50),
        ..says(Up)
    };
    bench.input(5, packet(quick));
    assert_eq!(detection(&bench), 900);
    bench.configure(10, with(300, 100));
    assert_eq!(detection(&bench), 900, "the peer still sends every 300 ms");
    bench.input(20, packet(Control { fin: true, ..quick }));
    assert_eq!(detection(&bench), 300);
    bench.configure(30, with(300, 1_000));
    assert_eq!(detection(&bench), 3_000, "at once");
}

#[test]
fn an_unanswered_poll_is_asked_again_with_each_packet_and_with_no_other() {
    let mut bench = Bench::up(Config::DEFAULT);
    bench.configure(10, with(250, 250));
    for millis in [20, 40, 60] {
        assert!(bench.hear(millis, Up).is_empty(), "none in between");
    }
    for _ in 0..2 {
        let (_, words) = bench.due();
        assert_eq!(words, ["send Up P your 34 tx 250 rx 250 x3 diag 0"]);
    }
    answer(&mut bench, 700);
    let (_, words) = bench.due();
    assert_eq!(words, ["send Up your 34 tx 250 rx 250 x3 diag 0"]);
}

#[test]
fn what_changes_while_an_answer_is_awaited_is_asked_next() {
    let mut bench = Bench::up(Config::DEFAULT);
    bench.configure(10, with(900, 300));
    assert!(
        bench.configure(20, with(1_200, 300)).is_empty(),
        "one at a time"
    );
    answer(&mut bench, 30);
    assert_eq!(interval(&bench), 900);
    let view = bench.session.view();
    assert!(view.polling);
    // An answer that is left over from the first one ends nothing: nobody asked yet.
    answer(&mut bench, 31);
    assert_eq!(interval(&bench), 900);
    let (_, words) = bench.due();
    assert_eq!(words, ["send Up P your 34 tx 1200 rx 300 x3 diag 0"]);
    answer(&mut bench, 900);
    assert_eq!(interval(&bench), 1_200);
}

#[test]
fn a_peer_that_takes_more_gets_it_at_once_and_who_takes_less_too() {
    let mut bench = Bench::up(with(100, 300));
    let takes = |rx| {
        packet(Control {
            required_min_rx: ms(rx),
            ..says(Up)
        })
    };
    bench.input(10, takes(2_000));
    assert_eq!(interval(&bench), 2_000);
    bench.hear(700, Up);
    bench.input(1_000, takes(50));
    assert_eq!(interval(&bench), 100);
    assert_eq!(
        bench.deadline(),
        Some(1_000.0),
        "the new interval is over already"
    );
}

#[test]
fn down_it_is_slow_again_at_once() {
    let mut bench = Bench::up(Config::DEFAULT);
    let words = bench.hear(10, Down);
    assert_eq!(words[1], "send Down your 34 tx 1000 rx 300 x3 diag 3");
    assert_eq!(interval(&bench), 1_000);
    assert!(!bench.session.view().polling);
}
