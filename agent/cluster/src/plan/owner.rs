//! Objects that may become a load balancer: what each is called, whoever it is of.

use k8s_openapi::{
    api::{core::v1::Service, networking::v1::Ingress},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kedge_crd::traffic::Source;

use super::Target;
use crate::{
    apply::Kind,
    gateway_api::{Gateway, Route},
    names,
    snapshot::Key,
};

/// An object that may become a load balancer.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Who it is.
    pub meta: &'a ObjectMeta,
}

impl<'a> From<&'a Service> for Owner<'a> {
    fn from(service: &'a Service) -> Self {
        Self {
            kind: Kind::Service,
            meta: &service.metadata,
        }
    }
}

impl<'a> From<&'a Ingress> for Owner<'a> {
    fn from(ingress: &'a Ingress) -> Self {
        Self {
            kind: Kind::Ingress,
            meta: &ingress.metadata,
        }
    }
}

impl<'a> From<&'a Gateway> for Owner<'a> {
    fn from(gateway: &'a Gateway) -> Self {
        Self {
            kind: Kind::Gateway,
            meta: &gateway.metadata,
        }
    }
}

impl<'a> From<&'a Route> for Owner<'a> {
    fn from(route: &'a Route) -> Self {
        Self {
            kind: route.spec.of.into(),
            meta: &route.metadata,
        }
    }
}

impl Owner<'_> {
    /// The name of its exposure.
    #[must_use]
    pub fn exposure(self) -> String {
        self.exposure_at("")
    }

    /// The name of its exposure at the address that a Gateway has of its own, by the start of the Gateway's uid.
    #[must_use]
    pub fn exposure_at(self, gateway: &str) -> String {
        let name = self.meta.name.as_deref().unwrap_or_default();
        names::exposed_at(name, self.meta, gateway)
    }

    /// It, and no other of that name.
    #[must_use]
    pub fn target(self) -> Target {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Target {
            key: Key::new(text(&self.meta.namespace), text(&self.meta.name)),
            uid: text(&self.meta.uid),
        }
    }

    /// Where its exposure comes from.
    #[must_use]
    pub fn source(self) -> Source {
        let Target { key, uid } = self.target();
        Source {
            kind: self.kind.names().1.to_owned(),
            namespace: key.namespace,
            name: key.name,
            uid,
        }
    }

    /// Whether our finalizer holds it.
    #[must_use]
    pub fn is_guarded(self) -> bool {
        let finalizers = self.meta.finalizers.iter().flatten();
        finalizers
            .into_iter()
            .any(|name| name == self.kind.finalizer())
    }
}
