use std::time::{Duration, Instant};

use super::*;
use crate::{
    arp::ArpSocket,
    link::Links,
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

fn open(host: &Namespace) -> VrrpSocket {
    host.run(|| {
        let index = Links::open().unwrap().index("eth0").unwrap();
        VrrpSocket::open("eth0", index).unwrap()
    })
    .unwrap()
}

fn wait<T>(mut take: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(taken) = take() {
            return taken;
        }
        assert!(start.elapsed() < Duration::from_secs(2), "nothing arrived");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_advert_arrives_with_its_header_and_the_stations_address() {
    pair(|a, b| {
        let (sender, mut receiver) = (open(a), open(b));
        let message = [0x31, 7, 100, 1, 0, 100, 0, 0, 10, 20, 14, 10];
        let (mac, packet) = wait(|| {
            // A link that has just come up may still drop what is sent.
            _ = sender.send("10.20.14.1".parse().unwrap(), &message);
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
