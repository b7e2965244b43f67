//! Addresses that HTTPLoadBalancers have in the place of their gateway's.
//!
//! Those of one tenant that ask for one pool with one key have one address. It stands in the status of each: it
//! stays as long as one of them is there, and is free when the last one goes.

use std::{fmt, net::IpAddr};

use kedge_crd::{Tenant, http::HttpAddressStatus};

use super::read::Found;
use crate::{
    plan::{
        because::Because,
        holder::Holder,
        ledger::Ledger,
        ports::{Owner, Seat},
        vip::own_of,
    },
    snapshot::Snapshot,
    store::Name,
};

/// Where names are asked for: at a gateway's own addresses, or at one that is somebody's alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The gateway.
    pub gateway: Name,
    /// The address; `None` where it is the gateway's own, whichever those are.
    pub own: Option<IpAddr>,
}

/// Who shares an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sharing {
    /// The namespace of their load balancers.
    pub namespace: String,
    /// Their tenant.
    pub tenant: String,
    /// What they say, or the name of the only one.
    pub by: String,
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            tenant,
            by,
        } = self;
        write!(
            f,
            "HTTPLoadBalancers of {by} ({namespace}, Tenant {tenant})"
        )
    }
}

impl Sharing {
    /// Of the load balancer with that key.
    fn of(name: &Name, tenant: &str, by: &str) -> Self {
        let by = if by.is_empty() { &name.name } else { by };
        Self {
            namespace: name.namespace.clone(),
            tenant: tenant.to_owned(),
            by: by.to_owned(),
        }
    }

    /// As whom they have ports of gateways.
    pub fn owner(&self) -> Owner {
        let key = format!("{}/{}", self.tenant, self.by);
        Owner::address(&Name::new(&self.namespace, key))
    }
}

/// Enters the addresses that were chosen earlier and are still asked for, and their ports, so that nobody else gets
/// them.
pub fn enter(snapshot: &Snapshot, all: &[Found], ledger: &mut Ledger) {
    for found in all {
        let kept = found.keeps(snapshot).and_then(|(place, _)| place.own);
        if let (Some(own), Some(sharing)) = (kept, kept_by(snapshot, found)) {
            let pool = found.last.address.as_ref().map(|it| it.pool.clone());
            let space = found.name.namespace.clone();
            ledger.enter_address((space, own), Holder::Http(sharing), pool);
        }
        for (gateway, seat, owner) in seats(snapshot, found) {
            ledger.ports.enter(&gateway, seat, owner);
        }
    }
}

/// The places it has at an address that was chosen earlier: where it is served. What it was not given is a wish.
pub fn seats(snapshot: &Snapshot, found: &Found) -> Vec<(Name, Seat, Owner)> {
    let Some((Place { gateway, own }, _)) = found.keeps(snapshot) else {
        return Vec::new();
    };
    let (Some(at), Some(sharing)) = (own, kept_by(snapshot, found)) else {
        return Vec::new();
    };
    let served = found.last.ingress.iter();
    let ports = served
        .filter(|it| it.ip == Some(at))
        .flat_map(|it| &it.ports);
    let seats = ports.map(|it| Seat::own_tcp(it.port).at(at));
    seats
        .map(|seat| (gateway.clone(), seat, sharing.owner()))
        .collect()
}

/// The address that it is to have, if it asks for one: the one it names, that of those it shares it with, or else the
/// pool's next one.
///
/// # Errors
///
/// There is none to be had.
pub fn choose(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    found: &Found,
    tenant: &Tenant,
) -> Result<Option<(Sharing, HttpAddressStatus)>, Because> {
    let asked = found.object().and_then(|it| it.spec.address.as_ref());
    let Some(asked) = asked else {
        return Ok(None);
    };
    let name = Name::new(&found.name.namespace, &asked.pool);
    let sharing = Sharing::of(&found.name, &tenant.metadata.name, &asked.shared_by);
    let holder = Holder::Http(sharing.clone());
    let whose = (&holder, Some(tenant));
    let ip = own_of(snapshot, ledger, whose, (&name, asked.ip))?;
    let chosen = HttpAddressStatus {
        ip,
        pool: asked.pool.clone(),
        shared_by: asked.shared_by.clone(),
    };
    Ok(Some((sharing, chosen)))
}

/// Who shares the address that it was given earlier.
fn kept_by(snapshot: &Snapshot, found: &Found) -> Option<Sharing> {
    let kept = found.last.address.as_ref()?;
    let tenant = found.tenant(snapshot)?;
    Some(Sharing::of(
        &found.name,
        &tenant.metadata.name,
        &kept.shared_by,
    ))
}
