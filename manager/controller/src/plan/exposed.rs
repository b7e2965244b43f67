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
    store::{Layers, Name},
};

/// The annotation that names the host that said an exposure last.
pub const SPEAKER: &str = "kedge.dev/exposed-by";

/// Withdraws what hosts said that are suspended or banned.
pub fn withdraw(snapshot: &Snapshot, wanted: &mut Desired) {
    let out = snapshot
        .hosts
        .iter()
        .filter(|(_, host)| !host.spec.is_active());
    let out: BTreeSet<&Name> = out.map(|(name, _)| name).collect();
    if out.is_empty() {
        return;
    }
    for kind in [TcpLoadBalancerSpec::KIND, HttpLoadBalancerSpec::KIND] {
        for (key, layers) in snapshot.objects.of_kind(meta::GROUP, kind) {
            let speaker = speaker(layers).map(|host| Name::new(&key.name.namespace, host));
            if speaker.is_some_and(|speaker| out.contains(&speaker)) {
                wanted.withdraw(key, managers::EXPOSED);
            }
        }
    }
}

/// The host that said an exposure last.
#[must_use]
pub fn speaker(layers: &Layers) -> Option<&str> {
    let layer = layers.owned.get(managers::EXPOSED)?;
    let annotations = layer.pointer("/metadata/annotations")?;
    annotations.get(SPEAKER)?.as_str()
}
