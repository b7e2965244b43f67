//! What can be told from an HTTPLoadBalancer alone: each value that nobody could serve, by its field.

use std::collections::{BTreeMap, BTreeSet};

use kedge_control::{
    frontend::is_server_name,
    site::{is_host, is_token},
};
use kedge_crd::http::{
    HttpHeaders, HttpListener, HttpLoadBalancerSpec, HttpPath, HttpRule, PathChange, PathKind,
};

use super::{cors, names::ALL, refusal::Refusal};

/// Checks every value of a spec, whose load balancer has that generated name.
pub fn check(spec: &HttpLoadBalancerSpec, generated: &str) -> Result<(), Refusal> {
    for (at, host) in spec.hostnames.iter().enumerate() {
        if !is_host(host) {
            let why =
                "it must be a DNS name in lower case, at most with `*` as its first label, or `*`";
            return invalid(format!("spec.hostnames[{at}]"), why);
        }
    }
    let known = |host: &String| host == generated || spec.hostnames.contains(host);
    let hosts = |field: &str, hosts: &[String], with_all: bool| {
        let is_known = |host: &String| known(host) || (with_all && host == ALL);
        match hosts.iter().position(|host| !is_known(host)) {
            Some(at) => invalid(
                format!("{field}.hosts[{at}]"),
                "it is not in spec.hostnames",
            ),
            None => Ok(()),
        }
    };
    for (at, it) in spec.listeners.iter().enumerate() {
        let field = format!("spec.listeners[{at}]");
        hosts(&field, &it.hosts, false)?;
        let mut others = spec.listeners.iter().take(at);
        let is_it = |other: &HttpListener| match (it.port, other.port) {
            (None, None) => it.protocol == other.protocol,
            (one, other) => one == other,
        };
        match (it.port, others.any(is_it)) {
            (None, true) => return invalid(field, "its protocol is there twice"),
            (Some(_), true) => return invalid(format!("{field}.port"), "it is there twice"),
            (Some(_), false) if spec.address.is_none() => {
                let why = "at its gateway's addresses it is served at the gateway's ports; set spec.address";
                return invalid(format!("{field}.port"), why);
            }
            (_, false) => {}
        }
    }
    for (at, it) in spec.rules.iter().enumerate() {
        let field = format!("spec.rules[{at}]");
        hosts(&field, &it.hosts, false)?;
        rule(&field, it)?;
    }
    for (at, tls) in spec.tls.iter().enumerate() {
        let field = format!("spec.tls[{at}]");
        hosts(&field, &tls.hosts, !tls.passthrough)?;
        let ways = [
            tls.secret_ref.is_some(),
            tls.issuer.is_some(),
            tls.passthrough,
        ];
        if ways.into_iter().filter(|is_set| *is_set).count() != 1 {
            let why = "set secretRef, issuer or passthrough, one of the three";
            return invalid(field, why);
        }
    }
    Ok(())
}

fn rule(field: &str, rule: &HttpRule) -> Result<(), Refusal> {
    for (at, it) in rule.paths.iter().enumerate() {
        path(&format!("{field}.paths[{at}].path"), it)?;
    }
    if rule.method.as_deref().is_some_and(|it| !is_token(it)) {
        return invalid(format!("{field}.method"), "it is no method (RFC 9110)");
    }
    values(field, rule)?;
    let is_call = rule.method.as_deref().is_none_or(|method| method == "POST");
    if rule.grpc && !is_call {
        let why = "calls of gRPC are POST";
        return invalid(format!("{field}.method"), why);
    }
    for (at, backend) in rule.backends.iter().enumerate() {
        let field = format!("{field}.backends[{at}]");
        both(
            &field,
            backend.request_headers.as_ref(),
            backend.response_headers.as_ref(),
        )?;
    }
    let is_prefix = |path: &HttpPath| path.kind.unwrap_or_default() == PathKind::Prefix;
    let has_prefix = rule.paths.iter().all(is_prefix);
    if let Some(redirect) = &rule.redirect {
        if !rule.backends.is_empty() || rule.rewrite.is_some() || !rule.mirrors.is_empty() {
            let why = "a request that is sent elsewhere has no backends and is not rewritten";
            return invalid(format!("{field}.redirect"), why);
        }
        host(
            &format!("{field}.redirect.hostname"),
            redirect.hostname.as_deref(),
        )?;
        change(
            &format!("{field}.redirect.path"),
            redirect.path.as_ref(),
            has_prefix,
        )?;
        let status = redirect.status_code;
        if status.is_some_and(|status| ![301, 302, 303, 307, 308].contains(&status)) {
            let why = "it must be 301, 302, 303, 307 or 308";
            return invalid(format!("{field}.redirect.statusCode"), why);
        }
    }
    if let Some(rewrite) = &rule.rewrite {
        host(
            &format!("{field}.rewrite.hostname"),
            rewrite.hostname.as_deref(),
        )?;
        change(
            &format!("{field}.rewrite.path"),
            rewrite.path.as_ref(),
            has_prefix,
        )?;
    }
    both(
        field,
        rule.request_headers.as_ref(),
        rule.response_headers.as_ref(),
    )?;
    if let Some(said) = &rule.cors {
        let field = format!("{field}.cors");
        if rule.redirect.is_some() {
            return invalid(field, "a redirect is answered without it");
        }
        cors::check(&field, said)?;
    }
    let (whole, one) = (rule.timeout, rule.backend_timeout);
    for (name, span) in [("timeout", whole), ("backendTimeout", one)] {
        if span.is_some_and(|span| span.duration().as_millis() > u128::from(u32::MAX)) {
            return invalid(format!("{field}.{name}"), "it is longer than 49 days");
        }
    }
    let limit = whole.filter(|whole| !whole.duration().is_zero());
    match (limit, one) {
        (Some(limit), Some(one)) if one.duration() > limit.duration() => invalid(
            format!("{field}.backendTimeout"),
            "it is longer than timeout, which the whole answer may take",
        ),
        _ => Ok(()),
    }
}

/// What headers and query parameters are compared with.
fn values(field: &str, rule: &HttpRule) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    let texts = [
        ("headers", &rule.headers),
        ("headerExpressions", &rule.header_expressions),
    ];
    for (part, name, text) in each(texts) {
        let field = format!("{field}.{part}[{}]", shown(name));
        header(&field, name, Some(text))?;
        if !seen.insert(name.to_ascii_lowercase()) {
            return invalid(field, TWICE);
        }
    }
    let mut seen = BTreeSet::new();
    let texts = [
        ("query", &rule.query),
        ("queryExpressions", &rule.query_expressions),
    ];
    for (part, name, text) in each(texts) {
        let field = format!("{field}.{part}[{}]", shown(name));
        if name.is_empty() || !is_text(name) || !is_text(text) || text.len() > VALUE {
            return invalid(field, "it must be text of at most 4096 bytes");
        }
        if !seen.insert(name) {
            return invalid(field, "it is there twice");
        }
    }
    let texts = [
        ("headerExpressions", &rule.header_expressions),
        ("queryExpressions", &rule.query_expressions),
    ];
    for (part, name, text) in each(texts) {
        expression(&format!("{field}.{part}[{}]", shown(name)), text)?;
    }
    Ok(())
}

type Texts<'a> = (&'static str, &'a BTreeMap<String, String>);

fn each<'a>(
    of: [Texts<'a>; 2],
) -> impl Iterator<Item = (&'static str, &'a String, &'a String)> + 'a {
    let all = of.into_iter();
    all.flat_map(|(part, texts)| texts.iter().map(move |(name, text)| (part, name, text)))
}

fn expression(field: &str, text: &str) -> Result<(), Refusal> {
    if let Err(error) = regex::RegexBuilder::new(text).size_limit(REGEX).build() {
        let error = error.to_string();
        let told = error.lines().last().unwrap_or_default();
        let why = format!("it is no regular expression: {told}");
        return invalid(field.to_owned(), &why);
    }
    Ok(())
}

fn both(
    field: &str,
    request: Option<&HttpHeaders>,
    response: Option<&HttpHeaders>,
) -> Result<(), Refusal> {
    for (side, changed) in [("requestHeaders", request), ("responseHeaders", response)] {
        if let Some(changed) = changed {
            headers(&format!("{field}.{side}"), changed)?;
        }
    }
    Ok(())
}

fn path(field: &str, path: &HttpPath) -> Result<(), Refusal> {
    let text = &path.path;
    if path.kind == Some(PathKind::RegularExpression) {
        expression(field, text)?;
    } else if !text.starts_with('/') || text.contains(['?', '#']) || !is_visible(text) {
        return invalid(
            field.to_owned(),
            "it must begin with / and hold no space, ? or #",
        );
    }
    match text.len() {
        0..=LONGEST => Ok(()),
        _ => invalid(field.to_owned(), "it is longer than 1024 bytes"),
    }
}

fn change(field: &str, change: Option<&PathChange>, has_prefix: bool) -> Result<(), Refusal> {
    let Some(change) = change else { return Ok(()) };
    let text = match (&change.full, &change.prefix) {
        (Some(full), None) => full,
        (None, Some(prefix)) if has_prefix => prefix,
        (None, Some(_)) => {
            let why = "a prefix is put in the place of one: every path of the rule must be of type Prefix";
            return invalid(format!("{field}.prefix"), why);
        }
        _ => return invalid(field.to_owned(), "set full or prefix, one of the two"),
    };
    if text.starts_with('/') && !text.contains(['?', '#']) && is_visible(text) {
        return Ok(());
    }
    invalid(
        field.to_owned(),
        "it must begin with / and hold no space, ? or #",
    )
}

fn host(field: &str, host: Option<&str>) -> Result<(), Refusal> {
    match host {
        Some(host) if !is_server_name(host) => {
            invalid(field.to_owned(), "it is no DNS name in lower case")
        }
        _ => Ok(()),
    }
}

fn headers(field: &str, changed: &HttpHeaders) -> Result<(), Refusal> {
    for (part, values) in [("set", &changed.set), ("add", &changed.add)] {
        named(&format!("{field}.{part}"), values)?;
    }
    for (at, name) in changed.remove.iter().enumerate() {
        header(&format!("{field}.remove[{at}]"), name, None)?;
    }
    Ok(())
}

fn named(field: &str, values: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for (name, text) in values {
        let field = format!("{field}[{}]", shown(name));
        header(&field, name, Some(text))?;
        if !seen.insert(name.to_ascii_lowercase()) {
            return invalid(field, TWICE);
        }
    }
    Ok(())
}

fn header(field: &str, name: &str, value: Option<&str>) -> Result<(), Refusal> {
    if !is_token(name) || name.len() > NAME {
        return invalid(field.to_owned(), "it is no name of a header (RFC 9110)");
    }
    // Which site is asked is decided by it before any route is.
    if name.eq_ignore_ascii_case("host") {
        let why = "Host is the matter of hosts and of rewrite.hostname";
        return invalid(field.to_owned(), why);
    }
    match value {
        Some(value) if !is_text(value) || value.len() > VALUE => invalid(
            field.to_owned(),
            "its value must be text of at most 4096 bytes",
        ),
        _ => Ok(()),
    }
}

fn is_text(text: &str) -> bool {
    text.chars().all(|it| !it.is_control())
}

fn is_visible(text: &str) -> bool {
    text.chars()
        .all(|it| !it.is_control() && !it.is_whitespace())
}

/// A name in a field's path, for people.
fn shown(name: &str) -> String {
    let name: String = name.chars().take(64).collect();
    name.escape_debug().to_string()
}

pub fn invalid(field: String, why: &str) -> Result<(), Refusal> {
    let why = why.to_owned();
    Err(Refusal::Invalid { field, why })
}

const TWICE: &str = "it is there twice: names of headers have no case";
/// Bytes of a header's name.
const NAME: usize = 256;
/// Bytes of a value.
const VALUE: usize = 4096;
/// Bytes of a path.
const LONGEST: usize = 1024;
/// Bytes that a compiled expression may take here.
const REGEX: usize = 1 << 20;
