//! Leaving a neighbour for good: it is told that routes go away, then that they are gone, then why.

use std::collections::BTreeMap;

use kedge_core::Instant;

use super::{Because, Farewell, Output, Reject, Session, Side, caller::Caller, link::Link};
use crate::wire::bgp::{Notification, cease};

/// The session is about to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    pub farewell: Farewell,
    /// When routes are taken back.
    pub until: Instant,
}

impl Farewell {
    fn notification(&self) -> Notification {
        match self {
            Self::Shutdown(text) => Notification::shutdown(text),
            Self::Deconfigured => Notification::cease(cease::DECONFIGURED),
        }
    }
}

impl Session {
    pub(super) fn leave(&mut self, now: Instant, farewell: Farewell) -> Result<(), Reject> {
        if self.leaving.is_some() {
            return Err(Reject::Ended);
        }
        let knows = |link: &Option<Link>| {
            let peered = link.as_ref().and_then(Link::peered);
            peered.is_some_and(|peered| !peered.rib.routes().is_empty())
        };
        let is_known = knows(&self.ours) || knows(&self.theirs);
        let pause = if is_known {
            self.config.graceful
        } else {
            std::time::Duration::ZERO
        };
        self.hang_up();
        self.caller = Caller::Idle(None);
        let until = now + pause;
        self.leaving = Some(Leaving { farewell, until });
        if pause.is_zero() {
            self.finish(now);
        } else {
            self.tell(now);
        }
        Ok(())
    }

    /// Takes every route back, says why, and ends.
    pub(super) fn finish(&mut self, now: Instant) {
        let Some(leaving) = &self.leaving else { return };
        let notification = leaving.farewell.notification();
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        for side in Side::ALL {
            let Some(link) = self.link_mut(side) else {
                continue;
            };
            if let Some(peered) = link.established() {
                let four_octet = peered.agreed.context.four_octet;
                let gone = peered.rib.change(BTreeMap::new(), four_octet);
                if !gone.is_empty() {
                    self.send(now, side, gone.bytes, gone.count);
                }
            }
        }
        self.end_all(now, &notification, &Because::Left);
        self.caller = Caller::Idle(None);
        self.leaving = None;
        self.go(now, Because::Left);
        self.outputs.push_back(Output::Ended);
    }
}
