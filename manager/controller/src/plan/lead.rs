//! Which of several LoadBalancers of a cluster fills its endpoint; the others stand beside it.

use std::collections::BTreeMap;

use kedge_crd::{Endpoint, capi};

use super::balancer::{Balancer, Case};
use crate::{
    managers,
    snapshot::Snapshot,
    store::{Name, ObjectKey},
};

/// The LoadBalancer of each cluster that fills its endpoint.
#[must_use]
pub fn leading(snapshot: &Snapshot, cases: &[Case]) -> BTreeMap<Name, Name> {
    let mut asked = Vec::new();
    for case in cases {
        if let Ok(balancer) = &case.asked {
            let order = order(&balancer.name, &case.cluster.name);
            asked.push((
                claim_to_lead(snapshot, case, balancer),
                order,
                &case.cluster,
            ));
        }
    }
    // The first is the last to be put in.
    asked.sort_by(|one, other| other.cmp(one));
    let leading = asked.into_iter();
    leading
        .map(|(_, (_, name), cluster)| (cluster.clone(), name.clone()))
        .collect()
}

/// How much speaks for it that this LoadBalancer fills the cluster's endpoint, most first. Of several
/// it is the one whose endpoint is in force, else one whose endpoint was, else the one that is named
/// as the cluster, else the first by name.
fn claim_to_lead(snapshot: &Snapshot, case: &Case, balancer: &Balancer) -> impl Ord + use<> {
    let fill = case.infra.as_ref().and_then(|infra| {
        let fill = snapshot.objects.owned(&infra.key, managers::ENDPOINT)?;
        let endpoint = fill.pointer("/spec/controlPlaneEndpoint")?;
        serde_json::from_value::<Endpoint>(endpoint.clone()).ok()
    });
    let written = case.infra.as_ref().map(|infra| infra.written.clone());
    let key = ObjectKey::new(capi::GROUP, "Cluster", case.cluster.clone());
    let copied = snapshot.clusters.get(&case.cluster);
    let copied = copied.and_then(|cluster| cluster.spec.control_plane_endpoint.clone());
    // What we copied ourselves, because nobody else does, is no word of the cluster's own.
    let (ours, theirs) = match snapshot.objects.owned(&key, managers::ENDPOINT) {
        Some(_) => (copied, None),
        None => (None, copied),
    };
    let published = [theirs, written, fill, ours];
    let mut published = published.iter().flatten().filter(|it| it.is_valid());
    let kept = balancer.kept.endpoint.as_ref();
    let own = kept.or(balancer.given.endpoint.as_ref());
    // One whose record was lost still says what it had: without that it gave way, for one plan, to another
    // that has the same endpoint.
    let said = snapshot.balancers.get(&balancer.name);
    let own = own.or(said.and_then(|said| said.status.endpoint.as_ref()));
    let in_force = published.next().is_some_and(|first| Some(first) == own);
    let was_in_force = in_force || published.any(|other| Some(other) == own);
    (!in_force, !was_in_force)
}

/// Of several LoadBalancers of a cluster the one of its name comes first, then the others by name.
#[must_use]
pub fn order<'a>(balancer: &'a Name, cluster: &str) -> (bool, &'a Name) {
    (balancer.name != cluster, balancer)
}
