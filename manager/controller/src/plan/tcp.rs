//! TCPLoadBalancers: ports of a tenant's Services, offered at its gateway.
//!
//! ```text
//! objects ─► read: asked, kept ─► decide: accepted or refused, seats ─┬─► layer: kept before it is served
//!                                     ▲                               ├─► offer: frontends, pools ─► share
//!                     ledger: ports ──┘                               └─► status
//! ```
//!
//! What was chosen is kept beside what was asked for, in the layer [`crate::managers::PORTS`]: the
//! ports in `spec.ports[].listenerPort`, the rest in annotations. A port that is given back rests
//! there until nobody of another namespace can meet its last clients.

mod decide;
mod layer;
mod offer;
mod place;
mod read;
mod refusal;
mod resting;
mod shown;
mod status;
mod usage;

use std::{collections::BTreeMap, net::IpAddr, num::NonZeroU16};

use kedge_control::{
    frontend::{ClientIp, Pool},
    local::FleetLoadBalancer,
};
use kedge_crd::{
    TcpLoadBalancerSpec, TcpLoadBalancerStatus,
    tcp::{Exposure, TcpPort},
    traffic::Transport,
};

use super::{Case, desired::Desired, share::Share, status::put, wake::Wake};
use crate::{snapshot::Snapshot, store::Name};

pub use decide::all;
pub(super) use place::gateway;
pub use read::{Found, all as found, enter, gateway_of, held, named, tenant};
pub(super) use refusal::Refusal;
use resting::Rest;
pub use shown::{addresses, source};

/// A TCPLoadBalancer, and what was decided about it.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// Its name.
    pub name: Name,
    /// Its tenant.
    tenant: String,
    /// What is asked for.
    spec: TcpLoadBalancerSpec,
    /// Its status as it was last written.
    last: TcpLoadBalancerStatus,
    /// The gateway that serves it.
    gateway: Option<Name>,
    /// The address that is its own, if it is to have one.
    own: Option<IpAddr>,
    /// The pool that is from.
    pool: Option<String>,
    /// The ports that were given to it.
    given: Vec<Given>,
    /// The hosts behind it.
    members: Vec<Member>,
    /// Why it is not served, or not all of it.
    refused: Option<Refusal>,
    /// What it gave back a moment ago.
    rests: Vec<Rest>,
    /// Whether what was chosen stays as it is: there is no room to note what else it gives back.
    waits: bool,
}

/// A port that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    name: String,
    protocol: Transport,
    /// The gateway's port.
    listener: NonZeroU16,
}

/// A host behind a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    host: Name,
    address: IpAddr,
    /// Whether it is being left.
    draining: bool,
    /// Its ports, by the name of the load balancer's, where those differ.
    ports: BTreeMap<String, NonZeroU16>,
}

impl Tcp {
    /// Whether it may be served at all: what was not given to it is not.
    fn is_served(&self) -> bool {
        if self.is_routed() {
            return self.refused.is_none();
        }
        !self.given.is_empty() && !self.refused.as_ref().is_some_and(Refusal::is_whole)
    }

    /// Whether HTTPLoadBalancers alone lead to it.
    fn is_routed(&self) -> bool {
        is_routed(&self.spec)
    }

    /// Whether it counts among its tenant's load balancers.
    pub fn counts(&self) -> bool {
        self.is_served() || !self.given.is_empty()
    }

    /// The ports that have a pool at its gateway.
    fn pooled(&self) -> impl Iterator<Item = &TcpPort> {
        let is_given = |port: &&TcpPort| {
            self.is_routed() || self.given.iter().any(|given| given.name == port.name)
        };
        let ports = self.spec.ports.iter().filter(|_| self.is_served());
        ports.filter(is_given)
    }

    /// Where a TCP port of it leads, for an HTTPLoadBalancer of that tenant at that gateway.
    ///
    /// # Errors
    ///
    /// Why it leads nowhere, as what follows its name in a sentence.
    pub fn lead(&self, tenant: &str, gateway: &Name, port: NonZeroU16) -> Result<Lead, String> {
        if self.tenant != tenant {
            return Err(format!("is not of Tenant {tenant}"));
        }
        if self.gateway.as_ref() != Some(gateway) || !self.is_served() {
            return Err("is not served; its own conditions say why".to_owned());
        }
        let is_it = |it: &&TcpPort| {
            it.port == Some(port) && it.protocol.unwrap_or_default() == Transport::Tcp
        };
        let Some(found) = self.pooled().find(is_it) else {
            return Err(match self.spec.ports.iter().find(is_it) {
                Some(_) => format!("is not served at port {port}; its own conditions say why"),
                None => format!("has no TCP port {port}"),
            });
        };
        Ok(Lead {
            pool: offer::frontend_name(&self.name, &found.name),
            client_ip: offer::client_ip(&self.spec),
        })
    }

    /// The pool of that name among those of its ports.
    pub fn pool(&self, name: &str) -> Option<Pool> {
        let is_it = |port: &&TcpPort| offer::frontend_name(&self.name, &port.name) == name;
        offer::pool(self, self.pooled().find(is_it)?)
    }

    /// The address that is its own.
    pub const fn own(&self) -> Option<IpAddr> {
        self.own
    }

    /// Whose it is.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Where it leads to a host that it leaves: the gateway, and the host's address and ports.
    pub fn draining<'a>(
        &'a self,
        host: &'a Name,
    ) -> impl Iterator<Item = (Name, IpAddr, u16)> + 'a {
        let left = self.members.iter();
        let left = left.filter(move |member| member.draining && member.host == *host);
        self.gateway.iter().flat_map(move |gateway| {
            let left = left.clone();
            left.flat_map(move |member| {
                let ports = self.pooled().filter_map(|port| member.port(port));
                ports.map(|port| (gateway.clone(), member.address, port.get()))
            })
        })
    }

    /// What it leaves of a host is left.
    pub fn release(&mut self, host: &Name) {
        let is_left = |member: &Member| member.draining && member.host == *host;
        self.members.retain(|member| !is_left(member));
    }

    /// The hosts that have its traffic, those that are left included: something may be open to them.
    pub fn takers(&self) -> impl Iterator<Item = &Name> {
        let members = self.members.iter().filter(|_| self.is_served());
        members.map(|member| &member.host)
    }

    /// The hosts behind it.
    pub fn hosts(&self) -> impl Iterator<Item = (Name, IpAddr)> {
        let members = self.members.iter();
        members.map(|member| (member.host.clone(), member.address))
    }
}

impl Member {
    /// Where it serves a port.
    fn port(&self, port: &TcpPort) -> Option<NonZeroU16> {
        self.ports.get(&port.name).copied().or(port.port)
    }
}

/// Where a port leads.
#[derive(Clone, Debug)]
pub struct Lead {
    /// Its pool.
    pub pool: String,
    /// Whether backends are told who the client is before the first byte.
    pub client_ip: ClientIp,
}

/// How many load balancers namespaces have that are no HTTPLoadBalancers.
pub fn counted(cases: &[Case], all: &[Tcp]) -> BTreeMap<String, u32> {
    let asked = cases.iter().filter_map(|case| case.asked.as_ref().ok());
    let asked = asked.map(|balancer| &balancer.name.namespace);
    let tcp = all.iter().filter(|tcp| tcp.counts());
    let tcp = tcp.map(|tcp| &tcp.name.namespace);
    let mut counted = BTreeMap::new();
    for space in asked.chain(tcp) {
        *counted.entry(space.clone()).or_default() += 1;
    }
    counted
}

/// Whether HTTPLoadBalancers alone lead to it.
fn is_routed(spec: &TcpLoadBalancerSpec) -> bool {
    spec.exposure == Some(Exposure::Routed)
}

/// Adds what gateways serve of them to what the namespace has.
pub fn share(all: &[Tcp], share: &mut Share) {
    for tcp in all {
        let Some(gateway) = &tcp.gateway else {
            continue;
        };
        share.uses.insert(gateway.clone());
        if tcp.refused.as_ref().is_some_and(Refusal::waits_for_a_port) {
            share.starved.insert(gateway.clone());
        }
        let offered = offer::of(tcp);
        if !offered.is_empty() {
            let all = share.offers.entry(gateway.clone()).or_default();
            all.extend(offered);
        }
    }
}

/// Wants what was chosen to be kept, and every status; says what people are shown.
pub fn write(
    snapshot: &Snapshot,
    found: &[Found],
    all: &[Tcp],
    wake: &mut Wake,
    wanted: &mut Desired,
) -> Vec<FleetLoadBalancer> {
    let mut people = Vec::new();
    for tcp in all {
        layer::write(snapshot, tcp, wake, wanted);
        let status = status::status(snapshot, tcp);
        put::<TcpLoadBalancerSpec>(snapshot, wanted, &tcp.name, &status);
        people.push(shown::shown(snapshot, tcp, &status));
    }
    layer::write_leaving(snapshot, found, wake, wanted);
    people
}
