//! From the peers one wants to the smallest change: sessions of unchanged peers survive.

mod share;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use kedge_core::{Code, Coded, Fix, Problem};

pub use self::share::{Other, owner};
use crate::{
    counters::Counters,
    keys::{PresharedKey, PublicKey},
    realm::{Realm, Realms},
};

/// One peer as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSpec {
    /// The name people see; unique, or empty where it is called by its key.
    pub name: String,
    /// The peer's key, which is its identity: a key that was not announced is another peer's.
    pub public_key: PublicKey,
    /// The key the peer goes over to, which it has already. It is accepted beside the other one and
    /// tried; who has it alone later on is the same peer still. Boxed, since most have none.
    pub next_key: Option<Box<PublicKey>>,
    /// The key both ends were given beside their pairs.
    pub preshared_key: Option<PresharedKey>,
    /// Where to reach it; `None` when only the peer can come to us.
    pub endpoint: Option<SocketAddr>,
    /// The inner addresses that are the peer's.
    pub allowed_ips: Vec<IpNet>,
    /// Inner addresses of others that packets from this peer may come from, though none is sent there
    /// through it: what another of several gateways is active for.
    pub accepts: Vec<IpNet>,
    /// Whether it passes on packets of others, as gateways do among each other: what one of them passed
    /// on goes to no other.
    pub relays: bool,
    /// Whose addresses its own are among; `None` are those of the device's own interface.
    pub realm: Option<Realm>,
    /// Send something at least this often, so that NAT mappings stay.
    pub keepalive: Option<Duration>,
    /// Keep a session up for ever, also when there is nothing to send.
    pub always_up: bool,
}

/// A number for a peer, as long as it is in the directory. Small, so that tables are indexed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub(crate) u32);

/// A peer in the directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number.
    pub id: PeerId,
    /// What is wanted.
    pub spec: PeerSpec,
    /// What is counted.
    pub counters: Arc<Counters>,
}

/// What changes from one set of peers to the next.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Peers that go. Their numbers may come again in `add`.
    pub remove: Vec<PeerId>,
    /// Peers that come.
    pub add: Vec<Entry>,
    /// Peers whose keepalive, endpoint, name, prefixes or preshared key are new; their sessions stay.
    pub update: Vec<Update>,
    /// Peers of other workers that come or are told anew.
    pub others: Vec<Other>,
    /// Keys of peers whose worker another key of theirs says, for the first worker.
    pub strays: Vec<(PeerId, PublicKey, u8)>,
    /// The new prefix table, when it differs.
    pub table: Option<Arc<Realms>>,
}

/// A peer that stays.
#[derive(Clone, Debug)]
pub struct Update {
    /// What is wanted of it.
    pub entry: Entry,
    /// The key it came with, which says whose of several workers it is.
    pub home: PublicKey,
    /// Whether the wanted endpoint is another one than before; else the peer keeps the address it
    /// was last heard from.
    pub endpoint_changed: bool,
    /// Whether the preshared key is another one than before.
    pub preshared_key_changed: bool,
}

/// Peers that cannot be had together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Two peers have one name.
    #[error("two peers are called `{0}`")]
    DuplicateName(String),
    /// Two peers have one key.
    #[error("`{0}` and `{1}` have the same public key")]
    DuplicateKey(String, String),
    /// Two peers of one realm have exactly the same prefix.
    #[error("{prefix} belongs to `{first}` and to `{second}`")]
    DuplicatePrefix {
        /// The prefix.
        prefix: IpNet,
        /// Who has it.
        first: String,
        /// Who wants it too.
        second: String,
    },
    /// A peer wants everything: our own datagrams would go into the tunnel.
    #[error("{prefix} of `{name}` would lead the whole host into the tunnel")]
    Everything {
        /// The prefix.
        prefix: IpNet,
        /// Whose.
        name: String,
    },
    /// A peer's endpoint is inside the tunnel.
    #[error("the endpoint {endpoint} of `{name}` is inside {prefix}, which leads into the tunnel")]
    EndpointInside {
        /// The endpoint.
        endpoint: SocketAddr,
        /// Whose.
        name: String,
        /// The prefix.
        prefix: IpNet,
    },
    /// A peer has our own key.
    #[error("`{0}` has this device's own public key")]
    OwnKey(String),
}

/// The peers of one device.
#[derive(Debug)]
pub struct Directory {
    /// Whose peers they are; without it the rules between them are somebody else's.
    own: Option<Vec<PublicKey>>,
    /// Boxed, since nodes of such a tree are only half full.
    peers: BTreeMap<PublicKey, Box<Entry>>,
    /// The keys that peers came with, where they have others by now.
    homes: BTreeMap<PeerId, PublicKey>,
}

impl Directory {
    /// An empty directory for the device with the key `own`.
    #[must_use]
    pub fn new(own: PublicKey) -> Self {
        Self {
            own: Some(vec![own]),
            peers: BTreeMap::new(),
            homes: BTreeMap::new(),
        }
    }

    /// An empty directory for peers that go together already, such as those of a
    /// [configuration](crate::uapi::Configuration), and whose routes are not ours.
    #[must_use]
    pub const fn unruled() -> Self {
        Self {
            own: None,
            peers: BTreeMap::new(),
            homes: BTreeMap::new(),
        }
    }

    /// They are peers of a device with these keys from here on.
    pub fn set_own(&mut self, own: Vec<PublicKey>) {
        self.own = Some(own);
    }

    /// What changes when exactly `specs` are wanted.
    ///
    /// # Errors
    ///
    /// The peers do not go together; nothing changes.
    pub fn plan(&self, specs: Vec<PeerSpec>) -> Result<Change, PlanError> {
        let prefixes = match &self.own {
            Some(own) => check(own, &specs)?,
            None => prefixes(&specs),
        };
        let known = self.known(&specs);
        let mut change = Change::default();
        let used: BTreeSet<PeerId> = known.values().map(|entry| entry.id).collect();
        let gone = self.entries().filter(|entry| !used.contains(&entry.id));
        change.remove.extend(gone.map(|entry| entry.id));
        let mut free = (0_u32..).map(PeerId).filter(|id| !used.contains(id));
        let accepted = accepted(&specs);
        let mut owners = BTreeMap::new();
        for spec in specs {
            let key = spec.public_key;
            let id = match known.get(&key) {
                Some(&old) => {
                    if old.spec != spec {
                        let endpoint_changed = old.spec.endpoint != spec.endpoint;
                        let preshared_key_changed = old.spec.preshared_key != spec.preshared_key;
                        let entry = Entry {
                            spec,
                            ..old.clone()
                        };
                        change.update.push(Update {
                            entry,
                            home: self.home(old),
                            endpoint_changed,
                            preshared_key_changed,
                        });
                    }
                    old.id
                }
                None => {
                    let Some(id) = free.next() else { continue };
                    change.add.push(Entry {
                        id,
                        spec,
                        counters: Arc::default(),
                    });
                    id
                }
            };
            owners.insert(key, id);
        }
        if !change.is_empty() {
            let known = |(realm, prefix, key): Wanted| Some((realm, prefix, *owners.get(&key)?));
            let owned = prefixes.into_iter().filter_map(known);
            let accepted = accepted.into_iter().filter_map(known);
            change.table = Some(Arc::new(Realms::new(owned, accepted)));
        }
        Ok(change)
    }

    /// Takes over what was planned.
    pub fn commit(&mut self, change: &Change) {
        // Who goes over to another key is found below it from here on.
        let updated: BTreeSet<PeerId> = change.update.iter().map(|it| it.entry.id).collect();
        self.peers
            .retain(|_, entry| !change.remove.contains(&entry.id) && !updated.contains(&entry.id));
        self.homes.retain(|id, _| !change.remove.contains(id));
        for Update { entry, home, .. } in &change.update {
            if entry.spec.public_key == *home {
                self.homes.remove(&entry.id);
            } else {
                self.homes.insert(entry.id, *home);
            }
        }
        for update in change
            .update
            .iter()
            .filter(|update| update.endpoint_changed)
        {
            // Whoever asks next is told so, also before the worker has taken the change.
            update
                .entry
                .counters
                .set_endpoint(update.entry.spec.endpoint);
        }
        for entry in &change.add {
            entry.counters.set_endpoint(entry.spec.endpoint);
        }
        let updated = change.update.iter().map(|update| &update.entry);
        let of = |entry: &Entry| (entry.spec.public_key, Box::new(entry.clone()));
        grow(&mut self.peers, change.add.iter().chain(updated).map(of));
    }

    /// Takes where each peer is for where it is wanted: what comes next changes an endpoint only if
    /// it names another one.
    pub fn settle_endpoints(&mut self) {
        for entry in self.peers.values_mut() {
            entry.spec.endpoint = entry.counters.read().endpoint;
        }
    }

    /// The key a peer came with, which says whose of several workers it is as long as it is here.
    #[must_use]
    pub fn home(&self, entry: &Entry) -> PublicKey {
        let home = self.homes.get(&entry.id).copied();
        home.unwrap_or(entry.spec.public_key)
    }

    /// The peers, in the order of their keys.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.peers.values().map(Box::as_ref)
    }

    /// The peer with that key.
    #[must_use]
    pub fn get(&self, key: &PublicKey) -> Option<&Entry> {
        self.peers.get(key).map(Box::as_ref)
    }

    /// The peer of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries().find(|entry| entry.spec.name == name)
    }
}

impl Directory {
    /// Who of the wanted is here already: by its key, by the one it announced before, or by the one it
    /// announces.
    fn known(&self, specs: &[PeerSpec]) -> BTreeMap<PublicKey, &Entry> {
        let announced = |entry| Some((Entry::spec(entry).next()?, entry));
        let announced: BTreeMap<PublicKey, &Entry> = self.entries().filter_map(announced).collect();
        let wanted: BTreeSet<PublicKey> = specs.iter().map(|spec| spec.public_key).collect();
        let other = |entry: &&Entry| !wanted.contains(&entry.spec.public_key);
        let known = |spec: &PeerSpec| {
            let key = spec.public_key;
            let before = || announced.get(&key).copied().filter(other);
            let after = || self.get(&spec.next()?).filter(other);
            let entry = self.get(&key).or_else(before).or_else(after)?;
            // Elsewhere it is somebody else: nothing of the one it was goes on.
            (entry.spec.realm == spec.realm).then_some((key, entry))
        };
        specs.iter().filter_map(known).collect()
    }
}

impl Entry {
    const fn spec(&self) -> &PeerSpec {
        &self.spec
    }
}

impl PeerSpec {
    /// The peer's keys, the newest last.
    pub fn keys(&self) -> impl Iterator<Item = PublicKey> {
        std::iter::once(self.public_key).chain(self.next())
    }

    /// The key it goes over to.
    #[must_use]
    pub fn next(&self) -> Option<PublicKey> {
        self.next_key.as_deref().copied()
    }
}

impl Change {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.add.is_empty() && self.update.is_empty()
    }
}

impl Coded for PlanError {
    fn problem(&self) -> Problem {
        let code = match self {
            Self::DuplicateName(_) | Self::DuplicatePrefix { .. } => Code::ConfigRule,
            Self::DuplicateKey(..) | Self::OwnKey(_) => Code::TunKey,
            Self::Everything { .. } | Self::EndpointInside { .. } => Code::TunOutsideBounds,
        };
        Problem::new(code, "the tunnel's peers do not go together")
            .evidence(self.to_string())
            .consequence("the peers from before stay as they are")
            .fix(Fix::text(
                "give every peer its own name, key and prefixes; endpoints stay outside of them",
            ))
    }
}

/// Adds entries, of which the last counts where there are several with one key. Many are put in as a whole: nodes
/// that are filled one by one are half empty, and those they took the place of lie as holes among what was
/// made meanwhile. Ten thousand peers are known from one message.
pub(crate) fn grow<K: Ord, V>(map: &mut BTreeMap<K, V>, more: impl Iterator<Item = (K, V)>) {
    let more: Vec<(K, V)> = more.collect();
    if more.len() > map.len() / 4 {
        map.append(&mut more.into_iter().collect());
    } else {
        map.extend(more);
    }
}

/// Builds a map anew that has grown by much since it had `before` entries, one by one.
pub(crate) fn pack<K: Ord, V>(map: &mut BTreeMap<K, V>, before: usize) {
    if map.len() > before + before / 4 {
        *map = std::mem::take(map).into_iter().collect();
    }
}

/// Checks the rules between peers; returns every prefix with its owner's key.
fn check(own: &[PublicKey], specs: &[PeerSpec]) -> Result<Vec<Wanted>, PlanError> {
    let mut names = BTreeSet::new();
    let mut keys = BTreeMap::new();
    let mut prefixes: BTreeMap<(Option<Realm>, IpNet), &PeerSpec> = BTreeMap::new();
    for spec in specs {
        if spec.keys().any(|key| own.contains(&key)) {
            return Err(PlanError::OwnKey(spec.name.clone()));
        }
        if !names.insert(&spec.name) {
            return Err(PlanError::DuplicateName(spec.name.clone()));
        }
        for key in spec.keys() {
            if let Some(first) = keys.insert(key, &spec.name) {
                return Err(PlanError::DuplicateKey(first.clone(), spec.name.clone()));
            }
        }
        for prefix in &spec.allowed_ips {
            let prefix = prefix.trunc();
            if prefix.prefix_len() == 0 {
                return Err(PlanError::Everything {
                    prefix,
                    name: spec.name.clone(),
                });
            }
            if let Some(first) = prefixes.insert((spec.realm, prefix), spec)
                && first.public_key != spec.public_key
            {
                let (first, second) = (first.name.clone(), spec.name.clone());
                return Err(PlanError::DuplicatePrefix {
                    prefix,
                    first,
                    second,
                });
            }
        }
    }
    for spec in specs {
        let Some(endpoint) = spec.endpoint else {
            continue;
        };
        // What other realms route is nothing to the sockets.
        let mut own = prefixes.keys().filter(|(realm, _)| realm.is_none());
        if let Some((_, prefix)) = own.find(|(_, prefix)| prefix.contains(&endpoint.ip())) {
            let (name, prefix) = (spec.name.clone(), *prefix);
            return Err(PlanError::EndpointInside {
                endpoint,
                name,
                prefix,
            });
        }
    }
    Ok(prefixes
        .into_iter()
        .map(|((realm, prefix), spec)| (realm, prefix, spec.public_key))
        .collect())
}

/// A prefix of a realm, and whose it is.
type Wanted = (Option<Realm>, IpNet, PublicKey);

/// Every prefix with its owner's key.
fn prefixes(specs: &[PeerSpec]) -> Vec<Wanted> {
    let of = |spec: &PeerSpec| {
        let (realm, key) = (spec.realm, spec.public_key);
        let prefixes = spec.allowed_ips.iter();
        prefixes
            .map(|prefix| (realm, *prefix, key))
            .collect::<Vec<_>>()
    };
    specs.iter().flat_map(of).collect()
}

/// Every prefix that is accepted beside, with the key of the peer it is accepted from.
fn accepted(specs: &[PeerSpec]) -> Vec<Wanted> {
    let of = |spec: &PeerSpec| {
        let (realm, key) = (spec.realm, spec.public_key);
        let prefixes = spec.accepts.iter();
        prefixes
            .map(|prefix| (realm, *prefix, key))
            .collect::<Vec<_>>()
    };
    specs.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests;
