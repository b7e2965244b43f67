//! The address and virtual router id of a VIP.

use std::net::IpAddr;

use kedge_crd::{
    Endpoint,
    balancer::{API_PORT, PoolRef},
    meta::GROUP,
};

use super::{balancer::Balancer, because::Because, claims, ledger::Ledger};
use crate::{snapshot::Snapshot, store::Name};

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
    let pool_name = vip.pool_ref.as_ref().map(|pool| pool.name.clone());
    let foreign = vip
        .pool_ref
        .as_ref()
        .filter(|pool| claims::is_foreign(pool));
    let foreign = foreign.map(|pool| pool.kind.clone().unwrap_or_default());
    let address = match known {
        Some(address) => {
            claim(ledger, balancer, address)?;
            address
        }
        None => match vip
            .pool_ref
            .as_ref()
            .filter(|pool| is_claimed(snapshot, pool))
        {
            Some(pool) => {
                let (address, _) = claims::address(snapshot, balancer, pool)?;
                claim(ledger, balancer, address)?;
                address
            }
            None => from_pool(snapshot, ledger, &name, vip.pool_ref.as_ref())?,
        },
    };
    vip.address = Some(address);
    balancer.spec.vip = Some(vip.clone());
    if vip.vrid.is_none() {
        let pool = pool_name.clone().unwrap_or_default();
        vip.vrid = ledger.next_vrid(&name, &balancer.spec, address);
        if vip.vrid.is_none() {
            // An address is recorded together with its identifier, or not at all.
            vip.address = explicit;
            balancer.spec.vip = Some(vip);
            return Err(Because::VridsExhausted { pool });
        }
        balancer.spec.vip = Some(vip);
    }
    let because = match pool_name {
        Some(name) if foreign.is_some() && explicit.is_none() && wished.is_none() => {
            let kind = foreign.unwrap_or_default();
            Because::FromClaim {
                kind,
                name,
                address,
            }
        }
        Some(pool) if explicit.is_none() && wished.is_none() => Because::FromPool { pool, address },
        _ => Because::ExplicitVip { address },
    };
    Ok((address, because))
}

/// Whether the pool's provider is asked by a claim.
fn is_claimed(snapshot: &Snapshot, pool: &PoolRef) -> bool {
    snapshot.environment.has_core() && claims::is_foreign(pool)
}

/// Takes an address that is not from a pool; what is refused is not served either.
fn claim(ledger: &mut Ledger, balancer: &mut Balancer, address: IpAddr) -> Result<(), Because> {
    let claimed = if address.is_ipv6() {
        Err(Because::AddressFamily { address })
    } else {
        ledger.claim_address(&balancer.name, address)
    };
    if claimed.is_err() {
        balancer.restrain();
    }
    claimed
}

fn from_pool(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    name: &Name,
    reference: Option<&PoolRef>,
) -> Result<IpAddr, Because> {
    let reference = reference.ok_or(Because::PoolUnset)?;
    let kind = reference.kind.as_deref().unwrap_or("VIPPool");
    if kind != "VIPPool" || reference.api_group.as_deref().unwrap_or(GROUP) != GROUP {
        return Err(Because::PoolForeign {
            kind: kind.to_owned(),
            name: reference.name.clone(),
        });
    }
    if let Some(tenant) = snapshot.tenant_of(&name.namespace) {
        let allowed = &tenant.spec.allowed_pools;
        if !allowed.is_empty() && !allowed.contains(&reference.name) {
            let (pool, tenant) = (reference.name.clone(), tenant.metadata.name.clone());
            return Err(Because::PoolForbidden { pool, tenant });
        }
    }
    let pool_name = Name::new(&name.namespace, &reference.name);
    let pool = match ledger.pool(&pool_name) {
        None => return Err(Because::PoolMissing { pool: pool_name }),
        Some(Err(error)) => {
            return Err(Because::PoolInvalid {
                pool: pool_name.name,
                error: error.clone(),
            });
        }
        Some(Ok(pool)) => pool.clone(),
    };
    ledger
        .next_address(name, &pool)
        .ok_or_else(|| Because::PoolExhausted {
            pool: pool_name.name,
            total: pool.total(),
        })
}
