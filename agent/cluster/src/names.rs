//! The names this agent goes by in a cluster, and those it gives at the manager.

use std::num::NonZeroU16;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kedge_control::exposure::CERTIFICATE_PREFIX;
use kedge_crd::balancer::POOL_ANNOTATION;

/// What no load balancer is called: all names that are made have a uid in them.
pub const NOBODY: &str = "not-found";
/// The `spec.loadBalancerClass` of Services that are ours.
pub const CLASS: &str = "kedge.dev/gateway";
/// The finalizer of a Service that is offered: it goes once nothing of it is offered any more.
pub const FINALIZER: &str = "kedge.dev/service";
/// The `spec.controller` of IngressClasses and `spec.controllerName` of GatewayClasses that are ours.
pub const CONTROLLER: &str = "kedge.dev/agent";
/// The finalizer of an Ingress that is offered.
pub const INGRESS_FINALIZER: &str = "kedge.dev/ingress";
/// The finalizer of an HTTPRoute that is offered.
pub const ROUTE_FINALIZER: &str = "kedge.dev/httproute";
/// On GRPCRoutes of which something is offered.
pub const GRPC_FINALIZER: &str = "kedge.dev/grpcroute";
/// On TLSRoutes of which something is offered.
pub const TLS_FINALIZER: &str = "kedge.dev/tlsroute";
/// On an Ingress: sends plain requests to HTTPS, with the value `"true"`.
pub const HTTPS_REDIRECT: &str = "kedge.dev/https-redirect";
/// On an Ingress: TLS ends at the backend, with the value `"true"`.
pub const TLS_PASSTHROUGH: &str = "kedge.dev/tls-passthrough";
/// Names an Ingress's class; deprecated, and before `spec.ingressClassName` where it is there.
pub const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";
/// Makes an IngressClass that of Ingresses without one, with the value `"true"`.
pub const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";
/// The field manager of what is written to the cluster.
pub const FIELD_MANAGER: &str = "kedge-services";
/// Asks, with the value `"true"`, for a Service of type NodePort to be offered.
pub const EXPOSE: &str = "kedge.dev/expose";
/// Has the backends told the client's address: `v1` or `v2`.
pub const PROXY_PROTOCOL: &str = "kedge.dev/proxy-protocol";
/// On a Node: the name of its host where that is another than the node's own.
pub const NODE_HOST: &str = "kedge.dev/host";
/// What all annotations and conditions of ours begin with.
pub const PREFIX: &str = "kedge.dev/";

/// Where MetalLB's users write the addresses they want; both spellings are in use.
pub const METALLB_ADDRESSES: [&str; 2] = [
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
];
/// Where a Service names a pool, in our words or in MetalLB's; ours go first.
pub const POOLS: [&str; 3] = [
    POOL_ANNOTATION,
    "metallb.io/address-pool",
    "metallb.universe.tf/address-pool",
];

/// The well-known label that keeps a node out of external load balancers (KEP-1143).
pub const EXCLUDE_NODE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The taint of a node whose machine is out of service (KEP-2268).
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The taint of a node that the cluster autoscaler is about to delete (KEP-3458).
pub const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// The label that says who makes an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The label that says who writes an EndpointSlice.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The value of Kubernetes' own controller there.
pub const SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// The value of both labels on what this agent makes.
pub const MANAGER: &str = "kedge-agent";
/// On a Service this agent makes: the one it stands beside.
pub const COMPANION: &str = "kedge.dev/companion-of";
/// The label that names the Service of an EndpointSlice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The name of an exposure of an object. The uid is part of it: what is made anew under an old name is
/// another load balancer, whose source the manager would not let change.
#[must_use]
pub fn exposed(name: &str, meta: &ObjectMeta) -> String {
    exposed_at(name, meta, "")
}

/// The same at the address that a Gateway has of its own, by the [start] of the Gateway's uid.
#[must_use]
pub fn exposed_at(name: &str, meta: &ObjectMeta, gateway: &str) -> String {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let start = start(meta);
    let parts = [namespace, &start, gateway].into_iter();
    let parts = parts.filter(|part| !part.is_empty());
    let rest: String = parts.map(|part| format!(".{part}")).collect();
    // The uid still tells apart what begins alike.
    let room = LONGEST.saturating_sub(rest.len());
    let name: String = name.chars().take(room).collect();
    format!("{}{rest}", name.trim_end_matches(['.', '-']))
}

/// The name of the exposure that leads to one port of a Service.
#[must_use]
pub fn backend(service: &ObjectMeta, port: NonZeroU16) -> String {
    let name = service.name.as_deref().unwrap_or_default();
    exposed(&format!("{name}-{port}"), service)
}

/// The name of the Service beside one without node ports.
#[must_use]
pub fn companion(service: &ObjectMeta) -> String {
    let name = service.name.as_deref().unwrap_or_default();
    let uid = start(service);
    let room = LABEL.saturating_sub(PREFIXED.len() + 1 + uid.len());
    let name: String = name.chars().take(room).collect();
    format!("{PREFIXED}{}-{uid}", name.trim_end_matches('-'))
}

/// The name of the copy of an EndpointSlice for a companion.
#[must_use]
pub fn copy(companion: &ObjectMeta, slice: &str) -> String {
    let beside = companion.name.as_deref().unwrap_or_default();
    let room = LONGEST.saturating_sub(beside.len() + 1);
    let slice: String = slice.chars().take(room).collect();
    format!("{beside}-{}", slice.trim_end_matches(['.', '-']))
}

/// The name of the exposure that leads to one port of a Service, which calls of gRPC are sent to although
/// nothing says that it speaks HTTP/2.
#[must_use]
pub fn called(service: &ObjectMeta, port: NonZeroU16) -> String {
    let name = service.name.as_deref().unwrap_or_default();
    exposed(&format!("{name}-{port}-grpc"), service)
}

/// The name of a Secret's certificate.
#[must_use]
pub fn certificate(secret: &ObjectMeta) -> String {
    let name = secret.name.as_deref().unwrap_or_default();
    exposed(&format!("{CERTIFICATE_PREFIX}{name}"), secret)
}

/// How a uid begins.
#[must_use]
pub fn start(meta: &ObjectMeta) -> String {
    let uid = meta.uid.as_deref().unwrap_or_default();
    let start = uid.chars().filter(char::is_ascii_alphanumeric);
    start.take(UID).map(|it| it.to_ascii_lowercase()).collect()
}

/// How much of the uid is in a name: enough for two of one name, short enough to be read.
const UID: usize = 8;
/// As long as a name may be.
const LONGEST: usize = 253;
/// As long as a Service's name may be (RFC 1035 section 2.3.4).
const LABEL: usize = 63;
/// What companions are called.
const PREFIXED: &str = "kedge-";

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("shop".to_owned()),
            uid: Some("6A0E11-22-33-44".to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn names_tell_what_they_are_of() {
        let web = meta("web");
        assert_eq!(exposed("web", &web), "web.shop.6a0e1122");
        let at = exposed_at("web", &web, "77aa88bb");
        assert_eq!(at, "web.shop.6a0e1122.77aa88bb");
        let port = NonZeroU16::new(80).unwrap();
        assert_eq!(backend(&web, port), "web-80.shop.6a0e1122");
        assert_eq!(certificate(&web), "kedge-tls-web.shop.6a0e1122");
    }

    #[test]
    fn a_long_name_is_cut_and_still_a_name() {
        // The cut falls behind the dot.
        let long = format!("{}.{}", "a".repeat(238), "b".repeat(13));
        let name = exposed(&long, &meta(&long));
        assert_eq!(name, format!("{}.shop.6a0e1122", "a".repeat(238)));
        assert!(name.len() < LONGEST);
    }
}
