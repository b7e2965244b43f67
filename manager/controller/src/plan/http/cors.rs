//! Whose pages may read what is answered.

use std::time::Duration;

use kedge_control::{
    cors::{ANY, Cors, Origins},
    site::is_token,
};
use kedge_crd::http::HttpCors;

use super::{check::invalid, refusal::Refusal};

/// Checks what a rule says of it.
pub fn check(field: &str, cors: &HttpCors) -> Result<(), Refusal> {
    let is_origin = |text: &str| Origins::parse(&text.to_ascii_lowercase()).is_some();
    let not_origin = "it must be `*` or http:// or https:// with a name, perhaps `*` or `*.` before the rest of one, and a port or none";
    all(
        &format!("{field}.allowOrigins"),
        &cors.allow_origins,
        (is_origin, not_origin),
    )?;
    let not_method = "it is no method (RFC 9110)";
    all(
        &format!("{field}.allowMethods"),
        &cors.allow_methods,
        (is_token, not_method),
    )?;
    let not_header = "it is no name of a header (RFC 9110)";
    for (part, names) in [
        ("allowHeaders", &cors.allow_headers),
        ("exposeHeaders", &cors.expose_headers),
    ] {
        all(&format!("{field}.{part}"), names, (is_token, not_header))?;
    }
    match seconds(cors) {
        Some(_) => Ok(()),
        None => invalid(
            format!("{field}.maxAge"),
            "it must be whole seconds, at most 4294967295",
        ),
    }
}

/// It, as a gateway is told it.
pub fn told(cors: &HttpCors) -> Cors {
    let lower = |all: &[String]| all.iter().map(|one| one.to_ascii_lowercase()).collect();
    Cors {
        origins: lower(&cors.allow_origins),
        methods: cors.allow_methods.clone(),
        headers: lower(&cors.allow_headers),
        exposed: lower(&cors.expose_headers),
        credentials: cors.allow_credentials,
        max_age_seconds: seconds(cors).unwrap_or_default(),
    }
}

/// Every entry of a list is one, and `*` is alone.
fn all(
    field: &str,
    list: &[String],
    (is_one, not_one): (impl Fn(&str) -> bool, &str),
) -> Result<(), Refusal> {
    for (at, text) in list.iter().enumerate() {
        let field = format!("{field}[{at}]");
        if text == ANY && list.len() > 1 {
            return invalid(field, "`*` is everything: it stands alone");
        }
        if !is_one(text) {
            return invalid(field, not_one);
        }
    }
    Ok(())
}

/// Nothing where it cannot be said in the header.
fn seconds(cors: &HttpCors) -> Option<u32> {
    let age = cors.max_age.map_or(AGE, |age| age.duration());
    (age.subsec_nanos() == 0)
        .then(|| u32::try_from(age.as_secs()).ok())
        .flatten()
}

/// What browsers have as well where nothing is said.
const AGE: Duration = Duration::from_secs(5);
