//! A node of the cluster: what a scheduler and a kubelet do for pods of the suite. Each pod is a host of its own
//! on the edge's wire, with the real program of its image in it.

use std::{
    collections::BTreeMap,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Binding, Container, EnvVar, Pod, Secret},
    apimachinery::pkg::apis::meta::v1::Status,
};
use kedge_net::link::Links;
use kedge_tests_kube::assets::Program;
use kedge_tests_netns::lan::{Host, Lan};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::net::TcpStream;

use crate::logs::Logs;

/// The node's name.
pub const NODE: &str = "edge-a";
/// Its address on the pods' network.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);

/// A node, and the pods that run on it.
pub struct Node {
    lan: Arc<Lan>,
    client: Client,
    folder: PathBuf,
    logs: Logs,
    running: BTreeMap<String, Running>,
    count: u8,
}

struct Running {
    host: Host,
    program: Option<Child>,
    is_ready: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(program) = &mut self.program {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

impl Node {
    pub fn new(lan: Arc<Lan>, client: Client, folder: PathBuf) -> Self {
        Self {
            lan,
            client,
            folder,
            logs: Logs::default(),
            running: BTreeMap::new(),
            count: 1,
        }
    }

    /// Serves pods until it is dropped.
    pub async fn serve(self) {
        let logs = self.logs.clone();
        tokio::join!(self.run(), logs.serve());
    }

    async fn run(mut self) {
        let pods: Api<Pod> = Api::all(self.client.clone());
        loop {
            if let Ok(all) = pods.list(&ListParams::default()).await {
                for pod in &all.items {
                    self.take(pod).await;
                }
                let is_there =
                    |uid: &String| all.items.iter().any(|pod| pod.uid().as_ref() == Some(uid));
                self.running.retain(|uid, _| is_there(uid));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn take(&mut self, pod: &Pod) {
        let (uid, name) = (pod.uid().unwrap(), pod.name_any());
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap());
        if pod.metadata.deletion_timestamp.is_some() {
            self.running.remove(&uid);
            let now = DeleteParams::default().grace_period(0);
            let _ = pods.delete(&name, &now).await;
            return;
        }
        let spec = pod.spec.clone().unwrap();
        if spec.node_name.is_none() {
            let binding: Binding = serde_json::from_value(json!({
                "metadata": {"name": name}, "target": {"kind": "Node", "name": NODE}}))
            .unwrap();
            let how = PostParams::default();
            let bound =
                pods.create_subresource::<Binding, Status>("binding", &name, &how, &binding);
            let _ = bound.await;
            return;
        }
        if !self.running.contains_key(&uid) {
            let Some(running) = self.start(pod, &spec.containers[0]).await else {
                return;
            };
            self.running.insert(uid.clone(), running);
        }
        let running = self.running.get_mut(&uid).unwrap();
        if running.is_ready || !answers(running.host.address(), &spec.containers[0]).await {
            return;
        }
        let status = status(pod, running.host.address());
        let patch = Patch::Strategic(json!({"status": status}));
        let how = PatchParams::default();
        running.is_ready = pods.patch_status(&name, &how, &patch).await.is_ok();
    }

    /// Starts the program of a pod; `None` while a Secret of it is not there.
    async fn start(&mut self, pod: &Pod, container: &Container) -> Option<Running> {
        let mounts = self.mount(pod, container).await?;
        self.count += 1;
        let name = format!("pod{}", self.count);
        let host = self.lan.host(&name, &format!("10.244.0.{}/24", self.count));
        host.run(|| {
            let everywhere = "0.0.0.0/0".parse().unwrap();
            Links::open()
                .unwrap()
                .add_route(everywhere, GATEWAY.into())
                .unwrap();
        });
        let mut program = None;
        if is_echo(container) {
            let (said, log) = io::pipe().unwrap();
            let mut command = Command::new(Program::GatewayEcho.path().unwrap());
            command.env_clear().stdin(Stdio::null());
            command.stdout(log.try_clone().unwrap()).stderr(log);
            let namespace = pod.namespace().unwrap();
            self.logs.keep(namespace, pod.name_any(), said);
            for variable in container.env.iter().flatten() {
                command.env(&variable.name, value(pod, variable, &mounts));
            }
            program = Some(host.spawn(command));
        }
        Some(Running {
            host,
            program,
            is_ready: false,
        })
    }

    /// Where each folder of Secrets that a container mounts lies here.
    async fn mount(&self, pod: &Pod, container: &Container) -> Option<BTreeMap<String, PathBuf>> {
        let mut mounts = BTreeMap::new();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap());
        for mount in container.volume_mounts.iter().flatten() {
            let volumes = pod.spec.as_ref().unwrap().volumes.iter().flatten();
            let mut of_name = volumes.filter(|it| it.name == mount.name);
            let Some(source) = of_name.next().and_then(|it| it.secret.clone()) else {
                continue;
            };
            let secret = secrets.get_opt(&source.secret_name.unwrap()).await.ok()??;
            let folder = self.folder.join(pod.name_any()).join(&mount.name);
            fs::create_dir_all(&folder).unwrap();
            for item in source.items.iter().flatten() {
                let content = secret.data.as_ref()?.get(&item.key)?;
                fs::write(folder.join(&item.path), &content.0).unwrap();
            }
            mounts.insert(mount.mount_path.clone(), folder);
        }
        Some(mounts)
    }
}

fn is_echo(container: &Container) -> bool {
    container
        .image
        .as_ref()
        .is_some_and(|image| image.contains("/echo-basic:"))
}

fn value(pod: &Pod, variable: &EnvVar, mounts: &BTreeMap<String, PathBuf>) -> String {
    let field = variable
        .value_from
        .as_ref()
        .and_then(|it| it.field_ref.as_ref());
    match field.map(|it| it.field_path.as_str()) {
        Some("metadata.name") => return pod.name_any(),
        Some("metadata.namespace") => return pod.namespace().unwrap(),
        _ => {}
    }
    let text = variable.value.clone().unwrap_or_default();
    let moved = mounts.iter().find_map(|(from, to)| {
        let rest = text.strip_prefix(from)?.trim_start_matches('/');
        Some(to.join(rest).display().to_string())
    });
    moved.unwrap_or(text)
}

/// Whether a pod's program serves. What is no echo has no program here, and nobody asks it.
async fn answers(at: Ipv4Addr, container: &Container) -> bool {
    let mut env = container.env.iter().flatten();
    let is_udp = env.any(|variable| variable.name == "UDP_ECHO_SERVER");
    let at = SocketAddr::from((at, 3000));
    !is_echo(container) || is_udp || TcpStream::connect(at).await.is_ok()
}

fn status(pod: &Pod, at: Ipv4Addr) -> serde_json::Value {
    let now = Timestamp::now();
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": now}));
    let containers = pod
        .spec
        .as_ref()
        .unwrap()
        .containers
        .iter()
        .map(|container| {
            json!({"name": container.name, "image": container.image, "imageID": "", "ready": true,
            "restartCount": 0, "started": true, "state": {"running": {"startedAt": now}}})
        });
    let containers: Vec<_> = containers.collect();
    json!({"phase": "Running", "podIP": at, "podIPs": [{"ip": at}], "hostIP": "10.1.0.2",
        "startTime": now, "conditions": conditions, "containerStatuses": containers})
}
