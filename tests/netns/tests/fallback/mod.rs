//! A host behind a router that may block UDP, and two gateways that answer over TLS as well.
//!
//! ```text
//!   edge 10.1.0.2 ── 10.1.0.1 router 203.0.113.1 ──┬── 203.0.113.7 gw-a   198.18.0.1
//!   198.18.0.10                                    └── 203.0.113.8 gw-b   198.18.0.2
//! ```

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use kedge_control::agent::{GatewayConfig, HostConfig, PeerConfig, TunnelConfig};
use kedge_host::{Role, Root, state::Store};
use kedge_net::link::Links;
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    enrolled::Authority,
    eventually,
    gateway::{Gateway, tunnel_key},
    lan::{Host, Lan},
    millis, secs,
    train::Echo,
};
use serde_json::Value;

pub const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
/// The first gateway, and the second, in the tunnel.
pub const GATEWAYS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
pub const UDP: &str = "meta l4proto udp";
pub const TLS: &str = "tcp dport 443";
const BETWEEN_QUESTIONS: Duration = millis(25);
const MANAGER: &str =
    "manager: {url: 'https://203.0.113.250:9443', token_file: /etc/kedge/token}\n";

pub struct Site {
    pub lan: Lan,
    pub edge: Host,
    pub router: Host,
    pub gateways: [Host; 2],
    pub authority: Authority,
    /// The other UDP port of the gateways.
    pub other: Option<u16>,
}

impl Site {
    pub fn new() -> Self {
        let lan = Lan::new();
        let router = router(&lan, "router", ["203.0.113.1/24", "10.1.0.1/24"]);
        let edge = lan.host("edge", "10.1.0.2/24");
        edge.run(|| {
            let (to, via) = ("203.0.113.0/24", "10.1.0.1");
            let (to, via) = (to.parse().unwrap(), via.parse().unwrap());
            Links::open().unwrap().add_route(to, via).unwrap();
        });
        let gateways = [
            lan.host("gw-a", "203.0.113.7/24"),
            lan.host("gw-b", "203.0.113.8/24"),
        ];
        Self {
            lan,
            edge,
            router,
            gateways,
            authority: Authority::new(),
            other: None,
        }
    }

    /// Has the router drop what matches; `name` lets it pass again.
    pub fn block(&self, name: &str, what: &str) {
        self.router.nft(format!(
            "table ip no_{name} {{ chain way {{ type filter hook forward priority 0; {what} drop; }}; }}"
        ));
    }

    pub fn pass(&self, name: &str) {
        self.router.nft(format!("delete table ip no_{name}"));
    }

    /// What a gateway is configured with.
    pub fn gateway_configuration(&self) -> String {
        let other = self.other.map(|port| format!(", other_port: {port}"));
        let other = other.unwrap_or_default();
        format!("{MANAGER}tunnel: {{listen_port: 51820, tls_port: 443{other}}}\n")
    }

    /// What the agent is configured with; `extra` is more of it.
    pub fn agent_configuration(&self, extra: &str) -> String {
        format!("{MANAGER}{extra}")
    }

    /// A gateway that is a member, not started yet.
    pub fn gateway(&self, index: usize) -> Gateway<'_> {
        let host = &self.gateways[index];
        let gateway = Gateway::new(host, KEDGE, &self.gateway_configuration());
        let uid = format!("2{index}");
        self.authority.enrol(gateway.root(), Role::Gateway, &uid);
        gateway
    }

    /// The agent with these gateways, all of it started; `extra` is more of its configuration.
    pub fn start<'a>(&'a self, gateways: &mut [Gateway<'a>], extra: &str) -> Agent<'a> {
        let mut agent = self.agent(extra);
        self.introduce(&agent, gateways);
        for gateway in gateways {
            gateway.start();
        }
        agent.start();
        agent
    }

    pub fn agent(&self, extra: &str) -> Agent<'_> {
        let agent = Agent::new(&self.edge, KEDGE, &self.agent_configuration(extra));
        self.authority.enrol(agent.root(), Role::Agent, "11");
        agent
    }

    /// Leaves on everybody's disk what a manager would have said.
    pub fn introduce(&self, agent: &Agent<'_>, gateways: &[Gateway<'_>]) {
        let edge = tunnel_key(agent.root(), Role::Agent).to_string();
        let own = |address: &str| vec![address.parse().unwrap()];
        let mut peers = Vec::new();
        for (index, gateway) in gateways.iter().enumerate() {
            let address = format!("{}/32", GATEWAYS[index]);
            gateway.remember(&GatewayConfig {
                generation: 1,
                tunnel: Some(TunnelConfig {
                    addresses: own(&address),
                    mtu: 1420,
                    peers: vec![PeerConfig {
                        name: "site/edge".to_owned(),
                        public_key: edge.clone(),
                        next_public_key: None,
                        endpoint: None,
                        other_endpoint: None,
                        tls_endpoint: None,
                        tenant: String::new(),
                        allowed_ips: own("198.18.0.10/32"),
                        keepalive_seconds: 0,
                    }],
                }),
                ..GatewayConfig::default()
            });
            let at = self.gateways[index].address();
            peers.push(PeerConfig {
                name: ["gw-a", "gw-b"][index].to_owned(),
                public_key: gateway.key().to_string(),
                next_public_key: None,
                endpoint: Some(format!("{at}:51820")),
                other_endpoint: self.other.map(|port| format!("{at}:{port}")),
                tls_endpoint: Some(format!("{at}:443")),
                tenant: String::new(),
                allowed_ips: own(&address),
                keepalive_seconds: 25,
            });
        }
        let wished = HostConfig {
            generation: 1,
            tunnel: Some(TunnelConfig {
                addresses: own("198.18.0.10/32"),
                mtu: 1420,
                peers,
            }),
            ..HostConfig::default()
        };
        let store = Store::new(Root::new(agent.root()).state_dir(Role::Agent));
        store.save("desired", &wished).unwrap();
    }

    /// A proxy on the router that lets nobody through who does not know this name and password.
    pub fn proxy(&self, auth: &str) -> Proxy {
        let file = self.router.directory().join("tinyproxy.conf");
        let text = format!(
            "Port 3128\nListen 10.1.0.1\nTimeout 600\nMaxClients 10\nAllow 10.1.0.0/24\n\
             ConnectPort 443\nBasicAuth {auth}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("tinyproxy");
        command.arg("-d").arg("-c").arg(&file).stdout(Stdio::null());
        let proxy = Proxy(self.router.spawn(command));
        eventually("the proxy listens", secs(5), || {
            let at = ("10.1.0.1", 3128);
            self.edge.run(move || TcpStream::connect(at).is_ok())
        });
        proxy
    }

    pub fn echo(&self, index: usize) -> Echo {
        Echo::start(&self.gateways[index])
    }
}

/// A router that hides who is behind it.
pub fn router(lan: &Lan, name: &str, [outside, inside]: [&str; 2]) -> Host {
    let router = lan.host(name, outside);
    router.add_address(inside);
    router.forwards();
    router.nft(
        "table ip way { chain out { type nat hook postrouting priority 100; \
         ip saddr 10.1.0.0/24 ip daddr 203.0.113.0/24 masquerade; }; }",
    );
    router
}

/// A proxy, until it is dropped.
pub struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the host says of a gateway. Whoever waits asks again and again, and each question is a process: tests
/// beside this one want the processors, too.
pub fn tunnel(agent: &Agent<'_>, name: &str) -> Value {
    std::thread::sleep(BETWEEN_QUESTIONS);
    let list = agent.kedge("tunnel list -o json").json();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let found = items.into_iter().find(|it| it["name"] == name);
    found.unwrap_or_default()
}

pub fn is_up(agent: &Agent<'_>, name: &str, path: &str) -> bool {
    let told = tunnel(agent, name);
    told["state"] == "Up" && told["path"] == path
}

/// Waits until a gateway is reached over `path`, and says how long it took.
pub fn until(agent: &Agent<'_>, name: &str, path: &str, limit: Duration) -> Duration {
    let begun = Instant::now();
    eventually(&format!("{name} is up over {path}"), limit, || {
        is_up(agent, name, path)
    });
    begun.elapsed()
}

/// What either end dropped so far, and why, and what it leaves to the kernel.
pub fn dropped(agent: &Agent<'_>, gateway: &Gateway<'_>) -> String {
    [
        agent.kedge("tunnel list -o json").json(),
        gateway.kedge("tunnel list -o json").json(),
    ]
    .iter()
    .flat_map(|list| {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let offload = list["offload"].clone();
        items.into_iter().map(move |item| (item, offload.clone()))
    })
    .map(|(item, offload)| format!("{}: {} {offload}", item["name"], item["drops"]))
    .collect::<Vec<_>>()
    .join("; ")
}

/// The codes of the host's problems.
pub fn codes(agent: &Agent<'_>) -> Vec<String> {
    std::thread::sleep(BETWEEN_QUESTIONS);
    let status = agent.kedge("status -o json").json();
    let problems = status["problems"].as_array().cloned().unwrap_or_default();
    let code = |it: &Value| it["code"].as_str().unwrap_or_default().to_owned();
    problems.iter().map(code).collect()
}

/// Waits until a gateway's echo answers.
pub fn answered(from: &Host, to: Ipv4Addr) {
    let socket = from.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
    socket.set_read_timeout(Some(millis(20))).unwrap();
    eventually("packets are answered", secs(5), || {
        socket.send_to(&[0; 8], (to, 7007)).unwrap();
        socket.recv(&mut [0; 8]).is_ok()
    });
}

/// Megabits per second of one TCP connection to a gateway, for so long, and whether all of it arrived.
pub fn throughput(from: &Host, to: &Host, at: Ipv4Addr, time: Duration) -> f64 {
    let listener = to.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 7008)).unwrap());
    let reading = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut read) = (vec![0; 1 << 16], 0_u64);
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => {
                    stream.write_all(&read.to_be_bytes()).unwrap();
                    return;
                }
                length => read += length as u64,
            }
        }
    });
    let mut stream = from.run(move || TcpStream::connect((at, 7008)).unwrap());
    stream.set_write_timeout(Some(secs(20))).unwrap();
    let (buffer, begun, mut sent) = (vec![7; 1 << 16], Instant::now(), 0_u64);
    while begun.elapsed() < time {
        stream.write_all(&buffer).unwrap();
        sent += buffer.len() as u64;
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut read = [0; 8];
    stream.set_read_timeout(Some(secs(30))).unwrap();
    stream.read_exact(&mut read).unwrap();
    let took = begun.elapsed().as_secs_f64();
    reading.join().unwrap();
    assert_eq!(u64::from_be_bytes(read), sent, "all of it arrived");
    sent as f64 * 8.0 / 1e6 / took
}

/// The median and the 99th percentile of round trips to an echo, one each 5 ms, in microseconds.
pub fn round_trips(from: &Host, to: Ipv4Addr, many: usize) -> (u128, u128) {
    let socket = from.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
    socket.set_read_timeout(Some(secs(1))).unwrap();
    let mut took: Vec<u128> = (0..many as u64)
        .map(|number| {
            std::thread::sleep(millis(5));
            let begun = Instant::now();
            socket.send_to(&number.to_be_bytes(), (to, 7007)).unwrap();
            let mut answer = [0; 8];
            while socket.recv(&mut answer).is_ok() && u64::from_be_bytes(answer) != number {}
            begun.elapsed().as_micros()
        })
        .collect();
    took.sort_unstable();
    (took[many / 2], took[many * 99 / 100])
}
