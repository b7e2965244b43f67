//! Adverts as other programs read them, and adverts that are none.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    process::Command,
};

use kedge_core::{
    Code,
    vip::{AdvertInterval, Priority, RouterState, Vrid},
};
use kedge_tests_netns::{
    capture::{ADVERT, Capture, tshark},
    eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_proto::wire::{Addresses, checksum::Form, vrrp};
use kedge_vip_speaker::{ChecksumPolicy, VipSpec};
use socket2::{Domain, Protocol, Socket, Type};

const VIP: &str = "10.20.14.10";
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);

#[test]
fn adverts_decode_without_error_in_either_checksum_form() {
    on_a_steady_machine(|| {
        for (checksum, as_in_v2) in [
            (ChecksumPolicy::PseudoHeader, false),
            (ChecksumPolicy::Message, true),
        ] {
            let lan = Lan::new();
            let a = lan.host("a", "10.20.14.11/24");
            let capture = Capture::start(&lan, "vrrp or arp");
            let kedge = Speaking::start(
                &a,
                VipSpec {
                    checksum,
                    ..vip(51, 200, VIP)
                },
            );
            kedge.becomes(RouterState::Active, secs(5));
            eventually("ten adverts", secs(5), || {
                kedge.counter("adverts_sent") >= 10
            });
            let sent = kedge.counter("adverts_sent");
            kedge.leave(millis(300));
            let file = capture.stop();

            let fields = [&ADVERT[..], &["ip.checksum.status"]].concat();
            let adverts = tshark(&file, as_in_v2, "vrrp", &fields);
            println!(
                "{checksum:?}: {} adverts captured, {sent} counted",
                adverts.len()
            );
            assert!(adverts.len() >= 10);
            let expected =
                format!("10.20.14.11\t224.0.0.18\t255\t0xc0\t3\t1\t51\t200\t1\t10\t{VIP}\t1");
            for advert in adverts.iter().take(10) {
                assert!(advert.starts_with(&expected), "{advert}\n{expected}");
            }
            let goodbye = tshark(&file, as_in_v2, "vrrp.prio == 0", &["vrrp.virt_rtr_id"]);
            assert!(!goodbye.is_empty(), "a goodbye was sent");
            let errors = "(vrrp or arp) and (_ws.malformed or _ws.expert.severity >= 0x600000)";
            assert_eq!(
                tshark(&file, as_in_v2, errors, &["frame.number"]),
                Vec::<String>::new()
            );
            // The other expectation shows that the check is one.
            let wrong = tshark(
                &file,
                !as_in_v2,
                "vrrp.checksum.status == 0",
                &["frame.number"],
            );
            assert_eq!(
                wrong.len(),
                tshark(&file, as_in_v2, "vrrp", &["frame.number"]).len()
            );

            let announced = tshark(
                &file,
                as_in_v2,
                &format!("arp.src.proto_ipv4 == {VIP} and arp.dst.proto_ipv4 == {VIP}"),
                &["arp.opcode", "eth.dst"],
            );
            for form in ["1\tff:ff:ff:ff:ff:ff", "2\tff:ff:ff:ff:ff:ff"] {
                let count = announced.iter().filter(|line| *line == form).count();
                assert!(count >= 3, "{form}: {count} of {}", announced.len());
            }
        }
    });
}

/// Sends what it is told from a station that is no member.
struct Forger {
    host: Host,
}

impl Forger {
    fn new(lan: &Lan) -> Self {
        Self {
            host: lan.host("forger", "10.20.14.66/24"),
        }
    }

    /// An advert for VRID 51 with priority 254 from its own address, in a whole IPv4 packet.
    fn advert(vrid: u8, priority: u8) -> Vec<u8> {
        Self::advert_of(vrrp::Version::Three, vrid, priority)
    }

    /// The same, each second, of another version.
    fn advert_of(version: vrrp::Version, vrid: u8, priority: u8) -> Vec<u8> {
        let (form, centis) = match version {
            vrrp::Version::Three => (Form::PseudoHeader, 10),
            vrrp::Version::Two { .. } => (Form::Message, 100),
        };
        let source = Ipv4Addr::new(10, 20, 14, 66);
        let advert = vrrp::Advert {
            version,
            vrid: Vrid::new(vrid).unwrap(),
            priority: Priority::new(priority).ok(),
            interval: AdvertInterval::from_centis(centis).unwrap(),
            addresses: Addresses::new(&[VIP.parse().unwrap()]).unwrap(),
        };
        let mut buffer = [0; vrrp::MAX_LEN];
        let length = advert.emit(form, source.into(), GROUP.into(), &mut buffer);
        let mut packet = vec![0x45, 0xc0, 0, 0, 0, 0, 0, 0, 255, 112, 0, 0];
        packet.extend(source.octets());
        packet.extend(GROUP.octets());
        packet.extend(&buffer[..length]);
        packet
    }

    fn send(&self, packet: Vec<u8>) {
        self.host.run(move || {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(112))).unwrap();
            socket.set_header_included_v4(true).unwrap();
            socket.bind_device(Some(b"eth0")).unwrap();
            socket
                .send_to(&packet, &SocketAddrV4::new(GROUP, 0).into())
                .unwrap();
        });
    }
}

#[test]
fn forged_and_broken_adverts_are_counted_and_change_nothing() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        let forger = Forger::new(&lan);
        let kedge = Speaking::start(&a, vip(51, 200, VIP));
        kedge.becomes(RouterState::Active, secs(5));
        let before = kedge.vip();

        let far = {
            let mut packet = Forger::advert(51, 254);
            packet[8] = 254;
            packet
        };
        let wrong_sum = {
            let mut packet = Forger::advert(51, 254);
            packet[26] ^= 0x55;
            packet
        };
        let short = {
            let mut packet = Forger::advert(51, 254);
            packet.truncate(25);
            packet
        };
        let no_address_left = {
            let mut packet = Forger::advert(51, 254);
            packet[23] = 20;
            packet
        };
        let version_two = Forger::advert_of(vrrp::Version::Two { password: None }, 51, 254);
        let stranger = Forger::advert(52, 254);
        for (what, reason, packet) in [
            ("from beyond a router", "reject_ttl", far),
            ("with a wrong checksum", "reject_checksum", wrong_sum),
            ("cut short", "reject_truncated", short),
            (
                "that promises more addresses",
                "reject_truncated",
                no_address_left,
            ),
            ("of version 2", "version_errors", version_two),
            ("for another VRID", "reject_other_vrid", stranger),
        ] {
            let counted = kedge.counter(reason);
            forger.send(packet);
            eventually(&format!("an advert {what} is counted"), secs(2), || {
                kedge.counter(reason) == counted + 1
            });
            assert_eq!(kedge.vip().transitions, before.transitions, "{what}");
        }
        throughout("it stays Active", millis(600), || {
            kedge.state() == RouterState::Active
        });
        let after = kedge.vip();
        assert_eq!(after.transitions, before.transitions);
        assert_eq!(after.counters["adverts_received"], 0);
        let problem = after
            .problems
            .iter()
            .find(|problem| problem.code == Code::VrrpMalformed);
        assert!(problem.is_some(), "{:?}", after.problems);

        // The same packet unforged is believed: the test could have failed.
        forger.send(Forger::advert(51, 254));
        kedge.becomes(RouterState::Backup, secs(1));
    });
}

#[test]
fn a_flood_of_garbage_does_not_stop_our_own_adverts() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let forger = Forger::new(&lan);
        let active = Speaking::start(&a, vip(51, 200, VIP));
        active.becomes(RouterState::Active, secs(5));
        let backup = Speaking::start(&b, vip(51, 100, VIP));
        backup.becomes(RouterState::Backup, secs(5));
        eventually("the Backup hears the Active", secs(2), || {
            backup.vip().active.is_some()
        });
        forger.host.run(|| {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(112))).unwrap();
            socket.set_header_included_v4(true).unwrap();
            socket.bind_device(Some(b"eth0")).unwrap();
            let mut packet = Forger::advert(51, 254);
            packet[26] ^= 0x55;
            let start = std::time::Instant::now();
            let mut sent = 0_u32;
            while start.elapsed() < secs(2) {
                // 20 000 a second, in bursts.
                for _ in 0..100 {
                    _ = socket.send_to(&packet, &SocketAddrV4::new(GROUP, 0).into());
                    sent += 1;
                }
                std::thread::sleep(millis(5));
            }
            println!("{sent} forged adverts in 2 s");
        });
        assert_eq!(backup.counter("became_active"), 0);
        assert_eq!(active.vip().transitions.len(), 2, "Backup, Active");
        println!("dropped: {}", active.counter("reject_checksum"));
        assert!(active.counter("reject_checksum") > 1000);
    });
}

#[test]
fn an_input_firewall_does_not_make_a_second_owner() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let status = b.run(|| {
            let rules =
                "table inet f { chain in { type filter hook input priority 0; policy drop; }; }";
            Command::new("nft").arg(rules).status().unwrap()
        });
        assert!(status.success());
        let active = Speaking::start(&a, vip(51, 200, VIP));
        active.becomes(RouterState::Active, secs(5));
        let backup = Speaking::start(&b, vip(51, 100, VIP));
        backup.becomes(RouterState::Backup, secs(5));
        eventually("the Backup hears through its firewall", secs(2), || {
            backup.counter("adverts_received") > 10
        });
        assert_eq!(backup.counter("became_active"), 0);
    });
}
