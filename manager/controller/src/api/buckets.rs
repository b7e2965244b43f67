//! How often somebody may be refused before it has to wait.
//!
//! A fleet that enrols through one address is welcome at any speed; whoever guesses is not. So
//! what counts against a source is not what it asks but what it could not prove, and against a
//! tenant what it was granted. What makes the manager ask the API server in vain counts against
//! everybody.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The terms of a bucket: how much it holds, and how long one drop takes to come back.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How many at once.
    pub burst: u32,
    /// How long until there is one more.
    pub every: Duration,
}

/// The buckets of enrolment.
#[derive(Debug)]
pub struct Limits {
    /// Proofs that were none, by where they came from.
    pub refused: Buckets<IpAddr>,
    /// Enrolments, by tenant or gateway.
    pub granted: Buckets<String>,
    /// Looks for tokens that were not there, whoever asked.
    pub missed: Buckets<()>,
    /// One look at a time.
    pub looking: tokio::sync::Mutex<()>,
}

impl Default for Limits {
    fn default() -> Self {
        let terms = |burst, milliseconds| Terms {
            burst,
            every: Duration::from_millis(milliseconds),
        };
        Self {
            refused: Buckets::new(terms(20, 1000), 4096),
            granted: Buckets::new(terms(2000, 20), 4096),
            missed: Buckets::new(terms(8, 1000), 1),
            looking: tokio::sync::Mutex::default(),
        }
    }
}

/// A bucket for each of many, full at first.
#[derive(Debug)]
pub struct Buckets<K> {
    terms: Terms,
    most: usize,
    taken: Mutex<HashMap<K, Level>>,
}

/// When the bucket will be full again: all there is to know of it.
#[derive(Clone, Copy, Debug)]
struct Level(Instant);

impl<K: Eq + Hash + Clone> Buckets<K> {
    /// Buckets for at most `most`; those that are full again make room.
    #[must_use]
    pub fn new(terms: Terms, most: usize) -> Self {
        Self {
            terms,
            most,
            taken: Mutex::default(),
        }
    }

    /// How many seconds to wait while the bucket is empty.
    #[must_use]
    pub fn wait(&self, key: &K, now: Instant) -> Option<u32> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full_at = taken.get(key)?.0;
        let missing = full_at.saturating_duration_since(now);
        let room = self.terms.every * self.terms.burst;
        let wait = (missing + self.terms.every).checked_sub(room)?;
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
        (!wait.is_zero()).then(|| seconds.saturating_add(1))
    }

    /// Takes one drop.
    pub fn take(&self, key: &K, now: Instant) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() >= self.most && !taken.contains_key(key) {
            taken.retain(|_, level| level.0 > now);
            // Still too many: whoever has the least to wait is let go.
            if taken.len() >= self.most {
                let first = taken.iter().min_by_key(|(_, level)| level.0);
                if let Some(first) = first.map(|(key, _)| key.clone()) {
                    taken.remove(&first);
                }
            }
        }
        let room = self.terms.every * self.terms.burst;
        let level = taken.entry(key.clone()).or_insert(Level(now));
        level.0 = (level.0.max(now) + self.terms.every).min(now + room);
    }
}

/// Whose a refusal is: an IPv4 address, or the network of an IPv6 address, which one machine has
/// for itself.
#[must_use]
pub fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = u128::from(v6) >> 64 << 64;
            IpAddr::V6(network.into())
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_runs_empty_fills_again_and_makes_room() {
        let terms = Terms {
            burst: 3,
            every: Duration::from_secs(2),
        };
        let (buckets, start) = (Buckets::new(terms, 2), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(buckets.wait(&"a", start), None);
        for _ in 0..3 {
            assert_eq!(buckets.wait(&"a", start), None);
            buckets.take(&"a", start);
        }
        assert_eq!(buckets.wait(&"a", start), Some(3));
        assert_eq!(buckets.wait(&"b", start), None, "each has its own");
        buckets.take(&"a", start);
        assert_eq!(buckets.wait(&"a", at(2)), None, "it never owes more");
        buckets.take(&"b", at(2));
        buckets.take(&"c", at(2));
        assert_eq!(buckets.taken.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let of = |text: &str| source(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
