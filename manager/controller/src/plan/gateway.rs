//! The gateway of a LoadBalancer and its ports there.

use std::num::NonZeroU16;

use kedge_crd::{EdgeGateway, Endpoint, gateway::InstanceStatus, meta::GatewayRef};

use super::{
    balancer::Balancer,
    because::Because,
    endpoint::{API, ports},
    ledger::{Ledger, gateway_of},
};
use crate::{
    snapshot::{Hearing, Snapshot},
    store::Name,
};

/// A gateway that serves a LoadBalancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayUse {
    /// The EdgeGateway.
    pub name: Name,
    /// The address clients use.
    pub address: String,
}

/// The gateway a LoadBalancer uses; it is written into its spec.
///
/// # Errors
///
/// None is named, or it cannot be reached.
pub fn in_use(snapshot: &Snapshot, balancer: &mut Balancer) -> Result<GatewayUse, Because> {
    let name = gateway_of(snapshot, &balancer.name, &balancer.spec).ok_or(Because::GatewayUnset)?;
    let gateway = snapshot.gateway(&name);
    let gateway = gateway.ok_or_else(|| Because::GatewayMissing {
        gateway: name.clone(),
    })?;
    let first = public_addresses(gateway).into_iter().next();
    let address = first.ok_or_else(|| Because::GatewayNoAddress {
        gateway: name.clone(),
    })?;
    balancer.spec.gateway_ref.get_or_insert_with(|| GatewayRef {
        name: name.name.clone(),
        namespace: Some(name.namespace.clone()),
    });
    Ok(GatewayUse { name, address })
}

/// Where clients reach a gateway's listeners: every address and name of its own.
#[must_use]
pub fn public_addresses(gateway: &EdgeGateway) -> Vec<String> {
    let of_service = &gateway.spec.service.addresses;
    if !of_service.is_empty() {
        return of_service.iter().map(ToString::to_string).collect();
    }
    let mut hosts: Vec<String> = Vec::new();
    for endpoint in &gateway.spec.tunnel.public_endpoints {
        if !hosts.contains(&endpoint.host) {
            hosts.push(endpoint.host.clone());
        }
    }
    hosts
}

/// The instances of a gateway that are heard and have their latest desired state.
pub fn current<'a>(
    snapshot: &'a Snapshot,
    name: &'a Name,
    gateway: &'a EdgeGateway,
) -> impl Iterator<Item = &'a InstanceStatus> {
    gateway.spec.instances.iter().filter_map(move |instance| {
        if snapshot.hearing(name, &instance.name) == Some(Hearing::Silent) {
            return None;
        }
        let mut all = gateway.status.instances.iter();
        let status = all.find(|status| status.name == instance.name)?;
        let wanted = instance.config.as_ref().map(|mark| mark.generation);
        (wanted == Some(status.config_generation)).then_some(status)
    })
}

/// Gives every port of the LoadBalancer one of the gateway's; answers with the first.
///
/// # Errors
///
/// The gateway's range is used up.
pub fn claim_ports(
    snapshot: &Snapshot,
    ledger: &mut Ledger,
    balancer: &mut Balancer,
    gateway: &Name,
    wish: Option<&Endpoint>,
) -> Result<NonZeroU16, Because> {
    let range = snapshot
        .gateway(gateway)
        .and_then(|object| object.spec.ports.range);
    let mut first = None;
    for port in ports(&balancer.spec, None) {
        let asked = balancer.spec.listeners.get(&port.name).copied();
        let wish = wish.filter(|_| first.is_none()).and_then(Endpoint::port);
        let wish = wish.and_then(NonZeroU16::new);
        let owner = (&balancer.name, port.name.as_str());
        let given = ledger
            .ports
            .claim((gateway, range), owner, asked.or(wish))?;
        balancer.spec.listeners.insert(port.name, given);
        first.get_or_insert(given);
    }
    Ok(first.unwrap_or(API))
}
