//! The tenant's cluster: an API server on the edge, Kubernetes' controllers and its kube-proxy, and the agent.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kedge_agent_cluster::gateway_api::Class;
use kedge_agent_lab::kube::process::Process;
use kedge_tests_kube::{
    assets::{Program, module_folder},
    controllers::Controllers,
    eventually, manifests,
    server::Server,
};
use kedge_tests_netns::{
    lan::{Host, Lan},
    manager::Manager,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{
    is_shared, logs,
    node::{NODE, Node},
};

/// A running cluster.
pub struct Cluster {
    pub server: Server,
    _controllers: Controllers,
    _proxy: Process,
    node: JoinHandle<()>,
    agent: Child,
}

impl Cluster {
    /// Starts it on the edge, in whose namespace the calling thread is.
    pub async fn start(lan: &Arc<Lan>, edge: &Host, manager: &Manager<'_>) -> Option<Self> {
        let server = Server::start().await?;
        let client = server.client().await;
        let gateway_api = module_folder("gateway-api", "sigs.k8s.io/gateway-api").unwrap();
        let mut definitions = Vec::new();
        for file in fs::read_dir(gateway_api.join("config/crd/standard")).unwrap() {
            let path = file.unwrap().path();
            if path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("gateway.networking")
            {
                let all = manifests::read(&path).into_iter();
                definitions.extend(all.filter(|it| it["kind"] == "CustomResourceDefinition"));
            }
        }
        manifests::apply_definitions(&client, &definitions).await;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../packaging/kubernetes/kustomize/services");
        for file in ["rbac.yaml", "policy.yaml", "ingressclass.yaml"] {
            manifests::apply(&client, &manifests::read(&folder.join(file))).await;
        }
        manifests::apply(&client, &[class(), certificates()]).await;
        node(&client).await;
        let controllers = Controllers::start_with(&server, CONTROLLERS)?;
        let proxy = proxy(&server);
        let serving = Node::new(Arc::clone(lan), client, server.folder().join("pods"));
        let agent = agent(&server, edge, manager).await;
        let classes: Api<Class> = Api::all(server.client().await);
        // The suite asks at once for what is served.
        eventually(
            "the class is accepted",
            Duration::from_secs(60),
            async || {
                let class = classes.get("kedge").await.unwrap();
                class.status["supportedFeatures"].is_array()
            },
        )
        .await;
        Some(Self {
            server,
            _controllers: controllers,
            _proxy: proxy,
            node: tokio::spawn(serving.serve()),
            agent,
        })
    }

    pub fn agent_log(&self) -> String {
        fs::read_to_string(self.server.folder().join("agent.log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.node.abort();
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

fn class() -> serde_json::Value {
    let annotations = match is_shared() {
        true => json!({}),
        false => json!({"kedge.dev/vip-pool": "gateways"}),
    };
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": {"name": "kedge", "annotations": annotations},
        "spec": {"controllerName": "kedge.dev/agent"}})
}

/// Every namespace lets the agent read its certificates.
fn certificates() -> serde_json::Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "kedge-agent-certificates"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "kedge-agent-certificates"},
        "subjects": [{"kind": "ServiceAccount", "name": "kedge-agent", "namespace": "kedge-system"}]})
}

async fn node(client: &Client) {
    let nodes: Api<NodeObject> = Api::all(client.clone());
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
        "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]}});
    let params = PatchParams::apply("kubelet").force();
    nodes
        .patch(NODE, &params, &Patch::Apply(&node))
        .await
        .unwrap();
    let now = Timestamp::now();
    let patch = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "10.1.0.2"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": logs::PORT}},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now}]}});
    let params = PatchParams::default();
    nodes
        .patch_status(NODE, &params, &Patch::Strategic(&patch))
        .await
        .unwrap();
}

fn proxy(server: &Server) -> Process {
    let mut command = Command::new(Program::KubeProxy.path().unwrap());
    command
        .arg(format!(
            "--kubeconfig={}",
            server.kubeconfig("admin").display()
        ))
        .arg(format!("--hostname-override={NODE}"))
        .args(["--proxy-mode=nftables", "--cluster-cidr=10.244.0.0/16"])
        .args([
            "--nodeport-addresses=198.18.0.0/16",
            "--healthz-bind-address=127.0.0.1:10256",
        ])
        .args([
            "--metrics-bind-address=127.0.0.1:10249",
            "--conntrack-max-per-core=0",
        ])
        .args([
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        ]);
    Process::start("kube-proxy", server.folder(), &command).unwrap()
}

async fn agent(server: &Server, edge: &Host, manager: &Manager<'_>) -> Child {
    let root = server.folder().join("agent");
    manager.token(&root, "--tenant shop");
    let kubeconfig = server
        .kubeconfig_of_account("kedge-system", "kedge-agent")
        .await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_kedge-on-kubernetes"));
    let log = fs::File::create(server.folder().join("agent.log")).unwrap();
    command
        .arg("--root")
        .arg(&root)
        .args(["k8s", "run", "--manager", "https://203.0.113.9:9443"])
        .args(["--token-file", "/etc/kedge/token", "--kubeconfig"])
        .arg(kubeconfig)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    edge.spawn(command)
}

const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,deployment-controller,\
    replicaset-controller,endpointslice-controller,endpointslice-mirroring-controller,endpoints-controller";
