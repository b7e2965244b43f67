//! Whether the network brings packets for a VIP to the host that took it (R22).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use std::net::IpAddr;

use kedge_core::{Code, vip::RouterState};
use kedge_net::{link::Links, nft};
use kedge_tests_netns::{
    eventually,
    lan::{Host, Lan},
    on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_speaker::{Proof, VipSpec};

const VIP: &str = "10.20.14.10";
const VIP_V6: &str = "fd00:14::10";

/// A host whose router is there.
fn behind_a_router(lan: &Lan, name: &str, net: &str, gateway: &str) -> Host {
    let host = lan.host(name, net);
    let gateway: IpAddr = gateway.parse().unwrap();
    host.run(move || {
        let all = if gateway.is_ipv6() {
            "::/0"
        } else {
            "0.0.0.0/0"
        };
        let mut links = Links::open().unwrap();
        if gateway.is_ipv6() {
            links
                .add_address("eth0", "fd00:14::11/64".parse().unwrap())
                .unwrap();
        }
        links.add_route(all.parse().unwrap(), gateway).unwrap();
    });
    host
}

fn is_proved(kedge: &Speaking) -> bool {
    matches!(kedge.vip().proof, Proof::Seen { .. })
}

fn complains(kedge: &Speaking) -> bool {
    let problems = kedge.vip().problems;
    problems.iter().any(|it| it.code == Code::VipUnproven)
}

#[test]
fn the_answer_of_the_links_router_proves_that_packets_for_the_vip_arrive() {
    on_a_steady_machine(|| {
        for (address, gateway) in [(VIP, "10.20.14.1"), (VIP_V6, "fd00:14::1")] {
            let lan = Lan::new();
            let router = lan.host("r", "10.20.14.1/24");
            router.add_address("fd00:14::1/64");
            let a = behind_a_router(&lan, "a", "10.20.14.11/24", gateway);
            let kedge = Speaking::start(&a, vip(51, 200, address));
            kedge.becomes(RouterState::Active, secs(5));
            let took = eventually("it is proved", secs(3), || is_proved(&kedge));
            println!("{address}: proved {took:?} after the take-over was seen");
            assert!(!complains(&kedge));
        }
    });
}

#[test]
fn a_vip_at_its_virtual_hardware_address_is_proved_as_well() {
    on_a_steady_machine(|| {
        for (address, gateway) in [(VIP, "10.20.14.1"), (VIP_V6, "fd00:14::1")] {
            let lan = Lan::new();
            let router = lan.host("r", "10.20.14.1/24");
            router.add_address("fd00:14::1/64");
            let a = behind_a_router(&lan, "a", "10.20.14.11/24", gateway);
            let own = VipSpec {
                virtual_mac: true,
                ..vip(51, 200, address)
            };
            let kedge = Speaking::start(&a, own);
            kedge.becomes(RouterState::Active, secs(5));
            eventually("it is proved", secs(3), || is_proved(&kedge));
        }
    });
}

#[test]
fn a_router_that_does_not_take_the_vip_is_told_and_moves_nothing() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let router = lan.host("r", "10.20.14.1/24");
        router.run(|| {
            nft::apply_text(
                "table arp guard {
                    chain in {
                        type filter hook input priority 0;
                        arp saddr ip 10.20.14.10 drop
                    }
                }",
            )
            .unwrap();
        });
        let a = behind_a_router(&lan, "a", "10.20.14.11/24", "10.20.14.1");
        let b = behind_a_router(&lan, "b", "10.20.14.12/24", "10.20.14.1");
        let holder = Speaking::start(&a, vip(51, 200, VIP));
        holder.becomes(RouterState::Active, secs(5));
        let other = Speaking::start(&b, vip(51, 150, VIP));
        other.becomes(RouterState::Backup, secs(5));
        eventually("it is told", secs(6), || complains(&holder));
        let told = holder.vip();
        let problem = told.problems.first().unwrap();
        println!("{problem}");
        assert_eq!((told.state, told.held), (RouterState::Active, true));
        assert!(
            told.counters
                .get("questions_sent")
                .is_some_and(|sent| *sent >= 3)
        );
        throughout("nothing moves", secs(2), || {
            holder.state() == RouterState::Active && other.state() == RouterState::Backup
        });

        router.run(|| nft::apply_text("delete table arp guard").unwrap());
        eventually("the complaint ends", secs(12), || {
            is_proved(&holder) && !complains(&holder)
        });
    });
}

#[test]
fn without_a_router_nothing_is_asked_and_nothing_is_missing() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let kedge = Speaking::start(&a, vip(51, 200, VIP));
        kedge.becomes(RouterState::Active, secs(5));
        throughout("nobody complains", secs(5), || !complains(&kedge));
        assert_eq!(kedge.counter("questions_sent"), 0);
        assert_eq!(kedge.vip().proof, Proof::None);
    });
}
