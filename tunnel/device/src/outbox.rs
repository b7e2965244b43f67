//! Datagrams that are about to be sent, and which of them go in one system call.
//!
//! A run is datagrams of one size for one peer, of which the last may be shorter (`UDP_SEGMENT`). They
//! need not have been made one behind the other: many peers at once, as at a gateway, make one run
//! each. Datagrams of one peer stay in order.

use std::net::{IpAddr, SocketAddr};

use kedge_net::udp::{LARGEST_RUN, LONGEST_RUN};
use kedge_tunnel_proto::{directory::PeerId, packet::ecn::Ecn, shard::Transmit, way::Way};

/// Room for datagrams and how they go together. Made once; nothing allocates later.
#[derive(Debug)]
pub(crate) struct Outbox {
    arena: Box<[u8]>,
    used: usize,
    datagrams: Vec<Datagram>,
    runs: Vec<Run>,
    /// The run that may go on, by the hash of its peer.
    open: Box<[u16; TABLE]>,
}

/// Datagrams that go together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Where to.
    pub(crate) to: SocketAddr,
    /// From which address of this host.
    pub(crate) from: Option<IpAddr>,
    /// Whose they are, for the counters.
    pub(crate) peer: Option<PeerId>,
    /// What their packets say of congestion.
    pub(crate) ecn: Ecn,
    /// How many they are, at least one.
    pub(crate) count: u16,
    /// How long each but the last is.
    pub(crate) size: usize,
    total: usize,
    head: u16,
    tail: u16,
    /// Whether the last one was shorter.
    closed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    at: usize,
    length: usize,
    /// The next one of the run.
    next: u16,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            arena: vec![0; ENOUGH_BYTES + SLACK].into_boxed_slice(),
            used: 0,
            datagrams: Vec::with_capacity(CAPACITY),
            runs: Vec::with_capacity(CAPACITY),
            open: Box::new([NONE; TABLE]),
        }
    }

    /// How many datagrams there are.
    pub(crate) fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Whether the next datagram, however long, might find no room.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= CAPACITY || self.used > ENOUGH_BYTES
    }

    /// Where the next datagram is made: room for the largest, while the box is not
    /// [full](Self::is_full).
    pub(crate) fn slot(&mut self) -> &mut [u8] {
        self.arena.get_mut(self.used..).unwrap_or_default()
    }

    /// Takes what was made at the start of the slot.
    pub(crate) fn push(&mut self, transmit: Transmit) {
        let Transmit {
            to,
            from,
            length,
            peer,
            ecn,
        } = transmit;
        let way = Way {
            there: to,
            here: from,
        };
        self.take(way, (Some(peer), ecn), length);
    }

    /// Takes a datagram that was made elsewhere. `false` when there is no room for it.
    pub(crate) fn copy(&mut self, way: impl Into<Way>, peer: Option<PeerId>, bytes: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        let Some(slot) = self.slot().get_mut(..bytes.len()) else {
            return false;
        };
        slot.copy_from_slice(bytes);
        self.take(way.into(), (peer, Ecn::NOT_ECT), bytes.len());
        true
    }

    /// The runs, in an order that keeps each peer's datagrams in theirs.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        self.runs.iter().copied()
    }

    /// The datagrams of a run.
    pub(crate) fn datagrams(&self, run: &Run) -> impl Iterator<Item = &[u8]> {
        let mut at = run.head;
        (0..run.count).map_while(move |_| {
            let datagram = self.datagrams.get(usize::from(at))?;
            at = datagram.next;
            self.arena.get(datagram.at..)?.get(..datagram.length)
        })
    }

    /// The same bytes in fewer pieces, where datagrams were made one behind the other.
    pub(crate) fn pieces(&self, run: &Run) -> impl Iterator<Item = &[u8]> {
        let mut at = run.head;
        let mut left = run.count;
        std::iter::from_fn(move || {
            let first = (left > 0).then(|| self.datagrams.get(usize::from(at)))??;
            let (begin, mut end) = (first.at, first.at);
            while let Some(datagram) = self.datagrams.get(usize::from(at))
                && left > 0
                && datagram.at == end
            {
                end += datagram.length;
                at = datagram.next;
                left -= 1;
            }
            self.arena.get(begin..end)
        })
    }

    /// Forgets all of it.
    pub(crate) fn clear(&mut self) {
        if !self.runs.is_empty() {
            self.open.fill(NONE);
        }
        self.used = 0;
        self.datagrams.clear();
        self.runs.clear();
    }

    fn take(&mut self, way: Way, (peer, ecn): (Option<PeerId>, Ecn), length: usize) {
        let index = number(self.datagrams.len());
        self.datagrams.push(Datagram {
            at: self.used,
            length,
            next: NONE,
        });
        self.used += length;
        let open = self.open.get_mut(slot(&way.there));
        let run = open
            .as_ref()
            .and_then(|open| self.runs.get_mut(usize::from(**open)));
        if let Some(run) = run
            && run.takes(way, (peer, ecn), length)
        {
            let tail = std::mem::replace(&mut run.tail, index);
            run.count += 1;
            run.total += length;
            run.closed = length < run.size;
            if let Some(tail) = self.datagrams.get_mut(usize::from(tail)) {
                tail.next = index;
            }
            return;
        }
        if let Some(open) = open {
            *open = number(self.runs.len());
        }
        self.runs.push(Run {
            to: way.there,
            from: way.here,
            peer,
            ecn,
            count: 1,
            size: length,
            total: length,
            head: index,
            tail: index,
            closed: false,
        });
    }
}

impl Run {
    fn takes(&self, way: Way, (peer, ecn): (Option<PeerId>, Ecn), length: usize) -> bool {
        !self.closed
            && (self.to, self.from, self.peer) == (way.there, way.here, peer)
            && self.ecn == ecn
            && length <= self.size
            && usize::from(self.count) < LONGEST_RUN
            && self.total + length <= LARGEST_RUN
    }
}

/// Where in the table the run for a peer is looked for. Two that meet there only part each other's.
fn slot(to: &SocketAddr) -> usize {
    let address = match to {
        SocketAddr::V4(to) => u128::from(u32::from(*to.ip())),
        SocketAddr::V6(to) => u128::from(*to.ip()),
    };
    let mixed = (address ^ u128::from(to.port()) << 13).wrapping_mul(SPREAD);
    usize::try_from(mixed >> 120).unwrap_or_default() % TABLE
}

/// A number of datagrams or runs, which are bounded.
fn number(many: usize) -> u16 {
    u16::try_from(many).unwrap_or(NONE)
}

/// With so much there is no sense in waiting for more.
const ENOUGH_BYTES: usize = 4 * 65_536;
/// The largest packet, and what it is sealed with.
const SLACK: usize = 65_536 + 64;
const CAPACITY: usize = 512;
const TABLE: usize = 256;
const NONE: u16 = u16::MAX;
/// An odd number without a pattern (the golden ratio's digits, twice).
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests;
