//! VIPs that track BFD sessions, and what else a host sees of them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{fs, time::Duration};

use kedge_core::bfd::SessionState;
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    bfdd::Bfdd,
    eventually,
    lan::{Host, Lan},
    on_a_steady_machine, secs, throughout,
};
use kedge_vip_proto::wire::bfd::{Control, Diagnostic, Discriminator, Interval, Multiplier};
use socket2::{Domain, Socket, Type};

const VIP: &str = "10.20.14.10";
const ROUTER: &str = "10.20.14.1";
const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");

fn yaml(priority: u8, failure: &str) -> String {
    format!(
        "bfd: {{sessions: {{tor: {{peer: {ROUTER}, interface: eth0, transmit_interval: 50ms, \
         receive_interval: 50ms}}}}}}\n\
         vips: {{api: {{addresses: [{VIP}], vrid: 51, priority: {priority}, preempt: true, \
         members: mixed, unhealthy_priority: 1, health: none, startup_delay: 500ms, \
         link_up_delay: 500ms, track: {{router: {{bfd: tor, {failure}}}}}}}}}\n"
    )
}

fn ends(agent: &Agent<'_>) -> (bool, bool) {
    let session = agent.kedge("bfd sessions -o json").json();
    let session = &session["items"][0];
    (session["state"] == "Up", session["liveness"] == "Lost")
}

/// Cuts the way between a router and one host, and nothing else.
fn part(router: &Host, from: &str) {
    router.nft(format!(
        "table ip cut {{ chain in {{ type filter hook input priority 0; ip saddr {from} drop; }}; \
             chain out {{ type filter hook output priority 0; ip daddr {from} drop; }}; }}"
    ));
}

fn join(router: &Host) {
    router.nft("delete table ip cut");
}

#[test]
fn a_vip_leaves_a_host_that_lost_the_router_and_returns_with_it() {
    on_a_steady_machine(|| {
        for failure in ["weight: -20", "critical: true"] {
            let lan = Lan::new();
            let (a, b) = lan.pair();
            let router = lan.host("r", "10.20.14.1/24");
            let timers = "transmit-interval 50, receive-interval 50";
            let frr = Bfdd::start(&router, &[("10.20.14.11", timers), ("10.20.14.12", timers)]);
            let first = Agent::running(&a, KEDGE, &yaml(250, failure));
            eventually("the higher one holds it", secs(10), || a.holds(VIP));
            let second = Agent::running(&b, KEDGE, &yaml(240, failure));
            eventually("the lower one stands by", secs(10), || second.stands_by());
            eventually("both see the router", secs(6), || {
                ends(&first).0 && ends(&second).0 && frr.status("10.20.14.12") == "up"
            });
            let told = first.vip();
            assert_eq!(told["tracks"][0]["what"], "bfd tor", "{told}");
            assert_eq!(told["tracks"][0]["good"], true, "{told}");

            part(&router, "10.20.14.11");
            // 150 ms to notice, then a skew of 6 ms or a preemption within 3 adverts.
            let bound = Duration::from_millis(150 + 350 + 400);
            eventually(
                &format!("{failure}: the other one holds it alone"),
                bound,
                || b.holds(VIP) && !a.holds(VIP),
            );
            let shown = first.explanation();
            let problems = shown["vip"]["problems"].to_string();
            assert!(problems.contains("KEDGE-VIP-0011"), "{shown}");
            assert!(
                problems.contains("track router: tor is down: the peer"),
                "{shown}"
            );
            throughout("it stays there", secs(1), || b.holds(VIP));
            join(&router);
            eventually("it is back", secs(15), || a.holds(VIP) && !b.holds(VIP));
            assert_eq!(first.priority(), 250);
        }
    });
}

#[test]
fn an_order_at_the_router_and_its_absence_from_the_start_move_nothing() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let router = lan.host("r", "10.20.14.1/24");
        let first = Agent::running(&a, KEDGE, &yaml(250, "critical: true"));
        eventually(
            "it is held although no router was ever seen",
            secs(10),
            || a.holds(VIP),
        );
        let second = Agent::running(&b, KEDGE, &yaml(240, "critical: true"));
        eventually("the lower one stands by", secs(10), || second.stands_by());
        let frr = Bfdd::start(&router, &[("10.20.14.11", ""), ("10.20.14.12", "")]);
        eventually("both see the router", secs(8), || {
            ends(&first).0 && ends(&second).0
        });
        frr.configure("10.20.14.11", &["shutdown"]);
        eventually("the session is down", secs(3), || !ends(&first).0);
        throughout("it stays here", secs(2), || a.holds(VIP) && !b.holds(VIP));
        let told = first.vip();
        assert_eq!(told["tracks"][0]["good"], true, "{told}");
    });
}

#[test]
fn a_restart_of_the_agent_brings_no_vip_back_to_a_host_without_its_router() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let router = lan.host("r", "10.20.14.1/24");
        let frr = Bfdd::start(&router, &[("10.20.14.11", ""), ("10.20.14.12", "")]);
        let mut first = Agent::running(&a, KEDGE, &yaml(250, "critical: true"));
        eventually("the higher one holds it", secs(10), || a.holds(VIP));
        let second = Agent::running(&b, KEDGE, &yaml(240, "critical: true"));
        eventually("both see the router", secs(8), || {
            ends(&first).0 && ends(&second).0
        });
        part(&router, "10.20.14.11");
        eventually("the other one holds it", secs(5), || {
            b.holds(VIP) && !a.holds(VIP)
        });
        first.stop();
        first.start();
        throughout("it stays there", secs(3), || b.holds(VIP) && !a.holds(VIP));
        let told = first.vip();
        assert_eq!(
            told["tracks"][0]["because"],
            "tor was lost before Kedge was restarted, and has not been up since"
        );
        join(&router);
        eventually("it is back", secs(15), || a.holds(VIP) && !b.holds(VIP));
        assert_eq!(frr.status("10.20.14.11"), "up");
    });
}

#[test]
fn an_agent_that_is_replaced_in_place_moves_nothing() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let router = lan.host("r", "10.20.14.1/24");
        let frr = Bfdd::start(&router, &[("10.20.14.11", ""), ("10.20.14.12", "")]);
        let first = Agent::running(&a, KEDGE, &yaml(250, "critical: true"));
        eventually("the higher one holds it", secs(10), || a.holds(VIP));
        let second = Agent::running(&b, KEDGE, &yaml(240, "critical: true"));
        eventually("both see the router", secs(8), || {
            ends(&first).0 && ends(&second).0
        });
        let number = || {
            let list = first.kedge("bfd sessions -o json").json();
            list["items"][0]["localDiscriminator"]
                .as_u64()
                .unwrap_or_default()
        };
        let before = number();
        let _guardian = first.guardian();
        let said = first.kedge("restart");
        assert_eq!(said.code, 0, "{said:?}");
        throughout("it stays here", secs(2), || a.holds(VIP) && !b.holds(VIP));
        eventually("another session is up", secs(6), || ends(&first).0);
        assert_ne!(number(), before, "it is a new one");
        assert_eq!(frr.peer("10.20.14.11")["remote-diagnostic"], "ok");
    });
}

#[test]
fn a_packet_from_behind_a_router_is_dropped_and_told() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let agent = Agent::running(&a, KEDGE, "bfd: {sessions: {tor: {peer: 10.20.14.12}}}\n");
        let packet = Control {
            diagnostic: Diagnostic::NONE,
            state: SessionState::Down,
            poll: false,
            fin: false,
            independent: false,
            demand: false,
            multiplier: Multiplier::DEFAULT,
            my: Discriminator::new(7).unwrap(),
            your: None,
            desired_min_tx: Interval::SLOW,
            required_min_rx: Interval::SLOW,
            required_min_echo_rx: Interval::ZERO,
        };
        let refused = |reason: &str| {
            let list = agent.kedge("bfd sessions -o json").json();
            list["items"][0]["packetsRefused"][reason]
                .as_u64()
                .unwrap_or_default()
        };
        let send = |ttl: u32, bytes: Vec<u8>| {
            b.run(move || {
                let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
                socket.set_ttl_v4(ttl).unwrap();
                let to: std::net::SocketAddr = "10.20.14.11:3784".parse().unwrap();
                socket.send_to(&bytes, &to.into()).unwrap();
            });
        };
        eventually("a packet with TTL 254 is refused", secs(5), || {
            send(254, packet.emit().to_vec());
            refused("ttl") > 0
        });
        let list = agent.kedge("bfd sessions");
        assert!(list.out.contains("KEDGE-BFD-0004"), "{list:?}");
        eventually("one that is none is counted", secs(5), || {
            send(255, b"hello".to_vec());
            refused("truncated") > 0
        });
        let state = || agent.kedge("bfd sessions -o json").json()["items"][0]["state"].clone();
        assert_eq!(state(), "Down");
        eventually("the same with TTL 255 is heard", secs(5), || {
            send(255, packet.emit().to_vec());
            state() == "Init"
        });
    });
}

#[test]
fn a_host_without_sessions_has_no_thread_for_them() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let agent = Agent::running(&a, KEDGE, "{}\n");
        let threads = || {
            let pid = agent.kedge("status -o json").json()["pid"]
                .as_u64()
                .unwrap();
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            let names = tasks
                .flatten()
                .map(|task| fs::read_to_string(task.path().join("comm")));
            names
                .filter(|name| name.as_ref().is_ok_and(|name| name.trim() == "kedge-bfd"))
                .count()
        };
        assert_eq!(threads(), 0);
        let said = agent.kedge("bfd sessions");
        assert!(
            said.out.starts_with("no BFD session is configured"),
            "{said:?}"
        );
        agent.configure("bfd: {sessions: {tor: {peer: 10.20.14.12}}}\n");
        agent.reload();
        eventually("the first session has one", secs(3), || threads() == 1);
    });
}
