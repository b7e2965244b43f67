//! The Gateway API's own conformance suite, against a tenant's cluster behind NAT whose Gateways and routes are
//! served at a gateway: with the bytes.
//!
//! Each Gateway has an address of its own: the class asks for a pool, whose addresses the gateway's machine has. With
//! `KEDGE_CONFORMANCE_SHARED=1` all have the gateway's, and what needs several is left out.
//!
//! ```text
//!   edge-a 10.1.0.2 ───── 10.1.0.1  router ──┬─ 203.0.113.7  gateway (Envoy)
//!                                            │  203.0.113.128–191 :80 :443 ◄── suite 203.0.113.50
//!    kube-apiserver, kube-proxy, agents      └─ 203.0.113.9  manager
//!    pods 10.244.0.0/24
//! ```
//!
//! Only the scheduler and the kubelet are stood in for ([`node`]).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code"
)]

mod cluster;
mod logs;
mod node;
mod suite;

use std::sync::Arc;

use kedge_tests_kube::assets::{self, Program};
use kedge_tests_netns::{
    asked::Asked as _, envoy::executable, eventually, lan::Lan, manager::Manager, secs, tenant,
};

use cluster::Cluster;
use suite::Suite;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-on-kubernetes");

#[test]
fn gateways_and_routes_conform() {
    let programs = [
        Program::KubeProxy,
        Program::ControllerManager,
        Program::GatewaySuite,
        Program::GatewayEcho,
    ];
    if !kedge_tests_netns::ready() || !assets::ready(&programs) {
        return;
    }
    let Some(envoy) = executable() else {
        return;
    };
    let lan = Arc::new(Lan::new());
    let _router = tenant::router(&lan);
    let edge = tenant::edge(&lan, node::NODE, 2);
    edge.add_address(&format!("{}/24", node::GATEWAY));
    edge.forwards();
    let at_gateway = lan.host("gateway", "203.0.113.7/24");
    for last in OWN {
        at_gateway.add_address(&format!("203.0.113.{last}/24"));
    }
    let at_manager = lan.host("manager", tenant::MANAGER);
    let client = lan.host("client", "203.0.113.50/24");

    let manager = Manager::start(&at_manager, KEDGE, &[("site.yaml", SITE)]);
    let yaml = format!(
        "name: gw-0\nproxy: {{engine: envoy, envoy: '{}'}}\n",
        envoy.display()
    );
    let gateway = tenant::gateway(&manager, &at_gateway, KEDGE, &yaml);
    let _agent = tenant::agent(&manager, &edge, KEDGE, "");
    eventually("the tunnel is up", secs(30), || {
        let status = gateway.kedge("status -o json").json();
        status["tunnels"][0]["state"] == "Up"
    });
    let edge_namespace = edge.namespace();
    edge_namespace
        .run(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let Some(cluster) = Cluster::start(&lan, &edge, &manager).await else {
                    return;
                };
                let suite = Suite::new(&cluster, &client);
                let outcome = tokio::task::block_in_place(|| suite.run());
                if let Some(kept) = std::env::var_os("KEDGE_CONFORMANCE_LOGS") {
                    let kept = std::path::PathBuf::from(kept);
                    std::fs::write(kept.join("agent.log"), cluster.agent_log()).unwrap();
                    std::fs::write(kept.join("manager.log"), manager.log()).unwrap();
                    std::fs::write(kept.join("gateway.log"), gateway.log()).unwrap();
                    let proxy = cluster.server.folder().join("kube-proxy.log");
                    std::fs::copy(proxy, kept.join("kube-proxy.log")).unwrap();
                }
                assert!(outcome, "the suite found something");
            });
        })
        .unwrap();
}

/// Whether all Gateways have the gateway's address, as they do where nobody asks for others.
fn is_shared() -> bool {
    std::env::var_os("KEDGE_CONFORMANCE_SHARED").is_some()
}

/// Where the addresses of the pool end.
const OWN: std::ops::RangeInclusive<u8> = 128..=191;

const SITE: &str = "\
apiVersion: kedge.dev/v1alpha1
kind: Tenant
metadata: {name: shop}
spec:
  namespace: shop
  gatewayRef: {name: gw}
  dns: {domain: lb.example.net, allowedHostnames: ['*']}
---
apiVersion: kedge.dev/v1alpha1
kind: EdgeGateway
metadata: {name: gw, namespace: kedge-system}
spec:
  tunnel:
    cidrs: [198.18.0.0/16]
    publicEndpoints: [{host: 203.0.113.7, port: 51820}]
  http: {}
  envoy: {drain: 1s}
---
apiVersion: kedge.dev/v1alpha1
kind: VIPPool
metadata: {name: gateways, namespace: shop}
spec: {addresses: [203.0.113.128-203.0.113.191], prefix: 24}
---
apiVersion: kedge.dev/v1alpha1
kind: EdgeHost
metadata: {name: kedge-services, namespace: shop}
spec: {exposures: true}
";
