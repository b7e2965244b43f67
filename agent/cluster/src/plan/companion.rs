//! Services without node ports: each port that something of ours leads to has one at a Service beside it, which
//! is made for that, its companion.
//!
//! A companion has the Service's own selector, so that the cluster leads to its pods whoever runs; where there is
//! none, the endpoints somebody wrote are copied. The Service owns it, and it goes when nothing leads there.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU16,
};

use k8s_openapi::{
    api::{
        core::v1::{Service, ServicePort, ServiceSpec},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kedge_crd::{TcpLoadBalancerSpec, traffic::Transport};

use super::{Target, backend::numbered, claim::is_leaving, owner::Owner, wanted::protocol};
use crate::{
    names::{self, COMPANION, MANAGED_BY, MANAGER, SERVICE_NAME, SLICE_MANAGED_BY},
    snapshot::{Key, Offered, Snapshot},
};

/// A port of a Service that is reached by its companion.
pub type Door = (Key, NonZeroU16);

/// What is to be done about companions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Companions {
    /// Those that are missing or otherwise, with the key of the Service of each. Nothing else is done before.
    pub put: Vec<(Key, Service)>,
    /// Copies of endpoints that are missing or otherwise, with the key of the Service of each.
    pub copy: Vec<(Key, EndpointSlice)>,
    /// Copies of what is gone.
    pub forget: Vec<Target>,
    /// Those that nothing leads to any more.
    pub remove: Vec<Target>,
}

impl Companions {
    /// Whether something is to be there before the manager is told.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        !self.put.is_empty() || !self.copy.is_empty()
    }

    /// Whether nothing is to be done.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        !self.is_first() && self.forget.is_empty() && self.remove.is_empty()
    }
}

/// Whether a Service may have a companion: it has no node ports of its own, and an address in the cluster or none.
#[must_use]
pub fn may_have(spec: &ServiceSpec) -> bool {
    matches!(spec.type_.as_deref(), None | Some("ClusterIP"))
}

/// The node port of a Service's companion for one of its ports.
#[must_use]
pub fn node_port(snapshot: &Snapshot, service: &Service, port: NonZeroU16) -> Option<NonZeroU16> {
    let found = snapshot.services.get(&key(service))?;
    let is_its = is_companion_of(found, service) && !is_leaving(found);
    let spec = found.spec.as_ref().filter(|_| is_its)?;
    let number = i32::from(port.get());
    let mut ports = spec.ports.iter().flatten();
    let found = ports.find(|it| it.port == number && is_tcp(it))?;
    numbered(found.node_port?)
}

/// Why a Service cannot have a companion: something else has its name.
#[must_use]
pub fn taken(snapshot: &Snapshot, service: &Service) -> Option<String> {
    let beside = key(service);
    let standing = snapshot.services.get(&beside)?;
    let text = || format!("Service {beside} is there, and was not made for it");
    (!is_companion_of(standing, service)).then(text)
}

/// What is to be done, where these ports are led to.
#[must_use]
pub fn plan(
    snapshot: &Snapshot,
    offered: &Offered,
    exposures: &BTreeMap<String, TcpLoadBalancerSpec>,
    doors: &BTreeSet<Door>,
) -> Companions {
    let mut all = Companions::default();
    let mut wanted: BTreeMap<&Key, BTreeSet<NonZeroU16>> = BTreeMap::new();
    for (key, port) in doors {
        wanted.entry(key).or_default().insert(*port);
    }
    let is_in_use =
        |name: &String| offered.items.contains_key(name) || exposures.contains_key(name);
    let written = written(snapshot);
    let mut needed: BTreeSet<Key> = BTreeSet::new();
    for (own, service) in &snapshot.services {
        let asked = wanted.get(own);
        let beside = key(service);
        let standing = snapshot.services.get(&beside);
        // What leads to a Service that was a NodePort before goes on by itself.
        if asked.is_none() && standing.is_none() {
            continue;
        }
        let spec = service.spec.clone().unwrap_or_default();
        if !may_have(&spec) || is_leaving(service) || snapshot.companions_refused.contains_key(own)
        {
            continue;
        }
        let ports = spec.ports.iter().flatten().filter(|port| {
            numbered(port.port).is_some_and(|number| {
                // What is offered is led to until it is not.
                let led = [
                    names::backend(&service.metadata, number),
                    names::called(&service.metadata, number),
                ];
                let is_asked = asked.is_some_and(|all| all.contains(&number));
                is_tcp(port) && (is_asked || led.iter().any(is_in_use))
            })
        });
        let ports: Vec<ServicePort> = ports.cloned().collect();
        if ports.is_empty() {
            continue;
        }
        let companion = companion(service, &spec, ports);
        match standing {
            Some(standing) if !is_companion_of(standing, service) => continue,
            Some(standing) if is_leaving(standing) => continue,
            Some(standing) if is_as(standing, &companion) => {
                copies((snapshot, &written), own, (service, standing), &mut all);
            }
            _ => all.put.push((own.clone(), companion)),
        }
        needed.insert(beside);
    }
    for (key, service) in snapshot.services.iter().filter(|(_, it)| is_companion(it)) {
        let of_whom = |owner: &OwnerReference| {
            let own = Key::new(&key.namespace, &owner.name);
            snapshot.companions_refused.contains_key(&own)
        };
        let mut owners = service.metadata.owner_references.iter().flatten();
        if !needed.contains(key) && !is_leaving(service) && !owners.any(of_whom) {
            all.remove.push(Owner::from(service).target());
        }
    }
    all
}

/// The EndpointSlices that somebody or we wrote, by their Service.
type Written<'a> = BTreeMap<&'a Key, Vec<(&'a Key, &'a EndpointSlice)>>;

fn written(snapshot: &Snapshot) -> Written<'_> {
    let mut all = Written::new();
    for (key, slice) in &snapshot.slices {
        if let Some(it) = slice.written.as_deref() {
            all.entry(&slice.service).or_default().push((key, it));
        }
    }
    all
}

/// The copies of the endpoints of a Service without a selector.
fn copies(
    (snapshot, written): (&Snapshot, &Written<'_>),
    own: &Key,
    (service, companion): (&Service, &Service),
    all: &mut Companions,
) {
    let beside = Key::of(companion);
    let from = written.get(own).filter(|_| !has_selector(service));
    let mut needed = BTreeSet::new();
    for (key, slice) in from.into_iter().flatten() {
        let copy = copy(companion, key, slice);
        let at = Key::of(&copy);
        let standing = snapshot.slices.get(&at).and_then(|it| it.written.as_ref());
        let is_same = standing.is_some_and(|it| {
            it.address_type == copy.address_type
                && it.endpoints == copy.endpoints
                && it.ports == copy.ports
        });
        if !is_same {
            all.copy.push((own.clone(), copy));
        }
        needed.insert(at);
    }
    for (key, slice) in written.get(&beside).into_iter().flatten() {
        if is_copy(&slice.metadata) && !needed.contains(*key) {
            all.forget.push(Target {
                key: (*key).clone(),
                uid: slice.metadata.uid.clone().unwrap_or_default(),
            });
        }
    }
}

/// Where the companion of a Service is.
fn key(service: &Service) -> Key {
    let namespace = service.metadata.namespace.clone().unwrap_or_default();
    Key::new(namespace, names::companion(&service.metadata))
}

fn companion(service: &Service, spec: &ServiceSpec, ports: Vec<ServicePort>) -> Service {
    let ports = ports.into_iter().map(|port| ServicePort {
        node_port: None,
        ..port
    });
    let families = spec.ip_families.iter().flatten().take(1).cloned();
    Service {
        metadata: beside(names::companion(&service.metadata), &service.metadata),
        spec: Some(ServiceSpec {
            type_: Some("NodePort".to_owned()),
            selector: spec
                .selector
                .clone()
                .filter(|selector| !selector.is_empty()),
            ports: Some(ports.collect()),
            ip_family_policy: Some("SingleStack".to_owned()),
            ip_families: Some(families.collect()).filter(|all: &Vec<_>| !all.is_empty()),
            publish_not_ready_addresses: spec.publish_not_ready_addresses.filter(|it| *it),
            session_affinity: spec.session_affinity.clone(),
            session_affinity_config: spec.session_affinity_config.clone(),
            traffic_distribution: spec.traffic_distribution.clone(),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Who something is that stands beside a Service, which owns it.
fn beside(name: String, of: &ObjectMeta) -> ObjectMeta {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: of.name.clone().unwrap_or_default(),
        uid: of.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let mut labels = BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())]);
    labels.insert(COMPANION.to_owned(), owner.name.clone());
    ObjectMeta {
        name: Some(name),
        namespace: of.namespace.clone(),
        labels: Some(labels),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    }
}

fn copy(companion: &Service, from: &Key, written: &EndpointSlice) -> EndpointSlice {
    let name = names::copy(&companion.metadata, &from.name);
    let mut meta = beside(name, &companion.metadata);
    let labels = meta.labels.get_or_insert_default();
    let service = companion.metadata.name.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), service);
    labels.insert(SLICE_MANAGED_BY.to_owned(), MANAGER.to_owned());
    EndpointSlice {
        metadata: meta,
        address_type: written.address_type.clone(),
        endpoints: written.endpoints.clone(),
        ports: written.ports.clone(),
    }
}

/// Whether a Service is a companion of ours.
#[must_use]
pub fn is_companion(service: &Service) -> bool {
    let labels = service.metadata.labels.as_ref();
    labels.is_some_and(|labels| {
        labels.get(MANAGED_BY).map(String::as_str) == Some(MANAGER)
            && labels.contains_key(COMPANION)
    })
}

fn is_companion_of(companion: &Service, service: &Service) -> bool {
    let mut owners = companion.metadata.owner_references.iter().flatten();
    is_companion(companion) && owners.any(|it| Some(&it.uid) == service.metadata.uid.as_ref())
}

/// Whether an EndpointSlice is a copy of ours.
fn is_copy(meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    labels
        .and_then(|labels| labels.get(SLICE_MANAGED_BY))
        .map(String::as_str)
        == Some(MANAGER)
}

/// Whether a Service has its pods found by the cluster.
fn has_selector(service: &Service) -> bool {
    let selector = service
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| !selector.is_empty())
}

fn is_tcp(port: &ServicePort) -> bool {
    protocol(port) == Some(Transport::Tcp)
}

/// Whether a companion stands as it is to be.
fn is_as(standing: &Service, wanted: &Service) -> bool {
    let (Some(is), Some(to_be)) = (&standing.spec, &wanted.spec) else {
        return false;
    };
    let unnumbered = |port: &ServicePort| ServicePort {
        node_port: None,
        ..port.clone()
    };
    let ports = |spec: &ServiceSpec| -> Vec<ServicePort> {
        spec.ports.iter().flatten().map(unnumbered).collect()
    };
    let selector = |spec: &ServiceSpec| spec.selector.clone().unwrap_or_default();
    let not_ready = |spec: &ServiceSpec| spec.publish_not_ready_addresses.unwrap_or_default();
    // Others may label it as well.
    let labels = standing.metadata.labels.as_ref();
    let mut ours = wanted.metadata.labels.iter().flatten();
    ours.all(|(key, value)| labels.and_then(|all| all.get(key)) == Some(value))
        && ports(is) == ports(to_be)
        && selector(is) == selector(to_be)
        && not_ready(is) == not_ready(to_be)
        && is.type_ == to_be.type_
        && is.session_affinity == to_be.session_affinity
        && is.session_affinity_config == to_be.session_affinity_config
        && is.traffic_distribution == to_be.traffic_distribution
        && (to_be.ip_families.is_none() || is.ip_families == to_be.ip_families)
}
