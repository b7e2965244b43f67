//! Pods of a component, as the kubelet tells of them, and what the kernel knows of their processes.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use futures_util::StreamExt as _;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ContainerStateTerminated, Pod},
};
use kedge_tests_kube::{eventually, until};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::Cluster;

/// The Pods of a component of ours.
pub struct Pods<'a> {
    cluster: &'a Cluster,
    api: Api<Pod>,
    space: String,
    component: &'static str,
}

impl<'a> Pods<'a> {
    pub fn of(cluster: &'a Cluster, component: &'static str) -> Self {
        Self::within(cluster, "kedge-system", component)
    }

    /// The same, in another namespace.
    pub fn within(cluster: &'a Cluster, namespace: &str, component: &'static str) -> Self {
        Self {
            cluster,
            api: Api::namespaced(cluster.client.clone(), namespace),
            space: format!("--namespace={namespace}"),
            component,
        }
    }

    /// Those that are not about to go.
    pub async fn all(&self) -> Vec<Pod> {
        let of = format!("app.kubernetes.io/component={}", self.component);
        let all = self.api.list(&ListParams::default().labels(&of)).await;
        let all = all.unwrap().items.into_iter();
        all.filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .collect()
    }

    /// Waits until so many are ready by their own probes.
    pub async fn are_ready(&self, count: usize) -> Vec<Pod> {
        let what = format!("{count} of {} are ready", self.component);
        let ready = async || {
            let all = self.all().await;
            let are_ready = all.len() == count && all.iter().all(is_ready);
            are_ready.then_some(all).ok_or(())
        };
        until(&what, LIMIT, ready, |()| self.described()).await
    }

    fn described(&self) -> String {
        let of = format!("app.kubernetes.io/component={}", self.component);
        let space = &self.space;
        let said = self
            .cluster
            .kubectl(&["describe", "pods", space, "--selector", &of]);
        let logs = self
            .cluster
            .try_kubectl(&["logs", space, "--selector", &of, "--tail=20"]);
        format!("{said}\n{logs:?}")
    }

    /// What a Pod printed, by way of the kubelet.
    pub fn log(&self, pod: &Pod) -> String {
        self.cluster
            .kubectl(&["logs", &self.space, &pod.name_any()])
    }

    /// What `kedge` says in a Pod; words are separated by one space.
    pub fn asked(&self, pod: &Pod, line: &str) -> Result<String, String> {
        let name = pod.name_any();
        let start = ["exec", &self.space, &name, "--", "kedge"];
        let words: Vec<&str> = start.into_iter().chain(line.split(' ')).collect();
        self.cluster.try_kubectl(&words)
    }

    /// The one that holds a Lease.
    pub async fn leader(&self, lease: &str) -> Option<Pod> {
        let leases: Api<Lease> = Api::namespaced(self.cluster.client.clone(), "kedge-system");
        let lease = leases.get_opt(lease).await.unwrap();
        let holder = lease?.spec?.holder_identity?;
        let mut all = self.all().await.into_iter();
        all.find(|pod| holder.starts_with(&pod.name_any()))
    }

    /// Deletes the one that leads: it ends in order, another one leads, and there are as many again.
    pub async fn are_led_by_another(&self, lease: &str) {
        let count = self.all().await.len();
        let first = self.leader(lease).await;
        let first = first.unwrap_or_else(|| panic!("none of the Pods holds {lease}"));
        self.ends(&first).await;
        waits(&format!("another one holds {lease}"), async || {
            self.leader(lease).await.is_some()
        })
        .await;
        for pod in self.are_ready(count).await {
            assert_eq!(restarts(&pod), 0, "{pod:?}");
        }
    }

    /// Deletes a Pod: it was told to end, and did before anybody had to kill it.
    pub async fn ends(&self, pod: &Pod) {
        let ended = self.delete(pod).await;
        assert_eq!(ended.exit_code, 0, "{ended:?}");
        assert_eq!(ended.reason.as_deref(), Some("Completed"), "{ended:?}");
    }

    /// Deletes a Pod, and waits until it is gone; how its container ended.
    async fn delete(&self, pod: &Pod) -> ContainerStateTerminated {
        let name = pod.name_any();
        let version = pod.metadata.resource_version.clone().unwrap();
        let only = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut events = self.api.watch(&only, &version).await.unwrap().boxed();
        self.api.delete(&name, &Default::default()).await.unwrap();
        let begun = std::time::Instant::now();
        let mut ended = None;
        while let Some(event) = events.next().await {
            let (pod, is_last) = match event.unwrap() {
                WatchEvent::Modified(pod) => (pod, false),
                WatchEvent::Deleted(pod) => (pod, true),
                _ => continue,
            };
            ended = terminated(&pod).or(ended);
            if is_last {
                break;
            }
        }
        println!("{name} is gone: {:.1} s", begun.elapsed().as_secs_f64());
        ended.unwrap_or_else(|| panic!("{name} is gone, and nobody said how it ended"))
    }

    /// What the kernel says of the processes of a Pod's containers, by the names of `/proc/PID/status`.
    pub fn processes(&self, pod: &Pod) -> Vec<Process> {
        let uid = format!("pod{}", pod.uid().unwrap());
        let all = fs::read_dir("/proc").unwrap().flatten();
        let all = all.map(|entry| entry.path());
        let own = all.filter(|path| {
            let cgroup = fs::read_to_string(path.join("cgroup")).unwrap_or_default();
            let command = fs::read_to_string(path.join("cmdline")).unwrap_or_default();
            cgroup.contains(&uid) && !command.starts_with("/pause")
        });
        own.map(Process::read).collect()
    }
}

/// A process of a container.
#[derive(Debug)]
pub struct Process {
    status: BTreeMap<String, String>,
    mounts: String,
    root: PathBuf,
}

impl Process {
    fn read(path: PathBuf) -> Self {
        let status = fs::read_to_string(path.join("status")).unwrap();
        let lines = status.lines().filter_map(|line| line.split_once(':'));
        let lines = lines.map(|(name, text)| (name.to_owned(), text.trim().to_owned()));
        Self {
            status: lines.collect(),
            mounts: fs::read_to_string(path.join("mounts")).unwrap(),
            root: path.join("root"),
        }
    }

    /// It is nobody in particular, has no right, gets none, and writes nowhere but in its volumes.
    pub fn assert_confined(&self) {
        self.assert_has("65532", 0);
    }

    /// It is who it may be, has these rights, gets no others, and writes nowhere but in its volumes.
    pub fn assert_has(&self, id: &str, capabilities: u64) {
        let is = |name: &str, text: &str| assert_eq!(self.status[name], text, "{name}: {self:?}");
        for ids in ["Uid", "Gid"] {
            is(ids, &[id; 4].join("\t"));
        }
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            is(set, &format!("{capabilities:016x}"));
        }
        for set in ["CapInh", "CapAmb"] {
            is(set, "0000000000000000");
        }
        is("NoNewPrivs", "1");
        // Filtered.
        is("Seccomp", "2");
        let mut mounts = self
            .mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let root = mounts.find(|words| words[1] == "/").unwrap();
        assert!(root[3].split(',').any(|it| it == "ro"), "{root:?}");
    }

    /// Whether it runs the executable of that name.
    pub fn is(&self, name: &str) -> bool {
        self.status["Name"] == name
    }

    /// Ends it without a word.
    pub fn kill(&self) {
        let pid = self.status["Pid"].parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }

    /// A folder as it sees it.
    pub fn folder(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.clone().unwrap_or_default();
    let mut all = status.conditions.into_iter().flatten();
    all.any(|it| it.type_ == "Ready" && it.status == "True")
}

/// How often its containers began anew.
pub fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.clone().unwrap_or_default();
    let all = status.container_statuses.into_iter().flatten();
    all.map(|it| it.restart_count).sum()
}

fn terminated(pod: &Pod) -> Option<ContainerStateTerminated> {
    let status = pod.status.clone()?.container_statuses?;
    status.into_iter().next()?.state?.terminated
}

/// For Pods that come and go.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Waits for something of Pods.
pub async fn waits<F: Future<Output = bool>>(what: &str, holds: impl FnMut() -> F) {
    eventually(what, LIMIT, holds).await;
}
