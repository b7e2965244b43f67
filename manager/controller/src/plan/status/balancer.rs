//! The status of a LoadBalancer.

use std::net::IpAddr;

use ipnet::IpNet;
use kedge_crd::{
    Condition, Endpoint, LoadBalancerStatus, Status,
    balancer::{GatewayStatus, Mode, PoolRef, SecondStatus, Target, TargetState, VipStatus},
    condition::merge,
};

use super::{backends, unwritten};
use crate::{
    plan::{
        Because, EndpointPlan, Service, access, claims,
        endpoint::{is_orphan, targets_edge_hosts},
        follow::{followed, follows, is_to_move, left_behind},
        gateway::current,
        handed, health,
        ledger::Ledger,
        names,
        targets::selector,
    },
    snapshot::Snapshot,
    store::Name,
};

/// The status of a LoadBalancer.
pub fn status(snapshot: &Snapshot, ledger: &Ledger, service: &Service) -> LoadBalancerStatus {
    let spec = &service.balancer.spec;
    let targets: Vec<Target> = service
        .targets
        .iter()
        .map(|target| Target {
            name: target.name.clone(),
            host: target
                .host
                .as_ref()
                .map(|host| host.name.clone())
                .unwrap_or_default(),
            address: target
                .host
                .as_ref()
                .map(|host| address(snapshot, service, host))
                .unwrap_or_default(),
            state: target.state,
        })
        .collect();
    let active = targets
        .iter()
        .filter(|target| target.state == TargetState::Active);
    let active_targets: Vec<String> = active.map(|target| target.name.clone()).collect();
    let vip = spec.vip.as_ref().filter(|_| spec.mode == Some(Mode::Vip));
    let vip = vip.and_then(|vip| {
        let address = vip.address?;
        let (claim, prefix) = had(snapshot, ledger, service, address, vip.pool_ref.as_ref());
        let second = vip.second.as_ref().and_then(|second| {
            let address = second.address?;
            let pool = second.pool_ref.as_ref();
            let (claim_ref, prefix) = had(snapshot, ledger, service, address, pool);
            Some(SecondStatus {
                address: address.to_string(),
                prefix,
                claim_ref,
            })
        });
        let holder = service.holder.as_ref().map(|host| host.name.clone());
        Some(VipStatus {
            address: address.to_string(),
            prefix,
            claim_ref: claim,
            holder: holder.unwrap_or_default(),
            second,
        })
    });
    let gateway = match &service.decided.gateway {
        Some(Ok(gateway)) => Some(GatewayStatus {
            address: gateway.address.clone(),
            ports: spec
                .listeners
                .iter()
                .map(|(name, port)| (name.clone(), port.get()))
                .collect(),
        }),
        _ => None,
    };
    let kind = if targets_edge_hosts(spec) {
        "EdgeHost"
    } else {
        "Machine"
    };
    let conditions = conditions(snapshot, ledger, service, &active_targets);
    let last = snapshot.balancers.get(&service.balancer.name);
    let last = last
        .map(|layers| layers.status.conditions.as_slice())
        .unwrap_or_default();
    LoadBalancerStatus {
        endpoint: told(snapshot, service),
        target_kind: kind.to_owned(),
        target_selector: selector(&service.balancer).to_string(),
        target_count: count(&targets),
        active_count: count(&active_targets),
        targets,
        active_targets,
        vip,
        gateway,
        refill: service.decided.refill.clone(),
        conditions: merge(last, conditions, &snapshot.now),
    }
}

/// The claim an address is held by, and the prefix length of its LAN.
fn had(
    snapshot: &Snapshot,
    ledger: &Ledger,
    service: &Service,
    address: IpAddr,
    pool: Option<&PoolRef>,
) -> (String, Option<u8>) {
    let name = &service.balancer.name;
    let (claim, prefix) = match pool {
        Some(pool) if claims::is_foreign(pool) => claims::claimed(snapshot, service, address),
        Some(_) => (claims::own_claim(ledger, name, address), None),
        None => (None, None),
    };
    let pool = pool.filter(|pool| !claims::is_foreign(pool));
    let pool = pool.map(|pool| Name::new(&service.balancer.name.namespace, &pool.name));
    let pool = pool.and_then(|pool| ledger.pool(&pool)?.as_ref().ok());
    (
        claim.unwrap_or_default(),
        prefix.or(pool.map(|pool| pool.prefix)),
    )
}

/// The VIP's address of the other family: no host of today announces it.
fn dual_stack(service: &Service) -> Option<Condition> {
    Some(match service.decided.second.as_ref()? {
        Ok(address) => {
            let text = format!(
                "{address} is held for this VIP, and no host has it: hosts speak VRRP for IPv4 alone"
            );
            Condition::new("DualStack", false, "FamilyUnsupported", text)
        }
        Err(because) => denied("DualStack", because),
    })
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

/// The endpoint in force: the plan's, or the one that was published before it stopped.
pub fn in_force(service: &Service) -> Option<Endpoint> {
    let planned = service.decided.plan.endpoint();
    planned.or(service.balancer.kept.endpoint.as_ref()).cloned()
}

/// The endpoint as it is told, which a move is known by.
fn told(snapshot: &Snapshot, service: &Service) -> Option<Endpoint> {
    let endpoint = in_force(service)?;
    let left = left_behind(snapshot, &service.cluster, &service.balancer, &endpoint);
    left.or(Some(endpoint))
}

fn address(snapshot: &Snapshot, service: &Service, name: &Name) -> String {
    let host = snapshot.hosts.get(name);
    let overlay = host
        .and_then(|host| host.spec.tunnel.addresses.first())
        .map(IpNet::addr);
    let on_lan = || {
        let wanted = service
            .balancer
            .spec
            .host_address
            .clone()
            .unwrap_or_default();
        crate::plan::reserve::address(host?, &wanted).ok()
    };
    match service.balancer.spec.mode {
        Some(Mode::Tunnel) => overlay.map(|address| address.to_string()),
        _ => on_lan(),
    }
    .unwrap_or_default()
}

fn conditions(
    snapshot: &Snapshot,
    ledger: &Ledger,
    service: &Service,
    active: &[String],
) -> Vec<Condition> {
    let plan = &service.decided.plan;
    let published = match plan {
        EndpointPlan::Set { endpoint, because } | EndpointPlan::Keep { endpoint, because } => {
            Condition::new(
                "EndpointPublished",
                true,
                published_reason(because),
                format!("{endpoint}: {because}"),
            )
        }
        EndpointPlan::User { because, .. } | EndpointPlan::Beside { because, .. } => {
            Condition::new(
                "EndpointPublished",
                true,
                because.reason(),
                because.to_string(),
            )
        }
        EndpointPlan::Rest { because } => {
            let known = service.balancer.kept.endpoint.is_some();
            Condition::new(
                "EndpointPublished",
                known,
                because.reason(),
                because.to_string(),
            )
        }
        EndpointPlan::Ignore { because }
        | EndpointPlan::Wait { because }
        | EndpointPlan::Conflict { because } => denied("EndpointPublished", because),
    };
    let mut all = vec![
        exists(service),
        unwritten::condition(snapshot, service).unwrap_or(published),
        reachable(snapshot, service, active),
        matches_config(snapshot, ledger, service),
    ];
    all.extend(unblocked(snapshot, service));
    all.extend(names::condition(snapshot, &service.balancer));
    all.extend(programmed(snapshot, service));
    let management = access::condition(snapshot, service);
    let counts = snapshot.environment.has_core();
    all.extend(management.clone().filter(|_| counts));
    let first = all
        .iter()
        .find(|condition| condition.status != Status::True);
    let ready = match first {
        None => Condition::new(
            "Ready",
            true,
            "Ready",
            "the endpoint is published and answers",
        ),
        Some(first) => Condition::new("Ready", false, &first.reason, first.message.clone()),
    };
    let paused = matches!(plan.because(), Because::Paused { .. });
    let degraded = if is_orphan(&service.balancer) {
        Condition::new(
            "Degraded",
            true,
            "DeletionBlocked",
            "nobody asks for this LoadBalancer any more, but its cluster lives with its endpoint: it goes on",
        )
    } else if let Some(endpoint) = moved(snapshot, service) {
        let text = format!("the endpoint moved to {endpoint}; who dials the old one is cut off");
        Condition::new("Degraded", true, "EndpointMoved", text)
    } else {
        Condition::new("Degraded", false, "AsExpected", "")
    };
    let reason = if paused { "Paused" } else { "NotPaused" };
    // The endpoint does not wait for the address of the other family, so neither does Ready.
    all.extend(dual_stack(service));
    all.extend(backends::condition(service));
    all.extend(management.filter(|_| !counts));
    all.extend([
        ready,
        degraded,
        Condition::new("Paused", paused, reason, ""),
    ]);
    all
}

/// Whether the control plane may start; only the LoadBalancer that fills the endpoint says so.
fn unblocked(snapshot: &Snapshot, service: &Service) -> Option<Condition> {
    const KIND: &str = "ControlPlaneUnblocked";
    if service.balancer.beside.is_some() {
        return None;
    }
    let cluster = snapshot.clusters.get(&service.cluster);
    let in_cluster = cluster.and_then(|cluster| cluster.spec.control_plane_endpoint.as_ref());
    let copied = in_cluster.is_some_and(Endpoint::is_valid) || !snapshot.environment.has_core();
    Some(match in_force(service) {
        Some(endpoint) if copied => {
            let text = format!("the Cluster has {endpoint}, so its control plane may start");
            Condition::new(KIND, true, "EndpointSet", text)
        }
        Some(_) => {
            let text = "Cluster API copies the endpoint once the infrastructure is provisioned";
            Condition::new(KIND, false, "WaitingForCopy", text)
        }
        None => {
            let text = "Cluster API creates no machine before the endpoint is set";
            Condition::new(KIND, false, "WaitingForEndpoint", text)
        }
    })
}

/// A published endpoint stays published when what it came from is gone; the reason says so.
fn published_reason(because: &Because) -> &'static str {
    match because.reason() {
        reason @ ("Published" | "UserProvided") => reason,
        _ => "Published",
    }
}

fn exists(service: &Service) -> Condition {
    match (&service.decided.missing, &service.decided.plan) {
        (Some(missing), _) => denied("Exists", missing),
        (None, EndpointPlan::Set { because, .. } | EndpointPlan::Keep { because, .. }) => {
            Condition::new("Exists", true, "Allocated", because.to_string())
        }
        (
            None,
            EndpointPlan::User { .. }
            | EndpointPlan::Beside { .. }
            | EndpointPlan::Wait {
                because:
                    Because::NameUnresolved { .. }
                    | Because::SanMissing { .. }
                    | Because::PlaneMissing { .. },
            },
        ) => Condition::new(
            "Exists",
            true,
            "Allocated",
            "what the endpoint needs is allocated",
        ),
        (None, plan) if service.balancer.kept.endpoint.is_some() => {
            Condition::new("Exists", true, "Allocated", plan.because().to_string())
        }
        (None, plan) => denied("Exists", plan.because()),
    }
}

fn reachable(snapshot: &Snapshot, service: &Service, active: &[String]) -> Condition {
    let yes = |text: String| Condition::new("IsReachable", true, "Serving", text);
    let no = |text: &str| {
        let text = format!("{text} ({})", kedge_core::Code::LbNoActiveTarget);
        Condition::new("IsReachable", false, "NoActiveTargets", text)
    };
    if let Some(condition) = handed::reachable(snapshot, &service.balancer) {
        return condition;
    }
    if let Some(name) = names::hostname(&service.balancer)
        && names::resolves(snapshot, name) == Some(false)
    {
        let text = format!("{name} does not resolve");
        return Condition::new("IsReachable", false, "DNSNotResolvable", text);
    }
    match (service.balancer.spec.mode, &service.holder) {
        (Some(Mode::Vip), Some(holder))
            if health::answers(snapshot, service, holder) == Some(false) =>
        {
            let text = format!(
                "{} holds the VIP, and its server behind it fails the health probe ({})",
                holder.name,
                kedge_core::Code::VipUnhealthy
            );
            Condition::new("IsReachable", false, "ProbeFailed", text)
        }
        (Some(Mode::Vip), Some(holder)) => yes(format!("{} holds the VIP", holder.name)),
        (Some(Mode::Vip), None) => no("no host holds the VIP"),
        _ if active.is_empty() => no("no host takes traffic"),
        _ => yes(match active {
            [one] => format!("{one} takes traffic"),
            many => format!("{} take traffic", many.join(", ")),
        }),
    }
}

fn matches_config(snapshot: &Snapshot, ledger: &Ledger, service: &Service) -> Condition {
    let balancer = &service.balancer;
    let no = |text: String| Condition::new("MatchesConfig", false, "RolloutRequired", text);
    if let Some(field) = balancer.fixed.first() {
        return no(format!(
            "{field} cannot change once the endpoint exists; the old value is in force"
        ));
    }
    if let Some(other) = ledger.vrid_clash(&balancer.name) {
        let text = format!("the LoadBalancer {other} on the same LAN has the same vrid");
        return no(format!(
            "{text} ({})",
            kedge_core::Code::ConfigDuplicateVrid
        ));
    }
    if let Some(endpoint) = moved(snapshot, service) {
        return no(format!(
            "nodes still dial the endpoint before {endpoint}; roll them out"
        ));
    }
    let host = balancer
        .spec
        .host_address
        .as_ref()
        .and_then(|reserved| reserved.host.as_ref());
    if let (Some(Mode::HostAddress), Some(host), Some(endpoint)) =
        (balancer.spec.mode, host, in_force(service))
    {
        let name = Name::new(&balancer.name.namespace, host);
        let now = address(snapshot, service, &name);
        let by_name = names::hostname(balancer).is_some();
        if !by_name && !now.is_empty() && now != endpoint.host {
            return no(format!(
                "{host} now reports {now}; clients still use {}",
                endpoint.host
            ));
        }
    }
    Condition::new("MatchesConfig", true, "InSync", "")
}

/// The endpoint that followed its target, which core does not copy and nodes do not learn.
fn moved(snapshot: &Snapshot, service: &Service) -> Option<Endpoint> {
    let endpoint = in_force(service).filter(|_| follows(&service.balancer))?;
    let moves = is_to_move(snapshot, &service.cluster, &service.balancer, &endpoint);
    let moved = followed(snapshot, &service.cluster).is_some_and(|moved| moved == endpoint);
    (moved || (moves && snapshot.environment.has_core())).then_some(endpoint)
}

fn programmed(snapshot: &Snapshot, service: &Service) -> Option<Condition> {
    let gateway = match service.decided.gateway.as_ref()? {
        Err(because) => return Some(denied("DataplaneProgrammed", because)),
        Ok(gateway) => gateway,
    };
    let object = snapshot.gateway(&gateway.name)?;
    let serving = current(snapshot, &gateway.name, object).next().is_some();
    let text = if serving {
        format!(
            "EdgeGateway {} serves its listener at {}",
            gateway.name, gateway.address
        )
    } else {
        format!(
            "no instance of EdgeGateway {} serves the latest desired state yet",
            gateway.name
        )
    };
    let reason = if serving { "Programmed" } else { "Pending" };
    Some(Condition::new("DataplaneProgrammed", serving, reason, text))
}

fn denied(kind: &str, because: &Because) -> Condition {
    let text = match because.code() {
        Some(code) => format!("{because} ({code})"),
        None => because.to_string(),
    };
    Condition::new(kind, false, because.reason(), text)
}
