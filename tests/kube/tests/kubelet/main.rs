//! What we give Kubernetes to run, run by a kubelet, containerd and runc: the chart's manager and gateway, the
//! agent of Services, and the Job that cleans up, in their images, as who they are, with the rights they bring.
//!
//! ```text
//!   edge 10.1.0.3      client 10.1.0.4    a host's agent and server, and who asks that server
//!     │                  │
//!   node 10.1.0.2   etcd, kube-apiserver, controllers, scheduler, kube-proxy, kubelet, containerd; the gateway's Pod
//!     │ │ │ │
//!   Pods 10.244.0.0/24, which reach the API server and the manager by their Services
//! ```
//!
//! There is no way out of that LAN.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code"
)]

mod agent;
mod cgroups;
mod cluster;
mod gateway;
mod image;
mod manager;
mod node;
mod pods;
mod token;

use std::process::Command;

use kedge_tests_kube::assets::{Program, ready};
use kedge_tests_netns::{envoy::executable, lan::Lan};

use cluster::Cluster;

#[test]
fn what_the_chart_and_the_manifests_run_is_ready_works_and_ends_in_order() {
    let programs = [
        Program::ControllerManager,
        Program::KubeProxy,
        Program::Helm,
    ];
    if !kedge_tests_netns::ready() || !ready(&programs) || !node::can_be() {
        return;
    }
    let envoy = executable();
    let lan = Lan::new();
    let node = lan.host("node", &format!("{}/24", node::ADDRESS));
    node.forwards();
    // What a node itself sends to a Service must have a way before kube-proxy sees it.
    node.run(|| {
        let line = "route add default dev eth0";
        let ip = Command::new("ip").args(line.split(' ')).status();
        assert!(ip.unwrap().success());
    });
    let edge = lan.host("edge", "10.1.0.3/24");
    let client = lan.host("client", "10.1.0.4/24");
    node.namespace()
        .run(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let Some(cluster) = Cluster::start(envoy).await else {
                    return;
                };
                manager::runs(&cluster).await;
                agent::runs(&cluster).await;
                agent::works(&cluster).await;
                gateway::runs(&cluster).await;
                let agent = gateway::works(&cluster, &edge, &client).await;
                if envoy.is_some() {
                    gateway::has_an_envoy(&cluster, &edge, &client).await;
                }
                drop(agent);
                manager::ends(&cluster).await;
                gateway::is_gone(&cluster).await;
            });
        })
        .unwrap();
}
