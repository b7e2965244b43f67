//! Version 2, IPv6 and unicast against a real keepalived, in both roles.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{net::IpAddr, path::PathBuf, time::Duration};

use kedge_core::vip::{AdvertInterval, RouterState};
use kedge_tests_netns::{
    bounds::active_down,
    capture::{Capture, tshark},
    client::{neighbor, send},
    eventually,
    keepalived::{Keepalived, Settings},
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_speaker::{ChecksumPolicy, Password, Version, VipSpec};

/// One way to speak VRRP, as both sides are told.
struct Way {
    /// The keepalived.
    binary: &'static str,
    version: u8,
    advert_int: &'static str,
    /// With prefix length.
    vips: &'static [&'static str],
    /// What keepalived needs besides, given the other's address.
    lines: fn(&Host, &Host) -> String,
    /// What we need besides, given the other's address.
    ours: fn(&Host, &mut VipSpec),
}

impl Way {
    fn theirs(&self, own: &Host, other: &Host, priority: u8) -> Keepalived {
        let lines = (self.lines)(own, other);
        let settings = Settings {
            version: self.version,
            vrid: 51,
            priority,
            advert_int: self.advert_int,
            vips: self.vips,
            preempt: true,
            lines: &lines,
        };
        Keepalived::start_binary(own, self.binary, settings)
    }

    fn ours(&self, other: &Host, priority: u8) -> VipSpec {
        let mut spec = vip(51, priority, self.addresses()[0]);
        let addresses = self.addresses().into_iter();
        spec.addresses = addresses.map(|text| text.parse().unwrap()).collect();
        spec.interval = AdvertInterval::try_from(self.interval()).unwrap();
        (self.ours)(other, &mut spec);
        spec
    }

    fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.advert_int.parse().unwrap())
    }

    fn addresses(&self) -> Vec<&'static str> {
        let address = |vip: &&'static str| vip.split('/').next().unwrap();
        self.vips.iter().map(address).collect()
    }

    fn active_down(&self, priority: u8) -> Duration {
        active_down(self.version, self.interval(), priority)
    }
}

/// The system's.
const SYSTEMS: &str = "keepalived";

/// What a loaded machine with two cores may add to a bound.
const SLACK: Duration = Duration::from_millis(300);

fn holds_all(host: &Host, way: &Way) -> bool {
    way.addresses()
        .into_iter()
        .all(|address| host.holds(address))
}

fn holds_any(host: &Host, way: &Way) -> bool {
    way.addresses()
        .into_iter()
        .any(|address| host.holds(address))
}

/// Each wins with the higher priority, each follows the other, each is replaced when it leaves
/// and when it is cut off.
fn both_roles(way: &Way) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let client = lan.host("client", "10.20.14.99/24");
    for host in [&a, &b, &client] {
        host.add_ipv6();
    }
    let wait = way.active_down(1) + secs(4);

    let mut keepalived = way.theirs(&b, &a, 100);
    eventually("keepalived holds it alone", wait, || holds_all(&b, way));
    let last = *way.addresses().last().unwrap();
    send(&client, last);
    eventually("a client finds it", secs(2), || {
        neighbor(&client, last) == Some(b.mac())
    });
    let kedge = Speaking::start(&a, way.ours(&b, 200));
    kedge.becomes(RouterState::Active, wait);
    eventually("keepalived gives way", secs(2), || !holds_any(&b, way));
    assert!(holds_all(&a, way));
    eventually("the client is told", secs(1), || {
        neighbor(&client, last) == Some(a.mac())
    });
    throughout("it stays", way.interval() * 5, || {
        kedge.state() == RouterState::Active && !holds_any(&b, way)
    });
    let log = keepalived.log().to_lowercase();
    let clean = ["checksum", "invalid", "mismatch", "ignoring", "error"];
    assert!(!clean.iter().any(|word| log.contains(word)), "{log}");

    let took = kedge.leave(wait);
    eventually("keepalived succeeds us", secs(2), || holds_all(&b, way));
    assert!(!holds_any(&a, way));
    println!("  we left in {took:?}");

    // And the other way round: it is higher, we follow it.
    keepalived.stop();
    drop(keepalived);
    let kedge = Speaking::start(&a, way.ours(&b, 50));
    kedge.becomes(RouterState::Active, wait);
    let mut keepalived = way.theirs(&b, &a, 150);
    eventually("keepalived takes it", wait, || holds_all(&b, way));
    kedge.becomes(RouterState::Backup, secs(2));
    assert!(!holds_any(&a, way), "a Backup answers for nothing");
    let active = kedge.vip().active.unwrap();
    assert_eq!((active.mac, active.priority.get()), (b.mac(), 150));
    throughout("it stays", way.interval() * 5, || {
        kedge.state() == RouterState::Backup
    });

    lan.unplug(&b);
    let bound = way.active_down(50) + SLACK;
    let took = eventually("we take over from a cut port", bound, || holds_all(&a, way));
    println!("  bound {bound:?}, took {took:?}");
    lan.plug(&b);
    eventually("it takes it back", wait, || {
        holds_all(&b, way) && !holds_any(&a, way)
    });
    keepalived.stop();
    let took = eventually("we succeed it", secs(2), || holds_all(&a, way));
    println!("  after its goodbye in {took:?}");
    let refused = kedge.refused();
    assert!(refused.is_empty(), "{refused:?}");
}

fn nothing(_: &Host, _: &Host) -> String {
    String::new()
}

#[test]
fn version_two_with_a_password() {
    on_a_steady_machine(|| {
        both_roles(&Way {
            binary: SYSTEMS,
            version: 2,
            advert_int: "1",
            vips: &["10.20.14.10/32", "10.20.14.20/32"],
            lines: |_, _| "authentication {\n auth_type PASS\n auth_pass secret1\n }".to_owned(),
            ours: |_, spec| {
                let password = Some(Password::new("secret1").unwrap());
                spec.version = Version::Two { password };
            },
        });
    });
}

#[test]
fn version_two_without_a_password() {
    on_a_steady_machine(|| {
        both_roles(&Way {
            binary: SYSTEMS,
            version: 2,
            advert_int: "1",
            vips: &["10.20.14.10/32"],
            lines: nothing,
            ours: |_, spec| spec.version = Version::Two { password: None },
        });
    });
}

#[test]
fn version_three_over_ipv6() {
    on_a_steady_machine(|| {
        both_roles(&Way {
            binary: SYSTEMS,
            version: 3,
            advert_int: "0.1",
            vips: &["fe80::10/128", "fd00:14::10/128"],
            lines: |_, _| "native_ipv6".to_owned(),
            ours: |_, _| {},
        });
    });
}

#[test]
fn an_ipv4_router_that_carries_ipv6_along() {
    on_a_steady_machine(|| {
        both_roles(&Way {
            binary: SYSTEMS,
            version: 3,
            advert_int: "0.1",
            vips: &["10.20.14.10/32"],
            lines: |_, _| "virtual_ipaddress_excluded {\n fd00:14::10/128 dev eth0\n }".to_owned(),
            ours: |_, spec| spec.addresses.push("fd00:14::10".parse().unwrap()),
        });
    });
}

#[test]
fn unicast_over_ipv4() {
    on_a_steady_machine(|| {
        both_roles(&Way {
            binary: SYSTEMS,
            version: 3,
            advert_int: "0.1",
            vips: &["10.20.14.10/32"],
            lines: |own, other| unicast(own.address().into(), other.address().into()),
            ours: |other, spec| spec.unicast_peers = vec![other.address().into()],
        });
    });
}

#[test]
fn unicast_over_ipv6() {
    on_a_steady_machine(|| {
        both_roles(&Way {
            binary: SYSTEMS,
            version: 3,
            advert_int: "0.1",
            vips: &["fe80::10/128", "fd00:14::10/128"],
            lines: |own, other| {
                format!(
                    "native_ipv6\nunicast_ttl 255\n{}",
                    unicast(own.link_local(), other.link_local())
                )
            },
            ours: |other, spec| spec.unicast_peers = vec![other.link_local()],
        });
    });
}

/// The letter of RFC 9568, which keepalived speaks when it is told to, by the same word for both directions.
#[test]
fn a_keepalived_that_sums_the_message_alone_is_followed_replaced_and_answered() {
    let Some(binary) = Keepalived::since([2, 2, 8], "v3_checksum_as_v2") else {
        return;
    };
    let binary: &'static str = binary.leak();
    on_a_steady_machine(|| {
        for (checksum, forms) in [
            // Whoever hears the other form sends it as well.
            (ChecksumPolicy::Auto, ["1 0", "0 1"].as_slice()),
            (ChecksumPolicy::Message, ["0 1"].as_slice()),
        ] {
            let way = Way {
                binary,
                version: 3,
                advert_int: "0.1",
                vips: &["10.20.14.10/32"],
                lines: |_, _| "v3_checksum_as_v2".to_owned(),
                ours: match checksum {
                    ChecksumPolicy::Message => |_, spec| spec.checksum = ChecksumPolicy::Message,
                    ChecksumPolicy::Auto | ChecksumPolicy::PseudoHeader => |_, _| {},
                },
            };
            both_roles(&way);
            let lan = Lan::new();
            let (a, b) = lan.pair();
            let capture = Capture::start(&lan, "vrrp");
            let mut keepalived = way.theirs(&b, &a, 150);
            eventually("keepalived holds it", secs(5), || holds_all(&b, &way));
            let kedge = Speaking::start(&a, way.ours(&b, 100));
            kedge.becomes(RouterState::Backup, secs(5));
            eventually("it follows", secs(2), || kedge.vip().active.is_some());
            keepalived.stop();
            kedge.becomes(RouterState::Active, secs(2));
            eventually("it advertises", secs(5), || {
                kedge.counter("adverts_sent") >= 10
            });
            let file = capture.stop();
            assert_eq!(sums(&file, &b), ["0 1"], "of the message alone");
            let mut ours = sums(&file, &a);
            ours.sort_by(|one, other| other.cmp(one));
            assert_eq!(ours, forms, "{checksum:?}");
        }
    });
}

/// Whether the checksums of a host's adverts are right with pseudo-header and right without: each answer
/// that there is.
fn sums(file: &PathBuf, of: &Host) -> Vec<String> {
    let filter = format!("vrrp and ip.src == {}", of.address());
    let [with, without] =
        [false, true].map(|as_in_v2| tshark(file, as_in_v2, &filter, &["vrrp.checksum.status"]));
    assert_eq!(with.len(), without.len());
    let pairs = with.iter().zip(&without);
    let mut all: Vec<String> = pairs
        .map(|(with, without)| format!("{with} {without}"))
        .collect();
    all.sort();
    all.dedup();
    all
}

fn unicast(own: IpAddr, other: IpAddr) -> String {
    format!("unicast_src_ip {own}\nunicast_peer {{\n {other}\n }}\n")
}

#[test]
fn another_password_is_told_and_nobody_gives_way_to_it() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let way = Way {
            binary: SYSTEMS,
            version: 2,
            advert_int: "1",
            vips: &["10.20.14.10/32"],
            lines: |_, _| "authentication {\n auth_type PASS\n auth_pass theirs\n }".to_owned(),
            ours: |_, spec| {
                let password = Some(Password::new("ours").unwrap());
                spec.version = Version::Two { password };
            },
        };
        let kedge = Speaking::start(&a, way.ours(&b, 50));
        kedge.becomes(RouterState::Active, secs(9));
        let _keepalived = way.theirs(&b, &a, 200);
        let told = |kedge: &Speaking| {
            let all = kedge.vip().problems;
            all.iter()
                .any(|it| it.what.contains("password that is not ours"))
        };
        eventually("it is told", secs(9), || told(&kedge));
        throughout("it does not move", millis(1_500), || {
            kedge.state() == RouterState::Active
        });
        assert!(kedge.counter("auth_errors") > 0);
    });
}
