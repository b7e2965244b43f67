//! Places for the connections of members: bounded in all and for each of them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::pki::sha256;

/// The places.
#[derive(Debug)]
pub struct Seats {
    room: Arc<Semaphore>,
    per_member: usize,
    taken: Mutex<Taken>,
}

/// Whose they are, the oldest first.
#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by_member: BTreeMap<[u8; 32], VecDeque<(u64, oneshot::Sender<()>)>>,
}

/// A place, until dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    member: [u8; 32],
    number: u64,
    wanted: oneshot::Receiver<()>,
    _room: OwnedSemaphorePermit,
}

impl Seats {
    /// Places for `most` connections, and for `per_member` of one key.
    #[must_use]
    pub fn new(most: usize, per_member: usize) -> Self {
        Self {
            room: Arc::new(Semaphore::new(most)),
            per_member,
            taken: Mutex::default(),
        }
    }

    /// Takes a place for the holder of a public key; `None` when the house is full. Who has its
    /// number of places already loses the oldest: of a half-open connection the client knows
    /// nothing, and it must not lock itself out.
    pub fn take(self: &Arc<Self>, public_key: &[u8]) -> Option<Seat> {
        let member = sha256(public_key);
        let mut taken = self.taken();
        let own = taken.by_member.entry(member).or_default();
        // Dropping the sender is the word to leave.
        while own.len() >= self.per_member && own.pop_front().is_some() {}
        let (keep, wanted) = oneshot::channel();
        let number = taken.next;
        taken.next += 1;
        let own = taken.by_member.entry(member).or_default();
        let room = Arc::clone(&self.room).try_acquire_owned();
        match room {
            Ok(room) => {
                own.push_back((number, keep));
                drop(taken);
                Some(Seat {
                    seats: Arc::clone(self),
                    member,
                    number,
                    wanted,
                    _room: room,
                })
            }
            Err(_) => {
                if own.is_empty() {
                    taken.by_member.remove(&member);
                }
                None
            }
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Ends when a newer connection of the same member needs the place.
    pub async fn is_wanted(&mut self) {
        let _: Result<(), oneshot::error::RecvError> = (&mut self.wanted).await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(own) = taken.by_member.get_mut(&self.member) {
            own.retain(|(number, _)| *number != self.number);
            if own.is_empty() {
                taken.by_member.remove(&self.member);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_wanted(seat: &mut Seat) -> bool {
        seat.wanted.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_oldest_of_too_many_gives_way_and_others_keep_theirs() {
        let seats = Arc::new(Seats::new(4, 2));
        let mut other = seats.take(b"b").unwrap();
        let mut first = seats.take(b"a").unwrap();
        let mut second = seats.take(b"a").unwrap();
        assert!(!is_wanted(&mut first));
        let mut third = seats.take(b"a").unwrap();
        assert!(is_wanted(&mut first));
        assert!(!is_wanted(&mut second) && !is_wanted(&mut third) && !is_wanted(&mut other));
        assert!(seats.take(b"c").is_none(), "four are seated");
        drop(first);
        let seat = seats.take(b"c").unwrap();
        drop((seat, second, third, other));
        assert!(seats.taken().by_member.is_empty());
    }
}
