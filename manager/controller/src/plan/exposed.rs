//! What hosts that are out had offered for their cluster: nobody stands by their word any more.
//!
//! An exposure names the host that said it last. Whoever speaks next says its whole set anew, under
//! its own name, so what is withdrawn here comes back with the next speaker that wants it.

use std::collections::BTreeSet;

use kedge_crd::{HttpLoadBalancerSpec, Resource as _, TcpLoadBalancerSpec, meta};

use super::desired::Desired;
use crate::{
    managers,
    snapshot::Snapshot,
    store::{Layers, Name, ObjectKey},
};

/// The annotation that names the host that said an exposure last.
pub const SPEAKER: &str = "kedge.dev/exposed-by";

/// Withdraws what hosts said that are suspended or banned.
pub fn withdraw(snapshot: &Snapshot, wanted: &mut Desired) {
    for key in withdrawn(snapshot) {
        wanted.withdraw(&key, managers::EXPOSED);
    }
}

/// What hosts said that are suspended or banned; nothing while a document is unreadable.
#[must_use]
pub fn withdrawn(snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
    let out = snapshot
        .hosts
        .iter()
        .filter(|(_, host)| !host.spec.is_active());
    let out: BTreeSet<&Name> = out.map(|(name, _)| name).collect();
    if out.is_empty() || snapshot.incomplete() {
        return BTreeSet::new();
    }
    let kinds = [TcpLoadBalancerSpec::KIND, HttpLoadBalancerSpec::KIND];
    let all = kinds
        .into_iter()
        .flat_map(|kind| snapshot.objects.of_kind(meta::GROUP, kind));
    let is_out = |key: &ObjectKey, layers: &Layers| {
        let speaker = speaker(layers).map(|host| Name::new(&key.name.namespace, host));
        speaker.is_some_and(|speaker| out.contains(&speaker))
    };
    let withdrawn = all.filter(|(key, layers)| is_out(key, layers));
    withdrawn.map(|(key, _)| key.clone()).collect()
}

/// The host that said an exposure last.
#[must_use]
pub fn speaker(layers: &Layers) -> Option<&str> {
    let layer = layers.owned.get(managers::EXPOSED)?;
    let annotations = layer.pointer("/metadata/annotations")?;
    annotations.get(SPEAKER)?.as_str()
}
