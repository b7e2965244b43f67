//! The status of our kinds, with a condition and a reason for every decision.

mod backends;
mod balancer;
pub mod fleet;
mod pool;
mod tenants;
mod unwritten;

use kedge_core::vip::RouterState;
use kedge_crd::{
    Condition, EdgeGatewaySpec, EdgeHost, EdgeHostSpec, LoadBalancerSpec, LoadBalancerStatus,
    Resource,
    condition::{find, merge},
    host::{HostAddress, HostVip},
};
use serde::Serialize;
use serde_json::Value;

use super::{Decisions, Plan, desired::Desired, health, ledger::Ledger, usable::refusal};
use crate::{
    live::CALM,
    snapshot::{Hearing, Snapshot, key},
    store::{Layer, Name},
};

/// Writes every status, and what the fleet's lists show of it.
pub fn write(
    before: &Snapshot,
    snapshot: &Snapshot,
    decisions: &Decisions<'_>,
    plan: &mut Plan,
    wanted: &mut Desired,
) {
    let Decisions {
        cases,
        decided,
        services,
        ledger,
        ..
    } = *decisions;
    for service in services {
        let status = balancer::status(snapshot, ledger, service);
        put::<LoadBalancerSpec>(snapshot, wanted, &service.balancer.name, &status);
        plan.endpoints.push(fleet::endpoint(service, &status));
    }
    let unasked = cases
        .iter()
        .zip(decided)
        .filter(|(case, _)| case.asked.is_err());
    plan.endpoints
        .extend(unasked.map(|(case, decided)| fleet::unasked(case, decided)));
    plan.endpoints
        .sort_by(|a, b| (&a.namespace, &a.cluster).cmp(&(&b.namespace, &b.cluster)));
    hosts(before, snapshot, plan, wanted);
    gateways(snapshot, plan, wanted);
    tenants::write(snapshot, decisions, &plan.share, wanted);
    pool::write(snapshot, ledger, wanted);
}

/// Wants a status, whose conditions say at which generation of the spec they were found.
pub(super) fn put<S: Resource>(
    snapshot: &Snapshot,
    wanted: &mut Desired,
    name: &Name,
    status: &impl Serialize,
) {
    let mut status = serde_json::to_value(status).unwrap_or(Value::Null);
    let layers = snapshot.objects.get(&key::<S>(name));
    let generation = layers.and_then(|layers| layers.server.as_ref()?.generation);
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if let (Some(condition), Some(generation)) = (condition.as_object_mut(), generation) {
            condition.insert("observedGeneration".to_owned(), Value::from(generation));
        }
    }
    wanted.status::<S>(name, status);
}

/// Wants the status of a LoadBalancer as it was, but for one condition.
pub fn replace(
    snapshot: &Snapshot,
    wanted: &mut Desired,
    name: &Name,
    last: &LoadBalancerStatus,
    condition: Condition,
) {
    let mut conditions = last.conditions.clone();
    conditions.retain(|one| one.kind != condition.kind);
    conditions.push(condition);
    let status = LoadBalancerStatus {
        conditions: merge(&last.conditions, conditions, &snapshot.now),
        ..last.clone()
    };
    put::<LoadBalancerSpec>(snapshot, wanted, name, &status);
}

fn hosts(before: &Snapshot, snapshot: &Snapshot, plan: &mut Plan, wanted: &mut Desired) {
    let became = super::nodes::became(snapshot);
    for (name, host) in &snapshot.hosts {
        let mut status = host.status.clone();
        let became = became.get(name);
        status.machine_ref = became.map_or_else(String::new, |became| became.machine.clone());
        status.node = became.and_then(|became| became.node.clone());
        // Who saw it may lead no more: what was told stands for as long as it would have.
        let told = find(&host.status.conditions, IDENTITY_UNIQUE);
        let told = told.filter(|condition| condition.status == kedge_crd::Status::False);
        let was_contested = told.is_some_and(|condition| {
            let since = &condition.last_transition_time;
            plan.wake.waits(&snapshot.now, since, CALM)
        });
        let conditions = host_conditions(snapshot, name, host, was_contested);
        status.conditions = merge(&host.status.conditions, conditions, &snapshot.now);
        plan.host_conditions
            .insert(name.clone(), status.conditions.clone());
        // They are many, and most say what they said.
        let key = key::<EdgeHostSpec>(name);
        let layers = snapshot.objects.get(&key);
        let generation = layers.and_then(|layers| layers.server.as_ref()?.generation);
        if generation.is_some() {
            let conditions = status.conditions.iter_mut();
            conditions.for_each(|condition| condition.observed_generation = generation);
        }
        let told = before.hosts.get(name).map(|host| &host.status);
        let is_told = layers.is_some_and(|layers| layers.status.is_some());
        if is_told && told == Some(&status) {
            wanted.keep(key, Layer::Status);
        } else {
            put::<EdgeHostSpec>(snapshot, wanted, name, &status);
        }
    }
}

fn host_conditions(
    snapshot: &Snapshot,
    name: &Name,
    host: &EdgeHost,
    was_contested: bool,
) -> Vec<Condition> {
    let enrolled = if let (None, Some(waits)) = (&host.spec.identity, &host.spec.request) {
        let text = format!(
            "a host waits: compare its key's hash and set spec.approved to {}",
            waits.key_hash
        );
        Condition::new("Enrolled", false, "WaitingForApproval", text)
    } else if host.spec.identity.is_none() {
        Condition::new(
            "Enrolled",
            false,
            "WaitingForHost",
            "no host has enrolled under this name",
        )
    } else if host.spec.is_active() {
        Condition::new("Enrolled", true, "Enrolled", "the host holds an identity")
    } else {
        let access = host.spec.access.unwrap_or_default().as_str();
        Condition::new(
            "Enrolled",
            false,
            access,
            format!("spec.access is {access}"),
        )
    };
    let alive = if snapshot.is_alive(name) {
        Condition::new("AgentAlive", true, "Heard", "the agent reports")
    } else {
        Condition::new("AgentAlive", false, "NotHeard", "the agent is not heard of")
    };
    let report = snapshot
        .live
        .hosts
        .get(name)
        .and_then(|live| live.report.as_ref());
    let addresses = addresses(&host.status.addresses);
    let wanted = host.spec.config.as_ref().map_or(0, |mark| mark.generation);
    let problem = report.and_then(|report| report.problems.first());
    let applied = match problem {
        Some(problem) => {
            let text = super::report::clean(&problem.to_string());
            Condition::new("ConfigApplied", false, "ProblemReported", text)
        }
        None if host.status.agent.config_generation == wanted => Condition::new(
            "ConfigApplied",
            true,
            "Applied",
            "the latest desired state is in force",
        ),
        None => Condition::new(
            "ConfigApplied",
            false,
            "Pending",
            "the latest desired state is not in force yet",
        ),
    };
    let contested = snapshot
        .live
        .hosts
        .get(name)
        .is_some_and(|live| live.is_contested);
    let unique = if contested || was_contested {
        Condition::new(
            IDENTITY_UNIQUE,
            false,
            "IdentityConflict",
            "two machines were seen with this identity; the one that held it keeps it",
        )
    } else {
        Condition::new(
            IDENTITY_UNIQUE,
            true,
            "Unique",
            "one machine uses this identity",
        )
    };
    let mut all = vec![enrolled, alive, addresses, applied];
    let ready = all
        .iter()
        .all(|condition| condition.status == kedge_crd::Status::True);
    if host.spec.identity.is_some() {
        all.push(unique);
    }
    if let Some(tunnel) = tunnel_condition(snapshot, name, host) {
        all.push(tunnel);
    }
    if let Some(vips) = vip_condition(&host.status.vips) {
        all.push(vips);
    }
    let first = all
        .iter()
        .find(|condition| condition.status != kedge_crd::Status::True);
    let (reason, text) = first.map_or(("Ready", String::new()), |first| {
        ("NotReady", first.message.clone())
    });
    all.push(Condition::new(
        "Ready",
        ready,
        if ready { "Ready" } else { reason },
        text,
    ));
    all
}

fn tunnel_condition(snapshot: &Snapshot, name: &Name, host: &EdgeHost) -> Option<Condition> {
    super::overlay::gateway_of(snapshot, name, host)?;
    Some(if health::tunnel_is_up(snapshot, name) {
        Condition::new(
            "TunnelReady",
            true,
            "Up",
            "a gateway answers through the tunnel",
        )
    } else {
        Condition::new(
            "TunnelReady",
            false,
            "Down",
            "no gateway answers through the tunnel",
        )
    })
}

fn vip_condition(vips: &[HostVip]) -> Option<Condition> {
    let sick = vips.iter().find(|vip| vip.state == RouterState::Fault);
    match sick {
        _ if vips.is_empty() => None,
        Some(vip) => {
            let text = format!("{} is in Fault: {}", vip.lb, vip.because);
            Some(Condition::new("VIPHealthy", false, "Fault", text))
        }
        None => Some(Condition::new(
            "VIPHealthy",
            true,
            "Healthy",
            "no VIP is in Fault",
        )),
    }
}

fn gateways(snapshot: &Snapshot, plan: &Plan, wanted: &mut Desired) {
    for (name, gateway) in &snapshot.gateways {
        let mut status = gateway.status.clone();
        let instances = &status.instances;
        let heard = |instance: &str| {
            let live = snapshot
                .live
                .gateways
                .get(&(name.clone(), instance.to_owned()));
            live.is_none_or(|live| live.hearing != Hearing::Silent)
        };
        let programmed = instances.iter().any(|instance| {
            let key = (name.clone(), instance.name.clone());
            let wanted = plan.gateways.get(&key).map(|config| config.generation);
            heard(&instance.name) && wanted == Some(instance.config_generation)
        });
        let keys = gateway
            .spec
            .instances
            .iter()
            .any(|instance| !instance.public_keys.is_empty());
        let mut conditions = vec![
            if programmed {
                Condition::new(
                    "Programmed",
                    true,
                    "Programmed",
                    "an instance serves the latest desired state",
                )
            } else {
                Condition::new(
                    "Programmed",
                    false,
                    "Pending",
                    "no instance serves the latest desired state",
                )
            },
            if keys {
                Condition::new(
                    "KeysReady",
                    true,
                    "Ready",
                    "an instance has enrolled with its key",
                )
            } else {
                Condition::new(
                    "KeysReady",
                    false,
                    "WaitingForInstance",
                    "no instance has enrolled",
                )
            },
        ];
        let ready = programmed && keys;
        let reason = if ready { "Ready" } else { "NotReady" };
        conditions.push(Condition::new("Ready", ready, reason, ""));
        status.conditions = merge(&gateway.status.conditions, conditions, &snapshot.now);
        put::<EdgeGatewaySpec>(snapshot, wanted, name, &status);
    }
}

fn addresses(reported: &[HostAddress]) -> Condition {
    let refused = |address: &&HostAddress| refusal(address.address.parse().ok()?);
    let usable = || reported.iter().filter(|address| refused(address).is_none());
    let first = usable().find(|address| address.primary).or(usable().next());
    let (ok, reason, text) = match (first, reported.first()) {
        (Some(first), _) => (
            true,
            "Reported",
            format!("{}: {}", first.address, first.because),
        ),
        (None, Some(first)) => {
            let why = refused(&first).map(|why| why.to_string());
            let text = format!("{} is {}", first.address, why.unwrap_or_default());
            (false, "NoUsableAddress", text)
        }
        (None, None) => (false, "NoAddress", "the host reports no address".to_owned()),
    };
    Condition::new("AddressesReported", ok, reason, text)
}

/// The conditions as they were last written.
fn last_conditions<S: Resource>(snapshot: &Snapshot, name: &Name) -> Vec<Condition> {
    let layers = snapshot.objects.get(&key::<S>(name));
    let status = layers.and_then(|layers| layers.status.as_ref());
    let conditions = status.and_then(|status| status.pointer("/status/conditions"));
    conditions
        .and_then(|conditions| serde_json::from_value(conditions.clone()).ok())
        .unwrap_or_default()
}

const IDENTITY_UNIQUE: &str = "IdentityUnique";
