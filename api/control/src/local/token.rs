//! Enrolment tokens at the manager's socket.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{enrol::HostRef, identity::Role};

/// A wish for a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenRequest {
    /// For a host or a gateway instance.
    pub role: Role,
    /// The tenant, for hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The EdgeGateway, for gateways: `namespace/name` or a name in `kedge-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Binds the token to one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ref: Option<HostRef>,
    /// What a host must say of itself.
    #[serde(default, skip_serializing_if = "BoundTo::is_empty")]
    pub bound_to: BoundTo,
    /// Labels of the records it makes, above the tenant's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether a person approves each host; the tenant's rule when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// How long it may be used, 1 to 2 592 000 (30 days); 3600 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// How often it may be used; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u32>,
}

/// What a host must say of itself for a token to admit it; what is left out is not asked for.
///
/// These are claims: they keep a fleet's tokens from being used by mistake, and prove nothing.
/// Which machine a host is follows from the token's `hostRef` alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BoundTo {
    /// `/etc/machine-id`.
    #[serde(default, rename = "machineID", skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// The serial number of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The MAC address of one of its network cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// A regular expression that the whole host name matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname_regex: Option<String>,
}

impl BoundTo {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Who lets a host in whose proof holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// The proof alone.
    Auto,
    /// A person, who approves the host's key.
    Manual,
}

/// A token, shown once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenCreated {
    /// The token. It is stored nowhere.
    pub token: String,
    /// What is stored of it.
    pub summary: TokenSummary,
}

impl std::fmt::Debug for TokenCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCreated")
            .field("token", &"***")
            .field("summary", &self.summary)
            .finish()
    }
}

/// The tokens a manager knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenList {
    /// By id.
    pub items: Vec<TokenSummary>,
}

/// What a manager keeps of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenSummary {
    /// The public id.
    pub id: String,
    /// Host or gateway.
    pub role: Role,
    /// The tenant or the EdgeGateway it admits to.
    pub scope: String,
    /// The host it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ref: Option<HostRef>,
    /// What a host must say of itself.
    #[serde(default, skip_serializing_if = "BoundTo::is_empty")]
    pub bound_to: BoundTo,
    /// Labels of the records it makes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether a person approves each host; the tenant's rule when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// When it ends, RFC 3339.
    pub expires: String,
    /// How often it was used.
    pub uses: u32,
    /// How often it may be used.
    pub max_uses: u32,
    /// `usable`, `expired` or `used-up`.
    pub state: String,
}
