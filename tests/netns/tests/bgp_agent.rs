//! Agents that tell a router of their VIPs, and BIRD as that router: what it knows, and who answers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use kedge_net::netns::Namespace;
use kedge_tests_netns::{
    agent::Agent,
    answers::Answers,
    asked::Asked,
    bird::Bird,
    eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs, throughout,
};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
/// On the hosts' network: one of them holds it.
const VIP: &str = "10.20.14.10";
/// Outside of it: only routes lead there.
const ANYCAST: &str = "192.0.2.10";
const ROUTER: &str = "10.20.14.1";
const HOSTS: [&str; 2] = ["10.20.14.11", "10.20.14.12"];
const PORT: u16 = 8080;

/// A router that both hosts have a session with, and that sends packets where they say.
fn router(options: &str) -> String {
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

/// A host that tells the router of what `vips` holds.
fn member(host: &Host, neighbor: &str, vips: &str) -> String {
    format!(
        "bgp: {{asn: 65001, router_id: {}, neighbors: {{tor: {{address: {ROUTER}, asn: 65014, \
         connect_retry: 1s{neighbor}}}}}}}\nvips: {{{vips}}}\n",
        host.address()
    )
}

fn elected(priority: u8) -> String {
    format!(
        "api: {{addresses: [{VIP}], via: [vrrp, bgp], vrid: 51, priority: {priority}, health: none, \
         startup_delay: 500ms, link_up_delay: 500ms}}"
    )
}

fn anycast(ready: &str) -> String {
    format!(
        "api: {{addresses: [{ANYCAST}], via: [bgp], health: none, track: {{ready: {{file: {ready}, \
         critical: true}}}}}}"
    )
}

/// Through which hosts the router knows a way to an address.
fn ways(bird: &Bird<'_>, address: &str) -> Vec<String> {
    let table = bird.birdc(&format!("show route {address}/32"));
    let hosts = HOSTS
        .iter()
        .filter(|host| table.contains(&format!("via {host} ")));
    hosts.map(|host| (*host).to_owned()).collect()
}

fn only(bird: &Bird<'_>, address: &str, host: &str) -> bool {
    ways(bird, address) == [host]
}

/// What the agent says of its neighbour.
fn session(agent: &Agent<'_>) -> serde_json::Value {
    agent.kedge("bgp neighbors -o json").json()["items"][0].clone()
}

fn is_established(agent: &Agent<'_>) -> bool {
    session(agent)["state"] == "Established"
}

/// Whether the host has the address on its loopback interface.
fn stands(host: &Host) -> bool {
    host.run(|| {
        let mut ip = std::process::Command::new("ip");
        let output = ip.args(["address", "show", "dev", "lo"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains(ANYCAST)
    })
}

/// A client at the router: connections one after the other, each of which must come about.
struct Client {
    stop: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    task: Option<JoinHandle<()>>,
}

impl Client {
    fn start(router: &Host, address: &str) -> Self {
        let to: SocketAddr = format!("{address}:{PORT}").parse().unwrap();
        let (stop, made, failed) = <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let (halt, well, ill) = (Arc::clone(&stop), Arc::clone(&made), Arc::clone(&failed));
        let network = Namespace::open(router.namespace().name()).unwrap();
        let task = thread::spawn(move || {
            network.enter().unwrap();
            while !halt.load(Ordering::Relaxed) {
                let outcome = TcpStream::connect_timeout(&to, secs(3));
                let count = if outcome.is_ok() { &well } else { &ill };
                count.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let client = Self {
            stop,
            made,
            failed,
            task: Some(task),
        };
        eventually("the client reaches it", secs(5), || client.made() > 5);
        client.failed.store(0, Ordering::Relaxed);
        client
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// How many failed.
    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.take().unwrap().join().unwrap();
        println!("{} connections", self.made());
        self.failed.load(Ordering::Relaxed)
    }
}

#[test]
fn a_vip_is_told_while_it_is_owned_and_a_drain_costs_no_connection() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let tor = lan.host("r", "10.20.14.1/24");
        let _here = [
            Answers::start(&a, PORT, "a", 0),
            Answers::start(&b, PORT, "b", 0),
        ];
        let bird = Bird::running(&tor, &router(""));
        let first = Agent::running(&a, KEDGE, &member(&a, "", &elected(250)));
        eventually("the higher one holds it", secs(10), || a.holds(VIP));
        let mut second = Agent::running(&b, KEDGE, &member(&b, "", &elected(240)));
        eventually("both have their sessions", secs(10), || {
            is_established(&first) && is_established(&second)
        });
        eventually("the lower one stands by", secs(10), || second.stands_by());
        eventually("the router knows the owner alone", secs(2), || {
            only(&bird, VIP, HOSTS[0])
        });
        let told = first.kedge("bgp routes advertised -o json").json();
        assert_eq!(told["items"][0]["prefix"], format!("{VIP}/32"), "{told}");
        assert_eq!(told["items"][0]["vip"], "api", "{told}");
        let said = second.kedge(&format!("bgp explain {VIP}"));
        assert!(
            said.out.contains("is not told: api is Backup here"),
            "{said:?}"
        );
        let client = Client::start(&tor, VIP);
        let said = first.kedge("drain --yes");
        assert_eq!(said.code, 0, "{said:?}");
        eventually("the router knows the next one alone", secs(3), || {
            only(&bird, VIP, HOSTS[1])
        });
        eventually("which holds it", secs(2), || b.holds(VIP) && !a.holds(VIP));
        throughout("and it stays there", millis(500), || {
            only(&bird, VIP, HOSTS[1])
        });
        assert_eq!(client.end(), 0, "connections failed");
        // It ends with nobody to give it to who is not drained: routes go before the address does.
        let said = first.kedge("undrain");
        assert_eq!(said.code, 0, "{said:?}");
        let client = Client::start(&tor, VIP);
        second.stop();
        eventually("it is back", secs(3), || only(&bird, VIP, HOSTS[0]));
        assert_eq!(client.end(), 0, "connections failed");
        assert!(
            bird.log().contains("Administrative shutdown"),
            "{}",
            bird.log()
        );
    });
}

#[test]
fn the_last_host_takes_its_route_back_before_its_address_goes() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let tor = lan.host("r", "10.20.14.1/24");
        let bird = Bird::running(&tor, &router(""));
        let agent = Agent::running(&a, KEDGE, &member(&a, "", &elected(250)));
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
        agent.signal(rustix::process::Signal::TERM);
        eventually("the route is gone", secs(3), || ways(&bird, VIP).is_empty());
        assert!(a.holds(VIP), "its address went first");
        eventually("then the address", secs(4), || !a.holds(VIP));
    });
}

#[test]
fn every_well_host_is_told_and_one_that_is_ill_drained_or_dead_is_not() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let tor = lan.host("r", "10.20.14.1/24");
        let _here = [
            Answers::start(&a, PORT, "a", 0),
            Answers::start(&b, PORT, "b", 0),
        ];
        let bird = Bird::running(&tor, &router(""));
        let ready = [&a, &b].map(|host| host.directory().join("ready"));
        for file in &ready {
            fs::write(file, "").unwrap();
        }
        let yaml =
            |host: &Host, at: usize| member(host, "", &anycast(&ready[at].to_string_lossy()));
        let first = Agent::running(&a, KEDGE, &yaml(&a, 0));
        let mut second = Agent::running(&b, KEDGE, &yaml(&b, 1));
        eventually("both are told", secs(10), || {
            ways(&bird, ANYCAST).len() == 2
        });
        assert!(stands(&a) && stands(&b));
        let listed = first.kedge("vip list");
        assert!(listed.out.contains("ANNOUNCED"), "{listed:?}");

        fs::remove_file(&ready[0]).unwrap();
        eventually("the ill one is not told", secs(2), || {
            only(&bird, ANYCAST, HOSTS[1])
        });
        assert!(stands(&a), "its address went first");
        eventually("then its address goes", secs(3), || !stands(&a));
        let said = first.kedge(&format!("bgp explain {ANYCAST}"));
        assert!(said.out.contains("track ready"), "{said:?}");
        fs::write(&ready[0], "").unwrap();
        eventually("it is well again", secs(3), || {
            ways(&bird, ANYCAST).len() == 2
        });
        assert!(stands(&a));

        let client = Client::start(&tor, ANYCAST);
        let said = first.kedge("drain --yes");
        assert_eq!(said.code, 0, "{said:?}");
        eventually("the drained one is not told", secs(2), || {
            only(&bird, ANYCAST, HOSTS[1])
        });
        eventually("then its address goes", secs(3), || !stands(&a));
        assert_eq!(client.end(), 0, "connections failed");
        assert_eq!(first.kedge("undrain").code, 0);
        eventually("it is back", secs(3), || ways(&bird, ANYCAST).len() == 2);

        second.kill();
        let took = eventually("the dead one is not told", secs(2), || {
            only(&bird, ANYCAST, HOSTS[0])
        });
        assert!(took < millis(500), "{took:?}");
    });
}

#[test]
fn an_anycast_address_of_the_hosts_own_network_is_refused() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let yaml = member(
            &a,
            "",
            &format!("api: {{addresses: [{VIP}], via: [bgp], health: none}}"),
        );
        let agent = Agent::running(&a, KEDGE, &yaml);
        let status = agent.kedge("status");
        assert!(status.out.contains("KEDGE-BGP-0005"), "{status:?}");
        assert!(status.out.contains("10.20.14.0/24"), "{status:?}");
        throughout("it stands nowhere", millis(300), || !a.holds(VIP));
    });
}

#[test]
fn a_path_that_bfd_lost_ends_the_session_at_once_and_brings_it_back() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let tor = lan.host("r", "10.20.14.1/24");
        let bird = Bird::running(&tor, &router(""));
        let agent = Agent::running(&a, KEDGE, &member(&a, ", bfd: auto", &elected(250)));
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
        eventually("BFD sees the router", secs(6), || {
            agent.kedge("bfd sessions -o json").json()["items"][0]["state"] == "Up"
        });
        // The router's packets of BFD are cut: TCP goes on, and the router's BGP asks nobody about the path.
        tor.nft(
            "table ip cut { chain out { type filter hook output priority 0; udp dport 3784 drop; }; }",
        );
        eventually("the session ended", secs(3), || {
            session(&agent)["lost"] == 1
        });
        eventually("for that reason", secs(2), || {
            agent.log().contains("because=\"BFD lost the neighbour\"")
        });
        eventually("the route is gone", secs(2), || ways(&bird, VIP).is_empty());
        tor.nft("delete table ip cut");
        eventually("it is told again", secs(20), || only(&bird, VIP, HOSTS[0]));
    });
}

#[test]
fn a_reload_changes_one_neighbour_and_the_other_notices_nothing() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let tor = lan.host("r", "10.20.14.1/24");
        let bird = Bird::running(&tor, &router(""));
        let spare = lan.host("s", "10.20.14.2/24");
        let spare = Bird::running(
            &spare,
            "log stderr all;\nrouter id 10.20.14.2;\nprotocol device { }\nprotocol bgp host_a { local \
             10.20.14.2 as 65014; neighbor 10.20.14.11 as 65001; connect delay time 1; connect retry time 1; \
             ipv4 { import all; export none; }; }\n",
        );
        let yaml = |more: &str| member(&a, more, &elected(250));
        let agent = Agent::running(&a, KEDGE, &yaml(""));
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
        let names = || {
            let list = agent.kedge("bgp neighbors -o name");
            list.out.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        agent.configure(&yaml(
            "}, more: {address: 10.20.14.2, asn: 65014, connect_retry: 1s, med: 9",
        ));
        agent.reload();
        eventually("the other one is there", secs(10), || {
            let shown = agent.kedge("bgp neighbors more -o json");
            shown.code == 0 && shown.json()["state"] == "Established"
        });
        assert_eq!(names(), ["more", "tor"]);
        eventually("and told what is its own", secs(2), || {
            spare
                .birdc(&format!("show route {VIP}/32 all"))
                .contains("BGP.med: 9")
        });
        // What routes say changes within the session.
        agent.configure(&yaml(
            ", communities: ['65001:7']}, more: {address: 10.20.14.2, asn: 65014, connect_retry: 1s",
        ));
        agent.reload();
        eventually("the router hears it", secs(2), || {
            bird.birdc(&format!("show route {VIP}/32 all"))
                .contains("(65001,7)")
        });
        agent.configure(&yaml(""));
        agent.reload();
        eventually("the other one is gone", secs(3), || names() == ["tor"]);
        eventually("and was told so", secs(2), || {
            spare.log().contains("de-configured")
        });
        let tor = session(&agent);
        assert_eq!(
            (&tor["established"], &tor["lost"]),
            (&1.into(), &0.into()),
            "{tor}"
        );
        // A mistake leaves everything as it is.
        agent.configure(&yaml(", hold_time: 1s"));
        agent.reload();
        eventually("it is told", secs(3), || {
            agent.kedge("status -o json").out.contains("3s to 65535s")
        });
        assert_eq!(session(&agent)["established"], 1);
    });
}

#[test]
fn a_daemon_of_the_host_announces_what_stands_in_the_table() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let tor = lan.host("r", "10.20.14.1/24");
        let bird = Bird::running(&tor, &router(""));
        let _daemon = Bird::running(
            &a,
            &format!(
                "log stderr all;\nrouter id 10.20.14.11;\nprotocol device {{ scan time 1; }}\nipv4 table \
                 vips;\nprotocol kernel {{ kernel table 107; learn; scan time 1; ipv4 {{ table vips; import \
                 all; export none; }}; }}\nprotocol bgp up {{ local 10.20.14.11 as 65001; neighbor {ROUTER} \
                 as 65014; connect delay time 1; connect retry time 1; ipv4 {{ table vips; import none; \
                 export all; }}; }}\n"
            ),
        );
        let agent = Agent::running(
            &a,
            KEDGE,
            &format!(
                "bgp: {{mode: route_table_only}}\nvips: {{{}}}\n",
                elected(250)
            ),
        );
        eventually("it is told", secs(15), || only(&bird, VIP, HOSTS[0]));
        let shown = agent.kedge("bgp summary");
        assert!(shown.out.contains(&format!("{VIP}/32")), "{shown:?}");
        agent.signal(rustix::process::Signal::TERM);
        eventually("it is not told any more", secs(5), || {
            ways(&bird, VIP).is_empty()
        });
    });
}

#[test]
fn a_port_that_is_taken_is_told_with_who_has_it() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let tor = lan.host("r", "10.20.14.1/24");
        let bird = Bird::running(&tor, &router("passive;"));
        let _other = Bird::running(
            &a,
            "log stderr all;\nrouter id 10.20.14.11;\nprotocol device { }\nprotocol bgp taken { local as \
             65099; neighbor 10.20.14.99 as 65098; passive; ipv4 { import none; export none; }; }\n",
        );
        let agent = Agent::running(&a, KEDGE, &member(&a, "", &elected(250)));
        eventually("it is told all the same", secs(12), || {
            only(&bird, VIP, HOSTS[0])
        });
        eventually("who has the port is named", secs(5), || {
            let status = agent.kedge("status -o json").json()["problems"].to_string();
            status.contains("KEDGE-BGP-0001") && status.contains("it is that of bird (process ")
        });
    });
}

#[test]
fn a_password_is_used_and_told_to_nobody() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let tor = lan.host("r", "10.20.14.1/24");
        let bird = Bird::running(&tor, &router("password \"open-sesame\";"));
        let mut agent = Agent::new(
            &a,
            KEDGE,
            &member(&a, ", password_file: /etc/kedge/tor", &elected(250)),
        );
        agent.start();
        let status = agent.kedge("status");
        assert!(
            status.out.contains("no password can be read from"),
            "{status:?}"
        );
        assert!(session(&agent).is_null(), "nobody is called without it");
        fs::write(agent.root().join("etc/kedge/tor"), "open-sesame\n").unwrap();
        agent.reload();
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
        for line in [
            "status -o json",
            "bgp neighbors",
            "bgp neighbors -o json",
            "config view",
        ] {
            assert!(!agent.kedge(line).out.contains("sesame"), "{line}");
        }
        assert!(!agent.log().contains("sesame"));
        assert_eq!(session(&agent)["password"], true);
    });
}

#[test]
fn an_agent_that_is_replaced_in_place_calls_again_at_once_and_moves_nothing() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let tor = lan.host("r", "10.20.14.1/24");
        let bird = Bird::running(&tor, &router(""));
        let first = Agent::running(&a, KEDGE, &member(&a, "", &elected(250)));
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
        let second = Agent::running(&b, KEDGE, &member(&b, "", &elected(240)));
        eventually("the lower one stands by", secs(10), || second.stands_by());
        let _guardian = first.guardian();
        let said = first.kedge("restart");
        assert_eq!(said.code, 0, "{said:?}");
        let took = eventually("it is told again", secs(10), || {
            is_established(&first) && only(&bird, VIP, HOSTS[0])
        });
        println!("after {took:?}");
        throughout("it stays here", millis(500), || {
            a.holds(VIP) && !b.holds(VIP)
        });
        // Nobody kept the session of the agent before.
        assert_eq!(session(&first)["established"], 1);
    });
}
