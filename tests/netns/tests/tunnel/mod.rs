//! A host behind a NAT router and a gateway, each in its own network namespace:
//!
//! ```text
//!   host 10.20.14.11 ── 10.20.14.1 router 198.51.100.1 ── 198.51.100.7 gateway
//!   fd6b:6564:6765::a        masquerades on its way out       fd6b:6564:6765::1
//! ```

pub mod crew;
pub mod wireguard_go;

use std::{
    fmt::Debug,
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    process::{Command, Output},
    sync::{
        Arc, Once,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use kedge_net::{
    link::{Links, sysctl},
    netns::{Lease, Namespace},
    nft, privilege,
};
use kedge_tunnel_device::{Device, DeviceConfig, PeerSpec, PeerStats, Workers, offload::Allowed};
use kedge_tunnel_proto::{keys::PrivateKey, memory::Memory, noise::CoreName};
use tracing_subscriber::{
    Layer, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

pub const HOST: &str = "fd6b:6564:6765::a";
pub const GATEWAY: &str = "fd6b:6564:6765::1";
pub const HOST_V4: &str = "198.18.0.10";
pub const GATEWAY_V4: &str = "198.18.0.1";
pub const GATEWAY_WAN: &str = "198.51.100.7";
pub const PORT: u16 = 51820;

/// Whether namespaces can be had; says why when not.
pub fn ready() -> bool {
    static LOGS: Once = Once::new();
    if privilege::check().is_err() {
        let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|tier| tier == "netns"),
            "KEDGE_REQUIRE=netns needs root"
        );
        println!("skipped: network namespaces need root");
        return false;
    }
    LOGS.call_once(|| {
        // boringtun calls ordinary expiry an error; the program's filter caps it likewise.
        let filter =
            std::env::var("KEDGE_TEST_LOG").unwrap_or_else(|_| "info,boringtun=off".into());
        let lines = tracing_subscriber::fmt::layer().with_test_writer();
        tracing_subscriber::registry()
            .with(filter.parse::<Targets>().unwrap())
            .with(lines)
            .with(ErrorCount)
            .init();
    });
    true
}

/// How many lines a test expects to be logged as ERROR.
pub static EXPECTED_ERRORS: AtomicUsize = AtomicUsize::new(0);

/// How many lines were.
static ERRORS: AtomicUsize = AtomicUsize::new(0);

struct ErrorCount;

impl<S: tracing::Subscriber> Layer<S> for ErrorCount {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::ERROR {
            ERRORS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The three namespaces.
pub struct Site {
    pub host: Namespace,
    pub router: Namespace,
    pub gateway: Namespace,
    // Last: it goes when the namespaces have gone.
    _lease: Lease,
}

impl Site {
    pub fn new() -> Self {
        // The mark of a live run: what a killed one leaves is collected by the next.
        let lease = Lease::take().unwrap();
        let namespace = |node| Namespace::create(&lease.namespace(node)).unwrap();
        let (host, router, gateway) = (namespace("host"), namespace("router"), namespace("gw"));
        let site = Self {
            host,
            router,
            gateway,
            _lease: lease,
        };
        let cable =
            |from: &Namespace, name: &str, at: &str, to: &Namespace, far: &str, far_at: &str| {
                from.run(|| Links::open().unwrap().veth(name, far, Some(to)).unwrap())
                    .unwrap();
                for (namespace, name, at) in [(from, name, at), (to, far, far_at)] {
                    namespace
                        .run(|| {
                            let mut links = Links::open().unwrap();
                            links.up("lo").unwrap();
                            links.up(name).unwrap();
                            links.add_address(name, at.parse().unwrap()).unwrap();
                        })
                        .unwrap();
                }
            };
        cable(
            &site.host,
            "eth0",
            "10.20.14.11/24",
            &site.router,
            "lan",
            "10.20.14.1/24",
        );
        cable(
            &site.router,
            "wan",
            "198.51.100.1/24",
            &site.gateway,
            "eth0",
            "198.51.100.7/24",
        );
        site.router
            .run(|| {
                sysctl("ipv4/ip_forward", "1").unwrap();
                nft::masquerade("wan").unwrap();
            })
            .unwrap();
        let default = |via: &str| {
            let via: IpAddr = via.parse().unwrap();
            Links::open()
                .unwrap()
                .add_route("0.0.0.0/0".parse().unwrap(), via)
                .unwrap();
        };
        site.host.run(|| default("10.20.14.1")).unwrap();
        site
    }

    /// Nothing was logged as ERROR that no test expects.
    fn check_log() {
        let (errors, expected) = (
            ERRORS.load(Ordering::Relaxed),
            EXPECTED_ERRORS.load(Ordering::Relaxed),
        );
        assert!(errors <= expected, "{errors} lines at ERROR");
    }

    /// The host's device, which calls out.
    pub fn open_host(&self) -> Device {
        self.open_host_with(Allowed::ALL)
    }

    /// The same with less left to the kernel.
    pub fn open_host_with(&self, offload: Allowed) -> Device {
        let config = DeviceConfig {
            offload,
            ..config(1, 0, &[HOST, HOST_V4])
        };
        self.host.run(|| Device::open(config)).unwrap().unwrap()
    }

    /// The gateway's device, which waits on [`PORT`].
    pub fn open_gateway(&self) -> Device {
        self.gateway
            .run(|| Device::open(config(2, PORT, &[GATEWAY, GATEWAY_V4])))
            .unwrap()
            .unwrap()
    }

    /// Both, with each other as peers.
    pub fn open(&self) -> (Device, Device) {
        let (host, gateway) = (self.open_host(), self.open_gateway());
        gateway.apply(vec![host_peer()]).unwrap();
        host.apply(vec![gateway_peer()]).unwrap();
        (host, gateway)
    }

    /// Answers UDP on the gateway's overlay addresses as long as the value lives.
    pub fn echo(&self) -> UdpEcho {
        UdpEcho::start(&self.gateway, &[GATEWAY, GATEWAY_V4])
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            Self::check_log();
        }
    }
}

pub fn key(number: u8) -> PrivateKey {
    PrivateKey::from_random([number; 32])
}

pub fn config(number: u8, port: u16, addresses: &[&str]) -> DeviceConfig {
    let addresses = addresses
        .iter()
        .map(|text| text.parse::<IpAddr>().unwrap().into())
        .collect();
    DeviceConfig {
        ifname: "kedge0".into(),
        private_key: key(number),
        listen_port: port,
        other_port: None,
        addresses,
        mtu: 1420,
        noise_core: noise_core(),
        offload: Allowed::ALL,
        workers: workers(),
        memory: Memory::default(),
    }
}

/// The Noise core the tests run on: boringtun's, or our own with `KEDGE_TEST_NOISE_CORE=own`.
pub fn noise_core() -> CoreName {
    match std::env::var("KEDGE_TEST_NOISE_CORE").as_deref() {
        Ok("own") => CoreName::Own,
        _ => CoreName::Boringtun,
    }
}

/// How many workers the tests' devices have: one, or as many as `KEDGE_TEST_WORKERS` says.
pub fn workers() -> Workers {
    let many = std::env::var("KEDGE_TEST_WORKERS").ok();
    let many = many.and_then(|many| many.parse().ok());
    many.map_or(Workers::ONE, Workers::configured)
}

/// The gateway as the host sees it.
pub fn gateway_peer() -> PeerSpec {
    PeerSpec {
        name: "gw-0".into(),
        public_key: key(2).public(),
        preshared_key: None,
        endpoint: Some(SocketAddr::new(GATEWAY_WAN.parse().unwrap(), PORT)),
        allowed_ips: [GATEWAY, GATEWAY_V4]
            .map(|text| text.parse::<IpAddr>().unwrap().into())
            .into(),
        keepalive: Some(Duration::from_secs(25)),
        always_up: true,
        accepts: Vec::new(),
        relays: false,
        realm: None,
        next_key: None,
    }
}

/// The host as the gateway sees it.
pub fn host_peer() -> PeerSpec {
    PeerSpec {
        name: "host-1".into(),
        public_key: key(1).public(),
        preshared_key: None,
        endpoint: None,
        allowed_ips: [HOST, HOST_V4]
            .map(|text| text.parse::<IpAddr>().unwrap().into())
            .into(),
        keepalive: None,
        always_up: false,
        accepts: Vec::new(),
        relays: false,
        realm: None,
        next_key: None,
    }
}

/// A UDP socket in a namespace.
pub fn socket(namespace: &Namespace, address: &str) -> UdpSocket {
    let address: IpAddr = address.parse().unwrap();
    namespace
        .run(|| UdpSocket::bind((address, 0)))
        .unwrap()
        .unwrap()
}

/// Whether a datagram goes there and back within 200 ms.
pub fn answered(socket: &UdpSocket, to: &str) -> bool {
    answered_within(socket, to, Duration::from_millis(200))
}

/// Whether a datagram goes there and back within `limit`. Allocates nothing.
pub fn answered_within(socket: &UdpSocket, to: &str, limit: Duration) -> bool {
    let to = SocketAddr::new(to.parse().unwrap(), UDP_ECHO);
    socket.set_read_timeout(Some(limit)).unwrap();
    // While there is no session the kernel may refuse; that is "no" as well.
    if socket.send_to(b"through the tunnel", to).is_err() {
        std::thread::sleep(Duration::from_millis(20));
        return false;
    }
    let mut buffer = [0; 64];
    matches!(socket.recv_from(&mut buffer), Ok((18, from)) if from == to)
}

/// Whether a datagram of `length` bytes comes back unchanged within a second.
pub fn echoed(socket: &UdpSocket, to: &str, length: usize) -> bool {
    let to = SocketAddr::new(to.parse().unwrap(), UDP_ECHO);
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let sent: Vec<u8> = (0..length).map(|at| at.to_le_bytes()[0]).collect();
    socket.send_to(&sent, to).unwrap();
    let mut buffer = vec![0; 65_536];
    // Late answers to earlier datagrams may come first.
    while let Ok((length, _)) = socket.recv_from(&mut buffer) {
        if buffer[..length] == sent {
            return true;
        }
    }
    false
}

const UDP_ECHO: u16 = 7;

/// A thread that answers UDP.
pub struct UdpEcho {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl UdpEcho {
    pub fn start(namespace: &Namespace, addresses: &[&str]) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let threads = addresses
            .iter()
            .map(|address| {
                let address: IpAddr = address.parse().unwrap();
                let socket = namespace
                    .run(|| UdpSocket::bind((address, UDP_ECHO)))
                    .unwrap()
                    .unwrap();
                socket
                    .set_read_timeout(Some(Duration::from_millis(50)))
                    .unwrap();
                let end = Arc::clone(&end);
                std::thread::spawn(move || {
                    let mut buffer = [0; 65_536];
                    while !end.load(Ordering::Relaxed) {
                        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                            let _ = socket.send_to(&buffer[..length], from);
                        }
                    }
                })
            })
            .collect();
        Self { end, threads }
    }
}

impl Drop for UdpEcho {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Waits until `holds`, at most `limit`; prints and returns how long it took.
pub fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = start.elapsed();
    println!("{what}: {:.3} s", took.as_secs_f64());
    took
}

/// The only peer of a device.
pub fn peer(device: &Device) -> PeerStats {
    let mut stats = device.stats();
    assert_eq!(stats.len(), 1);
    stats.remove(0)
}

/// Runs a program in a namespace.
pub fn run(namespace: &Namespace, program: &str, arguments: &[&str]) -> String {
    let output = namespace
        .run(|| Command::new(program).args(arguments).output())
        .unwrap();
    text(program, output)
}

pub fn text(what: impl Debug, output: io::Result<Output>) -> String {
    let output = output.unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{what:?}: {out}{err}");
    out.into_owned()
}
