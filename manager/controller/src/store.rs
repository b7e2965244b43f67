//! Objects and the layers they are made of.
//!
//! An object is what its user wrote, with what Kedge decided beside it: `owned` documents hold
//! fields of the spec, one per field manager, `status` holds the status. A store reads and writes
//! these layers; plans see neither files nor Kubernetes.

pub mod directory;
pub mod document;
pub mod files;
pub mod key;
pub mod merge;
pub mod watch;

use std::collections::BTreeMap;

use kedge_core::Problem;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use key::{Name, ObjectKey};

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
    /// What Kedge found.
    pub status: Option<Value>,
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
}

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
            (Layer::Owned(manager), None) => {
                layers.owned.remove(manager);
            }
            (Layer::Status, content) => layers.status.clone_from(content),
        }
        if *layers == Layers::default() {
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
        }
    }
}

impl Layers {
    /// The object as it is in force: what Kedge decided, what the user wrote above it.
    #[must_use]
    pub fn effective(&self) -> Value {
        let mut value = Value::Null;
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
        value
    }

    /// The object as its user wrote it, typed.
    #[must_use]
    pub fn as_written<T: DeserializeOwned>(&self) -> Option<T> {
        let user = self.user.as_ref()?;
        serde_json::from_value(user.value.clone()).ok()
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
