//! At which of our addresses a peer called us: what it hears from us leaves from there.

use std::net::{IpAddr, SocketAddr};

use super::{Message, Peer, Received};
use crate::{drops::DropReason, noise::Opened, packet::ecn::Ecn, way::Way, wire::Kind};

impl Message {
    /// The same with what its packet says of congestion.
    pub(super) const fn with(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }
}

impl Peer {
    /// What a datagram that came this way leads to.
    pub(super) fn outcome(
        &self,
        kind: Kind,
        from: Way,
        opened: Opened,
    ) -> Result<Received, DropReason> {
        Ok(match opened {
            Opened::Nothing | Opened::Cookie => Received::Nothing,
            Opened::Packet(length) => Received::Packet(length),
            Opened::Reply(length) => {
                self.counters.sent(length);
                let Way { there, here } = from;
                Received::Reply(match (kind, self.endpoint) {
                    (Kind::Initiation, _) | (_, None) => Message {
                        to: there,
                        from: here,
                        length,
                        ecn: Ecn::NOT_ECT,
                    },
                    (_, Some(to)) => self.message(to, length),
                })
            }
        })
    }

    /// The message at the start of the buffer, on its way to `to`.
    pub(super) fn message(&self, to: SocketAddr, length: usize) -> Message {
        Message {
            to,
            from: self.here.filter(|_| self.endpoint == Some(to)),
            length,
            ecn: Ecn::NOT_ECT,
        }
    }

    /// Authentic data came this way. A peer that we called answers to wherever the routes have led us
    /// out, and they may lead elsewhere next time: it is not kept to that.
    pub(super) fn called_at(&mut self, way: Way) {
        let called_us = self.session.is_some_and(|session| !session.initiator);
        if self.endpoint == Some(way.there) && (called_us || self.here.is_some()) {
            self.here = way.here;
        }
    }

    /// An initiation leaves. When the one before had no answer, the address it left from may be why,
    /// and the routes decide.
    pub(super) fn asks(&mut self) {
        if self.unanswered {
            self.here = None;
        }
        self.unanswered = true;
    }

    /// Nothing can be sent from `here`, but elsewhere it can.
    pub(crate) fn lost_address(&mut self, here: IpAddr) {
        if self.here == Some(here) {
            self.here = None;
        }
    }
}
