//! Datagrams that came, out of the tunnel: from the sockets, and from the streams.

use std::io::IoSlice;

use kedge_core::Instant;
use kedge_net::{clock, udp::Family};
use kedge_tunnel_proto::{
    drops::DropReason,
    packet::ecn::{self, Ecn},
    shard::{Outcome, Shard, Transmit},
    way::Way,
};
use tracing::{trace, warn};

use super::Worker;
use crate::{
    network::{At, Network},
    offload::Standing,
    outbox::Outbox,
    post::{Kind, Mail, Post},
    to_host::ToHost,
    tuns::Tuns,
};

impl Worker {
    /// Datagrams of the network, out of the tunnel.
    pub(super) fn drain_network(&mut self, at: At, family: Family) {
        self.network.receive(at, family, &mut self.inbox);
        let now = clock::now();
        let mut inward = Inward {
            shard: &mut self.shard,
            to_host: &mut self.to_host,
            tuns: &self.tuns,
            offload: &self.offload,
            outbox: &mut self.outbox,
            network: &mut self.network,
            post: &mut self.post,
            ecn: Ecn::NOT_ECT,
        };
        for received in self.inbox.received() {
            let Some(received) = received else {
                inward.shard.count(None, DropReason::Oversized, 1);
                continue;
            };
            let from = Way {
                there: at.place(received.from),
                here: received.at,
            };
            trace!(
                length = received.bytes.len(),
                stride = received.stride,
                ?from,
                "from the network"
            );
            inward.ecn = Ecn::of(received.traffic_class);
            for datagram in received.datagrams() {
                inward.take(now, from, datagram);
            }
        }
        inward.deliver();
        // With an answer packets may go that waited for it.
        self.transmit_due();
        self.hand_over();
    }

    /// The same for what other workers took in for this one.
    pub(super) fn take_in(&mut self, mail: &Mail) {
        let now = clock::now();
        let mut inward = Inward {
            shard: &mut self.shard,
            to_host: &mut self.to_host,
            tuns: &self.tuns,
            offload: &self.offload,
            outbox: &mut self.outbox,
            network: &mut self.network,
            post: &mut self.post,
            ecn: Ecn::NOT_ECT,
        };
        for (kind, letter) in mail.letters() {
            if let Kind::Datagram(way, ecn) = kind {
                inward.ecn = ecn;
                inward.take(now, way, letter);
            }
        }
        inward.deliver();
    }

    /// The same for what streams brought.
    pub(super) fn drain_lanes(&mut self) {
        self.network.lanes().receive(&mut self.inbound);
        let now = clock::now();
        let mut inward = Inward {
            shard: &mut self.shard,
            to_host: &mut self.to_host,
            tuns: &self.tuns,
            offload: &self.offload,
            outbox: &mut self.outbox,
            network: &mut self.network,
            post: &mut self.post,
            ecn: Ecn::NOT_ECT,
        };
        let mut any = false;
        for (from, datagram) in self.inbound.datagrams() {
            trace!(length = datagram.len(), %from, "from a stream");
            inward.take(now, from.into(), datagram);
            any = true;
        }
        let dropped = self.inbound.dropped();
        if dropped > 0 {
            let reason = DropReason::TlsQueueFull;
            inward.shard.count(None, reason, dropped);
        }
        if any {
            inward.deliver();
            self.transmit_due();
            self.hand_over();
        }
    }
}

/// What a datagram passes on its way in.
struct Inward<'a> {
    shard: &'a mut Shard,
    to_host: &'a mut ToHost,
    tuns: &'a Tuns,
    offload: &'a Standing,
    outbox: &'a mut Outbox,
    network: &'a mut Network,
    post: &'a mut Post,
    /// What routers said of the datagrams' way.
    ecn: Ecn,
}

impl Inward<'_> {
    fn take(&mut self, now: Instant, from: Way, datagram: &[u8]) {
        if let Some(worker) = self.shard.stranger(datagram) {
            if !self
                .post
                .put(worker, Kind::Datagram(from, self.ecn), datagram)
            {
                self.shard.count(None, DropReason::WorkerQueueFull, 1);
            }
            return;
        }
        if self.to_host.is_full() {
            self.deliver();
        }
        let slot = self.to_host.slot();
        let (to, peer, length) = match self.shard.receive(now, from, datagram, slot) {
            Outcome::Nothing => return,
            Outcome::Deliver {
                length,
                peer,
                realm,
            } => {
                if self.ecn.is_marked() {
                    ecn::mark(slot.get_mut(..length).unwrap_or_default());
                }
                self.to_host.push(length, peer, realm);
                return;
            }
            Outcome::Send(transmit) => {
                let Transmit {
                    to: there,
                    from: here,
                    ..
                } = transmit;
                (Way { there, here }, Some(transmit.peer), transmit.length)
            }
            Outcome::Cookie { to, length } => (to, None, length),
        };
        if self.outbox.is_full() {
            self.network.send(now, self.outbox, self.shard);
        }
        let answer = slot.get(..length).unwrap_or_default();
        self.outbox.copy(to, peer, answer);
    }

    /// Gives the host what was opened, and stops to give it runs that it does not take.
    fn deliver(&mut self) {
        let tuns = self.tuns;
        let write = |realm, parts: &[IoSlice<'_>]| tuns.write(realm, parts);
        if let Some(kind) = self.to_host.flush(write, self.shard) {
            let ifname = tuns.own.name();
            warn!(
                ifname,
                ?kind,
                from = "runs",
                to = "single packets",
                because = "the host refused a run",
                "tunnel offload"
            );
            self.offload.change(|offload| offload.refuse(kind));
        }
    }
}
