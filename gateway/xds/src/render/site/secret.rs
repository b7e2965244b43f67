//! Certificates, and the chains that show them.

use std::{collections::BTreeMap, net::SocketAddr};

use envoy_types::pb::envoy::{
    config::core::v3::{DataSource, data_source::Specifier},
    extensions::transport_sockets::tls::v3::{Secret, TlsCertificate, secret},
};

use super::{Chain, Good, certificate::Pem};
use crate::{Kind, delta::Name, render::names, resource::Resource};

/// What a tenant shows at an address and port, each with the chain that shows it. Of several
/// certificates for a name the first site's is shown.
///
/// A secret is called after the first of its names: one that takes the place of another changes no
/// listener.
pub fn render(
    at: SocketAddr,
    tenant: &str,
    sites: &[&Good<'_>],
    routes: &Name,
) -> Vec<(Resource, Chain)> {
    let mut shown: BTreeMap<&str, &Pem> = BTreeMap::new();
    for good in sites {
        for (name, certificate) in &good.secured {
            if let Some(pem) = good.pem(certificate) {
                shown.entry(name).or_insert(pem);
            }
        }
    }
    let mut by_certificate: BTreeMap<(&str, &str), (&Pem, Vec<&str>)> = BTreeMap::new();
    for (name, pem) in shown {
        let (_, names) = by_certificate
            .entry((&pem.chain, &pem.key))
            .or_insert((pem, Vec::new()));
        names.push(name);
    }
    let mut rendered: Vec<(Resource, Chain)> = by_certificate
        .into_values()
        .map(|(pem, names)| {
            let first = names.first().copied().unwrap_or_default();
            let name = format!("{}/{tenant}/{first}", names::tls_listener(at));
            let chain = Chain {
                secret: name.clone(),
                names: names.into_iter().map(str::to_owned).collect(),
                routes: routes.to_string(),
            };
            (secret(name, pem), chain)
        })
        .collect();
    // In the order of names, not of certificates: another certificate changes no listener.
    rendered.sort_by(|(_, one), (_, other)| one.secret.cmp(&other.secret));
    rendered
}

fn secret(name: String, pem: &Pem) -> Resource {
    let inline = |text: &str| DataSource {
        specifier: Some(Specifier::InlineString(text.to_owned())),
        ..DataSource::default()
    };
    let secret = Secret {
        name: name.clone(),
        r#type: Some(secret::Type::TlsCertificate(TlsCertificate {
            certificate_chain: Some(inline(&pem.chain)),
            private_key: Some(inline(&pem.key)),
            ..TlsCertificate::default()
        })),
    };
    Resource::new(Kind::Secret, name, &(&pem.chain, &pem.key), &secret)
}
