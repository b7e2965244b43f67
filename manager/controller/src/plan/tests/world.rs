//! A small world for plans: the demo's files, hosts that enrol and report.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use kedge_control::report::{
    AddressType, GatewayReport, HostReport, ReportedAddress, ReportedPeer, ReportedTunnel,
    ReportedVip, Unserved,
};
use kedge_core::{Code, Problem, vip::RouterState};
use kedge_crd::{
    EdgeGatewaySpec, EdgeHostSpec, LoadBalancerSpec, LoadBalancerStatus, TcpLoadBalancerSpec,
};
use serde_json::{Value, json};

use crate::{
    managers,
    plan::{
        Plan,
        exposed::{SPEAKER, speaker},
        plan,
    },
    snapshot::{
        Contract, Environment, GatewayLive, Hearing, HostLive, Kubeconfig, Live, Snapshot, key,
    },
    store::{
        CLAIM_KIND, IPAM_GROUP, Layer, Name, ObjectKey, Objects, Write, document,
        outcome::{Outcome, wave},
    },
};

pub const NS: &str = "store-014";

pub struct World {
    pub objects: Objects,
    pub live: Live,
    pub now: String,
    pub environment: Environment,
    pub names: Option<BTreeMap<String, BTreeSet<IpAddr>>>,
    pub kubeconfigs: BTreeMap<Name, Kubeconfig>,
    pub certificates: BTreeMap<Name, crate::certificates::Found>,
    pub refused: BTreeMap<ObjectKey, Problem>,
}

/// The site, its gateway and its pool, without clusters.
pub fn site() -> World {
    world(&[
        include_str!("../../../tests/fixtures/demo/site.yaml"),
        include_str!("../../../tests/fixtures/demo/gateway.yaml"),
    ])
}

/// The whole demo.
pub fn demo() -> World {
    let mut world = site();
    for text in [
        include_str!("../../../tests/fixtures/demo/cluster-edge.yaml"),
        include_str!("../../../tests/fixtures/demo/cluster-edge-tunnel.yaml"),
        include_str!("../../../tests/fixtures/demo/cluster-edge-host.yaml"),
        include_str!("../../../tests/fixtures/demo/machines.yaml"),
    ] {
        world.write(text);
    }
    world
}

pub fn world(texts: &[&str]) -> World {
    let mut world = World {
        objects: Objects::default(),
        live: Live::default(),
        now: "2026-01-01T00:00:00Z".to_owned(),
        environment: Environment::Directory,
        names: None,
        kubeconfigs: BTreeMap::new(),
        certificates: BTreeMap::new(),
        refused: BTreeMap::new(),
    };
    for text in texts {
        world.write(text);
    }
    world
}

impl World {
    /// A user writes these documents.
    pub fn write(&mut self, text: &str) {
        for read in document::read_all("test.yaml", text) {
            let (key, user) = read.unwrap_or_else(|problem| panic!("{problem:?}"));
            self.objects.by_key.entry(key.clone()).or_default().user = Some(user);
            self.objects.bury(&key);
        }
    }

    /// A user removes a document.
    pub fn remove(&mut self, group: &str, kind: &str, name: &str) {
        let key = ObjectKey::new(group, kind, Name::new(NS, name));
        let layers = self.objects.by_key.get_mut(&key).unwrap();
        layers.user = None;
    }

    pub fn enrol(&mut self, name: &str) {
        let host = Name::new(NS, name);
        let spec = json!({
            "tenant": NS,
            "identity": {"uid": format!("uid-{name}"), "publicKey": "pem", "generation": 1},
            "hostRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ElementalHost", "name": name},
            "tunnel": {"publicKeys": [format!("key-{name}")]},
        });
        let content = json!({"metadata": {"name": name, "namespace": NS,
            "labels": {"kedge.dev/site": NS}}, "spec": spec});
        self.owned(key::<EdgeHostSpec>(&host), managers::ENROL, content);
        self.report(name, |_| {});
    }

    /// A host says what its cluster offers, as the agent API writes it.
    pub fn expose(&mut self, host: &str, name: &str) {
        let content = json!({"metadata": {"name": name, "namespace": NS,
            "labels": {"kedge.dev/tenant": NS}, "annotations": {SPEAKER: host}}, "spec": {}});
        let name = Name::new(NS, name);
        self.owned(
            key::<TcpLoadBalancerSpec>(&name),
            managers::EXPOSED,
            content,
        );
    }

    /// A user asks for a TCPLoadBalancer with these annotations.
    pub fn offer(&mut self, name: &str, annotations: &str, spec: &str) {
        self.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: TCPLoadBalancer\nmetadata: {{name: {name}, \
             namespace: {NS}, annotations: {{{annotations}}}}}\nspec: {{{spec}}}\n"
        ));
    }

    /// A TCPLoadBalancer as it is in force.
    pub fn tcp(&self, name: &str) -> kedge_crd::TcpLoadBalancer {
        let key = key::<TcpLoadBalancerSpec>(&Name::new(NS, name));
        self.objects.by_key[&key].in_force().unwrap()
    }

    /// `status: reason: message` of a condition of a TCPLoadBalancer.
    pub fn said(&self, name: &str, kind: &str) -> String {
        let object = self.tcp(name);
        let condition = kedge_crd::condition::find(&object.status.conditions, kind);
        condition.map_or_else(String::new, |condition| {
            let status = condition.status.as_str();
            format!("{status}: {}: {}", condition.reason, condition.message)
        })
    }

    /// The gateway has its latest desired state, and says what of it is not served.
    pub fn gateway_applies(&mut self, generation: u64, unserved: Option<Vec<Unserved>>) {
        for live in self.live.gateways.values_mut() {
            let report = live.report.as_mut().unwrap();
            report.applied_generation = generation;
            report.unserved.clone_from(&unserved);
        }
    }

    /// Gateways report, with a change.
    pub fn gateway_reports(&mut self, change: impl Fn(&mut GatewayReport)) {
        for live in self.live.gateways.values_mut() {
            change(live.report.as_mut().unwrap());
        }
    }

    /// An admin says whether a host is served.
    pub fn access(&mut self, host: &str, access: &str) {
        self.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\nmetadata: {{name: {host}, \
             namespace: {NS}}}\nspec: {{access: {access}}}\n"
        ));
    }

    /// Whether a host is not out, as far as anybody said.
    pub fn is_served(&self, host: &str) -> bool {
        let layers = self.objects.get(&key::<EdgeHostSpec>(&Name::new(NS, host)));
        let host: Option<kedge_crd::EdgeHost> = layers.and_then(|layers| layers.in_force().ok());
        host.is_none_or(|host| host.spec.is_active())
    }

    /// What is exposed, and by whom.
    pub fn exposed(&self) -> Vec<(String, String)> {
        let all = self.objects.of_kind("kedge.dev", "TCPLoadBalancer");
        let of = all
            .filter_map(|(key, layers)| Some((key.name.name.clone(), speaker(layers)?.to_owned())));
        of.collect()
    }

    pub fn enrol_gateway(&mut self, instance: &str) {
        let gateway = Name::new("kedge-system", "gw");
        let content = json!({"metadata": {"name": "gw", "namespace": "kedge-system"}, "spec": {"instances": [
            {"name": instance, "identity": {"uid": "uid-gw", "generation": 1}, "publicKeys": ["key-gw"]}]}});
        self.owned(key::<EdgeGatewaySpec>(&gateway), managers::ENROL, content);
        let live = GatewayLive {
            hearing: Hearing::Alive,
            report: Some(GatewayReport {
                listen_port: 51820,
                ..GatewayReport::default()
            }),
        };
        self.live
            .gateways
            .insert((gateway, instance.to_owned()), live);
    }

    fn owned(&mut self, key: ObjectKey, manager: &str, content: Value) {
        self.objects.apply(&Write {
            key,
            layer: Layer::Owned(manager.to_owned()),
            content: Some(content),
        });
    }

    /// A host reports, with a change.
    pub fn report(&mut self, name: &str, change: impl FnOnce(&mut HostReport)) {
        let live = self
            .live
            .hosts
            .entry(Name::new(NS, name))
            .or_insert_with(|| HostLive {
                hearing: Hearing::Alive,
                is_contested: false,
                report: Some(HostReport {
                    boot_id: "boot".to_owned(),
                    addresses: vec![ReportedAddress {
                        kind: AddressType::InternalIP,
                        address: format!("10.20.14.{}", 11 + name.bytes().last().unwrap() % 16 - 1),
                        interface: Some("eth0".to_owned()),
                        primary: true,
                        because: "default route".to_owned(),
                    }],
                    tunnel: Some(ReportedTunnel {
                        public_key: format!("key-{name}"),
                        next_public_key: None,
                        gateway: Some("gw-0".to_owned()),
                        last_transition: String::new(),
                    }),
                    ..HostReport::default()
                }),
            });
        change(live.report.as_mut().unwrap());
    }

    pub fn hearing(&mut self, name: &str, hearing: Hearing) {
        self.live
            .hosts
            .get_mut(&Name::new(NS, name))
            .unwrap()
            .hearing = hearing;
    }

    pub fn vip_state(&mut self, name: &str, vip: &str, state: RouterState, since: &str) {
        let vip = ReportedVip {
            name: vip.to_owned(),
            address: "10.20.14.10".parse().unwrap(),
            state,
            since: since.to_owned(),
            because: String::new(),
            answers: None,
        };
        self.report(name, |report| report.vips = vec![vip]);
    }

    pub fn gateway_hears(&mut self, peers: &[&str]) {
        let live = self.live.gateways.values_mut().next().unwrap();
        live.report.as_mut().unwrap().peers = peers
            .iter()
            .map(|peer| ReportedPeer {
                name: (*peer).to_owned(),
                alive: true,
                since: String::new(),
            })
            .collect();
    }

    pub fn snapshot(&self) -> Snapshot {
        let live = self.live.clone();
        Snapshot {
            names: self.names.clone().map(Arc::new),
            kubeconfigs: self.kubeconfigs.clone(),
            certificates: self.certificates.clone(),
            refused: self.refused.clone(),
            ..Snapshot::observe(&self.objects, live, "CA", &self.now)
                .within(self.environment.clone())
        }
    }

    /// From here on the world is a Kubernetes API with Cluster API's core.
    pub fn on_kubernetes(mut self) -> Self {
        let kind = |kind: &str| {
            (
                "infrastructure.cluster.x-k8s.io".to_owned(),
                kind.to_owned(),
            )
        };
        self.environment = Environment::Kubernetes {
            contracts: BTreeMap::from([
                (kind("ElementalCluster"), Contract::V1Beta1),
                (kind("NewCluster"), Contract::V1Beta2),
                (
                    (IPAM_GROUP.to_owned(), CLAIM_KIND.to_owned()),
                    Contract::V1Beta2,
                ),
            ]),
            served: [crate::plan::dns::KIND, crate::plan::issued::KIND]
                .map(|(group, kind)| (group.to_owned(), kind.to_owned()))
                .into(),
        };
        self
    }

    /// The document of somebody else's object.
    pub fn document(&mut self, group: &str, kind: &str, name: &str) -> &mut Value {
        let key = ObjectKey::new(group, kind, Name::new(NS, name));
        let layers = self.objects.by_key.get_mut(&key).unwrap();
        &mut layers.user.as_mut().unwrap().value
    }

    /// Cluster API's core does its work: it owns infrastructure clusters and copies endpoints.
    pub fn core(&mut self) {
        for (key, layers) in &mut self.objects.by_key {
            let server = layers.server.get_or_insert_default();
            server.uid = format!("uid-{}-{}", key.kind, key.name.name);
            server.generation = Some(1);
        }
        let clusters = self.objects.of_kind("cluster.x-k8s.io", "Cluster");
        let clusters: Vec<(ObjectKey, kedge_crd::Cluster)> = clusters
            .filter_map(|(key, layers)| Some((key.clone(), layers.as_written()?)))
            .collect();
        for (key, cluster) in clusters {
            let Some(reference) = &cluster.spec.infrastructure_ref else {
                continue;
            };
            let name = Name::new(NS, &reference.name);
            let infra = ObjectKey::new(reference.group(), &reference.kind, name);
            let uid = format!("uid-Cluster-{}", key.name.name);
            let Some(layers) = self.objects.by_key.get_mut(&infra) else {
                continue;
            };
            if let Some(user) = &mut layers.user {
                user.value["metadata"]["ownerReferences"] = json!([{"kind": "Cluster", "uid": uid,
                    "apiVersion": "cluster.x-k8s.io/v1beta2", "name": key.name.name}]);
            }
            let effective = layers.effective();
            let endpoint = effective.pointer("/spec/controlPlaneEndpoint").cloned();
            let document = self.document("cluster.x-k8s.io", "Cluster", &key.name.name);
            document["metadata"]["uid"] = json!(uid);
            let host = endpoint
                .as_ref()
                .and_then(|endpoint| endpoint["host"].as_str());
            if host.is_some_and(|host| !host.is_empty())
                && document["spec"].get("controlPlaneEndpoint").is_none()
            {
                document["spec"]["controlPlaneEndpoint"] = endpoint.unwrap();
            }
        }
    }

    /// Somebody begins to delete an object.
    pub fn delete(&mut self, group: &str, kind: &str, name: &str) {
        let key = ObjectKey::new(group, kind, Name::new(NS, name));
        let layers = self.objects.by_key.get_mut(&key).unwrap();
        let server = layers.server.get_or_insert_default();
        server.deletion_timestamp = Some(self.now.clone());
        if let Some(user) = &mut layers.user {
            user.value["metadata"]["deletionTimestamp"] = json!(self.now);
        }
    }

    /// So much later.
    pub fn later(&mut self, seconds: i64) {
        let now: jiff::Timestamp = self.now.parse().unwrap();
        self.now = (now + jiff::SignedDuration::from_secs(seconds)).to_string();
    }

    /// Plans, carries the plan out, and checks the law: the next plan writes nothing.
    pub fn settle(&mut self) -> Plan {
        let first = plan(&self.snapshot());
        for write in &first.writes {
            self.objects.apply(write);
        }
        let second = plan(&self.snapshot());
        assert_eq!(second.writes, [], "the next plan is empty");
        assert_eq!(second.hosts, first.hosts);
        assert_eq!(second.gateways, first.gateways);
        assert_eq!(second.endpoints, first.endpoints);
        second
    }

    /// Plans and carries out, while the API server does not let us write one object: it is tried, left
    /// alone for some rounds, and everything else goes on.
    pub fn settle_without(&mut self, key: &ObjectKey, rounds: usize) {
        let problem = || Problem::new(Code::HostStateNotPersisted, "somebody wrote meanwhile");
        for _ in 0..=rounds {
            let mut writes = plan(&self.snapshot()).writes;
            writes.sort_by_key(wave);
            let mut outcome = Outcome::new(&self.refused.keys().cloned().collect());
            for write in &writes {
                if outcome.holds(write) {
                    continue;
                }
                match write.key == *key {
                    true => outcome.refuse(write, problem()),
                    false => self.objects.apply(write),
                }
            }
            self.refused.extend(outcome.refused);
        }
        self.refused.clear();
    }

    /// What everybody reads of a cluster's endpoint: in its infrastructure cluster and in itself.
    pub fn endpoints(&self, cluster: &str) -> (Option<Value>, Option<Value>) {
        let read = |group: &str, kind: &str| {
            let key = ObjectKey::new(group, kind, Name::new(NS, cluster));
            let value = self.objects.get(&key)?.effective();
            value.pointer("/spec/controlPlaneEndpoint").cloned()
        };
        (
            read("infrastructure.cluster.x-k8s.io", "ElementalCluster"),
            read("cluster.x-k8s.io", "Cluster"),
        )
    }

    pub fn balancer(&self, name: &str) -> (LoadBalancerSpec, LoadBalancerStatus) {
        let layers = &self.objects.by_key[&key::<LoadBalancerSpec>(&Name::new(NS, name))];
        let object: kedge_crd::LoadBalancer = layers.in_force().unwrap();
        (object.spec, object.status)
    }

    /// `reason` and `message` of a condition of a LoadBalancer, after `True:` or `False:`.
    pub fn condition(&self, name: &str, kind: &str) -> String {
        let (_, status) = self.balancer(name);
        let condition = kedge_crd::condition::find(&status.conditions, kind).unwrap();
        format!(
            "{}: {}: {}",
            condition.status.as_str(),
            condition.reason,
            condition.message
        )
    }
}

/// A Cluster with its ElementalCluster, with these annotations and this endpoint.
pub fn cluster(name: &str, annotations: &str, endpoint: &str) -> String {
    format!(
        "apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{name: {name}, namespace: {NS}}}
spec:
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: ElementalCluster, name: {name}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: ElementalCluster
metadata: {{name: {name}, namespace: {NS}, annotations: {{{annotations}}}}}
spec: {{{endpoint}}}
"
    )
}

/// The annotations that ask for a VIP of the pool.
pub const VIP: &str = "kedge.dev/endpoint-mode: VIP, kedge.dev/vip-pool: edge-lan";
