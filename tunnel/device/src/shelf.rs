//! Where the worker leaves what must outlive it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kedge_tunnel_proto::memory::Memory;

/// What the worker has learned last, until somebody takes it.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<Option<Memory>>);

impl Shelf {
    pub(crate) fn leave(&self, memory: Memory) {
        *self.lock() = Some(memory);
    }

    pub(crate) fn take(&self) -> Option<Memory> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
