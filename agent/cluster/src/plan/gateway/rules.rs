//! The rules of an HTTPRoute or a GRPCRoute, as an HTTPLoadBalancer has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU16,
    time::Duration,
};

use kedge_core::Span;
use kedge_crd::{
    TcpLoadBalancerSpec,
    http::{
        HttpBackend, HttpHeaders, HttpMirror, HttpPath, HttpRedirect, HttpRewrite, HttpRule,
        PathChange, PathKind, Scheme,
    },
};

use super::{cors::cors, is_granted, listener::Reason};
use crate::{
    gateway_api::{
        Compared, Filter, HeaderModifier, PathModifier, Reference, Route, RouteMatch, RouteRule,
        Routed,
    },
    names::NOBODY,
    plan::{
        backend::{Backend, PortName, backend, called},
        companion::Door,
        trouble::Trouble,
    },
    snapshot::{GatewayApi, Key, Snapshot},
};

/// What is made of a route's rules.
#[derive(Debug, Default)]
pub struct Made {
    /// The rules.
    pub rules: Vec<HttpRule>,
    /// What they lead to, by name.
    pub backends: BTreeMap<String, TcpLoadBalancerSpec>,
    /// The ports of Services that are reached by companions.
    pub doors: BTreeSet<Door>,
    /// What they refer to, and do not find: requests for it are answered with 500.
    pub unresolved: Vec<Reason>,
}

/// The rules of a route.
///
/// # Errors
///
/// Something cannot be expressed.
pub fn rules(snapshot: &Snapshot, api: &GatewayApi, route: &Route) -> Result<Made, String> {
    let mut made = Made::default();
    for rule in &route.spec.rules {
        let mut acts = acts(rule)?;
        acts.mirrors = mirrors((snapshot, api), route, rule, &mut made)?;
        let backends = leads((snapshot, api), route, rule, &mut made)?;
        let base = HttpRule {
            grpc: route.spec.of == Routed::Grpc,
            backends: if acts.redirect.is_some() {
                Vec::new()
            } else {
                backends
            },
            ..acts
        };
        let mut paths: Vec<HttpPath> = Vec::new();
        for it in &rule.matches {
            let is_simple =
                it.headers.is_empty() && it.query_params.is_empty() && it.method.is_none();
            let headers = values("headers", &it.headers, |name| name.to_ascii_lowercase())?;
            let query = values("queryParams", &it.query_params, str::to_owned)?;
            match path(it)? {
                // Paths alone stand in one rule.
                Some(path) if is_simple && paths.len() < MAX_PATHS => paths.push(path),
                path => made.rules.push(HttpRule {
                    paths: path.into_iter().collect(),
                    method: it.method.clone(),
                    headers: headers.exact,
                    query: query.exact,
                    header_expressions: headers.expressions,
                    query_expressions: query.expressions,
                    ..base.clone()
                }),
            }
        }
        if !paths.is_empty() || rule.matches.is_empty() {
            made.rules.push(HttpRule { paths, ..base });
        }
    }
    Ok(made)
}

/// What is done with requests, but for where they go.
fn acts(rule: &RouteRule) -> Result<HttpRule, String> {
    if rule.retry.is_some() {
        return Err("retry: requests are not tried again".to_owned());
    }
    if rule.session_persistence.is_some() {
        return Err("sessionPersistence is not served".to_owned());
    }
    let mut acts = HttpRule::default();
    let timeouts = rule.timeouts.clone().unwrap_or_default();
    acts.timeout = timeouts.request.as_deref().map(span).transpose()?;
    acts.backend_timeout = timeouts.backend_request.as_deref().map(span).transpose()?;
    for filter in rule.filters.iter().filter(|it| it.kind != MIRROR) {
        act(&mut acts, filter)?;
    }
    if acts.redirect.is_some() && acts.cors.is_some() {
        return Err("filters: a RequestRedirect is answered without CORS".to_owned());
    }
    Ok(acts)
}

fn act(acts: &mut HttpRule, filter: &Filter) -> Result<(), String> {
    match filter.kind.as_str() {
        "RequestHeaderModifier" => {
            acts.request_headers = filter.request_header_modifier.as_ref().map(headers);
        }
        "ResponseHeaderModifier" => {
            acts.response_headers = filter.response_header_modifier.as_ref().map(headers);
        }
        "RequestRedirect" => {
            let asked = filter.request_redirect.clone().unwrap_or_default();
            let scheme = match asked.scheme.as_deref() {
                None => None,
                Some("http") => Some(Scheme::Http),
                Some("https") => Some(Scheme::Https),
                Some(other) => return Err(format!("filters: the scheme {other:?} is not known")),
            };
            acts.redirect = Some(HttpRedirect {
                scheme,
                hostname: asked.hostname,
                port: asked.port.and_then(numbered),
                path: asked.path.map(change),
                status_code: asked.status_code,
            });
        }
        "URLRewrite" => {
            let asked = filter.url_rewrite.clone().unwrap_or_default();
            acts.rewrite = Some(HttpRewrite {
                hostname: asked.hostname,
                path: asked.path.map(change),
            });
        }
        "CORS" => acts.cors = Some(cors(filter.cors.as_ref())?),
        other => return Err(format!("filters: {other} is not served")),
    }
    Ok(())
}

fn change(path: PathModifier) -> PathChange {
    let some = |text: String| {
        if text.is_empty() {
            "/".to_owned()
        } else {
            text
        }
    };
    PathChange {
        full: path.replace_full_path.map(some),
        prefix: path.replace_prefix_match.map(some),
    }
}

fn headers(asked: &HeaderModifier) -> HttpHeaders {
    let pairs = |all: &[Compared]| {
        let all = all.iter();
        let pair = |it: &Compared| {
            (
                it.name.to_ascii_lowercase(),
                it.value.clone().unwrap_or_default(),
            )
        };
        all.map(pair).collect()
    };
    HttpHeaders {
        set: pairs(&asked.set),
        add: pairs(&asked.add),
        remove: asked
            .remove
            .iter()
            .map(|name| name.to_ascii_lowercase())
            .collect(),
    }
}

fn path(it: &RouteMatch) -> Result<Option<HttpPath>, String> {
    let Some(path) = &it.path else {
        return Ok(None);
    };
    let text = path.value.as_deref().unwrap_or("/");
    let (kind, text) = match path.kind.as_deref() {
        None | Some("PathPrefix") => {
            let text = text.trim_end_matches('/');
            (None, if text.is_empty() { "/" } else { text })
        }
        Some("Exact") => (Some(PathKind::Exact), text),
        Some("RegularExpression") => (Some(PathKind::RegularExpression), text),
        Some(other) => return Err(format!("matches.path.type {other} is not known")),
    };
    let path = text.to_owned();
    Ok(Some(HttpPath { path, kind }))
}

/// Values that are compared.
#[derive(Debug, Default)]
struct Values {
    exact: BTreeMap<String, String>,
    expressions: BTreeMap<String, String>,
}

fn values(what: &str, all: &[Compared], spelt: impl Fn(&str) -> String) -> Result<Values, String> {
    let mut found = Values::default();
    for it in all {
        let (name, value) = (spelt(&it.name), it.value.clone().unwrap_or_default());
        // Of entries of one name the first counts.
        if found.exact.contains_key(&name) || found.expressions.contains_key(&name) {
            continue;
        }
        match it.kind.as_deref() {
            None | Some("Exact") => found.exact.insert(name, value),
            Some("RegularExpression") => found.expressions.insert(name, value),
            Some(other) => return Err(format!("matches.{what}.type {other} is not known")),
        };
    }
    Ok(found)
}

/// Where requests go.
fn leads(
    (snapshot, api): (&Snapshot, &GatewayApi),
    route: &Route,
    rule: &RouteRule,
    made: &mut Made,
) -> Result<Vec<HttpBackend>, String> {
    let heaviest = rule.backend_refs.iter().map(weight).max().unwrap_or(1);
    let mut all = Vec::new();
    for reference in &rule.backend_refs {
        let mut changes = HttpRule::default();
        for filter in &reference.filters {
            match filter.kind.as_str() {
                "RequestHeaderModifier" | "ResponseHeaderModifier" => act(&mut changes, filter)?,
                other => return Err(format!("backendRefs.filters: {other} is not served")),
            }
        }
        // A share of nobody is answered with 500, as the specification wants it (`HTTPRouteRule.backendRefs`).
        let found = resolve((snapshot, api), route, reference);
        let nobody = || (NOBODY.to_owned(), NonZeroU16::MIN);
        let (name, port) = made.lead(found).unwrap_or_else(nobody);
        all.push(HttpBackend {
            name,
            port,
            request_headers: changes.request_headers,
            response_headers: changes.response_headers,
            weight: share(reference, heaviest),
        });
    }
    // With nobody at all the whole rule is.
    if all.iter().all(|backend| backend.name == NOBODY) {
        all.clear();
    }
    Ok(all)
}

/// Why a backend is not led to.
pub enum Unresolved {
    /// Its companion is awaited.
    Opening(Door),
    /// It cannot be.
    Because(Reason),
}

impl Made {
    /// Leads to a backend, if it is there.
    pub fn lead(&mut self, found: Result<Backend, Unresolved>) -> Option<(String, NonZeroU16)> {
        match found {
            Ok(found) => {
                self.doors.extend(found.door);
                let at = (found.name.clone(), found.port);
                self.backends.insert(found.name, found.spec);
                return Some(at);
            }
            // It comes, and is led to before anything is said.
            Err(Unresolved::Opening(door)) => _ = self.doors.insert(door),
            Err(Unresolved::Because(reason)) => self.unresolved.push(reason),
        }
        None
    }
}

/// What gets copies of requests; what is not found gets none.
fn mirrors(
    at: (&Snapshot, &GatewayApi),
    route: &Route,
    rule: &RouteRule,
    made: &mut Made,
) -> Result<Vec<HttpMirror>, String> {
    let mut all = Vec::new();
    for filter in rule.filters.iter().filter(|it| it.kind == MIRROR) {
        let asked = filter.request_mirror.clone().unwrap_or_default();
        if let Some((name, port)) = made.lead(resolve(at, route, &asked.backend_ref)) {
            let millionths = asked.millionths()?;
            all.push(HttpMirror {
                name,
                port,
                millionths,
            });
        }
    }
    match all.len() > MAX_MIRRORS {
        true => Err(format!("filters: {MAX_MIRRORS} mirrors are served")),
        false => Ok(all),
    }
}

/// The Service that a route's reference leads to.
///
/// # Errors
///
/// None does, or it may not.
pub fn resolve(
    (snapshot, api): (&Snapshot, &GatewayApi),
    route: &Route,
    reference: &Reference,
) -> Result<Backend, Unresolved> {
    let because = |reason, text| Err(Unresolved::Because((reason, text)));
    let namespace = &Key::of(route).namespace;
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Service");
    if !group.is_empty() || kind != "Service" {
        let text = format!("{kind} {} is no Service", reference.name);
        return because("InvalidKind", text);
    }
    let to = reference.namespace.as_deref().unwrap_or(namespace);
    let key = Key::new(to, &reference.name);
    let of = route.spec.of.kind();
    if !is_granted(api, (of, namespace), ("", "Service", &key)) {
        let text = format!("no ReferenceGrant lets the {of} refer to Service {key}");
        return because("RefNotPermitted", text);
    }
    let port = PortName::Number(reference.port.unwrap_or_default());
    let found = match route.spec.of {
        Routed::Grpc => called(snapshot, &key, &port),
        Routed::Http | Routed::Tls => backend(snapshot, &key, &port),
    };
    let found = found.and_then(
        |found| match found.speaks_tls && route.spec.of != Routed::Tls {
            true => Err(Trouble::BackendTls {
                key,
                port: found.port,
            }),
            false => Ok(found),
        },
    );
    found.map_err(|trouble| {
        let reason = match &trouble {
            Trouble::Opening { key, port } => {
                return Unresolved::Opening((key.clone(), *port));
            }
            Trouble::ServiceMissing { .. } | Trouble::PortMissing { .. } => "BackendNotFound",
            Trouble::BackendTls { .. } | Trouble::NotTcp { .. } => "UnsupportedProtocol",
            other => other.reason(),
        };
        Unresolved::Because((reason, trouble.to_string()))
    })
}

pub fn weight(reference: &Reference) -> u32 {
    let weight = reference.weight.unwrap_or(1);
    u32::try_from(weight).unwrap_or_default()
}

/// The share of a backend among others, where it asks for one.
pub fn share(reference: &Reference, heaviest: u32) -> Option<u16> {
    reference
        .weight
        .map(|_| scaled(weight(reference), heaviest))
}

/// A share of up to 1000, and none that was there is lost.
fn scaled(weight: u32, heaviest: u32) -> u16 {
    let most = u32::from(MAX_WEIGHT);
    let scaled = match heaviest > most {
        true => (u64::from(weight) * u64::from(most) / u64::from(heaviest))
            .max(u64::from(weight.min(1))),
        false => u64::from(weight),
    };
    u16::try_from(scaled).unwrap_or(MAX_WEIGHT)
}

fn numbered(port: i32) -> Option<NonZeroU16> {
    NonZeroU16::new(u16::try_from(port).ok()?)
}

/// A duration such as `1h30m` (GEP-2257).
fn span(text: &str) -> Result<Span, String> {
    let bad = || format!("timeouts: {text:?} is no duration");
    let mut sum = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let unit = rest.get(digits..).ok_or_else(bad)?;
        let end = unit
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(unit.len());
        let (one, next) = rest.split_at_checked(digits + end).ok_or_else(bad)?;
        let one: Span = one.parse().map_err(|_| bad())?;
        sum = sum.checked_add(one.duration()).ok_or_else(bad)?;
        rest = next;
    }
    Ok(Span::new(sum))
}

/// What copies requests.
const MIRROR: &str = "RequestMirror";
/// As many mirrors as a rule takes.
const MAX_MIRRORS: usize = 4;
/// As many paths as a rule takes.
const MAX_PATHS: usize = 32;
/// The largest share of a backend.
const MAX_WEIGHT: u16 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums() {
        assert_eq!(span("1h30m").unwrap(), Span::from_secs(5400));
        assert_eq!(span("500ms").unwrap(), Span::from_millis(500));
        assert_eq!(span("0s").unwrap(), Span::from_secs(0));
        for bad in ["1", "h", "1x", "é", "1s-"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_keep_their_proportion() {
        assert_eq!(scaled(3, 9), 3);
        assert_eq!(scaled(500_000, 1_000_000), 500);
        assert_eq!(scaled(1, 1_000_000), 1);
        assert_eq!(scaled(0, 1_000_000), 0);
    }
}
