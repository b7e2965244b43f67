//! The laws of a machine, for arbitrary inputs at arbitrary times.

use std::time::Duration;

use kedge_core::{
    Instant, Machine,
    bfd::{Liveness, SessionState},
};
use proptest::prelude::*;

use super::bench::{ms, ours, says};
use crate::{
    bfd::{Command, Config, Input, MinTtl, Output, Received, Session},
    wire::bfd::{Control, Discriminator, Interval, Multiplier},
};

#[derive(Clone, Debug)]
enum Step {
    Input(Input),
    Timeout,
    Wait(u64),
    WaitUntilDue,
}

fn any_state() -> impl Strategy<Value = SessionState> {
    use SessionState::{AdminDown, Down, Init, Up};
    prop::sample::select(vec![AdminDown, Down, Init, Up, Up])
}

fn any_interval() -> impl Strategy<Value = Interval> {
    prop_oneof![
        Just(ms(300)),
        Just(ms(10)),
        (1..5_000_000_u32).prop_map(Interval::from_micros)
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let flags = (any::<bool>(), prop::bool::weighted(0.1));
    (any_interval(), any_interval(), 1..6_u8, flags).prop_map(
        |(desired_min_tx, required_min_rx, multiplier, (passive, shutdown))| Config {
            desired_min_tx,
            required_min_rx,
            multiplier: Multiplier::new(multiplier).unwrap(),
            passive,
            shutdown,
            min_ttl: MinTtl::NEIGHBOR,
        },
    )
}

fn any_packet() -> impl Strategy<Value = Input> {
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.1));
    let your =
        prop_oneof![8 => Just(Some(ours())), 2 => Just(None), 1 => Just(Discriminator::new(5))];
    let intervals = (
        any_interval(),
        prop_oneof![9 => any_interval(), 1 => Just(Interval::ZERO)],
    );
    let header = (
        prop::sample::select(vec![255, 255, 255, 254]),
        prop::bool::weighted(0.05),
    );
    (any_state(), flags, your, intervals, header, 1..5_u8).prop_map(
        |(state, (poll, fin, demand), your, (tx, rx), (ttl, sealed), multiplier)| {
            Input::Packet(Received {
                ttl,
                sealed,
                control: Control {
                    poll,
                    fin,
                    demand,
                    your,
                    desired_min_tx: tx,
                    required_min_rx: rx,
                    multiplier: Multiplier::new(multiplier).unwrap(),
                    ..says(state)
                },
            })
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_packet().prop_map(Step::Input),
        1 => any_config().prop_map(|config| Step::Input(Input::Config(config))),
        1 => Just(Step::Timeout),
        3 => (0..2_000_u64).prop_map(Step::Wait),
        4 => Just(Step::WaitUntilDue),
    ]
}

struct Life {
    session: Session,
    now: Instant,
    sent: Option<Instant>,
    told: (SessionState, Liveness),
}

impl Life {
    fn new(config: Config, seed: u64) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let session = Session::new(now, config, ours(), seed);
        let told = (session.state(), session.liveness());
        Self {
            session,
            now,
            sent: None,
            told,
        }
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
            Step::Input(input) => {
                let before = self.session.clone();
                if self.session.handle_input(self.now, input).is_err() {
                    assert_eq!(self.session, before, "a refusal changed the state");
                }
                return self.drain();
            }
        }
        let before = self.session.clone();
        let ready = self
            .session
            .ready_at()
            .is_some_and(|ready| ready <= self.now);
        self.session.handle_timeout(self.now);
        if ready {
            let next = self.session.ready_at();
            assert!(
                next.is_none_or(|next| next > self.now),
                "what was done is to be done still"
            );
        } else {
            assert_eq!(self.session, before, "an early timeout did something");
        }
        self.drain();
    }

    /// There is something to do no later than there must be.
    fn is_ready_in_time(&self) {
        let (ready, due) = (self.session.ready_at(), self.session.poll_timeout());
        assert!(
            ready <= due && ready.is_some() == due.is_some(),
            "{ready:?} {due:?}"
        );
    }

    fn drain(&mut self) {
        self.is_ready_in_time();
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(control) => {
                    assert!(!(control.poll && control.fin), "asks and answers at once");
                    assert!(!control.demand && control.required_min_echo_rx.is_zero());
                    assert_eq!(control.state, self.session.state());
                    let slow = control.desired_min_tx >= Interval::SLOW;
                    assert!(
                        slow || control.state == SessionState::Up,
                        "quick while not up"
                    );
                    self.sent = Some(self.now);
                }
                Output::Event(event) => {
                    assert_eq!(event.from, self.told.0, "an event is missing");
                    assert_ne!((event.to, event.liveness), self.told, "an event of nothing");
                    let was_alive = self.told.1 != Liveness::Unknown;
                    assert!(
                        event.liveness != Liveness::Lost || was_alive,
                        "lost, never alive"
                    );
                    self.told = (event.to, event.liveness);
                }
                Output::Ended => {}
            }
        }
        assert_eq!(self.told, (self.session.state(), self.session.liveness()));
        let up = self.session.state() == SessionState::Up;
        assert_eq!(up, self.session.liveness() == Liveness::Alive);
        if let Some(heard) = self.session.view().remote.heard_at {
            assert!(heard <= self.now);
        } else {
            assert!(!up, "up without a peer");
        }
    }
}

proptest! {
    #[test]
    fn the_laws_hold(config in any_config(), seed in any::<u64>(), steps in prop::collection::vec(any_step(), 1..80)) {
        let mut life = Life::new(config, seed);
        for step in steps {
            life.step(step);
        }
        // Whatever happened, it can leave, and then there is nothing more.
        life.step(Step::Input(Input::Command(Command::Stop)));
        for _ in 0..2_000 {
            if life.session.poll_timeout().is_none() {
                break;
            }
            life.step(Step::WaitUntilDue);
        }
        prop_assert_eq!(life.session.poll_timeout(), None);
        prop_assert!(life.session.handle_input(life.now, Input::Config(config)).is_err());
    }
}
