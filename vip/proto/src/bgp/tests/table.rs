//! Every state × every input → what is said, the next state, the next deadline.

use std::fmt::Write as _;

use kedge_core::bfd::Liveness;

use super::bench::{Bench, config, offers, open, place};
use crate::{
    bgp::{Command, Config, DialError, Farewell, Input, Side},
    wire::bgp::{Family, Message, Notification, RouteRefresh, Subtype, Text, Update, cease, codes},
};

/// Each state, begun at 0 ms.
fn states() -> Vec<(&'static str, Bench)> {
    let began = |config: Config| {
        let mut bench = Bench::new(config);
        bench.drain();
        bench
    };
    let shutdown = Config {
        shutdown: Some(Text::new("maintenance")),
        ..config()
    };
    let passive = Config {
        passive: true,
        ..config()
    };
    let graceful = Config {
        graceful: std::time::Duration::from_secs(2),
        ..config()
    };
    let mut resting = began(config());
    resting.input(Input::Connected(place()));
    resting.hear_flawed(Side::Ours, codes::HEADER, codes::BAD_TYPE);
    let mut active = began(config());
    active.input(Input::DialFailed(DialError::Refused));
    let mut sent = began(config());
    sent.input(Input::Connected(place()));
    sent.taken(Side::Ours);
    let mut called = active.clone();
    called.input(Input::Accepted(place()));
    called.taken(Side::Theirs);
    let mut confirm = sent.clone();
    confirm.hear(Side::Ours, Message::Open(open()));
    confirm.taken(Side::Ours);
    let mut both = began(config());
    both.input(Input::Accepted(place()));
    both.taken(Side::Theirs);
    let mut crossed = both.clone();
    crossed.input(Input::Connected(place()));
    crossed.taken(Side::Ours);
    crossed.hear(Side::Ours, Message::Open(open()));
    crossed.taken(Side::Ours);
    let mut leaving = Bench::established(graceful);
    leaving.input(Input::Command(Command::Leave(Farewell::Deconfigured)));
    leaving.taken(Side::Ours);
    let mut lost = began(config());
    lost.input(Input::Bfd(Liveness::Lost));
    let strict = Config {
        strict_bfd: true,
        ..config()
    };
    let mut ended = began(config());
    ended.input(Input::Command(Command::Leave(Farewell::Deconfigured)));
    vec![
        ("Idle, shut down", began(shutdown)),
        ("Idle, resting", resting),
        ("Idle, BFD lost it", lost),
        ("Idle, BFD is waited for", began(strict)),
        ("Connect", began(config())),
        ("Connect, called meanwhile", both),
        ("Active", active),
        ("Active, passive", began(passive)),
        ("OpenSent, our call", sent),
        ("OpenSent, the neighbour's call", called),
        ("OpenConfirm, our call", confirm),
        ("OpenConfirm, and the neighbour's call in OpenSent", crossed),
        ("Established, our call", Bench::established(config())),
        ("Established, leaving", leaving),
        ("ended", ended),
    ]
}

fn inputs() -> Vec<(&'static str, Vec<Input>)> {
    let each = |of: &dyn Fn(Side) -> Input| Side::ALL.map(of).to_vec();
    let heard = |message: Message| each(&|side| Input::Heard(side, Ok(message.clone())));
    let flawed = Notification::new(codes::UPDATE, codes::ATTRIBUTE_LIST, vec![]);
    let refused = each(&|side| Input::Heard(side, Err(flawed.clone().into())));
    let other = crate::wire::bgp::Open {
        asn: super::bench::asn(1),
        ..open()
    };
    let shutdown = Config {
        shutdown: Some(Text::new("maintenance")),
        ..config()
    };
    vec![
        ("connected", vec![Input::Connected(place())]),
        ("dial failed", vec![Input::DialFailed(DialError::TimedOut)]),
        ("called", vec![Input::Accepted(place())]),
        ("closed", each(&Input::Closed)),
        ("OPEN", heard(Message::Open(open()))),
        ("OPEN of a stranger", heard(Message::Open(other))),
        ("KEEPALIVE", heard(Message::Keepalive)),
        ("UPDATE", heard(Message::Update(Update::default()))),
        (
            "REFRESH",
            heard(Message::RouteRefresh(RouteRefresh::of(
                Family::Ipv4,
                Subtype::Request,
            ))),
        ),
        ("NOTIFICATION", heard(Message::Notification(flawed.clone()))),
        (
            "NOTIFICATION cease",
            heard(Message::Notification(Notification::cease(cease::SHUTDOWN))),
        ),
        (
            "NOTIFICATION collision",
            heard(Message::Notification(Notification::cease(cease::COLLISION))),
        ),
        ("what cannot be read", refused),
        ("offers", vec![Input::Offers(offers(&["192.0.2.11"]))]),
        ("found", vec![Input::Found]),
        ("BFD lost", vec![Input::Bfd(Liveness::Lost)]),
        ("BFD alive", vec![Input::Bfd(Liveness::Alive)]),
        ("shut down", vec![Input::Config(Box::new(shutdown))]),
        ("no longer", vec![Input::Config(Box::new(config()))]),
        ("reset", vec![Input::Command(Command::Reset)]),
        (
            "leave",
            vec![Input::Command(Command::Leave(Farewell::Deconfigured))],
        ),
    ]
}

#[test]
fn every_state_and_every_input() {
    let mut text = String::from(HEAD);
    for (name, state) in states() {
        writeln!(text, "\n## {name} · {}", state.next()).unwrap();
        for (input, ways) in inputs() {
            for way in ways {
                let mut bench = state.clone();
                bench.now = super::bench::at(10);
                let label = match &way {
                    Input::Closed(side) | Input::Heard(side, _)
                        if state.session.state() > kedge_core::bgp::SessionState::Active =>
                    {
                        format!("{input} ({})", super::bench::name(*side))
                    }
                    Input::Closed(Side::Theirs) | Input::Heard(Side::Theirs, _) => continue,
                    _ => input.to_owned(),
                };
                let before = bench.session.clone();
                let said = bench.input(way);
                if said.is_empty() && bench.session == before {
                    writeln!(text, "{label:<34} nothing").unwrap();
                    continue;
                }
                if let [refusal] = said.as_slice()
                    && refusal.starts_with("refused")
                {
                    writeln!(text, "{label:<34} {refusal}").unwrap();
                    continue;
                }
                writeln!(
                    text,
                    "{label:<34} {:<11} {}",
                    bench.session.state(),
                    bench.next()
                )
                .unwrap();
                for line in said {
                    writeln!(text, "        {line}").unwrap();
                }
            }
        }
        let mut bench = state;
        let due = kedge_core::Machine::poll_timeout(&bench.session);
        if let Some(due) = due {
            bench.now = due;
            kedge_core::Machine::handle_timeout(&mut bench.session, due);
            let said = bench.drain();
            writeln!(
                text,
                "{:<34} {:<11} {}",
                "its time comes",
                bench.session.state(),
                bench.next()
            )
            .unwrap();
            for line in said {
                writeln!(text, "        {line}").unwrap();
            }
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bgp/tests/table.txt");
    crate::table::agrees(path, &text);
}

const HEAD: &str = "\
# BGP: every state and every input

We are 10.0.0.5 of 65001, the neighbour is 10.0.0.9 of 65014, both call; we offer 192.0.2.10. States
begin at 0 ms, inputs come at 10 ms. A row says the input, the state and the next deadline after it;
what follows is sent and told, in order. `ours` is the connection that we made, `theirs` the other.
`nothing` is nothing at all: no output, no change.
";
