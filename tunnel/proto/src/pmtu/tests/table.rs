//! Every state and every input: what comes of it.

use super::*;

/// Brings a machine with a way of 1440 to a state, at 0 s or as soon as can be after.
fn machine(state: &str) -> (Discovery, Instant) {
    let mut machine = Discovery::new(Config::default(), 7);
    let mut now = at(0);
    if state == "Idle" {
        return (machine, now);
    }
    let path = Input::Path {
        most: 1440,
        start: 1420,
    };
    machine.handle_input(now, path).unwrap();
    // Which questions are answered on the way there.
    let passes = |size: Option<u16>| match state {
        "Ask" | "Silent" => false,
        "Base" | "Floor" => size.is_none(),
        _ => size.is_none_or(|size| size <= 1400),
    };
    loop {
        let questions = asked(&mut machine);
        let name = name(&machine);
        if name == state {
            return (machine, now);
        }
        if state == "Confirm" && name == "Complete" {
            now += Duration::from_secs(3);
            machine.handle_input(now, Input::Sent(100_000)).unwrap();
            continue;
        }
        let (question, size) = *questions.last().unwrap();
        if passes(size) {
            machine.handle_input(now, answer(question)).unwrap();
        } else {
            now = machine.poll_timeout().unwrap();
            machine.handle_timeout(now);
        }
    }
}

fn name(machine: &Discovery) -> &'static str {
    match machine.state {
        State::Idle => "Idle",
        State::Ask { .. } => "Ask",
        State::Base { .. } => "Base",
        State::Search(_) => "Search",
        State::Complete { .. } => "Complete",
        State::Confirm { .. } => "Confirm",
        State::Silent { .. } => "Silent",
        State::Floor { .. } => "Floor",
    }
}

/// One line of what comes of an input: state, MTU, why, sizes asked, milliseconds to the deadline.
fn told(machine: &mut Discovery, now: Instant) -> String {
    let sizes: Vec<String> = asked(machine)
        .into_iter()
        .map(|(_, size)| size.map_or_else(|| "short".to_owned(), |size| size.to_string()))
        .collect();
    let due = machine.poll_timeout().map_or_else(
        || "never".to_owned(),
        |at| at.since(now).as_millis().to_string(),
    );
    let Report { mtu, standing, .. } = machine.report();
    let asked = if sizes.is_empty() {
        "-".to_owned()
    } else {
        sizes.join(",")
    };
    format!("{} {mtu} {standing:?} {asked} {due}", name(machine))
}

#[test]
fn every_state_and_every_input() {
    let inputs = ["path", "answered", "large", "sent", "due", "exhausted"];
    let mut seen = String::new();
    for state in [
        "Idle", "Ask", "Base", "Search", "Complete", "Confirm", "Silent", "Floor",
    ] {
        for input in inputs {
            let (mut machine, mut now) = machine(state);
            match input {
                "path" => {
                    let path = Input::Path {
                        most: 8940,
                        start: 1420,
                    };
                    machine.handle_input(now, path).unwrap();
                }
                // What is asked is answered; where nothing is asked an old question is, late.
                "answered" => {
                    let size = machine.pending().and_then(|trial| trial.size);
                    let flight = machine.flying.iter().rev().find(|it| it.size == size);
                    let Some(flight) = flight.copied() else {
                        continue;
                    };
                    let message = Message {
                        is_answer: true,
                        session: 7,
                        sequence: flight.sequence,
                    };
                    machine.handle_input(now, Input::Received(message)).unwrap();
                }
                // The first question of the most, late.
                "large" => {
                    let flight = machine.flying.iter().find(|it| it.size == Some(1440));
                    let Some(flight) = flight.copied() else {
                        continue;
                    };
                    let message = Message {
                        is_answer: true,
                        session: 7,
                        sequence: flight.sequence,
                    };
                    machine.handle_input(now, Input::Received(message)).unwrap();
                }
                "sent" => {
                    now += Duration::from_secs(3);
                    machine.handle_input(now, Input::Sent(1 << 30)).unwrap();
                }
                "due" => {
                    let Some(due) = machine.poll_timeout() else {
                        continue;
                    };
                    now = due;
                    machine.handle_timeout(now);
                }
                _ => {
                    for _ in 0..3 {
                        let Some(due) = machine.poll_timeout() else {
                            break;
                        };
                        if machine.pending().is_none() {
                            break;
                        }
                        now = due;
                        machine.handle_timeout(now);
                    }
                    if now == at(0) {
                        continue;
                    }
                }
            }
            seen.push_str(&format!("{state} {input}: {}\n", told(&mut machine, now)));
        }
    }
    assert_eq!(seen, include_str!("table.txt"));
}
