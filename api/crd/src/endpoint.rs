//! The control-plane endpoint, and any kind of infrastructure cluster that carries one.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::meta::Object;

/// `host` and `port` of a control plane. Both contract versions write blank as absent, as an
/// empty host or as port 0.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// An address or a name; empty is blank.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub host: String,
    /// The port; 0 is blank.
    #[serde(default)]
    #[schemars(range(min = 0, max = 65535))]
    pub port: i32,
}

impl Endpoint {
    /// An endpoint of its parts.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port: i32::from(port),
        }
    }

    /// Whether both parts are set, as Cluster API asks it.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.host.is_empty() && self.port().is_some()
    }

    /// The port, if it is one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        u16::try_from(self.port).ok().filter(|port| *port != 0)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// Any infrastructure cluster: ElementalCluster, or whatever a Cluster refers to. No list of
/// known kinds; the contract is the field's path.
pub type InfraCluster = Object<InfraClusterSpec, serde_json::Value>;

/// What the contract says an infrastructure cluster has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InfraClusterSpec {
    /// The endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<Endpoint>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_has_three_shapes() {
        let read = |text: &str| serde_json::from_str::<Endpoint>(text).unwrap();
        assert!(!read("{}").is_valid());
        assert!(!read(r#"{"host":"","port":6443}"#).is_valid());
        assert!(!read(r#"{"host":"a","port":0}"#).is_valid());
        assert!(!read(r#"{"host":"a","port":70000}"#).is_valid());
        assert!(read(r#"{"host":"a","port":6443}"#).is_valid());
        assert_eq!(Endpoint::new("fd00::1", 6443).to_string(), "[fd00::1]:6443");
    }
}
