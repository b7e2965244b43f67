//! The certificates of an Ingress.

use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::{Ingress, IngressSpec};
use kedge_crd::http::Tls;

use super::wanted::Wanted;
use crate::{
    certificates::Certificate,
    plan::trouble::Trouble,
    snapshot::{Key, Snapshot},
};

/// Adds what ends TLS for an Ingress.
pub fn tls(snapshot: &Snapshot, namespace: &str, spec: &IngressSpec, wanted: &mut Wanted) {
    let mut served: BTreeSet<String> = BTreeSet::new();
    for tls in spec.tls.iter().flatten() {
        let asked = tls.hosts.as_deref().unwrap_or_default();
        let is_asked = |host: &&String| asked.iter().any(|asked| covers(asked, host));
        let names = wanted.asked.spec.hostnames.iter().filter(is_asked).cloned();
        let fresh: Vec<String> = names.filter(|host| served.insert(host.clone())).collect();
        if fresh.is_empty() && !asked.is_empty() {
            let hosts = asked.to_vec();
            wanted.troubles.push(Trouble::TlsHosts { hosts });
            continue;
        }
        let Some(name) = tls.secret_name.as_ref().filter(|name| !name.is_empty()) else {
            wanted.troubles.push(Trouble::CertificateNotNamed);
            continue;
        };
        let key = Key::new(namespace, name);
        match snapshot.certificates.get(&key) {
            Some(Certificate::There(certificate)) => {
                wanted.asked.spec.tls.push(Tls {
                    hosts: fresh,
                    secret_ref: Some(certificate.name.clone()),
                    ..Tls::default()
                });
                wanted.asked.certificates.push(certificate.clone());
            }
            None | Some(Certificate::Missing) => {
                wanted.troubles.push(Trouble::CertificateMissing { key });
            }
            Some(Certificate::Forbidden) => {
                wanted.troubles.push(Trouble::CertificateForbidden { key });
            }
            Some(Certificate::Unfit(why)) => {
                wanted.troubles.push(Trouble::CertificateUnfit { key, why });
            }
        }
    }
}

/// The Secrets an Ingress names.
pub fn secrets(ingress: &Ingress) -> impl Iterator<Item = Key> {
    let namespace = Key::of(ingress).namespace;
    let tls = ingress.spec.as_ref().and_then(|spec| spec.tls.as_ref());
    let names = tls.into_iter().flatten();
    let names = names.filter_map(|tls| tls.secret_name.as_ref());
    names
        .filter(|name| !name.is_empty())
        .map(move |name| Key::new(&namespace, name))
}

/// Whether a name of `spec.tls` is for a name of a rule: itself, or by one label in the place of `*`.
fn covers(asked: &str, host: &str) -> bool {
    let Some(parent) = asked.strip_prefix("*.") else {
        return asked == host;
    };
    asked == host || host.split_once('.').is_some_and(|(_, rest)| rest == parent)
}
