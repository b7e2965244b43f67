//! Why an endpoint is what it is: data, rendered as a reason (a word) and a sentence.

use std::{fmt, net::IpAddr};

use kedge_core::Code;
use kedge_crd::Endpoint;

use super::usable::Refusal;
use crate::store::{Name, ObjectKey};

/// Why a decision about an endpoint fell as it did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's sentence is its documentation")]
pub enum Because {
    NotAsked,
    Paused {
        by: String,
    },
    Vanished {
        balancer: Name,
    },
    Deleting {
        what: String,
    },
    ManagedElsewhere {
        by: String,
    },
    NotOwned {
        infra: ObjectKey,
        cluster: String,
    },
    TopologyStuck {
        class: String,
        infra: Option<ObjectKey>,
    },
    Blanked {
        by: String,
    },
    NameUnresolved {
        name: String,
    },
    SanMissing {
        name: String,
        object: ObjectKey,
    },
    PlaneMissing {
        object: ObjectKey,
    },
    Beside {
        other: Name,
    },
    HandedOver {
        object: ObjectKey,
    },
    HandedWaiting {
        object: ObjectKey,
    },
    ClusterMissing {
        cluster: String,
    },
    NoInfrastructureRef,
    InfraMissing {
        infra: ObjectKey,
    },
    ModeUnset,
    ModeUnknown {
        text: String,
    },
    UserSet {
        at: String,
        endpoint: Endpoint,
    },
    HostWithoutPort {
        at: String,
        host: String,
    },
    UsersDisagree {
        one: Endpoint,
        other: Endpoint,
    },
    OtherEndpoint {
        at: String,
        theirs: Endpoint,
        ours: Option<Endpoint>,
    },
    FromPool {
        pool: String,
        address: IpAddr,
    },
    FromClaim {
        kind: String,
        name: String,
        address: IpAddr,
    },
    ClaimWaiting {
        kind: String,
        name: String,
    },
    ClaimsUnserved {
        kind: String,
        name: String,
    },
    ClaimTaken {
        claim: Name,
    },
    ExplicitVip {
        address: IpAddr,
    },
    AddressTaken {
        address: IpAddr,
        by: String,
    },
    AddressOutside {
        address: IpAddr,
        pool: String,
    },
    AddressFamily {
        address: IpAddr,
    },
    PoolUnset,
    PoolMissing {
        pool: Name,
    },
    PoolForeign {
        kind: String,
        name: String,
    },
    PoolForbidden {
        pool: String,
        tenant: String,
    },
    PoolInvalid {
        pool: String,
        error: String,
    },
    PoolExhausted {
        kind: String,
        pool: String,
        total: u64,
    },
    PoolFamily {
        pool: String,
    },
    SecondFamily {
        address: IpAddr,
    },
    PoolLeaves {
        pool: String,
    },
    PoolPaused {
        pool: String,
    },
    VridsExhausted {
        pool: String,
    },
    ThroughGateway {
        gateway: Name,
        port: u16,
    },
    GatewayUnset,
    GatewayMissing {
        gateway: Name,
    },
    GatewayNoAddress {
        gateway: Name,
    },
    PortsExhausted {
        gateway: Name,
        from: u16,
        to: u16,
    },
    Reserved {
        host: String,
        address: String,
        of: String,
    },
    ExplicitHost {
        host: String,
    },
    NoHost {
        wanted: String,
    },
    HostHasNoAddress {
        host: String,
    },
    HostAddressRefused {
        host: String,
        address: IpAddr,
        why: Refusal,
    },
}

impl Because {
    /// The reason as it stands in the condition `EndpointPublished`.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NotAsked => "NotAsked",
            Self::Paused { .. } => "Paused",
            Self::Vanished { .. } => "Vanished",
            Self::NameUnresolved { .. } => "WaitingForDNS",
            Self::SanMissing { .. } => "SANMissing",
            Self::Beside { .. } => "Beside",
            Self::HandedOver { .. } => "Published",
            Self::HandedWaiting { .. } => "WaitingForInfrastructure",
            Self::Deleting { .. } => "Deleting",
            Self::ManagedElsewhere { .. }
            | Self::PoolForbidden { .. }
            | Self::PoolFamily { .. }
            | Self::SecondFamily { .. }
            | Self::AddressOutside { .. }
            | Self::AddressFamily { .. } => "Forbidden",
            Self::ClusterMissing { .. }
            | Self::NoInfrastructureRef
            | Self::InfraMissing { .. }
            | Self::NotOwned { .. }
            | Self::PlaneMissing { .. }
            | Self::TopologyStuck { .. }
            | Self::ModeUnset
            | Self::ModeUnknown { .. } => "WaitingForOwner",
            Self::UserSet { .. } => "UserProvided",
            Self::HostWithoutPort { .. }
            | Self::UsersDisagree { .. }
            | Self::OtherEndpoint { .. }
            | Self::Blanked { .. }
            | Self::AddressTaken { .. } => "Conflict",
            Self::FromPool { .. }
            | Self::FromClaim { .. }
            | Self::ExplicitVip { .. }
            | Self::ThroughGateway { .. }
            | Self::Reserved { .. }
            | Self::ExplicitHost { .. } => "Published",
            Self::PoolUnset
            | Self::ClaimWaiting { .. }
            | Self::ClaimsUnserved { .. }
            | Self::ClaimTaken { .. }
            | Self::PoolMissing { .. }
            | Self::PoolForeign { .. }
            | Self::PoolLeaves { .. }
            | Self::PoolPaused { .. }
            | Self::PoolInvalid { .. } => "WaitingForPool",
            Self::PoolExhausted { .. } | Self::VridsExhausted { .. } => "PoolExhausted",
            Self::GatewayUnset
            | Self::GatewayMissing { .. }
            | Self::GatewayNoAddress { .. }
            | Self::PortsExhausted { .. } => "WaitingForGateway",
            Self::NoHost { .. }
            | Self::HostHasNoAddress { .. }
            | Self::HostAddressRefused { .. } => "WaitingForHost",
        }
    }

    /// The code, where it is a problem.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::NotAsked
            | Self::Paused { .. }
            | Self::Vanished { .. }
            | Self::Deleting { .. }
            | Self::Beside { .. }
            | Self::HandedOver { .. }
            | Self::UserSet { .. }
            | Self::FromPool { .. }
            | Self::FromClaim { .. }
            | Self::ExplicitVip { .. }
            | Self::ThroughGateway { .. }
            | Self::Reserved { .. }
            | Self::ExplicitHost { .. }
            | Self::ManagedElsewhere { .. } => None,
            Self::ModeUnset | Self::ModeUnknown { .. } => Some(Code::CapiMode),
            Self::HostWithoutPort { .. }
            | Self::UsersDisagree { .. }
            | Self::OtherEndpoint { .. }
            | Self::Blanked { .. } => Some(Code::CapiEndpointConflict),
            Self::AddressTaken { .. } => Some(Code::IpamAddressTaken),
            Self::PoolUnset | Self::PoolMissing { .. } | Self::PoolForeign { .. } => {
                Some(Code::IpamPoolMissing)
            }
            Self::PoolInvalid { .. }
            | Self::PoolForbidden { .. }
            | Self::PoolLeaves { .. }
            | Self::PoolFamily { .. }
            | Self::SecondFamily { .. }
            | Self::AddressOutside { .. }
            | Self::AddressFamily { .. } => Some(Code::IpamPoolInvalid),
            Self::PoolExhausted { .. } | Self::VridsExhausted { .. } => {
                Some(Code::IpamPoolExhausted)
            }
            Self::ClusterMissing { .. }
            | Self::NoInfrastructureRef
            | Self::InfraMissing { .. }
            | Self::NotOwned { .. }
            | Self::TopologyStuck { .. }
            | Self::NameUnresolved { .. }
            | Self::SanMissing { .. }
            | Self::PlaneMissing { .. }
            | Self::HandedWaiting { .. }
            | Self::ClaimWaiting { .. }
            | Self::ClaimsUnserved { .. }
            | Self::ClaimTaken { .. }
            | Self::PoolPaused { .. }
            | Self::GatewayUnset
            | Self::GatewayMissing { .. }
            | Self::GatewayNoAddress { .. }
            | Self::PortsExhausted { .. }
            | Self::NoHost { .. }
            | Self::HostHasNoAddress { .. }
            | Self::HostAddressRefused { .. } => Some(Code::CapiWaiting),
        }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str(
                "nobody asked: no LoadBalancer names the cluster and neither it nor its infrastructure cluster has the annotation kedge.dev/endpoint-mode",
            ),
            Self::Paused { by } => write!(f, "{by} is paused: nothing is changed"),
            Self::Vanished { balancer } => write!(
                f,
                "LoadBalancer {balancer} is gone without having been deleted, as when it is moved: \
                 nothing is changed"
            ),
            Self::NameUnresolved { name } => write!(
                f,
                "{name} does not resolve yet, and the first host asks for it at once; add its record"
            ),
            Self::SanMissing { name, object } => write!(
                f,
                "the certificate that {object} asks for does not carry {name}; add it before the \
                 control plane starts, later it means a rollout"
            ),
            Self::PlaneMissing { object } => write!(
                f,
                "there is no {object} yet, which says whose names the API server's certificate carries"
            ),
            Self::HandedOver { object } => write!(f, "{object} does the work"),
            Self::HandedWaiting { object } => {
                write!(f, "{object}, which is to do the work, has no endpoint yet")
            }
            Self::Beside { other } => {
                write!(f, "LoadBalancer {other} fills the cluster's endpoint; this one stands beside it")
            }
            Self::Deleting { what } => write!(f, "{what} is being deleted: nothing is changed"),
            Self::NotOwned { infra, cluster } => write!(
                f,
                "{infra} is not owned by Cluster {cluster} yet: Cluster API sets that itself"
            ),
            Self::TopologyStuck { class, infra } => {
                match infra {
                    Some(infra) => write!(f, "ClusterClass `{class}` has not made {infra}")?,
                    None => write!(f, "ClusterClass `{class}` has made no infrastructure cluster")?,
                }
                f.write_str(
                    "; if the condition TopologyReconciled says `controlPlaneEndpoint.host: Required \
                     value`, leave controlPlaneEndpoint out of the class's template",
                )
            }
            Self::Blanked { by } => {
                let by = if by.is_empty() { "somebody" } else { by };
                write!(
                    f,
                    "{by} writes an empty host over the endpoint and it is filled again; leave \
                     controlPlaneEndpoint out of what is applied, or have that path ignored"
                )
            }
            Self::ManagedElsewhere { by } => {
                write!(f, "the infrastructure cluster is managed by `{by}`")
            }
            Self::ClusterMissing { cluster } => write!(f, "there is no Cluster {cluster}"),
            Self::NoInfrastructureRef => f.write_str("the Cluster has no spec.infrastructureRef"),
            Self::InfraMissing { infra } => write!(f, "there is no {infra}"),
            Self::ModeUnset => f.write_str("the LoadBalancer has no spec.mode"),
            Self::ModeUnknown { text } => write!(
                f,
                "kedge.dev/endpoint-mode is `{text}`; it must be VIP, Tunnel or HostAddress"
            ),
            Self::UserSet { at, endpoint } => write!(f, "{at} says {endpoint}; a user's value is kept"),
            Self::HostWithoutPort { at, host } => write!(
                f,
                "{at} has the host {host} but no valid port; a user's value is kept, so the port is the user's to set"
            ),
            Self::UsersDisagree { one, other } => write!(
                f,
                "the infrastructure cluster says {one} and the LoadBalancer says {other}"
            ),
            Self::OtherEndpoint { at, theirs, ours: Some(ours) } => {
                write!(f, "{at} already has {theirs}, which is not {ours}")
            }
            Self::OtherEndpoint { at, theirs, ours: None } => write!(
                f,
                "{at} already has {theirs}; set the LoadBalancer's spec.endpoint to it if Kedge shall serve it"
            ),
            Self::FromPool { pool, address } => {
                write!(f, "{address} was the lowest free address of VIPPool {pool}")
            }
            Self::FromClaim { kind, name, address } => {
                write!(f, "{address} was given by {kind} {name}")
            }
            Self::ClaimWaiting { kind, name } => {
                write!(f, "{kind} {name} has not given an address to the claim yet")
            }
            Self::ClaimsUnserved { kind, name } => write!(
                f,
                "the pool {kind} {name} is asked by claims, and this cluster serves none \
                 (IPAddressClaim of ipam.cluster.x-k8s.io)"
            ),
            Self::ClaimTaken { claim } => write!(
                f,
                "there is an IPAddressClaim {claim} already that this LoadBalancer does not control"
            ),
            Self::ExplicitVip { address } => write!(f, "{address} is asked for as the VIP"),
            Self::AddressTaken { address, by } => {
                write!(f, "{address} is already given to {by}")
            }
            Self::AddressOutside { address, pool } => {
                write!(f, "{address} is none of the addresses of VIPPool {pool}")
            }
            Self::AddressFamily { address } => {
                write!(f, "{address} is an IPv6 address, and hosts speak VRRP for IPv4 alone")
            }
            Self::PoolUnset => f.write_str("no pool is named: set kedge.dev/vip-pool or spec.vip.poolRef"),
            Self::PoolMissing { pool } => write!(f, "there is no VIPPool {pool}"),
            Self::PoolForeign { kind, name } => write!(
                f,
                "the pool {kind} {name} is served by another provider, and none runs on a directory; use a VIPPool"
            ),
            Self::PoolForbidden { pool, tenant } => {
                write!(f, "tenant {tenant} may not use VIPPool {pool}")
            }
            Self::PoolInvalid { pool, error } => write!(f, "VIPPool {pool} is not usable: {error}"),
            Self::PoolExhausted { kind, pool, total } => {
                write!(f, "{kind} {pool} has 0 of {total} addresses free")
            }
            Self::PoolFamily { pool } => write!(
                f,
                "VIPPool {pool} is IPv6, and hosts speak VRRP for IPv4 alone; take the VIP from an \
                 IPv4 pool and name this one in spec.vip.second"
            ),
            Self::SecondFamily { address } => {
                write!(f, "{address} is of the family of the VIP's first address")
            }
            Self::PoolLeaves { pool } => {
                write!(f, "VIPPool {pool} is being deleted and gives nothing away any more")
            }
            Self::PoolPaused { pool } => write!(f, "VIPPool {pool} is paused"),
            Self::VridsExhausted { pool } => write!(f, "VIPPool {pool} has no virtual router id free"),
            Self::ThroughGateway { gateway, port } => {
                write!(f, "port {port} of EdgeGateway {gateway} was the lowest free one")
            }
            Self::GatewayUnset => f.write_str(
                "no gateway is named: set kedge.dev/gateway, spec.gatewayRef, or the tenant's gatewayRef",
            ),
            Self::GatewayMissing { gateway } => write!(f, "there is no EdgeGateway {gateway}"),
            Self::GatewayNoAddress { gateway } => write!(
                f,
                "EdgeGateway {gateway} has neither service.addresses nor tunnel.publicEndpoints"
            ),
            Self::PortsExhausted { gateway, from, to } => {
                write!(f, "EdgeGateway {gateway} has no port free in {from} to {to}")
            }
            Self::Reserved { host, address, of } => {
                write!(f, "{host} was the first host by name of {of}; it reports {address}")
            }
            Self::ExplicitHost { host } => write!(f, "{host} is asked for"),
            Self::NoHost { wanted } => write!(f, "no host is heard of with an address among {wanted}"),
            Self::HostHasNoAddress { host } => {
                write!(f, "the reserved host {host} reports no address of the wanted type")
            }
            Self::HostAddressRefused { host, address, why } => write!(
                f,
                "{host} reports {address}, {why}: nobody else reaches it, so it makes no endpoint"
            ),
        }
    }
}
