//! What workers of one device hand to each other: a batch at a time, in order, and not without bound.
//!
//! The first worker reads the TUN device and hears who wants a session. Each has its own box; whoever has
//! something for another puts it into a draft, and a draft is posted under one lock when a batch is through.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use kedge_net::wait::Doorbell;
use kedge_tunnel_proto::{
    packet::ecn::Ecn,
    realm::Realm,
    shard::{Admitted, Done, Move},
    way::Way,
};

/// What was handed over. The room for packets is made once.
#[derive(Default)]
pub(crate) struct Mail {
    bytes: Vec<u8>,
    letters: Vec<(Kind, usize)>,
    pub(crate) admitted: Vec<Admitted>,
    pub(crate) done: Vec<Done>,
    pub(crate) moves: Vec<Move>,
}

/// A packet that was handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// What the host sends in a realm: a `virtio_net_hdr` and a packet.
    Frame(Option<Realm>),
    /// A datagram that came this way, and what routers said of congestion.
    Datagram(Way, Ecn),
}

/// A worker's place in the exchange.
pub(crate) struct Post {
    boxes: Arc<[Pigeonhole]>,
    number: usize,
    drafts: Vec<Mail>,
}

/// What waits for a worker.
struct Pigeonhole {
    mail: Mutex<Mail>,
    bell: Arc<Doorbell>,
}

impl Mail {
    fn with_room() -> Self {
        Self {
            bytes: Vec::with_capacity(BYTES),
            letters: Vec::with_capacity(LETTERS),
            ..Self::default()
        }
    }

    /// The packets, in their order.
    pub(crate) fn letters(&self) -> impl Iterator<Item = (Kind, &[u8])> {
        let mut rest: &[u8] = &self.bytes;
        self.letters.iter().map_while(move |(kind, length)| {
            let (letter, behind) = rest.split_at_checked(*length)?;
            rest = behind;
            Some((*kind, letter))
        })
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.letters.clear();
        self.admitted.clear();
        self.done.clear();
        self.moves.clear();
    }

    fn is_empty(&self) -> bool {
        self.letters.is_empty()
            && self.admitted.is_empty()
            && self.done.is_empty()
            && self.moves.is_empty()
    }

    /// Whether there was room for it.
    fn push(&mut self, kind: Kind, letter: &[u8]) -> bool {
        let room = BYTES - self.bytes.len().min(BYTES);
        if letter.len() > room || self.letters.len() >= LETTERS {
            return false;
        }
        self.bytes.extend_from_slice(letter);
        self.letters.push((kind, letter.len()));
        true
    }

    /// Takes what is in `other` behind what is here; how many packets found no room.
    fn append(&mut self, other: &mut Self) -> u64 {
        let mut lost = 0;
        if self.is_empty() {
            mem::swap(self, other);
        } else {
            for (kind, letter) in other.letters() {
                lost += u64::from(!self.push(kind, letter));
            }
            let room = ADMITTED.saturating_sub(self.admitted.len());
            let many = other.admitted.len();
            self.admitted.extend(other.admitted.drain(..many.min(room)));
            lost += u64::try_from(many.saturating_sub(room)).unwrap_or_default();
            self.done.append(&mut other.done);
            self.moves.append(&mut other.moves);
        }
        other.clear();
        lost
    }
}

impl Post {
    /// A place for each of the workers with these bells.
    pub(crate) fn offices(bells: &[Arc<Doorbell>]) -> Vec<Self> {
        let room = || match bells {
            [_] => Mail::default(),
            _ => Mail::with_room(),
        };
        let boxes: Arc<[Pigeonhole]> = bells
            .iter()
            .map(|bell| Pigeonhole {
                mail: Mutex::new(room()),
                bell: Arc::clone(bell),
            })
            .collect();
        let office = |number| Self {
            boxes: Arc::clone(&boxes),
            number,
            drafts: (0..bells.len())
                .map(|to| {
                    if to == number {
                        Mail::default()
                    } else {
                        room()
                    }
                })
                .collect(),
        };
        (0..bells.len()).map(office).collect()
    }

    /// Has a packet handed to another worker. `false` when there is no room.
    pub(crate) fn put(&mut self, to: u8, kind: Kind, letter: &[u8]) -> bool {
        let draft = self.drafts.get_mut(usize::from(to));
        draft.is_some_and(|draft| draft.push(kind, letter))
    }

    /// What is handed to another worker next.
    pub(crate) fn draft(&mut self, to: u8) -> Option<&mut Mail> {
        self.drafts.get_mut(usize::from(to))
    }

    /// Wakes all others.
    pub(crate) fn ring(&self) {
        for other in &*self.boxes {
            other.bell.ring();
        }
    }

    /// Hands over what was put down. How many packets found no room.
    pub(crate) fn send(&mut self) -> u64 {
        let mut lost = 0;
        let drafts = self.boxes.iter().zip(&mut self.drafts);
        for (to, draft) in drafts.filter(|(_, draft)| !draft.is_empty()) {
            let mut mail = to.mail.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever has not taken what is there has been called already.
            let call = mail.is_empty();
            lost += mail.append(draft);
            drop(mail);
            if call {
                to.bell.ring();
            }
        }
        lost
    }

    /// Takes what was handed over, in exchange for room.
    pub(crate) fn take(&self, into: &mut Mail) {
        into.clear();
        if let Some(own) = self.boxes.get(self.number) {
            mem::swap(
                &mut *own.mail.lock().unwrap_or_else(PoisonError::into_inner),
                into,
            );
        }
    }

    /// Room to take what is handed over into.
    pub(crate) fn room(&self) -> Mail {
        match self.boxes.len() {
            1 => Mail::default(),
            _ => Mail::with_room(),
        }
    }
}

/// Of packets that wait for a worker: 3 ms at 10 Gbit/s.
const BYTES: usize = 4 * 1024 * 1024;
const LETTERS: usize = 4096;
/// Handshakes: what is done in a fifth of a second.
const ADMITTED: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn offices(many: usize) -> Vec<Post> {
        let bells: Vec<_> = (0..many)
            .map(|_| Arc::new(Doorbell::new().unwrap()))
            .collect();
        Post::offices(&bells)
    }

    fn taken(office: &Post, mail: &mut Mail) -> Vec<Vec<u8>> {
        office.take(mail);
        mail.letters().map(|(_, letter)| letter.to_vec()).collect()
    }

    #[test]
    fn what_is_handed_over_arrives_once_and_in_order() {
        let mut offices = offices(3);
        let mut mail = offices[1].room();
        let way = Way::from(std::net::SocketAddr::from(([192, 0, 2, 1], 1)));
        for batch in 0..3_u8 {
            for number in 0..10 {
                assert!(offices[0].put(1, Kind::Frame(None), &[batch, number]));
                assert!(offices[0].put(2, Kind::Datagram(way, Ecn::NOT_ECT), &[number]));
            }
            assert_eq!(offices[0].send(), 0);
        }
        let expected: Vec<_> = (0..3)
            .flat_map(|a| (0..10).map(move |b| vec![a, b]))
            .collect();
        assert_eq!(taken(&offices[1], &mut mail), expected);
        assert_eq!(taken(&offices[1], &mut mail), Vec::<Vec<u8>>::new());
        assert_eq!(taken(&offices[2], &mut mail).len(), 30);
    }

    #[test]
    fn a_worker_that_does_not_come_for_it_loses_the_newest_and_nobody_waits() {
        let mut offices = offices(2);
        let letter = vec![7; 60_000];
        let mut lost = 0;
        for _ in 0..3 {
            for _ in 0..50 {
                lost += u64::from(!offices[0].put(1, Kind::Frame(None), &letter));
            }
            lost += offices[0].send();
        }
        let mut mail = offices[1].room();
        let came = taken(&offices[1], &mut mail).len();
        assert_eq!(came, BYTES / 60_000);
        assert_eq!(lost, 150 - u64::try_from(came).unwrap());
    }
}
