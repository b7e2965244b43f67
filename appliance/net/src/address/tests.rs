use std::time::Instant as Wall;

use kedge_core::{Code, Coded as _};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::{
    clock::now,
    link::Links,
    netns::{Lease, Namespace, tests::root},
    udp::Family,
};

/// Runs `test` in a namespace with a link `eth0`, 10.20.14.11/24, and its index.
fn in_a_host(test: impl FnOnce(u32) + Send) {
    if !root() {
        return;
    }
    let lease = Lease::take().unwrap();
    let host = Namespace::create(&lease.namespace("a")).unwrap();
    host.run(|| {
        let mut links = Links::open().unwrap();
        links.veth("eth0", "eth1", None).unwrap();
        links.up("eth0").unwrap();
        links.up("eth1").unwrap();
        links.add_address("eth0", net("10.20.14.11/24")).unwrap();
        test(links.index("eth0").unwrap());
    })
    .unwrap();
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn seen(monitor: &mut Monitor, ifindex: u32, wanted: IpNet) -> Option<Address> {
    monitor.drain().unwrap();
    let link = monitor.link(ifindex).unwrap();
    link.addresses
        .iter()
        .find(|address| address.net == wanted)
        .cloned()
}

/// Whether the kernel told it something.
fn has_news(monitor: &Monitor) -> bool {
    let mut ready = [PollFd::new(monitor, PollFlags::IN)];
    poll(&mut ready, Some(&Timespec::default())).unwrap() == 1
}

fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Wall::now();
    while !holds() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("{what}: {:?}", start.elapsed());
    start.elapsed()
}

#[test]
fn a_leased_address_carries_our_number_through_its_renewals_and_ends_without_them() {
    in_a_host(|eth0| {
        let vip = net("10.20.14.10/32");
        let mut monitor = Monitor::open().unwrap();
        let mut owned = Owned::open(Lifetime::Leased).unwrap();
        let start = Wall::now();
        owned.hold(now(), (eth0, vip)).unwrap();
        println!("added in {:?}", start.elapsed());
        let first = seen(&mut monitor, eth0, vip).unwrap();
        assert_eq!((first.protocol, first.permanent), (PROTOCOL, false));

        let due = owned.poll_timeout().unwrap();
        assert!(owned.handle_timeout(due).is_empty());
        let renewed = seen(&mut monitor, eth0, vip).unwrap();
        assert_eq!(renewed.protocol, PROTOCOL, "a renewal keeps the number");
        assert!(!renewed.permanent);
        assert_eq!(owned.poll_timeout(), Some(due + RENEWAL));

        let gone = eventually("the kernel ends the lease", LEASE * 2, || {
            seen(&mut monitor, eth0, vip).is_none()
        });
        assert!(gone > LEASE / 2, "{gone:?}");
    });
}

#[test]
fn who_stands_still_for_less_renews_less_often_and_loses_nothing() {
    in_a_host(|eth0| {
        let [vip, v6, other] = ["10.20.14.10/32", "fd00::10/128", "10.20.14.20/32"].map(net);
        let mut monitor = Monitor::open().unwrap();
        let still = Duration::from_millis(300);
        let (mut owned, mut busy) = [(); 2]
            .map(|()| Owned::open(Lifetime::Leased).unwrap())
            .into();
        owned.stands_still_for(now(), still);
        let start = now();
        owned.hold(start, (eth0, vip)).unwrap();
        owned.hold(start, (eth0, v6)).unwrap();
        busy.hold(start, (eth0, other)).unwrap();
        for _ in 0..2 {
            let due = owned.poll_timeout().unwrap();
            // That one renews has the kernel look at how old the others are.
            while now() < due + still {
                busy.handle_timeout(now() + RENEWAL);
                std::thread::sleep(Duration::from_millis(10));
                assert!(seen(&mut monitor, eth0, vip).is_some());
                assert!(seen(&mut monitor, eth0, v6).is_some());
            }
            assert!(owned.handle_timeout(now()).is_empty());
        }
        println!("{:?} between two renewals", owned.renewal);
        assert!(owned.renewal > RENEWAL && owned.renewal + still < LEASE);

        // Who may stand still for longer renews what stands the sooner.
        owned.stands_still_for(now(), Duration::from_secs(3));
        let soon = owned.poll_timeout().unwrap().since(now());
        assert!(soon <= RENEWAL, "{soon:?}");
        assert_eq!(owned.renewal, RENEWAL);
    });
}

#[test]
fn an_address_has_a_label_where_there_are_labels_and_no_duplicate_is_looked_for() {
    in_a_host(|eth0| {
        let mut owned = Owned::open(Lifetime::Leased).unwrap();
        let shown = |of: &str| {
            let line = ["-o", "address", "show", "to", of];
            let output = std::process::Command::new("ip").args(line).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        for (vip, labelled) in [("10.20.14.10/32", true), ("fd00:14::10/128", false)] {
            owned.hold(now(), (eth0, net(vip))).unwrap();
            let due = owned.poll_timeout().unwrap();
            assert!(owned.handle_timeout(due).is_empty());
            let line = shown(vip);
            assert_eq!(line.contains(" eth0:kedge"), labelled, "{line}");
            // Whoever looks for duplicates of an IPv6 address may not use it meanwhile.
            assert!(labelled || line.contains(" nodad "), "{line}");
            owned.release((eth0, net(vip))).unwrap();
            assert_eq!(shown(vip), "");
        }
        let fits = |link: &str| message::label(link, net("10.20.14.10/32")).is_some();
        assert!(fits("enp0s31f6") && !fits("enp0s31f6d"));
    });
}

#[test]
fn an_address_is_held_and_released_in_one_round_trip_each() {
    in_a_host(|eth0| {
        let vip = net("10.20.14.10/32");
        let mut owned = Owned::open(Lifetime::Leased).unwrap();
        let mut times = Vec::new();
        for _ in 0..50 {
            let start = Wall::now();
            owned.hold(now(), (eth0, vip)).unwrap();
            times.push(start.elapsed());
            owned.release((eth0, vip)).unwrap();
        }
        times.sort();
        println!("address add: median {:?}, worst {:?}", times[25], times[49]);
        assert!(times[25] < Duration::from_millis(5));
        assert!(owned.release((eth0, vip)).is_ok(), "gone is released");
        assert!(owned.release((9999, vip)).is_ok(), "without its link too");
    });
}

#[test]
fn what_somebody_else_removes_comes_back_at_once_and_later_only_if_he_insists() {
    in_a_host(|eth0| {
        let vip = net("10.20.14.10/32");
        let mut monitor = Monitor::open().unwrap();
        let mut owned = Owned::open(Lifetime::Leased).unwrap();
        owned.hold(now(), (eth0, vip)).unwrap();
        let begun = now();
        let mut removed = |at, wait: Duration, count| {
            Links::open().unwrap().delete_address("eth0", vip).unwrap();
            assert!(seen(&mut monitor, eth0, vip).is_none());
            owned.compare(at, &monitor);
            assert_eq!(owned.poll_timeout(), Some(at + wait), "the {count}. time");
            if !wait.is_zero() {
                assert!(owned.handle_timeout(at).is_empty());
            }
            let reports = owned.handle_timeout(at + wait);
            assert!(
                matches!(reports.as_slice(), [Report::Readded { times, .. }] if *times == count),
                "{reports:?}"
            );
            assert!(seen(&mut monitor, eth0, vip).is_some());
        };
        let waits = [0, 0, 0, 1, 2, 4].map(|times| FIRST_PATIENCE * times);
        for (count, wait) in (1..).zip(waits) {
            removed(begun + Duration::from_secs(count.into()), wait, count);
        }
        // A minute of peace, and it is as if nothing had been.
        removed(begun + PEACE + Duration::from_secs(10), Duration::ZERO, 7);
    });
    assert_eq!(patience(u32::MAX), LAST_PATIENCE);
}

#[test]
fn leftovers_of_our_kind_go_and_everything_else_stays() {
    in_a_host(|eth0| {
        let (vip, tunnel) = (net("10.20.14.10/32"), net("198.18.0.5/32"));
        Owned::open(Lifetime::Leased)
            .unwrap()
            .hold(now(), (eth0, vip))
            .unwrap();
        Owned::open(Lifetime::Permanent)
            .unwrap()
            .hold(now(), (eth0, tunnel))
            .unwrap();
        let mut owned = Owned::open(Lifetime::Leased).unwrap();
        assert_eq!(owned.remove_leftovers(Some(eth0 + 1)).unwrap(), []);
        assert_eq!(owned.remove_leftovers(None).unwrap(), [(eth0, vip)]);
        let mut monitor = Monitor::open().unwrap();
        assert!(seen(&mut monitor, eth0, vip).is_none());
        assert!(seen(&mut monitor, eth0, net("10.20.14.11/24")).is_some());
        let kept = seen(&mut monitor, eth0, tunnel).unwrap();
        assert!(kept.permanent && kept.protocol == PROTOCOL);
    });
}

#[test]
fn an_address_that_is_not_ours_is_refused_and_left_alone() {
    in_a_host(|eth0| {
        let vip = net("10.20.14.10/32");
        Links::open().unwrap().add_address("eth0", vip).unwrap();
        let mut owned = Owned::open(Lifetime::Leased).unwrap();
        let refused = owned.hold(now(), (eth0, vip)).unwrap_err();
        assert!(
            matches!(refused, AddressError::Foreign { .. }),
            "{refused:?}"
        );
        assert_eq!(refused.problem().code, Code::VipAddressRefused);
        let mut monitor = Monitor::open().unwrap();
        let there = seen(&mut monitor, eth0, vip).unwrap();
        assert_ne!(there.protocol, PROTOCOL);
        assert!(there.permanent);
    });
}

#[test]
fn the_held_set_follows_the_desired_set() {
    in_a_host(|eth0| {
        let nets = ["10.20.14.10/32", "10.20.14.9/32", "fd6b:6564:6765::a/128"].map(net);
        let mut owned = Owned::open(Lifetime::Permanent).unwrap();
        assert!(
            owned
                .reconcile(now(), [(eth0, nets[0]), (eth0, nets[2])])
                .is_empty()
        );
        assert!(
            owned
                .reconcile(now(), [(eth0, nets[1]), (eth0, nets[2])])
                .is_empty()
        );
        let mut monitor = Monitor::open().unwrap();
        assert_eq!(
            nets.map(|net| owned.holds((eth0, net))),
            [false, true, true]
        );
        assert_eq!(
            nets.map(|net| seen(&mut monitor, eth0, net).is_some()),
            [false, true, true]
        );
        assert_eq!(owned.poll_timeout(), None, "nothing to renew");
        assert_eq!(owned.reconcile(now(), [(9999, nets[0])]).len(), 1);
    });
}

#[test]
fn changes_are_seen_by_kind_and_renewals_are_none() {
    in_a_host(|eth0| {
        let vip = net("10.20.14.10/32");
        let mut monitor = Monitor::open().unwrap();
        let mut owned = Owned::open(Lifetime::Leased).unwrap();
        owned.hold(now(), (eth0, vip)).unwrap();
        assert!(monitor.drain().unwrap().addresses);
        owned.handle_timeout(now() + RENEWAL);
        assert_eq!(monitor.drain().unwrap(), crate::monitor::Changes::default());
        Links::open().unwrap().down("eth1").unwrap();
        eventually("carrier loss is seen", Duration::from_secs(2), || {
            monitor.drain().unwrap();
            !monitor.link(eth0).unwrap().is_running()
        });
        Links::open().unwrap().delete("eth0").unwrap();
        assert!(monitor.drain().unwrap().links);
        assert!(monitor.link(eth0).is_none());
        owned.compare(now(), &monitor);
        assert!(!owned.holds((eth0, vip)), "forgotten with its link");
    });
}

#[test]
fn the_router_behind_a_link_is_found() {
    in_a_host(|eth0| {
        let mut monitor = Monitor::open().unwrap();
        assert_eq!(monitor.gateway(eth0, Family::V4), None);
        let router = "10.20.14.1".parse().unwrap();
        let mut links = Links::open().unwrap();
        links.add_route(net("0.0.0.0/0"), router).unwrap();
        assert_eq!(monitor.gateway(eth0, Family::V4), Some(router));
        let routes = monitor.default_routes().unwrap();
        assert_eq!((routes.len(), routes[0].gateway), (1, Some(router)));
        assert_eq!(routes[0].ifindex, eth0);
        assert_eq!(monitor.gateway(eth0, Family::V6), None);
        let router = "fd00:14::1".parse().unwrap();
        links.add_address("eth0", net("fd00:14::2/64")).unwrap();
        links.add_route(net("::/0"), router).unwrap();
        assert_eq!(monitor.gateway(eth0, Family::V6), Some(router));
    });
}

#[test]
fn a_flood_of_changes_ends_in_a_resync_with_the_right_contents() {
    in_a_host(|eth0| {
        let mut monitor = Monitor::open().unwrap();
        let mut owned = Owned::open(Lifetime::Permanent).unwrap();
        // More notifications than any socket buffer holds, none of them taken.
        for round in 0..40_u32 {
            for host in 1..=200_u32 {
                let ip = std::net::Ipv4Addr::from_bits(0x0a63_0000 + host);
                let place = (eth0, IpNet::new(ip.into(), 32).unwrap());
                if round % 2 == 0 {
                    owned.hold(now(), place).unwrap();
                } else {
                    owned.release(place).unwrap();
                }
            }
        }
        owned.hold(now(), (eth0, net("10.20.14.10/32"))).unwrap();
        let changes = monitor.drain().unwrap();
        assert!(changes.addresses);
        println!("resyncs: {}", monitor.resyncs());
        let link = monitor.link(eth0).unwrap();
        let v4 = link
            .addresses
            .iter()
            .filter(|address| address.net.addr().is_ipv4());
        assert_eq!(v4.count(), 2);
    });
}

#[test]
fn whoever_leaves_them_out_hears_of_everything_but_our_renewals() {
    in_a_host(|eth0| {
        let vip = net("10.20.14.10/32");
        let mut owned = Owned::open(Lifetime::Leased).unwrap();
        let mut monitor = Monitor::open().unwrap();
        let mut deaf = Monitor::open().unwrap();
        deaf.leave_out_own().unwrap();
        let waiting = |monitor: &mut Monitor| monitor.drain().unwrap().addresses;
        owned.hold(now(), (eth0, vip)).unwrap();
        eventually("it is there", Duration::from_secs(2), || {
            waiting(&mut monitor)
        });
        assert!(seen(&mut deaf, eth0, vip).is_none());
        let other = net("fd00:14::11/64");
        Links::open().unwrap().add_address("eth0", other).unwrap();
        eventually("another is heard of", Duration::from_secs(2), || {
            waiting(&mut deaf)
        });
        assert!(seen(&mut deaf, eth0, other).is_some());
        Links::open().unwrap().down("eth0").unwrap();
        eventually("and of links", Duration::from_secs(2), || {
            deaf.drain().unwrap().links
        });
    });
}

#[test]
fn whoever_leaves_out_renewals_hears_that_addresses_come_and_go() {
    in_a_host(|eth0| {
        for vip in [net("10.20.14.10/32"), net("fd00:14::10/128")] {
            let mut owned = Owned::open(Lifetime::Leased).unwrap();
            let mut monitor = Monitor::open().unwrap();
            let mut quiet = Monitor::open().unwrap();
            quiet.leave_out_renewals().unwrap();
            // Of an IPv6 address the kernel tells when it comes to it.
            let comes = |owned: &mut Owned, quiet: &mut Monitor| {
                owned.hold(now(), (eth0, vip)).unwrap();
                eventually("it comes", Duration::from_secs(2), || {
                    seen(quiet, eth0, vip).is_some()
                });
            };
            comes(&mut owned, &mut quiet);
            // The kernel tells the age of an address in hundredths of a second.
            std::thread::sleep(Duration::from_millis(30));
            for monitor in [&mut monitor, &mut quiet] {
                let _ = monitor.drain().unwrap();
            }
            let due = owned.poll_timeout().unwrap();
            assert!(owned.handle_timeout(due).is_empty());
            assert!(has_news(&monitor), "it was renewed");
            assert!(!has_news(&quiet));
            owned.release((eth0, vip)).unwrap();
            assert!(seen(&mut quiet, eth0, vip).is_none());
            comes(&mut owned, &mut quiet);
        }
    });
}

#[test]
fn an_interface_without_ipv6_is_no_missing_privilege() {
    in_a_host(|ifindex| {
        let net = net("fd00:14::10/128");
        crate::link::sysctl("ipv6/conf/eth0/disable_ipv6", "1").unwrap();
        let mut owned = Owned::open(Lifetime::Leased).unwrap();
        let refused = owned.hold(now(), (ifindex, net)).unwrap_err();
        let problem = refused.problem();
        assert_eq!(problem.code, Code::VipAddressRefused);
        let said = problem.evidence.join(" ");
        assert!(said.contains("IPv6 is switched off"), "{said}");
    });
}
