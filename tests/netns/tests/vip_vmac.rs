//! The virtual hardware address (RFC 9568 section 7.3): neighbours' entries outlive every move, and
//! nobody but the Active uses it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::net::{IpAddr, SocketAddr, UdpSocket};

use kedge_core::{Code, vip::RouterState};
use kedge_net::link::sysctl;
use kedge_tests_netns::{
    capture::{Capture, tshark},
    client::{neighbor, send},
    eventually,
    lan::Lan,
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
    train::{Echo, Train},
    vmac::{MAC, MAC_V6, Port, connects, fence_stands, holds, ip, link_is, links, listen},
};
use kedge_vip_speaker::{Settings, VipSpec};

const VIP: &str = "10.20.14.10";
const VIP_V6: &str = "fd00:14::10";
fn ours(priority: u8) -> VipSpec {
    VipSpec {
        virtual_mac: true,
        ..vip(51, priority, VIP)
    }
}

fn dual(priority: u8) -> VipSpec {
    let mut dual = ours(priority);
    dual.addresses.push(VIP_V6.parse().unwrap());
    dual
}

/// Moves the VIP from one host to the other under a train, and says how many packets that cost.
fn lost_by_a_move(virtual_mac: bool) -> u64 {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let client = lan.host("c", "10.20.14.13/24");
    let (_one, _two) = (Echo::start(&a), Echo::start(&b));
    let spec = |priority| VipSpec {
        virtual_mac,
        ..ours(priority)
    };
    let first = Speaking::start(&a, spec(254));
    first.becomes(RouterState::Active, secs(3));
    let second = Speaking::start(&b, spec(251));
    second.becomes(RouterState::Backup, secs(3));
    eventually("the Backup hears the Active", secs(2), || {
        second.vip().active.is_some()
    });
    let train = Train::start(&client, VIP.parse().unwrap());
    let before = neighbor(&client, VIP).unwrap();
    assert_eq!(before == MAC, virtual_mac);
    first.leave(secs(5));
    second.becomes(RouterState::Active, secs(2));
    throughout(
        "the neighbour's entry says where it is",
        millis(300),
        || {
            let expected = if virtual_mac { MAC } else { b.mac() };
            neighbor(&client, VIP) == Some(expected)
        },
    );
    let (sent, lost) = train.finish();
    println!("virtual {virtual_mac}: {lost} of {sent} lost");
    lost
}

#[test]
fn a_move_changes_no_neighbours_entry_and_costs_no_more_packets_than_without() {
    on_a_steady_machine(|| {
        let without = lost_by_a_move(false);
        let with = lost_by_a_move(true);
        assert!(with <= without + 3, "{with} with it, {without} without");
    });
}

#[test]
fn the_entry_outlives_the_death_of_a_host_and_its_return() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let client = lan.host("c", "10.20.14.13/24");
        let first = Speaking::start(&a, ours(254));
        first.becomes(RouterState::Active, secs(3));
        let second = Speaking::start(&b, ours(251));
        let reach = || connects(&client, VIP);
        let _services = (listen(&a), listen(&b));
        fence_stands(&a);
        assert!(reach());
        assert_eq!(neighbor(&client, VIP), Some(MAC));
        lan.unplug(&a);
        second.becomes(RouterState::Active, secs(2));
        eventually("the other host answers", secs(1), reach);
        assert_eq!(neighbor(&client, VIP), Some(MAC));
        eventually("who is cut off lets go", secs(3), || link_is(&a, false));
        lan.plug(&a);
        first.becomes(RouterState::Active, secs(5));
        second.becomes(RouterState::Backup, secs(1));
        eventually("its link is down", secs(1), || link_is(&b, false));
        eventually("the first host answers again", secs(1), reach);
        assert_eq!(neighbor(&client, VIP), Some(MAC));
        // The hosts' own addresses are still their own.
        for host in [&a, &b] {
            let own = host.address().to_string();
            send(&client, &own);
            eventually("a host is found", secs(1), || {
                neighbor(&client, &own) == Some(host.mac())
            });
        }
    });
}

#[test]
fn what_the_host_asks_and_answers_beside_it_draws_nobody_to_its_own_address() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        let client = lan.host("c", "10.20.14.13/24");
        for host in [&a, &client] {
            host.add_ipv6();
        }
        // As strict as many a distribution: what arrives must be answered by where it came from.
        a.run(|| sysctl("ipv4/conf/all/rp_filter", "1").unwrap());
        let first = Speaking::start(&a, dual(254));
        first.becomes(RouterState::Active, secs(3));
        let _service = listen(&a);
        fence_stands(&a);
        let capture = Capture::start(&lan, "arp or icmp6");
        for _ in 0..3 {
            for (address, mac) in [(VIP, MAC), (VIP_V6, MAC_V6)] {
                // The client asks anew.
                ip(&a, "neighbor flush all");
                ip(&client, "neighbor flush all");
                assert!(connects(&client, address), "{address}");
                assert_eq!(neighbor(&client, address), Some(mac), "{address}");
            }
        }
        // The host asks itself, for what it sends from the VIP.
        assert!(connects(&client, VIP));
        ip(&a, "neighbor flush all");
        let from: SocketAddr = (VIP.parse::<IpAddr>().unwrap(), 0).into();
        let to: SocketAddr = (client.address(), 9).into();
        a.run(move || UdpSocket::bind(from).unwrap().send_to(&[0], to).unwrap());
        eventually("the client is found", secs(1), || {
            neighbor(&a, "10.20.14.13").is_some()
        });
        assert_eq!(neighbor(&client, VIP), Some(MAC));
        let own = a.mac().map(|byte| format!("{byte:02x}")).join(":");
        let in_its_name = format!("arp.src.proto_ipv4 == {VIP} && arp.src.hw_mac == {own}");
        let file = capture.stop();
        let drawn = tshark(&file, false, &in_its_name, &["frame.number"]);
        assert!(drawn.is_empty(), "{drawn:?}");
        let asked = format!("arp.src.proto_ipv4 == 10.20.14.11 && arp.src.hw_mac == {own}");
        assert!(!tshark(&file, false, &asked, &["frame.number"]).is_empty());
        let others = "arp.src.hw_mac == 00:00:5e:00:01:33 && arp.src.proto_ipv4 != 10.20.14.10";
        assert!(tshark(&file, false, others, &["frame.number"]).is_empty());
        drop(first);
        eventually("both links are gone", secs(2), || links(&a).is_empty());
    });
}

#[test]
fn adverts_leave_from_it_and_nothing_does_from_a_backup() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let first = Speaking::start(&a, ours(254));
        first.becomes(RouterState::Active, secs(3));
        // It comes while another is Active, asks whether anybody has the address, and waits.
        let alone = Capture::start(&lan, "ether src 00:00:5e:00:01:33");
        let second = Speaking::start(
            &b,
            VipSpec {
                first_claim: true,
                ..ours(251)
            },
        );
        second.becomes(RouterState::Backup, secs(3));
        eventually("its link is there", secs(1), || link_is(&b, false));
        throughout("it stays down", secs(2), || link_is(&b, false));
        let file = alone.stop();
        let adverts = tshark(&file, false, "vrrp", &["ip.src"]);
        assert!(adverts.len() >= 15, "{}", adverts.len());
        assert!(
            adverts.iter().all(|src| src == "10.20.14.11"),
            "{adverts:?}"
        );
        let not_adverts = tshark(&file, false, "!vrrp && !arp", &["frame.number"]);
        assert!(not_adverts.is_empty(), "{not_adverts:?}");

        // From its own port, before and after it was Active itself.
        let port = Port::start(&b);
        throughout("a Backup", secs(1), || {
            second.state() == RouterState::Backup
        });
        assert!(port.frames().is_empty());
        first.release(&"api".parse().unwrap());
        second.becomes(RouterState::Active, secs(2));
        eventually("the Active sends from it", secs(1), || {
            port.frames().len() > 3
        });
        first.becomes(RouterState::Backup, secs(2));
        eventually("the first link is down", secs(1), || link_is(&a, false));
        second.release(&"api".parse().unwrap());
        first.becomes(RouterState::Active, secs(2));
        eventually("the second link is down", secs(1), || link_is(&b, false));
        let before = port.frames().len();
        throughout("a Backup again", secs(1), || {
            second.state() == RouterState::Backup
        });
        assert_eq!(port.frames().len(), before);
    });
}

#[test]
fn both_families_move_as_one_each_at_its_own_address() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let client = lan.host("c", "10.20.14.13/24");
        for host in [&a, &b, &client] {
            host.add_ipv6();
        }
        let _services = (listen(&a), listen(&b));
        let first = Speaking::start(&a, dual(254));
        first.becomes(RouterState::Active, secs(3));
        let second = Speaking::start(&b, dual(251));
        second.becomes(RouterState::Backup, secs(3));
        let is_reached = || {
            [(VIP, MAC), (VIP_V6, MAC_V6)]
                .into_iter()
                .all(|(address, mac)| {
                    connects(&client, address) && neighbor(&client, address) == Some(mac)
                })
        };
        assert!(is_reached());
        assert_eq!(links(&a).len(), 2);
        let took = first.leave(secs(5));
        assert!(
            took < millis(500),
            "its successor's announcements were not known: {took:?}"
        );
        second.becomes(RouterState::Active, secs(1));
        assert!(is_reached());
        assert!(holds(&b, VIP) && holds(&b, VIP_V6));
        eventually("nothing is left", secs(2), || links(&a).is_empty());
    });
}

#[test]
fn over_ipv6_alone_it_is_the_same() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let client = lan.host("c", "10.20.14.13/24");
        for host in [&a, &b, &client] {
            host.add_ipv6();
        }
        let six = |priority| VipSpec {
            addresses: vec!["fe80::10".parse().unwrap(), VIP_V6.parse().unwrap()],
            ..ours(priority)
        };
        let _services = (listen(&a), listen(&b));
        let capture = Capture::start(&lan, "ip6 proto 112");
        let first = Speaking::start(&a, six(254));
        first.becomes(RouterState::Active, secs(3));
        let second = Speaking::start(&b, six(251));
        second.becomes(RouterState::Backup, secs(3));
        fence_stands(&b);
        assert!(connects(&client, VIP_V6));
        first.leave(secs(5));
        second.becomes(RouterState::Active, secs(1));
        assert!(connects(&client, VIP_V6));
        assert_eq!(neighbor(&client, VIP_V6), Some(MAC_V6));
        let seen = tshark(&capture.stop(), false, "vrrp", &["eth.src", "ipv6.src"]);
        let [one, two] = [&a, &b].map(|host| host.link_local().to_string());
        for source in [one, two] {
            let line = format!("00:00:5e:00:02:33\t{source}");
            assert!(seen.contains(&line), "{line}: {seen:?}");
        }
    });
}

#[test]
fn a_link_that_somebody_removes_is_made_anew() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let first = Speaking::start(&a, ours(254));
        first.becomes(RouterState::Active, secs(3));
        let second = Speaking::start(&b, ours(251));
        second.becomes(RouterState::Backup, secs(3));
        ip(&a, "link delete kedge-vr51-4");
        second.becomes(RouterState::Active, secs(2));
        first.becomes(RouterState::Active, secs(5));
        assert!(link_is(&a, true) && holds(&a, VIP));
    });
}

#[test]
fn a_link_that_somebody_sets_down_is_set_up_again_and_the_vip_stays() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        for host in [&a, &b] {
            host.add_ipv6();
        }
        let first = Speaking::start(&a, dual(254));
        first.becomes(RouterState::Active, secs(3));
        let second = Speaking::start(&b, dual(251));
        second.becomes(RouterState::Backup, secs(3));
        for name in ["kedge-vr51-4", "kedge-vr51-6"] {
            ip(&a, &format!("link set {name} down"));
            let is_whole = || links(&a).iter().all(|(_, up)| *up) && holds(&a, VIP_V6);
            eventually("it is up, with its address", secs(1), is_whole);
        }
        throughout("nobody takes over", millis(500), || {
            first.state() == RouterState::Active && second.state() == RouterState::Backup
        });
        assert_eq!(first.counter("became_active"), 1);
    });
}

#[test]
fn two_vips_do_not_share_a_hardware_address() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        a.add_ipv6();
        let six = |vrid: u8| VipSpec {
            name: "six".parse().unwrap(),
            virtual_mac: true,
            ..vip(vrid, 254, "fd00:14::20")
        };
        let settings = Settings {
            link_up_wait: millis(500),
            ..Settings::default()
        };
        // Version 3 has a virtual router for each family; the hardware address of IPv6 is taken.
        let both = Speaking::start_with(&a, settings, vec![dual(254), six(51)]);
        let refused = || {
            let all = both.snapshot();
            let six = all.iter().find(|vip| vip.name.as_str() == "six");
            six.is_some_and(|vip| {
                vip.problems
                    .iter()
                    .any(|it| it.code == Code::ConfigDuplicateVrid)
            })
        };
        eventually("it says so", secs(3), refused);
        both.apply(vec![dual(254), six(61)]);
        eventually("each has its own", secs(5), || {
            holds(&a, VIP) && holds(&a, VIP_V6) && holds(&a, "fd00:14::20")
        });
        assert_eq!(links(&a).len(), 3);
    });
}

#[test]
fn on_a_port_of_a_bridge_it_is_refused_with_the_reason() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        ip(&a, "link add br0 type bridge");
        ip(&a, "link set eth0 master br0");
        let first = Speaking::start(&a, ours(254));
        let problem = || {
            let all = first.snapshot();
            let mut problems = all.iter().flat_map(|vip| &vip.problems);
            problems.any(|it| it.code == Code::VipVirtualMac)
        };
        eventually("it says so", secs(3), problem);
        assert!(!holds(&a, VIP));
        ip(&a, "link set eth0 nomaster");
        first.becomes(RouterState::Active, secs(5));
        assert!(link_is(&a, true));
    });
}
