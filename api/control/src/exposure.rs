//! What a tenant's cluster wants to offer at the gateways: its Services and Ingresses, told by one
//! of its control-plane hosts.
//!
//! | method, path below `/kedge/v1/tenants/{t}` | body → answer |
//! |---|---|
//! | GET `/exposures` | → [`ExposureList`] |
//! | POST `/exposures/epoch` | [`Epoch`] last seen → [`Epoch`] to speak with |
//! | PUT `/exposures` | [`ExposureSet`] → [`ExposureAnswer`] |
//! | PUT `/exposures/{kind}/{name}` | [`ExposureChange`] → [`ExposureAnswer`] |
//! | DELETE `/exposures/{kind}/{name}?epoch=` | → [`ExposureAnswer`] |
//!
//! One host speaks at a time: whoever takes over gets the next epoch, and an older one is refused
//! from then on, so that what a frozen speaker still sends changes nothing.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an intent becomes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ExposureKind {
    /// Ports.
    #[serde(rename = "TCPLoadBalancer")]
    Tcp,
    /// Names and paths.
    #[serde(rename = "HTTPLoadBalancer")]
    Http,
}

impl ExposureKind {
    /// The kind of the object.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCPLoadBalancer",
            Self::Http => "HTTPLoadBalancer",
        }
    }
}

/// One intent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exposure {
    /// What it becomes.
    pub kind: ExposureKind,
    /// The name of the object.
    pub name: String,
    /// Its spec, without what the manager chooses.
    pub spec: Value,
}

/// Every intent of a cluster, of the kinds that are synced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExposureSet {
    /// The speaker's epoch.
    pub epoch: u64,
    /// The kinds the speaker has seen whole: of these alone what is missing is gone.
    pub kinds: Vec<ExposureKind>,
    /// The intents.
    pub items: Vec<Exposure>,
    /// The certificates that HTTPLoadBalancers of the set name by `tls[].secretRef`; where HTTPLoadBalancers
    /// are synced, one that is missing is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<ExposedCertificate>,
    /// Whether more than half of what there is may go at once.
    #[serde(default)]
    pub confirm: bool,
}

/// How the names of an agent's certificates begin. Other Secrets of the tenant's namespace are none of its
/// business: it neither writes them nor leads a load balancer to them.
pub const CERTIFICATE_PREFIX: &str = "kedge-tls-";

/// As many bytes as a certificate with its key may have.
pub const LARGEST_CERTIFICATE: usize = 64 << 10;

/// A certificate with its key, which ends TLS at the gateway.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExposedCertificate {
    /// The name of the Secret; it begins with [`CERTIFICATE_PREFIX`].
    pub name: String,
    /// `tls.crt`: PEM.
    pub chain: String,
    /// `tls.key`: PEM. Never shown.
    pub key: String,
}

impl fmt::Debug for ExposedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExposedCertificate")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// One intent besides the set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExposureChange {
    /// The speaker's epoch.
    pub epoch: u64,
    /// The spec.
    pub spec: Value,
}

/// A speaker's term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Epoch {
    /// Grows with every speaker; 0 before the first.
    pub epoch: u64,
}

/// What became of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureAnswer {
    /// How many objects were written.
    pub written: u32,
    /// How many were removed.
    pub removed: u32,
    /// Those that would go, but wait for `confirm`: as `kind/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
}

/// Everything that is offered for a tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureList {
    /// The epoch in force.
    pub epoch: u64,
    /// By kind and name.
    pub items: Vec<Exposed>,
    /// Where clients reach the tenant's gateway: a Service may ask for one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// One intent and what is offered for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exposed {
    /// What it is.
    pub kind: ExposureKind,
    /// The name of the object.
    pub name: String,
    /// Its spec.
    pub spec: Value,
    /// Addresses, ports and conditions, as in the object.
    #[serde(default)]
    pub status: Value,
    /// The generation of the spec; 0 where nobody counts.
    #[serde(default)]
    pub generation: i64,
    /// The generation the status was found at; 0 while there is none.
    #[serde(default)]
    pub observed_generation: i64,
}
