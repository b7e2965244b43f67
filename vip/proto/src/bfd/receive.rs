//! Taking packets: RFC 5880 section 6.8.6 from where the session is known.

use kedge_core::{Instant, bfd::SessionState};

use super::{Because, Received, Reject, Remote, Session};
use crate::wire::bfd::Control;

impl Session {
    pub(super) fn receive(&mut self, now: Instant, received: &Received) -> Result<(), Reject> {
        let control = &received.control;
        self.admit(received)?;
        self.stats.received = self.stats.received.saturating_add(1);
        self.remote = Remote {
            discriminator: Some(control.my),
            state: control.state,
            diagnostic: control.diagnostic,
            demand: control.demand,
            multiplier: control.multiplier,
            desired_min_tx: control.desired_min_tx,
            required_min_rx: control.required_min_rx,
            heard_at: Some(now),
        };
        if control.fin {
            self.answered(now);
        }
        self.schedule(now);
        self.watch();
        let before = self.state;
        self.follow(now, control);
        if control.poll {
            self.answer();
        } else if self.state != before {
            self.send(now);
        }
        let was_told = matches!(control.state, SessionState::Down | SessionState::AdminDown);
        if self.leaves_at.is_some() && was_told {
            self.end();
        }
        Ok(())
    }

    fn admit(&self, received: &Received) -> Result<(), Reject> {
        let control = &received.control;
        if !self.config.min_ttl.accepts(received.ttl) {
            return Err(Reject::Ttl);
        }
        match control.your {
            Some(your) if your != self.local => return Err(Reject::Discriminator),
            None if matches!(control.state, SessionState::Init | SessionState::Up) => {
                return Err(Reject::Nameless);
            }
            Some(_) | None => {}
        }
        if received.sealed {
            return Err(Reject::Sealed);
        }
        Ok(())
    }

    /// The state machine of RFC 5880 section 6.2.
    fn follow(&mut self, now: Instant, control: &Control) {
        use SessionState::{AdminDown, Down, Init, Up};

        match (self.state, control.state) {
            (Down, AdminDown) => self.excuse(),
            (Init | Up, AdminDown) => self.go(now, Down, Because::PeerAdminDown),
            (Down, Down) => self.go(now, Init, Because::PeerHeard),
            (Down, Init) | (Init, Init | Up) => self.go(now, Up, Because::BothHear),
            (Up, Down) => {
                let diagnostic = control.diagnostic;
                self.go(now, Down, Because::PeerDown { diagnostic });
            }
            (AdminDown, _) | (Down, Up) | (Init, Down) | (Up, Init | Up) => {}
        }
    }
}
