//! What a cluster says of its Services, its Ingresses and their agent, for whoever asks it.

mod ingresses;
mod routes;

use std::fmt::Debug;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Service};
use kedge_control::local::{
    ClusterAgent, OfferedIngressList, OfferedRouteList, OfferedService, OfferedServiceList,
};
use kedge_core::{Code, Fix, Problem};
use kedge_crd::{Status, condition::find};
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use crate::{
    names::PREFIX,
    place::{Place, connect, unusable},
    plan::{
        claim::{Claim, claim, is_leaving},
        is_touched,
        status::{standing, typed},
    },
    run::{EPOCH, LEASE},
    snapshot::Config,
};

/// The Services of a cluster that are offered, or should be.
///
/// # Errors
///
/// The cluster does not answer or refuses.
pub async fn services(place: &Place, config: &Config) -> Result<OfferedServiceList, Problem> {
    let (client, _) = connect(place).await?;
    Ok(listed(&all(place, &client).await?, config))
}

/// The Ingresses of a cluster that are offered, or should be.
///
/// # Errors
///
/// The cluster does not answer or refuses.
pub async fn ingresses(place: &Place) -> Result<OfferedIngressList, Problem> {
    let (client, _) = connect(place).await?;
    ingresses::listed(place, &client).await
}

/// The routes of a cluster that are offered, or should be.
///
/// # Errors
///
/// The cluster does not answer or refuses.
pub async fn routes(place: &Place) -> Result<OfferedRouteList, Problem> {
    let (client, _) = connect(place).await?;
    routes::listed(place, &client).await
}

/// Who offers the Services, Ingresses and routes of a cluster, and how they are.
///
/// # Errors
///
/// The cluster does not answer or refuses.
pub async fn agent(
    place: &Place,
    config: &Config,
    namespace: &str,
) -> Result<ClusterAgent, Problem> {
    let (client, _) = connect(place).await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = leases.get_opt(LEASE).await;
    let lease = lease.map_err(|error| refused(place, &error))?;
    let services = listed(&all(place, &client).await?, config);
    let ingresses = ingresses::listed(place, &client).await?;
    let mut told = told(lease.as_ref(), namespace, &services, Timestamp::now());
    told.ingresses = count(ingresses.items.len());
    told.ingresses_ready = count(ingresses.items.iter().filter(|it| it.ready).count());
    let routes = routes::listed(place, &client).await?;
    told.routes = count(routes.items.len());
    told.routes_ready = count(routes.items.iter().filter(|it| it.ready).count());
    Ok(told)
}

async fn all<R>(place: &Place, client: &Client) -> Result<Vec<R>, Problem>
where
    R: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let objects: Api<R> = Api::all(client.clone());
    let all = objects.list(&ListParams::default()).await;
    Ok(all.map_err(|error| refused(place, &error))?.items)
}

fn listed(all: &[Service], config: &Config) -> OfferedServiceList {
    let ours = all.iter().filter(|service| {
        // What is taken back is shown until it is.
        claim(config, service) != Claim::Foreign || is_touched(service)
    });
    let mut items: Vec<OfferedService> = ours.map(one).collect();
    items.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    OfferedServiceList { items }
}

fn one(service: &Service) -> OfferedService {
    let shown = standing(service);
    let ready = find(&shown.conditions, &typed("Ready"));
    let spec = service.spec.clone().unwrap_or_default();
    let ports = spec.ports.unwrap_or_default().into_iter().map(|port| {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        format!("{}/{protocol}", port.port)
    });
    let states = shown.ingress.first().and_then(|it| it.ports.as_ref());
    let unserved = states.into_iter().flatten().filter_map(|port| {
        let reason = port.error.as_deref()?.trim_start_matches(PREFIX);
        Some(format!("{}/{}: {reason}", port.port, port.protocol))
    });
    let addresses = shown
        .ingress
        .iter()
        .filter_map(|it| it.ip.clone().or_else(|| it.hostname.clone()));
    OfferedService {
        namespace: service.metadata.namespace.clone().unwrap_or_default(),
        name: service.metadata.name.clone().unwrap_or_default(),
        kind: spec.type_.unwrap_or_default(),
        addresses: addresses.collect(),
        ports: ports.collect(),
        unserved: unserved.collect(),
        ready: ready.is_some_and(|it| it.status == Status::True),
        reason: ready.map(|it| it.reason.clone()).unwrap_or_default(),
        message: ready.map(|it| it.message.clone()).unwrap_or_default(),
        leaving: is_leaving(service),
    }
}

fn told(
    lease: Option<&Lease>,
    namespace: &str,
    services: &OfferedServiceList,
    now: Timestamp,
) -> ClusterAgent {
    let spec = lease
        .and_then(|lease| lease.spec.clone())
        .unwrap_or_default();
    let annotations = lease.and_then(|lease| lease.metadata.annotations.as_ref());
    let epoch = annotations.and_then(|all| all.get(EPOCH)?.parse().ok());
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let seconds = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    let renewed = spec.renew_time.map(|time| time.0);
    let is_over = renewed.is_none_or(|renewed| {
        let ends = renewed.checked_add(SignedDuration::from_secs(seconds));
        ends.is_ok_and(|ends| ends < now)
    });
    let lease = format!("{namespace}/{LEASE}");
    let mut problems = Vec::new();
    if holder.is_none() || is_over {
        problems.push(nobody(&lease, holder.as_deref()));
    }
    ClusterAgent {
        lease,
        holder,
        since: spec.acquire_time.map(|time| time.0.to_string()),
        renewed: renewed.map(|time| time.to_string()),
        epoch,
        services: count(services.items.len()),
        ready: count(services.items.iter().filter(|it| it.ready).count()),
        problems,
        ..ClusterAgent::default()
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn nobody(lease: &str, last: Option<&str>) -> Problem {
    let evidence = match last {
        Some(last) => format!("the Lease {lease} of {last} has run out"),
        None => format!("nobody holds the Lease {lease}"),
    };
    Problem::new(
        Code::K8sNoAgent,
        "no agent offers the Services of this cluster",
    )
    .evidence(evidence)
    .consequence("what is offered stays offered, and nothing changes")
    .fix(
        Fix::text("see why the agents do not run")
            .command("kubectl -n kedge-system logs deploy/kedge-agent"),
    )
}

fn refused(place: &Place, error: &kube::Error) -> Problem {
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => Problem::new(
            Code::K8sForbidden,
            "the cluster does not let this user look",
        )
        .evidence(status.message.clone())
        .fix(
            Fix::text(
                "name a kubeconfig of somebody who may list Services and Ingresses, and get Leases",
            )
            .command("kedge k8s services --kubeconfig FILE"),
        ),
        _ => unusable(place, error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(value: serde_json::Value) -> Service {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn services_are_listed_that_are_ours_or_were() {
        let ours = service(json!({"metadata": {"name": "web", "namespace": "shop"},
            "spec": {"type": "LoadBalancer", "loadBalancerClass": "kedge.dev/gateway",
                "ports": [{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]},
            "status": {"conditions": [{"type": "kedge.dev/Ready", "status": "True", "reason": "Ready",
                "message": "served", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
                "loadBalancer": {"ingress": [{"ip": "203.0.113.7", "ports": [
                    {"port": 80, "protocol": "TCP"},
                    {"port": 443, "protocol": "TCP", "error": "kedge.dev/PortInUse"}]}]}}}));
        let left = service(json!({"metadata": {"name": "left", "namespace": "shop",
            "finalizers": ["kedge.dev/service"]}, "spec": {"type": "ClusterIP"}}));
        let other = service(json!({"metadata": {"name": "x", "namespace": "a"}, "spec": {}}));
        let list = listed(&[other, ours, left], &Config::default());
        let names: Vec<&str> = list.items.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["left", "web"]);
        let web = &list.items[1];
        assert_eq!(web.addresses, ["203.0.113.7"]);
        assert_eq!(web.unserved, ["443/TCP: PortInUse"]);
        assert!(web.ready);
    }

    #[test]
    fn a_lease_that_ran_out_is_told() {
        let lease: Lease = serde_json::from_value(json!({
            "metadata": {"annotations": {"kedge.dev/epoch": "4"}},
            "spec": {"holderIdentity": "a_1", "leaseDurationSeconds": 15,
                "renewTime": "2026-01-02T03:04:05.000000Z"}}))
        .unwrap();
        let at = |text: &str| {
            let now = text.parse().unwrap();
            told(
                Some(&lease),
                "kedge-system",
                &OfferedServiceList::default(),
                now,
            )
        };
        let fresh = at("2026-01-02T03:04:10Z");
        assert_eq!((fresh.epoch, fresh.problems.len()), (Some(4), 0));
        assert_eq!(at("2026-01-02T03:05:10Z").problems.len(), 1);
        let none = told(
            None,
            "kedge-system",
            &OfferedServiceList::default(),
            Timestamp::now(),
        );
        assert_eq!(none.problems.first().unwrap().code, Code::K8sNoAgent);
    }
}
