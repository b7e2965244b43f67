//! Names in the place of addresses: whether they resolve, and whether the API server's certificate
//! will carry them. Both must hold before an endpoint is filled: filling first would lock the
//! cluster out of its own API, and a later name in the certificate means a rollout.

use kedge_crd::{Condition, Status, balancer::ManagementAccess};
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

/// Whether the name resolves; `None` where nobody looks.
#[must_use]
pub fn resolves(snapshot: &Snapshot, name: &str) -> Option<bool> {
    let names = snapshot.names.as_ref()?;
    Some(names.get(name).is_some_and(|found| !found.is_empty()))
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
    if let Some(name) = hostname(balancer)
        && resolves(snapshot, name) == Some(false)
    {
        let name = name.to_owned();
        return Err(Because::NameUnresolved { name });
    }
    let by_gateway = balancer.spec.management_access == Some(ManagementAccess::Gateway);
    let Some(gateway) = gateway.filter(|_| by_gateway) else {
        return Ok(());
    };
    match certificate(snapshot, cluster) {
        Some((object, names)) if !names.contains(&gateway.address.as_str()) => {
            Err(Because::SanMissing {
                name: gateway.address.clone(),
                object,
            })
        }
        _ => Ok(()),
    }
}

/// The condition of the name, where there is one.
#[must_use]
pub fn condition(snapshot: &Snapshot, balancer: &Balancer) -> Option<Condition> {
    let name = hostname(balancer)?;
    let (status, reason, text) = match resolves(snapshot, name) {
        Some(true) => (Status::True, "Resolved", format!("{name} resolves")),
        Some(false) => {
            let text = format!("{name} does not resolve; add its record");
            (Status::False, "DNSNotResolvable", text)
        }
        None => {
            let text = format!("nobody looks whether {name} resolves");
            (Status::Unknown, "NotLookedUp", text)
        }
    };
    Some(Condition::new("DNSReady", status, reason, text))
}

/// The control-plane object of a cluster and the names it puts into the certificate, if it is of a
/// kind whose place for them is known.
fn certificate<'a>(snapshot: &'a Snapshot, cluster: &Name) -> Option<(ObjectKey, Vec<&'a str>)> {
    let object = snapshot.clusters.get(cluster)?;
    let reference = object.spec.control_plane_ref.as_ref()?;
    let name = Name::new(&cluster.namespace, &reference.name);
    let key = ObjectKey::new(reference.group(), &reference.kind, name);
    let path = SANS.iter().find(|(kind, _)| *kind == key.kind)?.1;
    let document = snapshot.objects.get(&key)?.user.as_ref()?;
    let names = document.value.pointer(path).and_then(Value::as_array);
    let names = names.map(Vec::as_slice).unwrap_or_default();
    Some((key, names.iter().filter_map(Value::as_str).collect()))
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
