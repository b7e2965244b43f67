//! What one worker owns: its peers, their timers, and who is meant by a datagram or a packet.
//!
//! Pure: datagrams and packets go in and out through the caller's buffers, time is an argument.
//! A worker is this and a loop of system calls around it. The shard's number is part of every
//! session index it gives out, so that several workers can share a port.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use kedge_core::Instant;

use self::{
    crew::Crew,
    event::{EVENTS, tell},
};
pub use self::{
    crew::{Admitted, Done, Move},
    event::{Event, EventKind},
    outcome::{Outcome, Transmit},
};
use crate::{
    admission::Admission,
    allowed::{Lookup, addresses},
    backlog::Budget,
    counters::State,
    directory::{Other, PeerId},
    drops::{DropReason, Drops},
    guard::Guard,
    jitter::Jitter,
    keys::{Pair, PresharedKey, PrivateKey, PublicKey},
    memory::Memory,
    noise::{Caller, Doors, HEAD, Noise, TAIL},
    packet::LARGEST,
    peer::{Message, Peer, Received},
    place::Place,
    realm::Realm,
    way::Way,
    wire::{self, Kind},
};

/// The peers of one worker.
pub struct Shard {
    number: u8,
    mtu: usize,
    door: Doors,
    routes: Lookup,
    /// What is known of peers of other workers.
    others: BTreeMap<PeerId, Other>,
    crew: Crew,
    /// Boxed, since a table twice as large as needed is nothing then.
    peers: Vec<Option<Box<Slot>>>,
    by_key: BTreeMap<PublicKey, PeerId>,
    by_index: BTreeMap<u32, PeerId>,
    /// Indices of removed peers, which late datagrams may still name.
    retired: VecDeque<(Instant, u32)>,
    timers: BinaryHeap<Reverse<(Instant, PeerId)>>,
    /// Peers that have something to send.
    ready: VecDeque<PeerId>,
    budget: Budget,
    jitter: Jitter,
    drops: Arc<Drops>,
    events: VecDeque<Event>,
    admission: Admission,
    guard: Arc<Guard>,
    /// Where peers are, and how many: initiations from there come first.
    homes: BTreeMap<SocketAddr, u32>,
    /// Of peers that were removed or are still to come.
    absent: Memory,
    /// Whether there is something that was not remembered yet.
    learned: bool,
    /// Nothing can be sent: packets wait, and nothing falls due.
    rests: bool,
    /// For a core that cannot seal in place.
    scratch: Box<[u8]>,
}

struct Slot {
    peer: Peer,
    /// What the last event said.
    state: State,
    endpoint: Place,
    preshared_key: Option<PresharedKey>,
    /// When it was last given a session it asked for.
    called_at: Option<Instant>,
    /// Older entries in the heap are void.
    due: Instant,
    is_ready: bool,
    /// Whether it passes on packets of others.
    relays: bool,
    /// Whose addresses its own are among.
    realm: Option<Realm>,
    /// What the way to it carries, up to which packets are padded.
    mtu: Option<u16>,
}

impl Shard {
    /// A shard without peers. `seed` decides jitter and indices, nothing secret. Drops that can be
    /// put down to no peer are counted in `drops`. Handshakes and sessions are those of `noise`.
    #[must_use]
    pub fn new(
        key: &PrivateKey,
        number: u8,
        mtu: u16,
        seed: u64,
        drops: Arc<Drops>,
        noise: Noise,
    ) -> Self {
        Self {
            number,
            mtu: usize::from(mtu),
            door: Doors::new(key, noise),
            routes: Lookup::default(),
            others: BTreeMap::new(),
            crew: Crew::default(),
            peers: Vec::new(),
            by_key: BTreeMap::new(),
            by_index: BTreeMap::new(),
            retired: VecDeque::new(),
            timers: BinaryHeap::new(),
            ready: VecDeque::new(),
            budget: Budget::new(),
            jitter: Jitter::new(seed),
            drops,
            events: VecDeque::with_capacity(EVENTS),
            admission: Admission::default(),
            guard: Arc::default(),
            homes: BTreeMap::new(),
            absent: Memory::default(),
            learned: false,
            rests: false,
            scratch: vec![0; LARGEST].into_boxed_slice(),
        }
    }

    /// Seals the packet of `length` bytes that stands in `slot` behind [`HEAD`] bytes of room, for
    /// the peer that owns its destination; the datagram then stands at the slot's start. Behind the
    /// packet the slot has [`ROOM`] bytes for padding and the tag, and it has 148 at least.
    pub fn send(&mut self, now: Instant, slot: &mut [u8], length: usize) -> Option<Transmit> {
        self.send_in(now, None, slot, length)
    }

    /// The same for a packet of a realm.
    pub fn send_in(
        &mut self,
        now: Instant,
        realm: Option<Realm>,
        slot: &mut [u8],
        length: usize,
    ) -> Option<Transmit> {
        let inner = slot.get(HEAD..).and_then(|rest| rest.get(..length));
        let destination = inner.and_then(addresses).map(|(_, to)| to);
        let Some(destination) = destination else {
            self.drops.count(DropReason::NotIp);
            return None;
        };
        let Some(id) = self.routes.to(realm, destination) else {
            self.drops.count(DropReason::NoPeer);
            return None;
        };
        self.send_to(now, id, slot, length)
    }

    /// The same for a peer whoever owns the destination: a question that has to go this way.
    pub fn send_to(
        &mut self,
        now: Instant,
        id: PeerId,
        slot: &mut [u8],
        length: usize,
    ) -> Option<Transmit> {
        let asleep = |slot: &Slot| slot.peer.is_asleep() && slot.peer.endpoint().is_some();
        if !self.rests && self::slot(&mut self.peers, id).is_some_and(|slot| asleep(slot)) {
            self.wake_up(now, id);
        }
        let Some(Slot { peer, mtu, .. }) = self::slot(&mut self.peers, id) else {
            self.drops.count(DropReason::NoPeer);
            return None;
        };
        let mtu = mtu.map_or(self.mtu, usize::from);
        let (budget, scratch) = (&mut self.budget, &mut self.scratch);
        let sent = if self.rests {
            peer.hold((slot, length), mtu, budget).map(|()| None)
        } else {
            peer.send(now, (slot, length), mtu, budget, scratch)
        };
        let message = sent.unwrap_or_else(|reason| {
            peer.counters().drops.count(reason);
            None
        });
        self.settle(id);
        message.map(|message| transmit(id, message))
    }

    /// Opens a datagram. `dst` must be at least as long as it, and 148 bytes. An initiation waits
    /// for its turn in [`poll_handshake`](Self::poll_handshake).
    pub fn receive(
        &mut self,
        now: Instant,
        from: impl Into<Way>,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Outcome {
        match self.try_receive(now, from.into(), datagram, dst) {
            Ok(outcome) => outcome,
            Err((reason, id)) => {
                self.count(id, reason, 1);
                Outcome::Nothing
            }
        }
    }

    /// Whatever is due or waits, one datagram at a time, until `None`. After that, and when nobody
    /// waits for a handshake, [`poll_timeout`](Self::poll_timeout) is in the future.
    pub fn poll_transmit(&mut self, now: Instant, dst: &mut [u8]) -> Option<Transmit> {
        if self.rests {
            return None;
        }
        loop {
            if let Some(transmit) = self.flush_ready(now, dst) {
                return Some(transmit);
            }
            let &Reverse((due, id)) = self.timers.peek()?;
            if due > now {
                return None;
            }
            self.timers.pop();
            self.wake_called(now, id);
            let tried = self.try_other_keys(now, id, due, dst);
            let Some(slot) = slot(&mut self.peers, id).filter(|slot| slot.due == due) else {
                continue;
            };
            let message =
                tried.or_else(|| slot.peer.tick(now, &mut self.jitter, &mut self.budget, dst));
            if message.is_none() {
                slot.peer.rest();
            }
            // What was tried leaves the rest of what is due to the next turn.
            slot.due = match tried {
                Some(_) => now,
                None => slot.peer.next_tick(now, &mut self.jitter),
            };
            if slot.due < Instant::FAR {
                self.timers.push(Reverse((slot.due, id)));
            }
            self.settle(id);
            if let Some(message) = message {
                return Some(transmit(id, message));
            }
        }
    }

    /// When [`poll_transmit`](Self::poll_transmit) and [`poll_handshake`](Self::poll_handshake)
    /// must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.rests {
            None
        } else if self.ready.is_empty() && !self.has_handshakes() {
            self.timers.peek().map(|Reverse((due, _))| *due)
        } else {
            Some(Instant::ZERO)
        }
    }

    /// What happened that an operator cares about, until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The key a peer is known by.
    #[must_use]
    pub fn public_key(&self, id: PeerId) -> Option<PublicKey> {
        let slot = self.peers.get(position(id))?.as_ref()?;
        Some(slot.peer.keys().0)
    }

    /// Starts a handshake with a peer whatever its session's state.
    pub fn force_handshake(&mut self, now: Instant, id: PeerId) {
        if let Some(slot) = slot(&mut self.peers, id) {
            slot.peer.force_handshake(now);
            if let Some(at) = slot.peer.put_off_until().filter(|at| *at < slot.due) {
                slot.due = at;
                self.timers.push(Reverse((at, id)));
            }
            self.settle(id);
        }
    }

    /// Counts packets of a peer that the caller could not send or deliver.
    pub fn count(&mut self, id: Option<PeerId>, reason: DropReason, many: u64) {
        match id.and_then(|id| slot(&mut self.peers, id)) {
            Some(slot) => slot.peer.counters().drops.count_many(reason, many),
            None => self.drops.count_many(reason, many),
        }
    }

    fn flush_ready(&mut self, now: Instant, dst: &mut [u8]) -> Option<Transmit> {
        while let Some(&id) = self.ready.front() {
            self.wake_called(now, id);
            if let Some(slot) = slot(&mut self.peers, id) {
                if let Some(message) = slot.peer.flush(now, &mut self.budget, dst) {
                    return Some(transmit(id, message));
                }
                slot.is_ready = false;
            }
            self.ready.pop_front();
        }
        None
    }

    fn try_receive(
        &mut self,
        now: Instant,
        from: Way,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<Outcome, (DropReason, Option<PeerId>)> {
        let kind = wire::classify(datagram).map_err(|reason| (reason, None))?;
        if kind == Kind::Initiation {
            let admitted = self.admit(now, from, datagram, dst);
            return admitted.map_err(|reason| (reason, None));
        }
        let id = self.recipient(kind).map_err(|reason| (reason, None))?;
        self.receive_from(now, id, from, (kind, None), datagram, dst)
    }

    fn receive_from(
        &mut self,
        now: Instant,
        id: PeerId,
        from: Way,
        kind: (Kind, Option<Caller>),
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<Outcome, (DropReason, Option<PeerId>)> {
        let is_handshake = !matches!(kind.0, Kind::Data { .. });
        let unknown = (DropReason::UnknownSession, None);
        if let (Kind::Initiation, Some(caller)) = &kind {
            self.meet(now, id, caller);
        }
        let slot = slot(&mut self.peers, id).ok_or(unknown)?;
        let received = slot
            .peer
            .receive(now, from, kind, datagram, &mut self.budget, dst);
        let outcome = match received {
            Ok(Received::Packet(length)) => {
                let ends = dst.get(..length).and_then(addresses);
                let (relays, realm) = (slot.relays, slot.realm);
                match ends.filter(|(source, _)| self.routes.accept(realm, *source, id)) {
                    None => Err((DropReason::SourceNotAllowed, Some(id))),
                    Some((_, to)) if relays && self.is_elsewhere(realm, to) => {
                        Err((DropReason::PassedOnTwice, Some(id)))
                    }
                    Some(_) => {
                        self.delivered(id);
                        Ok(Outcome::Deliver {
                            length,
                            peer: id,
                            realm,
                        })
                    }
                }
            }
            Ok(Received::Reply(message)) => Ok(Outcome::Send(transmit(id, message))),
            Ok(Received::Nothing) => Ok(Outcome::Nothing),
            Err(reason) => Err((reason, Some(id))),
        };
        self.settle(id);
        self.learned |= is_handshake && outcome.is_ok();
        outcome
    }

    fn delivered(&mut self, id: PeerId) {
        if let Some(slot) = slot(&mut self.peers, id) {
            slot.peer.counters().delivered();
        }
    }

    /// Whether packets for an address go to a gateway that would have to pass them on.
    fn is_elsewhere(&mut self, realm: Option<Realm>, to: IpAddr) -> bool {
        let owner = self.routes.to(realm, to);
        let slot = owner.and_then(|owner| self.peers.get(position(owner))?.as_ref());
        let other = || owner.and_then(|owner| self.others.get(&owner));
        slot.map_or_else(
            || other().is_some_and(|other| other.relays),
            |slot| slot.relays,
        )
    }

    /// Who is meant, by our index.
    fn recipient(&self, kind: Kind) -> Result<PeerId, DropReason> {
        let receiver = match kind {
            Kind::Initiation => None,
            Kind::Response { receiver }
            | Kind::CookieReply { receiver }
            | Kind::Data { receiver, .. } => Some(receiver),
        };
        receiver
            .and_then(|receiver| self.by_index.get(&(receiver >> 8)).copied())
            .ok_or(DropReason::UnknownSession)
    }

    /// Notes what a call to the peer left behind: something to send, something to tell.
    fn settle(&mut self, id: PeerId) {
        let Some(slot) = slot(&mut self.peers, id) else {
            return;
        };
        if !slot.is_ready && slot.peer.has_more() {
            slot.is_ready = true;
            self.ready.push_back(id);
        }
        let (state, endpoint) = (slot.peer.state(), slot.peer.endpoint());
        if state != slot.state {
            let from = std::mem::replace(&mut slot.state, state);
            tell(&mut self.events, id, EventKind::State { from, to: state });
        }
        if let Some(at) = slot.peer.take_turned()
            && let Some(local) = self.door.key(slot.peer.front().pair.local)
        {
            let remote = slot.peer.front().pair.remote;
            let to = Pair { local, remote };
            slot.peer.counters().set_pair(at, to);
            tell(&mut self.events, id, EventKind::Keys { to });
        }
        if endpoint != slot.endpoint.get() {
            let from = slot.endpoint.replace(endpoint);
            self.moved(from, endpoint);
            tell(
                &mut self.events,
                id,
                EventKind::Moved { from, to: endpoint },
            );
        }
    }
}

fn slot(peers: &mut [Option<Box<Slot>>], id: PeerId) -> Option<&mut Slot> {
    peers.get_mut(position(id))?.as_deref_mut()
}

fn position(id: PeerId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

const fn transmit(peer: PeerId, message: Message) -> Transmit {
    let Message {
        to,
        from,
        length,
        ecn,
    } = message;
    Transmit {
        to,
        from,
        length,
        peer,
        ecn,
    }
}

/// Bytes behind a packet that is sealed in place: up to 15 of padding, and the tag.
pub const ROOM: usize = 15 + TAIL;

mod crew;
mod event;
mod handshakes;
mod live;
mod members;
mod outcome;
mod outlive;
mod rotation;
mod whole;

#[cfg(test)]
mod tests;
