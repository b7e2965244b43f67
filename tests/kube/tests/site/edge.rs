//! The hosts of the edge: on each an etcd member, and an API server once it is bootstrapped. What
//! kubeadm and the kubelet would write is written here.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Node, Pod},
    serde::{Serialize, de::DeserializeOwned},
};
use kedge_agent_lab::{
    lab::Lab,
    topology::{HOSTS, host_address},
};
use kedge_net::netns::{Namespace, Worker};
use kedge_tests_kube::{
    assets::{Program, ready},
    workload::{Place, Workload, connect, is_ready},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// The hosts.
pub struct Edge {
    /// The control plane to be.
    pub workload: Workload,
    workers: BTreeMap<&'static str, Arc<Worker>>,
    started: Vec<String>,
}

impl Edge {
    /// Starts an etcd member on every host: a store that KubeadmControlPlane calls external.
    pub fn start(lab: &Lab) -> Option<Self> {
        if !ready(&[Program::Etcd, Program::ApiServer]) {
            return None;
        }
        let workers: BTreeMap<_, _> = HOSTS
            .iter()
            .map(|host| {
                let place = Namespace::open(&lab.namespace(host)).unwrap();
                (*host, Arc::new(Worker::start(&place).unwrap()))
            })
            .collect();
        let places = HOSTS.iter().map(|host| {
            let worker = Arc::clone(&workers[host]);
            Place {
                name: (*host).to_owned(),
                address: host_address(host).unwrap(),
                spawn: Box::new(move |command| worker.spawn(command).unwrap()),
            }
        });
        let workload = Workload::stores(&lab.root("workload"), places.collect())?;
        Some(Self {
            workload,
            workers,
            started: Vec::new(),
        })
    }

    /// Has a host join the control plane: its API server runs, its node and static pods are there.
    ///
    /// # Errors
    ///
    /// What is still missing.
    pub fn bootstrap(&mut self, host: &str) -> Result<(), String> {
        if !self.started.iter().any(|started| started == host) {
            self.workload.host(host).start_api();
            self.started.push(host.to_owned());
        }
        self.is_ready(host)?;
        let name = host.to_owned();
        self.inside(host, async move |client| join(client, &name).await)
    }

    /// Whether a host's API server is ready.
    ///
    /// # Errors
    ///
    /// It is not.
    pub fn is_ready(&self, host: &str) -> Result<(), String> {
        self.inside(host, async |client| {
            let ready = is_ready(&client).await;
            ready
                .then_some(())
                .ok_or("its API server is not ready".into())
        })
    }

    /// Does something with a host's own API server, on the host.
    fn inside<F: Future<Output = Result<(), String>>>(
        &self,
        host: &str,
        work: impl FnOnce(Client) -> F + Send + 'static,
    ) -> Result<(), String> {
        let kubeconfig = self.workload.kubeconfig("127.0.0.1");
        let job = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let client = connect(&kubeconfig).await?;
                work(client).await
            })
        };
        self.workers[host].run(job).unwrap()
    }
}

async fn join(client: Client, host: &str) -> Result<(), String> {
    let address = host_address(host).unwrap().to_string();
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": host, "labels": {
            "kubernetes.io/hostname": host, "node-role.kubernetes.io/control-plane": ""}},
        "spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized",
            "value": "true", "effect": "NoSchedule"}]}});
    let ready = json!({"apiVersion": "v1", "kind": "Node", "status": {
        "addresses": [{"type": "InternalIP", "address": address}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
            "message": "", "lastHeartbeatTime": NOW, "lastTransitionTime": NOW}],
        "nodeInfo": {"kubeletVersion": VERSION, "architecture": "amd64", "bootID": "",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
            "machineID": "", "operatingSystem": "linux", "osImage": "", "systemUUID": ""}}});
    put::<Node>(&Api::all(client.clone()), host, &node, Some(&ready)).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    for part in [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ] {
        let name = format!("{part}-{host}");
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"component": part, "tier": "control-plane"}},
            "spec": {"nodeName": host, "hostNetwork": true,
                "containers": [{"name": part, "image": part}]}});
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
        let conditions = conditions.map(condition);
        let ready = json!({"apiVersion": "v1", "kind": "Pod",
            "status": {"phase": "Running", "conditions": conditions}});
        put(&pods, &name, &pod, Some(&ready)).await?;
    }
    // What `kubeadm init` leaves behind last.
    let config = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: \
         {VERSION}\n"
    );
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": config}});
    let maps: Api<ConfigMap> = Api::namespaced(client, "kube-system");
    put(&maps, "kubeadm-config", &config, None).await
}

async fn put<K>(
    api: &Api<K>,
    name: &str,
    object: &Value,
    status: Option<&Value>,
) -> Result<(), String>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let how = PatchParams::apply("kubelet").force();
    let told = |error: kube::Error| format!("{name}: {error}");
    api.patch(name, &how, &Patch::Apply(object))
        .await
        .map_err(told)?;
    if let Some(status) = status {
        let written = api.patch_status(name, &how, &Patch::Apply(status)).await;
        written.map_err(told)?;
    }
    Ok(())
}

const VERSION: &str = "v1.36.3";
const NOW: &str = "2026-01-01T00:00:00Z";
