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
    let in_cluster = in_cluster(snapshot, cluster);
    let before = published_last(snapshot, balancer);
    let mut known = balancer.kept.endpoint.iter().chain(&before);
    let is_ours = known.any(|known| in_cluster.as_ref() == Some(known));
    follows(balancer) && is_ours && in_cluster.as_ref() != Some(set)
}

/// The endpoint a Cluster still has that shall have this one and may not be written for a moment. It is
/// the one that is told meanwhile: a Cluster whose endpoint nobody tells any more is never moved again.
#[must_use]
pub fn left_behind(
    snapshot: &Snapshot,
    cluster: &Name,
    balancer: &Balancer,
    set: &Endpoint,
) -> Option<Endpoint> {
    let key = ObjectKey::new(capi::GROUP, "Cluster", cluster.clone());
    let waits = snapshot.refused.contains_key(&key);
    (waits && is_to_move(snapshot, cluster, balancer, set))
        .then(|| in_cluster(snapshot, cluster))
        .flatten()
}

/// The endpoint in the Cluster: the one we moved, or the one that was copied.
fn in_cluster(snapshot: &Snapshot, cluster: &Name) -> Option<Endpoint> {
    followed(snapshot, cluster).or_else(|| {
        let cluster = snapshot.clusters.get(cluster)?;
        cluster.spec.control_plane_endpoint.clone()
    })
}
