//! Why a TCPLoadBalancer is not served, or not all of it.

use std::{fmt, net::IpAddr, num::NonZeroU16};

use kedge_crd::traffic::Transport;

use crate::{plan::because::Because, store::Name};

/// Why a TCPLoadBalancer is not served, or not all of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Nobody has the namespace.
    NoTenant { namespace: String },
    /// Its tenant has no gateway.
    GatewayUnset { tenant: String },
    /// The gateway is not there.
    GatewayMissing { gateway: Name },
    /// Clients have no way to it.
    GatewayNoAddress { gateway: Name },
    /// It would be one more than its tenant may have.
    Quota { what: &'static str, most: u32 },
    /// Somebody else has the port.
    PortInUse {
        protocol: Transport,
        port: NonZeroU16,
        by: String,
    },
    /// The gateway's range is used up.
    PortsExhausted { gateway: Name, from: u16, to: u16 },
    /// It gave back so many ports a moment ago that no more can be noted.
    PortsResting,
    /// No address of the pool it names can be had.
    Address(Because),
    /// It names no port.
    NoPorts,
    /// A port without its number.
    NoNumber { port: String },
    /// A backend names a port that it does not have.
    UnknownPort { port: String },
    /// An address that no host of the tenant has.
    UnknownHost { address: IpAddr },
    /// What Kedge keeps of it and what is asked for make no object.
    Unreadable { error: String },
    /// What nobody here does.
    Unsupported {
        field: &'static str,
        why: &'static str,
    },
}

impl Refusal {
    /// Whether nothing of it is served. Where only a port is missing, the others are.
    pub const fn is_whole(&self) -> bool {
        !matches!(
            self,
            Self::PortInUse { .. }
                | Self::PortsExhausted { .. }
                | Self::PortsResting
                | Self::Quota { .. }
        )
    }

    /// Whether it may be served once somebody gives a port back.
    pub const fn waits_for_a_port(&self) -> bool {
        matches!(self, Self::PortInUse { .. } | Self::PortsExhausted { .. })
    }

    /// The reason of the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoTenant { .. } => "NoTenant",
            Self::GatewayUnset { .. } => "GatewayUnset",
            Self::GatewayMissing { .. } => "GatewayMissing",
            Self::GatewayNoAddress { .. } => "GatewayNoAddress",
            Self::Quota { .. } => "QuotaExceeded",
            Self::PortInUse { .. } => "PortInUse",
            Self::PortsExhausted { .. } => "PortsExhausted",
            Self::PortsResting => "PortsResting",
            Self::Address(because) => because.reason(),
            Self::NoPorts => "NoPorts",
            Self::NoNumber { .. } | Self::Unreadable { .. } => "Invalid",
            Self::UnknownPort { .. } => "UnknownPort",
            Self::UnknownHost { .. } => "UnknownHost",
            Self::Unsupported { .. } => "Unsupported",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTenant { namespace } => {
                write!(f, "no Tenant has the namespace {namespace}")
            }
            Self::GatewayUnset { tenant } => {
                write!(f, "Tenant {tenant} names no gateway (spec.gatewayRef)")
            }
            Self::GatewayMissing { gateway } => write!(f, "there is no EdgeGateway {gateway}"),
            Self::GatewayNoAddress { gateway } => write!(
                f,
                "EdgeGateway {gateway} has no address for clients (spec.service.addresses)"
            ),
            Self::Quota { what, most } => {
                write!(f, "its tenant may have {most} {what} (spec.limits)")
            }
            Self::PortInUse { protocol, port, by } => {
                write!(f, "{} port {port}: {by}", word(*protocol))
            }
            Self::PortsExhausted { gateway, from, to } => write!(
                f,
                "no port of {from} to {to} is free at EdgeGateway {gateway} (spec.ports.range)"
            ),
            Self::PortsResting => f.write_str(
                "it gave back so many ports a moment ago that it changes again once some of them have \
                 rested",
            ),
            Self::Address(because) => because.fmt(f),
            Self::NoPorts => f.write_str("spec.ports is empty"),
            Self::NoNumber { port } => write!(f, "the port {port} has no number"),
            Self::UnknownPort { port } => {
                write!(
                    f,
                    "spec.endpoints names the port {port}, which is not in spec.ports"
                )
            }
            Self::UnknownHost { address } => write!(
                f,
                "{address} is the overlay address of no host of the tenant, and only those are \
                 reached"
            ),
            Self::Unreadable { error } => f.write_str(error),
            Self::Unsupported { field, why } => write!(f, "{field}: {why}"),
        }
    }
}

/// A protocol as it is spelt.
pub const fn word(protocol: Transport) -> &'static str {
    match protocol {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
    }
}
