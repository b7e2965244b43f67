//! Where a manager is.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `https://host[:port]`, nothing else; the port is 9443 when left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ManagerUrl {
    host: String,
    port: u16,
}

/// A text that is no manager's URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a manager's address: write https://host or https://host:port")]
pub struct BadUrl(String);

impl ManagerUrl {
    /// The port the agent API listens on when nobody says otherwise.
    pub const DEFAULT_PORT: u16 = 9443;

    /// The host: a name or an address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for ManagerUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        let bad = || BadUrl(text.escape_debug().take(120).collect());
        let uri: hyper::Uri = text.trim().parse().map_err(|_| bad())?;
        let bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let authority = uri.authority().ok_or_else(bad)?;
        let user = authority.as_str().contains('@');
        if uri.scheme_str() != Some("https") || !bare || user || authority.host().is_empty() {
            return Err(bad());
        }
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => Self::DEFAULT_PORT,
            Some(rest) => rest
                .strip_prefix(':')
                .and_then(|port| port.parse().ok())
                .ok_or_else(bad)?,
            None => return Err(bad()),
        };
        let host = authority.host();
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if port == 0 {
            return Err(bad());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl TryFrom<String> for ManagerUrl {
    type Error = BadUrl;

    fn try_from(text: String) -> Result<Self, BadUrl> {
        text.parse()
    }
}

impl From<ManagerUrl> for String {
    fn from(url: ManagerUrl) -> Self {
        url.to_string()
    }
}

impl fmt::Display for ManagerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "https://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "https://{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_host_and_a_port_are_an_address() {
        for (text, shown) in [
            ("https://203.0.113.9:9443", "https://203.0.113.9:9443"),
            ("https://manager.example", "https://manager.example:9443"),
            ("https://[fd00::1]:1/", "https://[fd00::1]:1"),
        ] {
            let url: ManagerUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(shown.parse::<ManagerUrl>().unwrap(), url);
        }
        for bad in [
            "",
            "manager",
            "http://a",
            "https://",
            "https://a:0",
            "https://a:70000",
            "https://a:",
            "https://a/path",
            "https://a?x",
            "https://user@a",
            "https://a b",
        ] {
            assert!(bad.parse::<ManagerUrl>().is_err(), "{bad}");
        }
    }
}
