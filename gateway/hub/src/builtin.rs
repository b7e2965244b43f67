//! The gateway's own proxy, as it is told an offer.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use kedge_control::{
    frontend::{Offer, Protocol},
    local::ListenerStatus,
    report::{Unserved, UnservedReason},
};
use kedge_core::{Code, Problem};
use kedge_gateway_dataplane::{DataPlane, Limits, Place, Served, served};

use crate::offered::is_own;

/// The gateway's own proxy.
pub(crate) struct Builtin {
    plane: DataPlane,
    /// The tenants' frontends that are served, by place.
    frontends: BTreeMap<Place, String>,
    /// What of the offer is not, with the gateway's own.
    refused: Vec<Unserved>,
    /// The names of the gateway's own.
    own: Vec<String>,
}

impl Builtin {
    /// One that serves nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            plane: DataPlane::new(limits),
            frontends: BTreeMap::new(),
            refused: Vec::new(),
            own: Vec::new(),
        }
    }

    pub fn apply(&mut self, offer: Offer) {
        let Served { listeners, refused } = served(&offer);
        let tenants = offer.frontends.iter().filter(|frontend| !is_own(frontend));
        let is_refused = |name: &str| refused.iter().any(|unserved| unserved.frontend == name);
        self.frontends = tenants
            .filter(|frontend| !is_refused(&frontend.name))
            .map(|frontend| {
                let at = SocketAddr::new(frontend.address, frontend.port.get());
                (
                    (frontend.protocol == Protocol::Udp, at),
                    frontend.name.clone(),
                )
            })
            .collect();
        let own = offer.frontends.iter().filter(|frontend| is_own(frontend));
        self.own = own.map(|frontend| frontend.name.clone()).collect();
        self.refused = refused;
        self.plane.serve(listeners);
    }

    pub fn alive(&self, host: &str, alive: bool, because: impl Into<String>) {
        self.plane.alive(host, alive, because);
    }

    pub fn forget(&self, host: &str) {
        self.plane.forget(host);
    }

    pub fn status(&self) -> Vec<ListenerStatus> {
        self.plane.status()
    }

    pub fn problems(&self) -> Vec<Problem> {
        let refused = self.refused.iter().map(|unserved| {
            let code = match unserved.reason {
                UnservedReason::PortInUse => Code::GatewayPortInUse,
                _ => Code::GatewayUnserved,
            };
            Problem::new(code, "a frontend is not served")
                .object(format!("listeners/{}", unserved.frontend))
                .evidence(unserved.message.clone())
                .consequence("it serves nobody")
        });
        self.plane.problems().into_iter().chain(refused).collect()
    }

    pub fn unserved(&self) -> Vec<Unserved> {
        let unbound = self
            .plane
            .unbound()
            .into_iter()
            .filter_map(|(place, problem)| {
                let frontend = self.frontends.get(&place)?.clone();
                let reason = match &problem {
                    Some(problem) if problem.code == Code::GatewayPortInUse => {
                        UnservedReason::PortInUse
                    }
                    _ => UnservedReason::Pending,
                };
                Some(Unserved {
                    frontend,
                    reason,
                    message: problem.map(|problem| problem.what).unwrap_or_default(),
                })
            });
        let refused = self.refused.iter();
        let refused = refused.filter(|unserved| !self.own.contains(&unserved.frontend));
        refused.cloned().chain(unbound).collect()
    }

    pub async fn shutdown(self, limit: Duration) {
        self.plane.shutdown(limit).await;
    }
}
