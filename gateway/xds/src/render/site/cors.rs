//! Whose pages may read what a route answers.

use std::{collections::HashMap, num::NonZeroU16};

use envoy_types::pb::{
    envoy::{
        config::route::v3::{HeaderMatcher, RouteMatch, header_matcher::HeaderMatchSpecifier},
        extensions::filters::http::cors::v3::{Cors as Filter, CorsPolicy},
        r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern},
    },
    google::protobuf::Any,
};
use kedge_control::cors::{ANY, Cors, Origins};

use super::{
    check::is_word,
    route::{exact, header, re2},
};
use crate::render::proto::{any, no, yes};

/// The filter of a listener that does it for routes that say so.
pub const FILTER: &str = "envoy.filters.http.cors";

/// What it is set to: nothing.
pub fn filter() -> Any {
    any(&Filter {})
}

/// What a route says.
pub fn policy(cors: Option<&Cors>) -> HashMap<String, Any> {
    let one = |cors| (FILTER.to_owned(), any(&told(cors)));
    cors.map(one).into_iter().collect()
}

/// What would have Envoy refuse it, or a browser.
pub fn check(cors: &Cors) -> Result<(), &'static str> {
    let lists = [&cors.origins, &cors.methods, &cors.headers, &cors.exposed];
    if lists.iter().any(|list| list.len() > MOST) {
        return Err("more than 64 origins, methods or headers are allowed");
    }
    if !cors.origins.iter().all(|one| Origins::parse(one).is_some()) {
        return Err("an origin is none");
    }
    let mut words = lists.iter().skip(1).flat_map(|list| list.iter());
    if !words.all(|word| is_word(word)) {
        return Err("what is allowed is no method, or no name of a header");
    }
    Ok(())
}

/// The requests by which a browser asks whether it may send one with a method: those do not have it.
pub fn preflights(matches: &RouteMatch, method: &str) -> RouteMatch {
    let of_a_page = HeaderMatcher {
        name: "origin".to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::PresentMatch(true)),
        ..HeaderMatcher::default()
    };
    let mut asking = matches.clone();
    asking.headers.retain(|one| one.name != ":method");
    asking.headers.extend([
        header(":method", exact("OPTIONS")),
        header("access-control-request-method", exact(method)),
        of_a_page,
    ]);
    asking
}

fn told(cors: &Cors) -> CorsPolicy {
    // Of a page that asks as the user a browser takes `*` for a header's name.
    let exposed = match cors.credentials && cors.exposed.iter().any(|one| one == ANY) {
        true => String::new(),
        false => cors.exposed.join(","),
    };
    let origins = cors.origins.iter();
    CorsPolicy {
        allow_origin_string_match: origins
            .filter_map(|one| Origins::parse(one))
            .map(origin)
            .collect(),
        allow_methods: cors.methods.join(","),
        allow_headers: cors.headers.join(","),
        expose_headers: exposed,
        max_age: cors.max_age_seconds.to_string(),
        allow_credentials: Some(if cors.credentials { yes() } else { no() }),
        // Who may not is answered here: a backend that knows nothing of it could only answer wrong.
        forward_not_matching_preflights: Some(no()),
        ..CorsPolicy::default()
    }
}

fn origin(origins: Origins<'_>) -> StringMatcher {
    let regex = |pattern: String| StringMatcher {
        match_pattern: Some(MatchPattern::SafeRegex(re2(pattern))),
        ..StringMatcher::default()
    };
    let Origins::Of { scheme, host, port } = origins else {
        return regex(".*".to_owned());
    };
    let port = port.map(NonZeroU16::get);
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    match (host, host.strip_prefix("*.")) {
        (ANY, _) => regex(format!(r"{scheme}://([^/:\[\]]+|\[[^/\[\]]*\]){port}")),
        (_, Some(rest)) => regex(format!(
            r"{scheme}://[^/:\[\]]+\.{}{port}",
            rest.replace('.', r"\.")
        )),
        (_, None) => exact(&format!("{scheme}://{host}{port}")),
    }
}

/// Entries of a list.
const MOST: usize = 64;
