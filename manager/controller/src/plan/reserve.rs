//! Reserves one host whose address becomes the endpoint.

use std::net::IpAddr;

use kedge_crd::{
    EdgeHost,
    balancer::ReservedHost,
    elemental::{self, HOST_KIND},
    host::AddressKind,
};

use super::{
    balancer::Balancer,
    because::Because,
    elemental::fits,
    endpoint::targets_edge_hosts,
    follow::follows,
    ledger::Ledger,
    selected::selects,
    usable::{Refusal, refusal},
};
use crate::{snapshot::Snapshot, store::Name};

/// The address of the reserved host; reserves the first fitting one by name where none is. The
/// choice is written into the LoadBalancer's spec, which is stored before the endpoint is filled:
/// a crash between the two leaves one choice.
///
/// # Errors
///
/// No host fits, or the reserved one reports no such address, or only such as nobody reaches.
pub fn host(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    balancer: &mut Balancer,
) -> Result<(String, Because), Because> {
    let mut wanted = balancer.spec.host_address.clone().unwrap_or_default();
    let of = candidates_are(balancer);
    let namespace = balancer.name.namespace.clone();
    // A host that is gone, not one that is silent, is followed by another where that is wished.
    let left = |host: &String| {
        let name = Name::new(&namespace, host);
        let leaves = || machines_of(snapshot, balancer).any(|(of, leaves)| leaves && of == name);
        follows(balancer) && (!snapshot.hosts.contains_key(&name) || leaves())
    };
    let asked = balancer.given.host_address.as_ref();
    let asked = asked.and_then(|asked| asked.host.clone());
    let stays = wanted
        .host
        .clone()
        .filter(|host| !left(host) || asked.is_some());
    let next = || first_fitting(snapshot, ledger, balancer, &wanted, &of);
    let chosen = match (stays, &wanted.host) {
        (Some(host), _) => Name::new(&namespace, host),
        // Nobody to follow: the last choice stands.
        (None, Some(host)) => next().unwrap_or_else(|_| Name::new(&namespace, host)),
        (None, None) => next()?,
    };
    ledger.reserve(&chosen, &balancer.name);
    wanted.host = Some(chosen.name.clone());
    balancer.spec.host_address = Some(wanted.clone());
    let reported = snapshot.hosts.get(&chosen);
    let reported = reported.map_or(Err(Unfit::Missing), |host| address(host, &wanted));
    let address = reported.map_err(|unfit| {
        let host = chosen.name.clone();
        match unfit {
            Unfit::Missing => Because::HostHasNoAddress { host },
            Unfit::Refused(address, why) => Because::HostAddressRefused { host, address, why },
        }
    })?;
    let because = Because::Reserved {
        host: chosen.name,
        address: address.clone(),
        of,
    };
    Ok((address, because))
}

/// The first host by name with an address that will do.
fn first_fitting(
    snapshot: &Snapshot,
    ledger: &Ledger,
    balancer: &Balancer,
    wanted: &ReservedHost,
    of: &str,
) -> Result<Name, Because> {
    let mut refused = None;
    let mut free = candidates(snapshot, balancer)
        .filter(|(name, _)| !ledger.is_reserved(name, &balancer.name) && snapshot.is_alive(name));
    let fitting = free.find(|(name, host)| match address(host, wanted) {
        Ok(_) => true,
        Err(Unfit::Missing) => false,
        Err(Unfit::Refused(address, why)) => {
            refused.get_or_insert_with(|| Because::HostAddressRefused {
                host: name.name.clone(),
                address,
                why,
            });
            false
        }
    });
    let none = || {
        let wanted = of.to_owned();
        refused.unwrap_or(Because::NoHost { wanted })
    };
    fitting.map(|(name, _)| name.clone()).ok_or_else(none)
}

/// Why no address of a host will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It reports none of the wanted type and interface.
    Missing,
    /// It reports only such as nobody else reaches; the best of them.
    Refused(IpAddr, Refusal),
}

/// The address of a host that fits best: one that others reach, by type in the wanted order, the
/// primary one first, IPv4 before IPv6.
///
/// # Errors
///
/// No address will do.
pub fn address(host: &EdgeHost, wanted: &ReservedHost) -> Result<String, Unfit> {
    let by_default = [AddressKind::InternalIP, AddressKind::ExternalIP];
    let types = if wanted.types.is_empty() {
        by_default.as_slice()
    } else {
        &wanted.types
    };
    let fitting = host.status.addresses.iter().filter_map(|reported| {
        let rank = types.iter().position(|kind| *kind == reported.kind)?;
        let on_wanted = wanted.interface.is_none() || wanted.interface == reported.interface;
        let parsed: IpAddr = reported.address.parse().ok()?;
        let why = refusal(parsed);
        let order = (why.is_some(), rank, !reported.primary, parsed.is_ipv6());
        on_wanted.then_some((order, parsed, why))
    });
    match fitting.min_by_key(|(order, ..)| *order) {
        Some((_, address, None)) => Ok(address.to_string()),
        Some((_, address, Some(why))) => Err(Unfit::Refused(address, why)),
        None => Err(Unfit::Missing),
    }
}

/// The hosts that may be reserved, by name: those the selector names, or those Elemental itself
/// would take for the first machine.
fn candidates<'a>(
    snapshot: &'a Snapshot,
    balancer: &'a Balancer,
) -> impl Iterator<Item = (&'a Name, &'a EdgeHost)> {
    let spec = &balancer.spec;
    let direct = targets_edge_hosts(spec);
    let hosts = snapshot.hosts.iter().map(|(name, host)| (name, &**host));
    hosts.filter(move |(name, host)| {
        let here = name.namespace == balancer.name.namespace;
        let served = host.spec.identity.is_some() && host.spec.is_active();
        let fits = || match (&spec.selector, direct) {
            (Some(selector), true) => selects(selector, name, host),
            (None, true) => true,
            (_, false) => {
                let survives = |(of, leaves): (Name, bool)| !leaves && of == **name;
                free_elemental(snapshot, balancer, name, host)
                    || (follows(balancer) && machines_of(snapshot, balancer).any(survives))
            }
        };
        here && served && fits()
    })
}

/// The hosts of the cluster's machines, and whether their Machine is being deleted.
fn machines_of<'a>(
    snapshot: &'a Snapshot,
    balancer: &'a Balancer,
) -> impl Iterator<Item = (Name, bool)> + 'a {
    let namespace = &balancer.name.namespace;
    let of_cluster = snapshot.machines.iter().filter(move |(name, machine)| {
        name.namespace == *namespace && machine.spec.cluster_name == balancer.spec.cluster_name
    });
    of_cluster.filter_map(move |(_, machine)| {
        let infra = &machine.spec.infrastructure_ref.as_ref()?.name;
        let infra = snapshot
            .elemental_machines
            .get(&Name::new(namespace, infra))?;
        let record = &infra.spec.host_ref.as_ref()?.name;
        let (host, _) = snapshot.hosts.iter().find(|(name, host)| {
            let reference = host.spec.host_ref.as_ref();
            name.namespace == *namespace && reference.is_some_and(|of| of.name == *record)
        })?;
        Some((host.clone(), machine.metadata.deletion_timestamp.is_some()))
    })
}

fn free_elemental(snapshot: &Snapshot, balancer: &Balancer, name: &Name, host: &EdgeHost) -> bool {
    let cluster = Name::new(&name.namespace, &balancer.spec.cluster_name);
    let reference = host.spec.host_ref.as_ref();
    reference.is_some_and(|reference| {
        let record = Name::new(&name.namespace, &reference.name);
        reference.api_group == elemental::GROUP
            && reference.kind == HOST_KIND
            && snapshot.elemental_hosts.get(&record).is_some_and(|record| {
                elemental::is_free(&record.metadata) && fits(snapshot, &cluster, record)
            })
    })
}

fn candidates_are(balancer: &Balancer) -> String {
    let selector = balancer.spec.selector.as_ref().map(ToString::to_string);
    match (targets_edge_hosts(&balancer.spec), selector) {
        (true, Some(selector)) => format!("the EdgeHosts with {selector}"),
        (true, None) => "the EdgeHosts of the namespace".to_owned(),
        (false, _) => "the free ElementalHosts".to_owned(),
    }
}
