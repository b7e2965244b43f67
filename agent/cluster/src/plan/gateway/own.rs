//! Addresses that Gateways have of their own: from a pool of the tenant's, shared with no other Gateway.
//!
//! What holds one is an HTTPLoadBalancer without names. So the Gateway has it before any route is attached, and
//! keeps it while routes come and go.

use std::{collections::BTreeSet, net::IpAddr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kedge_crd::{
    Status,
    balancer::POOL_ANNOTATION,
    condition::find,
    http::{HttpAddress, HttpListener, HttpLoadBalancerSpec},
};

use super::{
    bound::{MOST_PORTS, door, protocol},
    listener::{Place, Reason},
};
use crate::{
    gateway_api::{Class, Gateway},
    names::start,
    plan::{
        addresses::{is_asked, lacking},
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
        let address = HttpAddress {
            pool: pool([&gateway.metadata, &class.metadata])?.clone(),
            shared_by: Key::of(gateway).to_string(),
            ip: wanted(gateway).first().and_then(|it| it.parse().ok()),
        };
        let at = start(&gateway.metadata);
        Some(Self { address, at })
    }

    /// What holds it for the Gateway, and the ports of its listeners there.
    pub fn asked(&self, gateway: &Gateway, listeners: &[Place<'_>]) -> Asked {
        let open = listeners.iter().filter(|place| place.is_open());
        let doors: BTreeSet<_> = open.map(|place| door(place, true)).collect();
        let listeners = doors.into_iter().map(|(is_secure, port)| HttpListener {
            protocol: protocol(is_secure),
            port,
            ..HttpListener::default()
        });
        Asked {
            spec: HttpLoadBalancerSpec {
                source: Some(Owner::from(gateway).source()),
                address: Some(self.address.clone()),
                listeners: listeners.take(MOST_PORTS).collect(),
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

/// The pool that the first of these objects names which says anything of it.
pub fn pool<'a>(metas: impl IntoIterator<Item = &'a ObjectMeta>) -> Option<&'a String> {
    let all = metas.into_iter();
    let mut pools = all.filter_map(|it| it.annotations.as_ref()?.get(POOL_ANNOTATION));
    pools.next().filter(|pool| !pool.is_empty())
}

/// What a Gateway asks for that is no IP address: its value, or its type where that is another.
pub fn unsupported(gateway: &Gateway) -> Option<&str> {
    gateway.spec.addresses.iter().find_map(|asked| {
        let kind = asked.kind.as_deref().filter(|kind| *kind != "IPAddress");
        let value = asked.value.as_deref().filter(|it| !it.is_empty());
        kind.or_else(|| value.filter(|it| it.parse::<IpAddr>().is_err()))
    })
}

/// The addresses that a Gateway names.
fn wanted(gateway: &Gateway) -> Vec<String> {
    let all = gateway.spec.addresses.iter();
    let named = all.filter_map(|asked| asked.value.clone());
    named.filter(|value| !value.is_empty()).collect()
}

/// The addresses of a Gateway: its own, or those of its tenant's gateway; of those the ones it names, if it does.
pub fn addresses(http: &Http<'_>, gateway: &Gateway, own: Option<(&Own, &Asked)>) -> Addresses {
    let wanted = wanted(gateway);
    let unassigned = |text: String| Some(("AddressNotAssigned", text));
    let unusable = |text: String| Some(("AddressNotUsable", text));
    let offered = http.snapshot.offered.as_ref();
    let Some((own, held)) = own else {
        let all = offered.map(|it| it.addresses.clone()).unwrap_or_default();
        let lacks = match lacking(&wanted, &all) {
            _ if all.is_empty() => {
                unassigned("the manager names no address of the gateway".to_owned())
            }
            Some(wish) => unusable(format!(
                "{wish} is none of the gateway's addresses, {}; with the annotation {POOL_ANNOTATION} it may be one \
                 of a pool",
                all.join(", ")
            )),
            None => None,
        };
        let addresses = all.into_iter().filter(|it| is_asked(&wanted, it));
        return Addresses {
            addresses: addresses.collect(),
            lacks,
        };
    };
    let chosen = offered.and_then(|offered| chosen(offered, &own.address));
    let lacks = match http.standing(Owner::from(gateway), held) {
        Standing::Refused(because) => unassigned(because.join("; ")),
        Standing::Said(said) => match (find(&said.conditions, "Accepted"), &chosen) {
            (Some(it), chosen) if it.status == Status::False => {
                let text = format!("{}: {}", it.reason, it.message);
                match chosen.is_some() || own.address.ip.is_some() {
                    true => unusable(text),
                    false => unassigned(text),
                }
            }
            (_, Some(_)) => None,
            (_, None) => unassigned(WAITS.to_owned()),
        },
        Standing::Waiting => unassigned(WAITS.to_owned()).filter(|_| chosen.is_none()),
    };
    let several = || unusable("spec.addresses: of its own it may have one".to_owned());
    Addresses {
        addresses: chosen.into_iter().collect(),
        lacks: lacks.or_else(|| several().filter(|_| wanted.len() > 1)),
    }
}

/// The address that was chosen for who asks so.
fn chosen(offered: &Offered, asked: &HttpAddress) -> Option<String> {
    let mut all = offered.http.values().filter_map(|item| {
        let has = item.status.as_ref()?.address.as_ref()?;
        let is_it = item.spec.as_ref()?.address.as_ref() == Some(asked);
        let is_here = asked.ip.is_none_or(|ip| ip == has.ip);
        let is_it = is_it && has.pool == asked.pool && has.shared_by == asked.shared_by;
        (is_it && is_here).then_some(has.ip)
    });
    all.next().map(|ip| ip.to_string())
}

/// While nothing is said.
const WAITS: &str = "it waits for the manager's answer";
