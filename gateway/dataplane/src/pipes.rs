//! Spare pipes. A connection holds one only while bytes rest in it, so that thousands of idle
//! connections cost two descriptors each.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use kedge_net::splice::Pipe;

#[derive(Debug, Default)]
pub(crate) struct Pipes {
    spare: Mutex<Vec<Spare>>,
    /// Held by every large pipe.
    large: Arc<()>,
}

/// A pipe that is lent.
#[derive(Debug)]
pub(crate) struct Spare {
    pub pipe: Pipe,
    /// It counts among the large ones as long as it is open.
    _large: Option<Arc<()>>,
}

impl Pipes {
    /// An empty pipe, and a large one while there are not too many: a stream is carried with a tenth of the calls.
    pub fn take(&self) -> io::Result<Spare> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spare) = spare.pop() {
            return Ok(spare);
        }
        drop(spare);
        let mut pipe = Pipe::open()?;
        let may_grow = Arc::strong_count(&self.large) <= MOST_LARGE;
        let large = (may_grow && pipe.grow()).then(|| Arc::clone(&self.large));
        Ok(Spare {
            pipe,
            _large: large,
        })
    }

    /// Gives a pipe back. One that still holds bytes belongs to a broken connection and is closed.
    pub fn give(&self, lent: Spare) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if lent.pipe.held() == 0 && spare.len() < MOST_SPARE {
            spare.push(lent);
        }
    }
}

/// With the large ones that are lent they stay below the 16 384 pages that a user without privileges may have
/// (`/proc/sys/fs/pipe-user-pages-soft`): 32 of 256 pages, 96 of 16, and room for those that are lent.
const MOST_SPARE: usize = 128;
const MOST_LARGE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_large_and_a_closed_one_makes_room_for_another() {
        let pipes = Pipes::default();
        let mut lent: Vec<Spare> = (0..MOST_LARGE + 2).map(|_| pipes.take().unwrap()).collect();
        let large = |lent: &[Spare]| lent.iter().filter(|it| it.pipe.is_large()).count();
        assert_eq!(large(&lent), MOST_LARGE);
        lent.remove(0);
        lent.push(pipes.take().unwrap());
        assert_eq!(large(&lent), MOST_LARGE);
        // One that comes back is lent again.
        pipes.give(lent.remove(0));
        assert!(pipes.take().unwrap().pipe.is_large());
    }
}
