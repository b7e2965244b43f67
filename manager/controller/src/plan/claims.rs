//! Addresses from pools of other providers: one claim for each VIP, held until no host has the
//! address any more.
//!
//! A claim is controlled by its LoadBalancer; an address is taken only from a claim that is, and
//! that is not being deleted. Our finalizer is on the IPAddress: on the claim it holds nothing.

use std::{net::IpAddr, time::Duration};

use kedge_crd::{
    LoadBalancerSpec, Resource as _,
    balancer::{Mode, PoolRef},
    meta,
};
use serde_json::{Value, json};

use super::{
    Service, balancer::Balancer, because::Because, config::vip_name, desired::Desired,
    marks::ADDRESS_FINALIZER, wake::Wake,
};
use crate::{
    managers,
    snapshot::{Snapshot, key},
    store::{CLAIM_KIND, IPAM_GROUP, Layer, Name, ObjectKey},
};

/// Whether another provider serves the pool.
#[must_use]
pub fn is_foreign(pool: &PoolRef) -> bool {
    let kind = pool.kind.as_deref().unwrap_or("VIPPool");
    kind != "VIPPool" || pool.api_group.as_deref().unwrap_or(meta::GROUP) != meta::GROUP
}

/// The address another provider gave to the LoadBalancer's claim.
///
/// # Errors
///
/// There is none yet, with what the pool says of it.
pub fn address(
    snapshot: &Snapshot,
    balancer: &Balancer,
    pool: &PoolRef,
) -> Result<(IpAddr, Because), Because> {
    let kind = pool.kind.clone().unwrap_or_default();
    let name = pool.name.clone();
    let found = given(snapshot, &balancer.name).and_then(|address| {
        let text = address.1.pointer("/spec/address")?.as_str()?;
        text.parse().ok()
    });
    if let Some(address) = found {
        return Ok((
            address,
            Because::FromClaim {
                kind,
                name,
                address,
            },
        ));
    }
    match free(snapshot, &balancer.name, pool) {
        Some((0, total)) => Err(Because::PoolExhausted { pool: name, total }),
        _ => Err(Because::ClaimWaiting { kind, name }),
    }
}

/// Wants the claims of every VIP from a pool of another provider, and our hold on the addresses.
pub fn claims(snapshot: &Snapshot, services: &[Service], wake: &mut Wake, wanted: &mut Desired) {
    if !snapshot.environment.has_core() {
        return;
    }
    for service in services {
        let balancer = &service.balancer;
        let vip = balancer.spec.vip.as_ref();
        let pool = vip.and_then(|vip| vip.pool_ref.as_ref());
        let pool = pool.filter(|pool| is_foreign(pool));
        let (Some(pool), Some(Mode::Vip)) = (pool, balancer.spec.mode) else {
            continue;
        };
        if service.at_rest {
            retain(snapshot, &balancer.name, wanted);
            continue;
        }
        let uid = uid(snapshot, &balancer.name);
        let Some(uid) = uid.filter(|_| snapshot.clusters.contains_key(&service.cluster)) else {
            continue;
        };
        let claim = claim_key(&balancer.name);
        let spec = json!({
            "clusterName": balancer.spec.cluster_name,
            "poolRef": {"apiGroup": pool.api_group, "kind": pool.kind, "name": pool.name},
        });
        wanted.own(&claim, IPAM_VERSION, managers::ENDPOINT, spec);
        let owner = json!([{"apiVersion": LoadBalancerSpec::api_version(), "kind": "LoadBalancer",
            "name": balancer.name.name, "uid": uid, "controller": true,
            "blockOwnerDeletion": true}]);
        wanted.owners(&claim, managers::ENDPOINT, owner);
        if let Some((address, _)) = given(snapshot, &balancer.name) {
            let held = wanted.marks(&address);
            held.finalizers.insert(ADDRESS_FINALIZER.to_owned());
        }
    }
    for (name, layers) in &snapshot.balancers {
        let served = services
            .iter()
            .any(|service| service.balancer.name == *name);
        let leaves = layers.meta.deletion_timestamp.as_deref();
        let Some(since) = leaves.filter(|_| !served) else {
            continue;
        };
        if is_held(snapshot, name) && in_time(snapshot, layers.kept.as_ref(), since, wake) {
            retain(snapshot, name, wanted);
            wanted.retain(
                &snapshot.objects,
                &key::<LoadBalancerSpec>(name),
                &Layer::Marks,
            );
        }
    }
}

/// Whether a host that is heard still says it has the VIP.
fn is_held(snapshot: &Snapshot, balancer: &Name) -> bool {
    let lb = vip_name(balancer);
    snapshot.hosts.iter().any(|(name, host)| {
        name.namespace == balancer.namespace
            && host.status.vips.iter().any(|vip| vip.lb == lb)
            && snapshot.is_alive(name)
    })
}

/// Whether the withdrawal may still take time.
fn in_time(
    snapshot: &Snapshot,
    spec: Option<&LoadBalancerSpec>,
    since: &str,
    wake: &mut Wake,
) -> bool {
    let drain = spec.and_then(|spec| spec.drain.as_ref()?.timeout);
    let patience = drain.map_or(DRAIN_TIMEOUT, kedge_core::Span::duration) + ACTIVE_DOWN;
    let (Ok(now), Ok(since)) = (snapshot.now.parse(), since.parse()) else {
        return false;
    };
    let due = wake.until(now, since, patience);
    if let Some(due) = due {
        wake.at(due);
    }
    due.is_some()
}

fn retain(snapshot: &Snapshot, balancer: &Name, wanted: &mut Desired) {
    let layer = Layer::Owned(managers::ENDPOINT.to_owned());
    wanted.retain(&snapshot.objects, &claim_key(balancer), &layer);
    if let Some((address, _)) = given(snapshot, balancer) {
        wanted.retain(&snapshot.objects, &address, &Layer::Marks);
    }
}

/// The IPAddress that belongs to the LoadBalancer's claim.
fn given(snapshot: &Snapshot, balancer: &Name) -> Option<(ObjectKey, Value)> {
    let claim = snapshot.objects.get(&claim_key(balancer))?.effective();
    let owners = claim.pointer("/metadata/ownerReferences")?.as_array()?;
    let uid = uid(snapshot, balancer)?;
    let ours = owners.iter().any(|owner| {
        owner.get("uid") == Some(&Value::from(uid.clone()))
            && owner.get("controller") == Some(&Value::Bool(true))
    });
    let deleted = claim.pointer("/metadata/deletionTimestamp");
    if !ours || deleted.is_some_and(|deleted| !deleted.is_null()) {
        return None;
    }
    let name = claim.pointer("/status/addressRef/name")?.as_str()?;
    let name = Name::new(&balancer.namespace, name);
    let key = ObjectKey::new(IPAM_GROUP, "IPAddress", name);
    let address = snapshot.objects.get(&key)?.user.as_ref()?;
    Some((key, address.value.clone()))
}

/// How many addresses of the pool are free, and how many there are, where it tells.
fn free(snapshot: &Snapshot, balancer: &Name, pool: &PoolRef) -> Option<(u64, u64)> {
    let group = pool.api_group.as_deref().unwrap_or(IPAM_GROUP);
    let kind = pool.kind.as_deref()?;
    let at = |namespace: &str| {
        let key = ObjectKey::new(group, kind, Name::new(namespace, &pool.name));
        snapshot.objects.get(&key)
    };
    let document = at(&balancer.namespace).or_else(|| at(""))?.user.as_ref()?;
    let counts = document.value.pointer("/status/ipAddresses")?;
    let count = |name: &str| counts.get(name).and_then(Value::as_u64);
    Some((count("free")?, count("total").unwrap_or_default()))
}

fn uid(snapshot: &Snapshot, balancer: &Name) -> Option<String> {
    let uid = &snapshot.balancers.get(balancer)?.meta.uid;
    (!uid.is_empty()).then(|| uid.clone())
}

fn claim_key(balancer: &Name) -> ObjectKey {
    let name = Name::new(&balancer.namespace, format!("{}-vip-ipv4", balancer.name));
    ObjectKey::new(IPAM_GROUP, CLAIM_KIND, name)
}

const IPAM_VERSION: &str = "ipam.cluster.x-k8s.io/v1beta2";
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// What a host without our word may go on announcing.
const ACTIVE_DOWN: Duration = Duration::from_secs(4);
