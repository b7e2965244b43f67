//! What a gateway serves as one offer: the listeners of control planes, which are its own, and the
//! frontends of tenants. Whatever carries the connections is told nothing else.

use std::num::NonZeroU16;

use kedge_control::{
    balance::Listener,
    frontend::{ClientIp, Frontend, Offer, Pool, PoolMember, Protocol},
};

/// Whose the listeners of control planes are: no tenant is called like that.
pub(crate) const OWN: &str = "";

/// Whether a frontend is a control plane's.
pub(crate) fn is_own(frontend: &Frontend) -> bool {
    frontend.tenant == OWN
}

/// Everything a gateway serves. A control plane goes before a tenant where both want one place.
pub(crate) fn merged(listeners: &[Listener], tenants: &Offer) -> Offer {
    let mut offer = Offer::default();
    for listener in listeners {
        let Some(port) = NonZeroU16::new(listener.port) else {
            continue;
        };
        offer.frontends.push(Frontend {
            name: listener.name.clone(),
            tenant: OWN.to_owned(),
            address: listener.address,
            port,
            protocol: Protocol::Tcp,
            pool: listener.name.clone(),
            client_ip: ClientIp::Hidden,
            source_ranges: Vec::new(),
        });
        let members = listener.members.iter().filter_map(|member| {
            Some(PoolMember {
                host: member.host.clone(),
                address: member.address,
                port: NonZeroU16::new(member.port)?,
                weight: 1,
                draining: member.draining,
            })
        });
        offer.pools.push(Pool {
            name: listener.name.clone(),
            tenant: OWN.to_owned(),
            members: members.collect(),
            ..Pool::default()
        });
    }
    let frontends = tenants.frontends.iter().chain(&tenants.restricted);
    offer
        .frontends
        .extend(frontends.filter(|one| !is_own(one)).cloned());
    let sites = tenants.sites.iter().filter(|site| site.tenant != OWN);
    offer.sites.extend(sites.cloned());
    let pools = tenants.pools.iter().filter(|pool| pool.tenant != OWN);
    offer.pools.extend(pools.cloned());
    offer.proxy_protocol.clone_from(&tenants.proxy_protocol);
    offer
}

#[cfg(test)]
mod tests {
    use kedge_control::frontend::ProxyProtocol;

    use super::*;

    #[test]
    fn control_planes_come_first_and_no_tenant_passes_for_one() {
        let listener = Listener {
            name: "ns/edge/api".to_owned(),
            address: "203.0.113.7".parse().unwrap(),
            port: 6443,
            members: Vec::new(),
        };
        let none = merged(&[], &Offer::default());
        assert!(none.is_empty());
        let mut tenants = merged(std::slice::from_ref(&listener), &Offer::default());
        assert_eq!(
            merged(&[], &tenants),
            Offer::default(),
            "its tenant has no name"
        );
        for (frontend, pool) in tenants.frontends.iter_mut().zip(&mut tenants.pools) {
            frontend.tenant = "t".to_owned();
            pool.tenant = "t".to_owned();
        }
        tenants.proxy_protocol = Some(ProxyProtocol::default());
        let restricted = Frontend {
            name: "ns/admin".to_owned(),
            source_ranges: vec!["192.0.2.0/24".parse().unwrap()],
            ..tenants.frontends[0].clone()
        };
        let for_everybody = merged(std::slice::from_ref(&listener), &tenants);
        tenants.restricted = vec![restricted.clone()];
        let mut both = merged(&[listener], &tenants);
        assert_eq!(both.restricted, []);
        assert_eq!(both.frontends.pop(), Some(restricted));
        assert_eq!(both, for_everybody);
        assert!(both.proxy_protocol.is_some(), "it is the gateway's");
        let owners: Vec<&str> = both.frontends.iter().map(|one| &*one.tenant).collect();
        assert_eq!(owners, [OWN, "t"]);
        assert_eq!(both.pools.len(), 2);
    }
}
