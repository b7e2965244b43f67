mod nat;

use proptest::prelude::*;

use super::*;
use crate::driven::outputs;

const PEER: u8 = 7;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(100_000 + millis)
}

fn key(byte: u8) -> PublicKey {
    PublicKey::from_bytes([byte; 32]).unwrap()
}

fn place(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

const THERE: &str = "198.51.100.8:40000";

fn told() -> Told {
    Told {
        willing: true,
        nat: Nat::Cone,
        at: Some(place(THERE)),
        candidates: Vec::new(),
    }
}

/// A host with two gateways that see it at one place, and one peer nobody has told of.
fn host() -> Direct {
    let mut machine = Direct::new(at(0), 1);
    for input in [
        Input::Gateways(vec!["a".to_owned(), "b".to_owned()]),
        Input::Peers(vec![key(PEER)]),
        seen("a", "203.0.113.5:5000"),
        seen("b", "203.0.113.5:5000"),
    ] {
        give(&mut machine, 0, input);
    }
    assert_eq!(machine.nat(), Nat::Cone);
    machine
}

fn seen(gateway: &str, at: &str) -> Input {
    Input::SeenAt {
        gateway: gateway.to_owned(),
        at: place(at),
    }
}

fn mention(told: Told) -> Input {
    Input::Told {
        gateway: "a".to_owned(),
        peer: key(PEER),
        told,
    }
}

fn give(machine: &mut Direct, millis: u64, input: Input) {
    machine.handle_input(at(millis), input).unwrap();
}

fn why(machine: &Direct) -> Because {
    machine.view(&key(PEER)).unwrap().because
}

fn path(machine: &Direct) -> Path {
    machine.view(&key(PEER)).unwrap().path
}

/// Lets time pass; each question is answered on the paths that answer, after so long.
fn run(machine: &mut Direct, from: u64, to: u64, direct: Option<u64>, gateway: Option<u64>) {
    let mut answers: BTreeMap<u64, Vec<(Path, Message)>> = BTreeMap::new();
    for now in from..to {
        for (path, message) in answers.remove(&now).unwrap_or_default() {
            let peer = key(PEER);
            // Late ones are refused.
            let _ = machine.handle_input(
                at(now),
                Input::Answer {
                    peer,
                    path,
                    message,
                },
            );
        }
        machine.handle_timeout(at(now));
        assert!(machine.poll_timeout().is_none_or(|due| due > at(now)));
        for output in outputs(machine) {
            if let Output::Ask { path, message, .. } = output {
                let took = if path == Path::Direct {
                    direct
                } else {
                    gateway
                };
                if let (Some(took), Some(answer)) = (took, message.answer()) {
                    answers.entry(now + took).or_default().push((path, answer));
                }
            }
        }
    }
}

fn session(at: Option<&str>) -> Input {
    Input::Session {
        peer: key(PEER),
        at: at.map(place),
    }
}

/// A host whose packets take the direct path since 1 s.
fn direct() -> Direct {
    let mut machine = host();
    give(&mut machine, 0, mention(told()));
    give(&mut machine, 100, session(Some(THERE)));
    run(&mut machine, 100, 1_000, Some(2), Some(5));
    assert_eq!(path(&machine), Path::Direct, "{:?}", why(&machine));
    machine
}

#[test]
fn it_is_called_at_0_200_and_500_ms_then_each_second_and_after_fifteen_rounds_later() {
    let mut machine = host();
    assert_eq!(why(&machine), Because::Refused(Refusal::Unheard));
    assert_eq!(machine.poll_timeout(), None);
    give(&mut machine, 0, mention(told()));
    let mut calls = Vec::new();
    for now in 0..60_000 {
        machine.handle_timeout(at(now));
        for output in outputs(&mut machine) {
            match output {
                Output::Call { to, .. } => {
                    assert_eq!(to, [place(THERE)]);
                    calls.push(now);
                }
                other => panic!("{other:?}"),
            }
        }
        if now == 13_000 {
            assert_eq!(why(&machine), Because::Calling);
        }
    }
    let mut expected: Vec<u64> = vec![0, 200, 500];
    expected.extend((1..=12).map(|round| 500 + round * 1_000));
    // The last round is waited for, then half a minute.
    let again = 13_500 + 30_000;
    expected.extend(expected.clone().iter().map(|it| it + again));
    expected.retain(|it| *it < 60_000);
    assert_eq!(calls, expected);
    assert_eq!(path(&machine), Path::Gateway);
}

#[test]
fn a_path_is_taken_only_after_answers_on_it_and_when_it_is_as_quick() {
    for (direct, gateway, taken) in [
        (Some(2), Some(5), Some(Path::Direct)),
        (Some(5), Some(5), Some(Path::Direct)),
        (Some(6), Some(5), Some(Path::Direct)),
        (Some(7), Some(5), Some(Path::Gateway)),
        (Some(90), None, Some(Path::Direct)),
        (None, Some(5), None),
        (None, None, None),
    ] {
        let mut machine = host();
        give(&mut machine, 0, mention(told()));
        give(&mut machine, 100, session(Some(THERE)));
        assert_eq!(
            path(&machine),
            Path::Gateway,
            "a session alone proves nothing"
        );
        run(&mut machine, 100, 2_000, direct, gateway);
        let what = format!("{direct:?} {gateway:?}: {}", why(&machine));
        match taken {
            Some(Path::Direct) => {
                assert_eq!(path(&machine), Path::Direct, "{what}");
                assert!(matches!(why(&machine), Because::Proven { .. }), "{what}");
            }
            Some(Path::Gateway) => {
                assert_eq!(path(&machine), Path::Gateway, "{what}");
                assert!(matches!(why(&machine), Because::Slower { .. }), "{what}");
            }
            None => {
                assert_eq!(path(&machine), Path::Gateway, "{what}");
                assert_eq!(why(&machine), Because::Calling, "{what}");
            }
        }
    }
}

#[test]
fn a_path_that_is_cut_is_left_within_three_and_a_half_seconds_whenever_that_is() {
    for cut in 1_000..2_300 {
        if cut % 50 != 0 {
            continue;
        }
        let mut machine = direct();
        run(&mut machine, 1_000, cut, Some(2), Some(5));
        let left = (cut..cut + 5_000).find(|now| {
            run(&mut machine, *now, now + 1, None, Some(5));
            path(&machine) == Path::Gateway
        });
        let took = left.unwrap() - cut;
        assert!(took <= 3_500, "cut at {cut}: left after {took} ms");
        assert_eq!(why(&machine), Because::Lost);
    }
}

#[test]
fn one_lost_answer_changes_nothing() {
    let mut machine = direct();
    for second in 1..20 {
        run(
            &mut machine,
            second * 1_000,
            second * 1_000 + 700,
            None,
            None,
        );
        run(
            &mut machine,
            second * 1_000 + 700,
            second * 1_000 + 1_000,
            Some(2),
            Some(5),
        );
        assert_eq!(path(&machine), Path::Direct, "second {second}");
    }
}

#[test]
fn who_is_refused_goes_through_the_gateway_at_once() {
    let unwilling = Told {
        willing: false,
        ..told()
    };
    let symmetric = Told {
        nat: Nat::Symmetric,
        ..told()
    };
    for (input, refusal) in [
        (Input::Refuse(Some(Refusal::Ordered)), Refusal::Ordered),
        (
            Input::Refuse(Some(Refusal::Unsupported)),
            Refusal::Unsupported,
        ),
        (mention(unwilling), Refusal::PeerOrdered),
        (mention(symmetric), Refusal::SymmetricThere),
        (seen("b", "203.0.113.5:5001"), Refusal::SymmetricHere),
        (Input::Gateways(vec!["b".to_owned()]), Refusal::Unheard),
        (mention(Told { at: None, ..told() }), Refusal::NoCandidate),
    ] {
        let mut machine = direct();
        give(&mut machine, 1_000, input.clone());
        let because = Because::Refused(refusal);
        let back = Output::Use {
            peer: key(PEER),
            path: Path::Gateway,
            because,
        };
        assert_eq!(outputs(&mut machine), [back], "{input:?}");
        assert_eq!(why(&machine), because);
        assert_eq!(machine.poll_timeout(), None, "nothing more is tried");
    }
}

#[test]
fn a_lease_that_nobody_renews_ends_and_one_that_is_goes_on() {
    let mut machine = direct();
    let lease = u64::try_from(LEASE.as_millis()).unwrap();
    run(&mut machine, 1_000, lease / 2, Some(2), Some(5));
    give(&mut machine, lease / 2, mention(told()));
    run(&mut machine, lease / 2, lease + lease / 2, Some(2), Some(5));
    assert_eq!(path(&machine), Path::Direct);
    run(
        &mut machine,
        lease + lease / 2,
        lease + lease / 2 + 1,
        Some(2),
        Some(5),
    );
    assert_eq!(path(&machine), Path::Gateway);
    assert_eq!(why(&machine), Because::Refused(Refusal::LeaseOver));
}

#[test]
fn a_peer_without_a_nat_is_called_from_behind_any() {
    let open = Told {
        nat: Nat::Open,
        ..told()
    };
    let mut machine = host();
    give(&mut machine, 0, seen("b", "203.0.113.5:5001"));
    assert_eq!(machine.nat(), Nat::Symmetric);
    give(&mut machine, 0, mention(open));
    assert!(matches!(outputs(&mut machine)[..], [Output::Call { .. }]));
}

#[test]
fn behind_one_nat_the_site_is_tried_first_and_alone_where_the_nat_is_symmetric() {
    let near = Candidate {
        kind: CandidateKind::Host,
        at: place("192.168.1.8:40000"),
    };
    for (nat, last) in [(Nat::Cone, 2), (Nat::Symmetric, 1)] {
        let told = Told {
            nat,
            at: Some(place("203.0.113.5:5009")),
            candidates: vec![near],
            ..told()
        };
        let mut machine = host();
        give(&mut machine, 0, mention(told));
        let mut rounds = Vec::new();
        for now in 0..5_000 {
            machine.handle_timeout(at(now));
            rounds.extend(outputs(&mut machine).into_iter().map(|it| match it {
                Output::Call { to, .. } => to,
                other => panic!("{other:?}"),
            }));
        }
        assert!(rounds[..3].iter().all(|to| *to == [near.at]), "{rounds:?}");
        assert!(rounds[3..].iter().all(|to| to.len() == last), "{rounds:?}");
    }
}

#[test]
fn answers_that_were_not_asked_for_are_refused_and_change_nothing() {
    let mut machine = host();
    give(&mut machine, 0, mention(told()));
    give(&mut machine, 10, session(Some(THERE)));
    let all = outputs(&mut machine);
    let Some(Output::Ask { message, .. }) = all.last() else {
        panic!("{all:?}")
    };
    let answer = message.answer().unwrap();
    let unknown = Message {
        session: answer.session ^ 1,
        ..answer
    };
    let before = format!("{machine:?}");
    for (path, message, peer, reject) in [
        (Path::Gateway, answer, PEER, Reject::Unexpected),
        (Path::Direct, unknown, PEER, Reject::Unexpected),
        (Path::Direct, *message, PEER, Reject::Unexpected),
        (Path::Direct, answer, PEER + 1, Reject::UnknownPeer),
    ] {
        let peer = key(peer);
        let input = Input::Answer {
            peer,
            path,
            message,
        };
        assert_eq!(machine.handle_input(at(10), input), Err(reject));
        assert_eq!(format!("{machine:?}"), before);
    }
    let stranger = Input::Told {
        gateway: "c".to_owned(),
        peer: key(PEER),
        told: told(),
    };
    let refused = machine.handle_input(at(10), stranger);
    assert_eq!(refused, Err(Reject::UnknownGateway));
}

#[test]
fn reasons_are_sentences_with_labels_of_their_own() {
    use Refusal::{
        LeaseOver, Limit, NoCandidate, Ordered, PeerOrdered, SymmetricHere, SymmetricThere,
        Unheard, Unsupported,
    };
    let refusals = [
        Ordered,
        PeerOrdered,
        Unsupported,
        Unheard,
        LeaseOver,
        Limit,
        NoCandidate,
        SymmetricHere,
        SymmetricThere,
    ];
    let (direct, gateway) = (ms(2), ms(5));
    let mut all: Vec<Because> = refusals.map(Because::Refused).to_vec();
    all.extend([
        Because::Calling,
        Because::Unanswered,
        Because::Lost,
        Because::Slower { direct, gateway },
        Because::Proven {
            direct,
            gateway: Some(gateway),
        },
    ]);
    let labels: std::collections::BTreeSet<_> = all.iter().map(Because::label).collect();
    assert_eq!(labels.len(), all.len());
    let told = all.last().unwrap().to_string();
    assert_eq!(
        told,
        "an echo took 2.0 ms on it, and 5.0 ms through the gateway"
    );
}

fn any_input() -> impl Strategy<Value = Input> {
    let gateway = prop_oneof![Just("a".to_owned()), Just("b".to_owned())];
    let spot = (0_u8..8, 1_u16..4).prop_map(|(host, port)| {
        let ip = if host < 4 {
            [10, 0, 0, host]
        } else {
            [203, 0, 113, host]
        };
        SocketAddr::from((ip, port))
    });
    let nat = (0_u8..4).prop_map(Nat::from_byte);
    let candidates = prop::collection::vec(
        spot.clone().prop_map(|at| Candidate {
            kind: CandidateKind::Host,
            at,
        }),
        0..12,
    );
    let told = (
        prop::bool::weighted(0.9),
        nat,
        prop::option::of(spot.clone()),
        candidates.clone(),
    )
        .prop_map(|(willing, nat, at, candidates)| Told {
            willing,
            nat,
            at,
            candidates,
        });
    let peer = (1_u8..30).prop_map(key);
    prop_oneof![
        1 => prop::option::of(Just(Refusal::Ordered)).prop_map(Input::Refuse),
        1 => candidates.prop_map(Input::Candidates),
        1 => (1_u8..30).prop_map(|count| Input::Peers((1..count).map(key).collect())),
        4 => (gateway.clone(), spot.clone()).prop_map(|(gateway, at)| Input::SeenAt { gateway, at }),
        8 => (gateway, peer.clone(), told).prop_map(|(gateway, peer, told)| Input::Told {
            gateway,
            peer,
            told,
        }),
        8 => (peer, prop::option::of(spot)).prop_map(|(peer, at)| Input::Session { peer, at }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_happens_nobody_is_flooded_and_no_path_is_direct_without_an_answer(
        steps in prop::collection::vec((any_input(), 0_u64..700, any::<bool>()), 1..80),
    ) {
        let mut machine = host();
        give(&mut machine, 0, Input::Peers((1..20).map(key).collect()));
        let mut now = at(0);
        let mut calls: Vec<(Instant, SocketAddr)> = Vec::new();
        let mut answered = std::collections::BTreeSet::new();
        for (input, step, answers) in steps {
            now += ms(step);
            machine.handle_timeout(now);
            prop_assert!(machine.poll_timeout().is_none_or(|due| due > now));
            let ordered = matches!(input, Input::Refuse(Some(_)));
            let _ = machine.handle_input(now, input);
            while let Some(output) = machine.poll_output() {
                match output {
                    Output::Call { to, .. } => {
                        prop_assert!(to.len() <= PLACES && !to.is_empty());
                        calls.extend(to.iter().map(|it| (now, *it)));
                    }
                    Output::Ask { peer, path, message } if answers => {
                        let message = message.answer().unwrap();
                        if path == Path::Direct {
                            answered.insert(peer);
                        }
                        let _ = machine.handle_input(now, Input::Answer { peer, path, message });
                    }
                    Output::Ask { .. } => {}
                    Output::Use { peer, path, .. } => {
                        prop_assert!(path == Path::Gateway || answered.contains(&peer));
                    }
                }
            }
            if ordered {
                for peer in (1..30).map(key) {
                    let view = machine.view(&peer);
                    prop_assert!(view.is_none_or(|view| view.path == Path::Gateway));
                }
            }
        }
        // Two windows of a second may lie within any second.
        for (begin, _) in &calls {
            let within = calls.iter().filter(|(at, _)| *at >= *begin && at.since(*begin) < SECOND);
            let mut targets: BTreeMap<IpAddr, usize> = BTreeMap::new();
            for (_, to) in within {
                *targets.entry(to.ip()).or_default() += 1;
            }
            prop_assert!(targets.values().all(|count| *count <= 2 * PER_TARGET));
            prop_assert!(targets.values().sum::<usize>() <= 2 * IN_ALL);
        }
    }
}
