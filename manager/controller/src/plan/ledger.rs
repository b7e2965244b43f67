//! Who has which address, virtual router id and port: so that nothing is given twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    num::NonZeroU16,
};

use kedge_core::vip::Vrid;
use kedge_crd::{
    LoadBalancerSpec,
    balancer::Mode,
    gateway::{DEFAULT_PORTS, PortRange},
};

use super::{balancer::Case, because::Because};
use crate::{
    ipam::{Pool, choose_vrid},
    snapshot::Snapshot,
    store::Name,
};

/// What is given to whom. Addresses and virtual router ids are the matter of one namespace: two
/// sites may use the same private addresses.
#[derive(Debug, Default)]
pub struct Ledger {
    pools: BTreeMap<Name, Result<Pool, String>>,
    vips: BTreeMap<(String, IpAddr), Name>,
    vrids: BTreeMap<Name, (String, Vrid)>,
    ports: BTreeMap<Name, BTreeMap<NonZeroU16, (Name, String)>>,
    reserved: BTreeMap<Name, Name>,
}

impl Ledger {
    /// A ledger of everything that was given earlier.
    #[must_use]
    pub fn new(snapshot: &Snapshot, cases: &[Case]) -> Self {
        let pools = snapshot.pools.iter().map(|(name, pool)| {
            let read = Pool::parse(&pool.spec).map_err(|error| error.to_string());
            (name.clone(), read)
        });
        let mut ledger = Self {
            pools: pools.collect(),
            ..Self::default()
        };
        // First what was decided, then what users ask for: a new wish does not take what another
        // already has.
        for pick in [kept, given] {
            for (name, spec) in cases.iter().filter_map(pick) {
                ledger.enter(snapshot, name, spec);
            }
        }
        ledger
    }

    fn enter(&mut self, snapshot: &Snapshot, name: &Name, spec: &LoadBalancerSpec) {
        if let Some(vip) = &spec.vip {
            if let Some(address) = vip.address {
                let _: Result<(), Because> = self.claim_address(name, address);
            }
            if let Some(vrid) = vip.vrid {
                let lan = lan(spec);
                self.vrids.entry(name.clone()).or_insert((lan, vrid));
            }
        }
        if let Some(gateway) = gateway_of(snapshot, name, spec) {
            for (port_name, port) in &spec.listeners {
                let ports = self.ports.entry(gateway.clone()).or_default();
                ports
                    .entry(*port)
                    .or_insert_with(|| (name.clone(), port_name.clone()));
            }
        }
        let host = spec
            .host_address
            .as_ref()
            .and_then(|reserved| reserved.host.as_ref());
        if let (Some(Mode::HostAddress), Some(host)) = (spec.mode, host) {
            self.reserve(&Name::new(&name.namespace, host), name);
        }
    }

    /// The pool of that name.
    #[must_use]
    pub fn pool(&self, name: &Name) -> Option<&Result<Pool, String>> {
        self.pools.get(name)
    }

    /// Gives the LoadBalancer this address.
    ///
    /// # Errors
    ///
    /// Another has it.
    pub fn claim_address(&mut self, name: &Name, address: IpAddr) -> Result<(), Because> {
        let key = (name.namespace.clone(), address);
        let holder = self.vips.entry(key).or_insert_with(|| name.clone());
        if holder == name {
            Ok(())
        } else {
            let by = holder.clone();
            Err(Because::AddressTaken { address, by })
        }
    }

    /// Gives the LoadBalancer the pool's lowest free address.
    pub fn next_address(&mut self, name: &Name, pool: &Pool) -> Option<IpAddr> {
        let taken = |address| self.vips.contains_key(&(name.namespace.clone(), address));
        let address = pool.lowest_free(taken)?;
        self.vips
            .insert((name.namespace.clone(), address), name.clone());
        Some(address)
    }

    /// The addresses given away in a namespace.
    pub fn addresses<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = IpAddr> + 'a {
        let here = self
            .vips
            .keys()
            .filter(move |(place, _)| place == namespace);
        here.map(|(_, address)| *address)
    }

    /// How many addresses were taken from the pool that it does not hold any more.
    #[must_use]
    pub fn out_of_range(&self, name: &Name, pool: &Pool) -> u64 {
        let taken = self.vips.iter().filter(|((_, address), holder)| {
            let lan = self.vrids.get(*holder).map(|(lan, _)| lan);
            holder.namespace == name.namespace
                && lan == Some(&name.name)
                && !pool.contains(*address)
        });
        taken.count() as u64
    }

    /// Gives the LoadBalancer a virtual router id that no other uses in its namespace or, when
    /// those are used up, on its LAN.
    pub fn next_vrid(
        &mut self,
        name: &Name,
        spec: &LoadBalancerSpec,
        address: IpAddr,
    ) -> Option<Vrid> {
        let lan = lan(spec);
        let pool = Name::new(&name.namespace, &lan);
        let range = match self.pools.get(&pool) {
            Some(Ok(pool)) => pool.vrids,
            _ => None,
        };
        let in_namespace = self
            .vrids
            .iter()
            .filter(|(other, _)| other.namespace == name.namespace);
        let all: BTreeSet<Vrid> = in_namespace.clone().map(|(_, (_, vrid))| *vrid).collect();
        let on_lan: BTreeSet<Vrid> = in_namespace
            .filter(|(_, (place, _))| *place == lan)
            .map(|(_, (_, vrid))| *vrid)
            .collect();
        let vrid =
            choose_vrid(address, range, &all).or_else(|| choose_vrid(address, range, &on_lan))?;
        self.vrids.insert(name.clone(), (lan, vrid));
        Some(vrid)
    }

    /// The other LoadBalancer on the same LAN with the same virtual router id.
    #[must_use]
    pub fn vrid_clash(&self, name: &Name) -> Option<&Name> {
        let mine = self.vrids.get(name)?;
        self.vrids
            .iter()
            .find(|(other, theirs)| {
                *other != name && other.namespace == name.namespace && *theirs == mine
            })
            .map(|(other, _)| other)
    }

    /// Gives the LoadBalancer's port a port of the gateway: the wish if it is free, else the
    /// lowest free one.
    ///
    /// # Errors
    ///
    /// Every port of the range is taken.
    pub fn claim_port(
        &mut self,
        (gateway, range): (&Name, Option<PortRange>),
        (name, port_name): (&Name, &str),
        wish: Option<NonZeroU16>,
    ) -> Result<NonZeroU16, Because> {
        let range = range.unwrap_or(DEFAULT_PORTS);
        let owner = (name.clone(), port_name.to_owned());
        let ports = self.ports.entry(gateway.clone()).or_default();
        if let Some((port, _)) = ports.iter().find(|(_, other)| **other == owner) {
            return Ok(*port);
        }
        let wished = wish.filter(|port| !ports.contains_key(port));
        let mut range_ports = (range.from.get()..=range.to.get()).filter_map(NonZeroU16::new);
        let free = || range_ports.find(|port| !ports.contains_key(port));
        let port = wished
            .or_else(free)
            .ok_or_else(|| Because::PortsExhausted {
                gateway: gateway.clone(),
                from: range.from.get(),
                to: range.to.get(),
            })?;
        ports.insert(port, owner);
        Ok(port)
    }

    /// Records a host as reserved.
    pub fn reserve(&mut self, host: &Name, by: &Name) {
        self.reserved
            .entry(host.clone())
            .or_insert_with(|| by.clone());
    }

    /// Whether another LoadBalancer reserved the host.
    #[must_use]
    pub fn is_reserved(&self, host: &Name, not_by: &Name) -> bool {
        self.reserved.get(host).is_some_and(|by| by != not_by)
    }
}

/// The gateway a LoadBalancer uses: its own, else its tenant's.
#[must_use]
pub fn gateway_of(snapshot: &Snapshot, name: &Name, spec: &LoadBalancerSpec) -> Option<Name> {
    let of_tenant = || {
        snapshot
            .tenant_of(&name.namespace)?
            .spec
            .gateway_ref
            .as_ref()
    };
    let reference = spec.gateway_ref.as_ref().or_else(of_tenant)?;
    Some(Name::new(reference.namespace(), &reference.name))
}

/// The LAN of a VIP: its pool; VIPs without a pool share one.
fn lan(spec: &LoadBalancerSpec) -> String {
    let pool = spec.vip.as_ref().and_then(|vip| vip.pool_ref.as_ref());
    pool.map(|pool| pool.name.clone()).unwrap_or_default()
}

fn kept(case: &Case) -> Option<(&Name, &LoadBalancerSpec)> {
    let balancer = case.asked.as_ref().ok()?;
    let decided = !balancer.kept.cluster_name.is_empty();
    decided.then_some((&balancer.name, &balancer.spec))
}

fn given(case: &Case) -> Option<(&Name, &LoadBalancerSpec)> {
    let balancer = case.asked.as_ref().ok()?;
    Some((&balancer.name, &balancer.given))
}
