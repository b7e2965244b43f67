//! What of a site can be told: what would have Envoy refuse it, and with it its neighbours, is found
//! here.

use std::collections::BTreeSet;

use kedge_control::{
    frontend::is_server_name,
    site::{
        Action, HeaderChange, Match, PathChange, PathMatch, Rewrite, Route, Site, ValueMatch,
        is_host, is_token,
    },
};

use super::{Good, certificate, cors, hosts, regex};
use crate::render::check::{Pools, Reason, pool_of};

impl<'a> Good<'a> {
    /// The site, if it can be told.
    pub fn check(site: &'a Site, pools: &Pools<'_>) -> Result<Self, Reason> {
        if site.hosts.is_empty() {
            return Err(Reason::Invalid("it has no name"));
        }
        let certificates = site.certificates.iter();
        let mut of_certificates = certificates.flat_map(|one| &one.hosts);
        if !site.hosts.iter().all(|host| is_host(host))
            || !of_certificates.all(|host| is_host(host))
        {
            return Err(Reason::Invalid(
                "a name is no lower-case DNS name, with `*` as its first label or without",
            ));
        }
        for (number, route) in (1..).zip(&site.routes) {
            self::route(site, route, pools).map_err(|wrong| wrong.reason(number))?;
        }
        let secured = site.https.map(|_| hosts::secured(site)).unwrap_or_default();
        if site.http.is_none() && secured.is_empty() {
            return Err(Reason::Invalid(
                "it has no port for plain HTTP, and no certificate for one of its names",
            ));
        }
        let mut good = Self {
            site,
            secured: secured.into_iter().collect(),
            pems: Vec::new(),
        };
        for one in &site.certificates {
            let pem = certificate::read(one).map_err(|what| Reason::Certificate {
                host: one.hosts.first().cloned().unwrap_or_default(),
                what,
            })?;
            good.pems.push(pem);
        }
        Ok(good)
    }
}

/// What is wrong with a route.
enum Wrong {
    Value(&'static str),
    Pool(Reason),
}

impl Wrong {
    fn reason(self, number: usize) -> Reason {
        match self {
            Self::Value(what) => Reason::Route { number, what },
            Self::Pool(reason) => reason,
        }
    }
}

impl From<&'static str> for Wrong {
    fn from(what: &'static str) -> Self {
        Self::Value(what)
    }
}

fn route(site: &Site, route: &Route, pools: &Pools<'_>) -> Result<(), Wrong> {
    let own: BTreeSet<&String> = site.hosts.iter().collect();
    if !route.hosts.iter().all(|host| own.contains(host)) {
        return Err("a name is none of the site's".into());
    }
    matches(&route.matches)?;
    headers(&route.request_headers)?;
    headers(&route.response_headers)?;
    if let Some(cors) = &route.cors {
        cors::check(cors)?;
        // Envoy's filter leaves alone what it answers itself.
        if !matches!(route.action, Action::Forward { .. }) {
            return Err("whose pages may read an answer is said of backends' answers alone".into());
        }
    }
    let is_prefix = matches!(route.matches.path, PathMatch::Prefix(_));
    match &route.action {
        Action::Forward {
            backends,
            rewrite,
            mirrors,
            ..
        } => {
            self::rewrite(rewrite, is_prefix)?;
            let weights = backends.iter().map(|one| u64::from(one.weight));
            if weights.sum::<u64>() > u64::from(u32::MAX) {
                return Err("the weights of backends are more than 4294967295 together".into());
            }
            for backend in backends {
                headers(&backend.request_headers)?;
                headers(&backend.response_headers)?;
            }
            if mirrors.iter().any(|mirror| mirror.millionths > 1_000_000) {
                return Err("a copy is of more than all requests".into());
            }
            let led = backends.iter().map(|one| &*one.pool);
            for pool in led.chain(mirrors.iter().map(|one| &*one.pool)) {
                if let Some(pool) = pools.get(&(&*site.tenant, pool)) {
                    pool_of(pool).map_err(Wrong::Pool)?;
                }
            }
            Ok(())
        }
        Action::Redirect {
            scheme,
            host,
            path,
            status,
            port: _,
        } => {
            if !matches!(scheme.as_deref(), None | Some("http" | "https")) {
                return Err("a scheme is http or https".into());
            }
            if host.as_ref().is_some_and(|host| !is_server_name(host)) {
                return Err("a client is sent to what is no lower-case DNS name".into());
            }
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return Err("a client is sent elsewhere with 301, 302, 303, 307 or 308".into());
            }
            Ok(path
                .as_ref()
                .map_or(Ok(()), |path| change(path, is_prefix))?)
        }
        Action::Answer { status } if (200..600).contains(status) => Ok(()),
        Action::Answer { .. } => Err("an answer's status is 200 to 599".into()),
    }
}

fn matches(matches: &Match) -> Result<(), &'static str> {
    match &matches.path {
        PathMatch::Prefix(path) | PathMatch::Exact(path) => self::path(path)?,
        PathMatch::Regex(pattern) => regex::check(pattern)?,
    }
    let method = matches.method.as_ref();
    if method.is_some_and(|method| !is_word(method)) {
        return Err("a method is none");
    }
    for (name, value) in &matches.headers {
        if !is_header(name) {
            return Err("a header's name is none in lower case");
        }
        self::value(value)?;
    }
    for (name, value) in &matches.query {
        let is_name = (1..=1_024).contains(&name.len()) && is_text(name);
        if !is_name {
            return Err("a query parameter's name is none");
        }
        self::value(value)?;
    }
    Ok(())
}

fn value(value: &ValueMatch) -> Result<(), &'static str> {
    match value {
        ValueMatch::Exact(text) if is_text(text) => Ok(()),
        ValueMatch::Exact(_) => Err("a value is none that anybody can send"),
        ValueMatch::Regex(pattern) => regex::check(pattern),
    }
}

/// What a client can ask for.
fn path(path: &str) -> Result<(), &'static str> {
    let is_path = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'\\');
    if path.starts_with('/') && path.len() <= LONGEST && path.bytes().all(is_path) {
        Ok(())
    } else {
        Err("a path begins with / and has neither ?, #, \\, spaces nor anything beyond ASCII")
    }
}

fn change(change: &PathChange, is_prefix: bool) -> Result<(), &'static str> {
    match change {
        PathChange::Full(path) => self::path(path),
        PathChange::Prefix(_) if !is_prefix => Err("a prefix is changed that was not matched"),
        PathChange::Prefix(path) if path.is_empty() => Ok(()),
        PathChange::Prefix(path) => self::path(path),
    }
}

fn rewrite(rewrite: &Rewrite, is_prefix: bool) -> Result<(), &'static str> {
    if rewrite
        .host
        .as_ref()
        .is_some_and(|host| !is_server_name(host))
    {
        return Err("a host is rewritten to what is no lower-case DNS name");
    }
    rewrite
        .path
        .as_ref()
        .map_or(Ok(()), |path| change(path, is_prefix))
}

fn headers(change: &HeaderChange) -> Result<(), &'static str> {
    let values = change.set.iter().chain(&change.add);
    let names = change.set.keys().chain(change.add.keys());
    let names = names.chain(&change.remove);
    if change.set.len() + change.add.len() > MOST || change.remove.len() > MOST {
        return Err("more than 100 headers are changed");
    }
    for name in names {
        if !is_header(name) {
            return Err("a header's name is none in lower case");
        }
        if KEPT.contains(&&**name) || name.starts_with("x-envoy-") {
            return Err("a header is changed that is the connection's or the gateway's own");
        }
    }
    for (_, value) in values {
        if !is_text(value) {
            return Err("a header's value is none that anybody can send");
        }
    }
    Ok(())
}

pub fn is_word(text: &str) -> bool {
    is_token(text) && text.len() <= WORD
}

fn is_header(name: &str) -> bool {
    is_word(name) && !name.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_text(text: &str) -> bool {
    let is_of = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    text.len() <= LONGEST && text.bytes().all(is_of)
}

/// Bytes of a path or a value.
const LONGEST: usize = 4_096;

/// Bytes of a method or of a header's name.
const WORD: usize = 256;

/// Headers that one route changes.
const MOST: usize = 100;

/// Those that say where a message ends and what becomes of its connection (RFC 9110 section 7.6.1, RFC
/// 9112 section 6), and the host, which Envoy lets nobody change among headers.
const KEPT: [&str; 10] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];
