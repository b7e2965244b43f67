//! One route.

use std::time::Duration;

use envoy_types::pb::envoy::{
    config::{
        core::v3::{
            HeaderValue, HeaderValueOption, RuntimeFractionalPercent,
            header_value_option::HeaderAppendAction,
        },
        route::v3::{
            HeaderMatcher, QueryParameterMatcher, RedirectAction, RetryPolicy, Route as Told,
            RouteAction, RouteMatch, WeightedCluster,
            header_matcher::HeaderMatchSpecifier,
            query_parameter_matcher::QueryParameterMatchSpecifier,
            redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier},
            retry_policy::{RetryHostPredicate, retry_host_predicate},
            route::Action as Does,
            route_action::{
                ClusterNotFoundResponseCode, ClusterSpecifier, HashPolicy, HostRewriteSpecifier,
                RequestMirrorPolicy,
                hash_policy::{ConnectionProperties, PolicySpecifier},
            },
            route_match::{GrpcRouteMatchOptions, PathSpecifier},
            weighted_cluster::ClusterWeight,
        },
    },
    extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate,
    r#type::{
        matcher::v3::{
            RegexMatchAndSubstitute, RegexMatcher, StringMatcher, string_matcher::MatchPattern,
        },
        v3::{FractionalPercent, fractional_percent::DenominatorType},
    },
};
use kedge_control::{
    frontend::{Affinity, Policy},
    site::{Action, HeaderChange, Match, PathChange, PathMatch, Route, RouteBackend, ValueMatch},
};
use serde::Serialize;

use super::{
    cors, regex,
    routes::{Door, answer},
};
use crate::render::{
    check::Pools,
    names,
    proto::{any, number, span},
};

/// A route, and what is known of the pools it leads to.
#[derive(Serialize)]
pub struct Served<'a> {
    route: &'a Route,
    /// Clusters and their shares. What is led to a pool that is not there is answered as [`nobody`] says.
    to: Vec<(String, &'a RouteBackend)>,
    /// Clusters that get copies.
    copies: Vec<(String, u32)>,
    /// Seconds after which a request without a byte is ended; 0 is never.
    idle_seconds: u32,
    /// Whether a client's address decides which member it gets.
    by_client: bool,
}

impl<'a> Served<'a> {
    pub fn new(tenant: &str, route: &'a Route, pools: &Pools<'_>) -> Self {
        let mut served = Self {
            route,
            to: Vec::new(),
            copies: Vec::new(),
            idle_seconds: 0,
            by_client: false,
        };
        let Action::Forward {
            backends, mirrors, ..
        } = &route.action
        else {
            return served;
        };
        for mirror in mirrors.iter().filter(|mirror| mirror.millionths > 0) {
            if let Some(pool) = pools.get(&(tenant, &*mirror.pool)) {
                let name = names::http_cluster(tenant, &pool.name);
                served.copies.push((name, mirror.millionths));
            }
        }
        let mut idle = Vec::new();
        for backend in backends.iter().filter(|backend| backend.weight > 0) {
            let Some(pool) = pools.get(&(tenant, &*backend.pool)) else {
                served.to.push((NOBODY.to_owned(), backend));
                continue;
            };
            let name = names::http_cluster(tenant, &pool.name);
            served.to.push((name, backend));
            served.by_client |=
                pool.affinity == Affinity::ClientIp || pool.policy == Policy::Maglev;
            idle.push(pool.limits.idle_seconds);
        }
        let is_endless = idle.contains(&0);
        served.idle_seconds = idle.into_iter().max().filter(|_| !is_endless).unwrap_or(0);
        served
    }
}

/// The route, and one for the requests by which browsers ask whether they may use its method.
pub fn render(served: &Served<'_>, door: Door) -> impl Iterator<Item = Told> {
    let told = told(served, door);
    let method = served.route.matches.method.as_ref();
    let method = method.filter(|_| served.route.cors.is_some());
    let asking = method.map(|method| Told {
        r#match: told.r#match.as_ref().map(|it| cors::preflights(it, method)),
        ..told.clone()
    });
    std::iter::once(told).chain(asking)
}

fn told(served: &Served<'_>, door: Door) -> Told {
    let route = served.route;
    let action = match &route.action {
        Action::Forward { .. } if served.to.is_empty() => answer(nobody(route).into()),
        Action::Forward { .. } => Does::Route(forward(served)),
        Action::Redirect { .. } => Does::Redirect(redirect(route, door)),
        Action::Answer { status } => answer((*status).into()),
    };
    let (request, response) = (&route.request_headers, &route.response_headers);
    Told {
        r#match: Some(matches(&route.matches)),
        request_headers_to_add: changed(request),
        request_headers_to_remove: request.remove.clone(),
        response_headers_to_add: changed(response),
        response_headers_to_remove: response.remove.clone(),
        typed_per_filter_config: cors::policy(route.cors.as_ref()),
        action: Some(action),
        ..Told::default()
    }
}

fn matches(matches: &Match) -> RouteMatch {
    let path = match &matches.path {
        PathMatch::Exact(path) => PathSpecifier::Path(path.clone()),
        PathMatch::Regex(pattern) => PathSpecifier::SafeRegex(re2(pattern.clone())),
        PathMatch::Prefix(path) => match elements(path) {
            "" => PathSpecifier::Prefix("/".to_owned()),
            path => PathSpecifier::PathSeparatedPrefix(path.to_owned()),
        },
    };
    // A call is a POST (gRPC over HTTP2, "Requests").
    let posted = matches.grpc.then(|| "POST".to_owned());
    let method = posted
        .iter()
        .chain(&matches.method)
        .take(1)
        .map(|one| header(":method", exact(one)));
    let headers = matches.headers.iter().map(|(name, value)| {
        // HTTP/2 calls it otherwise.
        let name = if name == "host" { ":authority" } else { name };
        header(name, matcher(value))
    });
    let query = matches
        .query
        .iter()
        .map(|(name, value)| QueryParameterMatcher {
            name: name.clone(),
            query_parameter_match_specifier: Some(QueryParameterMatchSpecifier::StringMatch(
                matcher(value),
            )),
        });
    RouteMatch {
        path_specifier: Some(path),
        headers: method.chain(headers).collect(),
        query_parameters: query.collect(),
        grpc: matches.grpc.then(GrpcRouteMatchOptions::default),
        ..RouteMatch::default()
    }
}

fn forward(served: &Served<'_>) -> RouteAction {
    let Action::Forward {
        rewrite,
        timeout_milliseconds,
        backend_timeout_milliseconds,
        retries,
        mirrors: _,
        backends: _,
    } = &served.route.action
    else {
        return RouteAction::default();
    };
    let host = rewrite.host.clone();
    let (prefix_rewrite, regex_rewrite) = match &rewrite.path {
        None => (String::new(), None),
        Some(change) => match rewritten(change, &served.route.matches.path) {
            Rewritten::Same => (String::new(), None),
            Rewritten::Prefix(to) => (to, None),
            Rewritten::Regex(by) => (String::new(), Some(by)),
        },
    };
    let (whole, one) = (*timeout_milliseconds, *backend_timeout_milliseconds);
    let whole = match (whole, one) {
        // Without another try the one is the whole.
        (0, one) if *retries == 0 => one,
        (whole, one) if *retries == 0 && one != 0 => whole.min(one),
        (whole, _) => whole,
    };
    RouteAction {
        cluster_specifier: Some(clusters(&served.to)),
        cluster_not_found_response_code: match nobody(served.route) {
            UNAVAILABLE => ClusterNotFoundResponseCode::ServiceUnavailable,
            _ => ClusterNotFoundResponseCode::InternalServerError,
        }
        .into(),
        request_mirror_policies: served.copies.iter().map(copied).collect(),
        prefix_rewrite,
        regex_rewrite,
        host_rewrite_specifier: host.map(HostRewriteSpecifier::HostRewriteLiteral),
        timeout: Some(span(Duration::from_millis(whole.into()))),
        idle_timeout: Some(span(Duration::from_secs(served.idle_seconds.into()))),
        retry_policy: (*retries > 0).then(|| again(*retries, one)),
        hash_policy: served.by_client.then(by_client).into_iter().collect(),
        ..RouteAction::default()
    }
}

/// What is answered where nobody serves: as Gateway API has it, for which a call of gRPC is UNAVAILABLE then,
/// which 503 stands for.
const fn nobody(route: &Route) -> u16 {
    match route.matches.grpc {
        true => UNAVAILABLE,
        false => 500,
    }
}

fn copied((cluster, millionths): &(String, u32)) -> RequestMirrorPolicy {
    RequestMirrorPolicy {
        cluster: cluster.clone(),
        runtime_fraction: Some(RuntimeFractionalPercent {
            default_value: Some(FractionalPercent {
                numerator: *millionths,
                denominator: DenominatorType::Million.into(),
            }),
            ..RuntimeFractionalPercent::default()
        }),
        // It is asked by the name that the client asked for.
        disable_shadow_host_suffix_append: true,
        ..RequestMirrorPolicy::default()
    }
}

fn clusters(to: &[(String, &RouteBackend)]) -> ClusterSpecifier {
    let is_plain =
        |it: &RouteBackend| it.request_headers.is_none() && it.response_headers.is_none();
    if let [(cluster, backend)] = to
        && is_plain(backend)
    {
        return ClusterSpecifier::Cluster(cluster.clone());
    }
    let weighed = to.iter().map(|(cluster, backend)| ClusterWeight {
        name: cluster.clone(),
        weight: Some(number(backend.weight)),
        request_headers_to_add: changed(&backend.request_headers),
        request_headers_to_remove: backend.request_headers.remove.clone(),
        response_headers_to_add: changed(&backend.response_headers),
        response_headers_to_remove: backend.response_headers.remove.clone(),
        ..ClusterWeight::default()
    });
    ClusterSpecifier::WeightedClusters(WeightedCluster {
        clusters: weighed.collect(),
        ..WeightedCluster::default()
    })
}

/// Another member is asked where the first one cannot have begun to answer.
fn again(retries: u8, milliseconds: u32) -> RetryPolicy {
    let others = RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(retry_host_predicate::ConfigType::TypedConfig(any(
            &PreviousHostsPredicate {},
        ))),
    };
    RetryPolicy {
        retry_on: "connect-failure,refused-stream,reset-before-request".to_owned(),
        num_retries: Some(number(retries.into())),
        per_try_timeout: (milliseconds > 0)
            .then(|| span(Duration::from_millis(milliseconds.into()))),
        retry_host_predicate: vec![others],
        host_selection_retry_max_attempts: 3,
        ..RetryPolicy::default()
    }
}

const fn by_client() -> HashPolicy {
    HashPolicy {
        terminal: false,
        policy_specifier: Some(PolicySpecifier::ConnectionProperties(
            ConnectionProperties { source_ip: true },
        )),
    }
}

fn redirect(route: &Route, door: Door) -> RedirectAction {
    let Action::Redirect {
        scheme,
        host,
        port,
        path,
        status,
    } = &route.action
    else {
        return RedirectAction::default();
    };
    // With another host Envoy forgets the port that was asked for.
    let usual = if door.tls { 443 } else { 80 };
    let own = (host.is_some() && scheme.is_none() && door.port != usual).then_some(door.port);
    let port = port.map(std::num::NonZeroU16::get).or(own);
    let path = path.as_ref().and_then(|change| match change {
        PathChange::Full(path) => Some(PathRewriteSpecifier::PathRedirect(path.clone())),
        PathChange::Prefix(_) => match rewritten(change, &route.matches.path) {
            Rewritten::Same => None,
            Rewritten::Prefix(to) => Some(PathRewriteSpecifier::PrefixRewrite(to)),
            Rewritten::Regex(by) => Some(PathRewriteSpecifier::RegexRewrite(by)),
        },
    });
    RedirectAction {
        host_redirect: host.clone().unwrap_or_default(),
        port_redirect: port.unwrap_or(0).into(),
        response_code: code(*status).into(),
        scheme_rewrite_specifier: scheme.clone().map(SchemeRewriteSpecifier::SchemeRedirect),
        path_rewrite_specifier: path,
        ..RedirectAction::default()
    }
}

const fn code(status: u16) -> RedirectResponseCode {
    match status {
        301 => RedirectResponseCode::MovedPermanently,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        _ => RedirectResponseCode::Found,
    }
}

/// How Envoy is told to change a path.
enum Rewritten {
    Same,
    Prefix(String),
    Regex(RegexMatchAndSubstitute),
}

fn rewritten(change: &PathChange, matched: &PathMatch) -> Rewritten {
    let by = |pattern: String, substitution: &str| {
        Rewritten::Regex(RegexMatchAndSubstitute {
            pattern: Some(re2(pattern)),
            substitution: substitution.to_owned(),
        })
    };
    match (change, matched) {
        (PathChange::Full(path), _) => by("^/.*$".to_owned(), path),
        (PathChange::Prefix(to), PathMatch::Prefix(from)) => match (elements(from), elements(to)) {
            ("", "") => Rewritten::Same,
            // What follows begins after the slash.
            ("", to) => Rewritten::Prefix(format!("{to}/")),
            // What follows brings its own slash, if anything follows.
            (from, "") => by(format!("^{}/*", regex::escaped(from)), "/"),
            (_, to) => Rewritten::Prefix(to.to_owned()),
        },
        (PathChange::Prefix(_), PathMatch::Exact(_) | PathMatch::Regex(_)) => Rewritten::Same,
    }
}

/// A path without the slash at its end.
fn elements(path: &str) -> &str {
    path.trim_end_matches('/')
}

/// Removed is before the rest, whatever its order.
fn changed(change: &HeaderChange) -> Vec<HeaderValueOption> {
    let set = change
        .set
        .iter()
        .map(|(name, value)| option(name, value, HeaderAppendAction::OverwriteIfExistsOrAdd));
    let add = change
        .add
        .iter()
        .map(|(name, value)| option(name, value, HeaderAppendAction::AppendIfExistsOrAdd));
    set.chain(add).collect()
}

fn option(name: &str, value: &str, action: HeaderAppendAction) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: name.to_owned(),
            // Envoy puts other things where one stands alone.
            value: value.replace('%', "%%"),
            ..HeaderValue::default()
        }),
        append_action: action.into(),
        keep_empty_value: true,
        ..HeaderValueOption::default()
    }
}

/// A header that must have such a value.
pub fn header(name: &str, value: StringMatcher) -> HeaderMatcher {
    HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(value)),
        ..HeaderMatcher::default()
    }
}

fn matcher(value: &ValueMatch) -> StringMatcher {
    match value {
        ValueMatch::Exact(text) => exact(text),
        ValueMatch::Regex(pattern) => StringMatcher {
            match_pattern: Some(MatchPattern::SafeRegex(re2(pattern.clone()))),
            ..StringMatcher::default()
        },
    }
}

pub fn exact(text: &str) -> StringMatcher {
    StringMatcher {
        match_pattern: Some(MatchPattern::Exact(text.to_owned())),
        ..StringMatcher::default()
    }
}

pub const fn re2(regex: String) -> RegexMatcher {
    RegexMatcher {
        regex,
        engine_type: None,
    }
}

/// RFC 9110 section 15.6.4.
const UNAVAILABLE: u16 = 503;
/// A name that no cluster has.
const NOBODY: &str = "-";
