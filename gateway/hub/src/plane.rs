//! What carries the connections of clients to hosts: the gateway itself, or an Envoy beside it and the gateway what
//! that does not.

use std::time::Duration;

use kedge_control::{frontend::Offer, local::ListenerStatus, report::Unserved};
use kedge_core::Problem;
use kedge_gateway_dataplane::Limits;
use kedge_host::Root;

#[cfg(feature = "envoy")]
use crate::split::Split;
use crate::{
    builtin::Builtin,
    config::{Engine, ProxyConfig},
    tenants::Namespaces,
};

/// What carries the connections of clients. What it serves is declared, and so is who lives.
pub(crate) enum Plane {
    /// The gateway itself.
    Builtin(Box<Builtin>),
    /// An Envoy beside it, but for datagrams.
    #[cfg(feature = "envoy")]
    Envoy(Box<Split>),
}

impl Plane {
    /// One without listeners.
    pub fn new(config: &ProxyConfig, root: &Root) -> Self {
        match config.engine {
            #[cfg(feature = "envoy")]
            Engine::Envoy => Self::Envoy(Box::new(Split::new(config, root))),
            // A build without Envoy has refused such a configuration.
            #[cfg(not(feature = "envoy"))]
            Engine::Envoy => {
                let _ = root;
                Self::Builtin(Box::new(Builtin::new(Limits::default())))
            }
            Engine::Builtin => Self::Builtin(Box::new(Builtin::new(Limits::default()))),
        }
    }

    /// Takes another configuration, if it is one of the same kind. Whether it was.
    pub fn configure(&mut self, config: &ProxyConfig, root: &Root) -> bool {
        match (self, config.engine) {
            #[cfg(feature = "envoy")]
            (Self::Envoy(plane), Engine::Envoy) => {
                plane.configure(config, root);
                true
            }
            (_, Engine::Builtin | Engine::Envoy) => {
                let _ = root;
                false
            }
        }
    }

    /// Takes where hosts are: connections to them begin there. What is served is told anew after that.
    pub fn enclose(&mut self, namespaces: Namespaces) {
        match self {
            Self::Builtin(plane) => plane.enclose(namespaces),
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => plane.enclose(namespaces),
        }
    }

    /// Whether it checks back ends.
    pub const fn checks(&self) -> bool {
        match self {
            Self::Builtin(_) => false,
            #[cfg(feature = "envoy")]
            Self::Envoy(_) => true,
        }
    }

    /// Has it check back ends less often, or as often as they ask for, in what is served from here on.
    pub const fn relax(&mut self, relaxed: bool) {
        match self {
            Self::Builtin(_) => _ = relaxed,
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => plane.relax(relaxed),
        }
    }

    /// Makes `offer` what is served.
    pub fn apply(&mut self, offer: Offer) {
        match self {
            Self::Builtin(plane) => plane.apply(offer),
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => plane.apply(offer),
        }
    }

    /// The tenants' frontends that are not served, by name.
    pub fn unserved(&self) -> Vec<Unserved> {
        let mut unserved = match self {
            Self::Builtin(plane) => plane.unserved(),
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => plane.unserved(),
        };
        unserved.sort();
        unserved
    }

    /// Takes what the tunnel says of a host.
    pub fn alive(&mut self, host: &str, alive: bool, because: impl Into<String>) {
        match self {
            Self::Builtin(plane) => plane.alive(host, alive, because),
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => plane.alive(host, alive, because.into()),
        }
    }

    /// Forgets a host that is no peer any more.
    pub fn forget(&mut self, host: &str) {
        match self {
            Self::Builtin(plane) => plane.forget(host),
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => plane.forget(host),
        }
    }

    /// What is due about once a second.
    pub fn tend(&mut self) {
        match self {
            Self::Builtin(_) => {}
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => plane.tend(),
        }
    }

    /// Why nobody could be served.
    pub fn unready(&self) -> Option<&'static str> {
        match self {
            Self::Builtin(_) => None,
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => (!plane.is_there()).then_some("no Envoy runs beside it"),
        }
    }

    /// The listeners, by address.
    pub fn status(&self) -> Vec<ListenerStatus> {
        match self {
            Self::Builtin(plane) => plane.status(),
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => plane.status(),
        }
    }

    /// What is wrong with them.
    pub fn problems(&self) -> Vec<Problem> {
        match self {
            Self::Builtin(plane) => plane.problems(),
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => plane.problems(),
        }
    }

    /// Stops accepting, and gives open connections at most `limit` to end.
    pub async fn shutdown(self, limit: Duration) {
        match self {
            Self::Builtin(plane) => plane.shutdown(limit).await,
            #[cfg(feature = "envoy")]
            Self::Envoy(plane) => plane.shutdown(limit).await,
        }
    }
}
