//! Which tenants are kept apart, as a plan takes account of it.

use std::{collections::BTreeMap, path::PathBuf};

use kedge_tunnel_proto::realm::Realm;

/// Which tenants are kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Apart {
    /// Whether any is.
    pub on: bool,
    /// By tenant.
    pub realms: BTreeMap<String, Realm>,
    /// Where the interface of each is.
    pub paths: BTreeMap<Realm, PathBuf>,
}

impl Apart {
    /// The realm of a host of `tenant`. Hosts of nobody are with the gateway itself.
    pub(super) fn realm(&self, tenant: &str) -> Result<Option<Realm>, String> {
        if !self.on || tenant.is_empty() {
            return Ok(None);
        }
        let realm = self.realms.get(tenant).copied();
        let shown = || tenant.escape_debug().take(80).collect::<String>();
        realm
            .map(Some)
            .ok_or_else(|| format!("its tenant `{}` cannot be kept apart from others", shown()))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use kedge_control::{
        agent::{GatewayConfig as Wished, PeerConfig, TunnelConfig as Tunnel},
        balance::{Listener, Member},
        frontend::{Offer, Pool, PoolMember},
    };
    use kedge_core::Code;
    use kedge_tunnel_proto::keys::PublicKey;

    use super::{super::plan, *};
    use crate::config::{GatewayFile, TunnelConfig};

    fn config() -> TunnelConfig {
        let sources = kedge_host::layers::Sources::file("/nowhere/gateway.yaml".as_ref());
        let loaded = kedge_host::layers::load_from::<GatewayFile>(&sources);
        loaded.unwrap().config.tunnel
    }

    fn realm(number: u16) -> Option<Realm> {
        NonZeroU16::new(number).map(Realm::new)
    }

    fn apart() -> Apart {
        let realms = [("one", 1), ("two", 2)];
        let realms = realms.map(|(tenant, number)| (tenant.to_owned(), realm(number).unwrap()));
        Apart {
            on: true,
            paths: realms
                .iter()
                .map(|(tenant, realm)| (*realm, tenant.into()))
                .collect(),
            realms: realms.into(),
        }
    }

    /// A host with the address that all have.
    fn host(number: u8, tenant: &str) -> PeerConfig {
        PeerConfig {
            name: format!("{tenant}/{number}"),
            public_key: PublicKey::from_bytes([number; 32]).unwrap().to_string(),
            next_public_key: None,
            endpoint: None,
            other_endpoint: None,
            tls_endpoint: None,
            allowed_ips: vec!["198.18.0.10/32".parse().unwrap()],
            keepalive_seconds: 0,
            tenant: tenant.to_owned(),
        }
    }

    fn wished(peers: Vec<PeerConfig>) -> Wished {
        Wished {
            tunnel: Some(Tunnel {
                addresses: vec!["198.18.0.1/32".parse().unwrap()],
                mtu: 1420,
                peers,
            }),
            ..Wished::default()
        }
    }

    #[test]
    fn one_address_is_that_of_a_host_of_each_tenant_and_of_no_second_one() {
        let hosts = ["one", "two", "", "two", "three"];
        let hosts = (1..)
            .zip(hosts)
            .map(|(number, tenant)| host(number, tenant));
        let wished = wished(hosts.collect());
        let own = PublicKey::from_bytes([99; 32]).unwrap();
        let plan = plan(&config(), &own, &wished, &apart());
        let wish = plan.tunnel.unwrap();
        let taken: Vec<_> = wish.peers.iter().map(|it| (&*it.name, it.realm)).collect();
        let expected = [("one/1", realm(1)), ("two/2", realm(2)), ("/3", None)];
        assert_eq!(taken, expected);
        assert_eq!(wish.realms, apart().paths);
        let why: Vec<_> = plan
            .problems
            .iter()
            .map(|it| it.evidence.join(" "))
            .collect();
        assert_eq!(why.len(), 2, "{why:?}");
        assert!(why[0].contains("belongs to two/2"), "{why:?}");
        assert!(why[1].contains("`three` cannot be kept apart"), "{why:?}");
    }

    #[test]
    fn nobody_leads_to_hosts_of_another_tenant() {
        let mut wished = wished(vec![host(1, "one"), host(2, "two")]);
        let address = "198.18.0.10".parse().unwrap();
        let member = |host: &str| PoolMember {
            host: host.to_owned(),
            address,
            port: 80.try_into().unwrap(),
            weight: 1,
            draining: false,
        };
        wished.offer = Offer {
            pools: vec![Pool {
                name: "web".to_owned(),
                tenant: "one".to_owned(),
                members: vec![member("one/1"), member("two/2")],
                ..Pool::default()
            }],
            ..Offer::default()
        };
        let member = |host: &str| Member {
            host: host.to_owned(),
            address,
            port: 6443,
            draining: false,
        };
        wished.listeners = vec![Listener {
            name: "two/edge/6443".to_owned(),
            address,
            port: 6443,
            members: vec![member("two/2"), member("one/1")],
        }];
        let own = PublicKey::from_bytes([99; 32]).unwrap();
        let plan = plan(&config(), &own, &wished, &apart());
        let pool = &plan.offer.pools[0].members;
        assert_eq!((pool.len(), &*pool[0].host), (1, "one/1"));
        let members = &plan.listeners[0].members;
        assert_eq!((members.len(), &*members[0].host), (1, "two/2"));
        let codes: Vec<Code> = plan.problems.iter().map(|it| it.code).collect();
        assert_eq!(codes, [Code::TunOutsideBounds; 2]);
    }
}
