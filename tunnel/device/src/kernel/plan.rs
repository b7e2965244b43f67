//! From what the kernel has to what is wanted, by the smallest change. No I/O.
//!
//! Peers are changed in an order in which no packet of one that stays goes astray: first prefixes move to
//! whom they belong, then those that nobody is to have go, then peers.
//!
//! A prefix cannot be taken from a peer by itself (kernels before 6.16): its peer's prefixes would have to be
//! replaced, all of them, and packets that come meanwhile would find none. So it is given to a peer that is
//! removed with it, whose key nobody can have the private one of.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use ipnet::IpNet;
use kedge_net::wireguard::{Observed, ObservedPeer, PeerSet, SecretKey, Set};
use kedge_tunnel_proto::{
    directory::PeerSpec,
    keys::{PrivateKey, PublicKey},
};

use crate::backend::Diff;

/// What the kernel's device is to have.
pub(super) struct Wanted<'a> {
    pub key: &'a PrivateKey,
    /// The UDP port; 0 is whichever it has.
    pub port: u16,
    pub peers: Vec<&'a PeerSpec>,
    /// Where peers were wanted the last time: one that has moved since stays where it is, unless it is
    /// wanted elsewhere.
    pub placed: &'a BTreeMap<PublicKey, Option<SocketAddr>>,
}

/// What brings the kernel from `observed` to `wanted`.
pub(super) fn diff(wanted: &Wanted<'_>, observed: &Observed) -> (Set, Diff) {
    let mut set = Set::default();
    let mut diff = Diff::default();
    let key = SecretKey::from_bytes(wanted.key.expose());
    if observed.private_key != key {
        set.private_key = key;
    }
    if wanted.port != 0 && observed.listen_port != wanted.port {
        set.listen_port = Some(wanted.port);
    }
    if observed.fwmark != 0 {
        set.fwmark = Some(0);
    }
    diff.device = !set.is_empty();
    let there: BTreeMap<_, _> = observed
        .peers
        .iter()
        .map(|peer| (peer.public_key, peer))
        .collect();
    let mut taken: BTreeSet<IpNet> = BTreeSet::new();
    let mut kept = BTreeSet::new();
    for spec in &wanted.peers {
        let key = *spec.public_key.as_bytes();
        let prefixes = prefixes(spec);
        match there.get(&key) {
            None => {
                set.peers.push(new(spec, &prefixes));
                diff.added.push(spec.public_key);
            }
            Some(peer) => {
                if let Some(change) = change(wanted, spec, peer, &prefixes) {
                    set.peers.extend(stop_keepalive(peer, &change));
                    set.peers.push(change);
                    diff.changed.push(spec.public_key);
                } else if peer.allowed_ips.iter().any(|net| !prefixes.contains(net)) {
                    diff.changed.push(spec.public_key);
                }
                kept.insert(key);
            }
        }
        taken.extend(prefixes);
    }
    let stay = observed
        .peers
        .iter()
        .filter(|peer| kept.contains(&peer.public_key));
    let theirs = stay.flat_map(|peer| &peer.allowed_ips);
    let nobodys: BTreeSet<IpNet> = theirs.filter(|net| !taken.contains(net)).copied().collect();
    if !nobodys.is_empty() {
        set.peers.push(PeerSet {
            allowed_ips: nobodys.into_iter().collect(),
            ..PeerSet::of(NOBODY)
        });
        set.peers.push(gone(NOBODY));
    }
    for peer in observed
        .peers
        .iter()
        .filter(|peer| !kept.contains(&peer.public_key))
    {
        set.peers.push(gone(peer.public_key));
        diff.removed.extend(PublicKey::from_bytes(peer.public_key));
    }
    (set, diff)
}

/// A peer that is not there.
pub(super) fn new(spec: &PeerSpec, prefixes: &BTreeSet<IpNet>) -> PeerSet {
    PeerSet {
        preshared_key: Some(preshared_key(spec)),
        endpoint: spec.endpoint,
        keepalive: Some(keepalive(spec)),
        replace_allowed_ips: true,
        allowed_ips: prefixes.iter().copied().collect(),
        ..PeerSet::of(*spec.public_key.as_bytes())
    }
}

/// The prefixes of a peer as the kernel tells them.
pub(super) fn prefixes(spec: &PeerSpec) -> BTreeSet<IpNet> {
    spec.allowed_ips.iter().map(IpNet::trunc).collect()
}

/// A peer that goes.
pub(super) fn gone(public_key: [u8; 32]) -> PeerSet {
    PeerSet {
        remove: true,
        ..PeerSet::of(public_key)
    }
}

/// Seconds between keepalives.
pub(super) fn keepalive(spec: &PeerSpec) -> u16 {
    let seconds = spec.keepalive.map_or(0, |keepalive| keepalive.as_secs());
    u16::try_from(seconds).unwrap_or(u16::MAX)
}

/// What changes of a peer that is there, apart from prefixes that it loses.
fn change(
    wanted: &Wanted<'_>,
    spec: &PeerSpec,
    peer: &ObservedPeer,
    prefixes: &BTreeSet<IpNet>,
) -> Option<PeerSet> {
    let placed = wanted.placed.get(&spec.public_key);
    let moved = placed != Some(&spec.endpoint) || peer.endpoint.is_none();
    let endpoint = spec.endpoint.filter(|_| moved);
    let has: BTreeSet<IpNet> = peer.allowed_ips.iter().copied().collect();
    let key = preshared_key(spec);
    let set = PeerSet {
        update_only: true,
        preshared_key: (peer.preshared_key != key).then_some(key),
        endpoint: endpoint.filter(|endpoint| peer.endpoint != Some(*endpoint)),
        keepalive: Some(keepalive(spec)).filter(|seconds| peer.keepalive != *seconds),
        allowed_ips: prefixes.difference(&has).copied().collect(),
        ..PeerSet::of(peer.public_key)
    };
    let unchanged = PeerSet {
        update_only: true,
        ..PeerSet::of(peer.public_key)
    };
    (set != unchanged).then_some(set)
}

/// The kernel heeds a new interval only after the old one, unless it is switched on.
fn stop_keepalive(peer: &ObservedPeer, change: &PeerSet) -> Option<PeerSet> {
    let other = change.keepalive.is_some_and(|seconds| seconds != 0);
    (other && peer.keepalive != 0).then(|| PeerSet {
        update_only: true,
        keepalive: Some(0),
        ..PeerSet::of(peer.public_key)
    })
}

fn preshared_key(spec: &PeerSpec) -> Option<SecretKey> {
    let key = spec.preshared_key.as_ref()?;
    SecretKey::from_bytes(key.expose())
}

/// A point of small order: whatever one multiplies it with is zero, so that nobody can complete a handshake
/// as this peer.
const NOBODY: [u8; 32] = {
    let mut point = [0; 32];
    point[0] = 1;
    point
};

#[cfg(test)]
mod tests;
