use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn drain(prober: &mut Prober) -> Vec<Output> {
    std::iter::from_fn(|| prober.poll_output()).collect()
}

/// Runs until `end`; `answer_after` says for each probe when its answer comes.
fn run(
    prober: &mut Prober,
    from: u64,
    end: u64,
    answer_after: impl Fn(u64) -> Option<u64>,
) -> Vec<(u64, Output)> {
    let mut seen = Vec::new();
    let mut flying: VecDeque<(u64, Message)> = VecDeque::new();
    for now in from..end {
        while let Some(&(due, message)) = flying.front() {
            if due > now {
                break;
            }
            flying.pop_front();
            prober
                .handle_input(at(now), Input::Received(message))
                .unwrap();
        }
        prober.handle_timeout(at(now));
        for output in drain(prober) {
            if let Output::Send(message) = output
                && let Some(delay) = answer_after(now)
            {
                flying.push_back((now + delay, message.answer().unwrap()));
            }
            seen.push((now, output));
        }
    }
    seen
}

#[test]
fn an_answering_peer_is_asked_each_second_and_reported_once() {
    let mut prober = Prober::new(Config::default(), 1, at(0));
    let seen = run(&mut prober, 0, 10_000, |_| Some(20));
    let sends: Vec<u64> = seen
        .iter()
        .filter(|(_, o)| matches!(o, Output::Send(_)))
        .map(|(t, _)| *t)
        .collect();
    assert_eq!(sends, (0..10).map(|n| n * 1_000).collect::<Vec<_>>());
    let others: Vec<_> = seen
        .iter()
        .filter(|(_, o)| !matches!(o, Output::Send(_)))
        .collect();
    assert_eq!(
        others,
        [&(
            20,
            Output::Up {
                rtt: Duration::from_millis(20)
            }
        )]
    );
    let report = prober.report();
    assert_eq!((report.up, report.loss_percent), (Some(true), 0));
    assert_eq!(report.rtt, Some(Duration::from_millis(20)));
}

#[test]
fn a_peer_that_forgets_its_keys_is_found_within_three_seconds_whenever_it_happens() {
    for dies in (5_000..6_000).step_by(7) {
        let mut prober = Prober::new(Config::default(), 1, at(0));
        let answer = |now: u64| (now < dies).then_some(20);
        let seen = run(&mut prober, 0, 9_000, answer);
        let forced = seen
            .iter()
            .find(|(_, o)| *o == Output::ForceHandshake)
            .unwrap()
            .0;
        assert!(
            (1_500..=3_000).contains(&(forced - dies)),
            "{}",
            forced - dies
        );
        let down = seen.iter().filter(|(_, o)| *o == Output::Down).count();
        assert_eq!(down, 1);
    }
}

#[test]
fn while_nobody_answers_handshakes_are_forced_each_second_and_later_each_five() {
    let mut prober = Prober::new(Config::default(), 1, at(0));
    let seen = run(&mut prober, 0, 60_000, |_| None);
    let forced: Vec<u64> = seen
        .iter()
        .filter(|(_, o)| *o == Output::ForceHandshake)
        .map(|(t, _)| *t)
        .collect();
    assert_eq!(forced[0], 1_500);
    assert!(
        forced[..20].windows(2).all(|w| w[1] - w[0] == 1_000),
        "{forced:?}"
    );
    assert!(
        forced[21..].windows(2).all(|w| w[1] - w[0] == 5_000),
        "{forced:?}"
    );
    assert_eq!(prober.report().loss_percent, 100);
}

#[test]
fn a_lost_probe_is_asked_again_at_once_and_two_losses_are_no_verdict() {
    let mut prober = Prober::new(Config::default(), 1, at(0));
    let seen = run(&mut prober, 0, 8_000, |now| {
        (!(3_000..=3_600).contains(&now)).then_some(5)
    });
    let sends: Vec<u64> = seen
        .iter()
        .filter(|(_, o)| matches!(o, Output::Send(_)))
        .map(|(t, _)| *t)
        .collect();
    assert_eq!(sends[3..6], [3_000, 3_500, 4_000]);
    assert!(
        !seen
            .iter()
            .any(|(_, o)| matches!(o, Output::Down | Output::ForceHandshake))
    );
}

#[test]
fn the_wait_for_a_handshake_is_no_round_trip() {
    let mut prober = Prober::new(Config::default(), 1, at(0));
    // The first probe waits 400 ms for keys, the path itself takes 20.
    let answer_after = |sent: u64| Some(if sent == 0 { 400 } else { 20 });
    run(&mut prober, 0, 900, answer_after);
    assert_eq!(
        (prober.report().up, prober.report().rtt),
        (Some(true), None)
    );
    run(&mut prober, 900, 2_000, answer_after);
    assert_eq!(prober.report().rtt, Some(Duration::from_millis(20)));
}

#[test]
fn a_late_answer_is_still_a_sign_of_life() {
    let mut prober = Prober::new(Config::default(), 1, at(0));
    prober.handle_timeout(at(0));
    let Some(Output::Send(first)) = prober.poll_output() else {
        panic!("no probe")
    };
    prober.handle_timeout(at(500));
    prober.handle_timeout(at(1_000));
    drain(&mut prober);
    let answer = first.answer().unwrap();
    prober
        .handle_input(at(1_200), Input::Received(answer))
        .unwrap();
    assert_eq!(
        prober.poll_output(),
        Some(Output::Up {
            rtt: Duration::from_millis(1_200)
        })
    );
    assert_eq!(prober.report().misses, 0);
    assert_eq!(
        prober.handle_input(at(1_201), Input::Received(answer)),
        Err(Reject::Unexpected),
        "only once"
    );
}

#[test]
fn a_slow_path_is_given_four_round_trips() {
    let mut prober = Prober::new(Config::default(), 1, at(0));
    let seen = run(&mut prober, 0, 30_000, |now| {
        Some(if now < 10_000 { 200 } else { 700 })
    });
    assert!(!seen.iter().any(|(_, o)| *o == Output::Down));
    assert_eq!(prober.report().loss_percent, 0);
}

#[test]
fn foreign_messages_change_nothing() {
    let mut prober = Prober::new(Config::default(), 1, at(0));
    prober.handle_timeout(at(0));
    let Some(Output::Send(probe)) = prober.poll_output() else {
        panic!("no probe")
    };
    let answer = probe.answer().unwrap();
    for (message, reject) in [
        (probe, Reject::NotAnAnswer),
        (
            Message {
                session: 2,
                ..answer
            },
            Reject::Session,
        ),
        (
            Message {
                sequence: 1,
                ..answer
            },
            Reject::Unexpected,
        ),
    ] {
        let before = format!("{prober:?}");
        assert_eq!(
            prober.handle_input(at(1), Input::Received(message)),
            Err(reject)
        );
        assert_eq!(format!("{prober:?}"), before);
    }
}

#[test]
fn asking_at_once_does_not_count_as_a_miss() {
    let mut prober = Prober::new(Config::default(), 1, at(0));
    prober.handle_timeout(at(0));
    for now in [10, 20, 30] {
        prober.handle_input(at(now), Input::Ask).unwrap();
    }
    let sent = drain(&mut prober).len();
    assert_eq!((sent, prober.report().misses), (4, 0));
}

#[test]
fn a_dead_peer_is_found_however_often_the_path_changes() {
    for pause in [7, 100, 400, 499, 501, 900] {
        let mut prober = Prober::new(Config::default(), 1, at(0));
        run(&mut prober, 0, 900, |_| Some(20));
        let mut seen = Vec::new();
        for now in (900..4_000).step_by(pause) {
            prober.handle_input(at(now), Input::Ask).unwrap();
            seen.extend(run(&mut prober, now, now + pause as u64, |_| None));
        }
        let down = seen.iter().find(|(_, o)| *o == Output::Down);
        let (found, _) = down.unwrap_or_else(|| panic!("never, with a change each {pause} ms"));
        assert!(
            *found <= 900 + 1_500,
            "{found} with a change each {pause} ms"
        );
    }
}

#[test]
fn a_slow_live_peer_stays_up_however_often_the_path_changes() {
    let mut prober = Prober::new(Config::default(), 1, at(0));
    let mut flying = VecDeque::new();
    for now in 0..10_000 {
        while flying.front().is_some_and(|(due, _)| *due <= now) {
            let (_, message): (_, Message) = flying.pop_front().unwrap();
            // Answers to all but the last few probes are refused.
            let _ = prober.handle_input(at(now), Input::Received(message));
        }
        prober.handle_timeout(at(now));
        if now % 7 == 0 {
            prober.handle_input(at(now), Input::Ask).unwrap();
        }
        for output in drain(&mut prober) {
            match output {
                Output::Send(message) => flying.push_back((now + 300, message.answer().unwrap())),
                other => assert!(matches!(other, Output::Up { .. }), "{other:?} at {now}"),
            }
        }
    }
    assert_eq!(
        (prober.report().up, prober.report().misses),
        (Some(true), 0)
    );
}

#[test]
fn an_answer_to_what_was_asked_at_once_ends_the_wait_too() {
    let mut prober = Prober::new(Config::default(), 1, at(0));
    prober.handle_timeout(at(0));
    drain(&mut prober);
    prober.handle_input(at(450), Input::Ask).unwrap();
    let Some(Output::Send(second)) = prober.poll_output() else {
        panic!("no probe")
    };
    let answer = Input::Received(second.answer().unwrap());
    prober.handle_input(at(470), answer).unwrap();
    prober.handle_timeout(at(600));
    let report = prober.report();
    assert_eq!((report.misses, report.loss_percent), (0, 0));
    assert_eq!(prober.poll_timeout(), Some(at(1_450)));
}

proptest! {
    #[test]
    fn an_early_timeout_does_nothing_and_a_due_one_moves_the_deadline(
        steps in prop::collection::vec((0_u64..2_000, any::<bool>()), 1..60),
    ) {
        let mut prober = Prober::new(Config::default(), 1, at(0));
        let mut now = 0;
        for (step, answer) in steps {
            now += step;
            let due = prober.poll_timeout().unwrap();
            prober.handle_timeout(at(now));
            let outputs = drain(&mut prober);
            if at(now) < due {
                prop_assert!(outputs.is_empty());
            } else {
                prop_assert!(prober.poll_timeout().unwrap() > at(now));
            }
            for output in outputs {
                if let Output::Send(message) = output && answer {
                    let input = Input::Received(message.answer().unwrap());
                    prop_assert!(prober.handle_input(at(now), input).is_ok());
                    drain(&mut prober);
                }
            }
        }
    }
}
