//! An Envoy beside the gateway, and the gateway itself for datagrams: Envoy's sessions of them would begin in its own
//! network and not in the tenant's.

use std::{collections::BTreeSet, time::Duration};

use kedge_control::{
    frontend::{Offer, Protocol},
    local::ListenerStatus,
    report::Unserved,
};
use kedge_core::Problem;
use kedge_gateway_dataplane::Limits;
use kedge_host::Root;

use crate::{builtin::Builtin, config::ProxyConfig, envoy::Beside, tenants::Namespaces};

/// Both of them.
pub(crate) struct Split {
    envoy: Beside,
    datagrams: Builtin,
}

impl Split {
    pub fn new(config: &ProxyConfig, root: &Root) -> Self {
        Self {
            envoy: Beside::new(config, root),
            datagrams: Builtin::new(Limits::default()),
        }
    }

    pub fn configure(&mut self, config: &ProxyConfig, root: &Root) {
        self.envoy.configure(config, root);
    }

    pub fn enclose(&mut self, namespaces: Namespaces) {
        self.datagrams.enclose(namespaces.clone());
        self.envoy.enclose(namespaces);
    }

    pub const fn relax(&mut self, relaxed: bool) {
        self.envoy.relax(relaxed);
    }

    pub fn apply(&mut self, offer: Offer) {
        let (rest, datagrams) = split(offer);
        self.envoy.apply(rest);
        self.datagrams.apply(datagrams);
    }

    pub fn unserved(&self) -> Vec<Unserved> {
        let datagrams = self.datagrams.unserved();
        self.envoy.unserved().into_iter().chain(datagrams).collect()
    }

    pub fn alive(&mut self, host: &str, alive: bool, because: String) {
        self.datagrams.alive(host, alive, because.clone());
        self.envoy.alive(host, alive, because);
    }

    pub fn forget(&mut self, host: &str) {
        self.datagrams.forget(host);
        self.envoy.forget(host);
    }

    pub fn tend(&mut self) {
        self.envoy.tend();
    }

    pub fn is_there(&self) -> bool {
        self.envoy.is_there()
    }

    pub fn status(&self) -> Vec<ListenerStatus> {
        let datagrams = self.datagrams.status();
        self.envoy.status().into_iter().chain(datagrams).collect()
    }

    pub fn problems(&self) -> Vec<Problem> {
        let datagrams = self.datagrams.problems();
        self.envoy.problems().into_iter().chain(datagrams).collect()
    }

    pub async fn shutdown(self, limit: Duration) {
        tokio::join!(self.envoy.shutdown(limit), self.datagrams.shutdown(limit));
    }
}

/// What Envoy serves, and what it does not: the frontends of datagrams, with where those lead.
fn split(mut offer: Offer) -> (Offer, Offer) {
    let all = std::mem::take(&mut offer.frontends).into_iter();
    let (datagrams, rest): (Vec<_>, Vec<_>) = all.partition(|one| one.protocol == Protocol::Udp);
    offer.frontends = rest;
    let led = datagrams.iter().map(|one| (&*one.tenant, &*one.pool));
    let led: BTreeSet<(&str, &str)> = led.collect();
    let pools = offer.pools.iter();
    let pools = pools.filter(|pool| led.contains(&(&*pool.tenant, &*pool.name)));
    let datagrams = Offer {
        pools: pools.cloned().collect(),
        proxy_protocol: offer.proxy_protocol.clone(),
        frontends: datagrams,
        ..Offer::default()
    };
    (offer, datagrams)
}

#[cfg(test)]
mod tests {
    use kedge_control::frontend::{Frontend, Pool};

    use super::*;

    #[test]
    fn datagrams_go_where_their_pools_are_and_everything_else_to_envoy() {
        let frontend = |name: &str, protocol: Protocol| Frontend {
            name: name.to_owned(),
            tenant: "t".to_owned(),
            address: "203.0.113.7".parse().unwrap(),
            port: 53.try_into().unwrap(),
            pool: name.to_owned(),
            client_ip: Default::default(),
            source_ranges: Vec::new(),
            protocol,
        };
        let pool = |tenant: &str, name: &str| Pool {
            name: name.to_owned(),
            tenant: tenant.to_owned(),
            ..Pool::default()
        };
        let offer = Offer {
            frontends: vec![
                frontend("udp", Protocol::Udp),
                frontend("tcp", Protocol::Tcp),
            ],
            pools: vec![pool("t", "udp"), pool("t", "tcp"), pool("other", "udp")],
            ..Offer::default()
        };
        let (envoy, datagrams) = split(offer.clone());
        assert_eq!(envoy.frontends, offer.frontends[1..]);
        assert_eq!(envoy.pools, offer.pools, "routes may lead there as well");
        assert_eq!(datagrams.frontends, offer.frontends[..1]);
        assert_eq!(datagrams.pools, offer.pools[..1]);
    }
}
