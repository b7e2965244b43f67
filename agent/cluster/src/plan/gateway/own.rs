//! Addresses that Gateways have of their own: from a pool of the tenant's, shared with no other Gateway.
//!
//! What holds one is an HTTPLoadBalancer without names. So the Gateway has it before any route is attached, and
//! keeps it while routes come and go.

use kedge_crd::{
    Status,
    balancer::POOL_ANNOTATION,
    condition::find,
    http::{HttpAddress, HttpLoadBalancerSpec},
};

use super::listener::Reason;
use crate::{
    gateway_api::{Class, Gateway},
    names::start,
    plan::{
        http::{Asked, Http, Standing},
        owner::Owner,
    },
    snapshot::{Key, Offered},
};

/// The address that a Gateway asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// As the manager is asked for it.
    pub address: HttpAddress,
    /// How what is served there is told apart by name: the start of the Gateway's uid.
    pub at: String,
}

impl Own {
    /// What a Gateway asks for, or its class for all its Gateways.
    pub fn of(class: &Class, gateway: &Gateway) -> Option<Self> {
        let metas = [&gateway.metadata, &class.metadata].into_iter();
        let mut pools = metas.filter_map(|it| it.annotations.as_ref()?.get(POOL_ANNOTATION));
        let address = HttpAddress {
            pool: pools.next().filter(|pool| !pool.is_empty())?.clone(),
            shared_by: Key::of(gateway).to_string(),
        };
        let at = start(&gateway.metadata);
        Some(Self { address, at })
    }

    /// What holds it for the Gateway.
    pub fn asked(&self, gateway: &Gateway) -> Asked {
        Asked {
            spec: HttpLoadBalancerSpec {
                source: Some(Owner::from(gateway).source()),
                address: Some(self.address.clone()),
                ..HttpLoadBalancerSpec::default()
            },
            ..Asked::default()
        }
    }
}

/// The addresses of a Gateway.
#[derive(Debug, Default)]
pub struct Addresses {
    /// The addresses.
    pub addresses: Vec<String>,
    /// Why it cannot be reached at them.
    pub lacks: Option<Reason>,
}

/// The addresses of a Gateway: its own, or those of its tenant's gateway.
pub fn addresses(http: &Http<'_>, gateway: &Gateway, own: Option<&Own>) -> Addresses {
    let unassigned = |text: String| Some(("AddressNotAssigned", text));
    let offered = http.snapshot.offered.as_ref();
    let Some(own) = own else {
        let addresses = offered.map(|it| it.addresses.clone()).unwrap_or_default();
        let text = "the manager names no address of the gateway".to_owned();
        return Addresses {
            lacks: unassigned(text).filter(|_| addresses.is_empty()),
            addresses,
        };
    };
    let chosen = offered.and_then(|offered| chosen(offered, &own.address));
    let lacks = match http.standing(Owner::from(gateway), &own.asked(gateway)) {
        Standing::Refused(because) => unassigned(because.join("; ")),
        Standing::Said(said) => match (find(&said.conditions, "Accepted"), &chosen) {
            (Some(it), chosen) if it.status == Status::False => {
                let reason = match chosen {
                    Some(_) => "AddressNotUsable",
                    None => "AddressNotAssigned",
                };
                Some((reason, format!("{}: {}", it.reason, it.message)))
            }
            (_, Some(_)) => None,
            (_, None) => unassigned(WAITS.to_owned()),
        },
        Standing::Waiting => unassigned(WAITS.to_owned()).filter(|_| chosen.is_none()),
    };
    Addresses {
        addresses: chosen.into_iter().collect(),
        lacks,
    }
}

/// The address that was chosen for who asks so.
fn chosen(offered: &Offered, asked: &HttpAddress) -> Option<String> {
    let mut all = offered.http.values().filter_map(|item| {
        let has = item.status.as_ref()?.address.as_ref()?;
        let is_it = item.spec.as_ref()?.address.as_ref() == Some(asked);
        (is_it && has.pool == asked.pool && has.shared_by == asked.shared_by).then_some(has.ip)
    });
    all.next().map(|ip| ip.to_string())
}

/// While nothing is said.
const WAITS: &str = "it waits for the manager's answer";
