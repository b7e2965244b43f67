//! The rule of a TLSRoute, as an HTTPLoadBalancer has it: one for each name, for what is passed through is told
//! apart by names alone. Its backends share the connections.

use std::num::NonZeroU16;

use kedge_crd::http::{HttpBackend, HttpRule};

use super::rules::{Made, resolve, share, weight};
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
    let heaviest = rule.backend_refs.iter().map(weight).max();
    let Some(heaviest) = heaviest.filter(|weight| *weight > 0) else {
        return Err("rules.backendRefs: a name that is passed through leads somewhere".to_owned());
    };
    let mut led = HttpRule::default();
    let weighted = rule.backend_refs.iter().filter(|it| weight(it) > 0);
    for reference in weighted {
        let found = resolve((snapshot, api), route, reference);
        if let Some((name, port)) = made.lead(found) {
            let share = share(reference, heaviest);
            led.backends.push(backend(name, port, share));
        }
    }
    if led.backends.is_empty() {
        // Connections to nobody are refused.
        let nobody = backend(NOBODY.to_owned(), NonZeroU16::MIN, None);
        led.backends.push(nobody);
    }
    made.rules.push(led);
    Ok(made)
}

const fn backend(name: String, port: NonZeroU16, weight: Option<u16>) -> HttpBackend {
    HttpBackend {
        name,
        port,
        weight,
        request_headers: None,
        response_headers: None,
    }
}
