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
    /// The tenants' frontends that are served, by place; names of TLS share one.
    frontends: BTreeMap<Place, Vec<String>>,
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
        self.frontends.clear();
        for frontend in tenants.filter(|frontend| !is_refused(&frontend.name)) {
            let at = SocketAddr::new(frontend.address, frontend.port.get());
            let place = (frontend.protocol == Protocol::Udp, at);
            let here = self.frontends.entry(place).or_default();
            here.push(frontend.name.clone());
        }
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
        let unbound = self.plane.unbound();
        let unbound = unbound.into_iter().flat_map(|(place, problem)| {
            let reason = match &problem {
                Some(problem) if problem.code == Code::GatewayPortInUse => {
                    UnservedReason::PortInUse
                }
                _ => UnservedReason::Pending,
            };
            let message = problem.map(|problem| problem.what).unwrap_or_default();
            let here = self.frontends.get(&place).into_iter().flatten();
            here.map(move |frontend| Unserved {
                frontend: frontend.clone(),
                reason,
                message: message.clone(),
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

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, time::Instant};

    use kedge_control::frontend::{ClientIp, Frontend, Pool};

    use super::*;

    #[tokio::test]
    async fn of_a_place_that_is_taken_everybody_whose_name_is_there_is_told() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        let mut offer = Offer::default();
        for tenant in ["a", "b"] {
            offer.frontends.push(Frontend {
                name: format!("{tenant}/web/https"),
                tenant: tenant.to_owned(),
                address: at.ip(),
                port: at.port().try_into().unwrap(),
                protocol: Protocol::TlsPassthrough {
                    server_names: vec![format!("{tenant}.example")],
                },
                pool: "web".to_owned(),
                client_ip: ClientIp::Hidden,
            });
            offer.pools.push(Pool {
                name: "web".to_owned(),
                tenant: tenant.to_owned(),
                ..Pool::default()
            });
        }
        let mut builtin = Builtin::new(Limits::default());
        builtin.apply(offer);
        let told = |reason: UnservedReason| {
            let unserved = builtin.unserved();
            let names: Vec<&str> = unserved.iter().map(|one| &*one.frontend).collect();
            let is_it = unserved.iter().all(|one| one.reason == reason);
            is_it && names == ["a/web/https", "b/web/https"]
        };
        let start = Instant::now();
        while !told(UnservedReason::PortInUse) {
            assert!(start.elapsed() < Duration::from_secs(10), "it is told");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(taken);
        while !builtin.unserved().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(20), "it is served");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
