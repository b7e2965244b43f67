//! Initiations: who is admitted, and what becomes of whoever is.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use kedge_core::Instant;

use super::{Outcome, Shard, slot};
use crate::{
    admission::{Sender, Verdict, Waiting},
    directory::PeerId,
    drops::DropReason,
    guard::Guard,
    noise::Caller,
    peer::Ends,
    way::Way,
    wire::Kind,
};

impl Shard {
    /// Carries out the handshake whose turn it is; `None` when nobody waits for one. Each costs as
    /// much as a hundred packets: whoever calls this lets packets pass in between, and tells
    /// [`handshake_took`](Self::handshake_took) what it cost.
    pub fn poll_handshake(&mut self, now: Instant, dst: &mut [u8]) -> Option<Outcome> {
        let waiting = self.admission.next(now)?;
        let caller = match self.door.initiator(&waiting.initiation) {
            Ok(caller) => caller,
            Err(reason) => return Some(self.refused(now, &waiting, (reason, None))),
        };
        let Some((waiting, caller)) = self.hand_on(waiting, caller) else {
            return Some(Outcome::Nothing);
        };
        let outcome = self.answer(now, &waiting, caller, dst);
        Some(outcome.unwrap_or_else(|refusal| self.refused(now, &waiting, refusal)))
    }

    fn refused(&mut self, now: Instant, waiting: &Waiting, (reason, id): Refusal) -> Outcome {
        self.admission.failed(now, waiting);
        self.count(id, reason, 1);
        Outcome::Nothing
    }

    /// Carries out a handshake with a peer of this shard.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        waiting: &Waiting,
        caller: Caller,
        dst: &mut [u8],
    ) -> Result<Outcome, Refusal> {
        let id = *self
            .by_key
            .get(&caller.key)
            .ok_or((DropReason::UnknownPeer, None))?;
        self.pace(now, id).map_err(|reason| (reason, Some(id)))?;
        let pair = Ends {
            local: caller.local,
            remote: caller.key,
        };
        let kind = (Kind::Initiation, Some(caller));
        let outcome = self.receive_from(now, id, waiting.from, kind, &waiting.initiation, dst);
        if let Err((DropReason::StaleHandshake, _)) = outcome {
            self.was_stale(now, (id, pair), &waiting.initiation);
        }
        let outcome = outcome?;
        self.called(now, id);
        Ok(outcome)
    }

    /// Whether [`poll_handshake`](Self::poll_handshake) has something to do.
    #[must_use]
    pub fn has_handshakes(&self) -> bool {
        !self.admission.is_empty()
    }

    /// How long the last handshake has kept the processor: what decides when strangers have to
    /// prove where they are.
    pub fn handshake_took(&mut self, time: Duration) {
        self.admission.took(time);
    }

    /// Whether initiations of strangers are answered with a cookie, since handshakes would take
    /// more than half of a processor.
    pub fn is_under_load(&mut self, now: Instant) -> bool {
        let is = self.admission.demands_cookies(now);
        self.guard.set_under_load(is);
        is
    }

    /// Has others see how its door stands: those of the shard that initiations come to.
    pub fn show(&mut self, guard: Arc<Guard>) {
        self.guard = guard;
    }

    /// Whether a peer may have another session already.
    fn pace(&mut self, now: Instant, id: PeerId) -> Result<(), DropReason> {
        let called_at = slot(&mut self.peers, id).and_then(|slot| slot.called_at);
        if called_at.is_some_and(|at| now.since(at) < PACE) {
            return Err(DropReason::RateLimited);
        }
        Ok(())
    }

    /// Notes that a peer was given a session: a replayed initiation of its does not count.
    fn called(&mut self, now: Instant, id: PeerId) {
        if let Some(slot) = slot(&mut self.peers, id) {
            slot.called_at = Some(now);
            slot.peer.was_fresh();
        }
    }

    /// Puts an initiation into the queue, or asks its sender for a proof.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        from: Way,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<Outcome, DropReason> {
        let initiation = datagram.try_into().map_err(|_| DropReason::Malformed)?;
        self.door.check(datagram)?;
        let there = from.there;
        let sender = Sender {
            from,
            known: self.homes.contains_key(&there),
            proven: self.door.proves(now, there, datagram),
        };
        if sender.proven {
            self.guard.proven();
        }
        match self.admission.admit(now, sender, initiation)? {
            Verdict::Queued => Ok(Outcome::Nothing),
            Verdict::Cookie => {
                let length = self.door.cookie(now, there, datagram, dst)?;
                self.guard.sent();
                Ok(Outcome::Cookie { to: from, length })
            }
        }
    }

    /// Keeps account of where peers are, when one moves from an address to another.
    pub(super) fn moved(&mut self, from: Option<SocketAddr>, to: Option<SocketAddr>) {
        self.learned |= from != to;
        if self.number == 0 {
            self.keep_homes(from, to);
        } else if from != to {
            // Initiations come to the first worker alone.
            self.crew.moves.push((from, to));
        }
    }

    pub(super) fn keep_homes(&mut self, from: Option<SocketAddr>, to: Option<SocketAddr>) {
        if let Some(to) = to {
            *self.homes.entry(to).or_default() += 1;
        }
        let Some(from) = from else { return };
        if let Some(peers) = self.homes.get_mut(&from) {
            *peers -= 1;
            if *peers == 0 {
                self.homes.remove(&from);
            }
        }
    }
}

/// Why there is no handshake, and with whom.
type Refusal = (DropReason, Option<PeerId>);

/// How far apart the handshakes of one peer are at least.
const PACE: Duration = Duration::from_millis(20);
