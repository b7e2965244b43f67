//! What every object has: group, version, kind and metadata.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The API group of Kedge's own kinds.
pub const GROUP: &str = "kedge.dev";
/// The version of Kedge's own kinds.
pub const VERSION: &str = "v1alpha1";
/// The namespace of an object that names none.
pub const DEFAULT_NAMESPACE: &str = "default";
/// The namespace of Kedge's own Secrets and, unless said otherwise, of gateways.
pub const SYSTEM_NAMESPACE: &str = "kedge-system";

/// A kind of object, by its spec.
pub trait Resource {
    /// The API group; empty for the core group.
    const GROUP: &'static str;
    /// The version Kedge writes.
    const VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// Whether objects live in a namespace.
    const NAMESPACED: bool;
    /// The kind's status.
    type Status;

    /// `group/version` as it stands in `apiVersion`.
    #[must_use]
    fn api_version() -> String {
        if Self::GROUP.is_empty() {
            Self::VERSION.to_owned()
        } else {
            format!("{}/{}", Self::GROUP, Self::VERSION)
        }
    }
}

/// An object: metadata, spec and status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    bound = "S: JsonSchema + Default + Serialize, T: JsonSchema + Default + Serialize",
    rename = "{S}Object"
)]
pub struct Object<S, T> {
    /// `group/version`.
    #[serde(default)]
    pub api_version: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
    /// Name, namespace, labels and annotations.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: S,
    /// What is.
    #[serde(default)]
    pub status: T,
}

impl<S: Resource<Status = T>, T: Default> Object<S, T> {
    /// An object with that name, namespace and spec.
    pub fn new(namespace: &str, name: &str, spec: S) -> Self {
        Self {
            api_version: S::api_version(),
            kind: S::KIND.to_owned(),
            metadata: ObjectMeta {
                name: name.to_owned(),
                namespace: S::NAMESPACED.then(|| namespace.to_owned()),
                ..ObjectMeta::default()
            },
            spec,
            status: T::default(),
        }
    }
}

/// The part of an object's metadata Kedge reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// The name.
    pub name: String,
    /// The namespace, absent for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The API server's uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Grows with every change of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Set once the object is being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
}

impl ObjectMeta {
    /// The namespace, or `default` where none is named.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }

    /// Whether the annotation is there, whatever its value.
    #[must_use]
    pub fn has_annotation(&self, key: &str) -> bool {
        self.annotations.contains_key(key)
    }
}

/// An object that owns another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// `group/version` of the owner.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    #[serde(default)]
    pub uid: String,
    /// Whether it is the managing one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
}

/// A reference to an EdgeGateway.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayRef {
    /// The EdgeGateway's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace; `kedge-system` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

impl GatewayRef {
    /// Reads `namespace/name`, or a name in `kedge-system`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.split_once('/') {
            Some((namespace, name)) => Self {
                name: name.to_owned(),
                namespace: Some(namespace.to_owned()),
            },
            None => Self {
                name: text.to_owned(),
                namespace: None,
            },
        }
    }

    /// The namespace, or `kedge-system` where none is named.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(SYSTEM_NAMESPACE)
    }
}
