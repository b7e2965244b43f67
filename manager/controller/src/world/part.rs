//! What is handed out of a namespace, in little memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kedge_control::{
    agent::{GatewayConfig, HostConfig},
    local::{FleetEndpoint, FleetLoadBalancer},
};
use kedge_core::Problem;
use kedge_crd::{EdgeGatewaySpec, EdgeHostSpec, Status, balancer::TargetState, condition};
use tokio::sync::watch;

use crate::{
    plan::{Plan, pending::waits_for},
    snapshot::key,
    store::{Name, ObjectKey, outcome::Outcome, packed::PackedValue},
};

/// The plan in force of a namespace: written, and handed out.
#[derive(Debug, Default)]
pub struct Part {
    hosts: BTreeMap<Box<str>, Handed>,
    gateways: BTreeMap<(Name, String), GatewayConfig>,
    endpoints: Vec<FleetEndpoint>,
    load_balancers: Vec<FleetLoadBalancer>,
    problems: Vec<Problem>,
    kubeconfigs: BTreeMap<Name, String>,
    certificates: BTreeSet<Name>,
    names: BTreeSet<String>,
    alive: usize,
    targets: BTreeMap<TargetState, usize>,
    /// The members in it, by uid.
    pub(super) members: Vec<Arc<str>>,
    /// Whether a plan of it is in force.
    is_planned: bool,
    version: watch::Sender<u64>,
}

/// A host's desired state but for the CA's certificates, which are everybody's.
#[derive(Debug)]
struct Handed {
    generation: u64,
    config: PackedValue,
}

impl Part {
    /// Leaves out the endpoints that are not there because their writes are held: each stays as it
    /// was last.
    pub(super) fn hold_back(&self, plan: &mut Plan, outcome: &Outcome) {
        let is_held = |key: &ObjectKey| outcome.broken.is_some() || outcome.held.contains(key);
        let pending = &plan.pending;
        plan.endpoints.retain_mut(|item| {
            let waits = waits_for(pending, item);
            if item.endpoint.is_none() || !waits.is_some_and(|keys| keys.iter().any(is_held)) {
                return true;
            }
            let last = self.endpoint(item);
            if let Some(last) = last {
                item.clone_from(last);
            }
            last.is_some()
        });
    }

    /// Takes a plan that was carried out but for what is held: that stays as it was.
    pub(super) fn take(&mut self, space: &str, plan: Plan, outcome: &Outcome) {
        if outcome.is_chosen(space) {
            let is_held = |name: &Name| outcome.held.contains(&key::<EdgeHostSpec>(name));
            self.hosts
                .retain(|name, _| plan.hosts.contains_key(&Name::new(space, &**name)));
            for (name, mut config) in plan.hosts {
                let last = self.hosts.get(name.name.as_str());
                let is_same = last.is_some_and(|last| last.generation == config.generation);
                if is_same || is_held(&name) {
                    continue;
                }
                config.ca_bundle = String::new();
                let handed = Handed {
                    generation: config.generation,
                    config: PackedValue::new(&config),
                };
                self.hosts.insert(name.name.into(), handed);
            }
            let is_held = |name: &Name| outcome.held.contains(&key::<EdgeGatewaySpec>(name));
            self.gateways
                .retain(|key, _| plan.gateways.contains_key(key));
            for (key, config) in plan.gateways {
                if !is_held(&key.0) {
                    self.gateways.insert(key, config);
                }
            }
        }
        let is_alive = |conditions: &&Vec<kedge_crd::Condition>| {
            let alive = condition::find(conditions, "AgentAlive");
            alive.is_some_and(|alive| alive.status == Status::True)
        };
        self.is_planned = true;
        self.alive = plan.host_conditions.values().filter(is_alive).count();
        self.targets = plan.targets;
        self.endpoints = plan.endpoints;
        self.load_balancers = plan.load_balancers;
        self.problems = plan.problems;
        self.kubeconfigs = plan.kubeconfigs;
        self.certificates = plan.certificates;
        self.names = plan.names;
        self.nudge();
    }

    /// The generation of a host's desired state.
    #[must_use]
    pub fn host_generation(&self, name: &str) -> Option<u64> {
        self.hosts.get(name).map(|handed| handed.generation)
    }

    /// A host's desired state.
    #[must_use]
    pub fn host(&self, name: &str, ca_bundle: &str) -> Option<HostConfig> {
        let mut config: HostConfig = self.hosts.get(name)?.config.open()?;
        config.ca_bundle = ca_bundle.to_owned();
        Some(config)
    }

    /// The desired state of a gateway instance.
    #[must_use]
    pub fn gateway(&self, key: &(Name, String)) -> Option<&GatewayConfig> {
        self.gateways.get(key)
    }

    /// Where kubeconfig Secrets shall lead, by cluster.
    pub const fn kubeconfigs(&self) -> &BTreeMap<Name, String> {
        &self.kubeconfigs
    }

    /// The Secrets that HTTPLoadBalancers name.
    pub const fn certificates(&self) -> &BTreeSet<Name> {
        &self.certificates
    }

    /// The names of its endpoints.
    pub const fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// The desired states of the gateway instances.
    pub fn gateways(&self) -> impl Iterator<Item = &GatewayConfig> {
        self.gateways.values()
    }

    /// Every cluster's endpoint, for people.
    #[must_use]
    pub fn endpoints(&self) -> &[FleetEndpoint] {
        &self.endpoints
    }

    /// Every TCPLoadBalancer and HTTPLoadBalancer, for people.
    #[must_use]
    pub fn load_balancers(&self) -> &[FleetLoadBalancer] {
        &self.load_balancers
    }

    /// The endpoint in the place of another: of the same cluster and LoadBalancer.
    pub(super) fn endpoint(&self, like: &FleetEndpoint) -> Option<&FleetEndpoint> {
        self.endpoints.iter().find(|item| {
            item.cluster == like.cluster
                && item.load_balancer == like.load_balancer
                && item.namespace == like.namespace
        })
    }

    /// Whether a plan of it is in force.
    pub(super) const fn is_planned(&self) -> bool {
        self.is_planned
    }

    /// What is wrong.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// How many hosts have a desired state.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// How many hosts are alive, as their status says.
    #[must_use]
    pub const fn alive(&self) -> usize {
        self.alive
    }

    /// How many targets are in which state.
    #[must_use]
    pub const fn targets(&self) -> &BTreeMap<TargetState, usize> {
        &self.targets
    }

    /// Follows it.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Wakes whoever follows it.
    pub fn nudge(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Layer, Write};

    fn plan(endpoints: &[(&str, Option<&str>)], pending: &[(&str, &ObjectKey)]) -> Plan {
        let endpoints = endpoints.iter().map(|(balancer, endpoint)| FleetEndpoint {
            namespace: "ns".to_owned(),
            cluster: "c".to_owned(),
            load_balancer: (*balancer).to_owned(),
            endpoint: endpoint.map(str::to_owned),
            ..FleetEndpoint::default()
        });
        let pending = pending.iter().map(|(balancer, key)| {
            let place = (Name::new("ns", "c"), (*balancer).to_owned());
            (place, [(*key).clone()].into())
        });
        Plan {
            endpoints: endpoints.collect(),
            pending: pending.collect(),
            ..Plan::default()
        }
    }

    #[test]
    fn an_endpoint_is_told_once_it_is_written_and_stays_as_it_was_until_then() {
        let infra = ObjectKey::new("infra", "Cluster", Name::new("ns", "c"));
        let write = Write {
            key: infra.clone(),
            layer: Layer::Owned("kedge-endpoint".to_owned()),
            content: None,
        };
        let held = Outcome::left_to_another(std::slice::from_ref(&write));
        let mut part = Part::default();
        let mut tell = |mut plan: Plan, outcome: &Outcome| {
            part.hold_back(&mut plan, outcome);
            part.take("ns", plan, outcome);
            let told = part.endpoints().iter();
            let told = told.map(|item| (item.load_balancer.clone(), item.endpoint.clone()));
            told.collect::<Vec<_>>()
        };
        let told = |items: &[(&str, Option<&str>)]| -> Vec<(String, Option<String>)> {
            let items = items.iter();
            items
                .map(|(of, at)| ((*of).to_owned(), at.map(str::to_owned)))
                .collect()
        };
        let blank = [("in", None), ("out", Some("b:1"))];
        assert_eq!(tell(plan(&blank, &[]), &Outcome::default()), told(&blank));
        let filled = [
            ("in", Some("a:1")),
            ("new", Some("c:1")),
            ("out", Some("b:1")),
        ];
        let waits = [("in", &infra), ("new", &infra)];
        assert_eq!(tell(plan(&filled, &waits), &held), told(&blank));
        let broken =
            Outcome::broken_by(Problem::new(kedge_core::Code::HostStateNotPersisted, "no"));
        assert_eq!(tell(plan(&filled, &waits), &broken), told(&blank));
        assert_eq!(
            tell(plan(&filled, &waits), &Outcome::default()),
            told(&filled)
        );
    }
}
