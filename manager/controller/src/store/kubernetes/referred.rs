//! The kinds that objects refer to: infrastructure clusters, control planes and the templates of
//! their machines, load balancers of somebody else, and the pools that addresses are claimed from.

use std::collections::BTreeSet;

use kedge_crd::{
    Cluster, LoadBalancerSpec, Resource as _, Tenant, TenantSpec,
    capi::{self, ObjectRef},
    meta,
};

use crate::{
    plan::{dns, elemental::TEMPLATE_PATHS, issued},
    store::{ADDRESS_KIND, CLAIM_KIND, IPAM_GROUP, Name, ObjectKey, Objects},
};

/// Every kind that is referred to, by group and kind.
#[must_use]
pub fn kinds(objects: &Objects) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let mut planes = BTreeSet::new();
    for (key, layers) in objects.of_kind(capi::GROUP, "Cluster") {
        let Some(cluster) = layers.as_written::<Cluster>() else {
            continue;
        };
        let infra = cluster.spec.infrastructure_ref.iter();
        let plane = cluster.spec.control_plane_ref.iter();
        found.extend(infra.chain(plane.clone()).map(of));
        planes.extend(plane.map(|plane| {
            let (group, kind) = of(plane);
            (group, kind, key.name.namespace.clone(), plane.name.clone())
        }));
    }
    for (group, kind, namespace, name) in planes {
        let name = Name::new(namespace, name);
        let key = ObjectKey::new(&group, &kind, name);
        let document = objects.get(&key).and_then(|layers| layers.user.as_ref());
        let template = document.and_then(|document| {
            let mut paths = TEMPLATE_PATHS.iter();
            let reference = paths.find_map(|path| document.value.pointer(path))?;
            serde_json::from_value::<ObjectRef>(reference.clone()).ok()
        });
        found.extend(template.iter().map(of));
    }
    for (_, layers) in objects.of_kind(meta::GROUP, LoadBalancerSpec::KIND) {
        let balancer = layers.as_written::<kedge_crd::LoadBalancer>();
        let Some(spec) = balancer.map(|balancer| balancer.spec) else {
            continue;
        };
        let other = spec.infrastructure_ref;
        found.extend(other.map(|other| (other.api_group, other.kind)));
        let second = spec.vip.as_ref().and_then(|vip| vip.second.clone());
        let pools = [
            spec.vip.and_then(|vip| vip.pool_ref),
            second.and_then(|second| second.pool_ref),
        ];
        let pools = pools.into_iter().flatten();
        found.extend(pools.filter_map(|pool| Some((pool.api_group?, pool.kind?))));
    }
    // Whoever asks for records or certificates needs the kinds of those who make them.
    let tenants = objects.of_kind(meta::GROUP, TenantSpec::KIND);
    for tenant in tenants.filter_map(|(_, layers)| layers.as_written::<Tenant>()) {
        let kinds = [
            (dns::is_asked(&tenant), dns::KIND),
            (issued::is_asked(&tenant), issued::KIND),
        ];
        let kinds = kinds.into_iter().filter(|(asked, _)| *asked);
        found.extend(kinds.map(|(_, (group, kind))| (group.to_owned(), kind.to_owned())));
    }
    // Claims of addresses may come after us: Cluster API serves them.
    found.extend([CLAIM_KIND, ADDRESS_KIND].map(|kind| (IPAM_GROUP.to_owned(), kind.to_owned())));
    found.retain(|(group, kind)| !group.is_empty() && !kind.is_empty() && group != meta::GROUP);
    found
}

fn of(reference: &ObjectRef) -> (String, String) {
    (reference.group().to_owned(), reference.kind.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::store::UserDocument;

    #[test]
    fn every_kind_that_something_refers_to_is_found_in_either_contract() {
        let mut objects = Objects::default();
        let mut put = |group: &str, kind: &str, name: &str, spec: Value| {
            let key = ObjectKey::new(group, kind, Name::new("ns", name));
            let value = json!({"apiVersion": format!("{group}/v1"), "kind": kind,
                "metadata": {"name": name, "namespace": "ns"}, "spec": spec});
            let origin = String::new();
            let user = Some(UserDocument { value, origin });
            objects.by_key.entry(key).or_default().user = user;
        };
        let new = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "c"});
        let old = |group: &str, kind: &str| json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": "d"});
        put(
            "cluster.x-k8s.io",
            "Cluster",
            "c",
            json!({
                "infrastructureRef": new("i", "NewCluster"), "controlPlaneRef": new("p", "NewPlane"),
            }),
        );
        put(
            "cluster.x-k8s.io",
            "Cluster",
            "d",
            json!({
                "infrastructureRef": old("i", "OldCluster"), "controlPlaneRef": old("p", "OldPlane"),
            }),
        );
        put(
            "p",
            "NewPlane",
            "c",
            json!({
                "machineTemplate": {"spec": {"infrastructureRef": new("i", "NewTemplate")}},
            }),
        );
        put(
            "p",
            "OldPlane",
            "d",
            json!({
                "machineTemplate": {"infrastructureRef": old("i", "OldTemplate")},
            }),
        );
        put(
            "kedge.dev",
            "LoadBalancer",
            "l",
            json!({
                "clusterName": "c", "infrastructureRef": new("b", "Other"),
                "vip": {"poolRef": new("q", "Pool"), "second": {"poolRef": new("q", "Six")}},
            }),
        );
        put(
            "kedge.dev",
            "LoadBalancer",
            "m",
            json!({
                "clusterName": "c", "infrastructureRef": new("kedge.dev", "EdgeHost"),
            }),
        );
        let wanted = [
            ("b", "Other"),
            ("i", "NewCluster"),
            ("i", "NewTemplate"),
            ("i", "OldCluster"),
            ("i", "OldTemplate"),
            ("p", "NewPlane"),
            (IPAM_GROUP, ADDRESS_KIND),
            (IPAM_GROUP, CLAIM_KIND),
            ("p", "OldPlane"),
            ("q", "Pool"),
            ("q", "Six"),
        ];
        let wanted = wanted.map(|(group, kind)| (group.to_owned(), kind.to_owned()));
        assert_eq!(kinds(&objects), BTreeSet::from(wanted));
    }
}
