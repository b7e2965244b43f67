//! What is asked for with an HTTPLoadBalancer, and the names it has.

use std::collections::BTreeMap;

use kedge_crd::{
    HttpLoadBalancer, HttpLoadBalancerSpec, HttpLoadBalancerStatus, Resource as _, Tenant,
    http::HttpAddress, meta,
};
use serde_json::Value;

use super::{
    names::{ALL, asks_for_all, may_any},
    own::Place,
};
use crate::{
    managers,
    plan::{exposed::withdrawn, tcp},
    snapshot::Snapshot,
    store::{Layers, Name, ObjectKey, UserDocument},
};

/// An HTTPLoadBalancer as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub name: Name,
    /// When it was made, where that is known: who came first is served first.
    pub created: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What is asked for; `None` where nobody can tell whether anything is.
    pub asked: Option<Box<Result<HttpLoadBalancer, String>>>,
    /// Its status as it was last written.
    pub last: HttpLoadBalancerStatus,
}

impl Found {
    /// Whose it is.
    pub fn tenant<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Tenant> {
        tcp::tenant(snapshot, &self.name, &self.labels)
    }

    /// What is asked for, if that can be read.
    pub fn object(&self) -> Option<&HttpLoadBalancer> {
        self.asked.as_deref()?.as_ref().ok()
    }

    /// The names it has, and where.
    pub fn kept(&self) -> Option<(Name, Vec<&str>)> {
        let gateway = tcp::named(&self.last.served_by)?;
        let names = self.last.hostnames.iter();
        Some((gateway, names.map(|it| it.hostname.as_str()).collect()))
    }

    /// The names it has and that nobody took from it: its tenant is still at that gateway, and it asks for them.
    pub fn keeps(&self, snapshot: &Snapshot) -> Option<(Place, Vec<&str>)> {
        let (gateway, mut names) = self.kept()?;
        let now = self.tenant(snapshot).and_then(tcp::gateway_of);
        if now.is_some_and(|now| now != gateway) {
            return None;
        }
        // While nobody can tell what is asked for, nothing is given back.
        if let Some(object) = self.object() {
            if !self.is_at(object.spec.address.as_ref()) {
                return None;
            }
            // Who may have no name has no address either, and that before anybody waits for one.
            let tenant = self.tenant(snapshot);
            let may = tenant.is_none_or(|tenant| may_any(tenant, &object.spec));
            if self.last.address.is_some() && !may {
                return None;
            }
            let (generated, asked) = (&self.last.generated_hostname, &object.spec.hostnames);
            let is_for_all = asks_for_all(&object.spec);
            names.retain(|name| {
                let is_asked = asked.iter().any(|asked| asked == name);
                name == generated || is_asked || (is_for_all && *name == ALL)
            });
        }
        let own = self.last.address.as_ref().map(|it| it.ip);
        Some((Place { gateway, own }, names))
    }

    /// Whether what it has is where that is to be had.
    fn is_at(&self, asked: Option<&HttpAddress>) -> bool {
        match (asked, &self.last.address) {
            (None, None) => true,
            (Some(asked), Some(last)) => {
                asked.pool == last.pool
                    && asked.shared_by == last.shared_by
                    && asked.ip.is_none_or(|ip| ip == last.ip)
            }
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    /// Whether it has anything.
    pub const fn has(&self) -> bool {
        !self.last.hostnames.is_empty() || self.last.address.is_some()
    }
}

/// Every HTTPLoadBalancer: who has names comes first, then who came first.
pub fn all(snapshot: &Snapshot) -> Vec<Found> {
    let objects = snapshot
        .objects
        .of_kind(meta::GROUP, HttpLoadBalancerSpec::KIND);
    let withdrawn = withdrawn(snapshot);
    let mut all: Vec<Found> = objects
        .filter_map(|(key, layers)| found(snapshot, key, layers, withdrawn.contains(key)))
        .collect();
    all.sort_by_cached_key(|found| {
        let is_new = !found.has();
        (is_new, found.created.clone(), found.name.clone())
    });
    all
}

fn found(
    snapshot: &Snapshot,
    key: &ObjectKey,
    layers: &Layers,
    is_withdrawn: bool,
) -> Option<Found> {
    let server = layers.server.as_ref();
    if server.is_some_and(|server| server.deletion_timestamp.is_some() || server.vanished) {
        return None;
    }
    let mut asked = layers.clone();
    if is_withdrawn {
        asked.owned.remove(managers::EXPOSED);
    }
    // Of an object that is ours alone, an API server may show what others labelled.
    let says = |user: &UserDocument| server.is_none() || user.value.get("spec").is_some();
    let is_asked =
        asked.user.as_ref().is_some_and(says) || asked.owned.contains_key(managers::EXPOSED);
    // A document may only be unreadable.
    if !is_asked && !snapshot.incomplete() {
        return None;
    }
    let whole = layers.effective();
    let part = |pointer: &str| whole.pointer(pointer).cloned().unwrap_or(Value::Null);
    Some(Found {
        name: key.name.clone(),
        created: server
            .map(|server| server.created.clone())
            .unwrap_or_default(),
        labels: serde_json::from_value(part("/metadata/labels")).unwrap_or_default(),
        asked: is_asked.then(|| Box::new(asked.in_force().map_err(|error| error.to_string()))),
        last: serde_json::from_value(part("/status")).unwrap_or_default(),
    })
}
