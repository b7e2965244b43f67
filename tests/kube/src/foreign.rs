//! Cluster API's kinds, labels and annotations.

use crate::objects::Kind;

/// The label that names the cluster an object belongs to.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// The annotation of an infrastructure cluster that somebody else provides.
pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";

/// A cluster, as clients see it today.
pub const CLUSTER: Kind = Kind::new("cluster.x-k8s.io", "v1beta2", "Cluster");
/// A cluster, as older clients see it.
pub const CLUSTER_V1BETA1: Kind = Kind::new("cluster.x-k8s.io", "v1beta1", "Cluster");
/// What topologies are made from.
pub const CLUSTER_CLASS: Kind = Kind::new("cluster.x-k8s.io", "v1beta2", "ClusterClass");
/// A machine, as clients see it today.
pub const MACHINE: Kind = Kind::new("cluster.x-k8s.io", "v1beta2", "Machine");
/// A machine, as older clients see it.
pub const MACHINE_V1BETA1: Kind = Kind::new("cluster.x-k8s.io", "v1beta1", "Machine");
/// The control plane that kubeadm makes.
pub const CONTROL_PLANE: Kind = Kind::new(
    "controlplane.cluster.x-k8s.io",
    "v1beta2",
    "KubeadmControlPlane",
);
/// What topologies make it from.
pub const CONTROL_PLANE_TEMPLATE: Kind = Kind::new(
    "controlplane.cluster.x-k8s.io",
    "v1beta2",
    "KubeadmControlPlaneTemplate",
);
/// A wish for an address.
pub const CLAIM: Kind = Kind::new("ipam.cluster.x-k8s.io", "v1beta2", "IPAddressClaim");
/// A wish for an address, as older clients see it.
pub const CLAIM_V1BETA1: Kind = Kind::new("ipam.cluster.x-k8s.io", "v1beta1", "IPAddressClaim");
/// An address.
pub const ADDRESS: Kind = Kind::new("ipam.cluster.x-k8s.io", "v1beta2", "IPAddress");
/// Addresses of a namespace, given out by the in-cluster provider.
pub const POOL: Kind = Kind::new("ipam.cluster.x-k8s.io", "v1alpha2", "InClusterIPPool");
