//! Objects of kinds that are known by name alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};

/// A kind in one of its versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// Its name.
    pub kind: &'static str,
}

impl Kind {
    /// A kind.
    #[must_use]
    pub const fn new(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            version,
            kind,
        }
    }

    /// What the client calls it.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk(self.group, self.version, self.kind))
    }

    /// Group and version.
    #[must_use]
    pub fn api_version(self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Its objects of a namespace.
    #[must_use]
    pub fn of(self, client: &Client, space: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), space, &self.resource())
    }

    /// Its objects of every namespace.
    #[must_use]
    pub fn everywhere(self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.resource())
    }

    /// An object.
    #[must_use]
    pub fn object(self, name: &str, rest: Value) -> DynamicObject {
        let mut all = rest;
        all["apiVersion"] = json!(self.api_version());
        all["kind"] = json!(self.kind);
        all["metadata"]["name"] = json!(name);
        serde_json::from_value(all).unwrap()
    }

    /// Whether an owner is of this kind, in whatever version.
    #[must_use]
    pub fn is_of(self, owner: &OwnerReference) -> bool {
        let group = owner.api_version.split('/').next();
        owner.kind == self.kind && group == Some(self.group)
    }

    /// The name of the owner of this kind.
    #[must_use]
    pub fn owner_of(self, object: &DynamicObject) -> Option<String> {
        let owners = object.metadata.owner_references.iter().flatten();
        let mut of_us = owners.filter(|owner| self.is_of(owner));
        of_us.next().map(|owner| owner.name.clone())
    }
}

/// A value inside an object, null where there is none.
#[must_use]
pub fn at<'a>(object: &'a DynamicObject, pointer: &str) -> &'a Value {
    object.data.pointer(pointer).unwrap_or(&Value::Null)
}

/// The text inside an object, empty where there is none.
#[must_use]
pub fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    at(object, pointer).as_str().unwrap_or_default()
}

/// A label, empty where there is none.
#[must_use]
pub fn label<'a>(object: &'a DynamicObject, key: &str) -> &'a str {
    let labels = object.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(key))
        .map_or("", String::as_str)
}

/// A condition by its type, null where there is none.
#[must_use]
pub fn condition<'a>(object: &'a DynamicObject, kind: &str) -> &'a Value {
    let all = at(object, "/status/conditions").as_array();
    let mut of_type = all.into_iter().flatten().filter(|one| one["type"] == kind);
    of_type.next().unwrap_or(&Value::Null)
}

/// Merges something into an object.
///
/// # Errors
///
/// Why the server refuses.
pub async fn merge(
    api: &Api<DynamicObject>,
    name: &str,
    patch: Value,
) -> Result<DynamicObject, kube::Error> {
    let how = PatchParams {
        field_manager: Some("manager".to_owned()),
        ..PatchParams::default()
    };
    api.patch(name, &how, &Patch::Merge(patch)).await
}

/// Merges something into an object's status, unless it says so already.
///
/// # Errors
///
/// Why the server refuses.
pub async fn merge_status(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    status: Value,
) -> Result<(), kube::Error> {
    let before = at(object, "/status");
    let fields = status.as_object().into_iter().flatten();
    let mut changed = fields.filter(|(key, value)| before.get(key) != Some(value));
    if changed.next().is_none() {
        return Ok(());
    }
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let how = PatchParams {
        field_manager: Some("manager".to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &how, &patch).await.map(|_| ())
}
