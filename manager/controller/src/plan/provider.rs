//! Our own provider of addresses: gives addresses of VIPPools to the claims of anybody.
//!
//! ```text
//! claim ─► finalizer, record ─► IPAddress, held ─► addressRef, Ready
//! claim deleted ─► grace ─► IPAddress let go and deleted ─► finalizer off
//! ```
//!
//! Who gets which address is decided in [`super::ledger`], by one plan after the other: what was
//! written is read before the next one decides. An address that is there is in use, whatever else
//! is said of it.

mod condition;

use std::net::IpAddr;

use kedge_crd::{
    Resource as _, VipPoolSpec,
    capi::CLUSTER_NAME_LABEL,
    ipam::{PROTECT_FINALIZER, RELEASE_FINALIZER},
};
use serde_json::{Map, Value, json};

use self::condition::Verdict;
use super::{
    Service,
    desired::Desired,
    given::{self, Claim, Given, address_key, claim_key},
    holder::Holder,
    ledger::{Ledger, holder},
    marks::{ADDRESS, ADDRESS_FINALIZER, POOL_FINALIZER},
    wake::Wake,
};
use crate::{
    ipam::Pool,
    managers,
    snapshot::{Snapshot, key},
    store::{IPAM_GROUP, Layer, Name},
};

/// Wants the addresses of every claim on a pool of ours, and what the claims are told.
pub fn give(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    services: &[Service],
    wake: &mut Wake,
    wanted: &mut Desired,
) {
    let Some(contract) = snapshot.environment.ipam() else {
        return;
    };
    let desk = Desk {
        snapshot,
        ledger,
        version: format!("{IPAM_GROUP}/{}", contract.as_str()),
    };
    let mut over: Vec<Claim> = Vec::new();
    for claim in ledger.facts.claims.values() {
        let given = ledger.facts.of_claim(claim);
        // A claim of our own that nobody needs any more is deleted by this same plan.
        let endpoint = Layer::Owned(managers::ENDPOINT.to_owned());
        let claim_key = claim_key(&claim.name);
        let is_ours = snapshot.objects.content(&claim_key, &endpoint).is_some();
        let goes = is_ours && claim.leaving.is_none() && !wanted.has(&claim_key, &endpoint);
        let mut claim = claim.clone();
        if goes {
            claim.leaving = Some(snapshot.now.clone());
        }
        // What is not seen yet is planned with when it is.
        if claim.uid.is_empty() {
            over.extend(goes.then_some(claim));
            continue;
        }
        let rests = ledger.rests_until(&claim, &snapshot.now);
        let rests = rests.filter(|_| given.is_some() || claim.recorded.is_some());
        match (&claim.leaving, rests) {
            _ if claim.rests() => desk.keep(&claim, given, wanted),
            (Some(_), Some(due)) => {
                wake.at(due);
                desk.keep(&claim, given, wanted);
            }
            (Some(_), None) => match given {
                Some(given) => wanted.drop_address(&given.key()),
                None => over.push(claim),
            },
            (None, _) => desk.serve(&claim, given, wanted),
        }
    }
    for given in ledger.facts.addresses.values() {
        if !desk.is_claimed(given) {
            desk.let_go(given, services, wanted);
        }
    }
    // A LoadBalancer may have without its claim what it had by it.
    let asks = |name: &Name| {
        services
            .iter()
            .any(|service| service.balancer.name == *name)
    };
    let over = over
        .iter()
        .filter(|claim| !claim.balancer.as_ref().is_some_and(asks));
    for claim in over {
        ledger.give_back(claim);
    }
    hold_pools(snapshot, ledger, wanted);
}

/// A pool stays while addresses of it are in use.
fn hold_pools(snapshot: &Snapshot, ledger: &Ledger, wanted: &mut Desired) {
    for (name, pool) in &snapshot.pools {
        let key = key::<VipPoolSpec>(name);
        if given::is_at_rest(pool) {
            wanted.retain(&snapshot.objects, &key, &Layer::Marks);
        } else if ledger.taken_from(name).next().is_some() {
            let leaves = pool.metadata.deletion_timestamp.is_some();
            if leaves {
                wanted.retain(&snapshot.objects, &key, &Layer::Marks);
            } else {
                let marks = wanted.marks(&key);
                marks.finalizers.insert(POOL_FINALIZER.to_owned());
            }
        }
    }
}

/// What is looked at.
struct Desk<'a> {
    snapshot: &'a Snapshot,
    ledger: &'a Ledger,
    version: String,
}

impl Desk<'_> {
    /// Serves a claim, or tells it why not.
    fn serve(&self, claim: &Claim, given: Option<&Given>, wanted: &mut Desired) {
        let holder = holder(Some(claim), &claim.name);
        let pool = self.ledger.pool(&claim.pool);
        let verdict = match (given, pool) {
            (Some(given), _) if self.is_doubled(given, &holder) => {
                self.keep_address(given, wanted);
                Verdict::Doubled {
                    address: given.address,
                    holder: self.ledger.holder(&given.name.namespace, given.address),
                }
            }
            (Some(given), pool) => {
                self.confirm(
                    claim,
                    given,
                    pool.and_then(|pool| pool.as_ref().ok()),
                    wanted,
                );
                Verdict::Served
            }
            (None, None) => Verdict::NoPool,
            (None, Some(Err(error))) => Verdict::BadPool(error),
            (None, Some(Ok(pool))) => match self.ledger.address_of(&holder, &claim.pool) {
                _ if self.name_is_taken(claim) => Verdict::NameTaken,
                Some(address) => {
                    self.make(claim, pool, address, wanted);
                    Verdict::Served
                }
                None if self.pool_leaves(claim) => Verdict::PoolLeaves,
                None if self.is_unasked(&holder, pool) => Verdict::Unasked,
                None => Verdict::Exhausted(pool.total()),
            },
        };
        let address = given.map(|given| &given.name).unwrap_or(&claim.name);
        let served = matches!(verdict, Verdict::Served).then_some(address.name.as_str());
        if given.is_none() && served.is_none() {
            self.keep_record(claim, &holder, wanted);
        }
        let status = condition::status(self.snapshot, claim, served, &verdict);
        wanted.status_of(&claim_key(&claim.name), &self.version, status);
    }

    /// A claim of a LoadBalancer that wants no address of this pool just now.
    fn is_unasked(&self, holder: &Holder, pool: &Pool) -> bool {
        let used = |address| self.ledger.holder(holder.namespace(), address).is_some();
        matches!(holder, Holder::Balancer(_)) && pool.lowest_free(used).is_some()
    }

    /// Wants a new address.
    fn make(&self, claim: &Claim, pool: &Pool, address: IpAddr, wanted: &mut Desired) {
        self.record(claim, address, wanted);
        let mut spec = Map::new();
        spec.insert("claimRef".to_owned(), json!({"name": claim.name.name}));
        let pool_ref = json!({"apiGroup": VipPoolSpec::GROUP, "kind": VipPoolSpec::KIND,
            "name": claim.pool.name});
        spec.insert("poolRef".to_owned(), pool_ref);
        spec.insert("address".to_owned(), json!(address));
        spec.insert("prefix".to_owned(), json!(pool.prefix));
        if let Some(gateway) = pool.gateway {
            spec.insert("gateway".to_owned(), json!(gateway));
        }
        self.own(claim, Value::Object(spec), wanted);
    }

    /// Wants the address to stay as it is, and to be ours: it may have come here without us.
    fn confirm(&self, claim: &Claim, given: &Given, pool: Option<&Pool>, wanted: &mut Desired) {
        self.record(claim, given.address, wanted);
        // What is being deleted cannot be held anew, and an owner that is gone cannot be named.
        if given.leaving || pool.is_none() {
            self.keep_address(given, wanted);
            return;
        }
        let layers = self.snapshot.objects.get(&given.key());
        let document = layers.map(crate::store::Layers::effective);
        let spec = document.and_then(|mut document| document.get_mut("spec").map(Value::take));
        self.own(claim, spec.unwrap_or_default(), wanted);
    }

    fn own(&self, claim: &Claim, spec: Value, wanted: &mut Desired) {
        let pool = self.snapshot.objects.get(&key::<VipPoolSpec>(&claim.pool));
        let pool_uid = pool.and_then(|pool| Some(&pool.server.as_ref()?.uid));
        let pool_uid = pool_uid.cloned().unwrap_or_default();
        let address = address_key(&claim.name);
        wanted.own(&address, &self.version, managers::IPAM, spec);
        let owners = json!([
            {"apiVersion": self.version, "kind": "IPAddressClaim", "name": claim.name.name,
                "uid": claim.uid, "controller": true, "blockOwnerDeletion": true},
            {"apiVersion": VipPoolSpec::api_version(), "kind": VipPoolSpec::KIND,
                "name": claim.pool.name, "uid": pool_uid, "controller": false,
                "blockOwnerDeletion": true},
        ]);
        wanted.owners(&address, managers::IPAM, owners);
        if let Some(label) = &claim.label {
            wanted.label(&address, managers::IPAM, CLUSTER_NAME_LABEL, label);
        }
        let held = wanted.marks(&address);
        held.finalizers.insert(PROTECT_FINALIZER.to_owned());
        if claim.balancer.is_some() {
            held.finalizers.insert(ADDRESS_FINALIZER.to_owned());
        }
    }

    fn record(&self, claim: &Claim, address: IpAddr, wanted: &mut Desired) {
        let marks = wanted.marks(&claim_key(&claim.name));
        marks.finalizers.insert(RELEASE_FINALIZER.to_owned());
        marks.annotate(ADDRESS, address.to_string());
    }

    /// What was given stays on record while it cannot be given again, as in a pool that cannot be
    /// read just now.
    fn keep_record(&self, claim: &Claim, holder: &Holder, wanted: &mut Desired) {
        let is_held =
            |address: &IpAddr| self.ledger.holder(&claim.name.namespace, *address) == Some(holder);
        let recorded = claim.recorded.filter(|_| claim.is_our_record);
        if let Some(address) = recorded.filter(is_held) {
            self.record(claim, address, wanted);
        }
    }

    /// Changes nothing about a claim and its address.
    fn keep(&self, claim: &Claim, given: Option<&Given>, wanted: &mut Desired) {
        for layer in [Layer::Status, Layer::Marks] {
            wanted.retain(&self.snapshot.objects, &claim_key(&claim.name), &layer);
        }
        if let Some(given) = given {
            self.keep_address(given, wanted);
        }
    }

    fn keep_address(&self, given: &Given, wanted: &mut Desired) {
        let layer = Layer::Owned(managers::IPAM.to_owned());
        for layer in [layer, Layer::Marks] {
            wanted.retain(&self.snapshot.objects, &given.key(), &layer);
        }
    }

    fn is_claimed(&self, given: &Given) -> bool {
        self.snapshot
            .objects
            .get(&claim_key(&given.claim))
            .is_some()
    }

    /// An address whose claim is gone, as when somebody took the finalizers off.
    fn let_go(&self, given: &Given, services: &[Service], wanted: &mut Desired) {
        let namespace = &given.name.namespace;
        let cluster = given.label.as_ref();
        let by_cluster =
            cluster.and_then(|cluster| given::is_paused(self.snapshot, namespace, cluster));
        let pool = self.snapshot.pools.get(&given.pool);
        // The claim of a LoadBalancer is made again in this plan.
        let comes_back = services.iter().any(|service| {
            let vip = service.balancer.spec.vip.as_ref();
            let second = vip.and_then(|vip| vip.second.as_ref()?.address);
            service.balancer.name.namespace == *namespace
                && (vip.and_then(|vip| vip.address) == Some(given.address)
                    || second == Some(given.address))
        });
        if by_cluster == Some(true) || pool.is_some_and(given::is_at_rest) || comes_back {
            self.keep_address(given, wanted);
        } else {
            wanted.drop_address(&given.key());
        }
    }

    /// Whether the address is another's as well.
    fn is_doubled(&self, given: &Given, holder: &Holder) -> bool {
        let first = self.ledger.holder(&given.name.namespace, given.address);
        first.is_some_and(|first| first != holder)
    }

    fn name_is_taken(&self, claim: &Claim) -> bool {
        self.snapshot
            .objects
            .get(&address_key(&claim.name))
            .is_some()
    }

    fn pool_leaves(&self, claim: &Claim) -> bool {
        let pool = self.snapshot.pools.get(&claim.pool);
        pool.is_some_and(|pool| pool.metadata.deletion_timestamp.is_some())
    }
}
