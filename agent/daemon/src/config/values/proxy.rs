//! An HTTP proxy.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::Endpoint;

checked_text! {
    /// `http://host:port` of a proxy, or `none`.
    ProxyUrl(Option<Endpoint>),
    |text| proxy(text),
    |value| match value {
        Some(at) => format!("http://{at}"),
        None => "none".to_owned(),
    },
    { "type": "string", "examples": ["http://proxy.example:3128", "none"] }
}

impl ProxyUrl {
    /// Where it is; `None` is no proxy.
    #[must_use]
    pub const fn endpoint(&self) -> Option<&Endpoint> {
        self.0.as_ref()
    }
}

fn proxy(text: &str) -> Result<Option<Endpoint>, String> {
    if text == "none" {
        return Ok(None);
    }
    let rest = text
        .strip_prefix("http://")
        .ok_or("a proxy is `http://host:port`, or `none`")?;
    let at = rest.strip_suffix('/').unwrap_or(rest);
    if at.contains('@') {
        return Err("name and password of a proxy stand in tunnel.proxy_auth_file".to_owned());
    }
    at.parse().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_an_http_url_with_a_port_and_without_a_password() {
        for (text, said) in [
            ("http://10.0.0.1:3128", Some("10.0.0.1:3128")),
            ("http://[fd00::1]:8080/", Some("[fd00::1]:8080")),
            ("none", None),
        ] {
            let url: ProxyUrl = text.parse().unwrap();
            assert_eq!(url.endpoint().map(Endpoint::as_str), said);
        }
        for bad in [
            "https://proxy:443",
            "proxy:3128",
            "http://proxy",
            "http://a:b@proxy:3128",
            "http://proxy:3128/path",
            "",
        ] {
            assert!(bad.parse::<ProxyUrl>().is_err(), "{bad}");
        }
    }
}
