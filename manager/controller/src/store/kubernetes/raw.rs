//! An object as an API server sends it, read once: the way from a list of a large fleet to the
//! stock is most of what a start costs.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, api::ApiResource, core::DynamicResourceScope};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value};

use super::fields::Fields;

/// An object as an API server sent it.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    /// The object, but for `metadata.managedFields`.
    pub object: Value,
    /// Who owns which of its fields.
    pub managed: Vec<Managed>,
    /// What a watch goes by.
    meta: ObjectMeta,
}

/// The fields somebody owns.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Managed {
    /// Who.
    pub manager: String,
    /// The subresource it was written through; empty for the object itself.
    pub subresource: String,
    /// Which; left out where nothing is owned any more.
    #[serde(rename = "fieldsV1")]
    pub fields: Option<Fields>,
}

impl Raw {
    /// A text of it.
    #[must_use]
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.object.pointer(pointer)?.as_str()
    }
}

/// Metadata without and with who owns what.
#[derive(Default)]
struct Metadata {
    members: Map<String, Value>,
    managed: Vec<Managed>,
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let (mut object, mut managed) = (Map::new(), Vec::new());
                let mut meta = ObjectMeta::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name != "metadata" {
                        object.insert(name, map.next_value()?);
                        continue;
                    }
                    let metadata: Metadata = map.next_value()?;
                    let text = |name: &str| {
                        let text = metadata.members.get(name)?.as_str()?;
                        Some(text.to_owned())
                    };
                    meta.name = text("name");
                    meta.namespace = text("namespace");
                    meta.uid = text("uid");
                    meta.resource_version = text("resourceVersion");
                    managed = metadata.managed;
                    object.insert(name, Value::Object(metadata.members));
                }
                Ok(Raw {
                    object: Value::Object(object),
                    managed,
                    meta,
                })
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("metadata")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut metadata = Metadata::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "managedFields" {
                        let managed: Option<_> = map.next_value()?;
                        metadata.managed = managed.unwrap_or_default();
                    } else {
                        metadata.members.insert(name, map.next_value()?);
                    }
                }
                Ok(metadata)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn api_version(of: &ApiResource) -> Cow<'_, str> {
        of.api_version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_owns_what_is_read_apart_and_the_rest_stays_as_it_was_sent() {
        let sent = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a",
            "namespace": "n", "uid": "u", "resourceVersion": "7", "managedFields": [
                {"manager": "m", "operation": "Apply", "time": "2026-01-01T00:00:00Z",
                    "fieldsV1": {"f:spec": {"f:x": {}}}},
                {"manager": "s", "subresource": "status"}]}, "spec": {"x": 1}});
        let raw: Raw = serde_json::from_str(&sent.to_string()).unwrap();
        let mut wanted = sent;
        wanted["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        assert_eq!(raw.object, wanted);
        assert_eq!(raw.meta().resource_version.as_deref(), Some("7"));
        assert_eq!(raw.text("/metadata/uid"), Some("u"));
        let [one, other] = &raw.managed[..] else {
            panic!("{:?}", raw.managed);
        };
        assert_eq!((&*one.manager, &*other.subresource), ("m", "status"));
        assert!(one.fields.as_ref().unwrap().at(&["spec", "x"]).is_some());
        assert!(other.fields.is_none());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for sent in [
            "[]",
            "3",
            r#"{"metadata": 3}"#,
            r#"{"metadata": {"managedFields": 3}}"#,
        ] {
            assert!(serde_json::from_str::<Raw>(sent).is_err(), "{sent}");
        }
    }
}
