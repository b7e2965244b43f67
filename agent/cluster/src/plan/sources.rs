//! The addresses that clients of a Service may have.

use ipnet::IpNet;
use k8s_openapi::api::core::v1::ServiceSpec;

use super::refusal::{MAX_SOURCES, Refusal};

/// The addresses that clients may have; any without one.
///
/// # Errors
///
/// One is no prefix, or they are more than a TCPLoadBalancer takes.
pub fn sources(spec: &ServiceSpec) -> Result<Vec<IpNet>, Refusal> {
    let texts = spec.load_balancer_source_ranges.as_deref();
    let texts = texts.unwrap_or_default();
    if are_everybody(texts, spec) {
        return Ok(Vec::new());
    }
    let mut sources: Vec<IpNet> = Vec::new();
    for text in texts {
        let source = prefix(text).ok_or_else(|| Refusal::SourceRange {
            value: text.clone(),
        })?;
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    let count = sources.len();
    match count > MAX_SOURCES {
        true => Err(Refusal::TooManySourceRanges { count }),
        false => Ok(sources),
    }
}

/// A prefix as API servers take it, with spaces around it and an address within. One of IPv4 in an address of IPv6
/// would never be a client's.
fn prefix(text: &str) -> Option<IpNet> {
    let prefix: IpNet = text.trim().parse().ok()?;
    (prefix.addr().to_canonical() == prefix.addr()).then(|| prefix.trunc())
}

/// Whether ranges of addresses are all there are of the Service's families.
fn are_everybody(ranges: &[String], spec: &ServiceSpec) -> bool {
    let has = |range: &str| ranges.iter().any(|it| it.trim() == range);
    let families = spec.ip_families.as_deref().unwrap_or_default();
    let is_v4_only = families == ["IPv4"];
    has("0.0.0.0/0") && (is_v4_only || has("::/0"))
}
