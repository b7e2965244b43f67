//! Who has an address of a pool.

use std::fmt;

use super::http::Sharing;
use crate::store::{CLAIM_KIND, Name};

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A LoadBalancer, by a claim or without one.
    Balancer(Name),
    /// A TCPLoadBalancer.
    Tcp(Name),
    /// HTTPLoadBalancers that share it.
    Http(Sharing),
    /// A claim of somebody else.
    Claim(Name),
    /// A host, whose own it is.
    Host(Name),
}

impl Holder {
    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match self {
            Self::Balancer(name) | Self::Tcp(name) | Self::Claim(name) | Self::Host(name) => {
                &name.namespace
            }
            Self::Http(sharing) => &sharing.namespace,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balancer(name) => write!(f, "LoadBalancer {name}"),
            Self::Tcp(name) => write!(f, "TCPLoadBalancer {name}"),
            Self::Http(sharing) => sharing.fmt(f),
            Self::Claim(name) => write!(f, "{CLAIM_KIND} {name}"),
            Self::Host(name) => write!(f, "EdgeHost {name}"),
        }
    }
}
