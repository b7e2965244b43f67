//! The chart's gateway, as its guide sets it up: a host calls it, and clients reach the host through it.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
};

use k8s_openapi::api::core::v1::Pod;
use kedge_net::link::Links;
use kedge_tests_kube::chart;
use kedge_tests_netns::{
    agent::Agent,
    answers::{Answers, ask},
    asked::Asked as _,
    browser::Browser,
    lan::Host,
    web,
};
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    manager, node,
    pods::{Pods, restarts, waits},
    token,
};

/// Sets it up, and waits until it is enrolled, well and what it may be.
pub async fn runs(cluster: &Cluster) {
    cluster.kubectl(&["create", "namespace", SPACE]);
    let privileged = "pod-security.kubernetes.io/enforce=privileged";
    cluster.kubectl(&["label", "namespace", SPACE, privileged]);
    cluster.kubectl(&["label", "node", node::NAME, "kedge.dev/gateway=edge"]);
    let site = cluster.folder("gateway.yaml");
    fs::write(&site, SITE).unwrap();
    cluster.kubectl(&["apply", "--filename", site.to_str().unwrap()]);
    token::put(cluster, ["--gateway", "edge"], SPACE, SECRET).await;
    // There are no name servers here.
    let manager = manager::service(cluster).await.cluster_ip.unwrap();
    let names = format!("127.0.0.1 localhost\n{manager} kedge-manager.kedge-system.svc\n");
    fs::write(cluster.folder(node::NAME).join(node::NAMES), names).unwrap();

    println!("{}", chart::install(&cluster.server, &values()));
    let pods = pods(cluster);
    let pod = pods.are_ready(1).await.remove(0);
    assert_eq!(restarts(&pod), 0, "{pod:?}");
    is_itself(&pods, &pod);
    let status = pods.asked(&pod, "status gateway");
    println!("{}", status.unwrap_or_else(|warned| warned));
}

/// A client reaches a host's server through it, and again when the Pod was deleted.
pub async fn works<'a>(cluster: &Cluster, edge: &'a Host, client: &Host) -> Agent<'a> {
    let agent = calls(cluster, edge).await;
    let _server = Answers::start(edge, 8080, "edge", 0);
    let site = cluster.folder("balancer.yaml");
    fs::write(&site, BALANCER).unwrap();
    cluster.kubectl(&["apply", "--filename", site.to_str().unwrap()]);
    reaches(client).await;

    let pods = pods(cluster);
    let first = pods.all().await.remove(0);
    let before = (key(&pods, &first), instances(cluster));
    assert_eq!(before.1[0]["name"], node::NAME, "{before:?}");
    // Whoever is enrolled needs no token.
    cluster.kubectl(&["delete", "secret", SECRET, "--namespace", SPACE]);
    pods.ends(&first).await;
    let next = pods.are_ready(1).await.remove(0);
    let log = pods.log(&next);
    assert_eq!(restarts(&next), 0, "{log}");
    is_itself(&pods, &next);
    assert_eq!((key(&pods, &next), instances(cluster)), before, "{log}");
    reaches(client).await;
    println!("{}", pods.asked(&next, "tunnel list").unwrap());
    agent
}

/// The chart puts an Envoy beside it: that carries what clients send, and serves HTTP.
pub async fn has_an_envoy(cluster: &Cluster, edge: &Host, client: &Host) {
    let mut values = values();
    values["gateway"]["envoy"] = json!({"enabled": true});
    println!("{}", chart::install(&cluster.server, &values));
    let pods = pods(cluster);
    waits("the Pod with Envoy is ready", async || {
        let all = pods.are_ready(1).await;
        let containers = all[0].spec.as_ref().map_or(0, |spec| spec.containers.len());
        containers == 2
    })
    .await;
    let pod = pods.are_ready(1).await.remove(0);
    assert_eq!(restarts(&pod), 0, "{pod:?}");
    let processes = pods.processes(&pod);
    assert_eq!(processes.len(), 2, "{processes:?}");
    let envoy = processes.iter().find(|it| it.is("envoy")).unwrap();
    envoy.assert_has("0", BIND);
    let seen = fs::read_dir(envoy.folder("run/kedge")).unwrap();
    let seen: Vec<_> = seen.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(
        seen,
        ["envoy"],
        "the sockets of the gateway are not its own"
    );

    reaches(client).await;
    web::serve(edge, 8081, "edge", false);
    let site = cluster.folder("front.yaml");
    fs::write(&site, FRONT).unwrap();
    cluster.kubectl(&["apply", "--filename", site.to_str().unwrap()]);
    let browser = Browser::new(client, node::ADDRESS.parse().unwrap());
    waits("the client is answered by name", async || {
        let answer = browser.plain(8000, "shop.example", "GET /", "");
        answer.is_some_and(|it| it.status == 200 && it.name() == "edge")
    })
    .await;
    let other = browser.plain(8000, "else.example", "GET /", "").unwrap();
    assert_eq!(other.status, 404);
    // Connections outlive the gateway's own process.
    let mut kept = ask(client, node::ADDRESS.parse().unwrap(), 80, b"").unwrap();
    let gateway = processes.iter().find(|it| it.is("kedge")).unwrap();
    gateway.kill();
    waits(
        "the gateway is started again, and Envoy is not",
        async || {
            let pod = pods.all().await.remove(0);
            restarts(&pod) == 1
        },
    )
    .await;
    pods.are_ready(1).await;
    reaches(client).await;
    assert!(kept.lives(), "what was open is open");
}

/// What the chart is installed with.
fn values() -> Value {
    let mut values = manager::values();
    values["service"] = json!({"type": "NodePort"});
    values["gateway"] = json!({"enabled": true, "tokenSecret": SECRET,
        "nodeSelector": {"kedge.dev/gateway": "edge"}});
    values
}

/// Nothing of it is left where the chart is not any more.
pub async fn is_gone(cluster: &Cluster) {
    let pods = pods(cluster);
    waits("the gateway's Pod is gone", async || {
        let all = ["get", "pods", "--namespace", SPACE, "--output=name"];
        cluster.kubectl(&all).is_empty()
    })
    .await;
    assert!(pods.all().await.is_empty());
    let device = Links::open().unwrap().index("kedge0");
    assert!(device.is_err(), "its device is gone: {device:?}");
}

fn pods(cluster: &Cluster) -> Pods<'_> {
    Pods::within(cluster, SPACE, "gateway")
}

/// It has the rights it needs and no others, and its secrets are nobody else's.
fn is_itself(pods: &Pods<'_>, pod: &Pod) {
    let processes = pods.processes(pod);
    let gateway = &processes[0];
    gateway.assert_has("0", CAPABILITIES);
    let state = fs::read_dir(gateway.folder("var/lib/kedge/gateway")).unwrap();
    let mut files = Vec::new();
    for file in state.map(Result::unwrap) {
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{file:?} has mode {mode:o}");
        files.push(file.file_name().into_string().unwrap());
    }
    for name in ["identity.key", "tunnel.key"] {
        assert!(files.iter().any(|it| it == name), "{files:?}");
    }
}

/// The public key of its tunnel.
fn key(pods: &Pods<'_>, pod: &Pod) -> String {
    let said = pods.asked(pod, "tunnel list -o json").unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    let key = said["publicKey"].as_str();
    key.unwrap_or_else(|| panic!("{said}")).to_owned()
}

/// The instances that the manager enrolled.
fn instances(cluster: &Cluster) -> Value {
    let asked = ["get", "edgegateway", "edge", "--output=json"];
    let said = cluster.kubectl(&[&["--namespace=kedge-system"], &asked[..]].concat());
    let said: Value = serde_json::from_str(&said).unwrap();
    let all = said["spec"]["instances"].clone();
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{said}");
    all
}

/// A host enrols where the manager is reached from outside, and calls the gateway.
async fn calls<'a>(cluster: &Cluster, edge: &'a Host) -> Agent<'a> {
    let ports = manager::service(cluster).await.ports.unwrap();
    let at = format!("https://{}:{}", node::ADDRESS, ports[0].node_port.unwrap());
    let yaml = format!("version: 1\nmanager: {{url: '{at}', token_file: /etc/kedge/token}}\n");
    let kedge = env!("CARGO_BIN_EXE_kedge-on-kubernetes");
    let mut agent = Agent::new(edge, kedge, &yaml);
    let token = token::made(cluster, ["--tenant", "plant"]).await;
    let mut file = fs::File::options();
    let file = file.write(true).create_new(true).mode(0o600);
    let file = file.open(agent.root().join("etc/kedge/token"));
    file.unwrap().write_all(token.as_bytes()).unwrap();
    // The kernel's name is the machine's.
    fs::write(agent.root().join("etc/hostname"), "edge").unwrap();
    agent.start();
    waits("the tunnel of the host is up", async || {
        let said = agent.kedge("tunnel list -o json").json();
        said["items"][0]["state"] == "Up"
    })
    .await;
    agent
}

/// A client's words come back from the host by way of the gateway.
async fn reaches(client: &Host) {
    waits("the client reaches the host", async || {
        let answer = ask(client, node::ADDRESS.parse().unwrap(), 80, b"");
        answer.is_some_and(|mut it| it.name == "edge" && it.lives())
    })
    .await;
}

const SPACE: &str = "kedge-gateway";
const SECRET: &str = "kedge-gateway-token";
/// `CAP_NET_BIND_SERVICE`, `CAP_NET_ADMIN` and `CAP_NET_RAW`.
const CAPABILITIES: u64 = BIND | 1 << 12 | 1 << 13;
const BIND: u64 = 1 << 10;
const SITE: &str = "\
apiVersion: kedge.dev/v1alpha1
kind: EdgeGateway
metadata: {name: edge, namespace: kedge-system}
spec:
  service: {addresses: [10.1.0.2]}
  tunnel: {publicEndpoints: [{host: 10.1.0.2, port: 51820}]}
  http: {port: 8000, tlsPort: 8443}
---
apiVersion: kedge.dev/v1alpha1
kind: Tenant
metadata: {name: plant}
spec:
  namespace: tenant-plant
  gatewayRef: {name: edge, namespace: kedge-system}
  enrollment: {hostLabels: {role: web}}
  dns: {allowedHostnames: [shop.example]}
";
const FRONT: &str = "\
apiVersion: kedge.dev/v1alpha1
kind: TCPLoadBalancer
metadata: {name: pages, namespace: tenant-plant}
spec:
  exposure: Routed
  ports: [{name: http, port: 8081}]
  endpoints:
    - hostSelector: {matchLabels: {role: web}}
      addressFamily: IPv4
      ports: [{name: http, port: 8081}]
---
apiVersion: kedge.dev/v1alpha1
kind: HTTPLoadBalancer
metadata: {name: front, namespace: tenant-plant}
spec:
  hostnames: [shop.example]
  rules: [{backends: [{name: pages, port: 8081}]}]
";
const BALANCER: &str = "\
apiVersion: kedge.dev/v1alpha1
kind: TCPLoadBalancer
metadata: {name: web, namespace: tenant-plant}
spec:
  ports: [{name: http, port: 80}]
  endpoints:
    - hostSelector: {matchLabels: {role: web}}
      addressFamily: IPv4
      ports: [{name: http, port: 8080}]
";
