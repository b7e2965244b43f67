//! Addresses by claim: one claim for each family of a VIP, held until no host has the address any
//! more.
//!
//! A claim is controlled by its LoadBalancer; an address is taken only from a claim that is, and
//! that is not being deleted. Our finalizer is on the IPAddress: on the claim it holds nothing.
//! From a pool of our own the address is chosen in the same plan as everything else
//! ([`super::ledger`]); the claim and its address are there for all to see, and to be moved.

use std::{net::IpAddr, time::Duration};

use kedge_crd::{
    Condition, LoadBalancerSpec, Resource as _,
    balancer::{Mode, PoolRef, Vip},
    host::Family,
    meta,
};
use serde_json::{Value, json};

use super::{
    EndpointPlan, Service,
    balancer::Balancer,
    because::Because,
    config::vip_name,
    desired::Desired,
    given::{address_key, claim_key, is_paused},
    leave::drain_timeout,
    ledger::Ledger,
    marks::ADDRESS_FINALIZER,
    status,
    vip::allowed,
    wake::Wake,
};
use crate::{
    managers,
    snapshot::{Snapshot, key},
    store::{IPAM_GROUP, Layer, Name, ObjectKey},
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
    if snapshot.environment.ipam().is_none() {
        return Err(Because::ClaimsUnserved { kind, name });
    }
    let claims = wants(snapshot, &balancer.name, &balancer.spec);
    let claim = claims.into_iter().find(|claim| claim.pool == *pool);
    if let Some(claim) = &claim
        && is_of_another(snapshot, &balancer.name, &claim.name)
    {
        let claim = claim.name.clone();
        return Err(Because::ClaimTaken { claim });
    }
    let found = claim.and_then(|claim| {
        let (_, document) = given(snapshot, &balancer.name, &claim.name)?;
        document.pointer("/spec/address")?.as_str()?.parse().ok()
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
        Some((0, total)) => Err(Because::PoolExhausted {
            kind,
            pool: name,
            total,
        }),
        _ => Err(Because::ClaimWaiting { kind, name }),
    }
}

/// The claim of a VIP's first or other address, and the prefix length its address came with.
#[must_use]
pub fn claimed(
    snapshot: &Snapshot,
    service: &Service,
    address: IpAddr,
) -> (Option<String>, Option<u8>) {
    let name = claim_name(&service.balancer.name, Family::of(address));
    let Some((_, document)) = given(snapshot, &service.balancer.name, &name) else {
        return (None, None);
    };
    let is_that = document.pointer("/spec/address") == Some(&Value::from(address.to_string()));
    let prefix = document.pointer("/spec/prefix").and_then(Value::as_u64);
    let prefix = prefix.and_then(|prefix| u8::try_from(prefix).ok());
    (is_that.then_some(name.name), prefix.filter(|_| is_that))
}

/// The claim by which an address is held that is from a pool of ours.
#[must_use]
pub fn own_claim(ledger: &Ledger, balancer: &Name, address: IpAddr) -> Option<String> {
    let claim = ledger
        .facts
        .claims
        .get(&claim_name(balancer, Family::of(address)))?;
    let is_its = !claim.uid.is_empty() && claim.balancer.as_ref() == Some(balancer);
    is_its.then(|| claim.name.name.clone())
}

/// Wants the claims of every VIP from a pool, and our hold on the addresses.
pub fn claims(snapshot: &Snapshot, services: &[Service], wake: &mut Wake, wanted: &mut Desired) {
    let Some(version) = snapshot.environment.ipam() else {
        leaving(snapshot, services, wake, wanted);
        return;
    };
    let version = format!("{IPAM_GROUP}/{}", version.as_str());
    for service in services {
        let balancer = &service.balancer;
        if balancer.spec.mode != Some(Mode::Vip) {
            continue;
        }
        let uid = uid(snapshot, &balancer.name);
        let uid = uid.filter(|_| snapshot.clusters.contains_key(&service.cluster));
        for claim in wants(snapshot, &balancer.name, &balancer.spec) {
            let claim_key = claim_key(&claim.name);
            let known = snapshot.objects.get(&claim_key).is_some();
            let Some(uid) = uid.as_ref().filter(|_| !service.at_rest) else {
                retain(snapshot, &claim.name, wanted);
                continue;
            };
            let is_made = known || is_needed(snapshot, service, &claim);
            if !is_made || is_of_another(snapshot, &balancer.name, &claim.name) {
                continue;
            }
            let group = claim.pool.api_group.as_deref().unwrap_or(meta::GROUP);
            let kind = claim.pool.kind.as_deref().unwrap_or("VIPPool");
            let spec = json!({
                "clusterName": balancer.spec.cluster_name,
                "poolRef": {"apiGroup": group, "kind": kind, "name": claim.pool.name},
            });
            wanted.own(&claim_key, &version, managers::ENDPOINT, spec);
            let owner = json!([{"apiVersion": LoadBalancerSpec::api_version(),
                "kind": "LoadBalancer", "name": balancer.name.name, "uid": uid,
                "controller": true, "blockOwnerDeletion": true}]);
            wanted.owners(&claim_key, managers::ENDPOINT, owner);
            match given(snapshot, &balancer.name, &claim.name) {
                Some((address, document)) if !is_leaving(&document) => {
                    let held = wanted.marks(&address);
                    held.finalizers.insert(ADDRESS_FINALIZER.to_owned());
                }
                // Somebody deletes the claim or the address under a VIP that is in use: our hold
                // stays.
                _ => retain_address(snapshot, &claim.name, wanted),
            }
        }
    }
    leaving(snapshot, services, wake, wanted);
}

/// A claim a LoadBalancer needs.
struct Want {
    name: Name,
    pool: PoolRef,
    address: Option<IpAddr>,
}

/// The claims of a LoadBalancer: one for each of its addresses that is from a pool.
fn wants(snapshot: &Snapshot, name: &Name, spec: &LoadBalancerSpec) -> Vec<Want> {
    let Some(vip) = &spec.vip else {
        return Vec::new();
    };
    let first = first_family(snapshot, name, vip);
    let other = match first {
        Family::IPv4 => Family::IPv6,
        Family::IPv6 => Family::IPv4,
    };
    let second = vip.second.as_ref();
    let slots = [
        (first, vip.pool_ref.as_ref(), vip.address),
        (
            other,
            second.and_then(|second| second.pool_ref.as_ref()),
            second.and_then(|second| second.address),
        ),
    ];
    let wanted = slots.into_iter().filter_map(|(family, pool, address)| {
        Some(Want {
            name: claim_name(name, family),
            pool: pool?.clone(),
            address,
        })
    });
    wanted.collect()
}

/// The family of the VIP's first address: as told, as it is, or as the pool's.
fn first_family(snapshot: &Snapshot, name: &Name, vip: &Vip) -> Family {
    let of_pool = || {
        let pool = vip.pool_ref.as_ref().filter(|pool| !is_foreign(pool))?;
        let pool = Name::new(&name.namespace, &pool.name);
        let addresses = &snapshot.pools.get(&pool)?.spec.addresses;
        let is_six = addresses.first()?.contains(':');
        Some(if is_six { Family::IPv6 } else { Family::IPv4 })
    };
    vip.family
        .or(vip.address.map(Family::of))
        .or_else(of_pool)
        .unwrap_or(Family::IPv4)
}

/// Whether a claim is made that is not there yet: not for an address a user gave, and not where
/// Kedge has no business.
fn is_needed(snapshot: &Snapshot, service: &Service, claim: &Want) -> bool {
    let given = service.balancer.given.vip.as_ref();
    let by_user = given.is_some_and(|vip| {
        let second = vip.second.as_ref().and_then(|second| second.address);
        claim.address.is_some() && (vip.address == claim.address || second == claim.address)
    });
    let is_ours = !is_foreign(&claim.pool);
    let may = match &service.decided.plan {
        // An address of ours is chosen with the endpoint: before that a claim waits for nothing
        // but an address that becomes free.
        EndpointPlan::Wait { because } => {
            let starves = matches!(because, Because::PoolExhausted { .. });
            !is_ours || claim.address.is_some() || starves
        }
        EndpointPlan::Set { .. } | EndpointPlan::Keep { .. } | EndpointPlan::Beside { .. } => true,
        EndpointPlan::User { .. } => is_ours && claim.address.is_some(),
        EndpointPlan::Ignore { .. } | EndpointPlan::Rest { .. } | EndpointPlan::Conflict { .. } => {
            false
        }
    };
    let allowed = !is_ours || allowed(snapshot, &service.balancer.name, &claim.pool.name).is_ok();
    may && allowed && !by_user
}

/// LoadBalancers that are being deleted: their addresses are held until every host has said that
/// it gave them up, or for the bounded time.
fn leaving(snapshot: &Snapshot, services: &[Service], wake: &mut Wake, wanted: &mut Desired) {
    for (name, layers) in &snapshot.balancers {
        let served = services
            .iter()
            .any(|service| service.balancer.name == *name);
        let leaves = layers.meta.deletion_timestamp.as_deref();
        let Some(since) = leaves.filter(|_| !served) else {
            continue;
        };
        let spec = layers.written.as_ref().or(layers.kept.as_ref());
        let cluster = spec
            .map(|spec| spec.cluster_name.as_str())
            .unwrap_or_default();
        let paused = is_paused(snapshot, &name.namespace, cluster) == Some(true);
        let slots = layers.kept.as_ref().and_then(|kept| kept.vip.as_ref());
        let holders = holders(snapshot, name, slots);
        let drain = spec.and_then(|spec| spec.drain.as_ref());
        let patience = drain_timeout(drain) + ACTIVE_DOWN;
        if paused || (!holders.is_empty() && wake.waits(&snapshot.now, since, patience)) {
            for family in [Family::IPv4, Family::IPv6] {
                retain(snapshot, &claim_name(name, family), wanted);
            }
            let balancer = key::<LoadBalancerSpec>(name);
            wanted.retain(&snapshot.objects, &balancer, &Layer::Marks);
            if !paused {
                status::replace(
                    snapshot,
                    wanted,
                    name,
                    &layers.status,
                    unconfirmed(&holders),
                );
            }
        }
    }
}

/// What the status of a LoadBalancer says while hosts may still have its address.
fn unconfirmed(holders: &[&Name]) -> Condition {
    let names: Vec<&str> = holders.iter().map(|name| name.name.as_str()).collect();
    let text = format!(
        "no word yet that {} gave the VIP up; the address is held until then, but no longer than \
         drain.timeout and the time of an election",
        names.join(", ")
    );
    Condition::new("VIPWithdrawn", false, "UnconfirmedHolder", text)
}

/// The hosts of which it is not known that they gave the VIP up: they said that they have it, or
/// they had it and have not taken what is wanted of them now into use.
fn holders<'a>(snapshot: &'a Snapshot, balancer: &Name, kept: Option<&Vip>) -> Vec<&'a Name> {
    let lb = vip_name(balancer);
    let holds = |(name, host): &(&Name, &std::sync::Arc<kedge_crd::EdgeHost>)| {
        let says = host.status.vips.iter().any(|vip| vip.lb == lb);
        let had = kept.is_some_and(|vip| vip.slots.contains_key(&name.name));
        let mark = host.spec.config.as_ref();
        let latest = mark.is_none_or(|mark| mark.generation <= host.status.agent.config_generation);
        name.namespace == balancer.namespace && (says || (had && !latest))
    };
    let holding = snapshot.hosts.iter().filter(holds);
    holding.map(|(name, _)| name).collect()
}

fn retain(snapshot: &Snapshot, claim: &Name, wanted: &mut Desired) {
    let layer = Layer::Owned(managers::ENDPOINT.to_owned());
    wanted.retain(&snapshot.objects, &claim_key(claim), &layer);
    retain_address(snapshot, claim, wanted);
}

/// Keeps our hold on the address of a claim, whatever became of the claim.
fn retain_address(snapshot: &Snapshot, claim: &Name, wanted: &mut Desired) {
    let named = snapshot.objects.get(&claim_key(claim));
    let named = named.and_then(|claim| address_of(&claim.effective()));
    let name = Name::new(&claim.namespace, named.as_ref().unwrap_or(&claim.name));
    let key = address_key(&name);
    let marks = snapshot.objects.content(&key, &Layer::Marks);
    let held = marks.and_then(|marks| marks.pointer("/metadata/finalizers")?.as_array());
    let holds = held.is_some_and(|held| held.contains(&Value::from(ADDRESS_FINALIZER)));
    if holds {
        let held = wanted.marks(&key);
        held.finalizers.insert(ADDRESS_FINALIZER.to_owned());
    }
}

/// The IPAddress that belongs to the LoadBalancer's claim.
fn given(snapshot: &Snapshot, balancer: &Name, claim: &Name) -> Option<(ObjectKey, Value)> {
    let claim = snapshot.objects.get(&claim_key(claim))?.effective();
    if !is_controlled(snapshot, balancer, &claim) || is_leaving(&claim) {
        return None;
    }
    let key = address_key(&Name::new(&balancer.namespace, address_of(&claim)?));
    let layers = snapshot.objects.get(&key)?;
    Some((key, layers.effective()))
}

fn is_controlled(snapshot: &Snapshot, balancer: &Name, claim: &Value) -> bool {
    let owners = claim.pointer("/metadata/ownerReferences");
    let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
    let uid = uid(snapshot, balancer);
    uid.is_some_and(|uid| {
        owners.any(|owner| {
            owner.get("uid") == Some(&Value::from(uid.clone()))
                && owner.get("controller") == Some(&Value::Bool(true))
        })
    })
}

/// Whether somebody else made a claim of that name.
fn is_of_another(snapshot: &Snapshot, balancer: &Name, claim: &Name) -> bool {
    let layers = snapshot.objects.get(&claim_key(claim));
    layers.is_some_and(|layers| {
        !layers.owned.contains_key(managers::ENDPOINT)
            && !is_controlled(snapshot, balancer, &layers.effective())
    })
}

fn address_of(claim: &Value) -> Option<String> {
    let name = claim.pointer("/status/addressRef/name")?.as_str()?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn is_leaving(document: &Value) -> bool {
    let deleted = document.pointer("/metadata/deletionTimestamp");
    deleted.is_some_and(|deleted| !deleted.is_null())
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

/// The name of the claim of a LoadBalancer's address of a family.
fn claim_name(balancer: &Name, family: Family) -> Name {
    let family = match family {
        Family::IPv4 => "ipv4",
        Family::IPv6 => "ipv6",
    };
    Name::new(
        &balancer.namespace,
        format!("{}-vip-{family}", balancer.name),
    )
}

/// What a host without our word may go on announcing.
const ACTIVE_DOWN: Duration = Duration::from_secs(4);
