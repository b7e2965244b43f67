use super::*;

fn member(host: &str) -> Member {
    Member {
        host: host.to_owned(),
        address: "fd6b:6564:6765::a".parse().unwrap(),
        port: 6443,
        draining: false,
    }
}

fn liveness(alive: bool, because: &str) -> Liveness {
    Liveness {
        alive,
        because: because.to_owned(),
    }
}

fn pool(hosts: &[&str]) -> Pool {
    let known = hosts
        .iter()
        .map(|host| ((*host).to_owned(), liveness(true, "data 1 s ago")))
        .collect();
    let mut pool = Pool::default();
    pool.set(hosts.iter().map(|host| member(host)).collect(), &known);
    pool
}

fn chosen(pool: &mut Pool, tried: &[Member]) -> Option<String> {
    pool.choose(tried).map(|member| member.host)
}

#[test]
fn equals_take_turns_and_the_least_loaded_is_next() {
    let mut pool = pool(&["a", "b", "c"]);
    let mut order = String::new();
    for _ in 0..6 {
        order += &chosen(&mut pool, &[]).unwrap();
    }
    assert_eq!(order, "abcabc");
    pool.closed(&member("b"));
    pool.closed(&member("b"));
    assert_eq!(chosen(&mut pool, &[]).unwrap(), "b");
    assert_eq!(chosen(&mut pool, &[]).unwrap(), "b");
    assert_eq!(chosen(&mut pool, &[]).unwrap(), "c");
}

#[test]
fn connections_that_end_at_once_are_spread_too() {
    let mut pool = pool(&["a", "b", "c"]);
    let mut order = String::new();
    for _ in 0..6 {
        let host = chosen(&mut pool, &[]).unwrap();
        pool.closed(&member(&host));
        order += &host;
    }
    assert_eq!(order, "abcabc");
}

#[test]
fn a_refusing_member_gets_nothing_until_a_connect_works() {
    let mut pool = pool(&["a", "b"]);
    pool.refused(&member("a"), "connection refused".to_owned());
    assert_eq!(pool.to_probe(), [member("a")]);
    for _ in 0..3 {
        assert_eq!(chosen(&mut pool, &[]).unwrap(), "b");
    }
    let status = pool.status();
    assert!(!status[0].alive);
    assert_eq!(status[0].because, "connection refused");
    pool.answered(&member("a"));
    assert!(pool.to_probe().is_empty());
    assert_eq!(chosen(&mut pool, &[]).unwrap(), "a");
}

#[test]
fn a_host_that_returns_is_forgiven_its_refusal() {
    let mut pool = pool(&["a", "b"]);
    pool.heard("b", &liveness(false, "no data for 3 s"));
    pool.refused(&member("a"), "connection refused".to_owned());
    pool.heard("a", &liveness(true, "data 2 s ago"));
    assert_eq!(chosen(&mut pool, &[]), None, "still alive is no news");
    pool.heard("a", &liveness(false, "no data for 3 s"));
    assert!(
        pool.to_probe().is_empty(),
        "a host without tunnel is not probed"
    );
    assert_eq!(pool.status()[0].because, "no data for 3 s");
    pool.heard("a", &liveness(true, "data again"));
    assert_eq!(chosen(&mut pool, &[]).unwrap(), "a");
}

#[test]
fn the_only_member_is_chosen_whatever_its_last_connect_said_unless_its_host_is_dead() {
    // Members as they stand: whether the host lives, whether a connect failed, whether it is being
    // left; and whom a client is led to.
    type Standing = (bool, bool, bool);
    let table: [(&[Standing], Option<&str>); 12] = [
        (&[], None),
        (&[(true, false, false)], Some("a")),
        (&[(true, true, false)], Some("a")),
        (&[(false, false, false)], None),
        (&[(false, true, false)], None),
        (&[(true, false, true)], None),
        (&[(true, true, true)], None),
        // One that is left does not count: whoever takes its place is the first again.
        (&[(true, true, false), (true, false, true)], Some("a")),
        (&[(false, true, false), (true, false, true)], None),
        // Of two the checks decide, and if one of them is on a dead host.
        (&[(true, true, false), (true, true, false)], None),
        (&[(true, true, false), (true, false, false)], Some("b")),
        (&[(true, true, false), (false, false, false)], None),
    ];
    for (members, wanted) in table {
        let mut pool = Pool::default();
        let names = ["a", "b"].into_iter().zip(members);
        let told = names.clone().map(|(host, (_, _, draining))| Member {
            draining: *draining,
            ..member(host)
        });
        pool.set(told.collect(), &Hosts::new());
        for (host, (alive, refused, _)) in names {
            pool.heard(host, &liveness(*alive, "told"));
            if *refused {
                assert!(pool.refused(&member(host), "connection refused".to_owned()));
                assert!(!pool.refused(&member(host), "again".to_owned()), "no news");
            }
        }
        assert_eq!(chosen(&mut pool, &[]).as_deref(), wanted, "{members:?}");
        if let Some(host) = wanted {
            assert!(pool.takes(&member(host)), "{members:?}");
            assert_eq!(chosen(&mut pool, &[member(host)]), None, "{members:?}");
        }
    }
}

#[test]
fn the_only_member_is_still_said_to_refuse_and_asked_whether_it_does() {
    let mut pool = pool(&["a"]);
    pool.refused(&member("a"), "connection refused".to_owned());
    assert_eq!(pool.to_probe(), [member("a")]);
    assert!(!pool.any_alive());
    assert_eq!(pool.status()[0].because, "connection refused");
    // A second one ends it: from here on checks decide.
    let hosts: Hosts = [("b".to_owned(), liveness(true, "data"))].into();
    pool.set(vec![member("a"), member("b")], &hosts);
    assert_eq!(chosen(&mut pool, &[]).unwrap(), "b");
    assert_eq!(chosen(&mut pool, &[]).unwrap(), "b");
}

#[test]
fn a_member_that_is_left_gets_nothing_new_and_keeps_what_it_has() {
    let mut pool = pool(&["a", "b"]);
    for _ in 0..4 {
        chosen(&mut pool, &[]).unwrap();
    }
    let left = |host: &str| Member {
        draining: true,
        ..member(host)
    };
    let hosts = Hosts::new();
    pool.set(vec![left("a"), member("b")], &hosts);
    for _ in 0..3 {
        assert_eq!(chosen(&mut pool, &[]).unwrap(), "b");
    }
    assert!(pool.takes(&member("a")), "its sessions go on");
    let status = pool.status();
    assert!(status[0].alive && status[0].because.contains("being left"));
    pool.set(vec![left("a"), left("b")], &hosts);
    assert!(!pool.any_alive());
    assert_eq!(chosen(&mut pool, &[]), None);
    // It comes back with the two it has, beside five of the other one.
    pool.set(vec![member("a"), member("b")], &hosts);
    let next: String = (0..3).map(|_| chosen(&mut pool, &[]).unwrap()).collect();
    assert_eq!(next, "aaa");
}

#[test]
fn tried_members_are_not_chosen_again() {
    let mut pool = pool(&["a", "b"]);
    assert_eq!(chosen(&mut pool, &[member("a")]).unwrap(), "b");
    assert_eq!(chosen(&mut pool, &[member("a"), member("b")]), None);
    assert_eq!(chosen(&mut Pool::default(), &[]), None);
}

#[test]
fn unknown_hosts_are_dead_and_say_why() {
    let mut pool = Pool::default();
    pool.set(vec![member("a"), member("a")], &Hosts::new());
    assert_eq!(pool.status().len(), 1, "a member stands once");
    assert!(!pool.any_alive());
    assert!(pool.status()[0].because.contains("nothing was heard"));
}

#[test]
fn members_that_stay_keep_what_is_known_of_them() {
    let mut pool = pool(&["a", "b"]);
    assert_eq!(chosen(&mut pool, &[]).unwrap(), "a");
    pool.refused(&member("b"), "connection refused".to_owned());
    let known: Hosts = [("c".to_owned(), liveness(true, "data"))].into();
    pool.set(vec![member("c"), member("b"), member("a")], &known);
    assert_eq!(pool.to_probe(), [member("b")]);
    assert_eq!(
        chosen(&mut pool, &[]).unwrap(),
        "c",
        "a has an open connection"
    );
}

#[test]
fn a_member_that_comes_back_still_has_the_connections_it_left_open() {
    let mut pool = pool(&["a", "b"]);
    let known: Hosts = ["a", "b"]
        .map(|host| (host.to_owned(), liveness(true, "data")))
        .into();
    for _ in 0..6 {
        chosen(&mut pool, &[]).unwrap();
    }
    pool.set(vec![member("b")], &known);
    pool.closed(&member("a"));
    pool.set(vec![member("b"), member("a")], &known);
    // Two of a's three are open, and b's three.
    let next: String = (0..3).map(|_| chosen(&mut pool, &[]).unwrap()).collect();
    assert_eq!(next.matches('a').count(), 2, "{next}");
    for _ in 0..4 {
        pool.closed(&member("a"));
    }
    pool.set(vec![member("b")], &known);
    pool.set(vec![member("b"), member("a")], &known);
    let next: String = (0..4).map(|_| chosen(&mut pool, &[]).unwrap()).collect();
    assert_eq!(next, "aaaa", "all of a's have ended, b has four");
}
