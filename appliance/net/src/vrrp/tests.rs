use std::time::{Duration, Instant};

use super::*;
use crate::{
    arp::ArpSocket,
    arrival::ArrivalListener,
    link::Links,
    nd::NdSocket,
    netns::{Lease, Namespace, tests::root},
    station::StationListener,
};

/// Two hosts on one wire: `eth0` with 10.20.14.1 and .2.
fn pair(test: impl FnOnce(&Namespace, &Namespace)) {
    if !root() {
        return;
    }
    let lease = Lease::take().unwrap();
    let [a, b] = ["a", "b"].map(|node| Namespace::create(&lease.namespace(node)).unwrap());
    a.run(|| {
        Links::open()
            .unwrap()
            .veth("eth0", "eth0", Some(&b))
            .unwrap()
    })
    .unwrap();
    for (number, host) in [(1, &a), (2, &b)] {
        host.run(|| {
            let mut links = Links::open().unwrap();
            links.set_mac("eth0", [2, 0, 0, 0, 0, number]).unwrap();
            links.up("eth0").unwrap();
            links
                .add_address("eth0", format!("10.20.14.{number}/24").parse().unwrap())
                .unwrap();
        })
        .unwrap();
    }
    test(&a, &b);
}

fn open(host: &Namespace, family: Family) -> VrrpSocket {
    host.run(|| {
        let index = Links::open().unwrap().index("eth0").unwrap();
        VrrpSocket::open("eth0", index, family).unwrap()
    })
    .unwrap()
}

fn wait<T>(mut take: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(taken) = take() {
            return taken;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "nothing arrived");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_advert_arrives_with_its_header_and_the_stations_address() {
    pair(|a, b| {
        let (sender, mut receiver) = (open(a, Family::V4), open(b, Family::V4));
        let message = [0x31, 7, 100, 1, 0, 100, 0, 0, 10, 20, 14, 10];
        let (mac, packet) = wait(|| {
            // A link that has just come up may still drop what is sent.
            _ = sender.send("10.20.14.1".parse().unwrap(), GROUP_V4.into(), &message);
            let received = receiver.receive().unwrap()?;
            Some((received.mac, received.packet.to_vec()))
        });
        assert_eq!(mac, [2, 0, 0, 0, 0, 1]);
        assert_eq!(
            (packet[0], packet[1], packet[8], packet[9]),
            (0x45, 0xc0, 255, 112)
        );
        assert_eq!(packet[12..20], [10, 20, 14, 1, 224, 0, 0, 18]);
        assert_eq!(packet[20..], message);
        assert_eq!(u16::from_be_bytes([packet[2], packet[3]]), 32);
        let mut sender = sender;
        assert_eq!(sender.receive().unwrap(), None, "nobody hears himself");
        assert_eq!(receiver.take_drops(), 0);
    });
}

#[test]
fn an_advert_costs_a_host_no_more_than_its_copy() {
    pair(|a, b| {
        let read = |path| b.run(|| std::fs::read_to_string(path).unwrap()).unwrap();
        // Both count what ended in the IP stack: what somebody took, and what nobody knew.
        let delivered = || {
            let table = read("/proc/thread-self/net/snmp");
            let mut rows = table.lines().filter_map(|line| line.strip_prefix("Ip: "));
            let [names, numbers] = [(); 2].map(|()| rows.next().unwrap().split(' '));
            let counted = ["InDelivers", "InUnknownProtos"];
            let counted = names
                .zip(numbers)
                .filter(|(name, _)| counted.contains(name));
            counted
                .map(|(_, number)| number.to_owned())
                .collect::<Vec<_>>()
        };
        let (sender, mut receiver) = (open(a, Family::V4), open(b, Family::V4));
        assert!(read("/proc/thread-self/net/igmp").contains("120000E0"));
        assert!(read("/proc/thread-self/net/dev_mcast").contains("01005e000012"));
        let before = delivered();
        for number in 0..10 {
            wait(|| {
                let source = "10.20.14.1".parse().unwrap();
                _ = sender.send(source, GROUP_V4.into(), &[0x31, 7, number]);
                receiver.receive().unwrap().map(drop)
            });
        }
        assert_eq!(delivered(), before);
        // Somebody else of the host who wants to hear them does.
        let other = b.run(|| {
            let other = Socket::new(Domain::IPV4, Type::RAW, Some(112.into())).unwrap();
            let on = receiver.ifindex();
            let on = socket2::InterfaceIndexOrAddress::Index(on);
            other.join_multicast_v4_n(&GROUP_V4, &on).unwrap();
            other.set_nonblocking(true).unwrap();
            other
        });
        let mut other = other.unwrap();
        wait(|| {
            let source = "10.20.14.1".parse().unwrap();
            _ = sender.send(source, GROUP_V4.into(), &[0x31, 7, 10]);
            io::Read::read(&mut other, &mut [0; 64]).ok()
        });
        assert_ne!(delivered(), before);
    });
}

#[test]
fn an_advert_over_ipv6_arrives_with_its_header_and_the_stations_address() {
    pair(|a, b| {
        let (sender, mut receiver) = (open(a, Family::V6), open(b, Family::V6));
        let source: Ipv6Addr = "fe80::1".parse().unwrap();
        let message = [0x31, 7, 100, 0, 0, 100, 0xab, 0xcd];
        let (mac, packet) = wait(|| {
            _ = sender.send(source.into(), GROUP_V6.into(), &message);
            let received = receiver.receive().unwrap()?;
            Some((received.mac, received.packet.to_vec()))
        });
        assert_eq!(mac, [2, 0, 0, 0, 0, 1]);
        assert_eq!(packet[..8], [0x6c, 0, 0, 0, 0, 8, 112, 255]);
        assert_eq!(packet[8..24], source.octets());
        assert_eq!(packet[24..40], GROUP_V6.octets());
        assert_eq!(packet[40..], message, "the checksum is the sender's");
        let mixed = sender.send(source.into(), GROUP_V4.into(), &message);
        assert_eq!(mixed.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn neighbor_discovery_is_received_for_watched_addresses_only() {
    pair(|a, b| {
        let open = |host: &Namespace| {
            host.run(|| {
                let index = Links::open().unwrap().index("eth0").unwrap();
                NdSocket::open("eth0", index).unwrap()
            })
            .unwrap()
        };
        let (sender, mut receiver) = (open(a), open(b));
        assert!(!receiver.forwards());
        let [vip, near, other]: [Ipv6Addr; 3] =
            ["fd00::10", "fd00::11", "fd01::10"].map(|text| text.parse().unwrap());
        let packet = |source: Ipv6Addr, kind: u8, target: Ipv6Addr| {
            let mut packet = vec![0x60, 0, 0, 0, 0, 24, 58, 255];
            packet.extend(source.octets());
            packet.extend("ff02::1".parse::<Ipv6Addr>().unwrap().octets());
            packet.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
            packet.extend(target.octets());
            packet
        };
        receiver.watch(&["fd00::1".parse().unwrap(), vip]).unwrap();
        // The claims come last: whatever else passed the filter would be received before them.
        let packets = [
            packet(near, 136, near),
            packet(vip, 136, other),
            packet(other, 135, vip),
            packet(Ipv6Addr::UNSPECIFIED, 135, vip),
            packet(vip, 128, vip),
            packet(near, 136, vip),
            packet(vip, 135, near),
        ];
        let everybody = [0x33, 0x33, 0, 0, 0, 1];
        let mut next = || {
            let (mac, packet) = receiver.receive().unwrap()?;
            Some((mac, packet.to_vec()))
        };
        let first = wait(|| {
            for packet in &packets {
                _ = sender.send(everybody, packet);
            }
            next()
        });
        let from = [2, 0, 0, 0, 0, 1];
        assert_eq!(first, (from, packets[5].clone()));
        assert_eq!(wait(next), (from, packets[6].clone()));
    });
}

#[test]
fn arp_is_received_for_watched_addresses_only() {
    pair(|a, b| {
        let open = |host: &Namespace| {
            host.run(|| {
                let index = Links::open().unwrap().index("eth0").unwrap();
                (
                    ArpSocket::open(index).unwrap(),
                    StationListener::open(index, [2, 0, 0, 0, 0, 2]).unwrap(),
                )
            })
            .unwrap()
        };
        let ((sender, _), (mut receiver, station)) = (open(a), open(b));
        let claim = |spa: [u8; 4], tpa: [u8; 4]| {
            let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1];
            packet.extend(spa);
            packet.extend([0; 6]);
            packet.extend(tpa);
            packet
        };
        let (vip, other) = ([10, 20, 14, 10], [10, 20, 14, 99]);
        receiver.watch(&[Ipv4Addr::from(vip)]).unwrap();
        // The claim comes last: whatever else passed the filter would be received before it.
        let packets = [
            claim(other, other),
            claim(other, vip),
            claim([0; 4], other),
            claim([0; 4], vip),
            claim(vip, vip),
        ];
        let received = wait(|| {
            for packet in &packets {
                _ = sender.broadcast(packet);
            }
            let (mac, packet) = receiver.receive().unwrap()?;
            Some((mac, packet.to_vec()))
        });
        assert_eq!(received, ([2, 0, 0, 0, 0, 1], claim(vip, vip)));
        assert!(station.heard().unwrap());
    });
}

#[test]
fn only_what_is_sent_to_this_station_for_the_address_has_arrived() {
    pair(|a, b| {
        let (own, vip) = ([2, 0, 0, 0, 0, 2], [10, 20, 14, 10]);
        let vip_v6: Ipv6Addr = "fd00::10".parse().unwrap();
        let sender = |host: &Namespace, ethertype| {
            host.run(move || {
                let index = Links::open().unwrap().index("eth0").unwrap();
                PacketSocket::open(Layer::Packet, ethertype, index, &[REFUSE]).unwrap()
            })
            .unwrap()
        };
        let [arp, v4, v6] = [0x0806, 0x0800, 0x86dd].map(|ethertype| sender(a, ethertype));
        let listen = || {
            b.run(move || {
                let index = Links::open().unwrap().index("eth0").unwrap();
                let held = [IpAddr::from(vip_v6), IpAddr::from(vip)];
                ArrivalListener::open(index, own, held).unwrap()
            })
            .unwrap()
        };
        let arp_to = |target: [u8; 4]| {
            let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 20, 14, 1];
            packet.extend(own);
            packet.extend(target);
            packet
        };
        let v4_to = |target: [u8; 4]| [vec![0x45; 16], target.to_vec(), vec![0; 8]].concat();
        let v6_to = |target: Ipv6Addr| [vec![0x60; 24], target.octets().to_vec()].concat();
        let (everybody, stranger) = ([0xff; 6], [2, 0, 0, 0, 0, 9]);
        let other = [10, 20, 14, 11];
        let other_v6 = ["fd01::10", "fd00:1::10", "fd00::1:0:0:10", "fd00::11"];
        let carries = listen();
        wait(|| {
            // A link that has just come up may still drop what is sent.
            arp.send(own, &arp_to(vip)).unwrap();
            carries.arrived().unwrap().then_some(())
        });
        let nothing = listen();
        for to in [everybody, stranger, own] {
            let ours = to == own;
            let target = if ours { other } else { vip };
            arp.send(to, &arp_to(target)).unwrap();
            v4.send(to, &v4_to(target)).unwrap();
            for target in other_v6 {
                let target = if ours {
                    target.parse().unwrap()
                } else {
                    vip_v6
                };
                v6.send(to, &v6_to(target)).unwrap();
            }
        }
        for (what, send) in [
            (
                "ARP",
                &(|| arp.send(own, &arp_to(vip))) as &dyn Fn() -> io::Result<()>,
            ),
            ("IPv4", &|| v4.send(own, &v4_to(vip))),
            ("IPv6", &|| v6.send(own, &v6_to(vip_v6))),
        ] {
            let listener = listen();
            send().unwrap();
            wait(|| listener.arrived().unwrap().then_some(()));
            // It was behind all the others, so they were judged before. The kernel serves the newest
            // listener first.
            wait(|| nothing.arrived().unwrap().then_some(()));
            assert!(!nothing.arrived().unwrap(), "nothing before {what}");
        }
    });
}

#[test]
fn without_privilege_the_error_says_what_to_do() {
    let source = io::Error::from_raw_os_error(libc::EPERM);
    let problem = VrrpError::Open {
        interface: "eth0".into(),
        source,
    }
    .problem();
    assert_eq!(problem.code, Code::NetPermission);
    assert!(problem.fix.unwrap().text.contains("CAP_NET_RAW"));
    let source = io::Error::from_raw_os_error(libc::ENODEV);
    let problem = VrrpError::Open {
        interface: "eth0".into(),
        source,
    }
    .problem();
    assert_eq!(problem.code, Code::VrrpSocket);
}
