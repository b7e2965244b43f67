//! Decisions: `plan(&Snapshot) -> Plan`, without files, Kubernetes or a clock.
//!
//! Law: carry out a plan's writes on the objects it was made from, and the next plan writes
//! nothing.
//!
//! ```text
//! snapshot ─► reports ─► cases ─► endpoint (ledger) ─► targets, slots ─► overlay ─► desired state
//!                                                                              └─► status ─► writes
//! ```

mod access;
pub mod balancer;
pub mod because;
mod claims;
pub mod config;
pub mod denied;
mod desired;
pub mod elemental;
pub mod endpoint;
pub mod exposed;
mod follow;
pub mod gate;
pub mod gateway;
mod given;
mod handed;
mod health;
pub mod http;
mod lead;
mod leave;
pub mod ledger;
pub mod marks;
pub mod names;
mod nodes;
pub mod offered;
pub mod overlay;
pub mod pending;
pub mod ports;
mod programmed;
mod provider;
mod provision;
mod refill;
mod report;
mod reserve;
pub mod share;
pub mod slots;
mod status;
pub mod targets;
pub mod tcp;
mod usable;
mod vip;
pub mod wake;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kedge_control::{
    agent::{GatewayConfig, HostConfig},
    local::{FleetEndpoint, FleetLoadBalancer},
};
use kedge_core::Problem;
use kedge_crd::{
    Condition,
    balancer::{Mode, TargetState},
};

use crate::{
    snapshot::Snapshot,
    store::{Name, Write},
};
use balancer::{Balancer, Case};
use desired::Desired;
use endpoint::Decided;
use ledger::Ledger;
use pending::Pending;
use share::Share;
use targets::{HostIndex, Target};
use wake::Wake;

pub use because::Because;
pub use endpoint::EndpointPlan;
pub use report::clean;
pub use status::fleet::condition as shown_condition;

/// What follows from a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What to write, in this order.
    pub writes: Vec<Write>,
    /// The desired state of every enrolled host.
    pub hosts: BTreeMap<Name, HostConfig>,
    /// The desired state of every gateway instance, by gateway and instance.
    pub gateways: BTreeMap<(Name, String), GatewayConfig>,
    /// Every cluster's endpoint, for people.
    pub endpoints: Vec<FleetEndpoint>,
    /// Every TCPLoadBalancer and HTTPLoadBalancer, for people.
    pub load_balancers: Vec<FleetLoadBalancer>,
    /// The endpoints among them that are there once they are written.
    pub pending: Pending,
    /// How many targets of its LoadBalancers are in which state.
    pub targets: BTreeMap<TargetState, usize>,
    /// The conditions of every host, for people.
    pub host_conditions: BTreeMap<Name, Vec<Condition>>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// Where the kubeconfig Secrets of clusters shall lead, by cluster.
    pub kubeconfigs: BTreeMap<Name, String>,
    /// The Secrets that HTTPLoadBalancers name.
    pub certificates: BTreeSet<Name>,
    /// Whether one of them was not read yet.
    pub is_unread: bool,
    /// The names of endpoints, which must resolve.
    pub names: BTreeSet<String>,
    /// When to plan again although nothing happened.
    pub wake: Wake,
    /// What the namespace has of the gateways.
    pub share: Share,
}

/// A LoadBalancer with everything decided about it.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its cluster.
    pub cluster: Name,
    /// The LoadBalancer.
    pub balancer: Balancer,
    /// The endpoint.
    pub decided: Decided,
    /// The hosts.
    pub targets: Vec<Target>,
    /// The host that holds the VIP.
    pub holder: Option<Name>,
    /// Whether somebody paused the cluster.
    pub at_rest: bool,
    /// Whether the cluster is being deleted.
    pub is_going: bool,
}

/// Everything that was decided on the way to a plan.
struct Decisions<'a> {
    cases: &'a [Case],
    decided: &'a [Decided],
    services: &'a [Service],
    ledger: &'a Ledger,
}

/// Decides everything.
#[must_use]
pub fn plan(snapshot: &Snapshot) -> Plan {
    let mut next = snapshot.clone();
    report::take(&mut next);
    let mut cases = balancer::cases(&next);
    let mut wake = Wake::default();
    let found = tcp::found(&next);
    let (decided, mut ledger) = decide(&next, &mut cases, &found, &mut wake);
    let mut services = services(&next, &cases, &decided);
    overlay::assign(&mut next);
    let mut plan = Plan {
        problems: next.problems.clone(),
        ..Plan::default()
    };
    configure(&mut next, &services, &mut plan);
    for service in &mut services {
        service.holder = health::holder(&next, service);
    }
    for target in services.iter().flat_map(|service| &service.targets) {
        *plan.targets.entry(target.state).or_default() += 1;
    }
    // The holder of a VIP comes first among a listener's members.
    let tcp = tcp::all(&next, &found, &cases, &mut ledger);
    plan.share = Share::of(&next, &cases, &decided, &services, &ledger);
    tcp::share(&tcp, &mut plan.share);
    let asked = http::found(&next);
    let http = http::all(&next, &asked, &tcp, tcp::counted(&cases, &tcp), &ledger);
    http::share(&next, &asked, &http, &mut plan.share);
    (plan.certificates, plan.is_unread) = http::secrets(&http);
    configure_gateways(&mut next, &mut plan);
    leave::states(&next, &mut services, &mut wake);
    let mut wanted = Desired::default();
    desired::endpoints(&next, &cases, &decided, &services, &mut wanted);
    provision::statuses(&next, &cases, &decided, &mut wanted);
    leave::annotations(&next, &services, &mut wanted);
    elemental::records(&next, &services, &mut wanted);
    claims::claims(&next, &services, &mut wake, &mut wanted);
    provider::give(&next, &mut ledger, &services, &mut wake, &mut wanted);
    desired::records(&next, &mut wanted);
    denied::lists(&next, &mut wanted);
    exposed::withdraw(&next, &mut wanted);
    let people = &mut plan.load_balancers;
    people.extend(tcp::write(&next, &found, &tcp, &mut wake, &mut wanted));
    people.extend(http::write(&next, &http, &mut wake, &mut wanted));
    people.sort_by(|a, b| (&a.namespace, &a.name, &a.kind).cmp(&(&b.namespace, &b.name, &b.kind)));
    let decisions = Decisions {
        cases: &cases,
        decided: &decided,
        services: &services,
        ledger: &ledger,
    };
    status::write(snapshot, &next, &decisions, &mut plan, &mut wanted);
    let kubeconfigs = services.iter().filter_map(|service| {
        let server = access::server(&next, service)?;
        Some((service.cluster.clone(), server))
    });
    plan.kubeconfigs = kubeconfigs.collect();
    plan.names = names::wanted(&next);
    plan.writes = wanted.writes(&snapshot.objects, next.incomplete());
    plan.pending = pending::pending(&snapshot.objects, &cases, &plan.writes);
    plan.wake = wake;
    plan
}

fn decide(
    snapshot: &Snapshot,
    cases: &mut [Case],
    found: &[tcp::Found],
    wake: &mut Wake,
) -> (Vec<Decided>, Ledger) {
    let mut ledger = Ledger::new(snapshot, cases, found);
    let leading = lead::leading(snapshot, cases);
    for case in cases.iter_mut() {
        let leads = leading.get(&case.cluster);
        if let Ok(balancer) = &mut case.asked {
            balancer.beside = leads.filter(|leads| **leads != balancer.name).cloned();
        }
    }
    // Those that were decided earlier come first: a new wish waits behind them.
    let mut order: Vec<usize> = (0..cases.len()).collect();
    let is_new = |index: &usize| {
        let asked = cases.get(*index).and_then(|case| case.asked.as_ref().ok());
        asked.is_none_or(|balancer| balancer.kept.endpoint.is_none())
    };
    order.sort_by_key(is_new);
    let mut decided: BTreeMap<usize, Decided> = BTreeMap::new();
    for index in order {
        if let Some(case) = cases.get_mut(index) {
            decided.insert(index, endpoint::plan(snapshot, &mut ledger, case, wake));
        }
    }
    (decided.into_values().collect(), ledger)
}

fn services(snapshot: &Snapshot, cases: &[Case], decided: &[Decided]) -> Vec<Service> {
    let index = HostIndex::new(snapshot);
    let asked = cases.iter().zip(decided).filter_map(|(case, decided)| {
        let balancer = case.asked.as_ref().ok()?;
        let cluster = snapshot.clusters.get(&case.cluster);
        let is_going = cluster.is_some_and(|object| object.metadata.deletion_timestamp.is_some());
        let targets = targets::targets(snapshot, &index, balancer, is_going);
        let mut balancer = balancer.clone();
        if let (Some(Mode::Vip), Some(vip)) = (balancer.spec.mode, balancer.spec.vip.as_mut())
            && vip.address.is_some()
        {
            let serving = targets.iter().filter_map(Target::serving);
            let hosts: BTreeSet<&str> = serving.map(|host| host.name.as_str()).collect();
            vip.slots = slots::assign(&vip.slots, &hosts);
        }
        Some(Service {
            cluster: case.cluster.clone(),
            balancer,
            decided: decided.clone(),
            targets,
            holder: None,
            at_rest: leave::is_at_rest(decided.plan.because()),
            is_going,
        })
    });
    asked.collect()
}

fn configure(next: &mut Snapshot, services: &[Service], plan: &mut Plan) {
    let enrolled: Vec<Name> = next
        .hosts
        .iter()
        .filter(|(_, host)| host.spec.identity.is_some())
        .map(|(name, _)| name.clone())
        .collect();
    for name in enrolled {
        let Some(host) = next.hosts.get(&name) else {
            continue;
        };
        let mut config = config::host(next, services, &name, host);
        let mark = config::mark(host.spec.config.as_ref(), &config);
        config.generation = mark.generation;
        plan.hosts.insert(name.clone(), config);
        if let Some(host) = next.hosts.get_mut(&name)
            && host.spec.config.as_ref() != Some(&mark)
        {
            Arc::make_mut(host).spec.config = Some(mark);
        }
    }
}

fn configure_gateways(next: &mut Snapshot, plan: &mut Plan) {
    if next.gateways.is_empty() {
        return;
    }
    let before = next.clone();
    for (name, gateway) in &mut next.gateways {
        let last = gateway.clone();
        for instance in &mut gateway.spec.instances {
            if instance.identity.uid.is_empty() {
                continue;
            }
            let mut config = config::gateway(&before, &plan.share, name, &last, instance);
            let mark = config::mark(instance.config.as_ref(), &config);
            config.generation = mark.generation;
            plan.gateways
                .insert((name.clone(), instance.name.clone()), config);
            instance.config = Some(mark);
        }
    }
    plan.share.show(next);
}

#[cfg(test)]
mod tests;
