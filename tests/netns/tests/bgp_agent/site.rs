//! A router, hosts that tell it, and a client behind it.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use kedge_net::netns::Namespace;
use kedge_tests_netns::{
    agent::Agent,
    answers::Answers,
    asked::Asked as _,
    bird::Bird,
    eventually,
    lan::{Host, Lan},
    secs,
};

pub const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
/// On the hosts' network: one of them holds it.
pub const VIP: &str = "10.20.14.10";
/// Outside of it: only routes lead there.
pub const ANYCAST: &str = "192.0.2.10";
pub const ROUTER: &str = "10.20.14.1";
pub const HOSTS: [&str; 2] = ["10.20.14.11", "10.20.14.12"];
pub const PORT: u16 = 8080;

/// Two hosts and the router above them.
pub fn rack() -> (Lan, Host, Host, Host) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let tor = lan.host("r", "10.20.14.1/24");
    (lan, a, b, tor)
}

/// Each host answers with its name.
pub fn answering(a: &Host, b: &Host) -> [Answers; 2] {
    [
        Answers::start(a, PORT, "a", 0),
        Answers::start(b, PORT, "b", 0),
    ]
}

/// A router that both hosts have a session with, and that sends packets where they say.
pub fn router(options: &str) -> String {
    let session = |address: &str| {
        let name = address.replace('.', "_");
        format!(
            "protocol bgp host_{name} {{\n  local {ROUTER} as 65014;\n  neighbor {address} as 65001;\n  \
             connect delay time 1;\n  connect retry time 1;\n  error wait time 1, 2;\n  {options}\n  \
             ipv4 {{ import all; export none; }};\n}}\n"
        )
    };
    format!(
        "log stderr all;\nrouter id {ROUTER};\nprotocol device {{ }}\nprotocol kernel {{ ipv4 {{ import \
         none; export all; }}; }}\nprotocol bfd {{ interface \"eth0\" {{ min rx interval 50 ms; min tx \
         interval 50 ms; multiplier 3; }}; neighbor {} dev \"eth0\"; }}\n{}",
        HOSTS[0],
        HOSTS.map(session).concat()
    )
}

/// The same, which says of which routes it is told that they go, and prefers others to them.
pub fn watching() -> String {
    router("").replace(
        "import all; export none;",
        "import filter { if (65535,0) ~ bgp_community then { print \"GOES \", net, \" FROM \", from; \
         bgp_local_pref = 0; } accept; }; export none;",
    )
}

/// A host that tells the router of what `vips` holds.
pub fn member(host: &Host, neighbor: &str, vips: &str) -> String {
    format!(
        "bgp: {{asn: 65001, router_id: {}, neighbors: {{tor: {{address: {ROUTER}, asn: 65014, \
         connect_retry: 1s{neighbor}}}}}}}\nvips: {{{vips}}}\n",
        host.address()
    )
}

pub fn elected(priority: u8) -> String {
    format!(
        "api: {{addresses: [{VIP}], via: [vrrp, bgp], vrid: 51, priority: {priority}, health: none, \
         startup_delay: 500ms, link_up_delay: 500ms}}"
    )
}

pub fn anycast(ready: &str) -> String {
    format!(
        "api: {{addresses: [{ANYCAST}], via: [bgp], health: none, track: {{ready: {{file: {ready}, \
         critical: true}}}}}}"
    )
}

/// Through which hosts the router knows a way to an address.
pub fn ways(bird: &Bird<'_>, address: &str) -> Vec<String> {
    let table = bird.birdc(&format!("show route {address}/32"));
    let hosts = HOSTS
        .iter()
        .filter(|host| table.contains(&format!("via {host} ")));
    hosts.map(|host| (*host).to_owned()).collect()
}

pub fn only(bird: &Bird<'_>, address: &str, host: &str) -> bool {
    ways(bird, address) == [host]
}

/// What the agent says of its neighbour.
pub fn session(agent: &Agent<'_>) -> serde_json::Value {
    agent.kedge("bgp neighbors -o json").json()["items"][0].clone()
}

pub fn is_established(agent: &Agent<'_>) -> bool {
    session(agent)["state"] == "Established"
}

/// Whether the host has the address on its loopback interface.
pub fn stands(host: &Host) -> bool {
    host.run(|| {
        let mut ip = std::process::Command::new("ip");
        let output = ip.args(["address", "show", "dev", "lo"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains(ANYCAST)
    })
}

/// A client at the router: connections one after the other, each of which must come about.
///
/// But for one: what is being opened at the very moment when the router takes another way has said hello to one
/// host, and goes on with another one, which knows nothing of it. Nobody can help that, and the next try succeeds.
pub struct Client {
    stop: Arc<AtomicBool>,
    told: Arc<Told>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Told {
    made: AtomicU64,
    /// How many were cut off while they were opened.
    cut: AtomicU64,
    /// Why connections failed, and when.
    failed: Mutex<Vec<String>>,
}

impl Client {
    pub fn start(router: &Host, address: &str) -> Self {
        let to: SocketAddr = format!("{address}:{PORT}").parse().unwrap();
        let (stop, told) = <(Arc<AtomicBool>, Arc<Told>)>::default();
        let (halt, tell) = (Arc::clone(&stop), Arc::clone(&told));
        let network = Namespace::open(router.namespace().name()).unwrap();
        let task = thread::spawn(move || {
            network.enter().unwrap();
            while !halt.load(Ordering::Relaxed) {
                let begun = SystemTime::now();
                match TcpStream::connect_timeout(&to, secs(3)) {
                    Ok(_) => {
                        tell.made.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                        tell.cut.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        let took = begun.elapsed().unwrap_or_default();
                        let began = begun.duration_since(UNIX_EPOCH).unwrap_or_default();
                        let why = format!("{error} {took:?} after {began:?}");
                        tell.failed.lock().unwrap().push(why);
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        eventually("the client reaches it", secs(5), || {
            told.made.load(Ordering::Relaxed) > 5
        });
        told.failed.lock().unwrap().clear();
        Self { stop, told, task }
    }

    /// Ends it: every connection came about.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.join().unwrap();
        let [made, cut] = [&self.told.made, &self.told.cut].map(|it| it.load(Ordering::Relaxed));
        println!("{made} connections, {cut} cut off while they were opened");
        assert!(cut <= 1, "{cut} connections were cut off");
        let failed = self.told.failed.lock().unwrap();
        assert!(failed.is_empty(), "connections failed: {failed:?}");
    }
}
