//! Several workers on one port: whose a datagram or a packet is, and what the one that hears everybody who
//! wants a session, the first, hands to the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use kedge_core::Instant;

use super::{Outcome, Shard};
use crate::{
    admission::Waiting,
    allowed::addresses,
    directory::{Change, PeerId, owner},
    keys::PublicKey,
    noise::Caller,
    realm::Realm,
    wire::{self, Kind},
};

/// An initiation that was admitted, for the worker whose peer sent it.
pub struct Admitted {
    pub(super) waiting: Waiting,
    pub(super) caller: Caller,
    /// For how long it has kept processors.
    pub(super) took: Duration,
}

/// What became of it.
pub struct Done {
    /// What it failed for is held against its sender.
    pub(super) failed: Option<Waiting>,
    pub(super) took: Duration,
}

/// Where a peer was, and where it is.
pub type Move = (Option<SocketAddr>, Option<SocketAddr>);

/// What a shard has for the others.
#[derive(Default)]
pub(super) struct Crew {
    pub(super) workers: u8,
    admitted: Option<(u8, Admitted)>,
    pub(super) moves: Vec<Move>,
    /// Keys of peers whose worker another key says.
    pub(super) strays: BTreeMap<PublicKey, (PeerId, u8)>,
}

impl Shard {
    /// Shares its port with others: `workers` in all, of which the first hears whoever wants a session.
    pub fn join(&mut self, workers: u8) {
        self.crew.workers = workers;
    }

    /// Whose a datagram is, where it is another worker's.
    #[must_use]
    pub fn stranger(&self, datagram: &[u8]) -> Option<u8> {
        if self.crew.workers <= 1 {
            return None;
        }
        let worker = match wire::classify(datagram).ok()? {
            Kind::Initiation => 0,
            Kind::Response { receiver }
            | Kind::CookieReply { receiver }
            | Kind::Data { receiver, .. } => receiver.to_le_bytes()[1],
        };
        (worker != self.number && worker < self.crew.workers).then_some(worker)
    }

    /// Whose the peer is that a packet of a realm goes to, where it is another worker's.
    pub fn elsewhere(&mut self, realm: Option<Realm>, packet: &[u8]) -> Option<u8> {
        if self.others.is_empty() {
            return None;
        }
        let (_, to) = addresses(packet)?;
        let id = self.routes.to(realm, to)?;
        self.others.get(&id).map(|other| other.worker)
    }

    /// The initiation that [`poll_handshake`](Self::poll_handshake) has looked at last, if it is for
    /// another worker. It took so long so far.
    pub fn handed(&mut self, took: Duration) -> Option<(u8, Admitted)> {
        let mut handed = self.crew.admitted.take()?;
        handed.1.took += took;
        Some(handed)
    }

    /// Carries out a handshake that the first worker has admitted. What became of it goes back, with how
    /// long it [took](Done::took).
    pub fn shake_hands(
        &mut self,
        now: Instant,
        admitted: Admitted,
        dst: &mut [u8],
    ) -> (Outcome, Done) {
        let Admitted {
            waiting,
            caller,
            took,
        } = admitted;
        let outcome = self.answer(now, &waiting, caller, dst);
        let (outcome, failed) = match outcome {
            Ok(outcome) => (outcome, None),
            Err((reason, id)) => {
                self.count(id, reason, 1);
                (Outcome::Nothing, Some(waiting))
            }
        };
        (outcome, Done { failed, took })
    }

    /// Takes account of what became of a handshake that was handed on.
    pub fn heed(&mut self, now: Instant, done: &Done) {
        if let Some(waiting) = &done.failed {
            self.admission.failed(now, waiting);
        }
        self.handshake_took(done.took);
    }

    /// Where peers went since the last time, for the first worker: those it knows come first.
    pub fn take_moves(&mut self, into: &mut Vec<Move>) {
        into.append(&mut self.crew.moves);
    }

    /// Takes account of where a peer of another worker is.
    pub fn heed_move(&mut self, (from, to): Move) {
        self.keep_homes(from, to);
    }

    /// Takes account of which keys do not say whose their peer is.
    pub(super) fn note_strays(&mut self, change: &Change) {
        let strays = &mut self.crew.strays;
        if !strays.is_empty() {
            let updated = change.update.iter().map(|update| update.entry.id);
            let others = change.others.iter().map(|other| other.id);
            let touched: BTreeSet<PeerId> = updated
                .chain(others)
                .chain(change.remove.iter().copied())
                .collect();
            strays.retain(|_, (id, _)| !touched.contains(id));
        }
        let all = change.strays.iter();
        strays.extend(all.map(|(id, key, worker)| (*key, (*id, *worker))));
    }

    /// Keeps an initiation for the worker whose peer sent it; gives it back where that is this one.
    pub(super) fn hand_on(
        &mut self,
        waiting: Waiting,
        caller: Caller,
    ) -> Option<(Waiting, Caller)> {
        let stray = self.crew.strays.get(&caller.key);
        let usual = || owner(&caller.key, self.crew.workers);
        let worker = stray.map_or_else(usual, |(_, worker)| *worker);
        if self.crew.workers <= 1 || worker == self.number {
            return Some((waiting, caller));
        }
        let admitted = Admitted {
            waiting,
            caller,
            took: Duration::ZERO,
        };
        self.crew.admitted = Some((worker, admitted));
        None
    }
}

impl Done {
    /// Adds how long the handshake has kept the processor.
    #[must_use]
    pub fn took(mut self, time: Duration) -> Self {
        self.took += time;
        self
    }
}
