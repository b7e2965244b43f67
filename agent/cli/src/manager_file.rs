//! The manager's configuration file.
//!
//! It lives here, because the manager knows neither files of configuration nor the host: this
//! crate reads it and passes the typed values in.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use kedge_control::identity::DEFAULT_TRUST_DOMAIN;
use kedge_core::Problem;
use kedge_host::{
    Role,
    enrol::ManagerUrl,
    layers::{Origins, RoleFile},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The configuration file of `kedge manager`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManagerFile {
    /// The version of the format: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The folder with the objects; Kedge writes only `owned` and `status` in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// The namespaces of clusters whose kubeconfig Secrets the manager may read and rewrite, so
    /// that `managementAccess: Gateway` leads through the gateway. None unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 63)))]
    pub kubeconfig_namespaces: Option<Vec<String>>,
    /// Where the agent API listens: `address:port`. Loopback only unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
    /// Where other managers reach this one's agent API, to pass connections on while it leads.
    /// Left out it is `listen`, or where that names no address, the one this machine speaks to the
    /// cluster from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub advertise: Option<SocketAddr>,
    /// Health and metrics, for probes and scrapers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsFile>,
    /// The trust domain in the names of identities. It cannot change while hosts are enrolled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_domain: Option<TrustDomain>,
}

/// Where health and metrics are served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsFile {
    /// Where `/healthz`, `/readyz` and `/metrics` are, without TLS: `address:port`. Loopback only
    /// unless set; where the default port is taken, the manager does without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
}

/// The manager's configuration, checked, defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerConfig {
    /// The folder with the objects.
    pub dir: PathBuf,
    /// The namespaces whose kubeconfig Secrets may be rewritten.
    pub kubeconfig_namespaces: Vec<String>,
    /// Where the agent API listens.
    pub listen: SocketAddr,
    /// Where other managers reach it.
    pub advertise: Option<SocketAddr>,
    /// Where health and metrics are served.
    pub metrics: MetricsConfig,
    /// The trust domain.
    pub trust_domain: TrustDomain,
}

/// Where health and metrics are served, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// The address.
    pub listen: SocketAddr,
    /// Whether the manager does not start where it is taken: when the address was chosen.
    pub required: bool,
}

impl RoleFile for ManagerFile {
    const ROLE: Role = Role::Manager;
    type Config = ManagerConfig;

    fn filled(mut self) -> Self {
        self.version.get_or_insert(Version::LATEST);
        self.dir.get_or_insert_with(|| DIR.into());
        self.listen
            .get_or_insert((Ipv4Addr::LOCALHOST, ManagerUrl::DEFAULT_PORT).into());
        self.kubeconfig_namespaces.get_or_insert_default();
        let metrics = self.metrics.get_or_insert_default();
        metrics.listen.get_or_insert(METRICS);
        self.trust_domain.get_or_insert_default();
        self
    }

    fn check(self, _: &Origins) -> Result<ManagerConfig, Vec<Problem>> {
        let chosen = self.metrics.as_ref().and_then(|metrics| metrics.listen);
        let Self {
            dir,
            kubeconfig_namespaces,
            listen,
            advertise,
            trust_domain,
            ..
        } = self.filled();
        Ok(ManagerConfig {
            dir: dir.unwrap_or_else(|| DIR.into()),
            kubeconfig_namespaces: kubeconfig_namespaces.unwrap_or_default(),
            listen: listen
                .unwrap_or_else(|| (Ipv4Addr::LOCALHOST, ManagerUrl::DEFAULT_PORT).into()),
            advertise,
            metrics: MetricsConfig {
                listen: chosen.unwrap_or(METRICS),
                required: chosen.is_some(),
            },
            trust_domain: trust_domain.unwrap_or_default(),
        })
    }
}

/// The version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Version(i64);

impl Version {
    const LATEST: Self = Self(1);
}

impl TryFrom<i64> for Version {
    type Error = String;

    fn try_from(value: i64) -> Result<Self, String> {
        if value == Self::LATEST.0 {
            Ok(Self(value))
        } else {
            Err(format!("version must be 1, not {value}"))
        }
    }
}

impl From<Version> for i64 {
    fn from(version: Version) -> Self {
        version.0
    }
}

impl JsonSchema for Version {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "const": 1 })
    }
}

/// A trust domain: lower-case letters, digits, `-` and dots, as a DNS name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct TrustDomain(
    #[schemars(
        regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$"),
        length(max = 253)
    )]
    String,
);

impl TrustDomain {
    /// The domain as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for TrustDomain {
    fn default() -> Self {
        Self(DEFAULT_TRUST_DOMAIN.to_owned())
    }
}

impl TryFrom<String> for TrustDomain {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let label = |label: &str| {
            let plain =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(plain)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if text.len() <= 253 && text.split('.').all(label) {
            Ok(Self(text))
        } else {
            Err(format!(
                "`{}` is no trust domain: write a DNS name in lower case, such as {DEFAULT_TRUST_DOMAIN}",
                text.escape_debug().take(80).collect::<String>()
            ))
        }
    }
}

impl From<TrustDomain> for String {
    fn from(domain: TrustDomain) -> Self {
        domain.0
    }
}

const DIR: &str = "/var/lib/kedge/objects";
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9444);

#[cfg(test)]
mod tests {
    use kedge_core::Code;
    use kedge_host::layers::{Sources, load_from};

    use super::*;

    fn load(text: &str) -> Result<ManagerConfig, Vec<Problem>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manager.yaml");
        std::fs::write(&path, text).unwrap();
        load_from::<ManagerFile>(&Sources::file(&path))
            .map(|loaded| loaded.config)
            .map_err(kedge_host::layers::ConfigError::into_problems)
    }

    #[test]
    fn defaults_stay_on_loopback() {
        let config = load("").unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:9443");
        assert_eq!(config.metrics.listen.to_string(), "127.0.0.1:9444");
        assert!(!config.metrics.required, "nobody asked for that port");
        assert_eq!(config.trust_domain.as_str(), "kedge.local");
        let config = load("metrics: {listen: \"[::]:9500\"}").unwrap();
        assert_eq!(config.metrics.listen.to_string(), "[::]:9500");
        assert!(config.metrics.required);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for text in [
            "version: 2",
            "version: -1",
            "listen: 9443",
            "listen: 127.0.0.1",
            "listen: 127.0.0.1:70000",
            "metrics: {listen: 9444}",
            "trust_domain: Kedge.local",
            "trust_domain: kedge..local",
            "trust_domain: -kedge",
            "trust_domain: \"\"",
            "dir: [a]",
        ] {
            let problems = load(text).unwrap_err();
            assert_eq!(problems.len(), 1, "{text}");
            assert!(
                matches!(
                    problems[0].code,
                    Code::ConfigOutOfRange | Code::ConfigSyntax
                ),
                "{text}: {:?}",
                problems[0]
            );
        }
        assert_eq!(
            load("lisen: 127.0.0.1:1").unwrap_err()[0].code,
            Code::ConfigUnknownKey
        );
    }
}
