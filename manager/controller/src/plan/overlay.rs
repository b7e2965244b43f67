//! Overlay addresses: one per prefix of the gateway for every instance and host, lowest free
//! first, kept for good.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use kedge_crd::{EdgeHost, gateway::Addressing};

use super::share::Commons;
use crate::{snapshot::Snapshot, store::Name};

/// Gives an address to every gateway instance and enrolled host that has none.
pub fn assign(snapshot: &mut Snapshot) {
    let mut taken = Taken::of(snapshot);
    for gateway in snapshot.gateways.values_mut() {
        let prefixes = gateway.spec.tunnel.overlay();
        let enrolled = gateway.spec.instances.iter_mut();
        for instance in enrolled.filter(|instance| !instance.identity.uid.is_empty()) {
            if instance.addresses.is_empty() {
                instance.addresses = taken.next_of_each(&prefixes, None, Addressing::Unique);
            }
        }
    }
    let wanting: Vec<(Name, Vec<IpNet>, Addressing)> = snapshot
        .hosts
        .iter()
        .filter(|(_, host)| host.spec.identity.is_some() && host.spec.tunnel.addresses.is_empty())
        .filter_map(|(name, host)| {
            let gateway = snapshot.gateway(&gateway_of(snapshot, name, host)?)?;
            let tunnel = &gateway.spec.tunnel;
            // Hosts of nobody are all together in the gateway's own network.
            let tenant = snapshot.tenant_of(&name.namespace);
            let addressing = tenant.and(tunnel.addressing).unwrap_or_default();
            Some((name.clone(), tunnel.overlay(), addressing))
        })
        .collect();
    for (name, prefixes, addressing) in wanting {
        if let Some(host) = snapshot.hosts.get_mut(&name) {
            let of = Some(&*name.namespace);
            let addresses = taken.next_of_each(&prefixes, of, addressing);
            Arc::make_mut(host).spec.tunnel.addresses = addresses;
        }
    }
}

/// The addresses of gateways' instances.
pub fn instances(snapshot: &Snapshot) -> impl Iterator<Item = IpAddr> + use<'_> {
    let gateways = snapshot.gateways.values();
    let instances = gateways.flat_map(|gateway| &gateway.spec.instances);
    let addresses = instances.flat_map(|instance| &instance.addresses);
    addresses.map(IpNet::addr)
}

/// The gateway a host connects to: its own, else its tenant's.
#[must_use]
pub fn gateway_of(snapshot: &Snapshot, name: &Name, host: &EdgeHost) -> Option<Name> {
    let of_tenant = || {
        snapshot
            .tenant_of(&name.namespace)?
            .spec
            .gateway_ref
            .as_ref()
    };
    let reference = host.spec.tunnel.gateway_ref.as_ref().or_else(of_tenant)?;
    Some(Name::new(reference.namespace(), &reference.name))
}

/// The addresses given away, and from where to look for the next one.
struct Taken {
    commons: Arc<Commons>,
    space: String,
    instances: BTreeSet<IpAddr>,
    /// By namespace.
    hosts: BTreeMap<String, BTreeSet<IpAddr>>,
    next: BTreeMap<(IpNet, Option<String>), u128>,
}

impl Taken {
    fn of(snapshot: &Snapshot) -> Self {
        let mut hosts: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
        for (name, host) in &snapshot.hosts {
            let own = hosts.entry(name.namespace.clone()).or_default();
            own.extend(host.spec.tunnel.addresses.iter().map(IpNet::addr));
        }
        Self {
            commons: Arc::clone(&snapshot.commons),
            space: snapshot.space.clone(),
            instances: instances(snapshot).collect(),
            hosts,
            next: BTreeMap::new(),
        }
    }

    /// The next address of each prefix for a host of a namespace, or for an instance.
    fn next_of_each(
        &mut self,
        prefixes: &[IpNet],
        host_of: Option<&str>,
        addressing: Addressing,
    ) -> Vec<IpNet> {
        let next = prefixes.iter();
        let next = next.filter_map(|prefix| self.next(prefix.trunc(), host_of, addressing));
        next.map(IpNet::from).collect()
    }

    fn next(
        &mut self,
        prefix: IpNet,
        host_of: Option<&str>,
        addressing: Addressing,
    ) -> Option<IpAddr> {
        let among = host_of.filter(|_| addressing == Addressing::PerTenant);
        let counter = (prefix, among.map(str::to_owned));
        // The first address of a prefix belongs to its routers (RFC 4291 2.6.1) or is the network.
        let mut number = self.next.get(&counter).copied().unwrap_or(1);
        loop {
            let address = nth(prefix, number)?;
            number += 1;
            if self.is_taken(address, among) {
                continue;
            }
            match host_of {
                Some(space) => {
                    let own = self.hosts.entry(space.to_owned()).or_default();
                    own.insert(address)
                }
                None => self.instances.insert(address),
            };
            self.next.insert(counter, number);
            return Some(address);
        }
    }

    /// Whether somebody has the address: of one namespace's hosts and all instances, or anybody.
    fn is_taken(&self, address: IpAddr, among: Option<&str>) -> bool {
        let has = |hosts: &BTreeSet<IpAddr>| hosts.contains(&address);
        self.instances.contains(&address)
            || match among {
                Some(space) => {
                    self.hosts.get(space).is_some_and(has)
                        || self.commons.has_instance(address, &self.space)
                }
                None => {
                    self.hosts.values().any(has) || self.commons.has_address(address, &self.space)
                }
            }
    }
}

fn nth(prefix: IpNet, number: u128) -> Option<IpAddr> {
    match prefix {
        IpNet::V4(net) => {
            let address = u32::from(net.network()).checked_add(u32::try_from(number).ok()?)?;
            let address = address.into();
            (net.contains(&address) && address != net.broadcast()).then_some(IpAddr::V4(address))
        }
        IpNet::V6(net) => {
            let address = u128::from(net.network()).checked_add(number)?.into();
            net.contains(&address).then_some(IpAddr::V6(address))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(instances: &[&str], hosts: &[(&str, &str)]) -> Taken {
        let mut own: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
        for (space, address) in hosts {
            let own = own.entry((*space).to_owned()).or_default();
            own.insert(address.parse().unwrap());
        }
        let instances = instances.iter().map(|address| address.parse().unwrap());
        Taken {
            commons: Arc::default(),
            space: String::new(),
            instances: instances.collect(),
            hosts: own,
            next: BTreeMap::new(),
        }
    }

    fn next(taken: &mut Taken, host_of: Option<&str>, addressing: Addressing) -> Vec<String> {
        let prefixes = ["fd00::/64".parse().unwrap(), "10.0.0.0/29".parse().unwrap()];
        let addresses = taken.next_of_each(&prefixes, host_of, addressing);
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_lowest_free_address_of_each_prefix_is_given_once() {
        let mut taken = taken(&["fd00::2"], &[("a", "10.0.0.1")]);
        let mut next = |of| next(&mut taken, of, Addressing::Unique);
        assert_eq!(next(None), ["fd00::1/128", "10.0.0.2/32"]);
        assert_eq!(next(Some("a")), ["fd00::3/128", "10.0.0.3/32"]);
        assert_eq!(next(Some("b")), ["fd00::4/128", "10.0.0.4/32"]);
        for last in [5, 6] {
            assert_eq!(next(Some("a"))[1], format!("10.0.0.{last}/32"));
        }
        let more = next(Some("a"));
        assert_eq!(more, ["fd00::7/128"], "10.0.0.7 is the broadcast address");
    }

    #[test]
    fn hosts_of_two_tenants_have_one_address_and_an_instance_has_its_own() {
        let mut taken = taken(&["fd00::1"], &[("a", "10.0.0.1"), ("c", "10.0.0.2")]);
        let mut next = |of, addressing| next(&mut taken, of, addressing);
        let among = Addressing::PerTenant;
        assert_eq!(next(Some("a"), among), ["fd00::2/128", "10.0.0.2/32"]);
        assert_eq!(next(Some("b"), among), ["fd00::2/128", "10.0.0.1/32"]);
        assert_eq!(next(Some("b"), among), ["fd00::3/128", "10.0.0.2/32"]);
        // What hosts have no instance has, and the other way round.
        let own = next(None, Addressing::Unique);
        assert_eq!(own, ["fd00::4/128", "10.0.0.3/32"]);
        assert_eq!(next(Some("b"), among), ["fd00::5/128", "10.0.0.4/32"]);
        let another = Some("elsewhere");
        let all = Addressing::Unique;
        assert_eq!(next(another, all), ["fd00::6/128", "10.0.0.5/32"]);
    }
}
