//! The whole gateway against a host at the other end of a wire: tunnel, liveness, proxy, restart.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code"
)]

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use axum::http::{Method, StatusCode};
use kedge_control::{
    agent::{GatewayConfig, PeerConfig, TunnelConfig},
    balance::{Listener, Member},
};
use kedge_core::Problem;
use kedge_gateway_hub::{GatewayFile, serve};
use kedge_host::{
    Role, Root, identity::TunnelKey, layers::Live, local::call, orders::Order, state::Store,
};
use kedge_net::{
    link::Links,
    netns::{Lease, Namespace, Worker},
};
use kedge_tunnel_device::{Device, DeviceConfig, PeerSpec, Workers, echo, offload::Allowed};
use kedge_tunnel_proto::{
    keys::{PrivateKey, PublicKey},
    memory::Memory,
    noise::CoreName,
};
use serde_json::Value;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
};

const LIMIT: Duration = Duration::from_secs(15);
const GATEWAY: &str = "fd6b:6564:6765::1";
const HOST: &str = "fd6b:6564:6765::a";
const PUBLIC: &str = "203.0.113.7";

#[test]
fn a_host_is_reached_through_the_gateway_for_as_long_as_it_lives() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    site.start_gateway();
    let problems = site.problems();
    assert_eq!(problems, ["KEDGE-GW-0002"], "nobody is there yet");
    assert!(site.ask_through().is_err());

    site.start_host();
    eventually("the host is alive", || site.state() == "Up");
    eventually("a client is served", || site.ask_through().is_ok());
    assert!(site.problems().is_empty(), "{:?}", site.problems());
    let status = site.get("/v1/status");
    assert_eq!(status["listeners"][0]["members"][0]["alive"], true);
    assert_eq!(status["tunnels"][0]["allowedIPs"][0], format!("{HOST}/128"));
    assert!(status["tunnels"][0]["rxBytes"].as_u64().unwrap() > 0);
    assert_eq!(site.get("/v1/tunnels")["device"], "kedge0");
    assert_eq!(site.get("/v1/tunnels/a")["name"], "a");
    let (code, _) = site.ask(Method::GET, "/v1/tunnels/nobody");
    assert_eq!(code, StatusCode::NOT_FOUND);

    site.stop_host();
    let took = eventually("the dead host gets no connections", || {
        site.get("/v1/status")["listeners"][0]["members"][0]["alive"] == false
    });
    assert!(took < Duration::from_secs(4), "{took:?}");
    let start = Instant::now();
    let error = site.ask_through().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    assert!(start.elapsed() < Duration::from_millis(300), "at once");
    assert_eq!(site.state(), "Down");
    assert_eq!(site.problems(), ["KEDGE-GW-0002"]);

    site.start_host();
    eventually("the host is back", || site.ask_through().is_ok());
}

#[test]
fn a_restarted_gateway_is_found_within_three_seconds_and_serves_without_a_manager() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    site.start_gateway();
    site.start_host();
    eventually("a client is served", || site.ask_through().is_ok());
    site.stop_gateway().unwrap();
    assert!(site.ask_through().is_err());
    site.start_gateway();
    let took = eventually("a client is served after the restart", || {
        site.ask_through().is_ok()
    });
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_bad_reload_keeps_what_runs_and_a_good_one_is_a_difference() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    site.start_gateway();
    site.start_host();
    eventually("a client is served", || site.ask_through().is_ok());
    site.configure("tunnel: {listen_port: 70000}");
    let (code, body) = site.ask(Method::POST, "/v1/reload");
    assert_eq!(code, StatusCode::BAD_REQUEST, "{body}");
    assert_eq!(site.problems(), ["KEDGE-CFG-0007"]);
    assert!(site.ask_through().is_ok());
    site.configure("name: gw-9");
    site.order(Order::Reload);
    eventually("the file is good again", || site.problems().is_empty());
    assert!(site.ask_through().is_ok());
    assert_eq!(site.get("/v1/config")["values"]["name"], "gw-9");
}

#[test]
fn another_port_is_taken_up_although_there_is_no_manager() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    site.start_gateway();
    site.configure("tunnel: {listen_port: 51999}");
    let (code, body) = site.ask(Method::POST, "/v1/reload");
    assert_eq!(code, StatusCode::OK, "{body}");
    assert_eq!(body["changes"].as_array().unwrap().len(), 2, "{body}");
    eventually("the hub listens there", || {
        site.get("/v1/tunnels")["listenPort"] == 51999
    });
}

/// A running gateway: how to order it about, and how it ended.
type Gateway = (mpsc::Sender<Order>, JoinHandle<Result<(), Problem>>);

/// A gateway and a host on one wire.
struct Site {
    root: Root,
    gateway: Option<Gateway>,
    host: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    gateway_space: Worker,
    host_space: Worker,
    key: PrivateKey,
    gateway_key: PublicKey,
    _dir: tempfile::TempDir,
    _spaces: [Namespace; 2],
    _lease: Lease,
}

impl Site {
    fn new() -> Self {
        let lease = Lease::take().unwrap();
        let spaces = ["gw", "host"].map(|name| Namespace::create(&lease.namespace(name)).unwrap());
        let [gateway_space, host_space] =
            [&spaces[0], &spaces[1]].map(|namespace| Worker::start(namespace).unwrap());
        let other = spaces[1].name().to_owned();
        gateway_space
            .run(move || {
                let other = Namespace::open(&other).unwrap();
                Links::open()
                    .unwrap()
                    .veth("eth0", "eth0", Some(&other))
                    .unwrap();
            })
            .unwrap();
        for (space, net) in [
            (&gateway_space, "203.0.113.7/24"),
            (&host_space, "203.0.113.8/24"),
        ] {
            space
                .run(move || {
                    let mut links = Links::open().unwrap();
                    links.up("lo").unwrap();
                    links.up("eth0").unwrap();
                    links.add_address("eth0", net.parse().unwrap()).unwrap();
                })
                .unwrap();
        }
        // The service the listener leads to; it needs no tunnel to run, only to be reached.
        host_space
            .run(|| {
                let server = TcpListener::bind("[::]:6443").unwrap();
                std::thread::spawn(move || answer_all(&server));
            })
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        std::fs::create_dir_all(root.config_dir()).unwrap();
        let key = PrivateKey::from_random([7; 32]);
        let gateway_key = TunnelKey::load_or_create(&root, Role::Gateway).unwrap();
        let gateway_key = PrivateKey::from_bytes(*gateway_key.expose()).unwrap();
        let desired = GatewayConfig {
            generation: 3,
            tunnel: Some(TunnelConfig {
                addresses: vec![format!("{GATEWAY}/128").parse().unwrap()],
                mtu: 1400,
                peers: vec![PeerConfig {
                    name: "a".to_owned(),
                    public_key: key.public().to_string(),
                    next_public_key: None,
                    endpoint: None,
                    other_endpoint: None,
                    tls_endpoint: None,
                    tenant: String::new(),
                    allowed_ips: vec![format!("{HOST}/128").parse().unwrap()],
                    keepalive_seconds: 0,
                }],
            }),
            meshes: Vec::new(),
            listeners: vec![Listener {
                name: "edge/edge/6443".to_owned(),
                address: PUBLIC.parse().unwrap(),
                port: 6443,
                members: vec![Member {
                    host: "a".to_owned(),
                    address: HOST.parse().unwrap(),
                    port: 6443,
                    draining: false,
                }],
            }],
            ca_bundle: String::new(),
            ..GatewayConfig::default()
        };
        Store::new(root.state_dir(Role::Gateway))
            .save("desired", &desired)
            .unwrap();
        let site = Self {
            gateway: None,
            host: None,
            gateway_space,
            host_space,
            key,
            gateway_key: gateway_key.public(),
            root,
            _dir: dir,
            _spaces: spaces,
            _lease: lease,
        };
        site.configure("name: gw-0");
        site
    }

    fn configure(&self, yaml: &str) {
        std::fs::write(self.root.config_file(Role::Gateway), yaml).unwrap();
    }

    fn start_gateway(&mut self) {
        let (orders, received) = mpsc::channel(4);
        let root = self.root.clone();
        let run = move || {
            let live = Live::<GatewayFile>::load(root, Vec::new()).unwrap();
            runtime().block_on(serve(live, received))
        };
        let thread = self
            .gateway_space
            .run(move || std::thread::spawn(run))
            .unwrap();
        self.gateway = Some((orders, thread));
        let socket = self.root.socket(Role::Gateway);
        eventually("the gateway serves", || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        eventually("its listener is bound", || {
            self.get("/v1/status")["listeners"][0]["bound"] == true
        });
    }

    fn order(&self, order: Order) {
        self.gateway.as_ref().unwrap().0.try_send(order).unwrap();
    }

    fn stop_gateway(&mut self) -> Result<(), Problem> {
        self.order(Order::Leave("test"));
        self.gateway.take().unwrap().1.join().unwrap()
    }

    /// A host as an agent makes it: a device and the echo.
    fn start_host(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let (key, gateway) = (self.key.clone(), self.gateway_key);
        let (up, ready) = std::sync::mpsc::channel();
        let run = move || {
            let device = Device::open(DeviceConfig {
                ifname: "kedge0".to_owned(),
                private_key: key,
                listen_port: 0,
                other_port: None,
                addresses: vec![format!("{HOST}/128").parse().unwrap()],
                mtu: 1400,
                noise_core: CoreName::Boringtun,
                offload: Allowed::ALL,
                workers: Workers::ONE,
                memory: Memory::default(),
            })
            .unwrap();
            let peer = PeerSpec {
                name: "gw-0".to_owned(),
                public_key: gateway,
                preshared_key: None,
                endpoint: Some(format!("{PUBLIC}:51820").parse().unwrap()),
                allowed_ips: vec![format!("{GATEWAY}/128").parse().unwrap()],
                keepalive: Some(Duration::from_secs(25)),
                always_up: true,
                accepts: Vec::new(),
                relays: false,
                realm: None,
                next_key: None,
            };
            device.apply(vec![peer]).unwrap();
            let runtime = runtime();
            let _inside = runtime.enter();
            let (local, remote) = (HOST.parse().unwrap(), GATEWAY.parse().unwrap());
            let config = echo::Config::default();
            let _echo =
                echo::Client::start(device.handle(), "gw-0", local, remote, config).unwrap();
            up.send(()).unwrap();
            let _ = runtime.block_on(stopped);
            device.close().unwrap();
        };
        let thread = self
            .host_space
            .run(move || std::thread::spawn(run))
            .unwrap();
        ready.recv_timeout(LIMIT).unwrap();
        self.host = Some((stop, thread));
    }

    fn stop_host(&mut self) {
        let (stop, thread) = self.host.take().unwrap();
        drop(stop);
        thread.join().unwrap();
    }

    /// One question through the gateway's listener, answered by the host.
    fn ask_through(&self) -> std::io::Result<()> {
        let ask = || {
            let at = SocketAddr::new(PUBLIC.parse().unwrap(), 6443);
            let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(1))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(b"ping")?;
            stream.shutdown(Shutdown::Write)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            assert_eq!(answer, "pong ping");
            Ok(())
        };
        self.gateway_space.run(ask).unwrap()
    }

    fn get(&self, route: &str) -> Value {
        let (status, body) = self.ask(Method::GET, route);
        assert_eq!(status, StatusCode::OK, "{route}: {body}");
        body
    }

    fn ask(&self, method: Method, route: &str) -> (StatusCode, Value) {
        let socket = self.root.socket(Role::Gateway);
        let reply = runtime()
            .block_on(call(&socket, method, route, Vec::new()))
            .unwrap();
        (reply.status, reply.json().unwrap())
    }

    fn state(&self) -> String {
        let tunnels = self.get("/v1/tunnels");
        tunnels["items"][0]["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    fn problems(&self) -> Vec<String> {
        let status = self.get("/v1/status");
        let problems = status["problems"].as_array().unwrap();
        let code = |problem: &Value| problem["code"].as_str().unwrap().to_owned();
        problems.iter().map(code).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.host.is_some() {
            self.stop_host();
        }
        if self.gateway.is_some() {
            let _ = self.stop_gateway();
        }
    }
}

fn answer_all(server: &TcpListener) {
    for stream in server.incoming() {
        let Ok(mut stream) = stream else { return };
        let mut question = String::new();
        if stream.read_to_string(&mut question).is_ok() {
            let _ = stream.write_all(format!("pong {question}").as_bytes());
        }
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn ready() -> bool {
    if kedge_net::privilege::check().is_ok() {
        return true;
    }
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|tier| tier == "netns");
    assert!(!required, "network namespaces need root");
    eprintln!("skipped: network namespaces need root");
    false
}

/// Waits for a level, at most [`LIMIT`]; says how long it took.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("{what}: {:?}", start.elapsed());
    start.elapsed()
}
