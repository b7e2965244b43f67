//! Tenants apart from each other: a network namespace for each, with an interface of the tunnel's in it.
//!
//! ```text
//!            ┌ /run/kedge/netns/a ── kedge0 ┐
//!  proxy ────┤                              ├── one device, one UDP port ── hosts of a and of b
//!            └ /run/kedge/netns/b ── kedge0 ┘
//! ```
//!
//! Addresses mean something within one of them alone, so two tenants may have the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    net::IpAddr,
    num::NonZeroU16,
    path::{Path, PathBuf},
};

use kedge_control::{agent::GatewayConfig as Wished, local::TenantStatus};
use kedge_core::{Coded as _, Problem};
use kedge_host::Root;
use kedge_net::netns::Enclosure;
use kedge_tunnel_device::{PeerSpec, echo::Responder, keeper::Wish};
use kedge_tunnel_proto::realm::Realm;
use tracing::{debug, info, warn};

use crate::{
    bounds::{Apart, Plan},
    config::Isolation,
    hub::Hub,
};

/// The tenants of this gateway, where they are kept apart.
pub(crate) struct Tenants {
    directory: PathBuf,
    isolation: Isolation,
    realms: BTreeMap<String, Realm>,
    /// The number that was given last. Numbers do not come again soon: who leaves is never taken for
    /// who comes.
    last: u16,
    answering: BTreeMap<Realm, Answering>,
    problem: Option<Problem>,
}

/// Where each tenant's hosts are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// By tenant.
    pub tenants: BTreeMap<String, PathBuf>,
    /// By host.
    pub hosts: BTreeMap<String, PathBuf>,
}

/// The echo inside, as long as it is on the right addresses of the right device.
struct Answering {
    on: Vec<IpAddr>,
    opening: u64,
    _responder: Responder,
}

impl Tenants {
    /// Nobody is apart yet.
    pub fn new(root: &Root) -> Self {
        Self {
            directory: root.run_dir().join("netns"),
            isolation: Isolation::Shared,
            realms: BTreeMap::new(),
            last: 0,
            answering: BTreeMap::new(),
            problem: None,
        }
    }

    /// A realm for each tenant of a desired state that has hosts, which it keeps as long as it has any.
    pub fn allot(&mut self, isolation: Isolation, wished: &Wished) -> Apart {
        self.isolation = isolation;
        let peers = wished.tunnel.iter().flat_map(|tunnel| &tunnel.peers);
        let tenants = peers.map(|peer| peer.tenant.as_str());
        let tenants: BTreeSet<&str> = match isolation {
            Isolation::Shared => BTreeSet::new(),
            Isolation::Namespace => tenants.filter(|tenant| names_a_file(tenant)).collect(),
        };
        self.realms
            .retain(|tenant, _| tenants.contains(tenant.as_str()));
        for tenant in tenants {
            if !self.realms.contains_key(tenant)
                && let Some(realm) = self.next()
            {
                self.realms.insert(tenant.to_owned(), realm);
            }
        }
        Apart {
            on: isolation == Isolation::Namespace,
            realms: self.realms.clone(),
            paths: self.paths(),
        }
    }

    /// The next number that nobody has.
    fn next(&mut self) -> Option<Realm> {
        let taken: BTreeSet<Realm> = self.realms.values().copied().collect();
        let numbers = (self.last.saturating_add(1)..=u16::MAX).chain(1..=self.last);
        let mut realms = numbers.filter_map(NonZeroU16::new).map(Realm::new);
        let realm = realms.find(|realm| !taken.contains(realm))?;
        self.last = realm.number();
        Some(realm)
    }

    /// Where each realm's interface is.
    fn paths(&self) -> BTreeMap<Realm, PathBuf> {
        let realms = self.realms.iter();
        realms
            .map(|(tenant, realm)| (*realm, self.directory.join(tenant)))
            .collect()
    }

    /// Where everybody's hosts are.
    pub fn namespaces(&self, peers: &[PeerSpec]) -> Namespaces {
        let paths = self.paths();
        let path = |realm: &Realm| paths.get(realm).cloned();
        let tenants = self.realms.iter();
        let hosts = peers.iter();
        Namespaces {
            tenants: tenants
                .filter_map(|(tenant, realm)| Some((tenant.clone(), path(realm)?)))
                .collect(),
            hosts: hosts
                .filter_map(|peer| Some((peer.name.clone(), path(&peer.realm?)?)))
                .collect(),
        }
    }

    /// Looks after what is inside: hosts are answered there. `opening` is that of the device, if it is open.
    pub fn tend(&mut self, addresses: &[IpAddr], opening: Option<u64>) {
        let realms: BTreeSet<Realm> = self.realms.values().copied().collect();
        self.answering.retain(|realm, now| {
            realms.contains(realm) && now.on == addresses && Some(now.opening) == opening
        });
        self.problem = None;
        let Some(opening) = opening else { return };
        for (realm, path) in self.paths() {
            if self.answering.contains_key(&realm) {
                continue;
            }
            match Responder::start_within(&path, addresses) {
                Ok(responder) => {
                    let answering = Answering {
                        on: addresses.to_vec(),
                        opening,
                        _responder: responder,
                    };
                    self.answering.insert(realm, answering);
                }
                Err(error) => {
                    let told = &error as &dyn std::error::Error;
                    debug!(path = %path.display(), error = told, "a tenant's echo not answered yet");
                    self.problem = Some(error.problem());
                }
            }
        }
    }

    /// Removes the namespaces of tenants that are gone.
    pub fn clear(&self) {
        let names = match Enclosure::names(&self.directory) {
            Ok(names) => names,
            Err(error) => {
                debug!(
                    error = &error as &dyn std::error::Error,
                    "no namespaces seen"
                );
                return;
            }
        };
        let is_here = |name: &OsString| {
            name.to_str()
                .is_some_and(|name| self.realms.contains_key(name))
        };
        for name in names.iter().filter(|name| !is_here(name)) {
            let path = self.directory.join(name);
            let namespace = path.display();
            match Enclosure::remove(&path) {
                Ok(()) => {
                    info!(%namespace, because = "its tenant has no hosts here", "network namespace removed")
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    warn!(%namespace, error, "a network namespace stays behind");
                }
            }
        }
    }

    /// What is wrong inside.
    pub const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// As people see them.
    pub fn status(&self, peers: &[PeerSpec]) -> Vec<TenantStatus> {
        let mut hosts: BTreeMap<Realm, usize> = BTreeMap::new();
        for realm in peers.iter().filter_map(|peer| peer.realm) {
            *hosts.entry(realm).or_default() += 1;
        }
        let status = |(tenant, realm): (&String, &Realm)| TenantStatus {
            tenant: tenant.clone(),
            namespace: self.directory.join(tenant).display().to_string(),
            hosts: hosts.get(realm).copied().unwrap_or_default(),
            ready: self.answering.contains_key(realm),
        };
        self.realms.iter().map(status).collect()
    }
}

impl Hub {
    /// Tells the data plane where everybody's hosts are.
    pub fn tell_namespaces(&mut self) {
        let namespaces = self.tenants.namespaces(peers(&self.plan));
        self.plane.enclose(namespaces);
    }

    /// Looks after the tenants' namespaces.
    pub fn tend_tenants(&mut self) {
        let wish = self.plan.tunnel.as_ref();
        let addresses = |wish: &Wish| wish.addresses.iter().map(ipnet::IpNet::addr).collect();
        let addresses: Vec<IpAddr> = wish.map(addresses).unwrap_or_default();
        let open = self.keeper.device().is_some();
        self.tenants
            .tend(&addresses, open.then(|| self.keeper.openings()));
    }
}

/// The peers of a plan.
pub(crate) fn peers(plan: &Plan) -> &[PeerSpec] {
    plan.tunnel.as_ref().map_or(&[], |wish| &wish.peers)
}

/// Whether a tenant of that name can have a namespace: the names of Kubernetes' objects can (RFC 1123
/// section 2.1).
pub(crate) fn names_a_file(tenant: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: u8| plain(byte) || byte == b'-' || byte == b'.';
    tenant.bytes().next().is_some_and(plain) && tenant.len() <= 253 && tenant.bytes().all(inner)
}

/// The path of a realm, as the one of a plan.
pub(crate) fn path_of(plan: &Plan, realm: Option<Realm>) -> Option<&Path> {
    let wish = plan.tunnel.as_ref()?;
    wish.realms.get(&realm?).map(PathBuf::as_path)
}

#[cfg(test)]
mod tests {
    use kedge_control::agent::{PeerConfig, TunnelConfig};

    use super::*;

    fn wished(tenants: &[&str]) -> Wished {
        let peers = tenants.iter().map(|tenant| PeerConfig {
            name: format!("{tenant}/a"),
            public_key: String::new(),
            next_public_key: None,
            endpoint: None,
            other_endpoint: None,
            tls_endpoint: None,
            allowed_ips: Vec::new(),
            keepalive_seconds: 0,
            tenant: (*tenant).to_owned(),
        });
        let tunnel = TunnelConfig {
            peers: peers.collect(),
            ..TunnelConfig::default()
        };
        Wished {
            tunnel: Some(tunnel),
            ..Wished::default()
        }
    }

    #[test]
    fn each_tenant_keeps_its_realm_and_nobody_gets_that_of_one_who_left() {
        let mut tenants = Tenants::new(&Root::new("/nowhere"));
        let mut allot = |names: &[&str]| -> Vec<(String, u16)> {
            let realms = tenants.allot(Isolation::Namespace, &wished(names));
            let realms = realms.realms.iter();
            realms
                .map(|(tenant, realm)| (tenant.clone(), realm.number()))
                .collect()
        };
        let named = |all: &[(&str, u16)]| -> Vec<(String, u16)> {
            let all = all.iter();
            all.map(|(tenant, number)| ((*tenant).to_owned(), *number))
                .collect()
        };
        assert_eq!(allot(&["a", "b"]), named(&[("a", 1), ("b", 2)]));
        assert_eq!(allot(&["b"]), named(&[("b", 2)]));
        assert_eq!(allot(&["b", "c"]), named(&[("b", 2), ("c", 3)]));
        assert_eq!(allot(&["a", "b", ""]), named(&[("a", 4), ("b", 2)]));
        let shared = tenants.allot(Isolation::Shared, &wished(&["a"]));
        assert_eq!(shared, Apart::default());
    }

    #[test]
    fn no_tenants_name_leads_out_of_the_directory() {
        for good in ["a", "shop", "shop.example", "0-9"] {
            assert!(names_a_file(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "-a",
            "a/b",
            "../a",
            "A",
            "a b",
            "a\0",
            &"a".repeat(254),
        ] {
            assert!(!names_a_file(bad), "{bad:?}");
        }
    }
}
