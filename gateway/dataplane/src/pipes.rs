//! Spare pipes. A connection holds one only while bytes rest in it, so that thousands of idle
//! connections cost two descriptors each.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use kedge_net::splice::Pipe;

#[derive(Debug, Default)]
pub(crate) struct Pipes {
    spare: Mutex<Vec<Pipe>>,
}

impl Pipes {
    /// An empty pipe.
    pub fn take(&self) -> io::Result<Pipe> {
        let spare = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        spare.map_or_else(Pipe::open, Ok)
    }

    /// Gives a pipe back. One that still holds bytes belongs to a broken connection and is closed.
    pub fn give(&self, pipe: Pipe) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if pipe.held() == 0 && spare.len() < MOST_SPARE {
            spare.push(pipe);
        }
    }
}

/// 128 pipes of 16 pages stay below the 1024 an unprivileged user may have at full size.
const MOST_SPARE: usize = 128;
