//! What happens to a VIP when its agent is killed, hung or started again.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    process::Command,
    time::Instant,
};

use kedge_core::vip::RouterState;
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    client, eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, quietly, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_speaker::{Members, VipSpec};
use rustix::process::Signal;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const VIP: &str = "10.20.14.10";
const VIPS: &str = "version: 1\nvips:\n  api:\n    addresses: [10.20.14.10]\n    vrid: 51\n    priority: 254\n    \
                    health: none\n";

/// The hosts of an agent and of a Backup.
/// An agent that is Active, and a Backup that hears it.
fn pair<'a>(a: &'a Host, b: &Host) -> (Agent<'a>, Speaking) {
    let second = Speaking::start(b, backup());
    let agent = Agent::running(a, KEDGE, VIPS);
    // Nothing preempts here: the agent is Active because the other one is told to leave it.
    eventually("the agent hears the other", secs(10), || {
        agent.vip()["active"]["address"] == "10.20.14.12" || a.holds(VIP)
    });
    if second.state() == RouterState::Active {
        second.release(&"api".parse().unwrap());
    }
    second.becomes(RouterState::Backup, secs(5));
    eventually("the agent holds it", secs(5), || a.holds(VIP));
    eventually("the Backup hears the Active", secs(2), || {
        second.vip().active.is_some()
    });
    (agent, second)
}

fn backup() -> VipSpec {
    VipSpec {
        members: Members::Kedge,
        preempt: false,
        ..vip(51, 251, VIP)
    }
}

/// The fences of a host.
fn fences(host: &Host) -> Vec<u32> {
    host.run(|| kedge_net::fence::standing().unwrap())
}

#[test]
fn a_killed_agent_is_succeeded_at_once_and_leaves_nothing_behind() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (mut agent, second) = pair(&a, &b);
        let guardian = agent.guardian();
        eventually("a fence stands", secs(5), || !fences(&a).is_empty());
        let killed = Instant::now();
        agent.kill();
        quietly("the Backup holds it", secs(1), || b.holds(VIP));
        let took = killed.elapsed();
        println!("the Backup held it {took:?} after the kill");
        assert!(
            took < millis(100),
            "three adverts were waited for: {took:?}"
        );
        second.becomes(RouterState::Active, millis(200));
        assert!(
            second.vip().because.contains("leaves"),
            "{}",
            second.vip().because
        );
        eventually("the address is gone", millis(500), || !a.holds(VIP));
        eventually("the guardian has ended", secs(2), || !guardian.is_alive());
        assert!(fences(&a).is_empty());
        assert_eq!(second.counter("became_active"), 2);
    });
}

#[test]
fn an_agent_that_hangs_is_fenced_and_its_later_death_moves_nothing() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (mut agent, second) = pair(&a, &b);
        let guardian = agent.guardian();
        let client = lan.host("c", "10.20.14.13/24");
        eventually("a fence stands", secs(5), || !fences(&a).is_empty());
        let goodbyes = second.counter("goodbyes_received");
        agent.signal(Signal::STOP);
        eventually("the Backup takes over", secs(2), || b.holds(VIP));
        let knows = || {
            client::send(&client, VIP);
            client::neighbor(&client, VIP)
        };
        eventually("the client knows", secs(1), || knows() == Some(b.mac()));
        // A question of the host that hangs, in the name of the VIP, would draw the client back.
        assert!(a.holds(VIP), "the address was to be there still");
        let from: SocketAddr = (VIP.parse::<Ipv4Addr>().unwrap(), 9999).into();
        let to: SocketAddr = (client.address(), 9).into();
        let asks = move || UdpSocket::bind(from).unwrap().send_to(&[0], to);
        _ = a.run(asks);
        throughout("the client is not drawn back", millis(300), || {
            client::neighbor(&client, VIP) == Some(b.mac())
        });
        throughout("it stays there", millis(500), || {
            second.state() == RouterState::Active
        });
        agent.kill();
        eventually("the guardian has ended", secs(3), || !guardian.is_alive());
        eventually("the address is gone", secs(3), || !a.holds(VIP));
        assert_eq!(second.state(), RouterState::Active);
        assert_eq!(
            second.counter("goodbyes_received"),
            goodbyes,
            "who was silent for long says nothing in the end"
        );
    });
}

#[test]
fn an_agent_that_starts_again_overtakes_the_guardian_of_the_one_before() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        // Somebody to be heard, or the first claim waits half a minute.
        let b = lan.host("b", "10.20.14.12/24");
        let other = Speaking::start(&b, vip(77, 200, "10.20.14.77"));
        other.becomes(RouterState::Active, secs(5));
        let mut agent = Agent::running(&a, KEDGE, VIPS);
        eventually("the agent holds it", secs(10), || a.holds(VIP));
        let first = agent.guardian();
        agent.kill();
        agent.start();
        let second = agent.guardian();
        assert_ne!(first, second);
        eventually("the first guardian has ended", secs(2), || {
            !first.is_alive()
        });
        eventually("it is Active again", secs(10), || agent.state() == "Active");
        throughout("nobody takes it away", secs(1), || a.holds(VIP));
        agent.stop();
        assert!(!a.holds(VIP));
        eventually("the guardian ends with it", secs(2), || !second.is_alive());
    });
}

#[test]
fn a_guardian_that_is_killed_is_replaced_and_the_next_one_does_its_work() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (mut agent, _second) = pair(&a, &b);
        let first = agent.guardian();
        first.kill();
        let mut next = agent.guardian();
        eventually("another one stands by", secs(5), || {
            next = agent.guardian();
            next != first
        });
        eventually("it knows the VIPs", secs(2), || {
            let log = agent.log();
            log.matches("the guardian was told of the VIPs").count() == 2
        });
        let killed = Instant::now();
        agent.kill();
        quietly("the Backup holds it", secs(1), || b.holds(VIP));
        assert!(killed.elapsed() < millis(100), "{:?}", killed.elapsed());
    });
}

#[test]
fn a_guardian_that_is_started_by_hand_says_whose_work_that_is() {
    let output = Command::new(KEDGE).arg("guardian").output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("KEDGE-VIP-0021"), "{said}");
}
