//! The rotation of the certificate authority, at the manager's socket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A wish for another certificate authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotationRequest {
    /// How long the one in force is trusted beside it; 2 678 400 (31 days) when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_seconds: Option<u64>,
    /// Whether only to say what would be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What a rotation did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityRotation {
    /// The pin of the authority that was in force.
    pub from: String,
    /// The pin of the one that is; left out where nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Until when both are trusted, RFC 3339.
    pub until: String,
}
