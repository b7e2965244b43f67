//! A person's word that a host may enrol, at the manager's socket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A wish to let a host in that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalRequest {
    /// The host's name.
    pub name: String,
    /// Its namespace; needed where hosts of that name wait in several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The hash of the key that is meant. Without it nothing is changed: the answer tells which
    /// key waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_hash: Option<String>,
    /// Whether only to say what would be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// A host whose key was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostApproval {
    /// The host's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its tenant.
    pub tenant: String,
    /// SHA-256 of the SubjectPublicKeyInfo of its key, base64url: what is approved, and what the
    /// host shows.
    pub key_hash: String,
    /// Since when it waits, RFC 3339.
    pub since: String,
    /// Whether the key is approved now.
    pub approved: bool,
}
