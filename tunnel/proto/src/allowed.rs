//! Allowed IPs: the longest prefix decides who owns an address.
//!
//! The table is built once from everything that is desired and swapped whole, so no packet ever
//! sees half a change. It answers both directions: whom to send an inner destination to, and
//! whether an inner source belongs to the peer it came from. Those are two questions where several
//! gateways lead to the same addresses: packets go through one of them, and come from all.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

use crate::{
    directory::PeerId,
    realm::{Realm, Realms},
};

/// Whom packets are sent to, and from whom they are accepted.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    owners: Table<PeerId>,
    /// Absent where nobody is accepted but the owner.
    sources: Option<Sources>,
}

#[derive(Clone, Debug)]
struct Sources {
    /// Positions in `lists`.
    table: Table<usize>,
    lists: Vec<Vec<PeerId>>,
}

/// The table in force, and its last answers: packets come in runs that go the same way, and a search
/// for each of them is what a fast core would be waiting for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    routes: Arc<Realms>,
    sent: Option<(Option<Realm>, IpAddr, PeerId)>,
    accepted: Option<(IpAddr, PeerId)>,
}

impl Lookup {
    /// Another table is in force.
    pub(crate) fn swap(&mut self, routes: Arc<Realms>) {
        *self = Self {
            routes,
            ..Self::default()
        };
    }

    /// [`Realms::to`].
    pub(crate) fn to(&mut self, realm: Option<Realm>, address: IpAddr) -> Option<PeerId> {
        if let Some((of, last, peer)) = self.sent
            && (of, last) == (realm, address)
        {
            return Some(peer);
        }
        let peer = self.routes.to(realm, address)?;
        self.sent = Some((realm, address, peer));
        Some(peer)
    }

    /// [`Realms::accept`]. A peer is in one realm, which is `realm`.
    pub(crate) fn accept(&mut self, realm: Option<Realm>, address: IpAddr, from: PeerId) -> bool {
        if self.accepted == Some((address, from)) {
            return true;
        }
        let is_accepted = self.routes.accept(realm, address, from);
        if is_accepted {
            self.accepted = Some((address, from));
        }
        is_accepted
    }
}

/// Prefixes and their owners.
#[derive(Clone, Debug)]
pub struct Table<T> {
    v4: PrefixMap<Ipv4Net, T>,
    v6: PrefixMap<Ipv6Net, T>,
}

impl Routes {
    /// Prefixes with their owners, and prefixes with those they are accepted from beside.
    pub fn new(
        owned: impl IntoIterator<Item = (IpNet, PeerId)>,
        accepted: impl IntoIterator<Item = (IpNet, PeerId)>,
    ) -> Self {
        let owned: Vec<(IpNet, PeerId)> = owned.into_iter().collect();
        let mut accepted = accepted.into_iter().peekable();
        let sources = accepted.peek().is_some().then(|| {
            let mut lists: BTreeMap<IpNet, Vec<PeerId>> = BTreeMap::new();
            for (prefix, peer) in owned.iter().copied().chain(accepted) {
                lists.entry(prefix.trunc()).or_default().push(peer);
            }
            let prefixes = lists.keys().copied().zip(0..);
            Sources {
                table: prefixes.collect(),
                lists: lists.into_values().collect(),
            }
        });
        Self {
            owners: owned.into_iter().collect(),
            sources,
        }
    }

    /// Whom a packet for `address` is sent to.
    #[must_use]
    pub fn to(&self, address: IpAddr) -> Option<PeerId> {
        self.owners.owner(address)
    }

    /// Whether a packet from `address` may come from a peer: the longest prefix with the address is
    /// its own, or one that is accepted from it.
    #[must_use]
    pub fn accept(&self, address: IpAddr, from: PeerId) -> bool {
        let Some(sources) = &self.sources else {
            return self.owners.owner(address) == Some(from);
        };
        let place = sources.table.owner(address);
        let list = place.and_then(|place| sources.lists.get(place));
        list.is_some_and(|list| list.contains(&from))
    }
}

impl<T: Copy> Table<T> {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self {
            v4: PrefixMap::new(),
            v6: PrefixMap::new(),
        }
    }

    /// Gives `prefix` to `owner` and returns who had exactly this prefix before.
    pub fn insert(&mut self, prefix: IpNet, owner: T) -> Option<T> {
        match prefix {
            IpNet::V4(prefix) => self.v4.insert(prefix.trunc(), owner),
            IpNet::V6(prefix) => self.v6.insert(prefix.trunc(), owner),
        }
    }

    /// The owner of the longest prefix that contains `address`.
    #[must_use]
    pub fn owner(&self, address: IpAddr) -> Option<T> {
        match address {
            IpAddr::V4(address) => self.v4.get_lpm(&Ipv4Net::from(address)).map(|(_, to)| *to),
            IpAddr::V6(address) => self.v6.get_lpm(&Ipv6Net::from(address)).map(|(_, to)| *to),
        }
    }

    /// How many prefixes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Copy> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> FromIterator<(IpNet, T)> for Table<T> {
    fn from_iter<I: IntoIterator<Item = (IpNet, T)>>(prefixes: I) -> Self {
        let mut table = Self::new();
        for (prefix, owner) in prefixes {
            table.insert(prefix, owner);
        }
        table
    }
}

/// The source and destination of an IP packet, as far as its first bytes tell.
#[must_use]
pub fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 => {
            let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
            let destination: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            Some((
                Ipv4Addr::from(source).into(),
                Ipv4Addr::from(destination).into(),
            ))
        }
        6 if packet.len() >= 40 => {
            let source: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
            let destination: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            Some((
                Ipv6Addr::from(source).into(),
                Ipv6Addr::from(destination).into(),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A linear model: the longest of all prefixes that contain the address, the last one given
    /// when two are equal.
    fn oracle(prefixes: &[(IpNet, u16)], address: IpAddr) -> Option<u16> {
        prefixes
            .iter()
            .filter(|(prefix, _)| prefix.contains(&address))
            .max_by_key(|(prefix, _)| prefix.prefix_len())
            .map(|(longest, _)| {
                let same = |(prefix, _): &&(IpNet, u16)| prefix.trunc() == longest.trunc();
                prefixes.iter().rfind(same).unwrap().1
            })
    }

    // Few distinct bits, so that prefixes nest and addresses hit.
    fn v4() -> impl Strategy<Value = Ipv4Addr> {
        (0_u32..64).prop_map(|bits| Ipv4Addr::from(bits << 26 | bits))
    }

    fn v6() -> impl Strategy<Value = Ipv6Addr> {
        (0_u128..64).prop_map(|bits| Ipv6Addr::from(bits << 122 | bits))
    }

    fn prefix() -> impl Strategy<Value = IpNet> {
        prop_oneof![
            (v4(), 0_u8..=32).prop_map(|(a, len)| Ipv4Net::new(a, len).unwrap().into()),
            (v6(), 0_u8..=128).prop_map(|(a, len)| Ipv6Net::new(a, len).unwrap().into()),
        ]
    }

    proptest! {
        #[test]
        fn the_table_agrees_with_a_linear_search(
            prefixes in prop::collection::vec((prefix(), any::<u16>()), 0..40),
            v4s in prop::collection::vec(v4(), 20),
            v6s in prop::collection::vec(v6(), 20),
        ) {
            let table: Table<u16> = prefixes.iter().copied().collect();
            let addresses = v4s.into_iter().map(IpAddr::from).chain(v6s.into_iter().map(IpAddr::from));
            for address in addresses {
                prop_assert_eq!(table.owner(address), oracle(&prefixes, address), "{}", address);
            }
        }

        #[test]
        fn a_source_is_accepted_by_its_longest_prefix(
            owned in prop::collection::vec((prefix(), 0_u32..4), 0..20),
            accepted in prop::collection::vec((prefix(), 0_u32..4), 0..20),
            v4s in prop::collection::vec(v4(), 20),
        ) {
            let owned: BTreeMap<IpNet, PeerId> = owned
                .into_iter()
                .map(|(prefix, peer)| (prefix.trunc(), PeerId(peer)))
                .collect();
            let accepted: Vec<(IpNet, PeerId)> = accepted
                .into_iter()
                .map(|(prefix, peer)| (prefix.trunc(), PeerId(peer)))
                .collect();
            let routes = Routes::new(owned.clone(), accepted.clone());
            let all: Vec<(IpNet, PeerId)> = owned.clone().into_iter().chain(accepted).collect();
            for address in v4s.into_iter().map(IpAddr::from) {
                let holds = |(prefix, _): &&(IpNet, PeerId)| prefix.contains(&address);
                let longest = all.iter().filter(holds).map(|(prefix, _)| prefix.prefix_len()).max();
                for peer in (0..4).map(PeerId) {
                    let own = |(prefix, from): &&(IpNet, PeerId)| {
                        Some(prefix.prefix_len()) == longest && *from == peer
                    };
                    let expected = all.iter().filter(holds).any(|it| own(&it));
                    prop_assert_eq!(routes.accept(address, peer), expected);
                }
                let sent = owned.iter().filter(|(prefix, _)| prefix.contains(&address));
                let sent = sent.max_by_key(|(prefix, _)| prefix.prefix_len());
                prop_assert_eq!(routes.to(address), sent.map(|(_, peer)| *peer));
            }
        }

        #[test]
        fn the_last_answer_is_the_tables_and_goes_with_it(
            tables in prop::collection::vec(
                (prop::collection::vec((prefix(), 0_u32..4), 0..6), prop::collection::vec((v4(), 0_u32..4), 0..6)),
                1..4,
            ),
        ) {
            let mut lookup = Lookup::default();
            for (prefixes, questions) in tables {
                let owned: BTreeMap<IpNet, PeerId> = prefixes
                    .into_iter()
                    .map(|(prefix, peer)| (prefix.trunc(), PeerId(peer)))
                    .collect();
                let routes = Arc::new(Realms::new(
                    owned.into_iter().map(|(prefix, peer)| (None, prefix, peer)),
                    [],
                ));
                lookup.swap(Arc::clone(&routes));
                let twice = questions.iter().flat_map(|question| [question; 2]);
                for (address, peer) in twice.map(|(address, peer)| (IpAddr::from(*address), PeerId(*peer))) {
                    prop_assert_eq!(lookup.to(None, address), routes.to(None, address));
                    prop_assert_eq!(lookup.accept(None, address, peer), routes.accept(None, address, peer));
                }
            }
        }

        #[test]
        fn any_bytes_have_addresses_or_none(bytes: Vec<u8>) {
            let _ = addresses(&bytes);
        }
    }

    #[test]
    fn the_addresses_of_a_packet_are_read_from_both_families() {
        let mut v4 = [0_u8; 20];
        v4[0] = 0x45;
        v4[12..16].copy_from_slice(&[10, 0, 0, 1]);
        v4[16..20].copy_from_slice(&[10, 0, 0, 2]);
        let (source, destination) = addresses(&v4).unwrap();
        assert_eq!(
            (source.to_string(), destination.to_string()),
            ("10.0.0.1".into(), "10.0.0.2".into())
        );
        assert_eq!(addresses(&v4[..19]), None);
        let mut v6 = [0_u8; 40];
        v6[0] = 0x60;
        v6[23] = 1;
        v6[39] = 2;
        let (source, destination) = addresses(&v6).unwrap();
        assert_eq!(
            (source.to_string(), destination.to_string()),
            ("::1".into(), "::2".into())
        );
        assert_eq!(addresses(&v6[..39]), None);
        assert_eq!(addresses(&[]), None);
    }
}
