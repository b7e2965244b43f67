use std::time::Duration;

use proptest::{collection, option, prelude::*, sample::select};

use super::*;

/// What the kernel makes of a change (`drivers/net/wireguard/netlink.c`), and what it took from whom on the
/// way: `wg_set_device` takes the device first, then peer by peer.
fn set_device(observed: &mut Observed, set: &Set, mut after_each: impl FnMut(&Observed)) {
    if let Some(key) = &set.private_key {
        observed.private_key = Some(key.clone());
        let own = PrivateKey::from_bytes(*key.expose()).unwrap().public();
        observed.public_key = Some(*own.as_bytes());
        observed
            .peers
            .retain(|peer| peer.public_key != *own.as_bytes());
    }
    observed.listen_port = set.listen_port.unwrap_or(observed.listen_port);
    observed.fwmark = set.fwmark.unwrap_or(observed.fwmark);
    for change in &set.peers {
        set_peer(observed, change);
        after_each(observed);
    }
}

fn set_peer(observed: &mut Observed, set: &PeerSet) {
    let at = observed
        .peers
        .iter()
        .position(|peer| peer.public_key == set.public_key);
    if set.remove {
        observed
            .peers
            .retain(|peer| peer.public_key != set.public_key);
        return;
    }
    if at.is_none() && set.update_only {
        return;
    }
    for prefix in &set.allowed_ips {
        for peer in &mut observed.peers {
            peer.allowed_ips.retain(|known| known != prefix);
        }
    }
    if at.is_none() {
        observed.peers.push(ObservedPeer {
            public_key: set.public_key,
            ..ObservedPeer::default()
        });
    }
    let mut peers = observed.peers.iter_mut();
    let peer = peers
        .find(|peer| peer.public_key == set.public_key)
        .unwrap();
    if set.replace_allowed_ips {
        peer.allowed_ips.clear();
    }
    peer.allowed_ips.extend(&set.allowed_ips);
    if let Some(key) = &set.preshared_key {
        peer.preshared_key.clone_from(key);
    }
    peer.endpoint = set.endpoint.or(peer.endpoint);
    peer.keepalive = set.keepalive.unwrap_or(peer.keepalive);
}

fn key(number: u8) -> PrivateKey {
    PrivateKey::from_random([number; 32])
}

fn spec(number: u8) -> PeerSpec {
    PeerSpec {
        name: format!("peer-{number}"),
        public_key: key(number).public(),
        preshared_key: None,
        endpoint: None,
        allowed_ips: Vec::new(),
        keepalive: None,
        always_up: false,
        accepts: Vec::new(),
        relays: false,
        realm: None,
        next_key: None,
    }
}

fn net(number: u8) -> IpNet {
    match number % 2 {
        0 => format!("10.9.{number}.0/24").parse().unwrap(),
        _ => format!("fd00::{number}/128").parse().unwrap(),
    }
}

fn endpoint() -> impl Strategy<Value = Option<SocketAddr>> {
    option::of(select(vec!["203.0.113.7:1", "[fd00::7]:2"]).prop_map(|text| text.parse().unwrap()))
}

fn preshared_key() -> impl Strategy<Value = Option<[u8; 32]>> {
    option::of((1_u8..3).prop_map(|byte| [byte; 32]))
}

/// Peers of a small world, so that they meet.
fn specs() -> impl Strategy<Value = Vec<PeerSpec>> {
    let one = (preshared_key(), endpoint(), option::of(1_u64..3));
    let owners = collection::vec(option::of(2_u8..7), 8);
    (collection::btree_map(2_u8..7, one, 0..5), owners).prop_map(|(peers, owners)| {
        peers
            .into_iter()
            .map(|(number, (psk, endpoint, keepalive))| PeerSpec {
                preshared_key: psk.and_then(kedge_tunnel_proto::keys::PresharedKey::from_bytes),
                endpoint,
                keepalive: keepalive.map(Duration::from_secs),
                allowed_ips: (0_u8..8)
                    .filter(|at| owners[usize::from(*at)] == Some(number))
                    .map(net)
                    .collect(),
                ..spec(number)
            })
            .collect()
    })
}

/// A device that anybody may have touched.
fn observed() -> impl Strategy<Value = Observed> {
    (
        specs(),
        option::of(Just(1_u8)),
        0_u16..3,
        0_u32..2,
        any::<bool>(),
    )
        .prop_map(|(peers, own, port, mark, nobody)| {
            let mut observed = Observed {
                private_key: own.and_then(|own| SecretKey::from_bytes(key(own).expose())),
                listen_port: port,
                fwmark: mark,
                ..Observed::default()
            };
            let peers = peers.iter().map(|spec| new(spec, &prefixes(spec)));
            let left = nobody.then(|| PeerSet {
                allowed_ips: vec![net(9)],
                ..PeerSet::of(NOBODY)
            });
            let peers = peers.chain(left).collect();
            let set = Set {
                peers,
                ..Set::default()
            };
            set_device(&mut observed, &set, |_| ());
            observed
        })
}

proptest! {
    #[test]
    fn once_applied_there_is_nothing_left_to_do_and_nobody_lost_anything(
        mut observed in observed(),
        wishes in collection::vec(specs(), 1..4),
        port in 0_u16..3,
        roams: bool,
    ) {
        let own = key(1);
        let mut placed = BTreeMap::new();
        for peers in &wishes {
            let wanted = Wanted { key: &own, port, peers: peers.iter().collect(), placed: &placed };
            let (set, diff) = diff(&wanted, &observed);
            prop_assert_eq!(set.is_empty(), diff.is_empty());
            let before = observed.clone();
            let keep: Vec<_> = before.peers.iter().filter_map(|peer| {
                let spec = peers.iter().find(|spec| *spec.public_key.as_bytes() == peer.public_key)?;
                let kept: Vec<IpNet> = prefixes(spec).into_iter()
                    .filter(|net| peer.allowed_ips.contains(net)).collect();
                Some((peer.public_key, kept))
            }).collect();
            for change in &set.peers {
                let stays = keep.iter().any(|(key, _)| *key == change.public_key);
                prop_assert!(!stays || !(change.remove || change.replace_allowed_ips));
            }
            set_device(&mut observed, &set, |now| {
                for (key, kept) in &keep {
                    let peer = now.peers.iter().find(|peer| peer.public_key == *key).unwrap();
                    assert!(kept.iter().all(|net| peer.allowed_ips.contains(net)), "at every step");
                }
            });
            placed = peers.iter().map(|spec| (spec.public_key, spec.endpoint)).collect();
            if roams && let Some(peer) = observed.peers.first_mut() {
                peer.endpoint = Some("198.51.100.9:9".parse().unwrap());
            }
            let wanted = Wanted { key: &own, port, peers: peers.iter().collect(), placed: &placed };
            let (again, left) = super::diff(&wanted, &observed);
            prop_assert!(again.is_empty() && left.is_empty(), "{:?}", again);
            prop_assert_eq!(observed.peers.len(), peers.len());
            for spec in peers {
                let peer = observed.peers.iter()
                    .find(|peer| peer.public_key == *spec.public_key.as_bytes()).unwrap();
                let has: BTreeSet<IpNet> = peer.allowed_ips.iter().copied().collect();
                prop_assert_eq!(has, prefixes(spec));
                prop_assert_eq!(&peer.preshared_key, &super::preshared_key(spec));
                prop_assert_eq!(peer.keepalive, keepalive(spec));
            }
        }
    }
}

#[test]
fn who_is_there_already_is_not_touched() {
    let own = key(1);
    let mut observed = Observed::default();
    let a = PeerSpec {
        endpoint: Some("203.0.113.7:1".parse().unwrap()),
        allowed_ips: vec![net(0), net(1)],
        ..spec(2)
    };
    let b = PeerSpec {
        allowed_ips: vec![net(2)],
        ..spec(3)
    };
    let placed = BTreeMap::new();
    let plan = |peers: Vec<&PeerSpec>, placed: &BTreeMap<_, _>, observed: &Observed| {
        let wanted = Wanted {
            key: &own,
            port: 0,
            peers,
            placed,
        };
        diff(&wanted, observed)
    };
    let (set, told) = plan(vec![&a, &b], &placed, &observed);
    assert_eq!(told.added, [a.public_key, b.public_key]);
    assert!(told.device);
    set_device(&mut observed, &set, |_| ());
    let placed: BTreeMap<_, _> = [&a, &b].map(|it| (it.public_key, it.endpoint)).into();

    // A prefix moves: one change of who gets it, none of who loses it.
    let (less, more) = (
        PeerSpec {
            allowed_ips: vec![net(0)],
            ..a.clone()
        },
        PeerSpec {
            allowed_ips: vec![net(1), net(2)],
            ..b.clone()
        },
    );
    let (set, told) = plan(vec![&less, &more], &placed, &observed);
    let expected = PeerSet {
        update_only: true,
        allowed_ips: vec![net(1)],
        ..PeerSet::of(*b.public_key.as_bytes())
    };
    assert_eq!(set.peers, [expected]);
    assert_eq!(told.changed, [a.public_key, b.public_key]);

    // A prefix goes: it is given to nobody.
    let (set, told) = plan(vec![&less, &b], &placed, &observed);
    let nobody = PeerSet {
        allowed_ips: vec![net(1)],
        ..PeerSet::of(NOBODY)
    };
    assert_eq!(set.peers, [nobody, gone(NOBODY)]);
    assert_eq!(told.changed, [a.public_key]);

    // Where a peer has roamed to it stays, until it is wanted elsewhere.
    observed.peers[0].endpoint = Some("198.51.100.9:9".parse().unwrap());
    let (set, _) = plan(vec![&a, &b], &placed, &observed);
    assert!(set.is_empty(), "{set:?}");
    let elsewhere = PeerSpec {
        endpoint: Some("203.0.113.8:1".parse().unwrap()),
        ..a.clone()
    };
    let (set, _) = plan(vec![&elsewhere, &b], &placed, &observed);
    assert_eq!(set.peers.len(), 1);
    assert_eq!(set.peers[0].endpoint, elsewhere.endpoint);
    // Whoever takes a device over does not know where peers were wanted.
    let (set, _) = plan(vec![&a, &b], &BTreeMap::new(), &observed);
    assert_eq!(set.peers[0].endpoint, a.endpoint);
}

#[test]
fn nobody_can_be_the_peer_that_takes_what_nobody_is_to_have() {
    // X25519 of a point of small order is zero, whatever the key: no handshake completes.
    let nobody = PublicKey::from_bytes(NOBODY).unwrap();
    for number in 1..9 {
        assert_ne!(key(number).public(), nobody);
    }
    let mine =
        aws_lc_rs::agreement::PrivateKey::from_private_key(&aws_lc_rs::agreement::X25519, &[7; 32])
            .unwrap();
    let theirs =
        aws_lc_rs::agreement::UnparsedPublicKey::new(&aws_lc_rs::agreement::X25519, NOBODY);
    let shared = aws_lc_rs::agreement::agree(&mine, theirs, (), |_| Ok(()));
    assert!(shared.is_err(), "an all-zero secret is refused");
}
