//! Claims on our pools, and the addresses that were given to them, as they are found.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_crd::{
    IpAddress, IpAddressClaim, LoadBalancerSpec, ObjectMeta, Resource as _, VipPool,
    capi::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION},
    ipam::IpPoolRef,
    meta,
};

use super::marks::ADDRESS;
use crate::{
    snapshot::Snapshot,
    store::{ADDRESS_KIND, CLAIM_KIND, IPAM_GROUP, Layers, Name, ObjectKey, is_from_our_pool},
};

/// Every claim on a pool of ours, and every address from one.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The claims.
    pub claims: BTreeMap<Name, Claim>,
    /// The addresses.
    pub addresses: BTreeMap<Name, Given>,
}

/// A claim on a pool of ours.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its name.
    pub name: Name,
    /// The pool.
    pub pool: Name,
    /// Its uid, empty until the API server has seen it.
    pub uid: String,
    /// When it was made: who waits longest is served first.
    pub created: String,
    /// Since when it is being deleted.
    pub leaving: Option<String>,
    /// The cluster, as its label says.
    pub label: Option<String>,
    /// The address that is on record for it.
    pub recorded: Option<IpAddr>,
    /// Whether the record is our own: then it holds wherever the pool ends by now.
    pub is_our_record: bool,
    /// The LoadBalancer that controls it.
    pub balancer: Option<Name>,
    /// Somebody paused it, its cluster or its pool.
    pub is_paused: bool,
    /// It names a cluster that is not there.
    pub is_early: bool,
}

impl Claim {
    /// Whether nothing may be changed. The cluster of one that leaves may have been faster.
    #[must_use]
    pub const fn rests(&self) -> bool {
        self.is_paused || self.is_early && self.leaving.is_none()
    }
}

/// An address from a pool of ours.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its name.
    pub name: Name,
    /// The pool.
    pub pool: Name,
    /// The claim.
    pub claim: Name,
    /// The address.
    pub address: IpAddr,
    /// Whether it is being deleted.
    pub leaving: bool,
    /// The cluster, as its label says.
    pub label: Option<String>,
}

impl Facts {
    /// Finds them, where claims are served at all.
    #[must_use]
    pub fn read(snapshot: &Snapshot) -> Self {
        if snapshot.environment.ipam().is_none() {
            return Self::default();
        }
        let objects = &snapshot.objects;
        let claims = objects
            .of_kind(IPAM_GROUP, CLAIM_KIND)
            .filter_map(|(key, layers)| Some((key.name.clone(), claim(snapshot, key, layers)?)));
        let addresses = objects
            .of_kind(IPAM_GROUP, ADDRESS_KIND)
            .filter_map(|(key, layers)| Some((key.name.clone(), address(key, layers)?)));
        Self {
            claims: claims.collect(),
            addresses: addresses.collect(),
        }
    }

    /// The address a claim was given.
    #[must_use]
    pub fn of_claim(&self, claim: &Claim) -> Option<&Given> {
        let named = self.addresses.get(&claim.name);
        let is_its = |given: &&Given| given.claim == claim.name && given.pool == claim.pool;
        named.filter(is_its)
    }
}

impl Given {
    /// Its key.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        address_key(&self.name)
    }
}

/// The key of a claim.
#[must_use]
pub fn claim_key(name: &Name) -> ObjectKey {
    ObjectKey::new(IPAM_GROUP, CLAIM_KIND, name.clone())
}

/// The key of an address.
#[must_use]
pub fn address_key(name: &Name) -> ObjectKey {
    ObjectKey::new(IPAM_GROUP, ADDRESS_KIND, name.clone())
}

/// Whether somebody paused the cluster; `None` where there is none of that name.
#[must_use]
pub fn is_paused(snapshot: &Snapshot, namespace: &str, cluster: &str) -> Option<bool> {
    let cluster = snapshot.clusters.get(&Name::new(namespace, cluster))?;
    Some(cluster.spec.paused || cluster.metadata.has_annotation(PAUSED_ANNOTATION))
}

/// Whether somebody paused the pool.
#[must_use]
pub fn is_at_rest(pool: &VipPool) -> bool {
    pool.metadata.has_annotation(PAUSED_ANNOTATION)
}

fn claim(snapshot: &Snapshot, key: &ObjectKey, layers: &Layers) -> Option<Claim> {
    let document = layers.effective();
    if !is_from_our_pool(&document) {
        return None;
    }
    let claim: IpAddressClaim = serde_json::from_value(document).ok()?;
    let meta = &claim.metadata;
    let namespace = &key.name.namespace;
    let pool = pool_name(namespace, &claim.spec.pool_ref);
    let label = meta.labels.get(CLUSTER_NAME_LABEL).cloned();
    let named = Some(&claim.spec.cluster_name).filter(|name| !name.is_empty());
    let cluster = named.or(label.as_ref());
    let by_cluster = cluster.map(|cluster| is_paused(snapshot, namespace, cluster));
    let by_pool = snapshot.pools.get(&pool).is_some_and(is_at_rest);
    let server = layers.server.clone().unwrap_or_default();
    let recorded = meta.annotations.get(ADDRESS);
    let ours = layers.marks.as_ref().and_then(|marks| {
        let annotations = marks.pointer("/metadata/annotations")?;
        annotations.get(ADDRESS)?.as_str()
    });
    Some(Claim {
        name: key.name.clone(),
        pool,
        uid: server.uid,
        created: server.created,
        leaving: meta.deletion_timestamp.clone(),
        recorded: recorded.and_then(|text| text.parse().ok()),
        is_our_record: ours.is_some() && ours == recorded.map(String::as_str),
        balancer: controller(snapshot, namespace, meta),
        is_paused: by_cluster == Some(Some(true))
            || by_pool
            || meta.has_annotation(PAUSED_ANNOTATION),
        is_early: by_cluster == Some(None),
        label,
    })
}

fn address(key: &ObjectKey, layers: &Layers) -> Option<Given> {
    let document = layers.effective();
    if !is_from_our_pool(&document) {
        return None;
    }
    let address: IpAddress = serde_json::from_value(document).ok()?;
    let (meta, spec) = (&address.metadata, &address.spec);
    let namespace = &key.name.namespace;
    Some(Given {
        name: key.name.clone(),
        pool: pool_name(namespace, &spec.pool_ref),
        claim: Name::new(namespace, &spec.claim_ref.name),
        address: spec.ip()?,
        leaving: meta.deletion_timestamp.is_some(),
        label: meta.labels.get(CLUSTER_NAME_LABEL).cloned(),
    })
}

/// The LoadBalancer that controls a claim: by its uid, another one of the same name does not.
fn controller(snapshot: &Snapshot, namespace: &str, meta: &ObjectMeta) -> Option<Name> {
    let mut owners = meta.owner_references.iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let name = Name::new(namespace, &owner.name);
    let uid = &snapshot.balancers.get(&name)?.meta.uid;
    let is_that = owner.kind == LoadBalancerSpec::KIND
        && owner.api_version.starts_with(meta::GROUP)
        && !uid.is_empty()
        && owner.uid == *uid;
    is_that.then_some(name)
}

fn pool_name(namespace: &str, pool: &IpPoolRef) -> Name {
    Name::new(namespace, &pool.name)
}
