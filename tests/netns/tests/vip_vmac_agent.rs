//! The virtual hardware address of an agent that is killed, hangs, starts again or is replaced.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use kedge_core::vip::RouterState;
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    capture::{Capture, tshark},
    client::neighbor,
    eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    train::{Echo, Train},
    vmac::{MAC, Port, connects, fence_stands, holds, ip, ip_says, link_is, links, listen},
};
use kedge_vip_speaker::VipSpec;
use rustix::process::Signal;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const VIP: &str = "10.20.14.10";
const VIPS: &str = "version: 1\nvips:\n  api:\n    addresses: [10.20.14.10]\n    vrid: 51\n    \
                    priority: 254\n    health: none\n    virtual_mac: true\n";

fn backup() -> VipSpec {
    VipSpec {
        virtual_mac: true,
        preempt: false,
        ..vip(51, 251, VIP)
    }
}

/// The index of the virtual link.
fn number(host: &Host) -> String {
    let line = ip_says(host, "-o link show dev kedge-vr51-4");
    line.split(':').next().unwrap().to_owned()
}

/// An agent that holds the VIP, and a Backup that hears it.
fn pair<'a>(a: &'a Host, b: &Host) -> (Agent<'a>, Speaking) {
    let agent = Agent::running(a, KEDGE, VIPS);
    let second = Speaking::start(b, backup());
    eventually("the agent holds it", secs(20), || {
        if second.state() == RouterState::Active && agent.stands_by() {
            second.release(&"api".parse().unwrap());
        }
        holds(a, VIP) && second.state() == RouterState::Backup && second.vip().active.is_some()
    });
    fence_stands(a);
    (agent, second)
}

#[test]
fn the_guardian_of_a_killed_agent_leaves_from_it_and_the_next_agent_takes_over_its_link() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (mut agent, second) = pair(&a, &b);
        let guardian = agent.guardian();
        let index = number(&a);
        let capture = Capture::start(&lan, "proto 112");
        agent.kill();
        eventually("the Backup holds it", millis(200), || holds(&b, VIP));
        second.becomes(RouterState::Active, millis(200));
        assert!(
            second.vip().because.contains("leaves"),
            "{}",
            second.vip().because
        );
        eventually("the address is gone", millis(500), || !holds(&a, VIP));
        eventually("the link is down", secs(1), || link_is(&a, false));
        eventually("the guardian has ended", secs(2), || !guardian.is_alive());
        let goodbyes = tshark(&capture.stop(), false, "vrrp.prio == 0", &["eth.src"]);
        assert!(!goodbyes.is_empty());
        assert!(
            goodbyes.iter().all(|mac| mac == "00:00:5e:00:01:33"),
            "{goodbyes:?}"
        );
        agent.start();
        eventually("it stands by", secs(10), || agent.stands_by());
        assert!(link_is(&a, false));
        assert_eq!(number(&a), index);
        agent.stop();
        assert!(links(&a).is_empty(), "{:?}", links(&a));
    });
}

#[test]
fn an_agent_that_is_replaced_goes_on_from_the_same_link_and_nobody_notices() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let client = lan.host("c", "10.20.14.13/24");
        let (agent, second) = pair(&a, &b);
        let _guardian = agent.guardian();
        let _service = listen(&a);
        let told = agent.kedge("vip explain api").out;
        assert!(told.contains("00:00:5e:00:01:33"), "{told}");
        let index = number(&a);
        let before = second.counter("became_active");
        let train = (Echo::start(&a), Train::start(&client, VIP.parse().unwrap()));
        for _ in 0..2 {
            let said = agent.kedge("restart -o json");
            assert_eq!(said.code, 0, "{said:?}");
            assert!(agent.gave("the agent before this one had it"));
            assert!(link_is(&a, true) && holds(&a, VIP));
            let _guardian = agent.guardian();
        }
        let (sent, lost) = train.1.finish();
        println!("{lost} of {sent} lost");
        assert!(lost <= 3, "{lost} of {sent} lost");
        assert_eq!(number(&a), index);
        assert_eq!(neighbor(&client, VIP), Some(MAC));
        assert!(connects(&client, VIP));
        assert_eq!(second.counter("became_active"), before);
        assert_eq!(second.state(), RouterState::Backup);
    });
}

#[test]
fn an_agent_that_hangs_sends_nothing_from_it() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (agent, second) = pair(&a, &b);
        let client = lan.host("c", "10.20.14.13/24");
        let _services = (listen(&a), listen(&b));
        assert!(connects(&client, VIP));
        agent.signal(Signal::STOP);
        eventually("the Backup takes over", secs(2), || holds(&b, VIP));
        assert!(holds(&a, VIP), "the address was to be there still");
        let port = Port::start(&a);
        // The switch would follow whatever it answers to.
        for _ in 0..20 {
            ip(&client, "neighbor flush all");
            assert!(connects(&client, VIP));
            assert_eq!(neighbor(&client, VIP), Some(MAC));
        }
        assert!(port.frames().is_empty());
        assert_eq!(second.state(), RouterState::Active);
        agent.signal(Signal::CONT);
        eventually("it steps back", secs(2), || agent.state() == "Backup");
        eventually("its link is down", secs(1), || link_is(&a, false));
    });
}

#[test]
fn leftovers_of_a_crash_go_with_the_next_start_and_so_does_what_is_not_wanted_any_more() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (mut agent, _second) = pair(&a, &b);
        let guardian = agent.guardian();
        // Both at once: nobody is there to set the link down.
        agent.signal(Signal::STOP);
        guardian.kill();
        agent.kill();
        assert!(link_is(&a, true));
        agent.start();
        eventually("the link is down", secs(5), || link_is(&a, false));
        eventually("it stands by", secs(10), || agent.stands_by());
        agent.configure(&VIPS.replace("vrid: 51", "vrid: 52"));
        agent.reload();
        eventually("another link", secs(10), || {
            links(&a).iter().map(|(name, _)| name).eq(["kedge-vr52-4"])
        });
        agent.configure(&VIPS.replace("virtual_mac: true", "virtual_mac: false"));
        agent.reload();
        eventually("no link", secs(10), || links(&a).is_empty());
        agent.configure(VIPS);
        agent.reload();
        eventually("a link", secs(10), || link_is(&a, false));
        let guardian = agent.guardian();
        agent.signal(Signal::STOP);
        guardian.kill();
        agent.kill();
        assert_eq!(links(&a).len(), 1);
        agent.configure("version: 1\n");
        agent.start();
        eventually("the leftover is removed", secs(5), || links(&a).is_empty());
    });
}
