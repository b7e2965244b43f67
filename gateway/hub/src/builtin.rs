//! The gateway's own proxy, as it is told an offer.

use std::{collections::BTreeMap, time::Duration};

use kedge_control::{
    frontend::Offer,
    local::ListenerStatus,
    report::{Unserved, UnservedReason},
};
use kedge_core::{Code, Problem};
use kedge_gateway_dataplane::{DataPlane, Limits, Place, place, served, unserved_sites};

use crate::{offered::is_own, tenants::Namespaces};

/// The gateway's own proxy.
pub(crate) struct Builtin {
    plane: DataPlane,
    /// The tenants' frontends that are served, by place; names of TLS share one.
    frontends: BTreeMap<Place, Vec<String>>,
    /// Those that are not, and sites.
    refused: Vec<Unserved>,
    /// The gateway's own that are not. A tenant's may be called like one of them.
    own_refused: Vec<Unserved>,
}

impl Builtin {
    /// One that serves nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            plane: DataPlane::new(limits),
            frontends: BTreeMap::new(),
            refused: Vec::new(),
            own_refused: Vec::new(),
        }
    }

    pub fn enclose(&self, namespaces: Namespaces) {
        self.plane.enclose(namespaces.hosts);
    }

    pub fn apply(&mut self, offer: Offer) {
        self.frontends.clear();
        self.refused.clear();
        self.own_refused.clear();
        let mut listeners = Vec::new();
        for (frontend, verdict) in served(&offer) {
            match verdict {
                Ok((carries, listener)) => {
                    if !is_own(frontend) {
                        let here = self.frontends.entry(place(&carries, &listener));
                        here.or_default().push(frontend.name.clone());
                    }
                    listeners.push((carries, listener));
                }
                Err(unserved) if is_own(frontend) => self.own_refused.push(unserved),
                Err(unserved) => self.refused.push(unserved),
            }
        }
        self.refused.extend(unserved_sites(&offer));
        self.plane.behind(offer.proxy_protocol.map(|it| it.from));
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
        let refused = self.own_refused.iter().chain(&self.refused);
        let refused = refused.map(|unserved| {
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
        self.refused.iter().cloned().chain(unbound).collect()
    }

    pub async fn shutdown(self, limit: Duration) {
        self.plane.shutdown(limit).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, time::Instant};

    use kedge_control::{
        frontend::{ClientIp, Frontend, Pool, Protocol},
        site::Site,
    };

    use super::*;
    use crate::offered::OWN;

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
                source_ranges: Vec::new(),
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

    #[tokio::test]
    async fn no_site_is_served_and_that_is_told() {
        let site = Site {
            name: "t/web".to_owned(),
            tenant: "t".to_owned(),
            address: "127.0.0.1".parse().unwrap(),
            http: Some(1.try_into().unwrap()),
            https: None,
            hosts: vec!["web.example".to_owned()],
            certificates: Vec::new(),
            redirect: false,
            routes: Vec::new(),
        };
        let mut builtin = Builtin::new(Limits::default());
        builtin.apply(Offer {
            sites: vec![site],
            ..Offer::default()
        });
        let unserved = builtin.unserved();
        assert_eq!(unserved.len(), 1);
        assert_eq!(unserved[0].frontend, "t/web");
        assert_eq!(unserved[0].reason, UnservedReason::Unsupported);
        assert_eq!(builtin.problems()[0].code, Code::GatewayUnserved);
        builtin.apply(Offer::default());
        assert_eq!(builtin.unserved(), []);
    }

    #[tokio::test]
    async fn what_a_tenant_is_refused_is_told_though_it_is_called_like_one_of_the_gateways() {
        let frontend = |tenant: &str, protocol: Protocol| Frontend {
            name: "ns/edge/api".to_owned(),
            tenant: tenant.to_owned(),
            address: "127.0.0.1".parse().unwrap(),
            port: 1.try_into().unwrap(),
            protocol,
            pool: "ns/edge/api".to_owned(),
            client_ip: ClientIp::Hidden,
            source_ranges: Vec::new(),
        };
        let mut offer = Offer::default();
        for (tenant, protocol) in [(OWN, Protocol::Udp), ("t", Protocol::Udp)] {
            offer.frontends.push(frontend(tenant, protocol));
            offer.pools.push(Pool {
                name: "ns/edge/api".to_owned(),
                tenant: tenant.to_owned(),
                ..Pool::default()
            });
        }
        let mut builtin = Builtin::new(Limits::default());
        builtin.apply(offer);
        let unserved = builtin.unserved();
        assert_eq!(unserved.len(), 1);
        assert_eq!(unserved[0].reason, UnservedReason::PortInUse);
    }
}
