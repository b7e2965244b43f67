//! Agent and gateway find out what the way between them carries, through a switch that drops what is
//! larger and says nothing, and TCP that is passed on hears of it.
//!
//! ```text
//!   edge 10.20.14.11 ── switch ── 10.20.14.21  a  10.9.0.1 ── 10.9.0.5 server
//!   198.18.0.10        (1400)     198.18.0.1
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    process::Command,
    thread,
    time::Duration,
};

use kedge_control::agent::{GatewayConfig, PeerConfig, TunnelConfig};
use kedge_host::Role;
use kedge_net::link::sysctl;
use kedge_tests_netns::{
    agent::Agent,
    asked::{Asked, Said},
    capture::tshark,
    eventually,
    gateway::{Gateway, tunnel_key},
    lan::{Host, Lan},
    secs,
};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 5);
/// WireGuard over IPv4 takes 60 bytes.
const THERE: u64 = 1400 - 60;
/// What comes in by a veth may be four bytes longer than its MTU: room for a VLAN's tag.
const BACK: u64 = THERE + 4;

fn said(host: &Host, line: &str) -> String {
    let line = line.to_owned();
    host.run(move || {
        let mut words = line.splitn(2, ' ');
        let mut command = Command::new(words.next().unwrap());
        match words.next() {
            // One argument: nft splits it itself.
            Some(rest) if line.starts_with("nft") => command.arg(rest),
            rest => command.args(rest.unwrap_or_default().split(' ')),
        };
        let output = command.output().unwrap();
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert!(output.status.success(), "{line}: {err}");
        out
    })
}

fn item(asked: &impl Asked, name: &str) -> Value {
    let list = asked.kedge("tunnel list -o json").json();
    let items = list["items"].as_array().unwrap().clone();
    let found = items.into_iter().find(|it| it["name"] == name);
    found.unwrap_or_default()
}

/// What the switch's port to a host carries.
fn port(lan: &Lan, host: &str, mtu: &str) {
    let mut command = Command::new("ip");
    command.args(["link", "set", "dev", host, "mtu", mtu]);
    assert!(lan.spawn(command).wait().unwrap().success());
}

/// A megabyte from the server, through the gateway.
fn fetch(edge: &Host, server: &Host) -> Duration {
    let listener = server.run(|| TcpListener::bind((SERVER, 0)).unwrap());
    let at = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&vec![7; 1 << 20]).unwrap();
    });
    let begun = std::time::Instant::now();
    let mut stream = edge.run(move || TcpStream::connect_timeout(&at, secs(5)).unwrap());
    stream.set_read_timeout(Some(secs(10))).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 1 << 20);
    serving.join().unwrap();
    begun.elapsed()
}

/// What `kedge tunnel capture` writes is what tshark reads: to and fro, whose it is, and no more than
/// was asked for.
fn read_by_tshark(lan: &Lan, agent: &Agent) {
    let directory = lan.directory();
    let of_peer = directory.join("peer.pcapng");
    let line = format!(
        "tunnel capture a -c 6 -d 10s -w {} -o json",
        of_peer.display()
    );
    let capturing = agent.begin(&line);
    eventually("the capture begins", secs(5), || {
        fs::metadata(&of_peer).is_ok_and(|it| it.len() > 0)
    });
    let said = agent.kedge("tunnel ping a -c 3 -i 10ms -s 1000");
    assert!(said.out.contains("3 received"), "{said:?}");
    let told = Said::of(&capturing.wait_with_output().unwrap()).json();
    println!("{told}");
    assert_eq!((&told["packets"], &told["dropped"]), (&6.into(), &0.into()));
    assert_eq!(told["because"], "it has seen enough packets");
    let fields = [
        "ip.src",
        "ip.dst",
        "ip.len",
        "frame.comment",
        "frame.packet_flags_direction",
    ];
    let seen = tshark(
        &of_peer,
        false,
        "ip.len == 1000 || ip.src == 198.18.0.1",
        &fields,
    );
    println!("{seen:#?}");
    let to = "198.18.0.10\t198.18.0.1\t1000\tpeer a\t0x00000002";
    assert!(seen.iter().any(|line| line == to), "{seen:?}");
    let from = "198.18.0.1\t198.18.0.10\t";
    let back = seen.iter().find(|line| line.starts_with(from)).unwrap();
    assert!(back.ends_with("\tpeer a\t0x00000001"), "{back}");
    let mode = fs::metadata(&of_peer).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let said = agent.kedge("tunnel capture b -w /dev/null");
    assert!(said.err.contains("KEDGE-TUN-0006"), "{said:?}");
}

/// A bench is answered by who was told to, no faster than allowed, and one at a time.
fn benched(agent: &Agent, gateway: &Gateway) {
    let told = agent.kedge("tunnel bench a -t 1s -o json").json();
    println!("{told}");
    let items = told["items"].as_array().unwrap();
    assert_eq!(
        [&items[0]["direction"], &items[1]["direction"]],
        ["up", "down"]
    );
    for item in items {
        let rate = item["bitsPerSecond"].as_f64().unwrap() / 1e6;
        assert!((20.0..=44.0).contains(&rate), "{rate} Mbit/s of 40: {item}");
        assert_eq!(item["limitMbps"], 40);
        assert!(item["rtt"]["avgSeconds"].as_f64().unwrap() < 0.5, "{item}");
    }
    let slow = agent.kedge("tunnel bench a -t 1s -b 5 -d down");
    println!("{}", slow.out);
    let slow = agent
        .kedge("tunnel bench a -t 1s -b 5 -d up -o json")
        .json();
    let rate = slow["items"][0]["bitsPerSecond"].as_f64().unwrap() / 1e6;
    assert!((3.0..=5.5).contains(&rate), "{slow}");
    // Whichever asks first has it; the other is told to come later.
    let both = [(); 2].map(|()| agent.begin("tunnel bench a -t 3s -d up -o json"));
    let mut said = both.map(|bench| Said::of(&bench.wait_with_output().unwrap()));
    said.sort_by_key(|said| said.code);
    let [had, later] = said;
    assert_eq!(had.code, 0, "{had:?}");
    assert!(later.code != 0, "both were answered at once: {later:?}");
    assert!(later.out.contains("at the moment"), "{later:?}");
    let refused = gateway.kedge("tunnel bench site/edge -t 1s");
    assert!(refused.err.contains("KEDGE-TUN-0031"), "{refused:?}");
}

#[test]
fn both_ends_find_it_out_and_tcp_that_is_passed_on_keeps_to_it() {
    if !kedge_tests_netns::ready() {
        return;
    }
    let lan = Lan::new();
    let (edge, server) = (
        lan.host("edge", "10.20.14.11/24"),
        lan.host("server", "10.9.0.5/24"),
    );
    let a = lan.host("a", "10.20.14.21/24");
    a.add_address("10.9.0.1/24");
    a.run(|| sysctl("ipv4/ip_forward", "1").unwrap());
    let masquerade = "nft table ip way { chain out { type nat hook postrouting priority 100; \
                      ip saddr 198.18.0.0/16 oifname eth0 masquerade; }; }";
    said(&a, masquerade);
    let mut gateway = Gateway::new(&a, KEDGE, "tunnel: {listen_port: 51820, bench_mbps: 40}\n");
    let yaml = |mtu: &str| {
        format!(
            "tunnel: {{{mtu}addresses: [198.18.0.10/32], peers: {{a: {{public_key: '{}', \
             endpoint: '10.20.14.21:51820', keepalive: 5s, \
             allowed_ips: [198.18.0.1/32, 10.9.0.0/24]}}}}}}\n",
            gateway.key()
        )
    };
    let (auto, fixed) = (yaml(""), yaml("mtu: 1400, "));
    let mut agent = Agent::new(&edge, KEDGE, &auto);
    let key = tunnel_key(agent.root(), Role::Agent);
    gateway.remember(&GatewayConfig {
        generation: 1,
        tunnel: Some(TunnelConfig {
            addresses: vec!["198.18.0.1/32".parse().unwrap()],
            mtu: 1420,
            peers: vec![PeerConfig {
                name: "site/edge".to_owned(),
                public_key: key.to_string(),
                next_public_key: None,
                endpoint: None,
                other_endpoint: None,
                tls_endpoint: None,
                tenant: String::new(),
                allowed_ips: vec!["198.18.0.10/32".parse().unwrap()],
                keepalive_seconds: 0,
            }],
        }),
        ..GatewayConfig::default()
    });
    port(&lan, "a", "1400");
    gateway.start();
    agent.start();
    eventually("both have found it out", secs(20), || {
        let ours = item(&agent, "a")["pathMtu"].clone();
        let theirs = item(&gateway, "site/edge")["pathMtu"].clone();
        let settled = |it: &Value| {
            it["because"]
                .as_str()
                .unwrap_or_default()
                .contains("do not")
        };
        let found = |it: &Value, mtu| it["mtu"] == mtu && it["source"] == "probed" && settled(it);
        found(&ours, THERE) && found(&theirs, BACK)
    });
    let shown = agent.kedge("tunnel list");
    println!("{}", shown.out);
    assert!(shown.out.contains(&format!(" {THERE} ")), "{}", shown.out);
    let route = said(&edge, "ip route show 10.9.0.0/24");
    assert!(route.contains(&format!("mtu {THERE}")), "{route}");

    // Both answer each other's questions; what does not fit the way goes in pieces.
    for line in [
        "tunnel ping a -c 3 -i 50ms",
        "tunnel ping a -c 3 -i 50ms -s 4000",
    ] {
        let said = agent.kedge(line);
        println!("{}", said.out);
        assert!(
            said.out
                .contains("3 packets transmitted, 3 received, 0.0 % lost")
        );
    }
    let told = gateway
        .kedge("tunnel ping site/edge -c 2 -i 10ms -o json")
        .json();
    assert_eq!(
        (&told["received"], &told["bytes"]),
        (&2.into(), &80.into()),
        "{told}"
    );

    read_by_tshark(&lan, &agent);
    benched(&agent, &gateway);

    // The way is tried step by step, and what is in the way is told.
    let shown = agent.kedge("net check");
    println!("{}", shown.out);
    assert!(shown.out.contains("the tunnel works"), "{}", shown.out);
    let block = "nft table inet block { chain in { type filter hook input priority -10; \
                 udp dport 51820 drop; }; }";
    said(&a, block);
    let told = agent.kedge("net check a --wait 500ms -o json").json();
    let item = &told["items"][0];
    let udp = item["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["step"] == "udp")
        .unwrap();
    assert_eq!(
        (&item["state"], &udp["state"]),
        (&"Warning".into(), &"Warning".into()),
        "{told}"
    );
    said(&a, "nft delete table inet block");

    // What the server offers is made smaller on its way through the gateway.
    let counting = "nft table inet seen { chain in { type filter hook input priority 0; \
        iifname kedge0 tcp flags & syn == syn tcp option maxseg size <= 1304 counter; \
        iifname kedge0 tcp flags & syn == syn tcp option maxseg size > 1304 counter; }; }";
    said(&edge, counting);
    println!("1 MiB through the gateway: {:?}", fetch(&edge, &server));
    let seen = said(&edge, "nft list table inet seen");
    let counters: Vec<&str> = seen
        .lines()
        .filter(|line| line.contains("counter"))
        .collect();
    assert!(counters[0].contains("packets 1 "), "{seen}");
    assert!(counters[1].contains("packets 0 "), "{seen}");

    // Somebody clears all rules of this host: they come back, and that is counted.
    said(&edge, "nft flush ruleset");
    eventually("the clamp is back", secs(5), || {
        said(&edge, "nft list tables").contains("inet kedge_mss_kedge0")
    });
    eventually("that is counted", secs(5), || {
        agent.kedge("tunnel list -o json").json()["dataPlane"]["repairs"] == 1
    });

    // A number is fixed, at once: nothing is asked any more.
    agent.configure(&fixed);
    agent.reload();
    eventually("the number is in force", secs(10), || {
        let list = agent.kedge("tunnel list -o json").json();
        let none = list["items"][0].get("pathMtu").is_none();
        list["mtu"] == 1400 && none && list["items"][0]["state"] == "Up"
    });
    let route = said(&edge, "ip route show 10.9.0.0/24");
    assert!(!route.contains("mtu"), "{route}");
    agent.stop();
    let tables = said(&edge, "nft list tables");
    assert!(!tables.contains("kedge_mss"), "{tables}");
}
