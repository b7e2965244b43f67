//! What a device is told to be, and how a `set` changes it.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use ipnet::IpNet;

use super::{PeerSet, Set};
use crate::{
    directory::{PeerSpec, pack},
    keys::{PresharedKey, PrivateKey, PublicKey},
};

/// What a device is told to be.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    private_key: Option<PrivateKey>,
    public_key: Option<PublicKey>,
    listen_port: u16,
    fwmark: u32,
    peers: BTreeMap<PublicKey, PeerConfiguration>,
}

/// Each prefix has one owner; whoever is given it takes it over.
type Owners = BTreeMap<IpNet, PublicKey>;

/// What a peer is told to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerConfiguration {
    /// The key that was shared before.
    pub preshared_key: Option<PresharedKey>,
    /// Where it was said to be, or was last heard from.
    pub endpoint: Option<SocketAddr>,
    /// Seconds between keepalives; 0 sends none.
    pub keepalive: u16,
    /// The inner addresses that are its, in order. A list, since most peers have one or two.
    pub allowed_ips: Vec<IpNet>,
}

impl PeerConfiguration {
    fn add(&mut self, prefix: IpNet) {
        if let Err(at) = self.allowed_ips.binary_search(&prefix) {
            self.allowed_ips.insert(at, prefix);
        }
    }

    /// Whether it was there.
    fn take(&mut self, prefix: &IpNet) -> bool {
        let found = self.allowed_ips.binary_search(prefix);
        found.map(|at| self.allowed_ips.remove(at)).is_ok()
    }
}

impl Configuration {
    /// Makes the changes, in the order they are listed.
    pub fn apply(&mut self, set: Set) {
        if let Some(key) = set.private_key {
            self.public_key = key.as_ref().map(PrivateKey::public);
            self.private_key = key;
            if let Some(own) = self.public_key {
                self.peers.remove(&own);
            }
        }
        self.listen_port = set.listen_port.unwrap_or(self.listen_port);
        self.fwmark = set.fwmark.unwrap_or(self.fwmark);
        if set.replace_peers {
            self.peers.clear();
        }
        let before = self.peers.len();
        // Who owns what is looked up for as long as prefixes are given, and not kept beside the lists.
        let mut owners = self.owners();
        for peer in set.peers {
            self.apply_to_peer(peer, &mut owners);
        }
        pack(&mut self.peers, before);
    }

    fn owners(&self) -> Owners {
        let all = self.peers.iter();
        all.flat_map(|(key, peer)| peer.allowed_ips.iter().map(|prefix| (*prefix, *key)))
            .collect()
    }

    /// The device's key.
    #[must_use]
    pub const fn private_key(&self) -> Option<&PrivateKey> {
        self.private_key.as_ref()
    }

    /// The key that belongs to it.
    #[must_use]
    pub const fn public_key(&self) -> Option<PublicKey> {
        self.public_key
    }

    /// The UDP port it was told to have; 0 lets the kernel choose.
    #[must_use]
    pub const fn listen_port(&self) -> u16 {
        self.listen_port
    }

    /// The mark of the device's own datagrams; 0 is none.
    #[must_use]
    pub const fn fwmark(&self) -> u32 {
        self.fwmark
    }

    /// The peers, in the order of their keys.
    pub fn peers(&self) -> impl Iterator<Item = (&PublicKey, &PeerConfiguration)> {
        self.peers.iter()
    }

    /// Takes over where a peer was heard from.
    pub fn note_endpoint(&mut self, key: &PublicKey, endpoint: Option<SocketAddr>) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.endpoint = endpoint;
        }
    }

    /// The peers as a directory takes them: none as long as the device has no key, with which there
    /// is no handshake.
    #[must_use]
    pub fn specs(&self) -> Vec<PeerSpec> {
        if self.private_key.is_none() {
            return Vec::new();
        }
        let spec = |(key, peer): (&PublicKey, &PeerConfiguration)| PeerSpec {
            // It is called by its key, which need not stand there twice.
            name: String::new(),
            public_key: *key,
            preshared_key: peer.preshared_key.clone(),
            endpoint: peer.endpoint,
            allowed_ips: peer.allowed_ips.clone(),
            keepalive: (peer.keepalive > 0).then(|| Duration::from_secs(peer.keepalive.into())),
            always_up: false,
            accepts: Vec::new(),
            relays: false,
            realm: None,
            next_key: None,
        };
        self.peers.iter().map(spec).collect()
    }

    fn apply_to_peer(&mut self, set: PeerSet, owners: &mut Owners) {
        let key = set.public_key;
        // A configuration that is shared by all hosts lists us among our peers.
        if self.public_key == Some(key) {
            return;
        }
        if set.remove {
            self.remove(&key, owners);
            return;
        }
        if set.update_only && !self.peers.contains_key(&key) {
            return;
        }
        let peer = self.peers.entry(key).or_default();
        if let Some(preshared_key) = set.preshared_key {
            peer.preshared_key = preshared_key;
        }
        peer.endpoint = set.endpoint.or(peer.endpoint);
        peer.keepalive = set.keepalive.unwrap_or(peer.keepalive);
        if set.replace_allowed_ips {
            for prefix in std::mem::take(&mut peer.allowed_ips) {
                owners.remove(&prefix);
            }
        }
        for allowed in set.allowed_ips {
            if allowed.remove {
                self.take_away(&key, allowed.prefix, owners);
            } else {
                self.give(key, allowed.prefix, owners);
            }
        }
        if let Some(peer) = self.peers.get_mut(&key) {
            peer.allowed_ips.shrink_to_fit();
        }
    }

    fn give(&mut self, key: PublicKey, prefix: IpNet, owners: &mut Owners) {
        if let Some(before) = owners.insert(prefix, key)
            && let Some(peer) = self.peers.get_mut(&before)
        {
            peer.take(&prefix);
        }
        if let Some(peer) = self.peers.get_mut(&key) {
            peer.add(prefix);
        }
    }

    fn take_away(&mut self, key: &PublicKey, prefix: IpNet, owners: &mut Owners) {
        if let Some(peer) = self.peers.get_mut(key)
            && peer.take(&prefix)
        {
            owners.remove(&prefix);
        }
    }

    fn remove(&mut self, key: &PublicKey, owners: &mut Owners) {
        if let Some(peer) = self.peers.remove(key) {
            for prefix in peer.allowed_ips {
                owners.remove(&prefix);
            }
        }
    }
}
