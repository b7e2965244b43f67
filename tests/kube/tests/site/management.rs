//! The management cluster: an API server with Cluster API's managers and Elemental, and what a
//! person writes to get a cluster.

use std::{
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::Secret;
use kedge_agent_lab::topology::{GATEWAY, HOSTS, host_address};
use kedge_crd::kinds::{KINDS, Kind as OurKind};
use kedge_tests_kube::{
    capi::Capi,
    clusters,
    elemental::{self, Elemental, kinds},
    foreign, manifests,
    objects::{Kind, at, condition, label, merge, text},
    server::Server,
    workload::Authority,
};
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The namespace of everything: the lab's tenant has it.
pub const SPACE: &str = "store-014";
/// The cluster.
pub const CLUSTER: &str = "edge";

const EDGE_HOST: Kind = Kind::new("kedge.dev", "v1alpha1", "EdgeHost");

/// A running management cluster.
pub struct Management {
    // In the order in which they end: the server last.
    _elemental: Elemental,
    _capi: Capi,
    server: Server,
    client: Client,
    runtime: Runtime,
}

impl Management {
    /// Starts everything in the calling thread's namespace, or says why it cannot be had.
    pub fn start() -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let (server, capi, elemental, client) = runtime.block_on(async {
            let server = Server::start().await?;
            let capi = Capi::start(&server).await?;
            let elemental = Elemental::start(&server, &capi).await;
            let client = server.client().await;
            let ours: Vec<Value> = KINDS.iter().map(OurKind::crd).collect();
            manifests::apply_definitions(&client, &ours).await;
            prepare(&client).await;
            Some((server, capi, elemental, client))
        })?;
        Some(Self {
            _elemental: elemental,
            _capi: capi,
            server,
            client,
            runtime,
        })
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.server.kubeconfig("admin")
    }

    /// A cluster of three hosts whose endpoint is left out.
    pub fn create_cluster(&self) {
        self.runtime
            .block_on(manifests::apply(&self.client, &cluster()));
    }

    /// The endpoint an object of the cluster has.
    pub fn endpoint(&self, kind: &str) -> Result<String, String> {
        let kind = match kind {
            "Cluster" => foreign::CLUSTER,
            _ => kinds::CLUSTER,
        };
        let api = kind.of(&self.client, SPACE);
        let object = self.runtime.block_on(api.get(CLUSTER)).map_err(told)?;
        let endpoint = clusters::endpoint(&object).map(|(host, port)| format!("{host}:{port}"));
        endpoint.ok_or_else(|| at(&object, "/status/conditions").to_string())
    }

    /// The cluster's machines, by name.
    pub fn machines(&self) -> Vec<(String, Value)> {
        let all = foreign::MACHINE.of(&self.client, SPACE);
        let list = self.runtime.block_on(all.list(&ListParams::default()));
        let machines = list.into_iter().flatten();
        let named = machines.map(|machine| {
            let node = at(&machine, "/status/nodeRef/name").clone();
            (machine.metadata.name.unwrap_or_default(), node)
        });
        named.collect()
    }

    /// Whether every host is a machine with a node, and its record says which.
    ///
    /// # Errors
    ///
    /// What there is.
    pub fn is_whole(&self) -> Result<(), String> {
        let machines = self.machines();
        let nodes = machines.iter().filter(|(_, node)| node.is_string()).count();
        let found = format!("{nodes} nodes of {machines:?}");
        (nodes == HOSTS.len()).then_some(()).ok_or(found)?;
        let records = EDGE_HOST.of(&self.client, SPACE);
        for name in HOSTS {
            let record = self.runtime.block_on(records.get(name)).map_err(told)?;
            let (machine, node) = (
                text(&record, "/status/machineRef"),
                at(&record, "/status/node"),
            );
            let is_known = machines.iter().any(|(known, _)| known == machine);
            if !is_known || node["name"] != name || node["ready"] != true {
                return Err(format!("{name} says it is {node} of `{machine}`"));
            }
        }
        Ok(())
    }

    /// The authority that the control-plane provider made.
    pub fn authority(&self) -> Result<Authority, String> {
        let secret = self.secret("ca")?;
        Ok(Authority::of_cluster(
            &secret("tls.crt")?,
            &secret("tls.key")?,
        ))
    }

    /// The kubeconfig that the control-plane provider made, as it is now.
    pub fn admin(&self) -> Result<String, String> {
        self.secret("kubeconfig")?("value")
    }

    /// The hosts that have something to bootstrap from, and did not.
    pub fn to_bootstrap(&self) -> Vec<String> {
        let all = kinds::HOST.of(&self.client, SPACE);
        let list = self.runtime.block_on(all.list(&ListParams::default()));
        let waiting = list.into_iter().flatten().filter(|host| {
            let secret = text(host, "/spec/bootstrapSecret/name");
            !secret.is_empty() && label(host, elemental::BOOTSTRAPPED).is_empty()
        });
        waiting.filter_map(|host| host.metadata.name).collect()
    }

    /// A host is done, as its agent would have the registration server write.
    pub fn bootstrapped(&self, host: &str) {
        let hosts = kinds::HOST.of(&self.client, SPACE);
        let patch = json!({"metadata": {"labels": {elemental::BOOTSTRAPPED: "true"}}});
        self.runtime.block_on(merge(&hosts, host, patch)).unwrap();
    }

    /// Whether the load balancer's status names the host that has the VIP, as an active target.
    ///
    /// # Errors
    ///
    /// What it says.
    pub fn balancer_says(&self, host: &str) -> Result<(), String> {
        let all = BALANCER.of(&self.client, SPACE);
        let balancer = self.runtime.block_on(all.get(CLUSTER)).map_err(told)?;
        let holder = text(&balancer, "/status/vip/holder");
        (holder == host)
            .then_some(())
            .ok_or_else(|| at(&balancer, "/status").to_string())
    }

    /// Whether the load balancer says so of who reaches it: status and reason, and a part of its
    /// message.
    ///
    /// # Errors
    ///
    /// What it says.
    pub fn reaches(&self, verdict: &str, message: &str) -> Result<(), String> {
        let all = BALANCER.of(&self.client, SPACE);
        let balancer = self.runtime.block_on(all.get(CLUSTER)).map_err(told)?;
        let said = condition(&balancer, "IsReachable");
        let word = |field: &str| said[field].as_str().unwrap_or_default();
        let is_so = format!("{}/{}", word("status"), word("reason")) == verdict
            && word("message").contains(message);
        is_so.then_some(()).ok_or_else(|| said.to_string())
    }

    /// What its programs printed last.
    pub fn last_words(&self) {
        for name in [
            "capi-core",
            "capi-kubeadm-control-plane",
            "capi-kubeadm-bootstrap",
        ] {
            let log = self.server.folder().join(format!("{name}.log"));
            let log = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let from = lines.len().saturating_sub(12);
            eprintln!("{name}:\n{}", lines[from..].join("\n"));
        }
    }

    fn secret(&self, of: &str) -> Result<impl Fn(&str) -> Result<String, String> + use<>, String> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), SPACE);
        let name = format!("{CLUSTER}-{of}");
        let secret = self.runtime.block_on(secrets.get(&name)).map_err(told)?;
        let data = secret.data.unwrap_or_default();
        Ok(move |key: &str| {
            let value = data
                .get(key)
                .ok_or_else(|| format!("{name} has no {key}"))?;
            Ok(String::from_utf8_lossy(&value.0).into_owned())
        })
    }
}

/// What stands before any cluster: who may enrol, the gateway, the pool, and the hosts.
async fn prepare(client: &Client) {
    let namespace =
        |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    manifests::apply(client, &[namespace("kedge-system"), namespace(SPACE)]).await;
    let objects = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent/lab/src/site/objects");
    for file in ["gateway.yaml", "tenant.yaml"] {
        manifests::apply(client, &manifests::read(&objects.join(file))).await;
    }
    // As the registration server writes hosts that are installed.
    let hosts = HOSTS.map(|host| {
        json!({"apiVersion": kinds::HOST.api_version(), "kind": "ElementalHost",
            "metadata": {"name": host, "namespace": SPACE,
                "labels": {elemental::INSTALLED: "true"}}, "spec": {}})
    });
    manifests::apply(client, &hosts).await;
}

/// The documents of the cluster.
fn cluster() -> Vec<Value> {
    let meta = json!({"name": CLUSTER, "namespace": SPACE});
    let object = |kind: Kind, spec: Value| json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": meta, "spec": spec});
    let reference =
        |kind: Kind| json!({"apiGroup": kind.group, "kind": kind.kind, "name": CLUSTER});
    let stores = HOSTS.map(|host| format!("https://{}:2379", host_address(host).unwrap()));
    let template = kinds::MACHINE_TEMPLATE;
    let control_plane = json!({
        "replicas": 3,
        "version": "v1.36.3",
        "kubeadmConfigSpec": {
            "format": "cloud-config",
            "preKubeadmCommands": ["kedge vip wait --timeout 5m"],
            "clusterConfiguration": {
                "apiServer": {"certSANs": [GATEWAY.to_string()]},
                "etcd": {"external": {
                    "endpoints": stores,
                    "caFile": "/etc/kubernetes/pki/etcd/ca.crt",
                    "certFile": "/etc/kubernetes/pki/apiserver-etcd-client.crt",
                    "keyFile": "/etc/kubernetes/pki/apiserver-etcd-client.key",
                }},
            },
        },
        "machineTemplate": {"spec": {"infrastructureRef": reference(template)}},
    });
    let mut infra = object(kinds::CLUSTER, json!({}));
    infra["metadata"]["annotations"] = json!({
        "kedge.dev/endpoint-mode": "VIP",
        "kedge.dev/vip-pool": "edge-lan",
        "kedge.dev/gateway": "gw",
    });
    let whole = json!({
        "controlPlaneRef": reference(foreign::CONTROL_PLANE),
        "infrastructureRef": reference(kinds::CLUSTER),
    });
    vec![
        secret("etcd"),
        secret("apiserver-etcd-client"),
        object(template, json!({"template": {"spec": {}}})),
        object(foreign::CONTROL_PLANE, control_plane),
        infra,
        object(foreign::CLUSTER, whole),
    ]
}

/// A certificate for the external store, which Cluster API wants to see and hands to kubeadm.
fn secret(of: &str) -> Value {
    let made = rcgen::generate_simple_self_signed([of.to_owned()]).unwrap();
    json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": format!("{CLUSTER}-{of}"), "namespace": SPACE,
            "labels": {foreign::CLUSTER_NAME: CLUSTER}},
        "stringData": {"tls.crt": made.cert.pem(), "tls.key": made.signing_key.serialize_pem()}})
}

fn told(error: kube::Error) -> String {
    error.to_string()
}

const BALANCER: Kind = Kind::new("kedge.dev", "v1alpha1", "LoadBalancer");
