//! Why an HTTPLoadBalancer is not served, or not all of it.

use std::{fmt, num::NonZeroU16};

use crate::{plan::tcp, store::Name};

/// Why an HTTPLoadBalancer is not served, or not all of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// What holds for TCPLoadBalancers as well.
    Common(tcp::Refusal),
    /// The gateway serves no HTTP.
    NotServed { gateway: Name },
    /// The gateway has another use for the port.
    PortTwice {
        gateway: Name,
        port: NonZeroU16,
        field: &'static str,
        other: &'static str,
    },
    /// It has no name.
    NoNames { tenant: String },
    /// Its tenant may not ask for the name.
    NotAllowed { hostname: String, tenant: String },
    /// Another tenant has the name, or a wildcard above it.
    Taken { hostname: String },
    /// A value that nobody can serve.
    Invalid { field: String, why: String },
}

impl Refusal {
    /// Whether nothing of it is served. Where only a name or a port is missing, the others are.
    pub const fn is_whole(&self) -> bool {
        match self {
            Self::Common(tcp::Refusal::PortInUse { .. })
            | Self::PortTwice { .. }
            | Self::NotAllowed { .. }
            | Self::Taken { .. } => false,
            Self::Common(_)
            | Self::NotServed { .. }
            | Self::NoNames { .. }
            | Self::Invalid { .. } => true,
        }
    }

    /// Whether it may be served once somebody gives something back.
    pub const fn waits(&self) -> bool {
        matches!(
            self,
            Self::Taken { .. } | Self::Common(tcp::Refusal::PortInUse { .. })
        )
    }

    /// The reason of the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Common(refusal) => refusal.reason(),
            Self::NotServed { .. } => "NotServed",
            Self::PortTwice { .. } => "PortInUse",
            Self::NoNames { .. } => "NoHostnames",
            Self::NotAllowed { .. } => "HostnameNotAllowed",
            Self::Taken { .. } => "HostnameTaken",
            Self::Invalid { .. } => "Invalid",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Common(refusal) => refusal.fmt(f),
            Self::NotServed { gateway } => write!(
                f,
                "EdgeGateway {gateway} serves no HTTPLoadBalancers; set its spec.http"
            ),
            Self::PortTwice {
                gateway,
                port,
                field,
                other,
            } => write!(
                f,
                "port {port} of EdgeGateway {gateway} is its {other} as well; set another {field}"
            ),
            Self::NoNames { tenant } => write!(
                f,
                "it has no name: set spec.hostnames, or spec.dns.domain of Tenant {tenant}"
            ),
            Self::NotAllowed { hostname, tenant } => write!(
                f,
                "{hostname}: it is not one label below the domain of Tenant {tenant}, nor in its \
                 spec.dns.allowedHostnames"
            ),
            Self::Taken { hostname } => write!(
                f,
                "{hostname}: another tenant has it, or a wildcard above it, at this gateway"
            ),
            Self::Invalid { field, why } => write!(f, "{field}: {why}"),
        }
    }
}
