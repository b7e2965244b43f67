//! A cluster of one node: Kubernetes' own API server, controllers, scheduler, kube-proxy and kubelet.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use k8s_openapi::api::core::v1::Node as NodeObject;
use kedge_tests_kube::{
    assets::Program, controllers::Controllers, process::Process, server::Server, until,
};
use kube::{Api, Client};

use crate::node::{self, Node};

/// A running cluster.
pub struct Cluster {
    pub client: Client,
    // In the order in which they end: the server last.
    _node: Node,
    _proxy: Process,
    _scheduler: Process,
    _controllers: Controllers,
    pub server: Server,
}

impl Cluster {
    /// Starts it in the calling thread's network, with an image of that Envoy.
    pub async fn start(envoy: Option<&Path>) -> Option<Self> {
        let server = Server::start_for_pods(node::ADDRESS.parse().unwrap()).await?;
        let kubeconfig = server.kubeconfig("admin");
        let controllers = Controllers::start_with(&server, CONTROLLERS)?;
        let mut command = Command::new(Program::Scheduler.path().unwrap());
        command.args([
            flag("kubeconfig", &kubeconfig),
            "--leader-elect=false".to_owned(),
        ]);
        let scheduler = Process::start("kube-scheduler", server.folder(), &command).unwrap();
        let proxy = proxy(&server, &kubeconfig);
        let folder = server.folder().join(node::NAME);
        fs::create_dir(&folder).unwrap();
        let mut node = Node::start(&folder, &kubeconfig, envoy);
        let client = server.client().await;
        let nodes: Api<NodeObject> = Api::all(client.clone());
        let ready = async || {
            assert!(node.is_running(), "{}", last_words(&folder));
            let is_ready = is_ready(nodes.get_opt(node::NAME).await.unwrap());
            is_ready.then_some(()).ok_or(())
        };
        until("the node is ready", READY, ready, |()| last_words(&folder)).await;
        Some(Self {
            client,
            _node: node,
            _proxy: proxy,
            _scheduler: scheduler,
            _controllers: controllers,
            server,
        })
    }

    /// What kubectl says to the admin; panics when it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let said = self.try_kubectl(arguments);
        said.unwrap_or_else(|said| panic!("kubectl {arguments:?}: {said}"))
    }

    /// What kubectl says to the admin, or why it fails.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(Program::Kubectl.path().unwrap());
        command
            .arg(flag("kubeconfig", &self.server.kubeconfig("admin")))
            .arg(flag("cache-dir", &self.folder("kubectl")))
            .args(arguments);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr) + &text(&output.stdout)),
        }
    }

    /// A folder that goes with the cluster.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.server.folder().join(name)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", last_words(&self.folder(node::NAME)));
            let ours = "--selector=app.kubernetes.io/name=kedge";
            for space in ["--namespace=kedge-system", "--namespace=kedge-gateway"] {
                let said = self.try_kubectl(&[space, "logs", ours, "--prefix"]);
                eprintln!("{}", said.unwrap_or_else(|said| said));
            }
        }
    }
}

/// Whether Pods may run on it.
fn is_ready(node: Option<NodeObject>) -> bool {
    let node = node.unwrap_or_default();
    let is_free = node.spec.unwrap_or_default().taints.is_none();
    let conditions = node.status.unwrap_or_default().conditions;
    let mut all = conditions.into_iter().flatten();
    is_free && all.any(|it| it.type_ == "Ready" && it.status == "True")
}

fn proxy(server: &Server, kubeconfig: &Path) -> Process {
    let mut command = Command::new(Program::KubeProxy.path().unwrap());
    command
        .arg(flag("kubeconfig", kubeconfig))
        .arg(format!("--hostname-override={}", node::NAME))
        .args(["--proxy-mode=nftables", "--cluster-cidr=10.244.0.0/16"])
        // What is one for the whole machine stays as it is.
        .args(["--conntrack-max-per-core=0"])
        .args([
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        ]);
    Process::start("kube-proxy", server.folder(), &command).unwrap()
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// What the programs of the node said at the end.
fn last_words(folder: &Path) -> String {
    let mut all = String::new();
    for name in ["node", "images", "containerd", "kubelet"] {
        let text = fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.len().saturating_sub(20);
        all += &format!("{name}:\n{}\n", lines[last..].join("\n"));
    }
    all
}

const READY: Duration = Duration::from_secs(60);
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,\
    clusterrole-aggregation-controller,deployment-controller,replicaset-controller,job-controller,\
    endpoints-controller,endpointslice-controller,serviceaccount-controller,node-lifecycle-controller,\
    root-ca-certificate-publisher-controller,daemonset-controller";
