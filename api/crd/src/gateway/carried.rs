//! What an instance says of what it carries: what it does not serve, and what it is leaving.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A backend that an instance is leaving.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainingBackend {
    /// Its EdgeHost, `NAMESPACE/NAME`.
    #[schemars(length(max = 512))]
    pub host: String,
    /// The host's overlay address.
    pub address: IpAddr,
    /// The port on the host.
    pub port: u16,
    /// Whether anything is open to it, or may be.
    pub busy: bool,
}

/// A port of a TCPLoadBalancer that an instance does not serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnservedFrontend {
    /// `NAMESPACE/NAME/PORT`.
    #[schemars(length(max = 512))]
    pub name: String,
    /// `Pending` where it is only not served yet; otherwise why it never will be as it is.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// A sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
}
