//! HTTPLoadBalancers: names and paths of a tenant's Ingresses, served at its gateway.
//!
//! ```text
//! objects ─► read: asked, kept ─► decide: names, ports, TLS ─┬─► offer: sites, frontends ─► share
//!                                   ▲          ▲             └─► status: kept names
//!               TCPLoadBalancers ───┘          └── Secrets that are named
//! ```
//!
//! A name at a gateway is one tenant's: whoever has it keeps it, as its status tells, and a later
//! wish of another tenant is refused. Within a tenant several HTTPLoadBalancers share names.

mod check;
mod cors;
mod decide;
mod doors;
mod names;
mod offer;
mod own;
mod read;
mod refusal;
mod routes;
mod shares;
mod shown;
mod status;
mod tls;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    num::NonZeroU16,
};

use kedge_control::local::FleetLoadBalancer;
use kedge_crd::{HttpLoadBalancerSpec, HttpLoadBalancerStatus, http::HttpAddressStatus};

use super::{
    desired::Desired, issued::Issued, offered::Offered, share::Share, status::put, wake::Wake,
};
use crate::{
    snapshot::{Snapshot, key},
    store::{Layer, Name},
};

pub use decide::all;
pub use names::{ALL, Held, may_ask, zone};
pub use own::{Place, Sharing, enter, seats};
pub use read::{Found, all as found};
use refusal::Refusal;
use tls::Endings;

/// An HTTPLoadBalancer, and what was decided about it.
#[derive(Clone, Debug)]
pub struct Http {
    /// Its name.
    name: Name,
    /// Its tenant.
    tenant: String,
    /// What is asked for.
    spec: HttpLoadBalancerSpec,
    /// Its status as it was last written.
    last: HttpLoadBalancerStatus,
    /// The gateway where it has its names.
    gateway: Option<Name>,
    /// The address that it has in the place of the gateway's.
    own: Option<HttpAddressStatus>,
    /// The name that is its own; empty where its tenant has no domain.
    generated: String,
    /// The names it has.
    names: Vec<String>,
    /// Why it is not served, or not all of it.
    refused: Vec<Refusal>,
    /// How TLS ends.
    endings: Endings,
    /// What gateways serve of it.
    served: Option<Served>,
    /// Whether anybody is known to ask for it.
    is_asked: bool,
}

/// What gateways serve of an HTTPLoadBalancer.
#[derive(Clone, Debug, Default)]
struct Served {
    /// The ports of plain HTTP that are free.
    http: Vec<NonZeroU16>,
    /// The ports of TLS that are free and asked for.
    https: Vec<NonZeroU16>,
    /// What is served.
    offered: Vec<Offered>,
    /// The backends that lead nowhere, as sentences.
    unresolved: Vec<String>,
    /// The hosts behind it.
    hosts: BTreeMap<Name, IpAddr>,
}

impl Http {
    /// Its name.
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// Whose it is.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The gateway where it has its names.
    pub const fn gateway(&self) -> Option<&Name> {
        self.gateway.as_ref()
    }

    /// The certificates that issuers are to make for it.
    pub fn issued(&self) -> &[Issued] {
        &self.endings.issued
    }

    /// The names it has.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The address that it has in the place of the gateway's.
    pub fn own(&self) -> Option<IpAddr> {
        self.own.as_ref().map(|own| own.ip)
    }

    /// Whether it counts among its tenant's load balancers.
    pub const fn counts(&self) -> bool {
        !self.names.is_empty() || self.own.is_some()
    }

    /// Where it has its names.
    fn place(&self) -> Option<Place> {
        let gateway = self.gateway.clone()?;
        let own = self.own();
        Some(Place { gateway, own })
    }

    /// What is served of it, if anything is.
    fn served(&self) -> Option<&Served> {
        let served = self.served.as_ref()?;
        let has_way_in = |part: &Offered| !matches!(part, Offered::Pool(_));
        served.offered.iter().any(has_way_in).then_some(served)
    }
}

/// The names that a namespace has by what was written earlier.
pub fn held(snapshot: &Snapshot, found: &Found) -> Vec<(Name, Held)> {
    let (Some(tenant), Some((place, names))) = (found.tenant(snapshot), found.keeps(snapshot))
    else {
        return Vec::new();
    };
    let owner = &tenant.metadata.name;
    let each = names.into_iter();
    let Place { gateway, own } = place;
    let held = |host: &str| Held {
        own,
        host: host.to_owned(),
        tenant: owner.clone(),
    };
    each.map(|host| (gateway.clone(), held(host))).collect()
}

/// Adds what gateways serve of them to what the namespace has.
pub fn share(snapshot: &Snapshot, found: &[Found], all: &[Http], share: &mut Share) {
    for (found, http) in found.iter().zip(all) {
        let owner = found.tenant(snapshot).map(|tenant| &tenant.metadata.name);
        if let (Some(gateway), Some(owner)) = (&http.gateway, owner) {
            share.uses.insert(gateway.clone());
            let names = http.names.iter().map(|host| Held {
                own: http.own(),
                host: host.clone(),
                tenant: owner.clone(),
            });
            let own = share.names.entry(gateway.clone()).or_default();
            own.extend(names);
            if http.refused.iter().any(Refusal::waits) {
                share.starved.insert(gateway.clone());
            }
            if let Some(served) = http.served() {
                let all = share.offers.entry(gateway.clone()).or_default();
                all.extend(served.offered.iter().cloned());
            }
        }
    }
}

/// The Secrets that are looked at, and whether one of them was not read yet.
pub fn secrets(all: &[Http]) -> (BTreeSet<Name>, bool) {
    let secrets = all.iter().flat_map(|http| &http.endings.secrets);
    let is_unread = all.iter().any(|http| http.endings.is_unread);
    (secrets.cloned().collect(), is_unread)
}

/// Wants every status; says what people are shown.
pub fn write(
    snapshot: &Snapshot,
    all: &[Http],
    wake: &mut Wake,
    wanted: &mut Desired,
) -> Vec<FleetLoadBalancer> {
    let mut people = Vec::new();
    for http in all {
        if !http.is_asked {
            let key = key::<HttpLoadBalancerSpec>(&http.name);
            wanted.retain(&snapshot.objects, &key, &Layer::Status);
            continue;
        }
        for moment in &http.endings.moments {
            wake.at(*moment);
        }
        let status = status::status(snapshot, http);
        put::<HttpLoadBalancerSpec>(snapshot, wanted, &http.name, &status);
        people.push(shown::shown(snapshot, http, &status));
    }
    people
}
