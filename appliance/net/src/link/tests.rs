use std::net::UdpSocket;

use super::*;
use crate::netns::{Lease, Namespace, tests::root};

#[test]
fn a_bridge_joins_two_namespaces_and_a_port_down_parts_them() {
    if !root() {
        return;
    }
    let lease = Lease::take().unwrap();
    let lan = Namespace::create(&lease.namespace("lan")).unwrap();
    let hosts = ["a", "b"].map(|node| Namespace::create(&lease.namespace(node)).unwrap());
    lan.run(|| {
        let mut links = Links::open().unwrap();
        links.bridge("br0").unwrap();
        for (node, host) in ["a", "b"].iter().zip(&hosts) {
            links.veth(node, "eth0", Some(host)).unwrap();
            links.attach(node, "br0").unwrap();
            links.up(node).unwrap();
        }
    })
    .unwrap();
    let sockets = [(1_u8, &hosts[0]), (2, &hosts[1])].map(|(number, host)| {
        host.run(|| {
            let mut links = Links::open().unwrap();
            links
                .set_mac("eth0", [2, 0x6b, 0x64, 0, 0, number])
                .unwrap();
            links.up("lo").unwrap();
            links.up("eth0").unwrap();
            let address: IpNet = format!("10.20.14.{number}/24").parse().unwrap();
            links.add_address("eth0", address).unwrap();
            assert!(links.addresses("eth0").unwrap().contains(&address));
            assert!(links.add_address("eth0", address).is_err());
            let link = links.show("eth0").unwrap();
            assert_eq!(link.mac, Some([2, 0x6b, 0x64, 0, 0, number]));
            links
                .add_route(
                    "0.0.0.0/0".parse().unwrap(),
                    "10.20.14.254".parse().unwrap(),
                )
                .unwrap();
            let socket = UdpSocket::bind((address.addr(), 7000)).unwrap();
            socket
                .set_read_timeout(Some(std::time::Duration::from_millis(300)))
                .unwrap();
            socket
        })
        .unwrap()
    });
    let passes = || {
        _ = sockets[0].send_to(b"x", "10.20.14.2:7000");
        sockets[1].recv_from(&mut [0; 8]).is_ok()
    };
    // The first datagrams may wait for carrier and ARP.
    assert!((0..30).any(|_| passes()));
    lan.run(|| Links::open().unwrap().down("a").unwrap())
        .unwrap();
    // The other end is told by a worker of the kernel.
    let runs = || {
        let running = || Links::open().unwrap().show("eth0").unwrap().running;
        hosts[0].run(running).unwrap()
    };
    let begun = std::time::Instant::now();
    while runs() {
        assert!(begun.elapsed().as_secs() < 5, "the carrier is still there");
        std::thread::yield_now();
    }
    // A link that lost its carrier takes the on-link route along.
    _ = sockets[0].send_to(b"y", "10.20.14.2:7000");
    let mut taken = [0; 8];
    while sockets[1].recv_from(&mut taken).is_ok() {
        assert_eq!(taken[0], b'x', "one of those that waited");
    }
}

#[test]
fn what_does_not_exist_is_said_by_name() {
    let mut links = Links::open().unwrap();
    assert!(matches!(links.show("nope0"), Err(LinkError::Missing(name)) if name == "nope0"));
    let down = links.down("nope0").unwrap_err();
    assert_eq!(down.to_string(), "no link nope0 in this namespace");
    assert!(sysctl("ipv4/nope", "1").is_err());
}
