//! The keys that sign adverts.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kedge_core::vip::OutOfRange;
use zeroize::Zeroizing;

/// A secret of 32 to 64 bytes that the members of a virtual router share.
///
/// Clones share one copy, which is wiped when the last of them goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Arc<Zeroizing<[u8; Key::MAX]>>);

/// A secret of a length that no key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key that signs adverts has 32 to 64 bytes, not {0}")]
pub struct BadKey(pub usize);

impl Key {
    /// The fewest bytes of a key: as many as the hash gives.
    pub const MIN: usize = 32;
    /// The most bytes of a key: one block of the hash. A longer key would be hashed first.
    pub const MAX: usize = 64;

    /// The key `secret`.
    ///
    /// # Errors
    ///
    /// It is shorter than 32 bytes or longer than 64.
    pub fn new(secret: &[u8]) -> Result<Self, BadKey> {
        // Filled where it stays: moving it would leave copies that nobody wipes.
        let mut block = Arc::new(Zeroizing::new([0; Self::MAX]));
        let room = Arc::make_mut(&mut block);
        match room.get_mut(..secret.len()) {
            Some(room) if secret.len() >= Self::MIN => room.copy_from_slice(secret),
            Some(_) | None => return Err(BadKey(secret.len())),
        }
        Ok(Self(block))
    }

    /// The secret, padded with zeros to the longest key, which is the same key: for another
    /// process of this host that signs in our name.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// The key padded with zeros to one block of the hash, which is how HMAC begins (RFC 2104
    /// section 2).
    pub(super) fn block(&self) -> &[u8; Self::MAX] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

/// The number of a key, 1 to 255, which travels in clear and tells the receiver which to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(u8);

impl KeyId {
    /// The number, if `value` is in range.
    ///
    /// # Errors
    ///
    /// Zero is no key.
    pub const fn new(value: u8) -> Result<Self, OutOfRange> {
        if value == 0 {
            Err(OutOfRange {
                what: "key id",
                allowed: "1 to 255",
                value: 0,
            })
        } else {
            Ok(Self(value))
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<i64> for KeyId {
    type Error = OutOfRange;

    fn try_from(value: i64) -> Result<Self, OutOfRange> {
        let byte = u8::try_from(value).unwrap_or(0);
        Self::new(byte).map_err(|error| OutOfRange { value, ..error })
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The keys of a virtual router: all of them verify, the active one signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    active: KeyId,
    key: Key,
    others: BTreeMap<KeyId, Key>,
}

/// The key that should sign is not among the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the active key {0} is not among the keys")]
pub struct NoActiveKey(pub KeyId);

impl Keys {
    /// The keys `all`, of which `active` signs.
    ///
    /// # Errors
    ///
    /// `active` is none of them.
    pub fn new(active: KeyId, mut all: BTreeMap<KeyId, Key>) -> Result<Self, NoActiveKey> {
        let key = all.remove(&active).ok_or(NoActiveKey(active))?;
        Ok(Self {
            active,
            key,
            others: all,
        })
    }

    /// The key that signs.
    #[must_use]
    pub const fn active(&self) -> (KeyId, &Key) {
        (self.active, &self.key)
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (KeyId, &Key)> {
        let others = self.others.iter().map(|(id, key)| (*id, key));
        others.chain([self.active()])
    }

    /// The key with the number `id`.
    #[must_use]
    pub fn find(&self, id: KeyId) -> Option<&Key> {
        if id == self.active {
            Some(&self.key)
        } else {
            self.others.get(&id)
        }
    }
}
