//! What `kedge k8s uninstall` took back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was taken back from a cluster's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Uninstalled {
    /// Whether it was only looked.
    pub dry_run: bool,
    /// By kind, namespace and name.
    pub items: Vec<UninstalledObject>,
}

/// An object, and what of Kedge was on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UninstalledObject {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Such as `finalizer kedge.dev/loadbalancer`.
    pub took: Vec<String>,
}
