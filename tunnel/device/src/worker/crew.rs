//! What a worker does for others of its device, and what others do for it.

use std::mem;

use kedge_net::clock;
use kedge_tunnel_proto::{drops::DropReason, shard::Outcome};

use super::Worker;
use crate::{from_host::forward, post::Kind};

impl Worker {
    /// Takes what other workers handed over.
    pub(super) fn open_mail(&mut self) {
        let mut mail = mem::take(&mut self.mail);
        self.post.take(&mut mail);
        for (kind, letter) in mail.letters() {
            if let Kind::Frame(realm) = kind {
                forward(
                    (realm, letter),
                    &mut self.shard,
                    &mut self.outbox,
                    &mut self.network,
                );
            }
        }
        self.take_in(&mail);
        let now = clock::now();
        for done in mail.done.drain(..) {
            self.shard.heed(now, &done);
        }
        for moved in mail.moves.drain(..) {
            self.shard.heed_move(moved);
        }
        for admitted in mail.admitted.drain(..) {
            if self.callers.len() < CALLERS {
                self.callers.push_back(admitted);
            } else {
                self.shard.count(None, DropReason::HandshakeQueueFull, 1);
            }
        }
        self.mail = mail;
        self.transmit_due();
    }

    /// Hands over what is for other workers.
    pub(super) fn hand_over(&mut self) {
        if let Some(first) = self.post.draft(0).filter(|_| self.number != 0) {
            self.shard.take_moves(&mut first.moves);
        }
        let lost = self.post.send();
        self.shard.count(None, DropReason::WorkerQueueFull, lost);
    }

    /// Carries out a few of the handshakes that wait. Packets are looked after in between: what
    /// peers send to each other never waits for those who want to be peers.
    pub(super) fn shake_hands(&mut self) {
        for _ in 0..HANDSHAKES {
            let begun = clock::now();
            if self.outbox.is_full() {
                self.network.send(begun, &mut self.outbox, &mut self.shard);
            }
            let slot = self.outbox.slot();
            if let Some(admitted) = self.callers.pop_front() {
                let (outcome, done) = self.shard.shake_hands(begun, admitted, slot);
                self.answer(outcome);
                if let Some(first) = self.post.draft(0) {
                    first.done.push(done.took(clock::now().since(begun)));
                }
                continue;
            }
            let Some(outcome) = self.shard.poll_handshake(begun, slot) else {
                return;
            };
            self.answer(outcome);
            let took = clock::now().since(begun);
            match self.shard.handed(took) {
                None => self.shard.handshake_took(took),
                Some((worker, admitted)) => {
                    if let Some(owner) = self.post.draft(worker) {
                        owner.admitted.push(admitted);
                    }
                }
            }
        }
    }

    fn answer(&mut self, outcome: Outcome) {
        if let Outcome::Send(transmit) = outcome {
            self.outbox.push(transmit);
        }
    }
}

/// How many handshakes are carried out before packets have their turn: a millisecond's worth.
const HANDSHAKES: usize = 8;

/// Handshakes that wait for a worker: what is done in half a second.
const CALLERS: usize = 4_096;
