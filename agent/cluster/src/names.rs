//! The names this agent goes by in a cluster.

/// The `spec.loadBalancerClass` of Services that are ours.
pub const CLASS: &str = "kedge.dev/gateway";
/// The finalizer of a Service that is offered: it goes once nothing of it is offered any more.
pub const FINALIZER: &str = "kedge.dev/service";
/// The field manager of what is written to Services.
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
/// Where MetalLB's users name a pool.
pub const METALLB_POOLS: [&str; 2] = [
    "metallb.io/address-pool",
    "metallb.universe.tf/address-pool",
];

/// The well-known label that keeps a node out of external load balancers (KEP-1143).
pub const EXCLUDE_NODE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The taint of a node whose machine is out of service (KEP-2268).
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The taint of a node that the cluster autoscaler is about to delete (KEP-3458).
pub const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// The label that names the Service of an EndpointSlice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
