//! What is written to Services and Ingresses, as documents of server-side apply.

use serde_json::{Map, Value, json};

use crate::{
    gateway_api::Routed,
    names::{FINALIZER, GRPC_FINALIZER, INGRESS_FINALIZER, ROUTE_FINALIZER, TLS_FINALIZER},
    plan::{
        Target,
        http::{Say, ShowIngress},
        status::Shown,
    },
};

/// What is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Service.
    Service,
    /// An Ingress.
    Ingress,
    /// A GatewayClass.
    GatewayClass,
    /// A Gateway.
    Gateway,
    /// An HTTPRoute.
    HttpRoute,
    /// A GRPCRoute.
    GrpcRoute,
    /// A TLSRoute.
    TlsRoute,
}

impl From<Routed> for Kind {
    fn from(of: Routed) -> Self {
        match of {
            Routed::Http => Self::HttpRoute,
            Routed::Grpc => Self::GrpcRoute,
            Routed::Tls => Self::TlsRoute,
        }
    }
}

impl Kind {
    /// Its version and its name.
    #[must_use]
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Service => ("v1", "Service"),
            Self::Ingress => ("networking.k8s.io/v1", "Ingress"),
            Self::GatewayClass => ("gateway.networking.k8s.io/v1", "GatewayClass"),
            Self::Gateway => ("gateway.networking.k8s.io/v1", "Gateway"),
            Self::HttpRoute => ("gateway.networking.k8s.io/v1", Routed::Http.kind()),
            Self::GrpcRoute => ("gateway.networking.k8s.io/v1", Routed::Grpc.kind()),
            Self::TlsRoute => ("gateway.networking.k8s.io/v1", Routed::Tls.kind()),
        }
    }

    /// The finalizer of those that are offered.
    #[must_use]
    pub const fn finalizer(self) -> &'static str {
        match self {
            Self::Service => FINALIZER,
            Self::Ingress => INGRESS_FINALIZER,
            Self::GatewayClass | Self::Gateway | Self::HttpRoute => ROUTE_FINALIZER,
            Self::GrpcRoute => GRPC_FINALIZER,
            Self::TlsRoute => TLS_FINALIZER,
        }
    }
}

/// The document that holds an object, or lets it go. With its uid: applied to one that is gone it makes
/// none.
#[must_use]
pub fn guard(kind: Kind, target: &Target, holds: bool) -> Value {
    let mut whole = document(kind, target);
    if holds && let Some(meta) = whole.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("finalizers".to_owned(), json!([kind.finalizer()]));
    }
    whole
}

/// The document of what a Service's status says of ours.
#[must_use]
pub fn show(target: &Target, shown: &Shown, with_addresses: bool) -> Value {
    let mut whole = document(Kind::Service, target);
    if let Some(whole) = whole.as_object_mut() {
        whole.insert("status".to_owned(), status(shown, with_addresses));
    }
    whole
}

/// The document of what an Ingress's status says of ours.
#[must_use]
pub fn show_ingress(show: &ShowIngress) -> Value {
    let mut whole = document(Kind::Ingress, &show.target);
    if let Some(whole) = whole.as_object_mut() {
        let status = match show.ingress.is_empty() {
            true => json!({}),
            false => json!({"loadBalancer": {"ingress": show.ingress}}),
        };
        whole.insert("status".to_owned(), status);
    }
    whole
}

/// The document of a status that is written over the one that was seen.
#[must_use]
pub fn say(say: &Say) -> Value {
    json!({"metadata": {"uid": say.target.uid, "resourceVersion": say.version},
        "status": say.status})
}

/// What of a status is ours. What is left out is taken back.
#[must_use]
pub fn status(shown: &Shown, with_addresses: bool) -> Value {
    let mut status = Map::new();
    if with_addresses && !shown.ingress.is_empty() {
        let balancer = json!({"ingress": shown.ingress});
        status.insert("loadBalancer".to_owned(), balancer);
    }
    if !shown.conditions.is_empty() {
        status.insert("conditions".to_owned(), json!(shown.conditions));
    }
    Value::Object(status)
}

fn document(kind: Kind, target: &Target) -> Value {
    let (version, kind) = kind.names();
    json!({"apiVersion": version, "kind": kind, "metadata": {
        "name": target.key.name, "namespace": target.key.namespace, "uid": target.uid,
    }})
}
