use proptest::prelude::*;

use super::*;

fn key(byte: u8) -> PublicKey {
    PublicKey::from_bytes([byte; 32]).unwrap()
}

fn peer(number: u8) -> PeerSpec {
    PeerSpec {
        name: format!("peer-{number}"),
        public_key: key(number),
        preshared_key: None,
        endpoint: None,
        allowed_ips: vec![format!("10.0.0.{number}/32").parse().unwrap()],
        keepalive: None,
        always_up: false,
        accepts: Vec::new(),
        relays: false,
        realm: None,
        next_key: None,
    }
}

fn directory(peers: Vec<PeerSpec>) -> Directory {
    let mut directory = Directory::new(key(255));
    let change = directory.plan(peers).unwrap();
    directory.commit(&change);
    directory
}

#[test]
fn a_new_endpoint_keeps_the_peer_and_says_so() {
    let directory = directory(vec![peer(1), peer(2)]);
    let moved = PeerSpec {
        endpoint: Some("192.0.2.1:1".parse().unwrap()),
        ..peer(1)
    };
    let change = directory.plan(vec![moved, peer(2)]).unwrap();
    assert!(change.add.is_empty() && change.remove.is_empty());
    let [update] = change.update.as_slice() else {
        panic!("{change:?}")
    };
    assert!(update.endpoint_changed);
    assert!(Arc::ptr_eq(
        &update.entry.counters,
        &directory.find("peer-1").unwrap().counters
    ));
    let quiet = PeerSpec {
        keepalive: Some(Duration::from_secs(25)),
        ..peer(1)
    };
    let change = directory.plan(vec![quiet, peer(2)]).unwrap();
    assert!(!change.update[0].endpoint_changed);
}

#[test]
fn who_announced_a_key_is_the_same_peer_with_that_key_alone() {
    let next = |number: u8, next: Option<u8>| PeerSpec {
        next_key: next.map(|next| Box::new(key(next))),
        ..peer(number)
    };
    let mut directory = directory(vec![peer(1), peer(2)]);
    let before = directory.find("peer-1").unwrap().clone();
    let renewed = PeerSpec {
        public_key: key(11),
        ..peer(1)
    };
    for step in [next(1, Some(11)), renewed.clone()] {
        let change = directory.plan(vec![step, peer(2)]).unwrap();
        assert!(
            change.add.is_empty() && change.remove.is_empty(),
            "{change:?}"
        );
        assert_eq!(change.update.len(), 1);
        directory.commit(&change);
        let now = directory.find("peer-1").unwrap();
        assert_eq!(now.id, before.id);
        assert!(Arc::ptr_eq(&now.counters, &before.counters));
    }
    assert!(directory.get(&key(1)).is_none());
    assert_eq!(directory.entries().count(), 2);
    // The state of before, from a disk.
    let change = directory.plan(vec![next(1, Some(11)), peer(2)]).unwrap();
    assert!(
        change.add.is_empty() && change.remove.is_empty(),
        "{change:?}"
    );
    // A key that nobody announced is another peer's.
    let other = PeerSpec {
        public_key: key(12),
        ..peer(1)
    };
    let change = directory.plan(vec![other, peer(2)]).unwrap();
    assert_eq!((change.add.len(), change.remove.len()), (1, 1));
    // And nobody announces somebody else's.
    let both = directory.plan(vec![renewed, next(2, Some(11))]);
    assert!(matches!(both, Err(PlanError::DuplicateKey(..))));
    let own = directory.plan(vec![next(2, Some(255))]);
    assert!(matches!(own, Err(PlanError::OwnKey(_))));
}

#[test]
fn a_prefix_of_two_gateways_goes_through_one_and_is_accepted_from_both() {
    let behind: IpNet = "10.9.0.0/24".parse().unwrap();
    let server: std::net::IpAddr = "10.9.0.5".parse().unwrap();
    let active = |number| {
        let mut spec = peer(number);
        spec.allowed_ips.push(behind);
        spec
    };
    let standby = |number| PeerSpec {
        accepts: vec![behind],
        ..peer(number)
    };
    let mut directory = directory(vec![active(1), standby(2), peer(3)]);
    let id = |directory: &Directory, number| directory.get(&key(number)).unwrap().id;
    let ids = [1, 2, 3].map(|number| id(&directory, number));
    let flip = directory
        .plan(vec![standby(1), active(2), peer(3)])
        .unwrap();
    assert_eq!(flip.update.len(), 2, "those two alone, and in one change");
    assert!(flip.add.is_empty() && flip.remove.is_empty());
    let routes = flip.table.clone().unwrap();
    assert_eq!(routes.to(None, server), Some(ids[1]));
    let accepted = ids.map(|peer| routes.accept(None, server, peer));
    assert_eq!(accepted, [true, true, false]);
    // What is a gateway's alone stays so.
    let own = "10.0.0.1".parse().unwrap();
    let accepted = ids.map(|peer| routes.accept(None, own, peer));
    assert_eq!(accepted, [true, false, false]);
    directory.commit(&flip);
    let again = directory.plan(vec![standby(1), active(2), peer(3)]);
    assert!(again.unwrap().is_empty());
}

#[test]
fn a_prefix_moves_from_one_peer_to_another_in_one_change() {
    let directory = directory(vec![peer(1), peer(2)]);
    let taken = PeerSpec {
        allowed_ips: peer(1).allowed_ips,
        ..peer(2)
    };
    let without = PeerSpec {
        allowed_ips: Vec::new(),
        ..peer(1)
    };
    let change = directory.plan(vec![without, taken]).unwrap();
    let table = change.table.unwrap();
    let owner = table.to(None, "10.0.0.1".parse().unwrap());
    assert_eq!(owner, Some(directory.find("peer-2").unwrap().id));
    assert_eq!(table.to(None, "10.0.0.2".parse().unwrap()), None);
}

#[test]
fn peers_of_two_realms_may_have_one_prefix_and_whoever_changes_realm_is_somebody_else() {
    let realm = |number| std::num::NonZeroU16::new(number).map(Realm::new);
    let of = |number, its| PeerSpec {
        allowed_ips: peer(1).allowed_ips,
        realm: realm(its),
        ..peer(number)
    };
    let directory = directory(vec![of(1, 1), of(2, 2), of(3, 0)]);
    let again = directory.plan(vec![of(1, 1), of(2, 2), of(3, 0)]).unwrap();
    assert!(again.is_empty());
    let same = directory.plan(vec![of(1, 1), of(2, 1)]);
    assert!(matches!(same, Err(PlanError::DuplicatePrefix { .. })));
    let moved = directory.plan(vec![of(1, 1), of(2, 4), of(3, 0)]).unwrap();
    assert_eq!((moved.remove.len(), moved.add.len()), (1, 1));
    let table = moved.table.unwrap();
    let address = "10.0.0.1".parse().unwrap();
    let of = |number| table.to(realm(number), address);
    assert_eq!(of(2), None, "nobody is there any more");
    assert_eq!(of(4), Some(moved.add[0].id));
    assert!(of(0).is_some() && of(0) != of(1));
}

#[test]
fn peers_that_do_not_go_together_are_refused_by_name() {
    let directory = directory(vec![]);
    let twice = PeerSpec {
        public_key: key(9),
        allowed_ips: Vec::new(),
        ..peer(1)
    };
    let same_key = PeerSpec {
        public_key: key(1),
        ..peer(2)
    };
    let same_prefix = PeerSpec {
        allowed_ips: peer(1).allowed_ips,
        ..peer(2)
    };
    let own = PeerSpec {
        public_key: key(255),
        ..peer(1)
    };
    for (second, error) in [
        (twice, PlanError::DuplicateName("peer-1".into())),
        (
            same_key,
            PlanError::DuplicateKey("peer-1".into(), "peer-2".into()),
        ),
        (
            same_prefix,
            PlanError::DuplicatePrefix {
                prefix: "10.0.0.1/32".parse().unwrap(),
                first: "peer-1".into(),
                second: "peer-2".into(),
            },
        ),
        (own, PlanError::OwnKey("peer-1".into())),
    ] {
        assert_eq!(directory.plan(vec![peer(1), second]).unwrap_err(), error);
        assert!(!error.problem().evidence.is_empty());
    }
}

#[test]
fn a_tunnel_that_would_swallow_its_own_datagrams_is_refused() {
    let directory = directory(vec![]);
    for prefix in ["0.0.0.0/0", "::/0"] {
        let all = PeerSpec {
            allowed_ips: vec![prefix.parse().unwrap()],
            ..peer(1)
        };
        let error = directory.plan(vec![all]).unwrap_err();
        assert!(matches!(error, PlanError::Everything { .. }), "{error:?}");
        assert_eq!(error.problem().code, Code::TunOutsideBounds);
    }
    let inside = PeerSpec {
        endpoint: Some("10.0.0.2:51820".parse().unwrap()),
        ..peer(1)
    };
    let error = directory.plan(vec![inside, peer(2)]).unwrap_err();
    assert!(error.to_string().contains("10.0.0.2/32"), "{error}");
}

#[test]
fn another_preshared_key_is_a_change_of_the_peer_that_stays() {
    let directory = directory(vec![peer(1), peer(2)]);
    let shared = PeerSpec {
        preshared_key: PresharedKey::from_bytes([1; 32]),
        ..peer(1)
    };
    let change = directory.plan(vec![shared, peer(2)]).unwrap();
    assert!(change.add.is_empty() && change.remove.is_empty());
    let [update] = change.update.as_slice() else {
        panic!("{change:?}")
    };
    assert!(update.preshared_key_changed && !update.endpoint_changed);
}

#[test]
fn without_rules_peers_may_have_everything_and_lie_anywhere() {
    let mut directory = Directory::unruled();
    let all = PeerSpec {
        endpoint: Some("10.0.0.2:1".parse().unwrap()),
        allowed_ips: vec!["0.0.0.0/0".parse().unwrap()],
        ..peer(1)
    };
    let change = directory.plan(vec![all.clone()]).unwrap();
    directory.commit(&change);
    let id = directory.find("peer-1").unwrap().id;
    let owner = change.table.unwrap().to(None, "192.0.2.1".parse().unwrap());
    assert_eq!(owner, Some(id));
    assert!(directory.plan(vec![all.clone()]).unwrap().is_empty());
    // It was heard from elsewhere since; only naming another place moves it.
    let elsewhere = "192.0.2.7:7".parse().ok();
    let entry = directory.find("peer-1").unwrap();
    entry.counters.set_endpoint(elsewhere);
    directory.settle_endpoints();
    let there = PeerSpec {
        endpoint: elsewhere,
        ..all.clone()
    };
    assert!(directory.plan(vec![there]).unwrap().is_empty());
    assert!(directory.plan(vec![all]).unwrap().update[0].endpoint_changed);
}

proptest! {
    #[test]
    fn applying_a_plan_leaves_nothing_to_change(
        before in prop::collection::btree_set(1_u8..30, 0..12),
        after in prop::collection::btree_set(1_u8..30, 0..12),
        moved: u32,
    ) {
        let mut directory = directory(before.iter().copied().map(peer).collect());
        let wanted: Vec<PeerSpec> = after
            .iter()
            .map(|number| PeerSpec { always_up: moved >> (number % 32) & 1 == 1, ..peer(*number) })
            .collect();
        let change = directory.plan(wanted.clone()).unwrap();
        directory.commit(&change);
        prop_assert!(directory.plan(wanted.clone()).unwrap().is_empty());
        let ids: BTreeSet<PeerId> = directory.entries().map(|entry| entry.id).collect();
        prop_assert_eq!(ids.len(), after.len(), "numbers are unique");
        prop_assert!(ids.iter().all(|id| id.0 < 30), "and small");
        let specs: BTreeSet<u8> =
            directory.entries().map(|entry| entry.spec.public_key.as_bytes()[0]).collect();
        prop_assert_eq!(specs, after);
        if let Some(table) = change.table {
            for entry in directory.entries() {
                let address = entry.spec.allowed_ips[0].addr();
                prop_assert_eq!(table.to(None, address), Some(entry.id));
            }
        }
    }
}
