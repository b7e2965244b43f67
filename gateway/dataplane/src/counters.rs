//! What is counted at a listener.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a listener has counted since it was bound.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub accepted: Count,
    pub open: Count,
    pub unreachable: Count,
    pub full: Count,
    /// Clients of a door that asked for nobody here.
    pub unnamed: Count,
    /// Connections of others than the load balancers before the gateway, or without their header.
    pub unproxied: Count,
    /// Connections and datagrams of clients that are not let in.
    pub outside: Count,
}

impl Counters {
    /// So many are open.
    pub fn is_open(&self, count: usize) {
        self.open.set(count);
    }

    /// Connections and datagrams that nobody was served for.
    pub fn refused(&self) -> u64 {
        let others = self.unnamed.get() + self.unproxied.get() + self.outside.get();
        self.unreachable.get() + self.full.get() + others
    }
}

/// A number that tasks share.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn set(&self, value: usize) {
        let value = u64::try_from(value).unwrap_or(u64::MAX);
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
