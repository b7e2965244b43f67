//! Custom resources: our kinds of `kedge.dev/v1alpha1` and the foreign kinds Kedge reads
//! (Cluster API, its IPAM, Elemental). No I/O.
//!
//! Our specs refuse unknown fields, so that a typing mistake is an error and not a wish that is
//! silently ignored. [`kinds`] makes their CustomResourceDefinitions from these types, and
//! `validate` holds the same rules where no API server does. Foreign kinds are read tolerantly: their providers add fields at any time.

pub mod balancer;
pub mod capi;
pub mod condition;
pub mod elemental;
pub mod endpoint;
pub mod gateway;
pub mod host;
pub mod http;
pub mod ipam;
pub mod kinds;
pub mod meta;
pub mod pool;
pub mod schema;
pub mod selector;
pub mod tcp;
pub mod tenant;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod traffic;
#[cfg(feature = "validate")]
pub mod validate;

pub use balancer::{LoadBalancer, LoadBalancerSpec, LoadBalancerStatus};
pub use capi::{Cluster, Machine};
pub use condition::{Condition, Status};
pub use elemental::{ElementalHost, ElementalMachine};
pub use endpoint::{Endpoint, InfraCluster};
pub use gateway::{EdgeGateway, EdgeGatewaySpec, EdgeGatewayStatus};
pub use host::{EdgeHost, EdgeHostSpec, EdgeHostStatus};
pub use http::{HttpLoadBalancer, HttpLoadBalancerSpec, HttpLoadBalancerStatus};
pub use ipam::{InClusterPool, IpAddress, IpAddressClaim};
pub use meta::{Object, ObjectMeta, Resource};
pub use pool::{VipPool, VipPoolSpec, VipPoolStatus};
pub use selector::LabelSelector;
pub use tcp::{TcpLoadBalancer, TcpLoadBalancerSpec, TcpLoadBalancerStatus};
pub use tenant::{Tenant, TenantSpec, TenantStatus};
