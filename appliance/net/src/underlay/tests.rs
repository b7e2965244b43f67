use std::process::Command;

use super::*;
use crate::{
    link::Links,
    netns::{Lease, Namespace, tests::root},
};

fn ip(arguments: &str) {
    let arguments = arguments.split_whitespace();
    assert!(
        Command::new("ip")
            .args(arguments)
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn the_way_carries_what_its_route_or_its_interface_says_and_not_what_a_router_said() {
    if !root() {
        return;
    }
    let lease = Lease::take().unwrap();
    let [here, there] = ["a", "b"].map(|node| Namespace::create(&lease.namespace(node)).unwrap());
    here.run(|| {
        let mut links = Links::open().unwrap();
        links.veth("eth0", "eth0", Some(&there)).unwrap();
        links.set_mtu("eth0", 1400).unwrap();
        for address in ["10.20.14.1/24", "fd00:1::1/64"] {
            links.add_address("eth0", address.parse().unwrap()).unwrap();
        }
        links.up("eth0").unwrap();
        let mut underlay = Underlay::open().unwrap();
        let mut mtu = |to: &str| underlay.mtu(format!("{to}:51820").parse().unwrap());
        assert_eq!(mtu("10.20.14.2").unwrap(), 1400);
        assert_eq!(mtu("[fd00:1::2]").unwrap(), 1400);
        assert!(mtu("192.0.2.1").is_err(), "no way there");
        for (prefix, via) in [
            ("192.0.2.0/24", "10.20.14.2"),
            ("2001:db8::/32", "fd00:1::2"),
        ] {
            // The kernel waits for the address to be proven.
            ip(&format!("route add {prefix} via {via} dev eth0 mtu 1333"));
        }
        assert_eq!(mtu("192.0.2.1").unwrap(), 1333);
        assert_eq!(mtu("[2001:db8::1]").unwrap(), 1333);
        ip("route add 203.0.113.0/24 via 10.20.14.2 dev eth0 mtu 9000");
        assert_eq!(
            mtu("203.0.113.1").unwrap(),
            1400,
            "the interface is smaller"
        );
        ip("route add 198.51.100.0/24 nexthop via 10.20.14.2 nexthop via 10.20.14.3");
        assert_eq!(mtu("198.51.100.1").unwrap(), 1400, "one of several");
        links.set_mtu("eth0", 1500).unwrap();
        assert_eq!(mtu("203.0.113.1").unwrap(), 1500);
    })
    .unwrap();
}

#[test]
fn another_router_is_another_way_and_is_told_of_at_once() {
    if !root() {
        return;
    }
    let lease = Lease::take().unwrap();
    let [here, there] = ["a", "b"].map(|node| Namespace::create(&lease.namespace(node)).unwrap());
    here.run(|| {
        let mut links = Links::open().unwrap();
        links.veth("eth0", "eth0", Some(&there)).unwrap();
        let address = "10.20.14.1/24".parse().unwrap();
        links.add_address("eth0", address).unwrap();
        links.up("eth0").unwrap();
        ip("route add 192.0.2.0/24 via 10.20.14.2 mtu 1400");
        let mut underlay = Underlay::open().unwrap();
        let mut way = || underlay.way("192.0.2.1:51820".parse().unwrap()).unwrap();
        let first = way();
        assert_eq!(first.router, Some("10.20.14.2".parse().unwrap()));
        assert_eq!(first.mtu, 1400);
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let changes = Changes::open().unwrap();
            let told = async |limit| {
                let limit = std::time::Duration::from_millis(limit);
                let told = tokio::time::timeout(limit, changes.told()).await.is_ok();
                if told {
                    changes.take().await.unwrap();
                }
                told
            };
            // What the link's coming up has stirred is over some time.
            while told(200).await {}
            for change in [
                "route replace 192.0.2.0/24 via 10.20.14.3 mtu 1400",
                "route add 198.51.100.0/24 via 10.20.14.3",
                "rule add to 192.0.2.0/24 lookup main",
                "link set eth0 mtu 1300",
            ] {
                ip(change);
                assert!(told(1_000).await, "{change}");
                while told(20).await {}
            }
            // More than the socket holds: it is told that there was something, and goes on.
            for number in 0..200 {
                ip(&format!("route add 10.99.{number}.0/24 via 10.20.14.3"));
            }
            assert!(told(1_000).await);
            while told(20).await {}
            ip("route del 10.99.0.0/24");
            assert!(told(1_000).await);
        });
        let second = way();
        assert_eq!(second.router, Some("10.20.14.3".parse().unwrap()));
        assert_eq!((second.link, second.mtu), (first.link, 1300));
    })
    .unwrap();
}
