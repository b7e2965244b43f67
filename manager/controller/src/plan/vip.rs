//! The address and virtual router id of a VIP.

use std::net::IpAddr;

use kedge_crd::{
    Endpoint, Tenant,
    balancer::{API_PORT, PoolRef},
    host::Family,
};

use super::{balancer::Balancer, because::Because, claims, given, holder::Holder, ledger::Ledger};
use crate::{ipam::Pool, snapshot::Snapshot, store::Name};

/// The VIP's address: what is asked for, what was decided earlier, else the pool's lowest free one.
/// It and the virtual router id are written into the LoadBalancer's spec.
///
/// # Errors
///
/// There is none to be had.
pub fn choose(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    balancer: &mut Balancer,
    wished: Option<IpAddr>,
) -> Result<(IpAddr, Because), Because> {
    let name = balancer.name.clone();
    let mut vip = balancer.spec.vip.clone().unwrap_or_default();
    let published = balancer
        .kept
        .endpoint
        .as_ref()
        .and_then(|kept| kept.host.parse().ok());
    let explicit = balancer.given.vip.as_ref().and_then(|vip| vip.address);
    if let (Some(ours), Some(theirs)) = (vip.address, wished)
        && ours != theirs
    {
        let port = balancer
            .kept
            .endpoint
            .as_ref()
            .and_then(Endpoint::port)
            .unwrap_or(API_PORT);
        return Err(Because::OtherEndpoint {
            at: "the endpoint's user".to_owned(),
            theirs: Endpoint::new(theirs.to_string(), port),
            ours: Some(Endpoint::new(ours.to_string(), port)),
        });
    }
    let known = vip.address.or(wished).or(published);
    let pool = vip.pool_ref.clone();
    let (address, mut because) = match known {
        Some(address) => (address, Because::ExplicitVip { address }),
        None => source(snapshot, ledger, balancer, pool.as_ref(), Slot::First)?,
    };
    claim(ledger, balancer, address, pool.as_ref())?;
    if let (Some(pool), None, None, Some(_)) = (&pool, explicit, wished, known) {
        because = found(pool, address);
    }
    vip.address = Some(address);
    balancer.spec.vip = Some(vip.clone());
    if vip.vrid.is_none() {
        vip.vrid = ledger.next_vrid(&name, &balancer.spec, address);
        if vip.vrid.is_none() {
            // An address is recorded together with its identifier, or not at all.
            vip.address = explicit;
            balancer.spec.vip = Some(vip);
            let pool = pool.map(|pool| pool.name).unwrap_or_default();
            return Err(Because::VridsExhausted { pool });
        }
        balancer.spec.vip = Some(vip);
    }
    Ok((address, because))
}

/// The VIP's address of the other family, if one is wanted. Nothing waits for it: no host speaks
/// VRRP for IPv6, so it is held for the day one does.
pub fn choose_second(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    balancer: &mut Balancer,
) -> Option<Result<IpAddr, Because>> {
    let vip = balancer.spec.vip.clone()?;
    let second = vip.second?;
    let pool = second.pool_ref.as_ref();
    let found = match second.address {
        Some(address) => Ok(address),
        None => source(snapshot, ledger, balancer, pool, Slot::Second).map(|(address, _)| address),
    };
    let found = found.and_then(|address| match vip.address {
        Some(first) if first.is_ipv4() == address.is_ipv4() => {
            Err(Because::SecondFamily { address })
        }
        _ => {
            ledger.claim_address(&balancer.name, address, pool)?;
            Ok(address)
        }
    });
    if let Some(second) = balancer
        .spec
        .vip
        .as_mut()
        .and_then(|vip| vip.second.as_mut())
    {
        second.address = found.as_ref().ok().copied().or(second.address);
    }
    Some(found)
}

/// Which of a VIP's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// The endpoint.
    First,
    /// The other family's.
    Second,
}

/// A new address, from whoever has the pool.
fn source(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    balancer: &Balancer,
    pool: Option<&PoolRef>,
    slot: Slot,
) -> Result<(IpAddr, Because), Because> {
    let pool = pool.ok_or(Because::PoolUnset)?;
    if snapshot.environment.has_core() && claims::is_foreign(pool) {
        return claims::address(snapshot, balancer, pool);
    }
    let address = from_pool(snapshot, ledger, &balancer.name, pool, slot)?;
    Ok((address, found(pool, address)))
}

fn found(pool: &PoolRef, address: IpAddr) -> Because {
    let name = pool.name.clone();
    if claims::is_foreign(pool) {
        let kind = pool.kind.clone().unwrap_or_default();
        return Because::FromClaim {
            kind,
            name,
            address,
        };
    }
    Because::FromPool {
        pool: name,
        address,
    }
}

/// Takes an address; what is refused is not served either.
fn claim(
    ledger: &mut Ledger,
    balancer: &mut Balancer,
    address: IpAddr,
    pool: Option<&PoolRef>,
) -> Result<(), Because> {
    let claimed = if address.is_ipv6() {
        Err(Because::AddressFamily { address })
    } else {
        ledger.claim_address(&balancer.name, address, pool)
    };
    if claimed.is_err() {
        balancer.restrain();
    }
    claimed
}

/// Whether the tenant of a LoadBalancer may use a pool of ours.
///
/// # Errors
///
/// It may not.
pub fn allowed(snapshot: &Snapshot, name: &Name, pool: &str) -> Result<(), Because> {
    may_use(snapshot.tenant_of(&name.namespace), pool)
}

/// The address of its own that somebody asks a pool for: the one it names, else the one it has, or else the next one.
///
/// # Errors
///
/// There is none to be had, or its tenant may not use the pool.
pub fn own_of(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    (holder, tenant): (&Holder, Option<&Tenant>),
    (name, ip): (&Name, Option<IpAddr>),
) -> Result<IpAddr, Because> {
    may_use(tenant, &name.name)?;
    let pool = readable(ledger, name)?;
    match ip {
        Some(ip) => this_of(snapshot, ledger, holder, (name, &pool, ip)),
        None => next_of(snapshot, ledger, holder, (name, &pool)),
    }
}

/// Whether a tenant, if there is one, may use a pool of ours.
fn may_use(tenant: Option<&Tenant>, pool: &str) -> Result<(), Because> {
    let Some(tenant) = tenant else {
        return Ok(());
    };
    let allowed = &tenant.spec.allowed_pools;
    if allowed.is_empty() || allowed.iter().any(|one| one == pool) {
        return Ok(());
    }
    let (pool, tenant) = (pool.to_owned(), tenant.metadata.name.clone());
    Err(Because::PoolForbidden { pool, tenant })
}

fn from_pool(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    name: &Name,
    reference: &PoolRef,
    slot: Slot,
) -> Result<IpAddr, Because> {
    if claims::is_foreign(reference) {
        let kind = reference.kind.as_deref().unwrap_or("VIPPool");
        return Err(Because::PoolForeign {
            kind: kind.to_owned(),
            name: reference.name.clone(),
        });
    }
    let pool_name = Name::new(&name.namespace, &reference.name);
    let pool = usable(snapshot, ledger, &pool_name)?;
    if slot == Slot::First && pool.family == Family::IPv6 {
        return Err(Because::PoolFamily {
            pool: pool_name.name,
        });
    }
    let holder = Holder::Balancer(name.clone());
    next_of(snapshot, ledger, &holder, (&pool_name, &pool))
}

/// A pool of ours in the namespace of whoever is to have an address of it.
///
/// # Errors
///
/// The tenant may not use it, it is not there, or it cannot be read.
fn usable(snapshot: &Snapshot, ledger: &Ledger, name: &Name) -> Result<Pool, Because> {
    allowed(snapshot, name, &name.name)?;
    readable(ledger, name)
}

/// A pool of ours, whoever may use it.
///
/// # Errors
///
/// It is not there, or it cannot be read.
fn readable(ledger: &Ledger, name: &Name) -> Result<Pool, Because> {
    match ledger.pool(name) {
        None => Err(Because::PoolMissing { pool: name.clone() }),
        Some(Err(error)) => Err(Because::PoolInvalid {
            pool: name.name.clone(),
            error: error.clone(),
        }),
        Some(Ok(pool)) => Ok(pool.clone()),
    }
}

/// The address that somebody has of a [usable] pool, or else the next one.
///
/// # Errors
///
/// The pool gives none away.
fn next_of(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    holder: &Holder,
    (name, pool): (&Name, &Pool),
) -> Result<IpAddr, Because> {
    if let Some(address) = ledger.address_of(holder, name) {
        return Ok(address);
    }
    gives(snapshot, name)?;
    ledger
        .next_address(holder, name, pool)
        .ok_or_else(|| Because::PoolExhausted {
            kind: "VIPPool".to_owned(),
            pool: name.name.clone(),
            total: pool.total(),
        })
}

/// One address of a [usable] pool, and no other.
///
/// # Errors
///
/// It is not the pool's, somebody else has it, or the pool gives none away.
fn this_of(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    holder: &Holder,
    (name, pool, address): (&Name, &Pool, IpAddr),
) -> Result<IpAddr, Because> {
    if !pool.contains(address) {
        return Err(Because::AddressOutside {
            address,
            pool: name.name.clone(),
        });
    }
    if ledger.holder(&name.namespace, address).is_none() {
        gives(snapshot, name)?;
    }
    let key = (name.namespace.clone(), address);
    ledger.claim(key, holder, Some(name.name.clone()))?;
    Ok(address)
}

/// Whether a pool gives addresses away.
fn gives(snapshot: &Snapshot, name: &Name) -> Result<(), Because> {
    let object = snapshot.pools.get(name);
    let pool = || name.name.clone();
    if object.is_some_and(|object| object.metadata.deletion_timestamp.is_some()) {
        return Err(Because::PoolLeaves { pool: pool() });
    }
    if object.is_some_and(given::is_at_rest) {
        return Err(Because::PoolPaused { pool: pool() });
    }
    Ok(())
}
