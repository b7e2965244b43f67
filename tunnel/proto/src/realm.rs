//! Address realms (RFC 2663 section 2.1): an address means something within one of them alone.

use std::{collections::BTreeMap, net::IpAddr, num::NonZeroU16};

use ipnet::IpNet;

use crate::{allowed::Routes, directory::PeerId};

/// A realm beside that of the device's own interface: its peers have an interface of their own, and the
/// addresses of peers elsewhere may be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Realm(NonZeroU16);

impl Realm {
    /// The realm of that number, 1 to 65 535.
    #[must_use]
    pub const fn new(number: NonZeroU16) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0.get()
    }
}

/// What peers own, and what is accepted from them beside.
type Both = (Vec<(IpNet, PeerId)>, Vec<(IpNet, PeerId)>);

/// The prefix tables of all realms. `None` is that of the device's own interface.
#[derive(Clone, Debug, Default)]
pub struct Realms {
    own: Routes,
    others: BTreeMap<Realm, Routes>,
}

impl Realms {
    /// Prefixes with their realms and owners, and prefixes with those they are accepted from beside.
    pub fn new(
        owned: impl IntoIterator<Item = (Option<Realm>, IpNet, PeerId)>,
        accepted: impl IntoIterator<Item = (Option<Realm>, IpNet, PeerId)>,
    ) -> Self {
        let mut own = Both::default();
        let mut others: BTreeMap<Realm, Both> = BTreeMap::new();
        let owned = owned.into_iter().map(|it| (true, it));
        let accepted = accepted.into_iter().map(|it| (false, it));
        for (is_owned, (realm, prefix, peer)) in owned.chain(accepted) {
            let (owned, accepted) = match realm {
                None => &mut own,
                Some(realm) => others.entry(realm).or_default(),
            };
            let list = if is_owned { owned } else { accepted };
            list.push((prefix, peer));
        }
        let routes = |(owned, accepted): Both| Routes::new(owned, accepted);
        let others = others.into_iter();
        Self {
            own: routes(own),
            others: others.map(|(realm, both)| (realm, routes(both))).collect(),
        }
    }

    /// The table of one realm, if anybody is in it.
    #[must_use]
    pub fn of(&self, realm: Option<Realm>) -> Option<&Routes> {
        match realm {
            None => Some(&self.own),
            Some(realm) => self.others.get(&realm),
        }
    }

    /// Whom a packet of that realm for `address` is sent to.
    #[must_use]
    pub fn to(&self, realm: Option<Realm>, address: IpAddr) -> Option<PeerId> {
        self.of(realm)?.to(address)
    }

    /// Whether a packet of that realm from `address` may come from a peer of it.
    #[must_use]
    pub fn accept(&self, realm: Option<Realm>, address: IpAddr, from: PeerId) -> bool {
        self.of(realm)
            .is_some_and(|routes| routes.accept(address, from))
    }
}
