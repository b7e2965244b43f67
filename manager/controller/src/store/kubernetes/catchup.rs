//! What a new leader must have seen before it writes.
//!
//! Addresses are given by whoever leads, and an API server knows no rule against giving one twice.
//! The watches of a manager that takes over may be moments behind what the last leader wrote. So
//! before its first plan it lists, past every cache, the objects that say who has which address,
//! and writes nothing that was decided before it had seen each of them. A plan is carried out in the
//! reign it was made in, or not at all: the time between the two may be long.

use std::{collections::BTreeMap, time::Duration};

use kedge_core::Problem;
use kedge_crd::{LoadBalancerSpec, Resource as _, meta};
use kube::{Api, api::ListParams, core::DynamicObject};
use tokio::{sync::Mutex, time::timeout};

use super::{
    cache::Realm,
    cluster::{Cluster, lock},
    kinds::Kind,
    problems::behind,
};
use crate::store::{ADDRESS_KIND, IPAM_GROUP, Name, ObjectKey, Objects, Reign};

/// The reign whose beginning has been caught up with.
#[derive(Debug, Default)]
pub struct CatchUp(Mutex<Option<Reign>>);

impl CatchUp {
    /// The reign, once everything that was written before it was seen; `None` while another leads.
    ///
    /// # Errors
    ///
    /// It was not when this was asked: what would be decided is decided without it.
    pub async fn check(&self, cluster: &Cluster) -> Result<Option<Reign>, Problem> {
        let reign = cluster.reign_now();
        let mut done = self.0.lock().await;
        if !cluster.leads() {
            return Ok(None);
        }
        if *done == Some(reign) {
            return Ok(Some(reign));
        }
        for (group, kind) in KINDS {
            let name = (group.to_owned(), kind.to_owned());
            let known = lock(&cluster.inner.kinds).get(&name).cloned();
            let Some(known) = known else { continue };
            let realm = Realm::of(group, kind);
            let there = match timeout(PATIENCE, list(cluster, &known)).await {
                Ok(Ok(there)) => there,
                // Whoever needs it is left alone: what others wrote of it is not seen. Where the watch
                // is not refused, nothing would ever say that the right is back: it is asked again.
                Ok(Err(kube::Error::Api(status)))
                    if status.code == 403 && cluster.inner.blind.knows(&realm) =>
                {
                    cluster.inner.blind.refuse(&realm, &status, true);
                    continue;
                }
                _ => return Err(behind(cluster.name())),
            };
            let objects = cluster.look(|stock| stock.take_kind(group, kind, None));
            if !has_seen(&objects.open(), (group, kind), &there) {
                return Err(behind(cluster.name()));
            }
        }
        *done = Some(reign);
        Ok(Some(reign))
    }
}

/// An object by its uid, at that generation of its spec.
type There = BTreeMap<Name, (String, i64)>;

async fn list(cluster: &Cluster, kind: &Kind) -> Result<There, kube::Error> {
    let client = cluster.inner.client.clone();
    let all: Api<DynamicObject> = Api::all_with(client, &kind.resource);
    // Without a version to start from, the list is the newest there is.
    let found = all.list_metadata(&ListParams::default()).await?;
    let named = found.items.into_iter().map(|object| {
        let meta = object.metadata;
        let name = Name::new(
            meta.namespace.unwrap_or_default(),
            meta.name.unwrap_or_default(),
        );
        let at = meta.generation.unwrap_or_default();
        (name, (meta.uid.unwrap_or_default(), at))
    });
    Ok(named.collect())
}

/// Whether each of them is known, with a spec that is no older.
fn has_seen(objects: &Objects, (group, kind): (&str, &str), there: &There) -> bool {
    there.iter().all(|(name, (uid, generation))| {
        let layers = objects.get(&ObjectKey::new(group, kind, name.clone()));
        let server = layers.and_then(|layers| layers.server.as_ref());
        server.is_some_and(|server| {
            server.uid == *uid && server.generation.unwrap_or_default() >= *generation
        })
    })
}

const KINDS: [(&str, &str); 2] = [
    (meta::GROUP, LoadBalancerSpec::KIND),
    (IPAM_GROUP, ADDRESS_KIND),
];
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Layers, Server};

    #[test]
    fn an_object_that_is_missing_older_or_another_was_not_seen() {
        let name = Name::new("ns", "lb");
        let there = There::from([(name.clone(), ("u".to_owned(), 3))]);
        let kind = (meta::GROUP, LoadBalancerSpec::KIND);
        let seen = |uid: &str, generation: i64| {
            let mut objects = Objects::default();
            let server = Server {
                uid: uid.to_owned(),
                generation: Some(generation),
                ..Server::default()
            };
            let layers = Layers {
                server: Some(server),
                ..Layers::default()
            };
            let key = ObjectKey::new(kind.0, kind.1, name.clone());
            objects.by_key.insert(key, layers);
            has_seen(&objects, kind, &there)
        };
        assert!(!has_seen(&Objects::default(), kind, &there));
        assert!(!seen("u", 2) && !seen("v", 3));
        assert!(seen("u", 3) && seen("u", 4));
    }
}
