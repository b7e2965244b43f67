//! Who has which address, virtual router id and port: so that nothing is given twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use jiff::Timestamp;
use kedge_core::vip::Vrid;
use kedge_crd::{
    LoadBalancerSpec,
    balancer::{Mode, PoolRef},
};

use super::{
    balancer::{Balancer, Case},
    because::Because,
    claims::is_foreign,
    given::{Claim, Facts},
    holder::Holder,
    http,
    ports::{Owner, Ports, Seat},
    tcp,
    vip::allowed,
};
use crate::{
    ipam::{Pool, choose_vrid},
    snapshot::Snapshot,
    store::Name,
};

/// An address that is given.
#[derive(Clone, Debug)]
struct Held {
    holder: Holder,
    /// The pool of ours it is from.
    pool: Option<String>,
}

/// What is given to whom. Addresses and virtual router ids are the matter of one namespace: two
/// sites may use the same private addresses.
#[derive(Debug, Default)]
pub struct Ledger {
    pools: BTreeMap<Name, Result<Pool, String>>,
    vips: BTreeMap<(String, IpAddr), Held>,
    vrids: BTreeMap<Name, (String, Vrid)>,
    reserved: BTreeMap<Name, Name>,
    /// Ports of gateways.
    pub ports: Ports,
    /// Claims, and the addresses that stand for them.
    pub facts: Facts,
}

impl Ledger {
    /// A ledger of everything that was given earlier.
    #[must_use]
    pub fn new(
        snapshot: &Snapshot,
        cases: &[Case],
        (found, http): (&[tcp::Found], &[http::Found]),
    ) -> Self {
        let pools = snapshot.pools.iter().map(|(name, pool)| {
            let read = Pool::parse(&pool.spec).map_err(|error| error.to_string());
            (name.clone(), read)
        });
        let mut ledger = Self {
            pools: pools.collect(),
            facts: Facts::read(snapshot),
            ..Self::default()
        };
        // First what was decided and given, then what users ask for, then who waits: a new wish
        // does not take what another already has.
        for balancer in cases.iter().filter_map(decided) {
            let gateway = gateway_of(snapshot, &balancer.name, &balancer.spec);
            // A port was decided for one gateway: at another one it is a wish.
            let last = gateway_of(snapshot, &balancer.name, &balancer.kept);
            let gateway = gateway.filter(|gateway| last.as_ref() == Some(gateway));
            ledger.enter(&balancer.name, &balancer.spec, gateway);
        }
        ledger.enter_given(&snapshot.now);
        tcp::enter(snapshot, found, &mut ledger);
        http::enter(snapshot, http, &mut ledger);
        ledger.enter_others(snapshot);
        ledger.enter_http(snapshot);
        for balancer in cases.iter().filter_map(|case| case.asked.as_ref().ok()) {
            let gateway = gateway_of(snapshot, &balancer.name, &balancer.given);
            ledger.enter(&balancer.name, &balancer.given, gateway);
        }
        ledger.enter_hosts(snapshot);
        ledger.serve_waiting(snapshot, cases);
        ledger
    }

    /// What was decided here earlier goes before what other namespaces have, and that before a wish.
    fn enter_others(&mut self, snapshot: &Snapshot) {
        for gateway in snapshot.gateways.keys().chain(snapshot.faces.keys()) {
            let taken = snapshot.commons.ports(gateway, &snapshot.space);
            for port in taken {
                self.ports.enter_other(gateway, port);
            }
        }
    }

    /// The ports that HTTPLoadBalancers share are nobody's wish. Who has one of them already keeps it.
    fn enter_http(&mut self, snapshot: &Snapshot) {
        let faces = snapshot.faces.iter();
        let faces = faces.map(|(name, face)| (name, &face.gateway));
        for (name, gateway) in snapshot.gateways.iter().chain(faces) {
            let shared = gateway.spec.http.iter();
            for port in shared.flat_map(|http| [http.http_port(), http.https_port()]) {
                let owner = Owner::http(name);
                self.ports.enter(name, Seat::own_tcp(port), owner);
            }
        }
    }

    /// A pool may end where addresses of hosts begin, or be wrong about it: what a host has is no VIP for
    /// anybody. After what is asked for by name, since a host that is to give up a VIP of other software
    /// still reports it.
    fn enter_hosts(&mut self, snapshot: &Snapshot) {
        for (name, host) in &snapshot.hosts {
            let reported = host.status.addresses.iter();
            for address in reported.filter_map(|reported| reported.address.parse().ok()) {
                let key = (name.namespace.clone(), address);
                self.vips.entry(key).or_insert_with(|| Held {
                    holder: Holder::Host(name.clone()),
                    pool: None,
                });
            }
        }
    }

    fn enter_given(&mut self, now: &str) {
        for given in self.facts.addresses.values() {
            let claim = self.facts.claims.get(&given.claim);
            let held = Held {
                holder: holder(claim, &given.claim),
                pool: Some(given.pool.name.clone()),
            };
            let key = (given.name.namespace.clone(), given.address);
            self.vips.entry(key).or_insert(held);
        }
        // An address that was taken away under its claim is still that claim's.
        for claim in self.facts.claims.values() {
            let pool = self.pools.get(&claim.pool);
            let holds = |address: &IpAddr| {
                let pool = pool.and_then(|pool| pool.as_ref().ok());
                claim.is_our_record || pool.is_some_and(|pool| pool.contains(*address))
            };
            let rests = claim.leaving.is_none() || self.rests_until(claim, now).is_some();
            let lost = claim.recorded.filter(holds).filter(|_| rests);
            let Some(address) = lost.filter(|_| self.facts.of_claim(claim).is_none()) else {
                continue;
            };
            let held = Held {
                holder: holder(Some(claim), &claim.name),
                pool: Some(claim.pool.name.clone()),
            };
            let key = (claim.name.namespace.clone(), address);
            self.vips.entry(key).or_insert(held);
        }
    }

    /// What a claim that goes was to have, or had, counts no longer. An address that stands, of
    /// another claim of the same LoadBalancer, is in use.
    pub fn give_back(&mut self, claim: &Claim) {
        let by = holder(Some(claim), &claim.name);
        let (space, pool) = (&claim.pool.namespace, &claim.pool.name);
        let given = self.facts.addresses.values();
        let stand: BTreeSet<IpAddr> = given
            .filter(|given| given.name.namespace == *space)
            .map(|given| given.address)
            .collect();
        self.vips.retain(|(place, address), held| {
            let is_its = held.holder == by && held.pool.as_ref() == Some(pool);
            place != space || !is_its || stand.contains(address)
        });
    }

    /// When the address of a claim that goes has rested for long enough, if that is still to come.
    #[must_use]
    pub fn rests_until(&self, claim: &Claim, now: &str) -> Option<Timestamp> {
        let pool = self.pools.get(&claim.pool)?.as_ref().ok()?;
        let now: Timestamp = now.parse().ok()?;
        let since = claim.leaving.as_ref()?.parse().unwrap_or(now);
        since.checked_add(pool.grace).ok().filter(|due| *due > now)
    }

    /// Gives addresses to the claims that have none, who waits longest first.
    fn serve_waiting(&mut self, snapshot: &Snapshot, cases: &[Case]) {
        let served = |claim: &&Claim| self.facts.of_claim(claim).is_none();
        let mut waiting: Vec<Claim> = self
            .facts
            .claims
            .values()
            .filter(|claim| !claim.rests() && claim.leaving.is_none())
            .filter(served)
            .cloned()
            .collect();
        waiting.sort_by(|a, b| (&a.created, &a.name).cmp(&(&b.created, &b.name)));
        for claim in waiting {
            let is_going = snapshot
                .pools
                .get(&claim.pool)
                .is_none_or(|pool| pool.metadata.deletion_timestamp.is_some());
            let holder = holder(Some(&claim), &claim.name);
            let is_asked = match &holder {
                Holder::Balancer(name) => asks(snapshot, cases, name, &claim.pool),
                Holder::Claim(_) => true,
                Holder::Host(_) | Holder::Tcp(_) | Holder::Http(_) => false,
            };
            if is_going || !is_asked || self.address_of(&holder, &claim.pool).is_some() {
                continue;
            }
            let Some(Ok(pool)) = self.pools.get(&claim.pool).cloned() else {
                continue;
            };
            self.next_address(&holder, &claim.pool, &pool);
        }
    }

    /// The address of a pool that is held already.
    #[must_use]
    pub fn address_of(&self, holder: &Holder, pool: &Name) -> Option<IpAddr> {
        let here = self.vips.iter().filter(|((place, _), held)| {
            *place == pool.namespace
                && held.holder == *holder
                && held.pool.as_ref() == Some(&pool.name)
        });
        here.map(|((_, address), _)| *address).next()
    }

    /// Who has an address.
    #[must_use]
    pub fn holder(&self, namespace: &str, address: IpAddr) -> Option<&Holder> {
        let held = self.vips.get(&(namespace.to_owned(), address))?;
        Some(&held.holder)
    }

    fn enter(&mut self, name: &Name, spec: &LoadBalancerSpec, gateway: Option<Name>) {
        if let Some(vip) = &spec.vip {
            let second = vip.second.as_ref();
            let addresses = [
                (vip.address, vip.pool_ref.as_ref()),
                (
                    second.and_then(|second| second.address),
                    second.and_then(|second| second.pool_ref.as_ref()),
                ),
            ];
            for (address, pool) in addresses {
                if let Some(address) = address {
                    let _: Result<(), Because> = self.claim_address(name, address, pool);
                }
            }
            if let Some(vrid) = vip.vrid {
                let lan = lan(spec);
                self.vrids.entry(name.clone()).or_insert((lan, vrid));
            }
        }
        if let Some(gateway) = gateway {
            for (port_name, port) in &spec.listeners {
                let owner = Owner::balancer(name, port_name);
                self.ports.enter(&gateway, Seat::own_tcp(*port), owner);
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
    pub fn claim_address(
        &mut self,
        name: &Name,
        address: IpAddr,
        pool: Option<&PoolRef>,
    ) -> Result<(), Because> {
        let key = (name.namespace.clone(), address);
        let pool = pool.filter(|pool| !is_foreign(pool));
        let pool = pool.map(|pool| pool.name.clone());
        self.claim(key, &Holder::Balancer(name.clone()), pool)
    }

    /// Takes an address of a namespace, which may be from a pool, for somebody.
    ///
    /// # Errors
    ///
    /// Somebody else has it.
    pub fn claim(
        &mut self,
        key: (String, IpAddr),
        holder: &Holder,
        pool: Option<String>,
    ) -> Result<(), Because> {
        let address = key.1;
        let held = self.vips.entry(key).or_insert_with(|| Held {
            holder: holder.clone(),
            pool,
        });
        if held.holder == *holder {
            Ok(())
        } else {
            let by = held.holder.to_string();
            Err(Because::AddressTaken { address, by })
        }
    }

    /// Enters an address of a namespace that somebody was given earlier. Who was entered first keeps it.
    pub fn enter_address(
        &mut self,
        address: (String, IpAddr),
        holder: Holder,
        pool: Option<String>,
    ) {
        self.vips.entry(address).or_insert(Held { holder, pool });
    }

    /// Gives the pool's lowest free address away.
    pub fn next_address(&mut self, holder: &Holder, name: &Name, pool: &Pool) -> Option<IpAddr> {
        let key = |address| (name.namespace.clone(), address);
        let address = pool.lowest_free(|address| self.vips.contains_key(&key(address)))?;
        let held = Held {
            holder: holder.clone(),
            pool: Some(name.name.clone()),
        };
        self.vips.insert(key(address), held);
        Some(address)
    }

    /// How many of a pool's addresses are given away, whoever gave them.
    #[must_use]
    pub fn used(&self, name: &Name, pool: &Pool) -> u64 {
        let used = self
            .vips
            .keys()
            .filter(|(place, address)| *place == name.namespace && pool.contains(*address));
        used.count() as u64
    }

    /// The addresses that were taken from a pool.
    pub fn taken_from<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = IpAddr> + 'a {
        let taken = self.vips.iter().filter(|((place, _), held)| {
            *place == name.namespace && held.pool.as_ref() == Some(&name.name)
        });
        taken.map(|((_, address), _)| *address)
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

/// Who has the address of a claim: its LoadBalancer has it too, and is named.
#[must_use]
pub fn holder(claim: Option<&Claim>, name: &Name) -> Holder {
    let balancer = claim.and_then(|claim| claim.balancer.clone());
    balancer.map_or_else(|| Holder::Claim(name.clone()), Holder::Balancer)
}

/// Whether a LoadBalancer waits for an address of the pool.
fn asks(snapshot: &Snapshot, cases: &[Case], name: &Name, pool: &Name) -> bool {
    let asked = cases
        .iter()
        .filter_map(|case| Some((case, case.asked.as_ref().ok()?)));
    let mut asked = asked.filter(|(_, balancer)| balancer.name == *name);
    asked.any(|(case, balancer)| {
        let names = |named: Option<&PoolRef>| {
            named.is_some_and(|named| !is_foreign(named) && named.name == pool.name)
        };
        let vip = balancer.spec.vip.as_ref();
        let waits = vip.is_some_and(|vip| {
            let second = vip.second.as_ref();
            let second = second.filter(|second| second.address.is_none());
            let waits = vip.address.is_none() && !is_told(case, balancer);
            (waits && names(vip.pool_ref.as_ref()))
                || second.is_some_and(|second| names(second.pool_ref.as_ref()))
        });
        waits
            && balancer.spec.mode == Some(Mode::Vip)
            && allowed(snapshot, name, &pool.name).is_ok()
    })
}

/// Whether the endpoint says which address a VIP has, although no record does.
fn is_told(case: &Case, balancer: &Balancer) -> bool {
    let infra = case.infra.as_ref().filter(|_| balancer.beside.is_none());
    let written = infra.map(|infra| &infra.written);
    let users = written.into_iter().chain(&balancer.given.endpoint);
    let users = users.filter(|endpoint| endpoint.is_valid());
    let mut all = users.chain(&balancer.kept.endpoint);
    all.any(|endpoint| endpoint.host.parse::<IpAddr>().is_ok())
}

/// A LoadBalancer of which something was decided earlier.
fn decided(case: &Case) -> Option<&Balancer> {
    let balancer = case.asked.as_ref().ok()?;
    (!balancer.kept.cluster_name.is_empty()).then_some(balancer)
}
