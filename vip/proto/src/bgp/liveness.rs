//! What BFD says of the path, and whether a session may come about over it.

use kedge_core::{Instant, bfd::Liveness};

use super::{Because, Session, caller::Caller};
use crate::wire::bgp::{Notification, cease};

impl Session {
    /// Whether no connection is to come about, by what BFD says of the path (RFC 5882 section 4.1). Who was
    /// lost is waited for; who never had BFD only where that was asked for.
    pub(super) fn is_held(&self) -> bool {
        match self.bfd {
            Liveness::Lost => true,
            Liveness::Unknown => self.config.strict_bfd,
            Liveness::Alive => false,
        }
    }

    /// Takes what BFD says of the path.
    pub(super) fn follow(&mut self, now: Instant, liveness: Liveness) {
        let before = std::mem::replace(&mut self.bfd, liveness);
        if liveness == Liveness::Lost && before != Liveness::Lost {
            let notification = Notification::cease(cease::BFD_DOWN);
            self.end_all(now, &notification, &Because::BfdDown);
        }
        self.heed_path(now);
    }

    /// Begins or rests, as what BFD says allows it. A connection is not touched.
    pub(super) fn heed_path(&mut self, now: Instant) {
        let is_idle = self.ours.is_none() && self.theirs.is_none() && self.leaving.is_none();
        if !is_idle || self.config.shutdown.is_some() {
            return;
        }
        let (rests, held) = (self.caller == Caller::Idle(None), self.is_held());
        if rests && !held {
            self.start(now);
            self.go(now, Because::BfdUp);
        } else if held && !rests {
            self.start(now);
            let because = match self.bfd {
                Liveness::Lost => Because::BfdDown,
                Liveness::Unknown | Liveness::Alive => Because::BfdAwaited,
            };
            self.because = because.clone();
            self.go(now, because);
        }
    }
}
