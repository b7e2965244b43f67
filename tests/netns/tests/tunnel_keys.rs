//! The keys of a host and of its gateway change under a packet each millisecond: a real fleet, whose
//! manager reads a directory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use kedge_agent_lab::{lab::Lab, site::Site, topology::Topology};
use kedge_host::Role;
use kedge_tests_netns::{
    eventually,
    gateway::tunnel_key,
    millis, on_a_steady_machine, secs,
    train::{Echo, Train},
};
use kedge_tunnel_proto::{
    directory::{Directory, PeerSpec},
    keys::{PrivateKey, PublicKey},
    noise::Noise,
    shard::Shard,
};
use serde_json::Value;

const HOST: &str = "edge-a";
const GATEWAY: &str = "203.0.113.7:51820";

/// What `kedge` says to a role of a node.
fn kedge(site: &Site, node: &str, line: &str) -> Value {
    let mut command = Command::new(site.lab().kedge());
    command.arg("--root").arg(site.lab().root(node));
    command
        .args(line.split(' '))
        .args(["-o", "json"])
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said).unwrap_or_else(|_| {
        let error = String::from_utf8_lossy(&output.stderr);
        panic!("{node}: kedge {line}: {} {said} {error}", output.status)
    })
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// The keys that the manager knows of the host.
fn recorded(site: &Site) -> Vec<String> {
    let owned = site.objects().join("owned");
    let mut files = vec![owned];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(fs::read_dir(path).unwrap().map(|it| it.unwrap().path()));
        } else if path.to_string_lossy().contains("EdgeHost") {
            let text = fs::read_to_string(&path).unwrap();
            let mut lines = text
                .lines()
                .skip_while(|it| !it.contains("publicKeys:"))
                .skip(1);
            let key = |line: &str| {
                line.trim()
                    .strip_prefix("- ")
                    .map(|it| it.trim_matches(['"', '\'']).to_owned())
            };
            let keys: Vec<String> = std::iter::from_fn(|| key(lines.next()?)).collect();
            if !keys.is_empty() {
                return keys;
            }
        }
    }
    Vec::new()
}

fn site() -> Site {
    let executable = PathBuf::from(env!("CARGO_BIN_EXE_kedge-under-test"));
    let (lab, _) = Lab::build(Topology::edge(), executable).unwrap();
    let mut site = Site::new(lab).unwrap();
    site.start_manager().unwrap();
    eventually("the manager serves", secs(20), || {
        site.manager().is_ok_and(|it| it.clusters > 0)
    });
    site.start_gateway().unwrap();
    eventually("the gateway is a member", secs(20), || {
        let manager = site.gateway().ok().and_then(|it| it.manager);
        manager.is_some_and(|it| it.enrolled && it.connected)
    });
    site.start_host(HOST).unwrap();
    eventually("the host is up in the tunnel", secs(30), || is_up(&site));
    site
}

fn is_up(site: &Site) -> bool {
    let socket = site.lab().root(HOST).join("run/kedge/agent.sock");
    socket.exists() && {
        let list = kedge(site, HOST, "tunnel list");
        list["items"][0]["state"] == "Up"
    }
}

/// A packet each millisecond from the host through the tunnel to the gateway and back.
fn train(site: &Site) -> (Train, Echo) {
    let own = kedge(site, HOST, "tunnel list");
    let there = kedge(site, "gateway", "tunnel list");
    let first = |list: &Value| -> IpAddr {
        let all = texts(&list["addresses"]);
        let first = all[0].split('/').next().unwrap();
        first.parse().unwrap()
    };
    let (from, to) = (first(&own), SocketAddr::new(first(&there), 7007));
    let bind = |node: &str, at: SocketAddr| {
        let worker = site.lab().worker(node).unwrap();
        worker.run(move || UdpSocket::bind(at).unwrap()).unwrap()
    };
    let echo = Echo::over(bind("gateway", to));
    (Train::over(bind(HOST, SocketAddr::new(from, 0)), to), echo)
}

fn key_of(site: &Site, node: &str) -> (String, Option<String>) {
    let key = kedge(site, node, "tunnel rotate-key --dry-run");
    let next = key["nextPublicKey"].as_str().map(str::to_owned);
    (key["publicKey"].as_str().unwrap().to_owned(), next)
}

/// Changes a key and waits until all go by it; how long that took.
fn rotate(site: &Site, node: &str, order: &str) -> Duration {
    let begun = Instant::now();
    let key = kedge(site, node, order);
    assert!(texts(&key["waiting"]).is_empty(), "{key}");
    assert_eq!(texts(&key["moved"]).len(), 1, "{key}");
    begun.elapsed()
}

/// Has the old key of a role gone at its next start, as after the longest time that it is kept.
fn age(site: &Site, node: &str, role: &str) {
    let path = format!("var/lib/kedge/{role}/tunnel-next.key");
    let file = fs::File::options()
        .write(true)
        .open(site.lab().root(node).join(path))
        .unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(31 * 24))
        .unwrap();
}

/// Ends a process in order. Only then may another take its socket.
fn end(site: &mut Site, node: &str, process: &str) {
    let lab = site.lab_mut();
    lab.terminate(node, process).unwrap();
    let ended = lab.process(node, process).unwrap().wait(secs(10));
    assert!(ended.unwrap().success());
}

/// Whether the gateway answers a handshake with this key, for that one of its keys.
fn is_answered(site: &Site, key: &PrivateKey, gateway: PublicKey) -> bool {
    let socket = {
        let worker = site.lab().worker("client").unwrap();
        worker
            .run(|| UdpSocket::bind("0.0.0.0:0").unwrap())
            .unwrap()
    };
    socket.set_read_timeout(Some(millis(700))).unwrap();
    let mut shard = Shard::new(key, 0, 1_420, 1, Arc::default(), Noise::Boringtun);
    let peer = PeerSpec {
        name: "gateway".to_owned(),
        public_key: gateway,
        next_key: None,
        preshared_key: None,
        endpoint: Some(GATEWAY.parse().unwrap()),
        allowed_ips: vec!["10.0.0.1/32".parse().unwrap()],
        accepts: Vec::new(),
        relays: false,
        realm: None,
        keepalive: None,
        always_up: true,
    };
    let change = Directory::new(key.public()).plan(vec![peer]).unwrap();
    let now = kedge_net::clock::now();
    shard.apply(now, change);
    let mut initiation = [0; 2_048];
    let transmit = shard.poll_transmit(now, &mut initiation).unwrap();
    socket
        .send_to(&initiation[..transmit.length], GATEWAY)
        .unwrap();
    let answer = socket.recv_from(&mut [0; 2_048]);
    answer.is_ok_and(|(length, _)| length == 92)
}

fn private(site: &Site, node: &str, path: &str) -> PrivateKey {
    let text = fs::read_to_string(site.lab().root(node).join(path)).unwrap();
    text.trim().parse().unwrap()
}

#[test]
fn keys_of_a_host_and_of_its_gateway_change_without_a_lost_packet() {
    on_a_steady_machine(|| {
        let mut site = site();
        let (old, old_gateway) = (key_of(&site, HOST).0, key_of(&site, "gateway").0);
        let old_private = private(&site, HOST, "var/lib/kedge/agent/tunnel.key");
        assert_eq!(recorded(&site), [old.as_str()]);
        let old_gateway_key = tunnel_key(site.lab().root("gateway"), Role::Gateway);
        assert!(is_answered(&site, &old_private, old_gateway_key));
        eventually("the host is up again", secs(10), || is_up(&site));

        let (packets, echo) = train(&site);
        let took = rotate(&site, HOST, "tunnel rotate-key --wait --timeout 60s");
        let (sent, lost) = packets.finish();
        drop(echo);
        println!("key of the host: {lost} of {sent} packets lost, gone over after {took:?}");
        assert_eq!(lost, 0);
        let next = key_of(&site, HOST).1.unwrap();
        assert_eq!(recorded(&site), [old.as_str(), next.as_str()]);

        let (packets, echo) = train(&site);
        let took = rotate(&site, "gateway", "gateway rotate-key --wait --timeout 60s");
        let (sent, lost) = packets.finish();
        drop(echo);
        println!("key of the gateway: {lost} of {sent} packets lost, gone over after {took:?}");
        assert_eq!(lost, 0);
        let next_gateway = key_of(&site, "gateway").1.unwrap();

        // In the middle of both.
        end(&mut site, HOST, "agent");
        site.start_agent(HOST).unwrap();
        eventually("the host is back with the new key", secs(30), || {
            is_up(&site) && {
                let key = kedge(&site, HOST, "tunnel rotate-key --dry-run");
                texts(&key["moved"]).len() == 1
            }
        });

        // The old ones go.
        for (node, role, process) in [("gateway", "gateway", "gateway"), (HOST, "agent", "agent")] {
            age(&site, node, role);
            end(&mut site, node, process);
            if node == "gateway" {
                site.start_gateway().unwrap();
            } else {
                site.start_agent(node).unwrap();
            }
        }
        eventually("both have one key", secs(30), || {
            is_up(&site)
                && key_of(&site, HOST) == (next.clone(), None)
                && key_of(&site, "gateway") == (next_gateway.clone(), None)
        });
        eventually("the manager knows one key", secs(10), || {
            recorded(&site) == [next.as_str()]
        });
        let new_gateway_key = tunnel_key(site.lab().root("gateway"), Role::Gateway);
        assert_ne!(new_gateway_key.to_string(), old_gateway);
        eventually(
            "the gateway refuses the old key of the host",
            secs(10),
            || !is_answered(&site, &old_private, new_gateway_key),
        );
        let new_private = private(&site, HOST, "var/lib/kedge/agent/tunnel.key");
        assert!(!is_answered(&site, &new_private, old_gateway_key));
        assert!(is_answered(&site, &new_private, new_gateway_key));

        // Once more, both at once.
        let (packets, echo) = train(&site);
        let begun = Instant::now();
        kedge(&site, HOST, "tunnel rotate-key");
        kedge(&site, "gateway", "gateway rotate-key");
        for node in [HOST, "gateway"] {
            eventually(&format!("{node}: all go by the new key"), secs(60), || {
                let key = kedge(&site, node, "tunnel rotate-key --dry-run");
                texts(&key["moved"]).len() == 1
            });
        }
        let took = begun.elapsed();
        let (sent, lost) = packets.finish();
        drop(echo);
        println!("both keys: {lost} of {sent} packets lost, gone over after {took:?}");
        assert_eq!(lost, 0);
        assert_eq!(site.take_down(), Vec::<String>::new());
    });
}
