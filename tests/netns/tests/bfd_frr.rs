//! BFD against a real FRR bfdd: both roles, both families, timers, orders, and every way to be lost.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{process::Command, time::Duration};

use kedge_tests_netns::{
    agent::Agent, asked::Asked, bfdd::Bfdd, eventually, lan::Lan, millis, on_a_steady_machine,
    secs, throughout,
};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const A: &str = "10.20.14.11";
const B: &str = "10.20.14.12";

fn yaml(session: &str) -> String {
    format!("bfd: {{sessions: {{tor: {{{session}}}}}}}\n")
}

fn session(agent: &Agent<'_>) -> Value {
    agent.kedge("bfd sessions -o json").json()["items"][0].clone()
}

fn is(agent: &Agent<'_>, state: &str, liveness: &str) -> bool {
    let session = session(agent);
    session["state"] == state && session["liveness"] == liveness
}

fn seconds(agent: &Agent<'_>, key: &str) -> f64 {
    session(agent)[key].as_f64().unwrap_or_default()
}

/// What a loaded machine with two cores, and a question by the command line, may add to a bound.
const SLACK: Duration = Duration::from_millis(400);

#[test]
fn a_session_comes_up_in_both_roles_over_both_families_and_over_routers() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        a.add_address("fd00:14::b/64");
        b.add_address("fd00:14::c/64");
        let (near, far) = (a.link_local().to_string(), b.link_local().to_string());
        for (what, ours, theirs, lines, key) in [
            (
                "IPv4",
                format!("peer: {B}, interface: eth0"),
                format!("{A} interface eth0"),
                "",
                A.to_owned(),
            ),
            (
                "IPv4, we wait",
                format!("peer: {B}, passive: true"),
                A.to_owned(),
                "",
                A.to_owned(),
            ),
            (
                "IPv4, they wait",
                format!("peer: {B}, source: {A}"),
                A.to_owned(),
                "passive-mode",
                A.to_owned(),
            ),
            (
                "IPv6",
                "peer: 'fd00:14::c'".to_owned(),
                "fd00:14::b local-address fd00:14::c".to_owned(),
                "",
                "fd00:14::b".to_owned(),
            ),
            (
                "IPv6 of the link",
                format!("peer: '{far}', interface: eth0"),
                format!("{near} local-address {far} interface eth0"),
                "",
                near.clone(),
            ),
            (
                "multihop",
                format!("peer: {B}, source: {A}, multihop: true"),
                format!("{A} multihop local-address {B}"),
                "",
                A.to_owned(),
            ),
        ] {
            let frr = Bfdd::start(&b, &[(&theirs, lines)]);
            let mut agent = Agent::running(&a, KEDGE, &yaml(&ours));
            eventually(&format!("{what}: up here"), secs(6), || {
                is(&agent, "Up", "Alive")
            });
            eventually(&format!("{what}: up there"), secs(2), || {
                frr.status(&key) == "up"
            });
            eventually(&format!("{what}: agreed"), secs(3), || {
                (seconds(&agent, "transmitIntervalSeconds") - 0.3).abs() < 1e-9
                    && frr.number(&key, "remote-receive-interval") == 300
                    && frr.number(&key, "remote-transmit-interval") == 300
            });
            let shown = session(&agent);
            assert_eq!(shown["detectionSeconds"], 0.9, "{shown}");
            assert_eq!(shown["losses"], 0);
            throughout(&format!("{what}: stays"), secs(2), || {
                is(&agent, "Up", "Alive")
            });
            assert_eq!(frr.downs(&key), 0);
            agent.stop();
            eventually(&format!("{what}: we left"), secs(1), || {
                frr.status(&key) == "down"
                    && frr.peer(&key)["remote-diagnostic"] == "administratively down"
            });
            std::fs::remove_dir_all(a.directory().join("root")).unwrap();
        }
    });
}

#[test]
fn timers_change_on_either_side_while_up_and_nobody_notices_a_reload() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let frr = Bfdd::start(&b, &[(A, "")]);
        let agent = Agent::running(&a, KEDGE, &yaml(&format!("peer: {B}")));
        eventually("up", secs(6), || {
            is(&agent, "Up", "Alive") && frr.status(A) == "up"
        });
        let number = session(&agent)["localDiscriminator"].clone();
        let configured = |timers: &str| {
            agent.configure(&yaml(&format!("peer: {B}, {timers}")));
            agent.reload();
        };
        configured("transmit_interval: 100ms, receive_interval: 150ms, detect_multiplier: 5");
        eventually("FRR knows our quicker timers", secs(3), || {
            frr.number(A, "remote-transmit-interval") == 100
                && frr.number(A, "remote-receive-interval") == 150
                && frr.number(A, "remote-detect-multiplier") == 5
        });
        frr.configure(A, &["receive-interval 50", "transmit-interval 50"]);
        eventually("both are quicker", secs(3), || {
            let detection = seconds(&agent, "detectionSeconds");
            (seconds(&agent, "transmitIntervalSeconds") - 0.1).abs() < 1e-9
                && (detection - 0.45).abs() < 1e-9
        });
        frr.configure(A, &["receive-interval 700", "transmit-interval 600"]);
        eventually("we send as seldom as FRR wants", secs(5), || {
            (seconds(&agent, "transmitIntervalSeconds") - 0.7).abs() < 1e-9
                && (seconds(&agent, "detectionSeconds") - 1.8).abs() < 1e-9
        });
        configured("transmit_interval: 1s, receive_interval: 1s");
        eventually("FRR knows our slower timers", secs(5), || {
            frr.number(A, "remote-transmit-interval") == 1_000
                && (seconds(&agent, "transmitIntervalSeconds") - 1.0).abs() < 1e-9
        });
        // Another session, and another file: the first one notices nothing.
        agent.configure(&format!(
        "bfd: {{sessions: {{other: {{peer: 10.20.14.77}}, tor: {{peer: {B}, transmit_interval: 1s, \
         receive_interval: 1s}}}}}}\n"
    ));
        agent.reload();
        eventually("the other session is there", secs(3), || {
            let list = agent.kedge("bfd sessions -o json").json();
            list["items"]
                .as_array()
                .is_some_and(|items| items.len() == 2)
        });
        throughout("it stays up", secs(2), || {
            agent.kedge("bfd sessions -o json").json()["items"][1]["state"] == "Up"
        });
        let list = agent.kedge("bfd sessions -o json").json();
        assert_eq!(list["items"][1]["localDiscriminator"], number);
        assert_eq!(list["items"][1]["losses"], 0, "{list}");
        assert_eq!(frr.downs(A), 0);
    });
}

#[test]
fn an_order_on_either_side_is_no_failure() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let frr = Bfdd::start(&b, &[(A, "")]);
        let agent = Agent::running(&a, KEDGE, &yaml(&format!("peer: {B}")));
        let is_up = || is(&agent, "Up", "Alive") && frr.status(A) == "up";
        eventually("up", secs(6), is_up);
        frr.configure(A, &["shutdown"]);
        eventually("FRR's operator took it down", secs(2), || {
            is(&agent, "Down", "Unknown")
        });
        assert_eq!(session(&agent)["because"], "the peer was told to stop");
        frr.configure(A, &["no shutdown"]);
        eventually("up again", secs(6), is_up);
        agent.configure(&yaml(&format!("peer: {B}, shutdown: true")));
        agent.reload();
        eventually("we took it down", secs(2), || {
            frr.peer(A)["remote-diagnostic"] == "administratively down" && frr.status(A) == "down"
        });
        assert!(is(&agent, "AdminDown", "Unknown"));
        agent.configure(&yaml(&format!("peer: {B}")));
        agent.reload();
        eventually("up a third time", secs(6), is_up);
        assert_eq!(session(&agent)["losses"], 0);
    });
}

#[test]
fn a_peer_that_dies_and_one_that_is_cut_off_are_lost_within_the_detection_time() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let timers = "transmit-interval 50, receive-interval 50";
        let mut frr = Bfdd::start(&b, &[(A, timers)]);
        let ours = "transmit_interval: 50ms, receive_interval: 50ms";
        let agent = Agent::running(&a, KEDGE, &yaml(&format!("peer: {B}, {ours}")));
        let is_up = |frr: &Bfdd<'_>| is(&agent, "Up", "Alive") && frr.status(A) == "up";
        let is_quick = || (seconds(&agent, "detectionSeconds") - 0.15).abs() < 1e-9;
        eventually("up", secs(6), || is_up(&frr) && is_quick());
        frr.kill();
        let took = eventually("its death is noticed", millis(150) + SLACK, || {
            is(&agent, "Down", "Lost")
        });
        let shown = session(&agent);
        println!(
            "  detection time 150 ms, seen from outside after {took:?}: {}",
            shown["because"]
        );
        let because = shown["because"].as_str().unwrap();
        assert!(
            because.contains("its detection time is 150.0 ms"),
            "{because}"
        );
        let problems = shown["problems"].to_string();
        assert!(problems.contains("KEDGE-BFD-0003"), "{problems}");
        drop(frr);
        let frr = Bfdd::start(&b, &[(A, timers)]);
        eventually("it is back", secs(6), || is_up(&frr) && is_quick());
        lan.unplug(&b);
        eventually("its cut port is noticed", millis(150) + SLACK, || {
            is(&agent, "Down", "Lost")
        });
        lan.plug(&b);
        eventually("and plugged in again", secs(6), || is_up(&frr));
        assert_eq!(session(&agent)["losses"], 2);
    });
}

#[test]
fn another_bfd_on_this_host_is_named_and_makes_room_when_it_goes() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let mut other = Bfdd::start(&a, &[("10.20.14.77", "")]);
        let frr = Bfdd::start(&b, &[(A, "")]);
        let agent = Agent::running(&a, KEDGE, &yaml(&format!("peer: {B}")));
        eventually("who has the port is told", secs(5), || {
            let status = agent.kedge("status -o json").out;
            status.contains("KEDGE-BFD-0001") && status.contains("bfdd (process")
        });
        let said = agent.kedge("bfd sessions");
        println!("{}", said.out);
        assert!(said.out.contains("KEDGE-BFD-0001"), "{said:?}");
        other.kill();
        eventually("up", secs(8), || {
            is(&agent, "Up", "Alive") && frr.status(A) == "up"
        });
        assert!(!agent.kedge("status -o json").out.contains("KEDGE-BFD-0001"));
    });
}

#[test]
fn a_session_waits_for_its_interface_and_its_source() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let frr = Bfdd::start(&b, &[(A, ""), ("10.20.14.77", "")]);
        let agent = Agent::running(&a, KEDGE, &yaml(&format!("peer: {B}, interface: eth9")));
        let says = |words: &str| {
            let problems = session(&agent)["problems"].to_string();
            problems.contains("KEDGE-BFD-0002") && problems.contains(words)
        };
        let ip = |lines: &'static [&'static str]| {
            a.run(move || {
                for line in lines {
                    let status = Command::new("ip").args(line.split(' ')).status();
                    assert!(status.unwrap().success(), "ip {line}");
                }
            });
        };
        eventually("the interface is missed", secs(3), || {
            says("there is no interface eth9")
        });
        ip(&[
            "link set eth0 down",
            "link set eth0 name eth9",
            "link set eth9 up",
        ]);
        eventually("it is there, and used", secs(8), || {
            is(&agent, "Up", "Alive")
        });
        ip(&["link set eth9 down"]);
        eventually("it is down, and the peer lost", secs(3), || {
            is(&agent, "Down", "Lost")
        });
        ip(&["link set eth9 name eth0", "link set eth0 up"]);
        eventually("it is gone", secs(5), || says("there is no interface eth9"));
        agent.configure(&yaml(&format!("peer: {B}, source: 10.20.14.77")));
        agent.reload();
        eventually("the source is missed", secs(3), || {
            says("10.20.14.77 is no address of this host")
        });
        a.add_address("10.20.14.77/24");
        eventually("it is there, and used", secs(8), || {
            is(&agent, "Up", "Alive")
        });
        assert_eq!(frr.status("10.20.14.77"), "up");
    });
}
