//! What a plan is made of: the cluster as it was seen, and what the manager offers of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use k8s_openapi::api::{
    core::v1::{Node, Service},
    discovery::v1::EndpointSlice,
    networking::v1::{Ingress, IngressClass},
};
use kedge_control::exposure::{Exposed, ExposureKind, ExposureList};
use kedge_crd::{
    Condition, HttpLoadBalancerSpec, HttpLoadBalancerStatus, TcpLoadBalancerSpec,
    TcpLoadBalancerStatus,
};
use kube::Resource;
use serde::de::DeserializeOwned;

use crate::{
    certificates::Certificate,
    gateway_api::{Class, Gateway, Grant, Route, Routed},
    plan::status::Note,
};

use crate::names::{CLASS, SERVICE_NAME, SLICE_CONTROLLER, SLICE_MANAGED_BY};

/// A namespace and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// A key.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object.
    #[must_use]
    pub fn of(object: &impl Resource<DynamicType = ()>) -> Self {
        let meta = object.meta();
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self::new(text(&meta.namespace), text(&meta.name))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The `loadBalancerClass` that is ours.
    pub class: String,
    /// Whether Services of type LoadBalancer without a class are ours as well.
    pub unclassed: bool,
    /// Whether the API server keeps `ipMode` (KEP-1860): what it drops would be written for ever.
    pub ip_mode: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            class: CLASS.to_owned(),
            unclassed: false,
            ip_mode: true,
        }
    }
}

/// The cluster and what is offered of it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What is configured.
    pub config: Config,
    /// Every Service.
    pub services: BTreeMap<Key, Service>,
    /// Every Node.
    pub nodes: BTreeMap<String, Node>,
    /// What of every EndpointSlice matters, by its own key.
    pub slices: BTreeMap<Key, Slice>,
    /// The Ingresses; `None` until they and their classes were seen whole.
    pub ingresses: Option<Ingresses>,
    /// The Gateway API; `None` where it is not there, or until it was seen whole.
    pub gateway: Option<GatewayApi>,
    /// The Secrets that Ingresses and Gateways of ours name, as far as they were asked for.
    pub certificates: BTreeMap<Key, Certificate>,
    /// What was told of an object, by its uid.
    pub told: BTreeMap<String, Vec<Note>>,
    /// What the manager offers; `None` until it has said so.
    pub offered: Option<Offered>,
    /// What the manager refused, by the name of the exposure, until it is asked again.
    pub refused: BTreeMap<String, ManagerRefusal>,
    /// The same of HTTPLoadBalancers.
    pub refused_http: BTreeMap<String, ManagerRefusal<HttpLoadBalancerSpec>>,
    /// Why the manager did not take the certificates, until it is asked again.
    pub refused_certificates: Option<String>,
    /// Why the cluster did not take the companion of a Service, until it is asked again.
    pub companions_refused: BTreeMap<Key, String>,
    /// The time for conditions, RFC 3339 in whole seconds.
    pub now: String,
}

/// The Ingresses of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Ingresses {
    /// Every Ingress.
    pub all: BTreeMap<Key, Ingress>,
    /// Every IngressClass.
    pub classes: BTreeMap<String, IngressClass>,
}

/// The Gateway API of a cluster.
#[derive(Clone, Debug, Default)]
pub struct GatewayApi {
    /// Every GatewayClass.
    pub classes: BTreeMap<String, Class>,
    /// Every Gateway.
    pub gateways: BTreeMap<Key, Gateway>,
    /// Every HTTPRoute.
    pub routes: BTreeMap<Key, Route>,
    /// Every GRPCRoute; `None` where there is no such kind.
    pub grpc: Option<BTreeMap<Key, Route>>,
    /// Every TLSRoute; `None` where there is no such kind.
    pub tls: Option<BTreeMap<Key, Route>>,
    /// Every ReferenceGrant.
    pub grants: BTreeMap<Key, Grant>,
    /// The labels of every namespace.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

impl GatewayApi {
    /// Every route.
    pub fn all_routes(&self) -> impl Iterator<Item = &Route> {
        let extra = [&self.grpc, &self.tls].into_iter().flatten();
        let extra = extra.flat_map(BTreeMap::values);
        self.routes.values().chain(extra)
    }

    /// Whether routes of a kind are known.
    #[must_use]
    pub const fn knows(&self, of: Routed) -> bool {
        match of {
            Routed::Http => true,
            Routed::Grpc => self.grpc.is_some(),
            Routed::Tls => self.tls.is_some(),
        }
    }
}

/// What of an EndpointSlice matters: the nodes with a ready endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The Service.
    pub service: Key,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub family: String,
    /// The nodes with a ready endpoint.
    pub nodes: BTreeSet<String>,
    /// All of it, where it is not the cluster's own work.
    pub written: Option<Box<EndpointSlice>>,
}

impl Slice {
    /// What of a slice matters; `None` where it is of no Service.
    ///
    /// A missing `ready` counts as ready, and one that terminates does not (KEP-1672): that is what
    /// kube-proxy says at the health check port of a Service, too.
    #[must_use]
    pub fn of(slice: &EndpointSlice) -> Option<Self> {
        let labels = slice.metadata.labels.as_ref()?;
        let service = labels.get(SERVICE_NAME)?;
        let namespace = slice.metadata.namespace.clone().unwrap_or_default();
        let ready = slice.endpoints.iter().filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            let ready = conditions.and_then(|it| it.ready).unwrap_or(true);
            let terminates = conditions.and_then(|it| it.terminating).unwrap_or(false);
            ready && !terminates
        });
        Some(Self {
            service: Key::new(namespace, service),
            family: slice.address_type.clone(),
            nodes: ready.filter_map(|it| it.node_name.clone()).collect(),
            written: is_written(slice).then(|| Box::new(trimmed(slice))),
        })
    }
}

/// Whether somebody else than Kubernetes' own controller wrote a slice.
fn is_written(slice: &EndpointSlice) -> bool {
    let labels = slice.metadata.labels.as_ref();
    let by = labels.and_then(|labels| labels.get(SLICE_MANAGED_BY));
    by.is_none_or(|by| by != SLICE_CONTROLLER)
}

fn trimmed(slice: &EndpointSlice) -> EndpointSlice {
    let mut slice = slice.clone();
    slice.metadata.managed_fields = None;
    slice.metadata.resource_version = None;
    slice
}

/// What the manager offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offered {
    /// The epoch in force.
    pub epoch: u64,
    /// The exposures of kind TCPLoadBalancer, by name.
    pub items: BTreeMap<String, Offer>,
    /// The exposures of kind HTTPLoadBalancer, by name.
    pub http: BTreeMap<String, HttpOffer>,
    /// Where clients reach the gateway.
    pub addresses: Vec<String>,
}

/// One exposure as the manager has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer<S = TcpLoadBalancerSpec, T = TcpLoadBalancerStatus> {
    /// What was asked for; `None` where that cannot be read.
    pub spec: Option<S>,
    /// What became of it; `None` while nothing did of this spec.
    pub status: Option<T>,
}

/// An HTTPLoadBalancer as the manager has it.
pub type HttpOffer = Offer<HttpLoadBalancerSpec, HttpLoadBalancerStatus>;

impl Offered {
    /// What of a list is ours.
    #[must_use]
    pub fn of(list: ExposureList) -> Self {
        let (mut items, mut http) = (BTreeMap::new(), BTreeMap::new());
        for item in list.items {
            let name = item.name.clone();
            match item.kind {
                ExposureKind::Tcp => {
                    let mut offer: Offer =
                        Offer::of(item, |status: &TcpLoadBalancerStatus| &status.conditions);
                    if let Some(spec) = &mut offer.spec {
                        as_asked(spec);
                    }
                    items.insert(name, offer);
                }
                ExposureKind::Http => {
                    let offer =
                        Offer::of(item, |status: &HttpLoadBalancerStatus| &status.conditions);
                    http.insert(name, offer);
                }
            }
        }
        Self {
            epoch: list.epoch,
            items,
            http,
            addresses: list.addresses,
        }
    }
}

impl<S: DeserializeOwned, T: DeserializeOwned> Offer<S, T> {
    fn of(exposed: Exposed, conditions: impl Fn(&T) -> &Vec<Condition>) -> Self {
        let status: Option<T> = serde_json::from_value(exposed.status).ok();
        // Where nobody counts generations both are 0.
        let is_current = exposed.observed_generation >= exposed.generation;
        Self {
            spec: serde_json::from_value(exposed.spec).ok(),
            status: status.filter(|status| is_current && !conditions(status).is_empty()),
        }
    }
}

/// A spec without what the manager chose.
fn as_asked(spec: &mut TcpLoadBalancerSpec) {
    // Of a port that its user took away the manager's choice may be left for a moment.
    spec.ports.retain(|port| port.port.is_some());
    for port in &mut spec.ports {
        port.listener_port = None;
    }
}

/// Why the manager did not take an exposure.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagerRefusal<S = TcpLoadBalancerSpec> {
    /// What it did not take.
    pub spec: S,
    /// What it said.
    pub because: String,
}
