//! How the management side reaches a cluster's API: by the endpoint, or through a gateway by the
//! kubeconfig Secret that Cluster API keeps.
//!
//! The Secret is nobody's layer: its content must not be kept, so a plan says where it shall lead
//! ([`Plan::kubeconfigs`](super::Plan::kubeconfigs)), and sees where it leads
//! ([`Snapshot::kubeconfigs`]). Nothing is rewritten before the API server's certificate carries
//! the gateway's address: `tls-server-name` would not outlive a rotation. Where the management side
//! is to use the endpoint again, the Secret is led back to it: nobody else does that.

use std::net::IpAddr;

use kedge_crd::{Condition, Status, balancer::ManagementAccess, condition::find};

use super::{Service, endpoint::ports, follow::followed, gateway::GatewayUse, names};
use crate::snapshot::{Kubeconfig, Snapshot};

/// Where the cluster's kubeconfig shall lead, if that is ours to say now.
#[must_use]
pub fn server(snapshot: &Snapshot, service: &Service) -> Option<String> {
    let publishes = service.balancer.beside.is_none();
    let live = !service.at_rest && !service.is_going && snapshot.environment.has_core();
    let endpoint = service.decided.plan.endpoint()?;
    if !publishes || !live {
        return None;
    }
    if let Some(gateway) = in_use(service) {
        let carried = names::carried(snapshot, &service.cluster, gateway);
        return carried.ok().and_then(|()| address(service, gateway));
    }
    // Cluster API wrote the endpoint into it once; one that follows its target has moved since.
    let moved = followed(snapshot, &service.cluster).is_some_and(|moved| moved == *endpoint);
    moved
        .then(|| format!("https://{endpoint}"))
        .or_else(|| returns(snapshot, service))
}

/// Where the kubeconfig is led back to, as long as it may still lead through a gateway: the condition
/// remembers that it was to.
fn returns(snapshot: &Snapshot, service: &Service) -> Option<String> {
    if wants_gateway(service) || !snapshot.environment.has_core() {
        return None;
    }
    let layers = snapshot.balancers.get(&service.balancer.name)?;
    find(&layers.status.conditions, KIND)?;
    let cluster = snapshot.clusters.get(&service.cluster)?;
    let endpoint = cluster.spec.control_plane_endpoint.as_ref();
    let server = format!(
        "https://{}",
        endpoint.filter(|endpoint| endpoint.is_valid())?
    );
    match snapshot.kubeconfigs.get(&service.cluster) {
        Some(Kubeconfig::Leads(to)) if *to == server => None,
        // It was never led elsewhere by us.
        Some(Kubeconfig::Missing | Kubeconfig::Unusable(_) | Kubeconfig::Unlisted) => None,
        Some(Kubeconfig::Leads(_) | Kubeconfig::Forbidden(_)) | None => Some(server),
    }
}

/// Whether the management side gets through, where it is to go through a gateway, or went.
#[must_use]
pub fn condition(snapshot: &Snapshot, service: &Service) -> Option<Condition> {
    if service.balancer.beside.is_some() {
        return None;
    }
    let no = |reason: &str, text: String| Some(Condition::new(KIND, false, reason, text));
    let cluster = &service.cluster;
    if let Some(server) = returns(snapshot, service) {
        return match snapshot.kubeconfigs.get(cluster) {
            Some(Kubeconfig::Forbidden(rule)) => no("Forbidden", missing(rule)),
            _ => {
                let text = format!("Secret {cluster}-kubeconfig is led back to {server}");
                no("Pending", text)
            }
        };
    }
    if let Some(Err(because)) = service
        .decided
        .gateway
        .as_ref()
        .filter(|_| wants_gateway(service))
        && snapshot.environment.has_core()
    {
        return no(because.reason(), because.to_string());
    }
    let gateway = in_use(service)?;
    if !snapshot.environment.has_core() {
        let text = "the kubeconfig is not rewritten because a directory holds no Secret of it";
        return Some(Condition::new(KIND, Status::Unknown, "NoSecrets", text));
    }
    if let Err(because) = names::carried(snapshot, &service.cluster, gateway) {
        return no(because.reason(), because.to_string());
    }
    let Some(server) = address(service, gateway) else {
        return no(
            "WaitingForGateway",
            "the gateway has no port for it yet".to_owned(),
        );
    };
    match snapshot.kubeconfigs.get(cluster) {
        // A manager that starts knows less than it said last: that stands.
        None => {
            let layers = snapshot.balancers.get(&service.balancer.name);
            let last = layers.and_then(|layers| find(&layers.status.conditions, KIND));
            let text = || format!("Secret {cluster}-kubeconfig was not looked at yet");
            let unknown = || Condition::new(KIND, Status::Unknown, "NotLookedUp", text());
            Some(last.cloned().unwrap_or_else(unknown))
        }
        Some(Kubeconfig::Leads(to)) if *to == server => {
            let text = format!("Secret {cluster}-kubeconfig leads to {server}");
            Some(Condition::new(KIND, true, "Rewritten", text))
        }
        Some(Kubeconfig::Leads(to)) => {
            let text = format!("Secret {cluster}-kubeconfig leads to {to}, not to {server} yet");
            no("Pending", text)
        }
        Some(Kubeconfig::Missing) => {
            let text = format!("there is no Secret {cluster}-kubeconfig yet");
            no("WaitingForSecret", text)
        }
        Some(Kubeconfig::Unusable(why)) => {
            let text = format!("Secret {cluster}-kubeconfig cannot be rewritten: {why}");
            no("Unusable", text)
        }
        Some(Kubeconfig::Unlisted) => {
            let text = format!(
                "Secrets of namespace {} are not ours to read; add it to kubeconfig_namespaces",
                cluster.namespace
            );
            no("Forbidden", text)
        }
        Some(Kubeconfig::Forbidden(rule)) => no("Forbidden", missing(rule)),
    }
}

fn missing(rule: &str) -> String {
    format!("give the manager's role this rule: {rule}")
}

fn wants_gateway(service: &Service) -> bool {
    service.balancer.spec.management_access == Some(ManagementAccess::Gateway)
}

fn in_use(service: &Service) -> Option<&GatewayUse> {
    let gateway = service.decided.gateway.as_ref()?.as_ref().ok();
    gateway.filter(|_| wants_gateway(service))
}

/// The gateway's address and its port of the cluster's API: that of the first port.
fn address(service: &Service, gateway: &GatewayUse) -> Option<String> {
    let spec = &service.balancer.spec;
    let first = ports(spec, None).into_iter().next()?;
    let port = spec.listeners.get(&first.name)?;
    let host = match gateway.address.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => gateway.address.clone(),
    };
    Some(format!("https://{host}:{port}"))
}

const KIND: &str = "ManagementReady";
