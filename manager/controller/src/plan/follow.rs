//! An endpoint that moves with its target: Cluster API's core copies it once only, so the Cluster's
//! own is moved as well, and never over a value of anybody else.

use kedge_crd::{
    Endpoint,
    balancer::{EndpointPolicy, Mode},
    capi,
};

use super::balancer::Balancer;
use crate::{
    managers,
    snapshot::Snapshot,
    store::{Name, ObjectKey},
};

/// Whether the endpoint may move with the host it is the address of.
#[must_use]
pub fn follows(balancer: &Balancer) -> bool {
    balancer.spec.mode == Some(Mode::HostAddress)
        && balancer.spec.endpoint_policy == Some(EndpointPolicy::FollowTarget)
}

/// The endpoint we moved in the Cluster itself.
#[must_use]
pub fn followed(snapshot: &Snapshot, cluster: &Name) -> Option<Endpoint> {
    let key = ObjectKey::new(capi::GROUP, "Cluster", cluster.clone());
    let layer = snapshot.objects.owned(&key, managers::FOLLOW)?;
    let endpoint = layer.pointer("/spec/controlPlaneEndpoint")?;
    serde_json::from_value(endpoint.clone()).ok()
}

/// The endpoint that was in force before the target moved, while not everybody was told yet: what
/// was decided is written first, and the status last.
#[must_use]
pub fn published_last(snapshot: &Snapshot, balancer: &Balancer) -> Option<Endpoint> {
    let layers = snapshot.balancers.get(&balancer.name)?;
    let last = layers.status.endpoint.clone();
    last.filter(|_| follows(balancer))
}

/// Whether the Cluster still has the endpoint before and shall have this one: no value of anybody
/// else is replaced.
#[must_use]
pub fn is_to_move(
    snapshot: &Snapshot,
    cluster: &Name,
    balancer: &Balancer,
    set: &Endpoint,
) -> bool {
    let copied = || {
        let cluster = snapshot.clusters.get(cluster)?;
        cluster.spec.control_plane_endpoint.clone()
    };
    let in_cluster = followed(snapshot, cluster).or_else(copied);
    let before = published_last(snapshot, balancer);
    let mut known = balancer.kept.endpoint.iter().chain(&before);
    let is_ours = known.any(|known| in_cluster.as_ref() == Some(known));
    follows(balancer) && is_ours && in_cluster.as_ref() != Some(set)
}
