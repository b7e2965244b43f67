//! Kedge with Kedge, and Kedge with its own kernel.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    io::{ErrorKind, Read as _},
    net::{TcpListener, TcpStream},
    process::Command,
    time::Instant,
};

use ipnet::IpNet;
use kedge_core::{Code, Coded, vip::RouterState};
use kedge_net::{
    PROTOCOL,
    address::{Lifetime, Owned},
    clock,
    link::Links,
    monitor::Monitor,
};
use kedge_tests_netns::{
    eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, quietly, ready, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_speaker::{Members, Settings, Speaker, Verdict, Version, VipEvent, VipSpec};

const VIP: &str = "10.20.14.10";

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// A member of a group that is Kedge only, with a priority of 192 or more.
fn member(priority: u8, gated: bool) -> VipSpec {
    VipSpec {
        members: Members::Kedge,
        preempt: false,
        gated,
        ..vip(51, priority, VIP)
    }
}

/// Two members, the first one Active.
fn pair(lan: &Lan) -> (Host, Host, Speaking, Speaking) {
    let (a, b) = lan.pair();
    let first = Speaking::start(&a, member(254, false));
    first.becomes(RouterState::Active, secs(5));
    let second = Speaking::start(&b, member(251, false));
    second.becomes(RouterState::Backup, secs(5));
    eventually("the Backup hears the Active", secs(2), || {
        second.vip().active.is_some()
    });
    (a, b, first, second)
}

#[test]
fn two_members_fail_over_when_the_owner_is_cut_and_do_not_fail_back() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b, first, second) = pair(&lan);
        println!("scheduling: {}", second.scheduling());
        lan.unplug(&a);
        let took = eventually("the Backup takes over", millis(302) + millis(200), || {
            b.holds(VIP)
        });
        assert!(
            took > millis(180),
            "not before three adverts are missing: {took:?}"
        );
        first.becomes(RouterState::Fault, secs(1));
        assert!(!a.holds(VIP));
        assert!(
            first
                .vip()
                .problems
                .iter()
                .any(|problem| problem.code == Code::VipLinkDown)
        );
        lan.plug(&a);
        first.becomes(RouterState::Backup, secs(2));
        throughout("it stays where it is", secs(1), || {
            b.holds(VIP) && !a.holds(VIP)
        });
        assert_eq!(second.counter("became_active"), 1);
    });
}

#[test]
fn a_leaving_owner_is_succeeded_within_milliseconds_and_answers_until_then() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b, first, second) = pair(&lan);
        let start = Instant::now();
        let (hold, away) = std::thread::scope(|scope| {
            let holds = scope.spawn(|| {
                quietly("the successor holds it", secs(1), || b.holds(VIP));
                (start.elapsed(), a.holds(VIP))
            });
            let took = first.leave(secs(2));
            (holds.join().unwrap(), took)
        });
        println!(
            "successor held it after {:?}, we had left after {away:?}",
            hold.0
        );
        assert!(away < millis(100), "{away:?}");
        second.becomes(RouterState::Active, millis(100));
        assert!(!a.holds(VIP));
    });
}

#[test]
fn a_released_vip_moves_and_comes_back_when_nobody_takes_it() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b, first, second) = pair(&lan);
        // A program of this host that serves, or calls, from the VIP; and one that does not.
        let ends = |address: &'static str| {
            a.run(move || {
                let listener = TcpListener::bind((address, 0)).unwrap();
                let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                near.set_read_timeout(Some(millis(1500))).unwrap();
                (near, listener.accept().unwrap())
            })
        };
        let (mut lost, _far) = ends(VIP);
        let (mut kept, _its_far) = ends("10.20.14.11");
        first.release(&"api".parse().unwrap());
        second.becomes(RouterState::Active, secs(1));
        first.becomes(RouterState::Backup, secs(1));
        // Of two ends on one host the end of the one may be the end of the other.
        let told = lost.read(&mut [0]).unwrap_err().kind();
        let ended = [ErrorKind::ConnectionAborted, ErrorKind::ConnectionReset];
        assert!(ended.contains(&told), "it is not told: {told:?}");
        kept.set_read_timeout(Some(millis(50))).unwrap();
        let waits = kept.read(&mut [0]).unwrap_err().kind();
        assert_eq!(waits, ErrorKind::WouldBlock, "it goes on");
        drop(first);
        second.release(&"api".parse().unwrap());
        second.becomes(RouterState::Releasing, secs(1));
        second.becomes(RouterState::Active, secs(1));
        assert!(b.holds(VIP));
        assert!(
            second.vip().because.contains("no other router took over"),
            "{}",
            second.vip().because
        );
    });
}

#[test]
fn the_first_healthy_host_pulls_the_vip_from_unproven_ones() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let first = Speaking::start(&a, member(254, true));
        first.becomes(RouterState::Active, secs(5));
        let seen = first.vip();
        assert_eq!((seen.priority.get(), seen.base_priority.get()), (63, 254));
        assert!(
            seen.problems
                .iter()
                .any(|problem| problem.code == Code::VipUnhealthy)
        );
        let second = Speaking::start(&b, member(251, true));
        second.becomes(RouterState::Backup, secs(5));
        eventually("the Backup hears the Active", secs(2), || {
            second.vip().active.is_some()
        });

        let name = "api".parse().unwrap();
        let mut events = second.events();
        second.health(&name, Verdict::Healthy, "127.0.0.1:6443 answers".to_owned());
        quietly(
            "a fresh probe is asked for",
            secs(2),
            || matches!(events.try_recv(), Ok(VipEvent::ProbeNow(asked)) if asked == name),
        );
        second.probed(&name, true);
        second.becomes(RouterState::Active, millis(302));
        first.becomes(RouterState::Backup, secs(1));
        assert!(b.holds(VIP) && !a.holds(VIP));
        eventually("an event tells it", secs(1), || {
            matches!(
                events.try_recv(),
                Ok(VipEvent::State {
                    to: RouterState::Active,
                    ..
                })
            )
        });

        second.health(&name, Verdict::Failing, "127.0.0.1:6443 refuses".to_owned());
        eventually("the reason is told", secs(1), || {
            second.vip().priority_because == "251 → 60 because 127.0.0.1:6443 refuses"
        });
        throughout("an unproven host does not pull", millis(500), || {
            b.holds(VIP)
        });
    });
}

#[test]
fn an_address_removed_by_hand_is_back_within_a_second() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        let kedge = Speaking::start(&a, vip(51, 200, VIP));
        kedge.becomes(RouterState::Active, secs(5));
        for _ in 0..3 {
            a.run(|| {
                Links::open()
                    .unwrap()
                    .delete_address("eth0", net("10.20.14.10/32"))
                    .unwrap()
            });
            eventually("it is back", secs(1), || a.holds(VIP));
            std::thread::sleep(millis(50));
        }
        throughout("and stays beyond its lease", secs(3), || a.holds(VIP));
        assert_eq!(kedge.counter("became_active"), 1);
    });
}

#[test]
fn a_leftover_is_removed_before_any_advert_and_nothing_else_is() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        let eth0 = a.ifindex();
        a.run(move || {
            let mut dead = Owned::open(Lifetime::Leased).unwrap();
            dead.hold(clock::now(), (eth0, net("10.20.14.10/32")))
                .unwrap();
            let mut tunnel = Owned::open(Lifetime::Permanent).unwrap();
            tunnel
                .hold(clock::now(), (eth0, net("198.18.0.9/32")))
                .unwrap();
            Links::open()
                .unwrap()
                .add_address("eth0", net("10.20.14.99/32"))
                .unwrap();
        });
        assert!(a.holds(VIP));
        let speaker = a.run(|| Speaker::start(Settings::default()).unwrap());
        assert!(!a.holds(VIP), "gone when start returns");
        assert!(a.holds("198.18.0.9") && a.holds("10.20.14.99") && a.holds("10.20.14.11"));
        drop(speaker);
    });
}

#[test]
fn a_process_that_is_stopped_loses_the_address_and_steps_back_when_it_goes_on() {
    if let Some(out) = std::env::var_os(CHILD) {
        let speaker = Speaker::start(Settings {
            link_up_wait: millis(200),
            ..Settings::default()
        });
        let speaker = speaker.unwrap();
        speaker.apply(vec![vip(51, 200, VIP)]);
        loop {
            let history = speaker.snapshot().first().map(|vip| {
                vip.transitions
                    .iter()
                    .map(|one| one.because.clone() + "\n")
                    .collect::<String>()
            });
            std::fs::write(&out, history.unwrap_or_default()).unwrap();
            std::thread::sleep(millis(10));
        }
    }
    if !ready() {
        return;
    }
    let lan = Lan::new();
    let a = lan.host("a", "10.20.14.11/24");
    let out = a.directory().join("history");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .arg("--exact")
        .arg(
            "vip_kedge::a_process_that_is_stopped_loses_the_address_and_steps_back_when_it_goes_on",
        )
        .env(CHILD, &out);
    let mut child = a.spawn(command);
    let signal = |name: &str| {
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    };
    eventually("it is Active", secs(5), || a.holds(VIP));
    let tagged = a.run(|| {
        let monitor = Monitor::open().unwrap();
        let eth0 = monitor.link_named("eth0").unwrap();
        let vip = eth0
            .addresses
            .iter()
            .find(|one| one.net == net("10.20.14.10/32"))
            .unwrap();
        (vip.protocol, vip.permanent)
    });
    assert_eq!(tagged, (PROTOCOL, false), "our number, and a lease");
    signal("-STOP");
    eventually("the lease ends", millis(2600), || !a.holds(VIP));
    signal("-CONT");
    eventually("it says why it stepped back", secs(2), || {
        std::fs::read_to_string(&out)
            .unwrap()
            .contains("sent no advert for")
    });
    eventually("it is Active again", secs(2), || a.holds(VIP));
    signal("-KILL");
    child.wait().unwrap();
    assert!(a.holds(VIP), "the kernel still answers");
    eventually("the lease of the dead ends", millis(2600), || !a.holds(VIP));
}

#[test]
fn bad_configurations_are_told_and_the_good_one_runs() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        let named = |name: &str, spec: VipSpec| VipSpec {
            name: name.parse().unwrap(),
            ..spec
        };
        let kedge = Speaking::start_with(
            &a,
            Settings {
                link_up_wait: millis(200),
                ..Settings::default()
            },
            vec![
                named("good", vip(51, 200, VIP)),
                named("same-vrid", vip(51, 200, "10.20.14.9")),
                named("same-address", vip(52, 200, VIP)),
                named("elsewhere", vip(53, 200, "192.0.2.10")),
                named(
                    "missing",
                    VipSpec {
                        interface: Some("eth9".into()),
                        ..vip(54, 200, "10.20.14.8")
                    },
                ),
                named(
                    "not-owner",
                    VipSpec {
                        owner: true,
                        ..vip(55, 255, "10.20.14.7")
                    },
                ),
                named(
                    "v6",
                    VipSpec {
                        addresses: vec!["fd00::1".parse().unwrap()],
                        ..vip(56, 200, "10.20.14.6")
                    },
                ),
                named(
                    "v6-of-version-2",
                    VipSpec {
                        version: Version::Two { password: None },
                        ..vip(57, 200, "fd00::2")
                    },
                ),
            ],
        );
        let problem = |name: &str| {
            let all = kedge.snapshot();
            let vip = all.iter().find(|vip| vip.name.as_str() == name);
            vip.and_then(|vip| vip.problems.first().cloned())
        };
        eventually("the good one is Active", secs(5), || a.holds(VIP));
        for (name, code) in [
            ("same-vrid", Code::ConfigDuplicateVrid),
            ("same-address", Code::ConfigRule),
            ("elsewhere", Code::VipNoOnLinkPrefix),
            ("missing", Code::VipInterfaceMissing),
            ("not-owner", Code::VipNotOwner),
            ("v6", Code::VipNoOnLinkPrefix),
            ("v6-of-version-2", Code::ConfigRule),
        ] {
            let problem = problem(name).unwrap_or_else(|| panic!("{name} has no problem"));
            assert_eq!(problem.code, code, "{problem:?}");
            assert_eq!(problem.object, format!("vips/{name}"));
            assert!(problem.fix.is_some(), "{problem:?}");
            println!("{name}: {problem}");
        }
        assert_eq!(problem("good"), None);
        assert!(!a.holds("10.20.14.9"));

        // The network changes, and what did not fit fits.
        a.run(|| {
            Links::open()
                .unwrap()
                .add_address("eth0", net("192.0.2.1/24"))
                .unwrap()
        });
        eventually("the other subnet appeared", secs(5), || {
            a.holds("192.0.2.10")
        });
        a.run(|| {
            Links::open()
                .unwrap()
                .delete_address("eth0", net("192.0.2.1/24"))
                .unwrap()
        });
        eventually("and went", secs(1), || !a.holds("192.0.2.10"));
        eventually("which is told", secs(1), || {
            problem("elsewhere").is_some_and(|why| why.code == Code::VipNoOnLinkPrefix)
        });
        assert!(a.holds(VIP));
    });
}

#[test]
fn the_owner_of_the_address_is_active_at_once_and_keeps_it() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.10/24");
        let kedge = Speaking::start(
            &a,
            VipSpec {
                owner: true,
                ..vip(51, 255, VIP)
            },
        );
        let took = kedge.becomes(RouterState::Active, secs(1));
        assert!(took < millis(150), "{took:?}");
        kedge.leave(millis(500));
        assert!(a.holds(VIP), "an address Kedge did not put there stays");
    });
}

#[test]
fn an_interface_that_is_made_anew_is_found_again() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        let kedge = Speaking::start(&a, vip(51, 200, VIP));
        kedge.becomes(RouterState::Active, secs(5));
        let first = kedge.vip().interface.unwrap().ifindex;
        a.run(|| Links::open().unwrap().delete("eth0").unwrap());
        kedge.becomes(RouterState::Fault, secs(1));
        eventually("it is on no interface", secs(1), || {
            kedge.vip().interface.is_none()
        });
        a.run(|| {
            let mut links = Links::open().unwrap();
            links.veth("eth0", "eth1", None).unwrap();
            links.up("eth1").unwrap();
            links.up("eth0").unwrap();
            links.add_address("eth0", net("10.20.14.11/24")).unwrap();
        });
        kedge.becomes(RouterState::Active, secs(5));
        assert_ne!(kedge.vip().interface.unwrap().ifindex, first);
        assert!(a.holds(VIP));
    });
}

#[test]
fn without_capabilities_the_error_says_what_to_do() {
    if std::env::var_os(CHILD).is_some() {
        let refused = Speaker::start(Settings::default()).unwrap_err().problem();
        assert_eq!(refused.code, Code::NetPermission);
        assert!(refused.what.contains("CAP_NET_ADMIN"), "{}", refused.what);
        assert!(refused.fix.unwrap().text.contains("AmbientCapabilities"));
        return;
    }
    if !ready() {
        return;
    }
    let lan = Lan::new();
    let a = lan.host("a", "10.20.14.11/24");
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-net_admin,-net_raw", "--inh-caps=-all"])
        .arg(program)
        .args([
            "--exact",
            "vip_kedge::without_capabilities_the_error_says_what_to_do",
        ])
        .env(CHILD, "1");
    let status = a.spawn(command).wait().unwrap();
    assert!(status.success());
}

/// Set where this program runs as a part of its own test.
const CHILD: &str = "KEDGE_TEST_CHILD";
