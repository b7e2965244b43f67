//! A seed for what only has to differ: indices, jitter, echo sessions. Keys never come from here.

use std::hash::{BuildHasher as _, RandomState};

/// A number no other process has: the keys of the standard library's hasher are random, and each
/// call has new ones.
pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one("kedge")
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_seeds_differ() {
        assert_ne!(super::seed(), super::seed());
    }
}
