//! Initiations: who is admitted, and what becomes of whoever is.

use std::{net::SocketAddr, time::Duration};

use kedge_core::Instant;

use super::{Outcome, Shard, slot};
use crate::{
    admission::{Sender, Verdict},
    directory::PeerId,
    drops::DropReason,
    noise::Caller,
    wire::Kind,
};

impl Shard {
    /// Carries out the handshake whose turn it is; `None` when nobody waits for one. Each costs as
    /// much as a hundred packets: whoever calls this lets packets pass in between, and tells
    /// [`handshake_took`](Self::handshake_took) what it cost.
    pub fn poll_handshake(&mut self, now: Instant, dst: &mut [u8]) -> Option<Outcome> {
        let waiting = self.admission.next(now)?;
        let (from, initiation) = (waiting.from, &waiting.initiation);
        let outcome = self
            .caller(initiation)
            .and_then(|(id, caller)| {
                let kind = (Kind::Initiation, Some(caller));
                self.pace(now, id).map_err(|reason| (reason, Some(id)))?;
                let outcome = self.receive_from(now, id, from, kind, initiation, dst)?;
                self.called(now, id);
                Ok(outcome)
            })
            .unwrap_or_else(|(reason, id)| {
                self.admission.failed(now, &waiting);
                self.count(id, reason, 1);
                Outcome::Nothing
            });
        Some(outcome)
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
        self.admission.demands_cookies(now)
    }

    /// Who sent an initiation, which names its sender under our key.
    fn caller(&self, initiation: &[u8]) -> Result<(PeerId, Caller), (DropReason, Option<PeerId>)> {
        let caller = self.door.initiator(initiation);
        let caller = caller.map_err(|reason| (reason, None))?;
        match self.by_key.get(&caller.key) {
            Some(id) => Ok((*id, caller)),
            None => Err((DropReason::UnknownPeer, None)),
        }
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
        }
    }

    /// Puts an initiation into the queue, or asks its sender for a proof.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<Outcome, DropReason> {
        let initiation = datagram.try_into().map_err(|_| DropReason::Malformed)?;
        self.door.check(datagram)?;
        let sender = Sender {
            from,
            known: self.homes.contains_key(&from),
            proven: self.door.proves(now, from, datagram),
        };
        match self.admission.admit(now, sender, initiation)? {
            Verdict::Queued => Ok(Outcome::Nothing),
            Verdict::Cookie => {
                let length = self.door.cookie(now, from, datagram, dst)?;
                Ok(Outcome::Cookie { to: from, length })
            }
        }
    }

    /// Keeps account of where peers are, when one moves from an address to another.
    pub(super) fn moved(&mut self, from: Option<SocketAddr>, to: Option<SocketAddr>) {
        self.learned |= from != to;
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

/// How far apart the handshakes of one peer are at least.
const PACE: Duration = Duration::from_millis(20);
