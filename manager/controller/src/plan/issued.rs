//! Certificates that issuers of cert-manager make for names of HTTPLoadBalancers.
//!
//! The Secret is called by us: an issuer's word replaces what is in it, and nobody is to have it replace
//! somebody else's.

use std::collections::BTreeSet;

use kedge_crd::{HttpLoadBalancerSpec, Resource as _, Tenant};
use serde_json::{Value, json};

use super::{desired::Desired, http::Http, report::clean};
use crate::{
    managers, pki,
    snapshot::{Snapshot, key},
    store::{Name, ObjectKey},
};

/// The kind, by group and name.
pub const KIND: (&str, &str) = ("cert-manager.io", "Certificate");

/// A certificate that an issuer is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The name of the Certificate, and of the Secret.
    pub name: Name,
    /// The names it is for.
    pub hosts: BTreeSet<String>,
    /// The issuer.
    issuer: Value,
}

/// Whether any certificate may be asked for.
#[must_use]
pub fn is_asked(tenant: &Tenant) -> bool {
    !tenant.spec.issuers.is_empty()
}

/// What is asked of an issuer for names of an HTTPLoadBalancer.
///
/// # Errors
///
/// The tenant may not ask it, or nobody is there who would: a reason and a sentence.
pub fn ask(
    snapshot: &Snapshot,
    (http, tenant): (&Name, &str),
    (at, issuer): (usize, &str),
    hosts: &[&str],
) -> Result<Issued, (&'static str, String)> {
    let allowed = snapshot
        .tenants
        .get(tenant)
        .map(|tenant| &tenant.spec.issuers);
    let mut allowed = allowed.into_iter().flatten();
    let Some(found) = allowed.find(|one| one.name == issuer) else {
        let text = format!("Tenant {tenant} does not list the issuer {issuer} in spec.issuers");
        return Err(("IssuerNotAllowed", text));
    };
    if !snapshot.environment.serves(KIND.0, KIND.1) {
        let text = format!(
            "no {} of {} is served: install cert-manager, and give the manager the rights (chart value \
             `certManager.enabled`)",
            KIND.1, KIND.0
        );
        return Err(("KindMissing", text));
    }
    let hosts: BTreeSet<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let kind = found.kind.as_deref().unwrap_or("ClusterIssuer");
    let group = found.group.as_deref().unwrap_or(KIND.0);
    Ok(Issued {
        name: Name::new(&http.namespace, named(&http.name, at)),
        hosts,
        issuer: json!({"name": issuer, "kind": kind, "group": group}),
    })
}

/// Why there is no certificate yet, as long as cert-manager says so and there was none before.
#[must_use]
pub fn pending(snapshot: &Snapshot, issued: &Issued) -> Option<(&'static str, String)> {
    use crate::certificates::Found;
    match snapshot.certificate(&issued.name) {
        Some(Found::Missing | Found::Unusable(_)) => {}
        Some(Found::Pair(_) | Found::Forbidden(_)) | None => return None,
    }
    let name = &issued.name.name;
    let layers = snapshot.objects.get(&object(&issued.name));
    let status = layers.and_then(|layers| layers.user.as_ref());
    let conditions = status.and_then(|document| document.value.pointer("/status/conditions"));
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let mut told: Vec<&Value> = conditions.collect();
    // `Issuing` says what it is at, `Ready` what is missing.
    told.sort_by_key(|one| one.get("type").and_then(Value::as_str) != Some("Issuing"));
    let message = told.iter().find_map(|one| one.get("message")?.as_str());
    let text = match message {
        Some(message) => format!("Certificate {name}: {}", clean(message)),
        None => format!("Certificate {name} waits for cert-manager"),
    };
    Some(("Issuing", text))
}

/// Wants every certificate that is asked for.
pub fn write(snapshot: &Snapshot, all: &[Http], wanted: &mut Desired) {
    for http in all {
        let layers = snapshot
            .objects
            .get(&key::<HttpLoadBalancerSpec>(http.name()));
        let server = layers.and_then(|layers| layers.server.as_ref());
        for issued in http.issued() {
            let object = object(&issued.name);
            let spec = json!({
                "secretName": issued.name.name,
                "dnsNames": issued.hosts,
                "issuerRef": issued.issuer,
                "privateKey": {"rotationPolicy": "Always"},
            });
            wanted.own(&object, &format!("{}/v1", KIND.0), managers::ISSUED, spec);
            if let Some(server) = server.filter(|server| !server.uid.is_empty()) {
                let owner = json!([{"apiVersion": HttpLoadBalancerSpec::api_version(),
                    "kind": HttpLoadBalancerSpec::KIND, "name": http.name().name, "uid": server.uid,
                    "controller": true}]);
                wanted.owners(&object, managers::ISSUED, owner);
            }
        }
    }
}

fn object(name: &Name) -> ObjectKey {
    ObjectKey::new(KIND.0, KIND.1, name.clone())
}

/// The name of an entry's certificate, `kedge-issued-<load balancer>-<entry>`. It stays when the entry's names or
/// issuer change: what was issued is shown until there is another.
fn named(http: &str, at: usize) -> String {
    if http.len() <= LONGEST {
        return format!("kedge-issued-{http}-{at}");
    }
    let digest = pki::sha256(http.as_bytes());
    let digest = digest.iter().take(8);
    let hash: String = digest.map(|byte| format!("{byte:02x}")).collect();
    let short: String = http.chars().take(LONGEST).collect();
    let short = short.trim_end_matches(['-', '.']);
    format!("kedge-issued-{short}-{hash}-{at}")
}

/// As much of a load balancer's name as stands in the name of its certificate.
const LONGEST: usize = 200;
