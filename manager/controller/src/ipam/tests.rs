use proptest::prelude::*;

use super::*;

fn spec(addresses: &[&str], excluded: &[&str]) -> VipPoolSpec {
    let owned = |list: &[&str]| list.iter().map(|&entry| entry.to_owned()).collect();
    VipPoolSpec {
        addresses: owned(addresses),
        excluded_addresses: owned(excluded),
        prefix: 24,
        gateway: Some("10.0.0.1".parse().unwrap()),
        ..VipPoolSpec::default()
    }
}

fn all(pool: &Pool) -> Vec<String> {
    let mut taken = BTreeSet::new();
    while let Some(address) = pool.lowest_free(|address| taken.contains(&address)) {
        taken.insert(address);
    }
    taken.iter().map(ToString::to_string).collect()
}

#[test]
fn the_lowest_free_address_is_never_the_router_reserved_or_excluded() {
    let pool = Pool::parse(&spec(&["10.0.0.0/29", "10.0.0.2"], &["10.0.0.3-10.0.0.4"])).unwrap();
    assert_eq!(all(&pool), ["10.0.0.2", "10.0.0.5", "10.0.0.6", "10.0.0.7"]);
    assert_eq!(pool.total(), 4);
    assert!(!pool.contains("10.0.0.1".parse().unwrap()));
    let last = Pool::parse(&spec(&["10.0.0.254-10.0.1.1"], &[])).unwrap();
    assert_eq!(all(&last), ["10.0.0.254", "10.0.1.1"]);
    let mut with_reserved = spec(&["10.0.0.255"], &[]);
    assert_eq!(Pool::parse(&with_reserved), Err(BadPool::Empty));
    with_reserved.allocate_reserved = true;
    assert_eq!(all(&Pool::parse(&with_reserved).unwrap()), ["10.0.0.255"]);
}

#[test]
fn what_is_no_pool_is_refused_with_its_reason() {
    let fails = |addresses: &[&str]| Pool::parse(&spec(addresses, &[])).unwrap_err();
    assert_eq!(fails(&["x"]), BadPool::Entry("x".to_owned()));
    assert_eq!(
        fails(&["10.0.0.9-10.0.0.2"]),
        BadPool::Backwards("10.0.0.9-10.0.0.2".to_owned())
    );
    assert_eq!(fails(&["fd00::1"]), BadPool::Family("10.0.0.1".to_owned()));
    let mixed = ["10.0.0.9", "fd00::1"];
    assert_eq!(fails(&mixed), BadPool::Family("fd00::1".to_owned()));
    let across = "10.0.0.9-fd00::1";
    assert_eq!(fails(&[across]), BadPool::Family(across.to_owned()));
    assert_eq!(fails(&["10.0.0.1"]), BadPool::Empty);
    assert_eq!(fails(&[]), BadPool::Empty);
    assert_eq!(fails(&vec!["10.0.0.2"; 1025]), BadPool::Entries);
    let prefix = VipPoolSpec {
        prefix: 33,
        ..spec(&["10.0.0.2"], &[])
    };
    assert_eq!(Pool::parse(&prefix), Err(BadPool::Prefix(33)));
}

#[test]
fn a_pool_of_any_size_is_counted_and_searched_without_being_walked() {
    let large = Pool::parse(&spec(&["10.0.0.0/8"], &[])).unwrap();
    // Of each of 65 536 LANs two addresses are nobody's, and one is the router's.
    assert_eq!(large.total(), (1 << 24) - (2 << 16) - 1);
    let six = VipPoolSpec {
        addresses: vec!["fd00::/64".to_owned(), "fd00:0:0:1::/64".to_owned()],
        excluded_addresses: vec!["fd00::2-fd00::f".to_owned()],
        prefix: 64,
        gateway: Some("fd00::1".parse().unwrap()),
        ..VipPoolSpec::default()
    };
    let pool = Pool::parse(&six).unwrap();
    assert_eq!(pool.family, Family::IPv6);
    let lowest = |taken: &[&str]| {
        let taken: Vec<IpAddr> = taken.iter().map(|it| it.parse().unwrap()).collect();
        let found = pool.lowest_free(|address| taken.contains(&address));
        found.unwrap().to_string()
    };
    assert_eq!(lowest(&[]), "fd00::10");
    assert_eq!(lowest(&["fd00::10"]), "fd00::11");
    let contains = |text: &str| pool.contains(text.parse().unwrap());
    assert!(!contains("fd00::") && !contains("fd00:0:0:1::"), "anycast");
    assert!(
        contains("fd00::ffff:ffff:ffff:ffff"),
        "there is no broadcast"
    );
    assert!(!contains("10.0.0.9") && !contains("fd00:0:0:2::9"));
    assert_eq!(
        pool.total(),
        i64::MAX.unsigned_abs(),
        "as many as can be told"
    );
    let every = VipPoolSpec {
        addresses: vec!["::/0".to_owned()],
        prefix: 128,
        ..VipPoolSpec::default()
    };
    assert_eq!(
        Pool::parse(&every).unwrap().total(),
        i64::MAX.unsigned_abs()
    );
    let few = VipPoolSpec {
        addresses: vec!["fd00::-fd00::7".to_owned()],
        prefix: 126,
        ..VipPoolSpec::default()
    };
    assert_eq!(Pool::parse(&few).unwrap().total(), 6);
}

#[test]
fn a_vrid_is_derived_and_steps_aside_for_a_taken_one() {
    let address: IpAddr = "10.20.14.10".parse().unwrap();
    let derived = Vrid::derive(address);
    assert_eq!(choose_vrid(address, None, &BTreeSet::new()), Some(derived));
    let other = choose_vrid(address, None, &BTreeSet::from([derived])).unwrap();
    assert_ne!(other, derived);
    let small = VridRange {
        from: Vrid::new(7).unwrap(),
        to: Vrid::new(8).unwrap(),
    };
    let seven = BTreeSet::from([Vrid::new(7).unwrap()]);
    assert_eq!(choose_vrid(address, Some(small), &seven), Vrid::new(8).ok());
    let both = (7..=8).map(|vrid| Vrid::new(vrid).unwrap()).collect();
    assert_eq!(choose_vrid(address, Some(small), &both), None);
    let every = (1..=255).map(|vrid| Vrid::new(vrid).unwrap()).collect();
    assert_eq!(choose_vrid(address, None, &every), None);
}

proptest! {
    #[test]
    fn ranges_hold_what_was_given_less_what_was_excluded(
        given in prop::collection::vec((0_u8..40, 0_u8..40), 1..6),
        excluded in prop::collection::vec((0_u8..40, 0_u8..40), 0..6),
    ) {
        let text = |(a, b): &(u8, u8)| format!("10.0.0.{}-10.0.0.{}", a.min(b), a.max(b));
        let inside = |n: u8, (a, b): &(u8, u8)| (*a.min(b)..=*a.max(b)).contains(&n);
        let spec = VipPoolSpec {
            addresses: given.iter().map(text).collect(),
            excluded_addresses: excluded.iter().map(text).collect(),
            prefix: 24,
            ..VipPoolSpec::default()
        };
        let wanted: Vec<String> = (1..=254_u8)
            .filter(|n| given.iter().any(|range| inside(*n, range)))
            .filter(|n| !excluded.iter().any(|range| inside(*n, range)))
            .map(|n| format!("10.0.0.{n}"))
            .collect();
        match Pool::parse(&spec) {
            Ok(pool) => {
                let mut found = all(&pool);
                found.sort_by_key(|text| text.parse::<Ipv4Addr>().unwrap());
                prop_assert_eq!(pool.total(), wanted.len() as u64);
                prop_assert_eq!(found, wanted);
            }
            Err(error) => {
                prop_assert_eq!(error, BadPool::Empty);
                prop_assert!(wanted.is_empty());
            }
        }
    }
}
