//! What the kernel's counters mean over time: a peer that is made anew begins at zero, and when its last
//! data came is told by nothing but that they grow.

use kedge_core::Instant;

/// One peer's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    /// What was counted before the peer was made anew.
    before: Bytes,
    seen: Bytes,
    last_data: Option<Instant>,
}

/// Bytes of WireGuard messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes {
    pub rx: u64,
    pub tx: u64,
}

impl Ledger {
    /// Begins with a peer that was there already: that it has counted is no news.
    pub fn adopt(seen: Bytes) -> Self {
        Self {
            seen,
            ..Self::default()
        }
    }

    /// Takes what the kernel counts at `now`.
    pub fn take(&mut self, now: Instant, seen: Bytes) {
        if seen.rx < self.seen.rx || seen.tx < self.seen.tx {
            self.begin_anew();
        }
        if seen.rx > self.seen.rx {
            self.last_data = Some(now);
        }
        self.seen = seen;
    }

    /// The peer is made anew: it counts from zero.
    pub fn begin_anew(&mut self) {
        self.before = self.total();
        self.seen = Bytes::default();
    }

    /// Everything that was counted.
    pub fn total(&self) -> Bytes {
        Bytes {
            rx: self.before.rx.saturating_add(self.seen.rx),
            tx: self.before.tx.saturating_add(self.seen.tx),
        }
    }

    /// When something authenticated was first seen to have come last.
    pub const fn last_data(&self) -> Option<Instant> {
        self.last_data
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn counters_only_grow_and_growth_is_data() {
        let mut ledger = Ledger::default();
        for (second, rx, tx, total, last) in [
            (1, 0, 148, (0, 148), None),
            (2, 92, 180, (92, 180), Some(2)),
            (3, 92, 300, (92, 300), Some(2)),
            // Somebody made the peer anew.
            (4, 10, 20, (102, 320), Some(4)),
            (5, 10, 20, (102, 320), Some(4)),
        ] {
            ledger.take(at(second), Bytes { rx, tx });
            let Bytes { rx, tx } = ledger.total();
            assert_eq!((rx, tx), total, "{second}");
            assert_eq!(ledger.last_data(), last.map(at), "{second}");
        }
        ledger.begin_anew();
        ledger.take(at(6), Bytes { rx: 500, tx: 500 });
        assert_eq!(ledger.total(), Bytes { rx: 602, tx: 820 });
        assert_eq!(ledger.last_data(), Some(at(6)));
    }

    #[test]
    fn what_a_peer_counted_before_is_no_news() {
        let mut ledger = Ledger::adopt(Bytes { rx: 7, tx: 7 });
        ledger.take(at(1), Bytes { rx: 7, tx: 8 });
        assert_eq!(ledger.last_data(), None);
        assert_eq!(ledger.total(), Bytes { rx: 7, tx: 8 });
    }
}
