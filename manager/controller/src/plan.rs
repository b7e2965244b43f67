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
pub mod dns;
mod drain;
pub mod elemental;
pub mod endpoint;
pub mod exposed;
mod follow;
pub mod gate;
pub mod gateway;
mod given;
mod handed;
mod health;
pub mod holder;
pub mod http;
pub mod issued;
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
mod selected;
pub mod share;
mod shortcut;
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
use drain::Leaving;
use endpoint::Decided;
use http::Http;
use ledger::Ledger;
use pending::Pending;
use share::Share;
use targets::{HostIndex, Target};
use tcp::Tcp;
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
    /// The hosts of the whole cluster that answer for its endpoint themselves while no gateway is reached.
    pub hosts: BTreeSet<Name>,
    /// The host that holds the VIP.
    pub holder: Option<Name>,
    /// Whether somebody paused the cluster.
    pub at_rest: bool,
    /// Whether the cluster is being deleted.
    pub is_going: bool,
}

impl Service {
    /// The target that a host is whose Machine goes.
    fn leaving(&self, host: &Name) -> Option<&Target> {
        let mut leaving = self.targets.iter().filter(|it| it.leaving.is_some());
        leaving.find(|target| target.host.as_ref() == Some(host))
    }
}

/// Everything that was decided on the way to a plan.
struct Decisions<'a> {
    cases: &'a [Case],
    decided: &'a [Decided],
    services: &'a [Service],
    tcp: &'a [Tcp],
    http: &'a [Http],
    ledger: &'a Ledger,
}

/// Decides everything.
#[must_use]
pub fn plan(snapshot: &Snapshot) -> Plan {
    let mut next = snapshot.clone();
    report::take(&mut next);
    let mut cases = balancer::cases(&next);
    let mut wake = Wake::default();
    let (found, asked) = (tcp::found(&next), http::found(&next));
    let (decided, mut ledger) = decide(&next, &mut cases, (&found, &asked), &mut wake);
    let index = HostIndex::new(&next);
    let leaving = Leaving::of(&next, &index);
    let mut services = services(&next, &index, &leaving, (&cases, &decided));
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
    let mut tcp = tcp::all(&next, &found, &cases, &leaving, &mut ledger);
    let held = leaving.settle(&next, &mut services, &mut tcp, &mut wake);
    plan.share = Share::of(&next, &cases, &decided, &services, &ledger);
    tcp::share(&tcp, &mut plan.share);
    let counted = tcp::counted(&cases, &tcp);
    let http = http::all(&next, &asked, &tcp, counted, &mut ledger);
    plan.share.ports = ledger.ports.of_space(&next.space);
    http::share(&next, &asked, &http, &mut plan.share);
    (plan.certificates, plan.is_unread) = http::secrets(&http);
    configure_gateways(&mut next, &mut plan);
    leave::states(&next, &mut services, &held, &mut wake);
    let mut wanted = Desired::default();
    desired::endpoints(&next, &cases, &decided, &services, &mut wanted);
    provision::statuses(&next, &cases, &decided, &mut wanted);
    leave::annotations(&next, &services, &mut wanted);
    leaving.hooks(&next, &tcp, &held, &mut wanted);
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
    issued::write(&next, &http, &mut wanted);
    dns::write(&next, &services, &http, &mut wanted);
    let decisions = Decisions {
        cases: &cases,
        decided: &decided,
        services: &services,
        tcp: &tcp,
        http: &http,
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
    found: (&[tcp::Found], &[http::Found]),
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

fn services(
    snapshot: &Snapshot,
    index: &HostIndex,
    leaving: &Leaving,
    (cases, decided): (&[Case], &[Decided]),
) -> Vec<Service> {
    let asked = cases.iter().zip(decided).filter_map(|(case, decided)| {
        let balancer = case.asked.as_ref().ok()?;
        let cluster = snapshot.clusters.get(&case.cluster);
        let is_going = cluster.is_some_and(|object| object.metadata.deletion_timestamp.is_some());
        let mut targets = targets::targets(snapshot, index, balancer, is_going);
        if let Some(Ok(used)) = &decided.gateway {
            for target in targets.iter_mut().filter(|target| !target.disabled) {
                let host = target.host.as_ref().filter(|_| target.leaving.is_some());
                let drained = host.and_then(|host| leaving.is_drained(snapshot, host, &used.name));
                target.draining = drained == Some(true);
            }
        }
        let hosts = shortcut::hosts(snapshot, index, balancer, &targets);
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
            hosts,
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
