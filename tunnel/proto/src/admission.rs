//! Which initiations are worth a handshake, and in what order.
//!
//! A handshake costs a hundred times what it costs to ask for one. So nobody is served because they
//! ask often: peers come first that were last heard from where the initiation came from (a gateway
//! that restarts hears from thousands at once, many behind one address), then whoever proved with a
//! cookie where they are, then strangers, and last those of whom something has failed before.
//!
//! ```text
//!               nothing has failed      something has      too much has
//!  known peer   Known                   as a stranger      cookie
//!  proven       Proven                  Doubtful           dropped
//!  stranger     Stranger, or a cookie   Doubtful, or a     dropped; a cookie, when others
//!               when load is high       cookie             behind that address failed
//! ```
//!
//! Only what fails is held against a source, and what somebody does in its name is not held against
//! a source that proves where it is (docs/adr/0029).

mod failures;
mod lanes;
mod load;

use std::time::Duration;

use kedge_core::Instant;

use self::{
    failures::{Failures, Record},
    lanes::Lanes,
    load::Load,
};
use crate::{drops::DropReason, way::Way, wire};

pub(crate) use self::lanes::{Lane, Waiting};

/// An initiation as it came.
pub(crate) type Initiation = [u8; wire::INITIATION];

/// What is known of a sender before anything is decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) from: Way,
    /// A peer was last heard from there.
    pub(crate) known: bool,
    /// mac2 proves that what is sent there arrives.
    pub(crate) proven: bool,
}

/// What to do with an initiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It waits for [`Admission::next`].
    Queued,
    /// Its sender has to prove where it is first.
    Cookie,
}

/// The queues in front of the handshakes of one device.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    lanes: Lanes,
    failures: Failures,
    load: Load,
}

impl Admission {
    /// Decides about an initiation whose mac1 is right.
    ///
    /// # Errors
    ///
    /// Too much of what came from there has failed, or its lane is full.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        sender: Sender,
        initiation: &Initiation,
    ) -> Result<Verdict, DropReason> {
        self.load.asked(now);
        if !sender.known {
            self.load.queued(now, self.lanes.len());
        }
        let record = self.failures.of(now, sender.from.there, sender.proven);
        let lane = match (sender, record) {
            (Sender { known: true, .. }, Record::Clean | Record::Neighbors) => Lane::Known,
            (Sender { proven: true, .. }, Record::Clean) => Lane::Proven,
            (Sender { proven: true, .. }, Record::Some) => Lane::Doubtful,
            (Sender { proven: true, .. }, Record::Neighbors | Record::TooMany) => {
                return Err(DropReason::RateLimited);
            }
            (Sender { known: false, .. }, Record::TooMany) => return Err(DropReason::RateLimited),
            (_, Record::Neighbors | Record::TooMany) => return Ok(Verdict::Cookie),
            (_, Record::Clean | Record::Some) if self.load.is_high(now) => {
                return Ok(Verdict::Cookie);
            }
            (_, Record::Clean) => Lane::Stranger,
            (_, Record::Some) => Lane::Doubtful,
        };
        let waiting = Waiting::new(now, sender.from, sender.proven, initiation);
        match self.lanes.push(lane, waiting) {
            Ok(()) => Ok(Verdict::Queued),
            // Who hears nothing asks again after five seconds; with a cookie it does so at once.
            Err(_) if !sender.known && !sender.proven => Ok(Verdict::Cookie),
            Err(reason) => Err(reason),
        }
    }

    /// The initiation whose turn it is.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Waiting> {
        let (lane, waiting) = self.lanes.pop(now)?;
        if lane != Lane::Known {
            // Peers that come back all at once wait for each other: that is no attack.
            self.load.waited(now, now.since(waiting.since));
        }
        Some(waiting)
    }

    /// Notes that the handshake it asked for came to nothing.
    pub(crate) fn failed(&mut self, now: Instant, waiting: &Waiting) {
        self.failures
            .charge(now, waiting.from.there, waiting.proven);
    }

    /// Notes how long the last handshake has kept the processor.
    pub(crate) fn took(&mut self, time: Duration) {
        self.load.took(time);
    }

    /// Whether strangers have to prove where they are.
    pub(crate) fn demands_cookies(&mut self, now: Instant) -> bool {
        self.load.is_high(now)
    }

    /// Whether [`next`](Self::next) has something.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }
}

#[cfg(test)]
mod tests;
