//! Overlay addresses: one per prefix of the gateway for every instance and host, lowest free
//! first, kept for good.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use kedge_crd::EdgeHost;

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
                instance.addresses = taken.next_of_each(&prefixes);
            }
        }
    }
    let wanting: Vec<(Name, Vec<IpNet>)> = snapshot
        .hosts
        .iter()
        .filter(|(_, host)| host.spec.identity.is_some() && host.spec.tunnel.addresses.is_empty())
        .filter_map(|(name, host)| {
            let gateway = snapshot.gateway(&gateway_of(snapshot, name, host)?)?;
            Some((name.clone(), gateway.spec.tunnel.overlay()))
        })
        .collect();
    for (name, prefixes) in wanting {
        if let Some(host) = snapshot.hosts.get_mut(&name) {
            Arc::make_mut(host).spec.tunnel.addresses = taken.next_of_each(&prefixes);
        }
    }
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
    addresses: BTreeSet<IpAddr>,
    next: BTreeMap<IpNet, u128>,
}

impl Taken {
    fn of(snapshot: &Snapshot) -> Self {
        let hosts = snapshot
            .hosts
            .values()
            .flat_map(|host| &host.spec.tunnel.addresses);
        let instances = snapshot
            .gateways
            .values()
            .flat_map(|gateway| &gateway.spec.instances);
        let instances = instances.flat_map(|instance| &instance.addresses);
        Self {
            commons: Arc::clone(&snapshot.commons),
            space: snapshot.space.clone(),
            addresses: hosts.chain(instances).map(IpNet::addr).collect(),
            next: BTreeMap::new(),
        }
    }

    fn next_of_each(&mut self, prefixes: &[IpNet]) -> Vec<IpNet> {
        let next = prefixes.iter().filter_map(|prefix| self.next(*prefix));
        next.map(IpNet::from).collect()
    }

    fn next(&mut self, prefix: IpNet) -> Option<IpAddr> {
        let prefix = prefix.trunc();
        // The first address of a prefix belongs to its routers (RFC 4291 2.6.1) or is the network.
        let mut number = self.next.get(&prefix).copied().unwrap_or(1);
        loop {
            let address = nth(prefix, number)?;
            number += 1;
            if !self.commons.has_address(address, &self.space) && self.addresses.insert(address) {
                self.next.insert(prefix, number);
                return Some(address);
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

    #[test]
    fn the_lowest_free_address_of_each_prefix_is_given_once() {
        let mut taken = Taken {
            commons: Arc::default(),
            space: String::new(),
            addresses: BTreeSet::from(["fd00::2".parse().unwrap(), "10.0.0.1".parse().unwrap()]),
            next: BTreeMap::new(),
        };
        let prefixes = ["fd00::/64".parse().unwrap(), "10.0.0.0/30".parse().unwrap()];
        let mut next = || {
            let addresses = taken.next_of_each(&prefixes);
            addresses
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(next(), ["fd00::1/128", "10.0.0.2/32"]);
        assert_eq!(next(), ["fd00::3/128"], "10.0.0.3 is the broadcast address");
    }
}
