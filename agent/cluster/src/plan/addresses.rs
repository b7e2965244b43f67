//! The addresses a Service asks for.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use kedge_crd::tcp::TcpAddress;

use super::refusal::Refusal;
use crate::{
    names::{METALLB_ADDRESSES, POOLS},
    snapshot::Snapshot,
};

/// The addresses a Service asks for, as they are spelt: `spec.loadBalancerIP`, which is deprecated
/// and in use, and the annotations of MetalLB, which are a list.
#[must_use]
pub fn asked(service: &Service) -> Vec<String> {
    let spec = service.spec.as_ref();
    let field = spec.and_then(|spec| spec.load_balancer_ip.as_deref());
    let annotations = service.metadata.annotations.as_ref();
    let annotated = METALLB_ADDRESSES
        .iter()
        .filter_map(|key| annotations?.get(*key));
    let texts = field.into_iter().chain(annotated.map(String::as_str));
    let parts = texts.flat_map(|text| text.split(','));
    let mut all: Vec<String> = parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Whether an address is among those that are asked for; any is where none are.
#[must_use]
pub fn is_asked(asked: &[String], address: &str) -> bool {
    asked.is_empty() || asked.iter().any(|wish| is_same(wish, address))
}

/// The address of its own that a Service asks for, if it names a pool.
///
/// # Errors
///
/// It asks for what it cannot have: clients would be told of another address than the Service names.
pub fn own(snapshot: &Snapshot, service: &Service) -> Result<Option<TcpAddress>, Refusal> {
    let asked = asked(service);
    let Some(pool) = pool(service) else {
        return check(snapshot, &asked).map(|()| None);
    };
    let ip = match asked.as_slice() {
        [] => None,
        [one] => {
            let parsed = one.parse().map_err(|_| Refusal::NoAddress {
                wanted: one.clone(),
            });
            Some(parsed?)
        }
        several => {
            return Err(Refusal::OneAddress {
                wanted: several.join(", "),
            });
        }
    };
    let pool = pool.to_owned();
    Ok(Some(TcpAddress { pool, ip }))
}

/// The pool it names.
fn pool(service: &Service) -> Option<&str> {
    let annotations = service.metadata.annotations.as_ref()?;
    let pool = POOLS.iter().find_map(|key| annotations.get(*key));
    pool.map(String::as_str)
}

/// Whether the gateway has every address that is asked for.
fn check(snapshot: &Snapshot, asked: &[String]) -> Result<(), Refusal> {
    let Some(offered) = &snapshot.offered else {
        return Ok(());
    };
    match lacking(asked, &offered.addresses) {
        None => Ok(()),
        Some(wish) => Err(Refusal::Address {
            wanted: wish.to_owned(),
            has: offered.addresses.clone(),
        }),
    }
}

/// The first address that is asked for and is not there.
#[must_use]
pub fn lacking<'a>(asked: &'a [String], has: &[String]) -> Option<&'a str> {
    let mut asked = asked.iter().map(String::as_str);
    asked.find(|wish| !has.iter().any(|address| is_same(wish, address)))
}

fn is_same(one: &str, other: &str) -> bool {
    let parsed = |text: &str| text.parse::<IpAddr>().ok();
    match (parsed(one), parsed(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}
