//! A node: the kubelet, Debian's containerd and runc, and the plugins of its Pods' network.
//!
//! Both run in namespaces of processes, mounts and names of their own, in the network of the calling thread,
//! and below a cgroup that goes with them.

use std::{fs, path::Path, process::Command};

use kedge_tests_kube::{
    assets::{Program, is_required, ready},
    process::Process,
};
use serde_json::{Value, json};

use crate::{cgroups::Cgroups, image};

/// Its name.
pub const NAME: &str = "node";
/// The file of its folder with the names that it knows, and so do Pods in its network.
pub const NAMES: &str = "hosts";
/// Its address.
pub const ADDRESS: &str = "10.1.0.2";

/// A running node.
pub struct Node {
    // In the order in which they end: a cgroup with processes stays.
    process: Process,
    _cgroups: Cgroups,
}

impl Node {
    /// Starts it in a folder that goes after it.
    pub fn start(folder: &Path, kubeconfig: &Path, envoy: Option<&Path>) -> Self {
        let cgroups = Cgroups::create();
        for name in ["layers", "images", "plugins", "network", "volumes"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        image::kedge(&folder.join("images"));
        image::pause(&folder.join("images"));
        if let Some(envoy) = envoy {
            image::envoy(&folder.join("images"), envoy);
        }
        let put = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
        put("containerd.toml", containerd(folder));
        put("network/10-pods.conflist", network(folder).to_string());
        put("kubelet.json", kubelet(folder, cgroups.name()).to_string());
        // There are no name servers here.
        put("resolv.conf", String::new());
        put(NAMES, "127.0.0.1 localhost\n".to_owned());
        fs::copy(kubeconfig, folder.join("kubeconfig")).unwrap();
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--uts", "--fork"])
            .args(["--mount-proc", "--kill-child"])
            .args([
                "--propagation",
                "private",
                "sh",
                "-c",
                include_str!("node.sh"),
                NAME,
            ])
            .arg(folder)
            .arg(Program::Kubelet.path().unwrap());
        let process = Process::start(NAME, folder, &command).unwrap();
        Self {
            process,
            _cgroups: cgroups,
        }
    }

    /// Whether it has not given up.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }
}

/// Whether a node can be had here. Says why not, and fails where CI requires it.
pub fn can_be() -> bool {
    if !ready(&[
        Program::Kubelet,
        Program::Scheduler,
        Program::Pause,
        Program::Kubectl,
    ]) {
        return false;
    }
    let Some(why) = missing() else {
        return true;
    };
    assert!(!is_required(), "{why}");
    eprintln!("skipped: {why}");
    false
}

fn missing() -> Option<String> {
    for program in [
        "containerd",
        "containerd-shim-runc-v2",
        "ctr",
        "runc",
        "strip",
        "ldd",
    ] {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
            return Some(format!("a node needs {program}"));
        }
    }
    for plugin in ["ptp", "host-local", "loopback"] {
        if !Path::new(PLUGINS).join(plugin).is_file() {
            return Some(format!("a node needs {PLUGINS}/{plugin}"));
        }
    }
    Cgroups::missing()
}

fn containerd(folder: &Path) -> String {
    let at = folder.display();
    let pause = image::PAUSE;
    format!(
        "version = 2
root = '{at}/layers'
state = '/run/containerd'
disabled_plugins = ['io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs',
    'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.aufs']
[grpc]
address = '{at}/containerd.sock'
[plugins.'io.containerd.grpc.v1.cri']
sandbox_image = '{pause}'
# Containers of builders may not ask to be killed later than others.
restrict_oom_score_adj = true
[plugins.'io.containerd.grpc.v1.cri'.cni]
bin_dir = '{PLUGINS}'
conf_dir = '{at}/network'
[plugins.'io.containerd.grpc.v1.cri'.containerd]
snapshotter = 'overlayfs'
default_runtime_name = 'runc'
[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
"
    )
}

/// Every Pod has a wire to the node, and no other: what it sends to a Service passes the node's
/// kube-proxy, and so does what comes back.
fn network(folder: &Path) -> Value {
    let addresses = json!({"type": "host-local", "dataDir": folder.join("addresses"),
        "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]});
    json!({"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": addresses}]})
}

fn kubelet(folder: &Path, cgroup: &str) -> Value {
    let socket = folder.join("containerd.sock");
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": ADDRESS, "readOnlyPort": 0,
        // Who asks it is the API server, and nobody else is in its network.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{cgroup}"), "failCgroupV1": false,
        "containerRuntimeEndpoint": format!("unix://{}", socket.display()),
        "clusterDNS": ["10.96.0.10"], "clusterDomain": "cluster.local",
        "resolvConf": folder.join("resolv.conf"),
        "failSwapOn": false,
        // How full the machine is, is not the test's matter.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%",
            "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": folder.join("logs"), "volumePluginDir": folder.join("volumes"),
    })
}

/// Where Debian's lie.
const PLUGINS: &str = "/usr/lib/cni";
