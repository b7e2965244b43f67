//! Hosts of a VIP that are linked: a VIP goes to the host somebody chose, and an agent that is killed
//! with its guardian is missed after one advert.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    io::ErrorKind,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    time::Instant,
};

use kedge_core::{Code, Problem};
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    eventually,
    lan::{Host, Lan},
    on_a_steady_machine, quietly, secs,
    train::{Echo, Train},
};
use serde_json::Value;

const VIP: &str = "10.20.14.10";
const VIP_V6: &str = "fd00:14::10";
const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const KEY: &str = "hex:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "hex:ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// An agent of the VIP `address` whose host is linked with those that have the same key.
fn linked<'a>(host: &'a Host, address: &str, priority: u8, key: &str, more: &str) -> Agent<'a> {
    let yaml = format!(
        "node: {{name: {name}}}\n\
         peer_link: {{key_file: /etc/kedge/peer.key}}\n\
         vips: {{api: {{addresses: [\"{address}\"], health: none, vrid: 51, priority: {priority}, \
         startup_delay: 500ms{more}}}}}\n",
        name = host.name
    );
    let mut agent = Agent::new(host, KEDGE, &yaml);
    write_key(&agent, key);
    agent.start();
    agent
}

/// Gives the host the key, for its owner alone.
fn write_key(agent: &Agent<'_>, key: &str) {
    let file = agent.root().join("etc/kedge/peer.key");
    fs::write(&file, format!("{key}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn links(agent: &Agent<'_>) -> Vec<Value> {
    let status = agent.kedge("status -o json").json();
    let links = status.get("peerLinks").and_then(Value::as_array);
    links.cloned().unwrap_or_default()
}

fn is_linked_with(agent: &Agent<'_>, host: &str) -> bool {
    links(agent)
        .iter()
        .any(|link| link["up"] == true && link["host"] == host)
}

#[test]
fn a_vip_goes_to_the_host_somebody_chose_whatever_its_priority() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let c = lan.host("c", "10.20.14.13/24");
        let client = lan.host("client", "10.20.14.99/24");
        let echoes = [&a, &b, &c].map(Echo::start);
        let first = linked(&a, VIP, 250, KEY, "");
        eventually("a holds it", secs(10), || a.holds(VIP));
        // An election would choose this one.
        let second = linked(&b, VIP, 240, KEY, "");
        let third = linked(&c, VIP, 200, KEY, "");
        eventually("all are linked", secs(10), || {
            is_linked_with(&first, "b") && is_linked_with(&first, "c")
        });
        let train = Train::start(&client, VIP.parse().unwrap());
        let planned = first.kedge("vip move api c --dry-run -o json").json();
        assert_eq!(planned["given"], false, "{planned}");
        let told = first.kedge("vip move api c --yes -o json");
        assert_eq!(told.code, 0, "{told:?}");
        let told = told.json();
        println!("{}", told["outcome"]["because"]);
        assert_eq!(told["outcome"]["moved"], true, "{told}");
        assert_eq!(told["outcome"]["holder"], "10.20.14.13");
        assert!(c.holds(VIP) && third.gave("10.20.14.11 handed it over to this host"));
        eventually(
            "b follows the new one and is linked with it",
            secs(10),
            || is_linked_with(&third, "b"),
        );
        assert!(!second.log().contains("to=Active"), "{}", second.log());
        // And by its address, to a host that would have got it by election.
        let told = third.kedge("vip move api 10.20.14.12 --yes -o json").json();
        assert_eq!(told["outcome"]["moved"], true, "{told}");
        assert!(b.holds(VIP) && !c.holds(VIP));
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} lost");
        assert_eq!(lost, 0);
        drop(echoes);
    });
}

#[test]
fn who_cannot_be_the_next_says_why_and_nothing_moves() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let first = linked(&a, VIP, 250, KEY, "");
        eventually("a holds it", secs(10), || a.holds(VIP));
        let second = linked(&b, VIP, 240, KEY, "");
        eventually("they are linked", secs(10), || is_linked_with(&first, "b"));
        let refused = |host: &str, why: &str| {
            let said = first.kedge(&format!("vip move api {host} --yes -o json"));
            assert_eq!(said.code, 8, "{said:?}");
            let problem: Problem = serde_json::from_value(said.json()).unwrap();
            assert_eq!(problem.code, Code::VipOrderRefused);
            let told = format!("{} {:?}", problem.what, problem.evidence);
            assert!(told.contains(why), "{told}");
            assert!(a.holds(VIP) && !b.holds(VIP));
        };
        assert_eq!(second.kedge("vip freeze api").code, 0);
        refused("b", "the VIP is frozen there");
        assert_eq!(second.kedge("vip thaw api").code, 0);
        assert_eq!(second.kedge("drain --yes").code, 0);
        refused("b", "it is drained");
        refused("c", "neither this host nor one that is linked");
    });
}

#[test]
fn a_host_with_another_key_is_not_listened_to_and_vips_do_without() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let mut first = linked(&a, VIP, 250, KEY, "");
        eventually("a holds it", secs(10), || a.holds(VIP));
        let second = linked(&b, VIP, 240, OTHER, "");
        eventually("b says so", secs(10), || {
            let links = links(&second);
            let because = links.first().and_then(|link| link["because"].as_str());
            because.is_some_and(|it| it.contains("does not know the key"))
        });
        assert!(links(&first).is_empty());
        first.stop();
        eventually("b takes it", secs(5), || b.holds(VIP));
        // The right one is taken up by a reload.
        drop(first);
        let first = linked(&a, VIP, 250, KEY, "");
        write_key(&second, KEY);
        second.reload();
        eventually("they are linked", secs(10), || is_linked_with(&first, "b"));
    });
}

#[test]
fn a_port_that_is_taken_is_told_and_had_once_it_is_free() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _) = lan.pair();
        let taken = a.run(|| TcpListener::bind("0.0.0.0:7112").unwrap());
        let first = linked(&a, VIP, 250, KEY, "");
        let problems = || first.kedge("status -o json").json()["problems"].clone();
        assert_eq!(problems()[0]["code"], "KEDGE-VIP-0027", "{}", problems());
        eventually("it is held all the same", secs(10), || a.holds(VIP));
        drop(taken);
        eventually("nothing is wrong", secs(5), || {
            problems().as_array().is_some_and(Vec::is_empty)
        });
        // Whoever is not on the link hears nothing at all.
        let port = "10.20.14.11:7112".parse().unwrap();
        let silence = a.run(move || TcpStream::connect_timeout(&port, secs(2)).unwrap_err());
        assert_eq!(silence.kind(), ErrorKind::TimedOut, "TTL 64: {silence}");
        assert_eq!(first.log().matches("no links to other hosts").count(), 1);
    });
}

/// Kills agent and guardian as one, so that nobody says goodbye, and returns how long the address was
/// nobody's.
fn killed_with_its_guardian(address: &'static str, family: &str) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    a.add_ipv6();
    b.add_ipv6();
    let mut first = linked(&a, address, 250, KEY, ", profile: wan");
    eventually("a holds it", secs(10), || a.holds(address));
    let second = linked(&b, address, 240, KEY, ", profile: wan");
    eventually("they are linked", secs(15), || is_linked_with(&first, "b"));
    eventually("b stands by", secs(10), || second.stands_by());
    let guardian = first.guardian();
    guardian.freeze();
    let dead = Instant::now();
    first.kill();
    guardian.kill();
    eventually("b holds it", secs(10), || b.holds(address));
    let took = dead.elapsed();
    println!("{family}: taken over after {took:?}, with adverts each second");
    assert!(
        second.gave("ended, which broke its connection"),
        "{}",
        second.log()
    );
    assert!(took < secs(2), "{took:?}");
}

#[test]
fn an_agent_killed_with_its_guardian_is_missed_after_one_advert() {
    on_a_steady_machine(|| {
        killed_with_its_guardian(VIP, "IPv4");
        killed_with_its_guardian(VIP_V6, "IPv6");
    });
}

#[test]
fn a_link_that_ends_in_order_is_no_process_that_died() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let mut first = linked(&a, VIP, 250, KEY, ", profile: wan");
        eventually("a holds it", secs(10), || a.holds(VIP));
        let second = linked(&b, VIP, 240, KEY, ", profile: wan");
        for _ in 0..2 {
            eventually("they are linked", secs(15), || is_linked_with(&first, "b"));
            assert_eq!(first.kedge("restart").code, 0);
            quietly("b stands by", secs(2), || second.stands_by());
        }
        eventually("they are linked", secs(15), || is_linked_with(&first, "b"));
        first.stop();
        eventually("b takes it", secs(5), || b.holds(VIP));
        let log = second.log();
        assert!(log.contains("the other end closed it"), "{log}");
        assert!(!log.contains("which broke its connection"), "{log}");
    });
}
