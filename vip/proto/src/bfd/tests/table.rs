//! Every state × every input → outputs, next state, next deadline.

use std::{fmt::Write as _, time::Duration};

use kedge_core::{
    Machine,
    bfd::SessionState::{self, AdminDown, Down, Init, Up},
};

use super::bench::{Bench, at, ms, packet, says};
use crate::{
    bfd::{Command, Config, Input, Received},
    wire::bfd::{Control, Diagnostic, Discriminator, Interval},
};

/// Each state, begun at 0 ms.
fn states() -> Vec<(&'static str, Bench)> {
    let passive = Config {
        passive: true,
        ..Config::DEFAULT
    };
    let shutdown = Config {
        shutdown: true,
        ..Config::DEFAULT
    };
    let started = |config: Config| {
        let mut bench = Bench::new(config);
        bench.timeout(0);
        bench
    };
    let mut init = started(Config::DEFAULT);
    init.hear(0, Down);
    let mut polling = init.clone();
    polling.hear(0, Init);
    let up = Bench::up(Config::DEFAULT);
    let mut slower = up.clone();
    slower.configure(
        0,
        Config {
            desired_min_tx: ms(600),
            required_min_rx: ms(100),
            ..Config::DEFAULT
        },
    );
    let mut demanded = up.clone();
    demanded.input(
        0,
        packet(Control {
            demand: true,
            ..says(Up)
        }),
    );
    let mut lost = up.clone();
    lost.due();
    lost.due();
    lost.due();
    lost.timeout(900);
    let mut told = up.clone();
    told.hear(0, Down);
    let mut leaving = up.clone();
    leaving.stop(0);
    let mut ended = started(Config::DEFAULT);
    ended.stop(0);
    vec![
        ("Down, nobody heard", started(Config::DEFAULT)),
        ("Down, nobody heard, passive", started(passive)),
        ("Down, the peer fell silent", lost),
        ("Down, the peer said so", told),
        ("Init", init),
        ("Up, its timers not yet confirmed", polling),
        ("Up", up),
        ("Up, slower and quicker timers asked for", slower),
        ("Up, the peer demands silence", demanded),
        ("AdminDown", started(shutdown)),
        ("Leaving", leaving),
        ("Ended", ended),
    ]
}

/// Each input, given at 10 ms after the state's own time.
fn inputs(bench: &Bench) -> Vec<(&'static str, Given)> {
    let from = |state: SessionState| Given::Input(packet(says(state)));
    let changed = |state: SessionState, change: fn(&mut Control)| {
        let mut control = says(state);
        change(&mut control);
        Given::Input(packet(control))
    };
    let set = |change: fn(&mut Config)| {
        let mut config = *bench.session.config();
        change(&mut config);
        Given::Input(Input::Config(config))
    };
    let arrived = |change: fn(&mut Received)| {
        let mut received = Received {
            ttl: 255,
            sealed: false,
            control: says(Up),
        };
        change(&mut received);
        Given::Input(Input::Packet(received))
    };
    vec![
        ("peer: AdminDown", from(AdminDown)),
        ("peer: Down", from(Down)),
        (
            "peer: Down, names nobody",
            changed(Down, |it| it.your = None),
        ),
        (
            "peer: Down, its time expired",
            changed(Down, |it| it.diagnostic = Diagnostic::EXPIRED),
        ),
        ("peer: Init", from(Init)),
        ("peer: Up", from(Up)),
        ("peer: Up, asks", changed(Up, |it| it.poll = true)),
        ("peer: Up, answers", changed(Up, |it| it.fin = true)),
        ("peer: Init, asks", changed(Init, |it| it.poll = true)),
        (
            "peer: Up, demands silence",
            changed(Up, |it| it.demand = true),
        ),
        (
            "peer: Up, takes nothing",
            changed(Up, |it| it.required_min_rx = Interval::ZERO),
        ),
        (
            "peer: Up, takes every 50 ms",
            changed(Up, |it| it.required_min_rx = ms(50)),
        ),
        (
            "peer: Up, takes every 2 s",
            changed(Up, |it| it.required_min_rx = ms(2_000)),
        ),
        (
            "peer: Up, sends every 500 ms",
            changed(Up, |it| it.desired_min_tx = ms(500)),
        ),
        ("peer: Up, names nobody", changed(Up, |it| it.your = None)),
        (
            "peer: Up, names another",
            changed(Up, |it| it.your = Discriminator::new(99)),
        ),
        (
            "peer: Up, another number of its own",
            changed(Up, |it| it.my = Discriminator::new(33).unwrap()),
        ),
        ("peer: Up, TTL 254", arrived(|it| it.ttl = 254)),
        ("peer: Up, authenticated", arrived(|it| it.sealed = true)),
        ("configuration as before", set(|_| {})),
        (
            "configuration: sends every 600 ms",
            set(|it| it.desired_min_tx = ms(600)),
        ),
        (
            "configuration: sends every 100 ms",
            set(|it| it.desired_min_tx = ms(100)),
        ),
        (
            "configuration: takes every 600 ms",
            set(|it| it.required_min_rx = ms(600)),
        ),
        (
            "configuration: takes every 100 ms",
            set(|it| it.required_min_rx = ms(100)),
        ),
        (
            "configuration: another multiplier",
            set(|it| it.multiplier = crate::wire::bfd::Multiplier::new(5).unwrap()),
        ),
        (
            "configuration: shut down or not",
            set(|it| it.shutdown = !it.shutdown),
        ),
        (
            "configuration: passive or not",
            set(|it| it.passive = !it.passive),
        ),
        ("command: stop", Given::Input(Input::Command(Command::Stop))),
        ("timeout, early", Given::Early),
        ("timeout, due", Given::Due),
        ("timeout, due 10 s ago", Given::Late(10_000)),
    ]
}

enum Given {
    Input(Input),
    Early,
    Due,
    Late(u64),
}

fn render() -> String {
    let mut text = String::from(HEAD);
    for (name, start) in states() {
        let _ = writeln!(text, "\n## {name} · {}", deadline(&start));
        // Later than what made the state.
        let now = at(if name.contains("silent") { 910 } else { 10 });
        for (input, given) in inputs(&start) {
            let mut bench = start.clone();
            let before = bench.session.clone();
            let due = bench.session.poll_timeout();
            let done = match (given, due) {
                (Given::Input(input), _) => bench.session.handle_input(now, input),
                (Given::Early, _) => {
                    bench.session.handle_timeout(now);
                    Ok(())
                }
                (Given::Due, Some(due)) => {
                    bench.session.handle_timeout(due);
                    Ok(())
                }
                (Given::Late(millis), Some(due)) => {
                    bench
                        .session
                        .handle_timeout(due + Duration::from_millis(millis));
                    Ok(())
                }
                (Given::Due | Given::Late(_), None) => continue,
            };
            let _ = match done {
                Err(reject) => {
                    assert_eq!(
                        bench.session, before,
                        "{name} × {input}: a refusal changed the state"
                    );
                    writeln!(text, "{input:<36}refused: {}", reject.label())
                }
                Ok(()) if bench.session == before => writeln!(text, "{input:<36}nothing"),
                Ok(()) => {
                    let words = bench.timeout_at(kedge_core::Instant::ZERO);
                    let state = bench.session.state().to_string();
                    let _ = writeln!(text, "{input:<36}{state:<11}{}", deadline(&bench));
                    words
                        .iter()
                        .try_for_each(|word| writeln!(text, "{:<8}{word}", ""))
                }
            };
        }
    }
    text
}

fn deadline(bench: &Bench) -> String {
    match (bench.ready(), bench.deadline()) {
        (Some(ready), Some(due)) if ready < due => {
            format!("acts from {ready:.3} to {due:.3} ms")
        }
        (_, Some(due)) => format!("acts at {due:.3} ms"),
        (_, None) => "no deadline".to_owned(),
    }
}

const HEAD: &str = "\
# BFD: every state and every input

Both sides want 300 ms each way and three packets; we are 17, the peer is 34. States begin at 0 ms,
inputs come at 10 ms (910 ms after a silence). A row says the input, the state and the next deadline
after it, or the window of the next packet; what follows is sent and told, in order. `nothing` is
nothing at all: no output, no change.
";

#[test]
fn every_state_meets_every_input_as_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bfd/tests/table.txt");
    crate::table::agrees(path, &render());
}
