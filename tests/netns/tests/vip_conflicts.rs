//! Addresses that somebody else uses.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{process::Command, time::Duration};

use ipnet::IpNet;
use kedge_core::{Code, vip::RouterState};
use kedge_net::{arp::ArpSocket, link::Links, monitor::MacText, station::StationListener};
use kedge_tests_netns::{
    eventually,
    lan::{Host, LISTENING, Lan},
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_proto::wire::{
    Mac,
    arp::{Operation, Packet},
};
use kedge_vip_speaker::{Settings, VipSpec};

const VIP: &str = "10.20.14.10";

/// Claims the VIP by ARP, as often as told.
fn claim(attacker: &Host, operation: Operation, times: u32) {
    let (ifindex, mac) = (attacker.ifindex(), attacker.mac());
    attacker.run(move || {
        let socket = ArpSocket::open(ifindex).unwrap();
        let packet = Packet::announcement(operation, VIP.parse().unwrap(), Mac(mac));
        for _ in 0..times {
            socket.broadcast(&packet.emit()).unwrap();
            std::thread::sleep(millis(if times == 1 { 0 } else { 5 }));
        }
    });
}

/// The hardware address a client has in its cache for the VIP.
fn cached(client: &Host) -> String {
    client.run(|| {
        let show = ["-4", "neigh", "show", VIP, "dev", "eth0"];
        let output = Command::new("ip").args(show).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mac = text
            .split_whitespace()
            .skip_while(|word| *word != "lladdr")
            .nth(1);
        mac.unwrap_or_default().to_owned()
    })
}

/// Makes a client learn where the VIP is.
fn look_up(client: &Host) {
    client.run(|| {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        // A refusal by the far end is an answer too.
        _ = socket.send_to(b"?", (VIP, 9));
    });
}

#[test]
fn an_address_another_host_answers_for_is_not_claimed_until_it_is_free() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, squatter) = (
            lan.host("a", "10.20.14.11/24"),
            lan.host("b", "10.20.14.10/24"),
        );
        let first = VipSpec {
            first_claim: true,
            ..vip(51, 200, VIP)
        };
        let kedge = Speaking::start(&a, first);
        kedge.becomes(RouterState::Fault, secs(5));
        assert!(!a.holds(VIP));
        let vip = kedge.vip();
        let problem = vip
            .problems
            .iter()
            .find(|problem| problem.code == Code::VipAddressInUse);
        let problem = problem.unwrap();
        let mac = MacText(squatter.mac()).to_string();
        println!("{problem}: {:?}", problem.evidence);
        assert!(
            problem
                .evidence
                .iter()
                .any(|evidence| evidence.contains(&mac)),
            "{problem:?}"
        );
        throughout("it is left alone", secs(2), || !a.holds(VIP));

        squatter.run(|| {
            let mine: IpNet = "10.20.14.10/24".parse().unwrap();
            Links::open().unwrap().delete_address("eth0", mine).unwrap();
        });
        eventually("the free address is claimed", secs(12), || a.holds(VIP));
    });
}

#[test]
fn a_first_claim_of_a_free_address_waits_for_its_three_probes() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let kedge = Speaking::start(
            &a,
            VipSpec {
                first_claim: true,
                ..vip(51, 200, VIP)
            },
        );
        let took = kedge.becomes(RouterState::Active, secs(6));
        assert!(took >= secs(2), "{took:?}");
        assert_eq!(kedge.counter("probes_sent"), 3);
    });
}

#[test]
fn a_foreign_claim_is_answered_at_once_and_the_client_comes_back() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, client) = (
            lan.host("a", "10.20.14.11/24"),
            lan.host("c", "10.20.14.13/24"),
        );
        let attacker = lan.host("x", "10.20.14.66/24");
        let kedge = Speaking::start(&a, vip(51, 200, VIP));
        kedge.becomes(RouterState::Active, secs(5));
        let (right, wrong) = (
            MacText(a.mac()).to_string(),
            MacText(attacker.mac()).to_string(),
        );
        look_up(&client);
        eventually("the client knows where it is", secs(2), || {
            cached(&client) == right
        });

        let forms = [Operation::Request, Operation::Reply];
        for (round, form) in forms.into_iter().cycle().take(5).enumerate() {
            std::thread::sleep(millis(1100));
            claim(&attacker, form, 1);
            let what = format!("after claim {round} the client is back");
            let answered = u64::try_from(round).unwrap() + 1;
            eventually(&what, secs(1), || {
                kedge.counter("foreign_claims") >= answered && cached(&client) == right
            });
        }
        let vip = kedge.vip();
        assert_eq!(vip.state, RouterState::Active);
        assert!(vip.counters["foreign_claims"] >= 5, "{:?}", vip.counters);
        assert_eq!(MacText(vip.duplicates[0].mac).to_string(), wrong);
        let problem = vip
            .problems
            .iter()
            .find(|problem| problem.code == Code::VipDuplicateOwner);
        assert!(problem.unwrap().what.contains(&wrong));

        // Two hosts that insist must not flip every cache on the LAN a hundred times a second.
        let before = kedge.counter("announcements_sent");
        claim(&attacker, Operation::Request, 200);
        std::thread::sleep(millis(200));
        let answers = kedge.counter("announcements_sent") - before;
        println!("200 claims in a second: {answers} announcements");
        assert!(answers <= 30, "{answers}");
        eventually("it is told that the claimer insists", secs(2), || {
            let vip = kedge.vip();
            vip.problems
                .iter()
                .any(|problem| problem.what.contains("does not give in"))
        });
    });
}

#[test]
fn an_address_that_stands_on_the_host_already_is_left_alone() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        a.run(|| {
            let vip: IpNet = "10.20.14.10/24".parse().unwrap();
            Links::open().unwrap().add_address("eth0", vip).unwrap();
        });
        let kedge = Speaking::start(&a, vip(51, 200, VIP));
        eventually("it is refused", secs(2), || {
            kedge
                .snapshot()
                .first()
                .is_some_and(|vip| !vip.problems.is_empty())
        });
        let vip = kedge.vip();
        assert_eq!((vip.state, vip.held), (RouterState::Fault, false));
        assert_eq!(vip.problems[0].code, Code::ConfigRule);
        kedge.leave(secs(1));
        assert!(a.holds(VIP), "whoever put it there keeps it");
    });
}

#[test]
fn a_host_that_hears_nobody_waits_and_asks_its_router() {
    on_a_steady_machine(|| {
        let lan = Lan::quiet();
        let settings = Settings {
            link_up_wait: secs(3),
            ..Settings::default()
        };
        let alone = lan.host("a", "10.20.14.11/24");
        let (ifindex, own) = (alone.ifindex(), alone.mac());
        // The bridge leaves a group when snooping is switched off, and IGMP repeats a report after up
        // to a second: silence is more than that.
        eventually("two seconds of silence", secs(10), || {
            alone.run(move || {
                let listener = StationListener::open(ifindex, own).unwrap();
                std::thread::sleep(secs(2));
                !listener.heard().unwrap()
            })
        });
        let kedge = Speaking::start_with(&alone, settings, vec![vip(51, 200, VIP)]);
        let took = kedge.becomes(RouterState::Active, secs(5));
        assert!(took >= secs(3), "it did not wait: {took:?}");
        drop(kedge);

        let _router = lan.host("r", "10.20.14.1/24");
        alone.run(|| {
            let (all, router) = ("0.0.0.0/0".parse().unwrap(), "10.20.14.1".parse().unwrap());
            Links::open().unwrap().add_route(all, router).unwrap();
        });
        let kedge = Speaking::start_with(&alone, settings, vec![vip(51, 200, VIP)]);
        let took = kedge.becomes(RouterState::Active, secs(5));
        // It asks each second; one question may be lost on a busy machine, and without any answer the
        // wait is three seconds.
        assert!(took < secs(2), "its router's answer is a frame: {took:?}");
    });
}

#[test]
fn behind_a_port_that_does_not_forward_yet_nobody_claims_what_another_holds() {
    on_a_steady_machine(|| {
        // A port of this bridge would speak IPv6 itself, as no port of a switch does.
        let lan = Lan::quiet();
        let (a, b) = lan.pair();
        let c = lan.host("c", "10.20.14.13/24");
        let active = Speaking::start(&a, vip(51, 200, VIP));
        active.becomes(RouterState::Active, secs(5));
        // What a user gets who asks for no delays.
        let settings = Settings::default();
        let stays = Speaking::start_with(&b, settings, vec![vip(51, 150, VIP)]);
        stays.becomes(RouterState::Backup, secs(5));
        lan.run_spanning_tree();
        lan.unplug(&b);
        lan.unplug(&c);
        stays.becomes(RouterState::Fault, secs(2));
        lan.plug(&b);
        lan.plug(&c);
        // The one sees its link come up, the other begins there.
        let begins = Speaking::start_with(&c, settings, vec![vip(51, 100, VIP)]);
        let deaf = throughout_until_heard(&[&stays, &begins], || !b.holds(VIP) && !c.holds(VIP));
        println!("both heard the Active after {deaf:?}");
        assert!(deaf > LISTENING / 2, "the port forwarded at once: {deaf:?}");
        assert_eq!(active.counter("became_active"), 1);
        for it in [&stays, &begins] {
            assert_eq!(it.counter("became_active"), 0);
        }
    });
}

/// Watches that something holds until all of them hear an Active, and says how long that took.
fn throughout_until_heard(all: &[&Speaking], holds: impl Fn() -> bool) -> Duration {
    eventually("all of them hear an Active", LISTENING + secs(3), || {
        assert!(holds(), "another one claims it");
        let heard = |it: &&Speaking| it.snapshot().first().is_some_and(|it| it.active.is_some());
        all.iter().all(heard)
    })
}
