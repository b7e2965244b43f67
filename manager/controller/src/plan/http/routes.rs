//! The rules of an HTTPLoadBalancer as routes of its site.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU16,
};

use kedge_control::site::{
    Action, HeaderChange, Match, Mirror, PathChange, PathMatch, Rewrite, Route, RouteBackend,
    ValueMatch,
};
use kedge_core::Span;
use kedge_crd::http::{self, HttpBackend, HttpHeaders, HttpPath, HttpRule, PathKind, Scheme};

use super::cors;

/// The pools that backends lead to.
pub trait Pools {
    /// The pool of a backend; `None` where it leads nowhere.
    fn pool(&mut self, name: &str, port: NonZeroU16) -> Option<String>;
    /// A name that no pool has, in its place: it takes its share of the requests.
    fn nobody(&self, backend: &HttpBackend) -> String;
}

/// The routes of rules, for a site of these names. A rule for other names alone is none of its.
pub fn routes(rules: &[HttpRule], names: &BTreeSet<&str>, pools: &mut impl Pools) -> Vec<Route> {
    let mut routes = Vec::new();
    for rule in rules {
        let hosts = rule.hosts.iter();
        let hosts: Vec<String> = hosts
            .filter(|host| names.contains(host.as_str()))
            .cloned()
            .collect();
        if hosts.is_empty() && !rule.hosts.is_empty() {
            continue;
        }
        let action = action(rule, pools);
        let paths = match rule.paths.is_empty() {
            true => vec![PathMatch::default()],
            false => rule.paths.iter().map(path).collect(),
        };
        routes.extend(paths.into_iter().map(|path| Route {
            hosts: hosts.clone(),
            matches: Match {
                path,
                method: rule.method.clone(),
                headers: headers(rule),
                query: query(rule),
                grpc: rule.grpc,
            },
            action: action.clone(),
            request_headers: changed(rule.request_headers.as_ref()),
            response_headers: changed(rule.response_headers.as_ref()),
            cors: rule.cors.as_ref().map(cors::told),
        }));
    }
    routes
}

/// The route that sends plain requests for names whose TLS is passed through to HTTPS.
pub fn to_https(hosts: Vec<String>, port: NonZeroU16) -> Route {
    Route {
        hosts,
        matches: Match::default(),
        action: Action::Redirect {
            scheme: Some("https".to_owned()),
            host: None,
            port: (port.get() != 443).then_some(port),
            path: None,
            status: 301,
        },
        request_headers: HeaderChange::default(),
        response_headers: HeaderChange::default(),
        cors: None,
    }
}

fn action(rule: &HttpRule, pools: &mut impl Pools) -> Action {
    if let Some(redirect) = &rule.redirect {
        let scheme = redirect.scheme.map(|scheme| match scheme {
            Scheme::Http => "http".to_owned(),
            Scheme::Https => "https".to_owned(),
        });
        return Action::Redirect {
            scheme,
            host: redirect.hostname.clone(),
            port: redirect.port,
            path: redirect.path.as_ref().and_then(change),
            status: redirect.status_code.unwrap_or(302),
        };
    }
    Action::Forward {
        backends: backends(rule, pools),
        rewrite: rule
            .rewrite
            .as_ref()
            .map_or_else(Rewrite::default, |rewrite| Rewrite {
                host: rewrite.hostname.clone(),
                path: rewrite.path.as_ref().and_then(change),
            }),
        timeout_milliseconds: milliseconds(rule.timeout),
        backend_timeout_milliseconds: milliseconds(rule.backend_timeout),
        retries: RETRIES,
        mirrors: mirrors(rule, pools),
    }
}

/// What gets copies; what is not there gets none.
fn mirrors(rule: &HttpRule, pools: &mut impl Pools) -> Vec<Mirror> {
    let all = rule.mirrors.iter().filter_map(|mirror| {
        Some(Mirror {
            pool: pools.pool(&mirror.name, mirror.port)?,
            millionths: mirror.millionths.unwrap_or(ALL),
        })
    });
    all.collect()
}

fn headers(rule: &HttpRule) -> BTreeMap<String, ValueMatch> {
    let mut all = lower(&rule.headers, exact);
    all.extend(lower(&rule.header_expressions, regex));
    all
}

fn query(rule: &HttpRule) -> BTreeMap<String, ValueMatch> {
    let exactly = rule.query.iter().map(|(name, text)| (name, exact(text)));
    let fitting = rule.query_expressions.iter();
    let fitting = fitting.map(|(name, text)| (name, regex(text)));
    let all = exactly.chain(fitting);
    all.map(|(name, value)| (name.clone(), value)).collect()
}

/// The backends of a rule; none where none of a weight is there.
fn backends(rule: &HttpRule, pools: &mut impl Pools) -> Vec<RouteBackend> {
    let found: Vec<_> = rule
        .backends
        .iter()
        .map(|it| (it, pools.pool(&it.name, it.port)))
        .collect();
    let weight = |backend: &HttpBackend| u32::from(backend.weight.unwrap_or(1));
    if !found
        .iter()
        .any(|(it, pool)| pool.is_some() && weight(it) > 0)
    {
        return Vec::new();
    }
    let each = found.into_iter().map(|(it, pool)| RouteBackend {
        pool: pool.unwrap_or_else(|| pools.nobody(it)),
        weight: weight(it),
        request_headers: changed(it.request_headers.as_ref()),
        response_headers: changed(it.response_headers.as_ref()),
    });
    each.collect()
}

fn path(path: &HttpPath) -> PathMatch {
    let text = path.path.clone();
    match path.kind.unwrap_or_default() {
        PathKind::Prefix => PathMatch::Prefix(text),
        PathKind::Exact => PathMatch::Exact(text),
        PathKind::RegularExpression => PathMatch::Regex(text),
    }
}

fn change(change: &http::PathChange) -> Option<PathChange> {
    let full = change.full.clone().map(PathChange::Full);
    full.or_else(|| change.prefix.clone().map(PathChange::Prefix))
}

fn changed(headers: Option<&HttpHeaders>) -> HeaderChange {
    let Some(headers) = headers else {
        return HeaderChange::default();
    };
    let remove = headers.remove.iter();
    HeaderChange {
        set: lower(&headers.set, str::to_owned),
        add: lower(&headers.add, str::to_owned),
        remove: remove.map(|name| name.to_ascii_lowercase()).collect(),
    }
}

/// Values by the names of their headers in lower case.
fn lower<T>(headers: &BTreeMap<String, String>, value: impl Fn(&str) -> T) -> BTreeMap<String, T> {
    let each = headers.iter();
    each.map(|(name, text)| (name.to_ascii_lowercase(), value(text)))
        .collect()
}

fn exact(text: &str) -> ValueMatch {
    ValueMatch::Exact(text.to_owned())
}

fn regex(text: &str) -> ValueMatch {
    ValueMatch::Regex(text.to_owned())
}

fn milliseconds(span: Option<Span>) -> u32 {
    span.map_or(0, |span| {
        u32::try_from(span.duration().as_millis()).unwrap_or(u32::MAX)
    })
}

/// Millionths of everything.
const ALL: u32 = 1_000_000;
/// How often another backend is asked: a host that just went must not cost a request, and a request that a
/// second one failed at is told to the client.
const RETRIES: u8 = 1;
