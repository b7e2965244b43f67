use super::*;

/// A train of one probe per ms; `.` is lost, a letter is who answered, ` ` was not sent.
fn train(text: &str) -> ProbeReport {
    let mut train = Train::default();
    for (number, who) in (0_u64..).zip(text.chars()) {
        let at = number as f64 / 1000.0;
        if who != ' ' {
            train.sent(number, at);
        }
        if who.is_alphabetic() {
            train.answered(number, at + 0.0002, &who.to_string());
        }
    }
    train.report(0.001)
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-9
}

#[test]
fn a_train_without_loss_has_no_outage() {
    let report = train("aaaaaaaa");
    assert_eq!(
        (report.sent, report.lost_probes, report.missed_ticks),
        (8, 0, 0)
    );
    assert_eq!(report.outage_seconds, 0.0);
    assert!(report.gaps.is_empty() && report.switches.is_empty());
    assert!(close(report.latency_p50_seconds, 0.0002));
    assert_eq!(report.last_responder(), Some("a"));
}

#[test]
fn the_outage_is_the_longest_row_of_lost_probes() {
    let report = train("aa.aaa...bbb..b");
    assert_eq!(report.lost_probes, 6);
    assert!(close(report.outage_seconds, 0.003), "{report:?}");
    assert_eq!(
        report.gaps.iter().map(|gap| gap.lost).collect::<Vec<_>>(),
        [1, 3, 2]
    );
    assert!(report.gaps.iter().all(|gap| !gap.open));
    let [switch] = report.switches.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!((switch.from.as_str(), switch.to.as_str()), ("a", "b"));
    assert!(close(switch.at_seconds, 0.009));
    assert_eq!(report.last_responder(), Some("b"));
}

#[test]
fn a_hand_over_without_loss_is_a_switch_and_no_outage() {
    let report = train("aaaabbbb");
    assert_eq!(report.lost_probes, 0);
    assert_eq!(report.switches.len(), 1);
    assert_eq!(report.responders["a"], 4);
}

#[test]
fn what_comes_before_the_first_answer_does_not_count() {
    let report = train("....aaa");
    assert_eq!((report.sent, report.lost_probes), (3, 0));
    assert_eq!(train("....").sent, 0);
    assert_eq!(train("").last_responder(), None);
}

#[test]
fn an_outage_that_does_not_end_is_open_and_measured_to_the_end() {
    let report = train("aa....");
    assert_eq!(report.lost_probes, 4);
    assert!(report.gaps[0].open);
    assert!(close(report.outage_seconds, 0.004), "{report:?}");
}

#[test]
fn ticks_the_prober_overslept_are_told_and_are_no_loss() {
    let report = train("aaa   aaa");
    assert_eq!((report.lost_probes, report.missed_ticks), (0, 3));
    assert_eq!(report.outage_seconds, 0.0);
    // Inside an outage the time counts, not the number of probes.
    assert!(close(train("aa.  .bb").outage_seconds, 0.004));
    // So it does at its edges: nobody saw an answer then.
    let report = train("aa   .  bb");
    assert!(close(report.outage_seconds, 0.006), "{report:?}");
    assert_eq!((report.gaps[0].lost, report.gaps[0].missed_ticks), (1, 5));
    assert!(close(report.outage_seen_seconds(), 0.001), "{report:?}");
}

#[test]
fn a_second_answer_to_a_probe_is_ignored_and_news_are_told_once() {
    let mut train = Train::default();
    for number in 0..3 {
        train.sent(number, 0.0);
    }
    assert!(train.answered(0, 0.1, "a"));
    assert!(!train.answered(0, 0.2, "b"));
    assert!(!train.answered(1, 0.2, "a"));
    assert!(train.answered(2, 0.3, "b"));
    assert!(!train.answered(9, 0.3, "c"), "never sent");
    assert_eq!(train.report(0.001).switches.len(), 1);
}

#[test]
fn probes_read_back_and_strangers_do_not() {
    let mut answer = emit(7, u64::MAX).to_vec();
    assert_eq!(parse(&answer), Some((7, u64::MAX, "")));
    answer.extend(b"edge-a");
    assert_eq!(parse(&answer), Some((7, u64::MAX, "edge-a")));
    for length in 0..PROBE_BYTES {
        assert_eq!(parse(&answer[..length]), None);
    }
    answer[0] ^= 1;
    assert_eq!(parse(&answer), None);
    let mut long = emit(7, 1).to_vec();
    long.extend([b'x'; NAME_BYTES + 1]);
    assert_eq!(parse(&long), None);
    let mut binary = emit(7, 1).to_vec();
    binary.extend([0xff, 0xfe]);
    assert_eq!(parse(&binary), None);
}
