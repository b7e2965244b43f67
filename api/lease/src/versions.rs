//! Versions of what was seen and written: they grow, unless time went back.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::warn;

/// The newest version of anything, and how often an older one came after it.
#[derive(Debug, Default)]
pub struct Versions {
    newest: AtomicU64,
    returns: AtomicU64,
}

impl Versions {
    /// The newest version that was seen.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// How often time went back.
    pub fn returns(&self) -> u64 {
        self.returns.load(Ordering::Relaxed)
    }

    /// This version of something was seen.
    pub fn saw(&self, version: Option<&str>) {
        let version = version.and_then(|version| version.parse().ok());
        self.newest
            .fetch_max(version.unwrap_or_default(), Ordering::Relaxed);
    }

    /// This version was written, after `newest` had been seen: what is written is newer than everything
    /// that was seen before.
    pub fn wrote(&self, version: &str, newest: u64) {
        let Ok(version) = version.parse::<u64>() else {
            return;
        };
        if version < newest {
            warn!(
                newest,
                version, "the store went back in time: everything is read anew"
            );
            self.newest.store(version, Ordering::Relaxed);
            self.returns.fetch_add(1, Ordering::Relaxed);
        }
    }
}
