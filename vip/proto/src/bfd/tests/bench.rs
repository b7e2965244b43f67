//! A session on a clock of its own, and its outputs in words.

use std::time::Duration;

use kedge_core::{Instant, Machine, bfd::SessionState};

use crate::{
    bfd::{Command, Config, Input, Output, Received, Reject, Session},
    wire::bfd::{Control, Diagnostic, Discriminator, Interval, Multiplier, TTL},
};

/// Far from the clock's zero, so that nothing rests on it.
const EPOCH: Instant = Instant::from_nanos(3_600_000_000_000);

pub(super) fn ours() -> Discriminator {
    Discriminator::new(0x11).unwrap()
}

pub(super) fn theirs() -> Discriminator {
    Discriminator::new(0x22).unwrap()
}

pub(super) const fn ms(millis: u32) -> Interval {
    Interval::from_micros(millis * 1_000)
}

/// What a peer with 300 ms both ways and three packets says.
pub(super) fn says(state: SessionState) -> Control {
    let up = state == SessionState::Up;
    Control {
        diagnostic: Diagnostic::NONE,
        state,
        poll: false,
        fin: false,
        independent: false,
        demand: false,
        multiplier: Multiplier::DEFAULT,
        my: theirs(),
        your: Some(ours()),
        desired_min_tx: if up { ms(300) } else { Interval::SLOW },
        required_min_rx: ms(300),
        required_min_echo_rx: Interval::ZERO,
    }
}

pub(super) fn packet(control: Control) -> Input {
    Input::Packet(Received {
        ttl: TTL,
        sealed: false,
        control,
    })
}

#[derive(Clone)]
pub(super) struct Bench {
    pub(super) session: Session,
}

impl Bench {
    /// A session that begins at 0 ms, its outputs taken.
    pub(super) fn new(config: Config) -> Self {
        Self {
            session: Session::new(EPOCH, config, ours(), SEED),
        }
    }

    /// The same, up since 0 ms, with the timers of both agreed upon.
    pub(super) fn up(config: Config) -> Self {
        let mut bench = Self::new(config);
        bench.timeout(0);
        bench.input(0, packet(says(SessionState::Down)));
        bench.input(0, packet(says(SessionState::Init)));
        let answer = Control {
            fin: true,
            ..says(SessionState::Up)
        };
        bench.input(0, packet(answer));
        bench
    }

    pub(super) fn try_input(&mut self, millis: u64, input: Input) -> Result<Vec<String>, Reject> {
        self.session.handle_input(at(millis), input)?;
        Ok(self.words())
    }

    pub(super) fn input(&mut self, millis: u64, input: Input) -> Vec<String> {
        self.try_input(millis, input).unwrap()
    }

    pub(super) fn hear(&mut self, millis: u64, state: SessionState) -> Vec<String> {
        self.input(millis, packet(says(state)))
    }

    pub(super) fn configure(&mut self, millis: u64, config: Config) -> Vec<String> {
        self.input(millis, Input::Config(config))
    }

    pub(super) fn stop(&mut self, millis: u64) -> Vec<String> {
        self.input(millis, Input::Command(Command::Stop))
    }

    pub(super) fn timeout(&mut self, millis: u64) -> Vec<String> {
        self.timeout_at(at(millis))
    }

    pub(super) fn timeout_at(&mut self, now: Instant) -> Vec<String> {
        self.session.handle_timeout(now);
        self.words()
    }

    /// Acts on the next deadline; when that was, in milliseconds.
    pub(super) fn due(&mut self) -> (f64, Vec<String>) {
        let due = self.session.poll_timeout().unwrap();
        (since(due), self.timeout_at(due))
    }

    /// The next deadline in milliseconds.
    pub(super) fn deadline(&self) -> Option<f64> {
        self.session.poll_timeout().map(since)
    }

    /// From when on there is something to do, in milliseconds.
    pub(super) fn ready(&self) -> Option<f64> {
        self.session.ready_at().map(since)
    }

    /// Acts at a moment, in milliseconds.
    pub(super) fn wake(&mut self, millis: f64) -> Vec<String> {
        self.timeout_at(EPOCH + Duration::from_secs_f64(millis / 1e3))
    }

    fn words(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.session.poll_output())
            .map(|output| word(&output))
            .collect()
    }
}

pub(super) fn at(millis: u64) -> Instant {
    EPOCH + Duration::from_millis(millis)
}

fn since(instant: Instant) -> f64 {
    instant.since(EPOCH).as_secs_f64() * 1e3
}

fn word(output: &Output) -> String {
    match output {
        Output::Ended => "ended".to_owned(),
        Output::Event(event) => format!(
            "{} -> {}, {}: {}",
            event.from, event.to, event.liveness, event.because
        ),
        Output::Send(control) => {
            let mark = |set: bool, mark: &'static str| if set { mark } else { "" };
            let millis = |interval: Interval| interval.duration().as_millis();
            format!(
                "send {}{}{} your {} tx {} rx {} x{} diag {}",
                control.state,
                mark(control.poll, " P"),
                mark(control.fin, " F"),
                control.your.map_or(0, Discriminator::get),
                millis(control.desired_min_tx),
                millis(control.required_min_rx),
                control.multiplier.get(),
                control.diagnostic.get(),
            )
        }
    }
}

const SEED: u64 = 7;
