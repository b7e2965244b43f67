use super::*;
use crate::driven::{at, give, outputs, pass};

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn new() -> Fallback {
    with(Ways {
        other: false,
        tls: true,
    })
}

fn with(ways: Ways) -> Fallback {
    Fallback::new(at(0), Config::default(), ways)
}

const fn tls(silence: u64) -> Output {
    Output::Take {
        way: Way::Tls,
        because: Because::Silent(secs(silence)),
    }
}

const fn udp(because: Because) -> Output {
    let way = Way::Udp;
    Output::Take { way, because }
}

/// In a stream since 15 s.
fn fallen() -> Fallback {
    let mut machine = new();
    assert_eq!(pass(&mut machine, 5_000), [(5_000, Output::Call)]);
    assert_eq!(give(&mut machine, 5_100, Input::Called), []);
    assert_eq!(pass(&mut machine, 15_000), [(15_000, tls(15))]);
    machine
}

#[test]
fn a_stream_is_ready_when_udp_was_silent_for_fifteen_seconds_and_taken_then() {
    fallen();
}

#[test]
fn while_udp_answers_nothing_is_called() {
    let mut machine = new();
    for second in 1..100 {
        let input = Input::Answered(at(second * 1_000));
        assert_eq!(give(&mut machine, second * 1_000, input), []);
        assert_eq!(pass(&mut machine, second * 1_000 + 999), []);
    }
}

#[test]
fn an_answer_in_time_makes_the_stream_needless() {
    let mut machine = new();
    pass(&mut machine, 5_000);
    give(&mut machine, 5_100, Input::Called);
    let answered = give(&mut machine, 14_900, Input::Answered(at(14_900)));
    assert_eq!(answered, [Output::HangUp]);
    assert_eq!(pass(&mut machine, 19_000), []);
    assert_eq!(machine.way().0, Way::Udp);
}

#[test]
fn a_stream_that_comes_late_is_taken_at_once_and_one_that_cannot_be_had_is_tried_more_seldom() {
    let mut machine = new();
    let mut called = Vec::new();
    let mut now = 0;
    while now < 70_000 {
        now += 100;
        for (millis, output) in pass(&mut machine, now) {
            assert_eq!(output, Output::Call);
            called.push(millis);
            give(&mut machine, millis, Input::Broken);
        }
    }
    assert_eq!(
        called,
        [5_000, 6_000, 8_000, 12_000, 20_000, 35_000, 50_000, 65_000]
    );
    assert_eq!(pass(&mut machine, 80_000), [(80_000, Output::Call)]);
    assert_eq!(give(&mut machine, 81_000, Input::Called), [tls(81)]);
}

#[test]
fn three_answers_in_a_row_lead_back_and_the_stream_lingers() {
    let mut machine = fallen();
    // Whether it answers is asked each five seconds, and each second once it does.
    assert_eq!(pass(&mut machine, 20_000), [(20_000, Output::Ask(0))]);
    give(&mut machine, 20_500, Input::Answered(at(20_500)));
    assert_eq!(pass(&mut machine, 25_000), [(25_000, Output::Ask(1))]);
    assert_eq!(give(&mut machine, 25_010, Input::AnsweredOverUdp(1)), []);
    assert_eq!(pass(&mut machine, 26_010), [(26_010, Output::Ask(2))]);
    assert_eq!(give(&mut machine, 26_020, Input::AnsweredOverUdp(2)), []);
    assert_eq!(pass(&mut machine, 27_020), [(27_020, Output::Ask(3))]);
    let back = give(&mut machine, 27_030, Input::AnsweredOverUdp(3));
    assert_eq!(back, [udp(Because::Answered(3))]);
    give(&mut machine, 30_500, Input::Answered(at(30_500)));
    assert_eq!(pass(&mut machine, 34_000), [(32_030, Output::HangUp)]);
}

#[test]
fn a_miss_begins_the_row_anew() {
    let mut machine = fallen();
    let mut now = 19_000;
    for round in 0..5 {
        give(&mut machine, now, Input::Answered(at(now)));
        for _ in 0..2 {
            let asked = pass(&mut machine, now + 1_000);
            let Some((when, Output::Ask(number))) = asked.last() else {
                panic!("round {round}: {asked:?}");
            };
            now = *when;
            let done = give(&mut machine, now, Input::AnsweredOverUdp(*number));
            assert_eq!(done, [], "two are not three");
        }
        // The third is lost.
        let asked = pass(&mut machine, now + 6_000 - 1);
        assert!(matches!(asked[..], [(_, Output::Ask(_))]), "{asked:?}");
        now += 5_500;
    }
    assert_eq!(machine.way().0, Way::Tls);
}

#[test]
fn it_returns_once_a_minute_at_most() {
    let mut machine = fallen();
    let back = |machine: &mut Fallback, from: u64, until: u64| {
        for millis in (from..until).step_by(100) {
            let mut asked = give(machine, millis, Input::Answered(at(millis)));
            asked.extend(pass(machine, millis).into_iter().map(|(_, output)| output));
            for output in asked {
                let Output::Ask(number) = output else {
                    continue;
                };
                let done = give(machine, millis, Input::AnsweredOverUdp(number));
                if done.contains(&udp(Because::Answered(3))) || machine.way().0 == Way::Udp {
                    return Some(millis);
                }
            }
        }
        None
    };
    let first = back(&mut machine, 15_100, 40_000).unwrap();
    // It answers questions and nothing else: a firewall that lets the first packets pass.
    // The stream is still there: it goes when UDP answers more than that.
    let fell = pass(&mut machine, first + 15_000);
    assert!(fell.contains(&(first + 15_000, tls(15))), "{fell:?}");
    let second = back(&mut machine, first + 15_100, first + 200_000).unwrap();
    assert!(second >= first + 60_000, "{first} {second}");
    assert!(second <= first + 62_000, "{first} {second}");
}

#[test]
fn a_stream_that_breaks_or_is_deaf_is_left_and_taken_again() {
    let mut machine = fallen();
    let broken = give(&mut machine, 17_000, Input::Broken);
    assert_eq!(broken, [udp(Because::Broken)]);
    assert_eq!(pass(&mut machine, 18_000), [(18_000, Output::Call)]);
    let (way, because) = (Way::Tls, Because::Silent(Duration::from_millis(18_100)));
    let taken = give(&mut machine, 18_100, Input::Called);
    assert_eq!(taken, [Output::Take { way, because }]);
    // Nothing comes by it: after ten seconds it is of no use.
    let deaf = pass(&mut machine, 28_100);
    let expected = [
        (23_100, Output::Ask(0)),
        (28_100, Output::HangUp),
        (28_100, udp(Because::Deaf(secs(10)))),
    ];
    assert_eq!(deaf, expected);
    assert_eq!(pass(&mut machine, 30_200), [(30_100, Output::Call)]);
}

#[test]
fn what_was_answered_before_the_way_changed_does_not_speak_for_the_new_one() {
    let mut machine = fallen();
    give(&mut machine, 17_000, Input::Answered(at(16_990)));
    give(&mut machine, 17_100, Input::Broken);
    give(&mut machine, 17_200, Input::Answered(at(16_990)));
    assert_eq!(
        machine.silence(at(17_200)),
        Some(secs(17) + Duration::from_millis(200))
    );
}

#[test]
fn a_change_of_the_network_is_a_reason_to_try_at_once() {
    let mut machine = fallen();
    let asked = give(&mut machine, 15_300, Input::Changed);
    assert_eq!(asked, [Output::Ask(0)]);
    give(&mut machine, 15_400, Input::Broken);
    let called = give(&mut machine, 15_500, Input::Changed);
    assert_eq!(called, [Output::Call]);
}

#[test]
fn what_was_not_asked_for_is_refused_and_changes_nothing() {
    for input in [
        Input::Called,
        Input::Broken,
        Input::AnsweredOverUdp(0),
        Input::AnsweredOverUdp(7),
    ] {
        let mut machine = new();
        assert!(machine.handle_input(at(1), input).is_err(), "{input:?}");
        assert_eq!(outputs(&mut machine), []);
        assert_eq!(machine.way(), new().way());
        assert_eq!(machine.poll_timeout(), new().poll_timeout());
    }
    let mut machine = fallen();
    pass(&mut machine, 20_000);
    give(&mut machine, 20_010, Input::AnsweredOverUdp(0));
    let twice = machine.handle_input(at(20_020), Input::AnsweredOverUdp(0));
    assert_eq!(twice, Err(Reject::Unasked), "a replay is one answer");
}

/// By another port since 5 s, which has answered.
fn elsewhere() -> Fallback {
    let mut machine = with(Ways {
        other: true,
        tls: true,
    });
    let taken = pass(&mut machine, 5_000);
    assert_eq!(taken, [(5_000, other(Because::Silent(secs(5))))]);
    let proven = give(&mut machine, 5_200, Input::Answered(at(5_200)));
    assert_eq!(proven, [Output::Proven]);
    machine
}

const fn other(because: Because) -> Output {
    let way = Way::Other;
    Output::Take { way, because }
}

#[test]
fn another_port_is_tried_before_a_stream_and_kept_while_it_answers() {
    let mut machine = elsewhere();
    for second in 6..100 {
        let done = pass(&mut machine, second * 1_000);
        let asked = |it: &(u64, Output)| matches!(it.1, Output::Ask(_));
        assert!(done.iter().all(asked), "{done:?}");
        give(
            &mut machine,
            second * 1_000,
            Input::Answered(at(second * 1_000)),
        );
    }
    assert_eq!(machine.way().0, Way::Other);
    assert!(machine.is_proven());
    assert_eq!(machine.silence(at(99_000)), Some(secs(99)));
    // It goes deaf: the usual port is looked at, and a stream asked for at once.
    let deaf = pass(&mut machine, 109_000);
    let deaf = &deaf[deaf.len() - 2..];
    let expected = [
        (109_000, udp(Because::OtherDeaf(secs(10)))),
        (109_000, Output::Call),
    ];
    assert_eq!(deaf, expected);
}

#[test]
fn a_port_that_answers_nothing_costs_the_stream_no_second() {
    let mut machine = with(Ways {
        other: true,
        tls: true,
    });
    let done = pass(&mut machine, 10_000);
    let expected = [
        (5_000, other(Because::Silent(secs(5)))),
        (10_000, udp(Because::OtherDeaf(secs(5)))),
        (10_000, Output::Call),
    ];
    assert_eq!(done, expected);
    give(&mut machine, 10_100, Input::Called);
    assert_eq!(pass(&mut machine, 15_000), [(15_000, tls(15))]);
}

#[test]
fn without_a_stream_both_ports_are_tried_in_turn() {
    let mut machine = with(Ways {
        other: true,
        tls: false,
    });
    let done = pass(&mut machine, 60_000);
    let taken: Vec<u64> = done
        .iter()
        .filter(|it| matches!(it.1, Output::Take { .. }))
        .map(|it| it.0 / 1_000)
        .collect();
    assert_eq!(taken, [5, 10, 25, 30, 45, 50]);
    let alone = |it: &(u64, Output)| !matches!(it.1, Output::Call | Output::HangUp);
    assert!(done.iter().all(alone), "{done:?}");
}

#[test]
fn three_answers_over_the_usual_port_lead_back_from_the_other() {
    let mut machine = elsewhere();
    assert_eq!(pass(&mut machine, 10_000), [(10_000, Output::Ask(0))]);
    let mut now = 10_000;
    for number in 0..2 {
        now += 10;
        assert_eq!(give(&mut machine, now, Input::AnsweredOverUdp(number)), []);
        assert!(machine.is_answered_over_udp());
        now += 1_000;
        assert_eq!(pass(&mut machine, now), [(now, Output::Ask(number + 1))]);
    }
    let back = give(&mut machine, now + 10, Input::AnsweredOverUdp(2));
    assert_eq!(back, [udp(Because::Answered(3))]);
}

#[test]
fn from_a_stream_both_ports_are_asked_in_turn_and_the_first_that_answers_is_taken() {
    let mut machine = with(Ways {
        other: true,
        tls: true,
    });
    pass(&mut machine, 10_000);
    give(&mut machine, 10_100, Input::Called);
    pass(&mut machine, 15_000);
    give(&mut machine, 19_000, Input::Answered(at(19_000)));
    assert_eq!(pass(&mut machine, 20_000), [(20_000, Output::Ask(0))]);
    assert_eq!(pass(&mut machine, 25_000), [(25_000, Output::AskOther(1))]);
    let mut now = 25_000;
    for number in 1..3 {
        give(&mut machine, now, Input::AnsweredOverUdp(number));
        now += 1_000;
        assert_eq!(
            pass(&mut machine, now),
            [(now, Output::AskOther(number + 1))]
        );
    }
    let taken = give(&mut machine, now, Input::AnsweredOverUdp(3));
    assert_eq!(taken, [other(Because::Answered(3)), Output::Proven]);
    give(&mut machine, now + 3_000, Input::Answered(at(now + 3_000)));
    let gone = pass(&mut machine, now + 6_000);
    let hung_up = gone.iter().filter(|it| it.1 == Output::HangUp);
    assert_eq!(hung_up.count(), 1, "{gone:?}");
    assert_eq!(machine.way().0, Way::Other);
}

mod world;
