//! What happened, as one number.

use kedge_core::Instant;

/// FNV-1a-64 over everything that left a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// Nothing happened yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes of a kind that `tag` names.
    pub fn add(&mut self, now: Instant, host: usize, tag: u8, bytes: &[u8]) {
        let now = now.as_nanos().to_be_bytes();
        let head = [tag, u8::try_from(host).unwrap()];
        for byte in now.iter().chain(&head).chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}
