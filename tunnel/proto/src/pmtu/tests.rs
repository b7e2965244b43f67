mod path;
mod table;

use proptest::prelude::*;

use self::path::{Path, at};
use super::*;

fn answer(question: Message) -> Input {
    Input::Received(question.answer().unwrap())
}

/// What the machine asks, in order.
fn asked(machine: &mut Discovery) -> Vec<(Message, Option<u16>)> {
    std::iter::from_fn(|| machine.poll_output())
        .map(|Output::Ask { message, size }| (message, size))
        .collect()
}

#[test]
fn the_most_is_tried_first_and_found_in_three_round_trips() {
    let mut path = Path::new(1440);
    let took = path.settle(1440, 1420);
    assert_eq!(path.report().mtu, 1440);
    assert_eq!(path.report().standing, Standing::Probed);
    assert_eq!(path.report().asked, 3, "short, least, most");
    assert_eq!(took, path.way.delay * 2 * 3);
}

#[test]
fn every_size_between_is_found_exactly() {
    for limit in 1280..=1440 {
        let mut path = Path::new(limit);
        let took = path.settle(1440, 1420);
        assert_eq!(path.report().mtu, limit);
        assert!(took < Duration::from_secs(6), "{limit}: {took:?}");
    }
    for limit in [1280, 1281, 1420, 2000, 4321, 8939, 8940] {
        let mut path = Path::new(limit);
        path.settle(8940, 1420);
        assert_eq!(path.report().mtu, limit);
    }
}

#[test]
fn while_it_looks_nothing_is_used_that_was_seen_not_to_pass() {
    let mut path = Path::new(1333);
    path.begin(1440, 1420);
    assert_eq!(path.report().mtu, 1420, "nothing is known yet");
    path.run_until(at(10_000), |report, now| {
        if now >= at(600) {
            assert!(report.mtu <= 1333, "{now:?}: {}", report.mtu);
        }
    });
    assert_eq!(path.report().mtu, 1333);
}

#[test]
fn a_peer_that_answers_nothing_leaves_what_the_route_says() {
    let mut path = Path::new(1440);
    path.way.silent = true;
    path.begin(1440, 1420);
    path.run_until(at(600_000), |report, _| assert_eq!(report.mtu, 1420));
    let report = path.report();
    assert_eq!((report.mtu, report.standing), (1420, Standing::Unanswered));
    assert!(
        report.asked < 50,
        "{} questions in ten minutes",
        report.asked
    );
    path.way.silent = false;
    let took = path.until("found", |report| report.mtu == 1440);
    assert!(took <= Duration::from_secs(62), "{took:?}");
}

#[test]
fn where_not_even_the_least_passes_it_is_the_floor_and_says_so() {
    let mut path = Path::new(1200);
    path.begin(1440, 1420);
    path.run_until(at(20_000), |_, _| {});
    let report = path.report();
    assert_eq!((report.mtu, report.standing), (FLOOR, Standing::Floor));
    path.way.limit = 1400;
    let took = path.until("found", |report| report.mtu == 1400);
    assert!(took <= Duration::from_secs(70), "{took:?}");
    assert_eq!(path.report().standing, Standing::Probed);
}

#[test]
fn a_way_that_shrinks_under_data_is_found_out_within_seconds() {
    for (before, after) in [(1440, 1400), (1440, 1280), (8940, 1440), (1440, 1439)] {
        let mut path = Path::new(before);
        path.settle(before, 1420);
        path.data = 100_000;
        path.run_for(Duration::from_secs(7));
        path.way.limit = after;
        let usable = path.until("data passes", |report| report.mtu <= after);
        assert!(
            usable <= Duration::from_secs(5),
            "{before} to {after}: {usable:?}"
        );
        path.until("exact", |report| report.mtu == after);
        assert_eq!(path.report().holes, 1);
    }
}

#[test]
fn a_way_that_nobody_uses_is_not_asked() {
    let mut path = Path::new(1440);
    path.settle(1440, 1420);
    let asked = path.report().asked;
    path.run_for(Duration::from_secs(3600));
    assert_eq!(path.report().asked, asked);
}

#[test]
fn a_way_that_grows_is_used_after_the_raise_timer() {
    let mut path = Path::new(1380);
    path.settle(1440, 1420);
    assert_eq!(path.report().mtu, 1380);
    path.run_for(Duration::from_mins(11));
    let asked = path.report().asked;
    path.way.limit = 1430;
    let took = path.until("raised", |report| report.mtu == 1430);
    assert!(took <= Duration::from_mins(10), "{took:?}");
    assert!(path.report().asked > asked);
}

#[test]
fn to_see_that_a_way_has_not_grown_costs_three_questions() {
    let mut path = Path::new(1380);
    path.settle(1440, 1420);
    let asked = path.report().asked;
    path.run_for(Duration::from_secs(606));
    assert_eq!(path.report().asked - asked, 3);
    assert_eq!(path.report().mtu, 1380);
}

#[test]
fn a_dead_peer_is_no_small_path() {
    let mut path = Path::new(1440);
    path.settle(1440, 1420);
    path.data = 100_000;
    path.run_for(Duration::from_secs(5));
    path.way.silent = true;
    path.run_until_after(Duration::from_secs(120), |report, _| {
        assert_eq!(report.mtu, 1440);
    });
    path.way.silent = false;
    path.run_for(Duration::from_secs(70));
    assert_eq!(path.report().mtu, 1440);
    assert_eq!(path.report().standing, Standing::Probed);
}

#[test]
fn another_way_begins_anew_with_no_more_than_is_safe() {
    let mut path = Path::new(8940);
    path.settle(8940, 1420);
    path.way.limit = 1372;
    path.begin(1440, 1420);
    assert_eq!(path.report().mtu, 1420);
    path.until("found", |report| report.mtu == 1372);
}

#[test]
fn a_late_answer_counts() {
    // Slower than the longest patience: every answer comes after the next question.
    let mut path = Path::new(1440);
    path.way.delay = Duration::from_millis(700);
    path.begin(1440, 1420);
    path.until("found", |report| {
        report.mtu == 1440 && report.standing == Standing::Probed
    });
}

#[test]
fn answers_of_others_are_refused_and_change_nothing() {
    let mut machine = Discovery::new(Config::default(), 7);
    let path = Input::Path {
        most: 1440,
        start: 1420,
    };
    machine.handle_input(at(0), path).unwrap();
    let [(question, None)] = asked(&mut machine)[..] else {
        panic!("one short question");
    };
    let genuine = question.answer().unwrap();
    for (message, reject) in [
        (question, Reject::NotAnAnswer),
        (
            Message {
                session: 8,
                ..genuine
            },
            Reject::Session,
        ),
        (
            Message {
                sequence: 99,
                ..genuine
            },
            Reject::Unexpected,
        ),
    ] {
        let before = (machine.report(), machine.poll_timeout());
        let outcome = machine.handle_input(at(1), Input::Received(message));
        assert_eq!(outcome, Err(reject));
        assert_eq!((machine.report(), machine.poll_timeout()), before);
        assert_eq!(asked(&mut machine), []);
    }
    machine
        .handle_input(at(2), Input::Received(genuine))
        .unwrap();
    let twice = machine.handle_input(at(3), Input::Received(genuine));
    assert_eq!(twice, Err(Reject::Unexpected));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Loss makes it slower and may make it less for a while, never more than passes for longer than
    /// it takes to notice; and without loss in the end it is exact.
    #[test]
    fn it_comes_to_what_passes_whatever_is_lost(
        seed: u64,
        limits in prop::collection::vec(1280_u16..=9000, 1..4),
        loss in 0_u8..30,
        delay in 1_u64..150,
        most in 1280_u16..=9000,
    ) {
        let mut path = Path::seeded(9000, seed);
        path.way.loss = loss;
        path.way.delay = Duration::from_millis(delay);
        path.begin(most, 1420.min(most));
        path.data = 20_000;
        for limit in limits {
            path.way.limit = limit;
            path.way.loss = loss;
            path.run_for(Duration::from_secs(120));
            path.way.loss = 0;
            // Twice the raise timer: one that was lost in the middle, one that is not.
            path.run_for(Duration::from_mins(21));
            let report = path.report();
            prop_assert_eq!(report.mtu, limit.min(most));
            prop_assert_eq!(report.standing, Standing::Probed);
        }
    }

    /// What crosses the other way, and how large that is, changes nothing.
    #[test]
    fn only_this_direction_counts(there in 1280_u16..=1440, back in 100_u16..=1440) {
        let mut path = Path::new(there);
        path.way.back = back;
        path.settle(1440, 1420);
        prop_assert_eq!(path.report().mtu, there);
    }

    /// The laws of a machine, under anything at any time.
    #[test]
    fn the_laws_hold(
        steps in prop::collection::vec(
            (0_u64..3_000, 0_u8..5, 0_u64..20, 1000_u16..9100, any::<u64>()), 0..200,
        ),
    ) {
        let mut machine = Discovery::new(Config::default(), 7);
        let mut now = at(0);
        let mut questions = Vec::new();
        for (wait, what, sequence, size, total) in steps {
            now += Duration::from_millis(wait);
            let early = machine.poll_timeout().is_none_or(|due| now < due);
            let before = (machine.report(), machine.poll_timeout());
            match what {
                0 => {
                    let path = Input::Path { most: size, start: 1420 };
                    let _ = machine.handle_input(now, path);
                }
                1 => {
                    let _ = machine.handle_input(now, Input::Sent(total));
                }
                2 => {
                    let message = Message { is_answer: true, session: 7, sequence };
                    let _ = machine.handle_input(now, Input::Received(message));
                }
                3 => if let Some((question, _)) = questions.pop() {
                    let _ = machine.handle_input(now, answer(question));
                },
                _ => {
                    machine.handle_timeout(now);
                    if early {
                        prop_assert_eq!((machine.report(), machine.poll_timeout()), before);
                    }
                    prop_assert!(machine.poll_timeout().is_none_or(|due| due > now));
                }
            }
            let Report { mtu, most, .. } = machine.report();
            prop_assert!((FLOOR..=most).contains(&mtu), "{} of {}", mtu, most);
            for (_, size) in asked(&mut machine).into_iter().inspect(|it| questions.push(*it)) {
                prop_assert!(size.is_none_or(|size| (FLOOR..=most).contains(&size)));
            }
        }
    }
}
