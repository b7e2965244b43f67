//! A life of a BFD session: any packets at any times.

use std::time::Duration;

use kedge_core::{
    Instant, Machine,
    bfd::{Liveness, SessionState},
};
use kedge_vip_proto::{
    bfd::{Command, Config, Input, Output, Received, Session},
    wire::bfd::{Control, Discriminator, Interval},
};

/// Reads a configuration, and then 26 bytes for each thing that happens: a TTL (0: new timers), how
/// long after the last, and a packet.
pub fn session(bytes: &[u8]) {
    let Some((&[flags, timers], rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let mut life = Life::new(flags, timers);
    for word in rest.chunks_exact(26).take(200) {
        life.happens(word[0], word[1], &word[2..]);
    }
    life.leaves();
}

struct Life {
    session: Session,
    now: Instant,
    /// Whether it was up since it was last excused.
    alive: bool,
}

impl Life {
    fn new(flags: u8, timers: u8) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let config = Config {
            passive: flags & 1 != 0,
            shutdown: flags & 2 != 0,
            ..configured(timers)
        };
        Self {
            session: Session::new(now, config, OURS, u64::from(flags)),
            now,
            alive: false,
        }
    }

    fn happens(&mut self, ttl: u8, wait: u8, bytes: &[u8]) {
        let until = self.now + Duration::from_millis(u64::from(wait) * 8);
        self.pass(until);
        let before = self.session.view();
        let input = match (ttl, Control::parse(bytes)) {
            (0, _) => Input::Config(configured(wait)),
            (_, Err(_)) => return,
            (_, Ok(packet)) => {
                let mut control = packet.control;
                // Made likely: a packet of this session.
                control.your = control
                    .your
                    .map(|your| if your.get() & 7 != 0 { OURS } else { your });
                Input::Packet(Received {
                    ttl: ttl | 0xf0,
                    sealed: packet.auth.is_some(),
                    control,
                })
            }
        };
        if self.session.handle_input(self.now, input).is_err() {
            assert_eq!(self.session.view(), before, "a refused input changed it");
        }
        self.drain();
    }

    fn pass(&mut self, until: Instant) {
        let mut count = 0;
        while let Some(due) = self.session.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.session.handle_timeout(self.now);
            self.drain();
            let next = self.session.poll_timeout();
            assert!(
                next.is_none_or(|next| next > self.now),
                "a deadline stays due"
            );
            count += 1;
            assert!(count < 2_000, "it is busy with nothing");
        }
        self.now = until;
    }

    fn leaves(&mut self) {
        let _ = self
            .session
            .handle_input(self.now, Input::Command(Command::Stop));
        self.drain();
        let long = self.now + Duration::from_secs(2 * 4_295 * 255);
        let mut count = 0;
        while let Some(due) = self.session.poll_timeout() {
            self.now = self.now.max(due);
            assert!(self.now <= long, "it never leaves");
            self.session.handle_timeout(self.now);
            self.drain();
            count += 1;
            assert!(count < 100_000, "it never leaves");
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(control) => {
                    assert!(!(control.poll && control.fin));
                    let is_up = control.state == SessionState::Up;
                    assert!(is_up || control.desired_min_tx >= Interval::SLOW);
                }
                Output::Event(event) => {
                    let lost = event.liveness == Liveness::Lost;
                    assert!(self.alive || !lost, "lost without having been up");
                    self.alive = event.liveness != Liveness::Unknown;
                }
                Output::Ended => assert_eq!(self.session.poll_timeout(), None),
            }
        }
    }
}

fn configured(timers: u8) -> Config {
    let choice = |two: u8| {
        Interval::from_micros([10_000, 100_000, 300_000, 2_000_000][usize::from(two & 3)])
    };
    Config {
        desired_min_tx: choice(timers),
        required_min_rx: choice(timers >> 2),
        ..Config::DEFAULT
    }
}

const OURS: Discriminator = Discriminator::new(0x11).unwrap();
