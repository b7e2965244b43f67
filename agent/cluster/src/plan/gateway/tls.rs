//! The rule of a TLSRoute, as an HTTPLoadBalancer has it: one backend for each name, for what is passed through
//! is told apart by names alone.

use std::num::NonZeroU16;

use kedge_crd::http::{HttpBackend, HttpRule};

use super::rules::{Made, resolve};
use crate::{
    gateway_api::Route,
    names::NOBODY,
    snapshot::{GatewayApi, Snapshot},
};

/// The rule of a route.
///
/// # Errors
///
/// Something cannot be expressed.
pub fn rules(snapshot: &Snapshot, api: &GatewayApi, route: &Route) -> Result<Made, String> {
    let mut made = Made::default();
    let [rule] = &route.spec.rules[..] else {
        return Err("rules: one rule is served".to_owned());
    };
    let led = rule.backend_refs.iter();
    let led: Vec<_> = led.filter(|it| it.weight.unwrap_or(1) > 0).collect();
    let [reference] = &led[..] else {
        return Err(
            "rules.backendRefs: a name that is passed through leads to one backend".to_owned(),
        );
    };
    // Connections to nobody are refused.
    let found = resolve((snapshot, api), route, reference);
    let nobody = || (NOBODY.to_owned(), NonZeroU16::MIN);
    let (name, port) = made.lead(found).unwrap_or_else(nobody);
    made.rules.push(HttpRule {
        backends: vec![HttpBackend {
            name,
            port,
            weight: None,
            request_headers: None,
            response_headers: None,
        }],
        ..HttpRule::default()
    });
    Ok(made)
}
