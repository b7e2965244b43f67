//! The laws of a machine, for arbitrary inputs at arbitrary times.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kedge_core::{Instant, Machine, bfd::Liveness, bgp::SessionState};
use proptest::prelude::*;

use super::bench::{asn, at, config, id, open, place, prefix};
use crate::{
    bgp::{
        Command, Config, DialError, Farewell, Input, Offer, Offers, Output, Policy, Session, Side,
    },
    wire::bgp::{
        Capability, Context, Family, Frame, HoldTime, Message, Notification, Open, Prefix, Refusal,
        RouteRefresh, Subtype, Text, Update,
    },
};

#[derive(Clone, Debug)]
enum Step {
    Input(Box<Input>),
    Timeout,
    Wait(u64),
    WaitUntilDue,
}

fn any_side() -> impl Strategy<Value = Side> {
    prop::sample::select(vec![Side::Ours, Side::Theirs])
}

fn any_prefix() -> impl Strategy<Value = Prefix> {
    let texts = [
        "192.0.2.1",
        "192.0.2.2",
        "192.0.2.3",
        "198.51.100.1",
        "2001:db8::1",
        "2001:db8::2",
        "0.0.0.0/0",
    ];
    prop::sample::select(texts.to_vec()).prop_map(prefix)
}

fn any_offers() -> impl Strategy<Value = Input> {
    let offer = (any::<bool>(), 0..3_u8).prop_map(|(leaving, prepend)| Offer {
        leaving,
        prepend,
        ..Offer::default()
    });
    prop::collection::btree_map(any_prefix(), offer, 0..6)
        .prop_map(|all: Offers| Input::Offers(Arc::new(all)))
}

fn any_open() -> impl Strategy<Value = Open> {
    let hold = prop::sample::select(vec![0, 3, 9, 180]);
    let families = prop::sample::select(vec![0, 1, 2, 3_u8]);
    (
        prop::bool::weighted(0.1),
        prop::sample::select(vec![1, 5, 9]),
        hold,
        families,
    )
        .prop_map(|(stranger, name, hold, families)| {
            let mut capabilities = open().capabilities;
            capabilities.retain(|one| match one {
                Capability::Multiprotocol(afi, _) => families & u8::try_from(*afi).unwrap() != 0,
                _ => true,
            });
            Open {
                asn: if stranger { asn(1) } else { asn(65_014) },
                router_id: id(name),
                hold_time: HoldTime::from_secs(hold).unwrap(),
                capabilities,
            }
        })
}

fn any_heard() -> impl Strategy<Value = Result<Message, Refusal>> {
    let refresh = prop::sample::select(vec![Family::Ipv4, Family::Ipv6])
        .prop_map(|family| Message::RouteRefresh(RouteRefresh::of(family, Subtype::Request)));
    let update = prop::collection::vec(any_prefix(), 0..4).prop_map(|withdrawn| {
        Message::Update(Update {
            withdrawn,
            ..Update::default()
        })
    });
    let notification =
        (1..9_u8, 0..11_u8).prop_map(|(code, subcode)| Notification::new(code, subcode, vec![]));
    prop_oneof![
        8 => any_open().prop_map(|open| Ok(Message::Open(open))),
        12 => Just(Ok(Message::Keepalive)),
        3 => update.prop_map(Ok),
        3 => refresh.prop_map(Ok),
        1 => notification.clone().prop_map(|one| Ok(Message::Notification(one))),
        1 => notification.prop_map(|one| Err(Refusal::from(one))),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let flags = (
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.1),
        any::<bool>(),
        any::<bool>(),
    );
    (flags, prop::sample::select(vec![0, 3, 9]), 0..3_u64).prop_map(
        |((passive, down, listed, bounded), hold, graceful)| Config {
            passive,
            shutdown: down.then(|| Text::new("down")),
            hold_time: HoldTime::from_secs(hold).unwrap(),
            graceful: Duration::from_secs(graceful),
            max_prefixes: bounded.then_some(2),
            policy: Policy {
                export: listed.then(|| vec![prefix("192.0.2.0/24")]),
                ..Policy::NONE
            },
            ..config()
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    let liveness = prop::sample::select(vec![Liveness::Unknown, Liveness::Alive, Liveness::Lost]);
    let input = prop_oneof![
        6 => Just(Input::Connected(place())),
        2 => Just(Input::DialFailed(DialError::Refused)),
        4 => Just(Input::Accepted(place())),
        2 => any_side().prop_map(Input::Closed),
        20 => (any_side(), any_heard()).prop_map(|(side, heard)| Input::Heard(side, heard)),
        12 => (any_side(), prop::bool::weighted(0.8)).prop_map(|(side, all)| Input::Written(side, all)),
        4 => any_offers(),
        1 => liveness.prop_map(Input::Bfd),
        1 => any_config().prop_map(|config| Input::Config(Box::new(config))),
        1 => Just(Input::Command(Command::Reset)),
    ];
    prop_oneof![
        12 => input.prop_map(|input| Step::Input(Box::new(input))),
        1 => Just(Step::Timeout),
        2 => (0..4_000_u64).prop_map(Step::Wait),
        2 => Just(Step::WaitUntilDue),
    ]
}

/// A session, and what a neighbour and a shell know of it.
struct Life {
    session: Session,
    now: Instant,
    state: SessionState,
    dialing: bool,
    open: [bool; 2],
    /// What the neighbour was told on each connection.
    told: [BTreeSet<Prefix>; 2],
    ended: bool,
}

const fn index(side: Side) -> usize {
    match side {
        Side::Ours => 0,
        Side::Theirs => 1,
    }
}

impl Life {
    fn new(config: Config, seed: u64) -> Self {
        let offers = Arc::new(Offers::from([(prefix("192.0.2.1"), Offer::default())]));
        let mut life = Self {
            session: Session::new(at(0), config, offers, seed),
            now: at(0),
            state: SessionState::Idle,
            dialing: false,
            open: [false; 2],
            told: [BTreeSet::new(), BTreeSet::new()],
            ended: false,
        };
        life.drain();
        life
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Wait(millis) => self.now += Duration::from_millis(millis),
            Step::WaitUntilDue => {
                self.now = self
                    .now
                    .max(self.session.poll_timeout().unwrap_or(self.now))
            }
            Step::Timeout => {}
            Step::Input(input) => return self.input(*input),
        }
        let before = self.session.clone();
        let due = self
            .session
            .poll_timeout()
            .is_some_and(|due| due <= self.now);
        self.session.handle_timeout(self.now);
        if due {
            let next = self.session.poll_timeout();
            assert!(
                next.is_none_or(|next| next > self.now),
                "a deadline stays due"
            );
        } else {
            assert_eq!(self.session, before, "an early timeout did something");
        }
        self.drain();
    }

    fn input(&mut self, input: Input) {
        let before = self.session.clone();
        match self.session.handle_input(self.now, input.clone()) {
            Err(_) => assert_eq!(self.session, before, "a refusal changed the state"),
            Ok(()) => match input {
                Input::Connected(_) => self.connect(Side::Ours),
                Input::Accepted(_) => self.connect(Side::Theirs),
                Input::DialFailed(_) => assert!(std::mem::take(&mut self.dialing)),
                Input::Closed(side) => {
                    assert!(std::mem::take(&mut self.open[index(side)]));
                    self.told[index(side)].clear();
                }
                _ => {}
            },
        }
        self.drain();
    }

    fn connect(&mut self, side: Side) {
        if side == Side::Ours {
            assert!(std::mem::take(&mut self.dialing), "connected, not dialing");
        }
        assert!(
            !std::mem::replace(&mut self.open[index(side)], true),
            "two of a side"
        );
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            assert!(!self.ended, "{output:?} after the end");
            match output {
                Output::Dial => assert!(!std::mem::replace(&mut self.dialing, true), "dials twice"),
                Output::HangUp => assert!(std::mem::take(&mut self.dialing), "nobody is called"),
                Output::Send(side, bytes) => self.sent(side, &bytes),
                Output::Close(side) => {
                    assert!(std::mem::take(&mut self.open[index(side)]), "closed twice");
                    self.told[index(side)].clear();
                }
                Output::Event(event) => {
                    assert_eq!(event.from, self.state, "an event is missing");
                    assert_ne!(event.from, event.to, "an event of nothing");
                    self.state = event.to;
                }
                Output::Ended => self.ended = true,
            }
        }
        assert_eq!(self.state, self.session.state());
        let connected = self.open.iter().any(|open| *open);
        assert_eq!(
            connected,
            self.state >= SessionState::OpenSent,
            "{:?} {:?}",
            self.open,
            self.state
        );
        let view = self.session.view();
        let told: BTreeSet<Prefix> = view.told.keys().copied().collect();
        if self.state == SessionState::Established {
            assert!(self.told.contains(&told), "{:?} is not {told:?}", self.told);
        } else {
            assert!(told.is_empty());
        }
        if let Some(list) = &self.session.config().policy.export {
            let holds = |prefix: &Prefix| list.iter().any(|outer| outer.contains(prefix));
            // Before it takes what is under way it cannot be told.
            let waits = told.iter().all(holds);
            assert!(waits || self.state == SessionState::Established);
        }
    }

    fn sent(&mut self, side: Side, bytes: &[u8]) {
        assert!(self.open[index(side)], "sends without a connection");
        let context = Context {
            internal: false,
            four_octet: true,
            extended_next_hop: false,
        };
        let mut rest = bytes;
        while let Some((frame, after)) = Frame::split(rest).unwrap() {
            rest = after;
            let Message::Update(update) = Message::parse(&frame, &context).unwrap() else {
                continue;
            };
            assert_eq!(update.faults, []);
            for prefix in &update.withdrawn {
                assert!(
                    self.told[index(side)].remove(prefix),
                    "takes back what was not said"
                );
            }
            self.told[index(side)].extend(update.announced.iter().map(|route| route.prefix));
        }
        assert!(rest.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_laws_hold(config in any_config(), seed in any::<u64>(), steps in prop::collection::vec(any_step(), 1..120)) {
        let mut life = Life::new(config, seed);
        for step in steps {
            life.step(step);
        }
        // Whatever happened, it can leave, and then there is nothing more.
        life.input(Input::Command(Command::Leave(Farewell::Deconfigured)));
        for _ in 0..100 {
            if life.session.poll_timeout().is_none() {
                break;
            }
            life.step(Step::WaitUntilDue);
        }
        prop_assert!(life.ended);
        prop_assert_eq!(life.open, [false, false]);
        prop_assert!(!life.dialing);
        prop_assert!(life.session.handle_input(life.now, Input::Connected(place())).is_err());
    }
}
