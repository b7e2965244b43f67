//! Peers with the same addresses, each in a realm of its own.

use std::num::NonZeroU16;

use super::harness::*;
use crate::{directory::PeerSpec, drops::DropReason, noise::HEAD, realm::Realm, shard::Outcome};

fn realm(number: u16) -> Option<Realm> {
    NonZeroU16::new(number).map(Realm::new)
}

/// Hosts 1 and 2 have the same address at device 3, in realms 1 and 2, and sessions with it.
fn hosts() -> Net {
    let mut net = Net::pair();
    let gateway = "192.0.2.3:3000";
    net.ends.push(End::new(3, gateway));
    let now = net.now;
    for end in &mut net.ends[..2] {
        end.apply(now, vec![spec(3, Some(gateway))]);
    }
    let host = |number: u8| PeerSpec {
        allowed_ips: vec!["10.0.0.7/32".parse().unwrap()],
        realm: realm(number.into()),
        ..spec(number, None)
    };
    net.ends[2].apply(now, vec![host(1), host(2)]);
    for end in 0..2 {
        net.send(end, &packet("10.0.0.7", "10.0.0.3", 100, 1));
    }
    assert_eq!(net.ends[2].delivered.len(), 2);
    net
}

#[test]
fn a_packet_is_of_its_peers_realm_and_one_address_is_two_hosts() {
    let mut net = hosts();
    let now = net.now;
    let mut dst = [0; 2_048];
    for (end, number) in [(0, 1), (1, 2)] {
        let inner = packet("10.0.0.7", "10.0.0.3", 100, 2);
        let sealed = net.ends[end].seal(now, &inner).unwrap();
        let gateway = &mut net.ends[2].shard;
        let outcome = gateway.receive(now, sealed.from, &sealed.bytes, &mut dst);
        let Outcome::Deliver { realm: of, .. } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(of, realm(number));
        let answer = packet("10.0.0.3", "10.0.0.7", 100, 3);
        let mut slot = [0; 2_048];
        slot[HEAD..][..answer.len()].copy_from_slice(&answer);
        let sent = gateway.send_in(now, realm(number), &mut slot, answer.len());
        assert_eq!(sent.unwrap().to, net.ends[end].at, "and back to the same");
    }
}

#[test]
fn nobody_is_reached_from_another_realm() {
    let mut net = hosts();
    let now = net.now;
    let inner = packet("10.0.0.3", "10.0.0.7", 100, 3);
    for from in [None, realm(3)] {
        let mut slot = [0; 2_048];
        slot[HEAD..][..inner.len()].copy_from_slice(&inner);
        let gateway = &mut net.ends[2].shard;
        assert_eq!(gateway.send_in(now, from, &mut slot, inner.len()), None);
    }
    assert_eq!(net.ends[2].drops.of(DropReason::NoPeer), 2);
    // An address of the other realm is no address of this one.
    net.ends[2].apply(now, {
        let host = |number: u8, address: &str| PeerSpec {
            allowed_ips: vec![address.parse().unwrap()],
            realm: realm(number.into()),
            ..spec(number, None)
        };
        vec![host(1, "10.0.0.7/32"), host(2, "10.0.0.8/32")]
    });
    net.ends[2].delivered.clear();
    net.send(1, &packet("10.0.0.7", "10.0.0.3", 100, 1));
    assert_eq!(net.ends[2].delivered.len(), 0);
    assert_eq!(net.ends[2].dropped(2, DropReason::SourceNotAllowed), 1);
}
