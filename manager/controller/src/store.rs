//! Objects and the layers they are made of.
//!
//! An object is what its user wrote, with what Kedge decided beside it: `owned` documents hold
//! fields of the spec, one per field manager, `status` holds the status, `marks` the labels,
//! annotations and finalizers that are ours. A store reads and writes these layers; plans see
//! neither files nor Kubernetes.
//!
//! What a write means is decided by its layer and by whose object it goes to ([`Ground`]):
//!
//! | layer | on an object that Kedge makes | on an object of somebody else |
//! |---|---|---|
//! | `Owned`, content | creates it, or replaces the manager's fields | fills fields; never creates |
//! | `Owned`, none | gives the fields up; the last layer takes the object with it | gives the fields up |
//! | `Status` | replaces the status | replaces only the fields in the content |
//! | `Marks` | replaces our keys, leaves others' | the same |
//!
//! On Kubernetes an `Owned` layer is one server-side apply by that field manager with
//! `force=true`, and what is observed of it is what `managedFields` say the manager owns. Every
//! write to an object of somebody else carries the `uid` and, for `Owned`, the `resourceVersion`
//! of [`Server`]: a missing object (409), another one of the same name (422) or a value that
//! appeared meanwhile (409) ends the batch, and everything is observed and planned again. Marks
//! go by merge patch with the `uid`, a key that is no longer wanted as `null`, finalizers as the
//! whole list with the `resourceVersion`. A status is compared before it is patched.

pub mod certificates;
pub mod directory;
pub mod document;
pub mod files;
pub mod keep;
pub mod key;
pub mod kubernetes;
pub mod merge;
pub mod outcome;
pub mod packed;
pub mod stock;
pub mod vanish;
pub mod watch;
pub(crate) mod work;

use std::collections::BTreeMap;

use kedge_core::Problem;
use kedge_crd::{Resource as _, VipPoolSpec, capi, meta};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    managers,
    plan::{dns, issued},
};
pub use keep::{Current, Leadership, Store};
pub use key::{Name, ObjectKey};

/// Cluster API's group of claims and addresses.
pub const IPAM_GROUP: &str = "ipam.cluster.x-k8s.io";
/// The kind of a claim.
pub const CLAIM_KIND: &str = "IPAddressClaim";
/// The kind of an address that was given to a claim.
pub const ADDRESS_KIND: &str = "IPAddress";

/// Everything a store holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// The objects, by key.
    pub by_key: BTreeMap<ObjectKey, Layers>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// Whether a document is unreadable and no earlier version of it is known: nothing may be
    /// taken for deleted then.
    pub incomplete: bool,
}

/// One object's layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layers {
    /// What the user wrote.
    pub user: Option<UserDocument>,
    /// What Kedge decided, by field manager.
    pub owned: BTreeMap<String, Value>,
    /// What Kedge found; on objects of others the fields of the status it keeps for them.
    pub status: Option<Value>,
    /// Our labels, annotations and finalizers: `metadata` with these three alone.
    pub marks: Option<Value>,
    /// What an API server adds; none on a directory.
    pub server: Option<Server>,
}

/// What an API server says of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// The `apiVersion` it is read in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Whether nobody but us has a word in it: without our fields it is nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_ours: bool,
    /// Its uid: guards every write against another object of the same name.
    #[serde(skip)]
    pub uid: String,
    /// The version that was read: guards a fill against a value that appeared meanwhile.
    #[serde(skip)]
    pub resource_version: String,
    /// Grows with every change of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// When it was made, RFC 3339.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// Set once it is being deleted, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// It is not there any more, but nobody was seen to delete it: it counts as it last was, and
    /// nothing is written to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub vanished: bool,
    /// Who else wrote the endpoint's host, be it empty, by field manager.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoint_owners: Vec<String>,
}

/// A user's document and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct UserDocument {
    /// The document.
    pub value: Value,
    /// `file:line` of its start.
    pub origin: String,
}

/// A layer Kedge writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Fields of the spec, owned by this field manager.
    Owned(String),
    /// The status.
    Status,
    /// Labels, annotations and finalizers.
    Marks,
}

/// Whose object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Kedge makes and deletes objects of the kind.
    Ours,
    /// Others make and delete it: nothing is ever created, and nothing deleted.
    Theirs,
}

/// A time of leading: another one whenever somebody else may have led in between. What is decided in
/// one is not written in another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reign(pub(super) u64);

/// One write: a layer's new content, or its removal.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The object.
    pub key: ObjectKey,
    /// The layer.
    pub layer: Layer,
    /// The whole content of the layer; `None` removes it.
    pub content: Option<Value>,
}

impl Objects {
    /// The objects of a kind, in order.
    pub fn of_kind<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Layers)> {
        self.by_key
            .iter()
            .filter(move |(key, _)| key.group == group && key.kind == kind)
    }

    /// The layers of an object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&Layers> {
        self.by_key.get(key)
    }

    /// One owned layer of an object.
    #[must_use]
    pub fn owned(&self, key: &ObjectKey, manager: &str) -> Option<&Value> {
        self.get(key)?.owned.get(manager)
    }

    /// Carries out a write in memory.
    pub fn apply(&mut self, write: &Write) {
        let layers = self.by_key.entry(write.key.clone()).or_default();
        match (&write.layer, &write.content) {
            (Layer::Owned(manager), Some(content)) => {
                layers.owned.insert(manager.clone(), content.clone());
            }
            // The address goes with what we say of it, once nobody holds it any more.
            (Layer::Owned(manager), None) if manager == managers::IPAM => layers.leave(),
            // So does a claim of ours, after its finalizers.
            (Layer::Owned(_), None) if write.key.is_claim() && layers.is_held() => layers.leave(),
            (Layer::Owned(manager), None) => {
                layers.owned.remove(manager);
            }
            (Layer::Status, content) => layers.status.clone_from(content),
            (Layer::Marks, content) => layers.marks.clone_from(content),
        }
        if layers.is_empty() {
            self.by_key.remove(&write.key);
        }
    }

    /// The layer's present content.
    #[must_use]
    pub fn content(&self, key: &ObjectKey, layer: &Layer) -> Option<&Value> {
        let layers = self.get(key)?;
        match layer {
            Layer::Owned(manager) => layers.owned.get(manager),
            Layer::Status => layers.status.as_ref(),
            Layer::Marks => layers.marks.as_ref(),
        }
    }
}

impl ObjectKey {
    /// Whose objects of the kind are. Claims and addresses are made by many; what makes one of them
    /// ours is who owns its fields, and for an address the pool it is from ([`is_from_our_pool`]).
    #[must_use]
    pub fn ground(&self) -> Ground {
        let claim = self.is_claim() || self.is_address();
        let secret = self.group.is_empty() && self.kind == "Secret";
        if self.group == meta::GROUP || claim || secret || self.is_made_for_others() {
            Ground::Ours
        } else {
            Ground::Theirs
        }
    }

    /// Whether it is a Cluster of Cluster API.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.group == capi::GROUP && self.kind == "Cluster"
    }

    /// Whether it is of a kind of somebody else that the manager makes objects of, for them to see to.
    #[must_use]
    pub fn is_made_for_others(&self) -> bool {
        let kind = (self.group.as_str(), self.kind.as_str());
        [dns::KIND, issued::KIND].contains(&kind)
    }

    /// Whether it is a claim.
    #[must_use]
    pub fn is_claim(&self) -> bool {
        self.group == IPAM_GROUP && self.kind == CLAIM_KIND
    }

    /// Whether it is an address that was given to a claim.
    #[must_use]
    pub fn is_address(&self) -> bool {
        self.group == IPAM_GROUP && self.kind == ADDRESS_KIND
    }
}

/// Whether a claim or an address names a pool of ours.
#[must_use]
pub fn is_from_our_pool(document: &Value) -> bool {
    let pool = |field: &str| document.pointer(&format!("/spec/poolRef/{field}"));
    pool("kind").is_some_and(|kind| kind == VipPoolSpec::KIND)
        && pool("apiGroup").is_some_and(|group| group == meta::GROUP)
}

impl Layers {
    /// Its deletion begins.
    fn leave(&mut self) {
        let server = self.server.get_or_insert_default();
        let since = server.deletion_timestamp.take();
        server.deletion_timestamp = Some(since.unwrap_or_default());
    }

    /// Whether a finalizer of ours holds it.
    fn is_held(&self) -> bool {
        let marks = self.marks.as_ref();
        marks.is_some_and(|marks| marks.pointer("/metadata/finalizers").is_some())
    }

    /// Whether nothing is left of the object.
    fn is_empty(&self) -> bool {
        self.user.is_none()
            && self.owned.is_empty()
            && self.status.is_none()
            && self.marks.is_none()
    }

    /// The object as it is in force: what Kedge decided, what the user wrote above it.
    #[must_use]
    pub fn effective(&self) -> Value {
        let mut value = self.marks.clone().unwrap_or(Value::Null);
        for owned in self.owned.values() {
            merge::over(&mut value, owned);
        }
        if let Some(user) = &self.user {
            let mut user = user.value.clone();
            if !self.owned.is_empty() {
                drop_blank_endpoint(&mut user);
            }
            merge::over(&mut value, &user);
        }
        if let Some(status) = &self.status {
            merge::over(&mut value, status);
        }
        if let Some(server) = &self.server {
            let meta = json!({"metadata": {
                "uid": server.uid,
                "generation": server.generation,
                "deletionTimestamp": server.deletion_timestamp,
            }});
            merge::over(&mut value, &meta);
        }
        value
    }

    /// The object as its user wrote it, typed.
    #[must_use]
    pub fn as_written<T: DeserializeOwned>(&self) -> Option<T> {
        let user = self.user.as_ref()?;
        T::deserialize(&user.value).ok()
    }

    /// The object as it is in force, typed.
    ///
    /// # Errors
    ///
    /// The layers together make no such object; each alone may.
    pub fn in_force<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.effective())
    }
}

impl Server {
    /// Whether the object is being deleted.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// A blank endpoint a user wrote (`host: ""`) says nothing, and does not hide the one that was
/// filled.
fn drop_blank_endpoint(document: &mut Value) {
    let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let host = spec
        .get("controlPlaneEndpoint")
        .map(|endpoint| endpoint.get("host"));
    let blank = host.is_some_and(|host| host.is_none_or(|host| host == "" || host.is_null()));
    if blank {
        spec.remove("controlPlaneEndpoint");
    }
}
