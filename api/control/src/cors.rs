//! Who may read answers from a page of another origin (Fetch standard, section 3.3 "CORS protocol").

use std::num::NonZeroU16;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frontend::is_server_name;

/// What a browser is told of a route. What is not listed it does not let pages do; a list with `*` alone is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Cors {
    /// Whose pages may ask ([`Origins::parse`]).
    pub origins: Vec<String>,
    /// With which methods; `GET`, `HEAD` and `POST` are always allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// With which headers, by their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Which headers of answers they may read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exposed: Vec<String>,
    /// Whether as who the browser knows the user to be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub credentials: bool,
    /// For how long a browser need not ask again whether it may, seconds.
    pub max_age_seconds: u32,
}

/// Whose pages: those of one origin or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origins<'a> {
    /// Everybody's.
    Any,
    /// Those of a scheme and host.
    Of {
        /// `http` or `https`.
        scheme: &'a str,
        /// A name or an address; `*` for whichever, `*.` for whatever stands left of the rest.
        host: &'a str,
        /// The port, unless it is the scheme's own.
        port: Option<NonZeroU16>,
    },
}

impl<'a> Origins<'a> {
    /// Reads `*` or `SCHEME://HOST[:PORT]`, HOST in lower case and at most with `*` as its first label or alone.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        if text == ANY {
            return Some(Self::Any);
        }
        let (scheme, rest) = text.split_once("://")?;
        let usual = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let (host, port) = match rest.split_once(':') {
            None => (rest, None),
            Some((_, port)) if !port.bytes().all(|byte| byte.is_ascii_digit()) => return None,
            Some((host, port)) => (host, Some(port.parse::<NonZeroU16>().ok()?)),
        };
        let is_host = host == ANY || is_server_name(host.strip_prefix("*.").unwrap_or(host));
        is_host.then_some(Self::Of {
            scheme,
            host,
            // Browsers leave it out (RFC 6454 section 6.2).
            port: port.filter(|port| port.get() != usual),
        })
    }
}

/// What stands for everything.
pub const ANY: &str = "*";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_as_browsers_name_them() {
        let of = |scheme, host, port| Origins::Of {
            scheme,
            host,
            port: NonZeroU16::new(port),
        };
        for (text, read) in [
            ("*", Origins::Any),
            ("https://shop.example", of("https", "shop.example", 0)),
            ("https://shop.example:443", of("https", "shop.example", 0)),
            ("http://shop.example:443", of("http", "shop.example", 443)),
            ("http://192.0.2.1:80", of("http", "192.0.2.1", 0)),
            ("https://*.shop.example", of("https", "*.shop.example", 0)),
            ("https://*:8443", of("https", "*", 8443)),
        ] {
            assert_eq!(Origins::parse(text), Some(read), "{text}");
        }
        for text in [
            "",
            "**",
            "shop.example",
            "ftp://shop.example",
            "https://",
            "https://Shop.example",
            "https://a*.example",
            "https://*.*.example",
            "https://shop.example/",
            "https://shop.example:",
            "https://shop.example:0",
            "https://shop.example:+80",
            "https://shop.example:65536",
            "https://shop.example:80:80",
        ] {
            assert_eq!(Origins::parse(text), None, "{text}");
        }
    }
}
