//! A cluster's endpoint as the fleet's list shows it.

use kedge_control::local::{FleetCondition, FleetEndpoint};
use kedge_core::{Code, Fix, Problem};
use kedge_crd::{Condition, LoadBalancerStatus, Status, balancer::Mode, condition::find};

use super::balancer::in_force;
use crate::{
    plan::{Because, Case, Decided, EndpointPlan, Service},
    store::Name,
};

/// The endpoint of a cluster that is served.
pub fn endpoint(service: &Service, status: &LoadBalancerStatus) -> FleetEndpoint {
    let spec = &service.balancer.spec;
    let plan = &service.decided.plan;
    let user = matches!(plan, EndpointPlan::User { .. });
    let mode = spec.mode.map_or("", Mode::as_str);
    let pool = spec.vip.as_ref().and_then(|vip| vip.pool_ref.as_ref());
    let host = spec
        .host_address
        .as_ref()
        .and_then(|reserved| reserved.host.as_ref());
    let gateway = spec.gateway_ref.as_ref();
    let from = match (spec.mode, pool, gateway, host) {
        _ if user => "user".to_owned(),
        (Some(Mode::Vip), Some(pool), _, _) => format!("pool {}", pool.name),
        (Some(Mode::Tunnel), _, Some(gateway), _) => format!("gateway {}", gateway.name),
        (Some(Mode::HostAddress), _, _, Some(host)) => format!("host {host}"),
        _ => String::new(),
    };
    let reached_via = status.gateway.as_ref().map(|used| {
        let name = gateway
            .map(|gateway| gateway.name.as_str())
            .unwrap_or_default();
        let port = used.ports.values().next().copied().unwrap_or_default();
        format!("{name} {}:{port}", used.address)
    });
    let owner = match spec.mode {
        Some(Mode::Vip) => status
            .vip
            .as_ref()
            .map(|vip| vip.holder.clone())
            .unwrap_or_default(),
        _ => status.active_targets.join(" "),
    };
    let published = find(&status.conditions, "EndpointPublished");
    let since = published.filter(|condition| condition.status == Status::True);
    let because = plan.because();
    let also = service
        .decided
        .missing
        .as_ref()
        .filter(|missing| *missing != because);
    FleetEndpoint {
        load_balancer: service.balancer.name.name.clone(),
        endpoint: in_force(service).map(|endpoint| endpoint.to_string()),
        mode: if user {
            "User".to_owned()
        } else {
            mode.to_owned()
        },
        from,
        reached_via: reached_via.unwrap_or_default(),
        owner,
        since: since.map(|condition| condition.last_transition_time.clone()),
        because: because.to_string(),
        conditions: status.conditions.iter().map(condition).collect(),
        problems: [Some(because), also]
            .into_iter()
            .flatten()
            .filter_map(|because| problem(&service.cluster, because))
            .collect(),
        ..named(&service.cluster)
    }
}

/// The endpoint of a cluster nobody asked to serve.
pub fn unasked(case: &Case, decided: &Decided) -> FleetEndpoint {
    let plan = &decided.plan;
    let user = matches!(plan, EndpointPlan::User { .. });
    FleetEndpoint {
        endpoint: plan.endpoint().map(ToString::to_string),
        mode: if user { "User" } else { "" }.to_owned(),
        from: if user { "user" } else { "" }.to_owned(),
        because: plan.because().to_string(),
        problems: problem(&case.cluster, plan.because()).into_iter().collect(),
        ..named(&case.cluster)
    }
}

/// A condition as the fleet's lists show it.
pub fn condition(condition: &Condition) -> FleetCondition {
    FleetCondition {
        kind: condition.kind.clone(),
        status: condition.status.as_str().to_owned(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    }
}

fn named(cluster: &Name) -> FleetEndpoint {
    FleetEndpoint {
        namespace: cluster.namespace.clone(),
        cluster: cluster.name.clone(),
        ..FleetEndpoint::default()
    }
}

fn problem(cluster: &Name, because: &Because) -> Option<Problem> {
    let code = because.code()?;
    // What comes by itself once a host or gateway is there is no fault yet.
    let problem = match code {
        Code::CapiWaiting => Problem::warning(code, because.to_string()),
        _ => Problem::new(code, because.to_string()),
    };
    Some(
        problem
            .object(format!("clusters/{cluster}"))
            .evidence(format!("condition EndpointPublished: {}", because.reason()))
            .consequence("the endpoint is not filled, or not served in full")
            .fix(Fix::text("see the page of the code").command(format!("kedge explain {code}"))),
    )
}
