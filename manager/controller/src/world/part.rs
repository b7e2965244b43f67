//! What is handed out of a namespace, in little memory.

use std::collections::{BTreeMap, BTreeSet};

use kedge_control::{
    agent::{GatewayConfig, HostConfig},
    local::FleetEndpoint,
};
use kedge_core::Problem;
use kedge_crd::{EdgeGatewaySpec, EdgeHostSpec, Status, balancer::TargetState, condition};
use tokio::sync::watch;

use crate::{
    plan::Plan,
    snapshot::key,
    store::{Name, outcome::Outcome, packed::PackedValue},
};

/// The plan in force of a namespace: written, and handed out.
#[derive(Debug, Default)]
pub struct Part {
    hosts: BTreeMap<Box<str>, Handed>,
    gateways: BTreeMap<(Name, String), GatewayConfig>,
    endpoints: Vec<FleetEndpoint>,
    problems: Vec<Problem>,
    kubeconfigs: BTreeMap<Name, String>,
    names: BTreeSet<String>,
    alive: usize,
    targets: BTreeMap<TargetState, usize>,
    /// The members in it, by uid.
    pub(super) members: Vec<String>,
    version: watch::Sender<u64>,
}

/// A host's desired state but for the CA's certificates, which are everybody's.
#[derive(Debug)]
struct Handed {
    generation: u64,
    config: PackedValue,
}

impl Part {
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
        self.alive = plan.host_conditions.values().filter(is_alive).count();
        self.targets = plan.targets;
        self.endpoints = plan.endpoints;
        self.problems = plan.problems;
        self.kubeconfigs = plan.kubeconfigs;
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
