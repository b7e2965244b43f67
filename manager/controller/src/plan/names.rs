//! Names in the place of addresses: whether they resolve, and whether the API server's certificate
//! will carry them. Both must hold before an endpoint is filled: filling first would lock the
//! cluster out of its own API, and a later name in the certificate means a rollout.

use std::collections::BTreeSet;

use kedge_crd::{Condition, Status, balancer::ManagementAccess, condition::find};
use serde_json::Value;

use super::{balancer::Balancer, because::Because, gateway::GatewayUse};
use crate::{
    snapshot::Snapshot,
    store::{Name, ObjectKey},
};

/// The name clients use in the place of the address.
#[must_use]
pub fn hostname(balancer: &Balancer) -> Option<&str> {
    balancer.spec.dns.as_ref()?.hostname.as_deref()
}

/// The names that LoadBalancers ask for.
#[must_use]
pub fn wanted(snapshot: &Snapshot) -> BTreeSet<String> {
    let written = snapshot.balancers.values();
    let written = written.filter_map(|layers| layers.written.as_ref()?.dns.as_ref());
    written.filter_map(|dns| dns.hostname.clone()).collect()
}

/// Whether the name resolves; `None` where nobody looks, or nobody has looked yet.
#[must_use]
pub fn resolves(snapshot: &Snapshot, name: &str) -> Option<bool> {
    let found = snapshot.names.as_ref()?.get(name)?;
    Some(!found.is_empty())
}

/// Whether every name that clients will use is ready for them.
///
/// # Errors
///
/// One does not resolve yet, or the control plane's certificate will not carry it.
pub fn check(
    snapshot: &Snapshot,
    cluster: &Name,
    balancer: &Balancer,
    gateway: Option<&GatewayUse>,
) -> Result<(), Because> {
    // Where somebody looks, what was not looked at yet is waited for.
    if let Some(name) = hostname(balancer)
        && snapshot.names.is_some()
        && resolves(snapshot, name) != Some(true)
    {
        let name = name.to_owned();
        return Err(Because::NameUnresolved { name });
    }
    let by_gateway = balancer.spec.management_access == Some(ManagementAccess::Gateway);
    match gateway.filter(|_| by_gateway) {
        Some(gateway) => carried(snapshot, cluster, gateway),
        None => Ok(()),
    }
}

/// Whether the certificate of the cluster's API server will carry the gateway's address.
///
/// # Errors
///
/// It will not, or the control plane that asks for it is not there yet.
pub fn carried(snapshot: &Snapshot, cluster: &Name, gateway: &GatewayUse) -> Result<(), Because> {
    let Some((object, path)) = certificate(snapshot, cluster) else {
        return Ok(());
    };
    let layers = snapshot.objects.get(&object);
    let Some(document) = layers.and_then(|layers| layers.user.as_ref()) else {
        // On a directory control planes need not be written down.
        return if snapshot.environment.has_core() {
            Err(Because::PlaneMissing { object })
        } else {
            Ok(())
        };
    };
    let names = document.value.pointer(path).and_then(Value::as_array);
    let mut names = names.into_iter().flatten().filter_map(Value::as_str);
    if names.any(|name| name == gateway.address) {
        return Ok(());
    }
    let name = gateway.address.clone();
    Err(Because::SanMissing { name, object })
}

/// The condition of the name, where there is one.
#[must_use]
pub fn condition(snapshot: &Snapshot, balancer: &Balancer) -> Option<Condition> {
    const KIND: &str = "DNSReady";
    let name = hostname(balancer)?;
    let (status, reason, text) = match resolves(snapshot, name) {
        Some(true) => (Status::True, "Resolved", format!("{name} resolves")),
        Some(false) => {
            let text = format!("{name} does not resolve; add its record");
            (Status::False, "DNSNotResolvable", text)
        }
        None => {
            // A manager that starts knows less than it said last: that stands.
            let layers = snapshot.balancers.get(&balancer.name);
            let last = layers.and_then(|layers| find(&layers.status.conditions, KIND));
            if let Some(last) = last.filter(|_| snapshot.names.is_some()) {
                return Some(last.clone());
            }
            let text = match &snapshot.names {
                Some(_) => format!("{name} was not looked up yet"),
                None => format!("nobody looks whether {name} resolves"),
            };
            (Status::Unknown, "NotLookedUp", text)
        }
    };
    Some(Condition::new(KIND, status, reason, text))
}

/// The control-plane object of a cluster and where it holds the names of the certificate, if it is
/// of a kind whose place for them is known.
fn certificate(snapshot: &Snapshot, cluster: &Name) -> Option<(ObjectKey, &'static str)> {
    let object = snapshot.clusters.get(cluster)?;
    let reference = object.spec.control_plane_ref.as_ref()?;
    let name = Name::new(&cluster.namespace, &reference.name);
    let key = ObjectKey::new(reference.group(), &reference.kind, name);
    let path = SANS.iter().find(|(kind, _)| *kind == key.kind)?.1;
    Some((key, path))
}

/// Where control-plane kinds hold additional names of the certificate.
const SANS: [(&str, &str); 3] = [
    (
        "KubeadmControlPlane",
        "/spec/kubeadmConfigSpec/clusterConfiguration/apiServer/certSANs",
    ),
    ("RKE2ControlPlane", "/spec/serverConfig/tlsSan"),
    (
        "KThreesControlPlane",
        "/spec/kthreesConfigSpec/serverConfig/tlsSan",
    ),
];
