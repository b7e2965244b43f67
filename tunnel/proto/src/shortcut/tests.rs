use super::*;
use crate::driven::{at, give, outputs, pass};
use Input::{Endpoint, Taken, Targets, Tunnel};

/// Each state as it is reached at 20 s, with a tunnel that is down and nothing that answers, but for what the
/// state needs.
fn in_state(state: State) -> Shortcut {
    let mut machine = Shortcut::new(at(0), Config::default());
    if state == State::Gateway {
        give(&mut machine, 20_000, Endpoint(true));
        return machine;
    }
    if state == State::Doubted {
        give(&mut machine, 1_000, Tunnel(true));
        give(&mut machine, 20_000, Tunnel(false));
        return machine;
    }
    give(&mut machine, 1_000, Targets(true));
    assert_eq!(pass(&mut machine, 20_000), [(7_000, Output::Take)]);
    if state != State::Taking {
        give(&mut machine, 20_000, Taken(true));
        give(&mut machine, 20_000, Targets(false));
    }
    if state == State::Returning {
        give(&mut machine, 20_000, Endpoint(true));
    }
    machine
}

#[test]
fn every_state_and_input() {
    use Output::Release;
    use State::{Doubted, Gateway, Returning, Standing, Taking};
    type Row = (State, Option<Input>, State, Option<u64>, &'static [Output]);
    // The state, what happens at 21 s (nothing: all its deadlines pass), the state and the deadline then in
    // seconds, and what is done.
    let table: [Row; 45] = [
        (Gateway, Some(Tunnel(true)), Gateway, None, &[]),
        (Gateway, Some(Tunnel(false)), Gateway, None, &[]),
        (Gateway, Some(Endpoint(true)), Gateway, None, &[]),
        (Gateway, Some(Endpoint(false)), Doubted, Some(28), &[]),
        (Gateway, Some(Targets(true)), Gateway, None, &[]),
        (Gateway, Some(Targets(false)), Gateway, None, &[]),
        (Gateway, Some(Taken(true)), Gateway, None, &[]),
        (Gateway, Some(Taken(false)), Gateway, None, &[]),
        (Gateway, None, Gateway, None, &[]),
        (Doubted, Some(Tunnel(true)), Gateway, None, &[]),
        (Doubted, Some(Tunnel(false)), Doubted, Some(27), &[]),
        (Doubted, Some(Endpoint(true)), Gateway, None, &[]),
        (Doubted, Some(Endpoint(false)), Doubted, Some(27), &[]),
        (Doubted, Some(Targets(true)), Doubted, Some(27), &[]),
        (Doubted, Some(Targets(false)), Doubted, Some(27), &[]),
        (Doubted, Some(Taken(true)), Doubted, Some(27), &[]),
        (Doubted, Some(Taken(false)), Doubted, Some(27), &[]),
        // Nobody of the site answers: there is nothing to win.
        (Doubted, None, Doubted, None, &[]),
        // What is under way is not turned back by an answer: the release comes after it.
        (Taking, Some(Tunnel(true)), Taking, None, &[]),
        (Taking, Some(Tunnel(false)), Taking, None, &[]),
        (Taking, Some(Endpoint(true)), Taking, None, &[]),
        (Taking, Some(Endpoint(false)), Taking, None, &[]),
        (Taking, Some(Targets(true)), Taking, None, &[]),
        (Taking, Some(Targets(false)), Taking, None, &[]),
        (Taking, Some(Taken(true)), Standing, None, &[]),
        (Taking, Some(Taken(false)), Doubted, Some(26), &[]),
        (Taking, None, Taking, None, &[]),
        // A tunnel alone is no way back.
        (Standing, Some(Tunnel(true)), Standing, None, &[]),
        (Standing, Some(Tunnel(false)), Standing, None, &[]),
        (Standing, Some(Endpoint(true)), Returning, Some(31), &[]),
        (Standing, Some(Endpoint(false)), Standing, None, &[]),
        (Standing, Some(Targets(true)), Standing, None, &[]),
        (Standing, Some(Targets(false)), Standing, None, &[]),
        (Standing, Some(Taken(true)), Standing, None, &[]),
        (Standing, Some(Taken(false)), Standing, None, &[]),
        (Standing, None, Standing, None, &[]),
        (Returning, Some(Tunnel(true)), Returning, Some(30), &[]),
        (Returning, Some(Tunnel(false)), Returning, Some(30), &[]),
        (Returning, Some(Endpoint(true)), Returning, Some(30), &[]),
        (Returning, Some(Endpoint(false)), Standing, None, &[]),
        (Returning, Some(Targets(true)), Returning, Some(30), &[]),
        (Returning, Some(Targets(false)), Returning, Some(30), &[]),
        (Returning, Some(Taken(true)), Returning, Some(30), &[]),
        (Returning, Some(Taken(false)), Returning, Some(30), &[]),
        (Returning, None, Gateway, None, &[Release]),
    ];
    for (before, input, after, deadline, done) in table {
        let mut machine = in_state(before);
        assert_eq!(machine.state().0, before);
        let told = match input {
            Some(input) => {
                let taken = machine.handle_input(at(21_000), input);
                let refused = matches!(input, Taken(_)) && before != Taking;
                assert_eq!(taken.is_err(), refused, "{before:?} {input:?}");
                outputs(&mut machine)
            }
            None => pass(&mut machine, 60_000)
                .into_iter()
                .map(|(_, output)| output)
                .collect(),
        };
        let due = machine.poll_timeout();
        assert_eq!(machine.state().0, after, "{before:?} {input:?}");
        assert_eq!(
            due,
            deadline.map(|due| at(due * 1_000)),
            "{before:?} {input:?}"
        );
        assert_eq!(told, done, "{before:?} {input:?}");
    }
}

#[test]
fn it_is_taken_seven_seconds_after_nobody_answers_and_left_ten_after_the_endpoint_does() {
    let mut machine = Shortcut::new(at(0), Config::default());
    assert_eq!(give(&mut machine, 500, Tunnel(true)), []);
    assert_eq!(pass(&mut machine, 60_000), []);
    assert!(!machine.asks(), "the tunnel says it all");
    assert_eq!(give(&mut machine, 60_000, Tunnel(false)), []);
    assert!(machine.asks());
    assert_eq!(give(&mut machine, 60_100, Targets(true)), []);
    assert_eq!(pass(&mut machine, 70_000), [(67_000, Output::Take)]);
    assert_eq!(give(&mut machine, 67_001, Taken(true)), []);
    // The tunnel is back, and nobody behind the gateway yet.
    assert_eq!(give(&mut machine, 90_000, Tunnel(true)), []);
    assert!(machine.asks());
    assert_eq!(pass(&mut machine, 120_000), []);
    assert_eq!(give(&mut machine, 120_000, Endpoint(true)), []);
    assert_eq!(give(&mut machine, 125_000, Endpoint(false)), []);
    assert_eq!(give(&mut machine, 126_000, Endpoint(true)), []);
    assert_eq!(pass(&mut machine, 200_000), [(136_000, Output::Release)]);
    assert_eq!(machine.state(), (State::Gateway, at(136_000)));
}

#[test]
fn who_waits_for_a_host_of_the_site_takes_it_with_its_first_answer() {
    let mut machine = Shortcut::new(at(0), Config::default());
    assert_eq!(pass(&mut machine, 100_000), []);
    assert_eq!(
        give(&mut machine, 100_000, Targets(true)),
        [Output::Take],
        "the time is over already"
    );
    assert_eq!(give(&mut machine, 100_000, Taken(false)), []);
    assert_eq!(pass(&mut machine, 200_000), [(105_000, Output::Take)]);
}

#[test]
fn what_was_heard_before_the_tunnel_came_back_counts_no_more() {
    let mut machine = in_state(State::Gateway);
    give(&mut machine, 21_000, Tunnel(true));
    assert_eq!(machine.heard(), (true, false, false));
    give(&mut machine, 30_000, Tunnel(false));
    assert_eq!(machine.state().0, State::Doubted);
}

/// A cheap stream of numbers, the same for the same seed.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn whatever_happens_it_is_taken_and_left_in_turn_and_never_while_the_gateway_is_reached() {
    for seed in 1..=2_000 {
        let (mut random, mut now) = (seed, 0);
        let mut machine = Shortcut::new(at(0), Config::default());
        let (mut tunnel, mut endpoint, mut taken) = (false, false, false);
        // Since when neither answered, and since when the endpoint does.
        let (mut silent, mut answers) = (Some(0), None);
        for _ in 0..200 {
            now += next(&mut random) % 4_000;
            while let Some(due) = machine.poll_timeout().filter(|due| *due <= at(now)) {
                machine.handle_timeout(due);
                let millis = u64::try_from(due.since(at(0)).as_millis()).unwrap();
                for output in outputs(&mut machine) {
                    assert_eq!(taken, output == Output::Release, "seed {seed}: in turn");
                    match output {
                        Output::Take => assert!(silent.is_some_and(|at| at + 5_000 <= millis)),
                        Output::Release => assert!(answers.is_some_and(|at| at + 10_000 <= millis)),
                    }
                    taken = output == Output::Take;
                }
            }
            let word = next(&mut random);
            let is_true = word & 8 == 0;
            let input = match word % 4 {
                0 => Tunnel(is_true),
                1 => Endpoint(is_true),
                2 => Targets(is_true),
                _ => Taken(is_true),
            };
            match (input, machine.handle_input(at(now), input)) {
                (Tunnel(it), _) => tunnel = it,
                (Endpoint(it), _) => endpoint = it,
                (Taken(false), Ok(())) => taken = false,
                (Targets(_) | Taken(_), _) => {}
            }
            if tunnel && !taken {
                endpoint = false;
            }
            silent = (!tunnel && !endpoint).then(|| silent.unwrap_or(now));
            answers = endpoint.then(|| answers.unwrap_or(now));
            for output in outputs(&mut machine) {
                assert_eq!(output, Output::Take, "seed {seed}: nobody else waits");
                assert!(
                    !taken && silent.is_some_and(|at| at + 5_000 <= now),
                    "seed {seed}"
                );
                taken = true;
            }
        }
    }
}
