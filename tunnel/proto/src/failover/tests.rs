use proptest::prelude::*;

use super::*;

const CONFIG: Config = Config {
    return_after: secs(10),
    patience: secs(2),
    data_counts: ms(300),
    margin: ms(200),
};

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(100_000 + millis)
}

const fn session(session: Session) -> Evidence {
    Evidence {
        session,
        answers: None,
        heard: None,
        target: None,
        over_tls: false,
    }
}

const ALIVE: Evidence = session(Session::Alive);
const LOST: Evidence = session(Session::Lost);
const LEAVING: Evidence = session(Session::Leaving);

fn target(missed: bool, answered: Instant) -> Evidence {
    Evidence {
        target: Some(Target {
            missed,
            answered: Some(answered),
        }),
        ..ALIVE
    }
}

/// Two gateways, `a` preferred, both alive since the start.
fn both() -> Failover {
    let mut machine = Failover::new(at(0), CONFIG);
    give(&mut machine, 0, Input::Gateways(names(&["a", "b"])));
    see(&mut machine, 0, "a", ALIVE);
    see(&mut machine, 0, "b", ALIVE);
    let first = machine.poll_output();
    assert!(
        matches!(first, Some(Output::Activate { to, because: Because::First, .. }) if to == "a")
    );
    machine
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

fn give(machine: &mut Failover, millis: u64, input: Input) {
    machine.handle_input(at(millis), input).unwrap();
}

fn see(machine: &mut Failover, millis: u64, gateway: &str, evidence: Evidence) {
    let gateway = gateway.to_owned();
    give(machine, millis, Input::Seen(vec![(gateway, evidence)]));
}

/// What it has been told to do, shortly.
fn told(machine: &mut Failover) -> Option<(String, Because)> {
    let Output::Activate { to, because, .. } = machine.poll_output()?;
    assert_eq!(machine.poll_output(), None, "one change at a time");
    assert_eq!(machine.active(), Some(to.as_str()));
    Some((to, because))
}

fn to(gateway: &str, because: Because) -> Option<(String, Because)> {
    Some((gateway.to_owned(), because))
}

#[test]
fn every_session_and_echo_has_a_verdict() {
    use Session::{Alive, Leaving, Lost, Unknown};
    let now = at(1_000);
    for (session, answers, heard, verdict) in [
        (Unknown, None, None, Verdict::Unknown),
        (Unknown, Some(false), None, Verdict::Silent),
        (Unknown, Some(true), None, Verdict::Well),
        (Alive, None, None, Verdict::Well),
        // BFD is quicker than the echo, and knows.
        (Alive, Some(false), None, Verdict::Well),
        (Leaving, None, None, Verdict::Leaving),
        (Leaving, Some(true), None, Verdict::Leaving),
        (Leaving, Some(false), None, Verdict::Silent),
        (Lost, None, None, Verdict::Silent),
        (Lost, Some(true), None, Verdict::Silent),
        (Lost, None, Some(at(701)), Verdict::Well),
        (Lost, None, Some(at(700)), Verdict::Silent),
    ] {
        let evidence = Evidence {
            session,
            answers,
            heard,
            target: None,
            over_tls: false,
        };
        let said = evidence.verdict(now, CONFIG.data_counts);
        assert_eq!(said, verdict, "{evidence:?}");
    }
}

#[test]
fn what_the_active_gateway_does_and_who_is_active_then() {
    let silent = Some(Because::Better(Verdict::Silent));
    let leaving = Some(Because::Better(Verdict::Leaving));
    for (what, a, b, because) in [
        ("both are well", ALIVE, ALIVE, None),
        ("it is lost", LOST, ALIVE, silent),
        ("it is lost, the other leaves", LOST, LEAVING, silent),
        ("it leaves", LEAVING, ALIVE, leaving),
        ("it leaves, the other is lost", LEAVING, LOST, None),
        ("both leave", LEAVING, LEAVING, None),
        ("both are lost", LOST, LOST, None),
        ("the other is lost", ALIVE, LOST, None),
        ("the other leaves", ALIVE, LEAVING, None),
    ] {
        let mut machine = both();
        let seen = vec![("a".to_owned(), a), ("b".to_owned(), b)];
        give(&mut machine, 5_000, Input::Seen(seen));
        let expected = because.and_then(|because| to("b", because));
        assert_eq!(told(&mut machine), expected, "{what}");
    }
}

#[test]
fn a_gateway_that_comes_back_is_active_again_only_after_it_was_well_all_the_time() {
    let mut machine = both();
    see(&mut machine, 1_000, "a", LOST);
    assert!(told(&mut machine).is_some());
    see(&mut machine, 3_000, "a", ALIVE);
    see(&mut machine, 9_000, "a", LOST);
    see(&mut machine, 10_000, "a", ALIVE);
    assert_eq!(told(&mut machine), None);
    assert_eq!(machine.view()[0].returns_in, Some(secs(10)));
    assert_eq!(machine.poll_timeout(), Some(at(20_000)));
    machine.handle_timeout(at(19_999));
    assert_eq!(told(&mut machine), None, "an early timeout does nothing");
    machine.handle_timeout(at(20_000));
    assert_eq!(told(&mut machine), to("a", Because::Returned(secs(10))));
    assert_eq!(machine.poll_timeout(), None);
    assert_eq!(machine.view()[0].returns_in, None);
}

#[test]
fn a_preferred_gateway_is_taken_at_once_when_the_active_one_fails() {
    let mut machine = both();
    see(&mut machine, 1_000, "a", LOST);
    assert!(told(&mut machine).is_some());
    see(&mut machine, 2_000, "a", ALIVE);
    see(&mut machine, 2_500, "b", LOST);
    let because = Because::Better(Verdict::Silent);
    assert_eq!(told(&mut machine), to("a", because), "no time is lost");
}

#[test]
fn a_gateway_that_forwards_nothing_is_left_when_another_one_does() {
    let mut machine = both();
    see(&mut machine, 1_000, "a", target(false, at(1_000)));
    see(&mut machine, 1_050, "b", target(false, at(1_050)));
    // Its last answer is older than the other's by more than two probes.
    see(&mut machine, 1_350, "b", target(false, at(1_350)));
    assert_eq!(told(&mut machine), None);
    see(&mut machine, 1_400, "a", target(true, at(1_000)));
    let because = Because::Better(Verdict::ForwardsNothing);
    assert_eq!(told(&mut machine), to("b", because));
    assert!(!machine.is_target_unreachable());
    // It does not come back for as long as nothing answers behind it.
    machine.handle_timeout(at(60_000));
    assert_eq!(told(&mut machine), None);
    assert_eq!(machine.poll_timeout(), None);
}

#[test]
fn targets_that_die_leave_everything_as_it_is() {
    let mut machine = both();
    see(&mut machine, 1_000, "a", target(false, at(1_000)));
    see(&mut machine, 1_050, "b", target(false, at(1_050)));
    // The probes of `a` give up first: that `b` was answered last says nothing yet.
    see(&mut machine, 1_400, "a", target(true, at(1_000)));
    assert_eq!(told(&mut machine), None);
    see(&mut machine, 1_450, "b", target(true, at(1_050)));
    assert_eq!(told(&mut machine), None);
    assert!(machine.is_target_unreachable());
    // What is left is BFD with the gateways themselves.
    let gone = Evidence {
        session: Session::Lost,
        ..target(true, at(1_000))
    };
    see(&mut machine, 2_000, "a", gone);
    let because = Because::Better(Verdict::Silent);
    assert_eq!(told(&mut machine), to("b", because));
    // And none that nothing answers behind is gone back to.
    see(&mut machine, 3_000, "a", target(true, at(1_000)));
    machine.handle_timeout(at(60_000));
    assert_eq!(told(&mut machine), None);
}

#[test]
fn data_that_still_arrives_keeps_a_session_that_was_lost() {
    let mut machine = both();
    let heard = Evidence {
        heard: Some(at(900)),
        ..LOST
    };
    see(&mut machine, 1_000, "a", heard);
    assert_eq!(told(&mut machine), None);
    assert_eq!(machine.poll_timeout(), Some(at(1_200)));
    machine.handle_timeout(at(1_200));
    assert_eq!(
        told(&mut machine),
        to("b", Because::Better(Verdict::Silent))
    );
}

#[test]
fn the_first_gateway_has_some_patience_to_come_up() {
    for (up_at, active) in [(1_500, "a"), (2_500, "b")] {
        let mut machine = Failover::new(at(0), CONFIG);
        give(&mut machine, 0, Input::Gateways(names(&["a", "b"])));
        see(&mut machine, 100, "b", ALIVE);
        assert_eq!(machine.active(), Some("a"));
        assert_eq!(machine.poll_timeout(), Some(at(2_000)));
        if up_at > 2_000 {
            machine.handle_timeout(at(2_000));
        }
        see(&mut machine, up_at, "a", ALIVE);
        assert_eq!(machine.active(), Some(active), "up at {up_at}");
    }
}

#[test]
fn gateways_come_and_go() {
    let mut machine = both();
    give(&mut machine, 1_000, Input::Gateways(names(&["b", "c"])));
    assert_eq!(told(&mut machine), to("b", Because::Removed));
    give(&mut machine, 2_000, Input::Gateways(Vec::new()));
    assert_eq!(told(&mut machine), None);
    assert_eq!(machine.active(), None);
    give(&mut machine, 3_000, Input::Gateways(names(&["c", "c"])));
    assert_eq!(told(&mut machine), to("c", Because::First));
    assert_eq!(machine.view().len(), 1, "named twice, there once");
    let unknown = Input::Seen(vec![("c".to_owned(), LOST), ("a".to_owned(), ALIVE)]);
    let before = format!("{machine:?}");
    assert_eq!(machine.handle_input(at(9), unknown), Err(Reject::Unknown));
    assert_eq!(
        format!("{machine:?}"),
        before,
        "refused inputs change nothing"
    );
}

#[test]
fn reasons_are_sentences() {
    for (because, text) in [
        (Because::First, "it is the first of them"),
        (Because::Removed, "the one before is no longer wanted"),
        (
            Because::Better(Verdict::Silent),
            "the one before is not heard any more",
        ),
        (
            Because::Returned(ms(10_040)),
            "it is preferred, and was well for 10.0 s",
        ),
    ] {
        assert_eq!(because.to_string(), text);
    }
}

fn any_evidence() -> impl Strategy<Value = (usize, Evidence, u64)> {
    let session = prop_oneof![
        Just(Session::Unknown),
        Just(Session::Alive),
        Just(Session::Alive),
        Just(Session::Leaving),
        Just(Session::Lost),
    ];
    let target = prop::option::of((any::<bool>(), 0_u64..2_000));
    let heard = prop::option::of(0_u64..500);
    let answers = prop::option::of(any::<bool>());
    let over_tls = any::<bool>();
    (
        0_usize..3,
        session,
        answers,
        heard,
        target,
        over_tls,
        0_u64..4_000,
    )
        .prop_map(
            |(gateway, session, answers, heard, target, over_tls, step)| {
                let ago = |ago: u64| at(100_000) - ms(ago);
                let target = target.map(|(missed, past)| Target {
                    missed,
                    answered: Some(ago(past)),
                });
                let evidence = Evidence {
                    session,
                    answers,
                    heard: heard.map(ago),
                    target,
                    over_tls,
                };
                (gateway, evidence, step)
            },
        )
}

#[test]
fn who_is_reached_over_udp_comes_before_who_is_over_tls_alone() {
    let over_tls = Evidence {
        over_tls: true,
        ..ALIVE
    };
    let mut machine = both();
    see(&mut machine, 1_000, "a", over_tls);
    assert_eq!(machine.active(), Some("b"));
    let why = machine.because().0;
    assert_eq!(why, Because::Better(Verdict::OverTls));
    // Nobody is reached over UDP: over TLS is better than not at all.
    see(&mut machine, 2_000, "b", LOST);
    assert_eq!(machine.active(), Some("a"));
    see(&mut machine, 3_000, "b", over_tls);
    assert_eq!(machine.active(), Some("a"), "there is no reason to go");
    see(&mut machine, 4_000, "b", ALIVE);
    assert_eq!(machine.active(), Some("b"));
    see(&mut machine, 5_000, "a", ALIVE);
    assert_eq!(
        machine.active(),
        Some("b"),
        "not before it was well for a while"
    );
    machine.handle_timeout(at(15_000));
    assert_eq!(machine.active(), Some("a"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_active_gateway_is_never_worse_than_need_be(
        seen in prop::collection::vec(any_evidence(), 1..60),
    ) {
        let all = ["a", "b", "c"];
        let mut machine = Failover::new(at(0), CONFIG);
        machine.handle_input(at(0), Input::Gateways(names(&all))).unwrap();
        let mut now = at(100_000);
        let mut well_since: [Option<Instant>; 3] = [None; 3];
        for (gateway, evidence, step) in seen {
            now += ms(step);
            // All that is due before, at its own time.
            while let Some(due) = machine.poll_timeout().filter(|due| *due <= now) {
                machine.handle_timeout(due);
                prop_assert!(machine.poll_timeout().is_none_or(|next| next > due));
                check(&mut machine, &mut well_since, due)?;
            }
            machine.handle_timeout(now);
            // Instants are told as ages.
            let shift = now.since(at(100_000));
            let evidence = Evidence {
                heard: evidence.heard.map(|heard| heard + shift),
                target: evidence.target.map(|target| Target {
                    answered: target.answered.map(|it| it + shift),
                    ..target
                }),
                ..evidence
            };
            let gateway = all[gateway].to_owned();
            machine.handle_input(now, Input::Seen(vec![(gateway, evidence)])).unwrap();
            check(&mut machine, &mut well_since, now)?;
        }
    }
}

/// What holds at every step, and what holds of the change that was just made.
fn check(
    machine: &mut Failover,
    well_since: &mut [Option<Instant>; 3],
    now: Instant,
) -> Result<(), TestCaseError> {
    let views = machine.view();
    for (view, since) in views.iter().zip(well_since.iter_mut()) {
        let well = view.verdict == Verdict::Well;
        *since = since.or(Some(now)).filter(|_| well);
    }
    let active: Vec<_> = views.iter().filter(|view| view.active).collect();
    prop_assert_eq!(active.len(), 1);
    let best = views.iter().map(|view| view.verdict.rank()).min();
    prop_assert_eq!(Some(active[0].verdict.rank()), best);
    while let Some(Output::Activate { to, because, .. }) = machine.poll_output() {
        if let Because::Returned(_) = because {
            let place = views.iter().position(|view| view.gateway == to).unwrap();
            let since = well_since[place].unwrap();
            prop_assert!(now.since(since) >= CONFIG.return_after, "{} too early", to);
        }
    }
    Ok(())
}
