//! What plans look at: every object typed, and who is heard of. A value; plans see nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use kedge_control::report::{GatewayReport, HostReport};
use kedge_core::{Code, Problem};
use kedge_crd::{
    Cluster, EdgeGateway, EdgeHost, ElementalHost, ElementalMachine, Endpoint, InfraCluster,
    LoadBalancerSpec, LoadBalancerStatus, Machine, ObjectMeta, Resource, Tenant, VipPool, balancer,
    capi, elemental, meta, tenant,
};
use serde::{Deserialize as _, de::DeserializeOwned};

use crate::{
    certificates, managers,
    plan::share::{Commons, Face},
    store::{CLAIM_KIND, IPAM_GROUP, Layers, Name, ObjectKey, Objects},
};

/// What stands beside the manager, and so what it need not, or must, do itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Environment {
    /// A directory: no Cluster API core, no API server. Nobody sets owner references, nobody
    /// copies an endpoint from the infrastructure cluster to the Cluster, nobody holds a
    /// finalizer, and an object that is gone was deleted.
    #[default]
    Directory,
    /// A Kubernetes API with Cluster API's core beside us.
    Kubernetes {
        /// The contract of every infrastructure kind, by group and kind, as the labels of its CRD
        /// tell.
        contracts: BTreeMap<(String, String), Contract>,
        /// Every kind that is watched, by group and kind.
        served: BTreeSet<(String, String)>,
    },
}

impl Environment {
    /// Whether Cluster API's core owns infrastructure clusters, copies endpoints and waits for
    /// hooks.
    #[must_use]
    pub const fn has_core(&self) -> bool {
        matches!(self, Self::Kubernetes { .. })
    }

    /// Whether an object that is being deleted is seen and waits for finalizers.
    #[must_use]
    pub const fn has_finalizers(&self) -> bool {
        matches!(self, Self::Kubernetes { .. })
    }

    /// Whether somebody may read objects of that kind.
    #[must_use]
    pub fn serves(&self, group: &str, kind: &str) -> bool {
        match self {
            Self::Directory => false,
            Self::Kubernetes { served, .. } => {
                served.contains(&(group.to_owned(), kind.to_owned()))
            }
        }
    }

    /// The version of Cluster API's claims and addresses, where it serves them.
    #[must_use]
    pub fn ipam(&self) -> Option<Contract> {
        match self {
            Self::Directory => None,
            Self::Kubernetes { .. } => self.contract(IPAM_GROUP, CLAIM_KIND, ""),
        }
    }

    /// The contract an infrastructure kind speaks, where it is known.
    #[must_use]
    pub fn contract(&self, group: &str, kind: &str, api_version: &str) -> Option<Contract> {
        match self {
            Self::Directory if api_version.ends_with("/v1beta2") => Some(Contract::V1Beta2),
            Self::Directory => Some(Contract::V1Beta1),
            Self::Kubernetes { contracts, .. } => {
                contracts.get(&(group.to_owned(), kind.to_owned())).copied()
            }
        }
    }
}

impl Contract {
    /// The contract as it is spelt.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }
}

/// A version of Cluster API's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contract {
    /// `status.ready`, conditions with a severity.
    V1Beta1,
    /// `status.initialization.provisioned`, conditions of metav1.
    V1Beta2,
}

/// Everything a plan looks at.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The time, RFC 3339; only changes of conditions carry it on.
    pub now: String,
    /// The CA certificates hosts shall trust, PEM.
    pub ca_bundle: String,
    /// What stands beside the manager.
    pub environment: Environment,
    /// What the names of endpoints resolve to; `None` where nobody looks.
    pub names: Option<Arc<BTreeMap<String, BTreeSet<IpAddr>>>>,
    /// Where the kubeconfig Secrets of clusters lead, of those that were looked at.
    pub kubeconfigs: BTreeMap<Name, Kubeconfig>,
    /// The Secrets that HTTPLoadBalancers name, of those that an API server was asked for.
    pub certificates: BTreeMap<Name, certificates::Found>,
    /// Who is heard of.
    pub live: Live,
    /// The layers.
    pub objects: Arc<Objects>,
    /// Clusters, as their user wrote them.
    pub clusters: BTreeMap<Name, Cluster>,
    /// Machines.
    pub machines: BTreeMap<Name, Machine>,
    /// ElementalMachines.
    pub elemental_machines: BTreeMap<Name, ElementalMachine>,
    /// ElementalHosts.
    pub elemental_hosts: BTreeMap<Name, ElementalHost>,
    /// Tenants, by name.
    pub tenants: BTreeMap<String, Tenant>,
    /// VIPPools.
    pub pools: BTreeMap<Name, VipPool>,
    /// EdgeGateways, in force.
    pub gateways: BTreeMap<Name, EdgeGateway>,
    /// EdgeHosts, in force.
    pub hosts: BTreeMap<Name, Arc<EdgeHost>>,
    /// LoadBalancers.
    pub balancers: BTreeMap<Name, BalancerLayers>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// The objects whose last write was refused and that are left alone for a moment, and why.
    pub refused: BTreeMap<ObjectKey, Problem>,
    /// The namespace that is looked at; empty where it is everything.
    pub space: String,
    /// What other namespaces have of the gateways.
    pub commons: Arc<Commons>,
    /// The gateways of other namespaces.
    pub faces: BTreeMap<Name, Face>,
}

/// What is known of the kubeconfig Secret of a cluster; of its content nothing but where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kubeconfig {
    /// There is none yet.
    Missing,
    /// It leads to this server.
    Leads(String),
    /// It is not of the shape that Cluster API writes.
    Unusable(String),
    /// Its namespace is not one of those whose kubeconfigs are ours to read.
    Unlisted,
    /// The API server does not let us; the rule that is missing.
    Forbidden(String),
}

/// A LoadBalancer by layer.
#[derive(Clone, Debug, Default)]
pub struct BalancerLayers {
    /// What the user wrote.
    pub written: Option<LoadBalancerSpec>,
    /// Its metadata.
    pub meta: ObjectMeta,
    /// What was asked for when last seen, from a user's object or from annotations.
    pub given: Option<LoadBalancerSpec>,
    /// What Kedge decided.
    pub kept: Option<LoadBalancerSpec>,
    /// Its status.
    pub status: LoadBalancerStatus,
}

/// An infrastructure cluster.
#[derive(Clone, Debug)]
pub struct Infra {
    /// Its key.
    pub key: ObjectKey,
    /// Its `apiVersion`, as written.
    pub api_version: String,
    /// Its metadata.
    pub meta: ObjectMeta,
    /// The endpoint as its user wrote it.
    pub written: Endpoint,
}

/// Who is heard of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// Hosts.
    pub hosts: BTreeMap<Name, HostLive>,
    /// Gateway instances, by gateway and instance.
    pub gateways: BTreeMap<(Name, String), GatewayLive>,
}

/// What is heard of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostLive {
    /// Whether it is heard.
    pub hearing: Hearing,
    /// Its last report since the manager started.
    pub report: Option<HostReport>,
    /// Whether two machines were seen to use its identity within a certificate's life.
    pub is_contested: bool,
}

/// What is heard of a gateway instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayLive {
    /// Whether it is heard.
    pub hearing: Hearing,
    /// Its last report since the manager started.
    pub report: Option<GatewayReport>,
}

/// Whether somebody is heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hearing {
    /// The manager has not listened for long enough to tell.
    #[default]
    Unknown,
    /// Heard.
    Alive,
    /// Not heard.
    Silent,
}

impl Snapshot {
    /// Types everything the store holds.
    #[must_use]
    pub fn observe(objects: &Objects, live: Live, ca_bundle: &str, now: &str) -> Self {
        Self::of(Arc::new(objects.clone()), live, ca_bundle, now)
    }

    /// Types everything in these objects.
    #[must_use]
    pub fn of(shared: Arc<Objects>, live: Live, ca_bundle: &str, now: &str) -> Self {
        let objects = &*shared;
        let mut problems = objects.problems.clone();
        let capi = |kind| (capi::GROUP, kind);
        let elemental = |kind| (elemental::GROUP, kind);
        let clusters = as_written(objects, capi("Cluster"));
        let machines = as_written(objects, capi("Machine"));
        let elemental_machines = as_written(objects, elemental(elemental::MACHINE_KIND));
        let elemental_hosts = as_written(objects, elemental(elemental::HOST_KIND));
        let tenants: BTreeMap<Name, Tenant> = as_written(objects, ours::<kedge_crd::TenantSpec>());
        let pools = as_written(objects, ours::<kedge_crd::VipPoolSpec>());
        let hosts = in_force(objects, ours::<kedge_crd::EdgeHostSpec>(), &mut problems);
        // Most stay as they are: a plan changes a few in its own copy.
        let hosts = hosts.into_iter().map(|(name, host)| (name, Arc::new(host)));
        let hosts = hosts.collect();
        let gateways = in_force(objects, ours::<kedge_crd::EdgeGatewaySpec>(), &mut problems);
        let balancers = objects
            .of_kind(meta::GROUP, LoadBalancerSpec::KIND)
            .map(|(key, layers)| (key.name.clone(), balancer_layers(layers)))
            .collect();
        Self {
            now: now.to_owned(),
            ca_bundle: ca_bundle.to_owned(),
            environment: Environment::default(),
            names: None,
            kubeconfigs: BTreeMap::new(),
            certificates: BTreeMap::new(),
            live,
            clusters,
            machines,
            elemental_machines,
            elemental_hosts,
            tenants: tenants
                .into_iter()
                .map(|(name, tenant)| (name.name, tenant))
                .collect(),
            pools,
            gateways,
            hosts,
            balancers,
            problems,
            refused: BTreeMap::new(),
            space: String::new(),
            commons: Arc::default(),
            faces: BTreeMap::new(),
            objects: shared,
        }
    }

    /// The same, seen beside other neighbours.
    #[must_use]
    pub fn within(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// The infrastructure cluster a Cluster refers to, of whatever kind.
    #[must_use]
    pub fn infra(&self, cluster: &Cluster) -> Option<Infra> {
        let reference = cluster.spec.infrastructure_ref.as_ref()?;
        let namespace = reference.namespace.as_deref();
        let namespace = namespace.unwrap_or_else(|| cluster.metadata.namespace());
        let name = Name::new(namespace, &reference.name);
        let key = ObjectKey::new(reference.group(), &reference.kind, name);
        let object: InfraCluster = self.objects.get(&key)?.as_written()?;
        Some(Infra {
            key,
            api_version: object.api_version,
            meta: object.metadata,
            written: object.spec.control_plane_endpoint.unwrap_or_default(),
        })
    }

    /// A gateway, of whatever namespace.
    #[must_use]
    pub fn gateway(&self, name: &Name) -> Option<&EdgeGateway> {
        let elsewhere = || self.faces.get(name).map(|face| &face.gateway);
        self.gateways.get(name).or_else(elsewhere)
    }

    /// Whether an instance of a gateway of whatever namespace is heard.
    #[must_use]
    pub fn hearing(&self, gateway: &Name, instance: &str) -> Option<Hearing> {
        if let Some(face) = self.faces.get(gateway) {
            return face.hearing.get(instance).copied();
        }
        let key = (gateway.clone(), instance.to_owned());
        self.live.gateways.get(&key).map(|live| live.hearing)
    }

    /// The certificate in a Secret; `None` where it was not read yet. On a directory it is a document
    /// like others.
    #[must_use]
    pub fn certificate(&self, secret: &Name) -> Option<certificates::Found> {
        if self.environment.has_core() {
            return self.certificates.get(secret).cloned();
        }
        let key = ObjectKey::new("", "Secret", secret.clone());
        let layers = self.objects.get(&key);
        let layers = layers.filter(|layers| layers.user.is_some() || !layers.owned.is_empty());
        Some(layers.map_or(certificates::Found::Missing, |layers| {
            certificates::Found::of(&layers.effective())
        }))
    }

    /// The tenant whose objects live in that namespace; the first by name if several claim it.
    #[must_use]
    pub fn tenant_of(&self, namespace: &str) -> Option<&Tenant> {
        self.tenants
            .values()
            .find(|tenant| tenant::namespace(tenant) == namespace)
    }

    /// Whether a document is unreadable and no earlier version of it is known: then nothing may be
    /// taken for deleted.
    #[must_use]
    pub fn incomplete(&self) -> bool {
        self.objects.incomplete
    }

    /// Whether the host is heard; what its status says while the manager cannot tell yet.
    #[must_use]
    pub fn is_alive(&self, name: &Name) -> bool {
        match self.live.hosts.get(name).map(|live| live.hearing) {
            Some(Hearing::Alive) => true,
            Some(Hearing::Silent) => false,
            None | Some(Hearing::Unknown) => self.hosts.get(name).is_some_and(|host| {
                let last = kedge_crd::condition::find(&host.status.conditions, "AgentAlive");
                last.is_some_and(|condition| condition.status == kedge_crd::Status::True)
            }),
        }
    }
}

/// The key of one of our objects.
#[must_use]
pub fn key<S: Resource>(name: &Name) -> ObjectKey {
    ObjectKey::new(S::GROUP, S::KIND, name.clone())
}

const fn ours<S: Resource>() -> (&'static str, &'static str) {
    (S::GROUP, S::KIND)
}

fn as_written<T: DeserializeOwned>(
    objects: &Objects,
    (group, kind): (&str, &str),
) -> BTreeMap<Name, T> {
    objects
        .of_kind(group, kind)
        .filter_map(|(key, layers)| Some((key.name.clone(), layers.as_written()?)))
        .collect()
}

fn in_force<T: DeserializeOwned>(
    objects: &Objects,
    (group, kind): (&str, &str),
    problems: &mut Vec<Problem>,
) -> BTreeMap<Name, T> {
    let mut found = BTreeMap::new();
    for (key, layers) in objects.of_kind(group, kind) {
        // A status alone is what is left of an object that is gone.
        if layers.user.is_none() && layers.owned.is_empty() {
            continue;
        }
        match layers.in_force() {
            Ok(object) => {
                found.insert(key.name.clone(), object);
            }
            Err(error) => problems.push(
                Problem::new(
                    Code::CapiObjectInvalid,
                    format!("{key} does not fit what Kedge keeps of it"),
                )
                .object(key.to_string())
                .caused_by(&error),
            ),
        }
    }
    found
}

fn balancer_layers(layers: &Layers) -> BalancerLayers {
    let owned = |manager: &str| {
        let spec = layers.owned.get(manager)?.get("spec")?;
        LoadBalancerSpec::deserialize(spec).ok()
    };
    let status = layers
        .status
        .as_ref()
        .and_then(|status| status.get("status"));
    BalancerLayers {
        written: layers
            .as_written::<balancer::LoadBalancer>()
            .map(|written| written.spec),
        given: owned(managers::GIVEN),
        meta: layers
            .effective()
            .get("metadata")
            .and_then(|meta| ObjectMeta::deserialize(meta).ok())
            .unwrap_or_default(),
        kept: owned(managers::ENDPOINT),
        status: status
            .and_then(|status| LoadBalancerStatus::deserialize(status).ok())
            .unwrap_or_default(),
    }
}
