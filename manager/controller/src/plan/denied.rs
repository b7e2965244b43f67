//! Keys that never enrol again: those of banned hosts, kept with the tenant.
//!
//! ```text
//! EdgeHost access: Banned ─┐
//! Tenant, our own entries ─┼─► Tenant.spec.enrollment.denied (our entries beside the admin's)
//! Secret, a copy of them ──┘   and the copy, from which a dropped entry comes back
//! ```
//!
//! A ban outlives the record of the host. It ends when the host's record says `Active`.

use std::collections::{BTreeMap, BTreeSet};

use kedge_crd::{
    EdgeHost, Resource as _, Tenant, TenantSpec,
    elemental::{self, HOST_KIND},
    host::Access,
    meta::SYSTEM_NAMESPACE,
    tenant::{self, Denied},
};
use serde_json::{Value, json};

use super::desired::Desired;
use crate::{
    api::record::tunnel_key,
    managers,
    pki::{hash, request::key_hash},
    snapshot::{Snapshot, key},
    store::{Layers, Name, ObjectKey},
};

/// Wants every tenant's list and its copy.
pub fn lists(snapshot: &Snapshot, wanted: &mut Desired) {
    for (name, tenant) in &snapshot.tenants {
        let denied = denied(snapshot, name, tenant);
        if denied.is_empty() {
            continue;
        }
        let tenant_key = key::<TenantSpec>(&Name::new("", name));
        let api_version = TenantSpec::api_version();
        let list = json!({"enrollment": {"denied": denied}});
        wanted.own(&tenant_key, &api_version, managers::DENIED, list);
        wanted.document(&copy_key(name), managers::BANNED, copy(name, &denied));
    }
}

/// Whether the tenant denies one of these keys, by whoever's word.
#[must_use]
pub fn is_denied(layers: &Layers, hashes: &[String]) -> bool {
    let theirs = layers.as_written::<Tenant>();
    let theirs = theirs.map(|tenant| tenant.spec.enrollment.denied);
    let mut all = theirs.into_iter().flatten().chain(ours(layers));
    all.any(|denied| hashes.contains(&denied.key_hash))
}

fn denied(snapshot: &Snapshot, name: &str, tenant: &Tenant) -> Vec<Denied> {
    let mut all: BTreeMap<String, Denied> = BTreeMap::new();
    let layers = snapshot
        .objects
        .get(&key::<TenantSpec>(&Name::new("", name)));
    let kept = layers.map(ours).unwrap_or_default();
    let copied = copied(snapshot, name);
    for denied in kept.into_iter().chain(copied) {
        all.entry(denied.key_hash.clone()).or_insert(denied);
    }
    let namespace = tenant::namespace(tenant);
    let hosts = || {
        let all = snapshot.hosts.iter();
        all.filter(|(host, it)| host.namespace == namespace && it.spec.tenant == name)
    };
    let access = |host: &EdgeHost| host.spec.access.unwrap_or_default();
    for (host_name, host) in hosts().filter(|(_, host)| access(host) == Access::Banned) {
        for key_hash in keys(snapshot, host_name, host) {
            all.entry(key_hash.clone()).or_insert_with(|| Denied {
                key_hash,
                reason: format!("EdgeHost {} was banned", host_name.name),
                since: snapshot.now.clone(),
            });
        }
    }
    // Hashes of every key of a fleet cost more than the rest of its plan.
    if all.is_empty() {
        return Vec::new();
    }
    let active = hosts().filter(|(_, host)| access(host) == Access::Active);
    let active = active.filter(|(_, host)| host.spec.identity.is_some());
    let free: BTreeSet<String> = active
        .flat_map(|(host_name, host)| keys(snapshot, host_name, host))
        .collect();
    all.retain(|key_hash, _| !free.contains(key_hash));
    all.into_values().collect()
}

/// The hashes of a host's keys: identity, tunnel, Elemental.
fn keys(snapshot: &Snapshot, name: &Name, host: &EdgeHost) -> Vec<String> {
    let identity = host.spec.identity.as_ref();
    let own = identity.and_then(|identity| key_hash(&identity.public_key));
    let enrolled = identity.map(|identity| identity.elemental_key.clone());
    let tunnel = host.spec.tunnel.public_keys.iter();
    let tunnel = tunnel.filter_map(|key| tunnel_key(key).map(|key| hash(&key)));
    let bound = host
        .spec
        .host_ref
        .as_ref()
        .filter(|bound| bound.api_group == elemental::GROUP && bound.kind == HOST_KIND);
    let elemental = bound.and_then(|bound| {
        let record = Name::new(&name.namespace, &bound.name);
        key_hash(&snapshot.elemental_hosts.get(&record)?.spec.pub_key)
    });
    let all = own
        .into_iter()
        .chain(enrolled)
        .chain(tunnel)
        .chain(elemental);
    all.filter(|key| !key.is_empty()).collect()
}

fn ours(layers: &Layers) -> Vec<Denied> {
    let layer = layers.owned.get(managers::DENIED);
    let list = layer.and_then(|layer| layer.pointer("/spec/enrollment/denied"));
    list.and_then(|list| serde_json::from_value(list.clone()).ok())
        .unwrap_or_default()
}

fn copied(snapshot: &Snapshot, tenant: &str) -> Vec<Denied> {
    let copy = snapshot.objects.owned(&copy_key(tenant), managers::BANNED);
    let text = copy.and_then(|copy| copy.pointer("/stringData/denied")?.as_str());
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

fn copy_key(tenant: &str) -> ObjectKey {
    let name = Name::new(SYSTEM_NAMESPACE, format!("kedge-denied-{tenant}"));
    ObjectKey::new("", "Secret", name)
}

fn copy(tenant: &str, denied: &[Denied]) -> Value {
    let list = serde_json::to_string(denied).unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        // Of the type that is watched; what it holds is told by its name.
        "type": "kedge.dev/enrollment-token",
        "metadata": {
            "name": format!("kedge-denied-{tenant}"),
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"clusterctl.cluster.x-k8s.io/move": ""},
        },
        "stringData": {"denied": list},
    })
}
