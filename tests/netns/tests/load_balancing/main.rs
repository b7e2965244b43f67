//! A tenant's TCPLoadBalancer from the file to the bytes: a manager over a directory, a gateway, and
//! hosts behind a router that translates addresses, whose agents have enrolled and called the gateway.
//!
//! ```text
//!   edge-a 10.1.0.2 ─┐                     ┌─ 203.0.113.7  gateway :80 ◄── client 203.0.113.50
//!   edge-b 10.1.0.3 ─┴─ 10.1.0.1  router ──┤
//!     :30080            203.0.113.1        └─ 203.0.113.9  manager
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod apart;
mod behind;
mod http;
mod passed;
mod ranges;

use std::{
    collections::BTreeSet,
    net::{SocketAddr, UdpSocket},
    path::Path,
};

use kedge_tests_netns::{
    agent::Agent,
    answers::{self, Answers, ask},
    asked::Asked as _,
    envoy::executable,
    eventually,
    gateway::Gateway,
    lan::{Host, Lan},
    manager::Manager,
    millis, ready, secs, tenant, throughout,
};
use serde_json::json;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const TCP: &str = "TCPLoadBalancer";

const SITE: &str = "\
apiVersion: kedge.dev/v1alpha1
kind: Tenant
metadata: {name: shop}
spec:
  namespace: shop
  enrollment: {hostLabels: {role: web}}
  gatewayRef: {name: gw}
---
apiVersion: kedge.dev/v1alpha1
kind: EdgeGateway
metadata: {name: gw, namespace: kedge-system}
spec:
  tunnel:
    cidrs: [198.18.0.0/16]
    publicEndpoints: [{host: 203.0.113.7, port: 51820}]
  envoy: {drain: 3s}
";

fn load_balancer(name: &str, more: &str) -> String {
    format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: TCPLoadBalancer\n\
         metadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  ports: [{{name: http, port: 80}}]\n  endpoints:\n  \
         - hostSelector: {{matchLabels: {{role: web}}}}\n    \
         ports: [{{name: http, port: {BACKEND}}}]\n{more}"
    )
}

struct Site {
    lan: Lan,
    edges: [Host; 2],
    gateway: Host,
    manager: Host,
    client: Host,
    _router: Host,
}

impl Site {
    fn new() -> Self {
        let lan = Lan::new();
        let router = tenant::router(&lan);
        let edges = [
            tenant::edge(&lan, "edge-a", 2),
            tenant::edge(&lan, "edge-b", 3),
        ];
        Self {
            gateway: lan.host("gateway", "203.0.113.7/24"),
            manager: lan.host("manager", tenant::MANAGER),
            client: lan.host("client", "203.0.113.50/24"),
            _router: router,
            edges,
            lan,
        }
    }

    /// A manager, a gateway with that proxy, and both hosts, all enrolled.
    fn start(&self, proxy: &str) -> (Manager<'_>, Gateway<'_>, [Agent<'_>; 2]) {
        self.start_with(SITE, proxy)
    }

    /// The same with another desired state.
    fn start_with(&self, yaml: &str, proxy: &str) -> (Manager<'_>, Gateway<'_>, [Agent<'_>; 2]) {
        let manager = Manager::start(&self.manager, KEDGE, &[("site.yaml", yaml)]);
        let yaml = format!("name: gw-0\n{proxy}");
        let gateway = tenant::gateway(&manager, &self.gateway, KEDGE, &yaml);
        let edges = [&self.edges[0], &self.edges[1]];
        let agents = edges.map(|edge| tenant::agent(&manager, edge, KEDGE, ""));
        all_up(&gateway, 2);
        (manager, gateway, agents)
    }

    fn name(&self) -> Option<String> {
        ask(&self.client, self.gateway.address().into(), 80, b"").map(|asked| asked.name)
    }

    fn both_answer(&self, what: &str) {
        let mut heard = BTreeSet::new();
        eventually(what, secs(15), || {
            heard.extend(self.name());
            heard.len() == 2
        });
    }
}

/// What holds whichever proxy carries the bytes.
fn bytes_flow(proxy: &str) {
    let site = Site::new();
    for edge in &site.edges {
        let _ = Answers::start(edge, BACKEND, &edge.name, 0);
    }
    let (manager, gateway, agents) = site.start(proxy);
    assert_eq!(site.name(), None, "nobody asked for it yet");
    let sessions = || {
        let of_each = agents
            .iter()
            .map(|it| it.kedge("bfd sessions -o json").json());
        let listed = of_each.flat_map(|it| it["items"].as_array().unwrap().clone());
        listed.collect::<Vec<_>>()
    };
    assert_eq!(
        sessions(),
        Vec::<serde_json::Value>::new(),
        "no gateway asks a host that serves nothing"
    );

    manager.write("web.yaml", &load_balancer("web", ""));
    site.both_answer("both hosts answer a client through the gateway");
    eventually("it is said to be ready", secs(10), || {
        manager.condition(TCP, "shop/web", "Ready") == "True Ready"
    });
    eventually("both hosts are counted", secs(10), || {
        manager.status(TCP, "shop/web")["activeEndpoints"] == 2
    });
    let shown = manager.kedge("lb list -o json").json();
    assert_eq!(shown["items"][0]["ports"][0]["listenerPort"], 80, "{shown}");
    // Each host that comes is a state the gateway has not served yet.
    let served = "shop/web  is served at 203.0.113.7 80/TCP by 2 of 2 hosts";
    eventually("it is explained", secs(10), || {
        manager.kedge("lb explain web").out.contains(served)
    });
    let status = manager.status(TCP, "shop/web");
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    assert_eq!(
        status["ingress"],
        json!([{"ip": "203.0.113.7", "ports": ports}])
    );
    let kept = manager.documents("owned", TCP, "shop/web");
    assert_eq!(
        kept[0]["spec"]["ports"],
        json!([{"name": "http", "listenerPort": 80}])
    );

    // A host that is gone without a word is left out once its tunnel is silent. That is known within a second,
    // since connections go to it.
    eventually("the gateway has BFD with both", secs(15), || {
        sessions().iter().filter(|it| it["state"] == "Up").count() == 2
    });
    eventually("the gateway says the same of its hosts", secs(5), || {
        let said = gateway.kedge("bfd sessions -o json").json();
        let items = said["items"].as_array().unwrap();
        let is_up = |name: &str| {
            let own = |it: &&serde_json::Value| it["name"].as_str().unwrap().ends_with(name);
            items.iter().find(own).is_some_and(|it| it["state"] == "Up")
        };
        items.len() == 2 && is_up("/edge-a") && is_up("/edge-b")
    });
    site.lan.unplug(&site.edges[1]);
    eventually("BFD has lost it", secs(15), || {
        gateway.log().contains("BFD lost it")
    });
    eventually("the dead host is counted out", secs(15), || {
        manager.condition(TCP, "shop/web", "BackendsHealthy") == "False SomeUnhealthy"
    });
    eventually("one is counted", secs(5), || {
        manager.status(TCP, "shop/web")["activeEndpoints"] == 1
    });
    for _ in 0..50 {
        assert_eq!(site.name().as_deref(), Some("edge-a"));
    }
    let said = manager.kedge("lb show shop/web");
    let down = |line: &str| line.contains("edge-b") && line.contains("DOWN");
    assert!(said.out.lines().any(down), "{said:?}");
    assert_eq!(manager.condition(TCP, "shop/web", "Ready"), "True Ready");
    site.lan.plug(&site.edges[1]);
    site.both_answer("it is back");
    a_host_is_left(&site, &manager);

    // The port is taken: whoever comes later waits, and disturbs nobody.
    manager.write("other.yaml", &load_balancer("other", ""));
    eventually("the later one is refused", secs(10), || {
        manager.condition(TCP, "shop/other", "Accepted") == "False PortInUse"
    });
    assert_eq!(
        manager.condition(TCP, "shop/web", "Accepted"),
        "True Accepted"
    );
    throughout("the first one serves", secs(1), || site.name().is_some());
    let said = manager.kedge("lb explain other");
    assert!(
        said.out.contains("is not served") && said.out.contains("PortInUse"),
        "{said:?}"
    );
    assert_eq!(manager.kedge("lb show nobody").code, 1);

    // It has the port as soon as the first one is gone.
    manager.remove("web.yaml");
    eventually("the later one is served", secs(15), || {
        manager.condition(TCP, "shop/other", "Ready") == "True Ready"
    });
    site.both_answer("both hosts answer behind the other one");
    eventually("nothing is left of the first one", secs(15), || {
        manager.documents("owned", TCP, "shop/web").is_empty()
            && manager.documents("status", TCP, "shop/web").is_empty()
    });

    manager.remove("other.yaml");
    eventually("nobody answers", secs(10), || site.name().is_none());
    eventually("the gateway serves nothing", secs(10), || {
        let status = gateway.kedge("status -o json").json();
        status["listeners"] == json!([])
    });
    eventually("nothing is left behind", secs(15), || {
        manager.documents("owned", TCP, "shop/other").is_empty()
            && manager.documents("status", TCP, "shop/other").is_empty()
    });
}

/// A host that is left keeps the connections it has, and gets no other one; the gateway says when it is
/// empty.
fn a_host_is_left(site: &Site, manager: &Manager<'_>) {
    let gateway = site.gateway.address().into();
    let mut open = None;
    eventually("a connection to the host", secs(5), || {
        let asked = ask(&site.client, gateway, 80, b"");
        open = asked.filter(|asked| asked.name == "edge-b");
        open.is_some()
    });
    let mut open = open.unwrap();
    manager.write("web.yaml", &load_balancer("web", LEFT));
    let busy = || busy(manager);
    eventually("the host is left, and busy", secs(10), || {
        busy() == Some(true)
    });
    for _ in 0..100 {
        let name = site.name();
        assert_eq!(name.as_deref(), Some("edge-a"), "nothing fails");
        assert!(open.lives(), "what is open goes on");
    }
    assert_eq!(busy(), Some(true));
    assert_eq!(
        manager.status(TCP, "shop/web")["activeEndpoints"],
        1,
        "it is none to count on"
    );
    drop(open);
    eventually("nothing is open to it", secs(10), || busy() == Some(false));
    manager.write("web.yaml", &load_balancer("web", ""));
    site.both_answer("it is one of them again");
    eventually("nothing is left", secs(10), || busy().is_none());
}

/// Waits for the tunnels of as many hosts.
fn all_up(gateway: &Gateway<'_>, hosts: usize) {
    eventually("the tunnels of all hosts are up", secs(30), || {
        let status = gateway.kedge("status -o json").json();
        let tunnels = status["tunnels"].as_array().cloned().unwrap_or_default();
        let up = tunnels.iter().filter(|tunnel| tunnel["state"] == "Up");
        up.count() == hosts
    });
}

/// How a gateway is told to have an Envoy carry the bytes.
fn by_envoy(envoy: &Path) -> String {
    format!("proxy: {{engine: envoy, envoy: '{}'}}\n", envoy.display())
}

/// Whether anything is open to the host that is left, by the gateway's word.
fn busy(manager: &Manager<'_>) -> Option<bool> {
    busy_at(manager, "shop/edge-b")
}

/// The same of any host.
fn busy_at(manager: &Manager<'_>, host: &str) -> Option<bool> {
    let status = manager.status("EdgeGateway", "kedge-system/gw");
    let draining = status["instances"][0]["draining"].as_array().cloned();
    let mut draining = draining.unwrap_or_default().into_iter();
    let found = draining.find(|one| one["host"] == host && one["port"] == BACKEND);
    found.and_then(|one| one["busy"].as_bool())
}

#[test]
fn bytes_flow_through_the_gateways_own_proxy() {
    if ready() {
        bytes_flow("");
    }
}

#[test]
fn bytes_flow_to_a_tenant_in_a_namespace_of_its_own() {
    if ready() {
        bytes_flow("tenants: {isolation: namespace}\n");
    }
}

#[test]
fn datagrams_flow_and_a_dead_hosts_sessions_move() {
    if ready() {
        datagrams_flow("");
    }
}

#[test]
fn datagrams_flow_past_envoy_and_a_dead_hosts_sessions_move() {
    if let Some(envoy) = executable().filter(|_| ready()) {
        datagrams_flow(&by_envoy(envoy));
    }
}

fn datagrams_flow(proxy: &str) {
    let site = Site::new();
    for edge in &site.edges {
        answers::datagrams(edge, BACKEND, &edge.name);
    }
    let (manager, _gateway, _agents) = site.start(proxy);
    let dns = load_balancer("dns", "").replace("port: 80}", "port: 53, protocol: UDP}");
    manager.write("dns.yaml", &dns);
    eventually("it is said to be ready", secs(15), || {
        manager.condition(TCP, "shop/dns", "Ready") == "True Ready"
    });
    let at = SocketAddr::from((site.gateway.address(), 53));
    let client = || {
        let socket = site.client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
        socket.connect(at).unwrap();
        socket.set_read_timeout(Some(millis(300))).unwrap();
        socket
    };
    let clients = [client(), client()];
    let mut first = [String::new(), String::new()];
    for (client, name) in clients.iter().zip(&mut first) {
        eventually("a host answers", secs(5), || match say(client) {
            Some(said) => {
                *name = said;
                true
            }
            None => false,
        });
        for _ in 0..20 {
            assert_eq!(say(client).as_ref(), Some(&*name), "a session stays");
        }
    }
    assert_ne!(first[0], first[1], "sessions are spread");
    // The host of the first one dies: its next datagrams reach the other.
    let dead = site
        .edges
        .iter()
        .find(|edge| edge.name == first[0])
        .unwrap();
    site.lan.unplug(dead);
    eventually("the session moved", secs(10), || {
        say(&clients[0]).as_ref() == Some(&first[1])
    });
    assert_eq!(say(&clients[1]).as_ref(), Some(&first[1]));
    manager.remove("dns.yaml");
    eventually("nobody answers", secs(10), || say(&clients[1]).is_none());
}

/// Says a word; who answers, if somebody does in time.
fn say(client: &UdpSocket) -> Option<String> {
    client.send(b"well").ok()?;
    let mut room = [0; 64];
    let length = client.recv(&mut room).ok()?;
    Some(String::from_utf8_lossy(&room[..length]).into_owned())
}

#[test]
fn bytes_flow_through_envoy() {
    if let Some(envoy) = executable().filter(|_| ready()) {
        bytes_flow(&by_envoy(envoy));
    }
}

#[test]
fn what_a_proxy_does_not_do_is_told_at_the_object_and_the_rest_is_served() {
    if !ready() {
        return;
    }
    let site = Site::new();
    for edge in &site.edges {
        let _ = Answers::start(edge, BACKEND, &edge.name, 0);
    }
    let (manager, _gateway, _agents) = site.start("");
    let told =
        load_balancer("told", "  sessionAffinity: ClientIP\n").replace("port: 80}", "port: 81}");
    manager.write("told.yaml", &told);
    manager.write("web.yaml", &load_balancer("web", ""));
    eventually("the gateway's word is in the condition", secs(15), || {
        manager.condition(TCP, "shop/told", "Programmed") == "False Unsupported"
    });
    site.both_answer("the other one is served");
    // Without it, it is served as well.
    manager.write(
        "told.yaml",
        &load_balancer("told", "").replace("port: 80}", "port: 81}"),
    );
    eventually("it is served", secs(15), || {
        manager.condition(TCP, "shop/told", "Ready") == "True Ready"
    });
    let asked = ask(&site.client, site.gateway.address().into(), 81, b"");
    assert!(asked.is_some());
}

/// What leaves the second host.
const LEFT: &str = "    drainingHosts: [edge-b]\n";
/// Where the hosts serve.
const BACKEND: u16 = 30080;
