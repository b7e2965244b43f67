//! The codec and the machine of BFD without a kernel: what a packet costs before anything is sent.

use std::{hint::black_box, time::Instant as Watch};

use kedge_core::{Instant, Machine as _, bfd::SessionState};
use kedge_vip_proto::{
    bfd::{Config, Input, Output, Received, Session},
    wire::bfd::{Control, Diagnostic, Discriminator, Interval, TTL},
};

use super::super::Samples;

/// Microseconds for a packet that is heard, a sample for so many of them, and for one that is heard with one that
/// is sent.
pub(super) fn measure() -> [Samples; 2] {
    let mut both = <[Samples; 2]>::default();
    let Some(mut bench) = Bench::up() else {
        return both;
    };
    for sample in 0..=SAMPLES {
        let mut took = [0.0; 2];
        let begun = Watch::now();
        for _ in 0..PACKETS {
            bench.hear();
        }
        took[0] = begun.elapsed().as_secs_f64();
        let begun = Watch::now();
        for _ in 0..PACKETS {
            bench.send();
        }
        took[1] = begun.elapsed().as_secs_f64();
        // The first time fetches what the others have.
        if sample > 0 {
            for (samples, took) in both.iter_mut().zip(took) {
                samples.push(took / f64::from(PACKETS) * 1e6);
            }
        }
    }
    both
}

struct Bench {
    session: Session,
    now: Instant,
    heard: [u8; 24],
}

impl Bench {
    /// A session that is up, and what its peer says from then on.
    fn up() -> Option<Self> {
        let (ours, theirs) = (Discriminator::new(1)?, Discriminator::new(2)?);
        let config = Config {
            desired_min_tx: INTERVAL,
            required_min_rx: INTERVAL,
            ..Config::DEFAULT
        };
        let says = |state, fin| Control {
            diagnostic: Diagnostic::NONE,
            state,
            poll: false,
            fin,
            independent: false,
            demand: false,
            multiplier: Config::DEFAULT.multiplier,
            my: theirs,
            your: Some(ours),
            desired_min_tx: INTERVAL,
            required_min_rx: INTERVAL,
            required_min_echo_rx: Interval::ZERO,
        };
        let now = Instant::from_nanos(1_000_000_000);
        let mut bench = Self {
            session: Session::new(now, config, ours, 7),
            now,
            heard: says(SessionState::Up, false).emit(),
        };
        for control in [
            says(SessionState::Down, false),
            says(SessionState::Init, false),
            says(SessionState::Up, true),
        ] {
            bench.take(&control.emit());
        }
        (bench.session.state() == SessionState::Up).then_some(bench)
    }

    fn hear(&mut self) {
        let bytes = black_box(self.heard);
        self.take(&bytes);
    }

    fn take(&mut self, bytes: &[u8]) {
        if let Ok(packet) = Control::parse(bytes) {
            let received = Received {
                ttl: TTL,
                sealed: packet.auth.is_some(),
                control: packet.control,
            };
            // It is one that the session takes.
            let _ = self.session.handle_input(self.now, Input::Packet(received));
        }
        self.drain();
    }

    /// The next packet that is due, and one that is heard at that moment so that nothing is missing.
    fn send(&mut self) {
        self.hear();
        if let Some(due) = self.session.poll_timeout() {
            self.now = due;
            self.session.handle_timeout(due);
        }
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            if let Output::Send(control) = output {
                black_box(control.emit());
            }
        }
    }
}

/// As the sessions of the bench have it.
const INTERVAL: Interval = Interval::from_micros(50_000);
const SAMPLES: u32 = 20;
const PACKETS: u32 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_taken_and_every_one_that_is_due_is_sent() {
        let mut bench = Bench::up().unwrap();
        let before = bench.session.view().stats;
        for _ in 0..10 {
            bench.send();
        }
        let stats = bench.session.view().stats;
        assert_eq!(stats.received - before.received, 10);
        assert_eq!(stats.sent - before.sent, 10);
        assert_eq!(stats.losses, 0);
        assert_eq!(bench.session.state(), SessionState::Up);
    }
}
