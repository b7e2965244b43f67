use kedge_control::frontend::{Frontend, Health, PoolMember};

use super::*;

const HEALTH: Health = Health {
    interval_seconds: 1.0,
    timeout_seconds: 0.5,
    fall: 2,
    rise: 2,
};

/// A pool with these members, and its frontend.
fn add(offer: &mut Offer, name: &str, members: &[(&str, u16)]) {
    let member = |(host, port): &(&str, u16)| PoolMember {
        host: (*host).to_owned(),
        address: [198, 18, 0, host.bytes().last().unwrap()].into(),
        port: (*port).try_into().unwrap(),
        weight: 1,
        draining: false,
    };
    offer.pools.push(Pool {
        name: name.to_owned(),
        tenant: "t".to_owned(),
        members: members.iter().map(member).collect(),
        health: Some(HEALTH),
        ..Pool::default()
    });
    offer.frontends.push(Frontend {
        name: format!("t/{name}"),
        tenant: "t".to_owned(),
        address: [203, 0, 113, 7].into(),
        port: 80.try_into().unwrap(),
        protocol: Protocol::Tcp,
        pool: name.to_owned(),
        client_ip: ClientIp::Hidden,
        source_ranges: Vec::new(),
    });
}

/// An offer with so many checks of two hosts; port 80 of each stands for it.
fn many(count: u16) -> Offer {
    let mut offer = Offer::default();
    add(&mut offer, "web", &[("a", 80), ("b", 80)]);
    add(&mut offer, "same", &[("a", 80), ("b", 80)]);
    let fill: Vec<(&str, u16)> = (4..count).map(|port| ("a", 1_000 + port)).collect();
    add(&mut offer, "fill", &fill);
    offer
}

fn relaxed() -> Machine {
    let mut machine = Machine::default();
    assert_eq!(machine.want(&many(1_001)), Vec::<String>::new());
    machine
}

/// A round of all hosts, of which these answer.
fn round(machine: &mut Machine, answer: &[&str]) -> Vec<String> {
    let asked = machine.asked();
    let asked = asked.map(|(host, at)| Answer {
        host: host.clone(),
        at,
        answered: answer.contains(&host.as_str()),
    });
    let asked = asked.collect();
    machine.hear(asked)
}

#[test]
fn below_the_bound_nobody_is_asked_and_it_is_not_crossed_back_and_forth() {
    let mut machine = Machine::default();
    for (count, is_relaxed) in [
        (1_000, false),
        (1_001, true),
        (1_000, true),
        (801, true),
        (800, false),
        (1_000, false),
    ] {
        machine.want(&many(count));
        assert_eq!(machine.is_relaxed(), is_relaxed, "{count}");
        assert_eq!(machine.asked().count(), if is_relaxed { 2 } else { 0 });
    }
    // What nobody checks does not count, and neither does a pool that nobody leads to.
    let mut offer = many(1_001);
    offer.pools[2].health = None;
    machine.want(&offer);
    assert!(!machine.is_relaxed());
    let mut offer = many(1_001);
    offer.frontends.pop();
    machine.want(&offer);
    assert!(!machine.is_relaxed());
}

#[test]
fn a_pool_counts_once_for_each_cluster_that_it_is_in() {
    let mut offer = Offer::default();
    add(&mut offer, "web", &[("a", 80), ("b", 80)]);
    assert_eq!(checked(&offer), 2);
    let other = Frontend {
        port: 81.try_into().unwrap(),
        ..offer.frontends[0].clone()
    };
    offer.frontends.push(other.clone());
    assert_eq!(checked(&offer), 2, "the same cluster");
    offer.frontends.push(Frontend {
        client_ip: ClientIp::ProxyV2,
        ..other.clone()
    });
    assert_eq!(checked(&offer), 4);
    let server_names = vec!["a.example".to_owned(), "b.example".to_owned()];
    offer.frontends.push(Frontend {
        protocol: Protocol::TlsPassthrough { server_names },
        ..other
    });
    assert_eq!(checked(&offer), 8);
}

#[test]
fn the_ports_that_most_pools_lead_to_stand_for_a_host() {
    let ports = |offer: &Offer| -> Vec<u16> {
        let all = representatives(offer);
        all.get("a")
            .map(|ports| ports.iter().map(SocketAddr::port).collect())
            .unwrap_or_default()
    };
    let mut offer = Offer::default();
    add(&mut offer, "one", &[("a", 90)]);
    add(&mut offer, "two", &[("a", 80)]);
    assert_eq!(ports(&offer), [80, 90], "of equals the lowest");
    add(&mut offer, "three", &[("a", 90)]);
    assert_eq!(ports(&offer), [90, 80]);
    let more: Vec<(&str, u16)> = (70..76).map(|port| ("a", port)).collect();
    add(&mut offer, "four", &more);
    assert_eq!(ports(&offer), [90, 70, 71, 72, 73]);
    for member in offer.pools.iter_mut().flat_map(|pool| &mut pool.members) {
        member.draining = true;
    }
    assert_eq!(representatives(&offer), BTreeMap::new());
}

#[test]
fn where_a_host_is_asked_stays_while_that_stands_for_it() {
    let at = |port| SocketAddr::from(([198, 18, 0, 1], port));
    let mut host = Host::new(&[at(80), at(81)]).unwrap();
    host.take(false);
    assert_eq!(host.at, at(81));
    let host = host.with(&[at(80), at(81), at(82)]).unwrap();
    assert_eq!((host.at, host.otherwise), (at(81), 1));
    assert_eq!(host.others, [at(80), at(82)]);
    let host = host.with(&[at(80), at(82)]).unwrap();
    assert_eq!(
        (host.at, host.otherwise),
        (at(80), 0),
        "it is there no more"
    );
    assert_eq!(host.with(&[]), None);
}

#[test]
fn a_service_that_nobody_serves_is_no_host_that_is_down() {
    let mut machine = Machine::default();
    let mut offer = many(1_001);
    let closed = 80;
    add(&mut offer, "open", &[("b", 81)]);
    machine.want(&offer);
    let mut changed = Vec::new();
    for _ in 0..10 {
        let asked = machine.asked();
        let asked = asked.map(|(host, at)| Answer {
            host: host.clone(),
            at,
            answered: host == "a" || at.port() != closed,
        });
        let asked = asked.collect();
        changed.extend(machine.hear(asked));
    }
    assert_eq!(changed, Vec::<String>::new());
    let asked: Vec<u16> = machine.asked().map(|(_, at)| at.port()).collect();
    assert_eq!(asked, [80, 81], "the one that answers stands for it");
    // All that stand for it are asked before it is down, however many those are.
    add(&mut offer, "more", &[("b", 82), ("b", 83), ("b", 84)]);
    machine.want(&offer);
    for _ in 0..4 {
        assert_eq!(round(&mut machine, &["a"]), Vec::<String>::new());
    }
    assert_eq!(round(&mut machine, &["a"]), ["b"]);
}

#[test]
fn a_host_falls_after_three_refusals_in_a_row_and_is_back_after_two_answers() {
    let mut machine = relaxed();
    for answer in [&["a"][..], &["a"], &["a", "b"], &["a"], &["a"]] {
        assert_eq!(round(&mut machine, answer), Vec::<String>::new());
    }
    assert_eq!(round(&mut machine, &["a"]), ["b"]);
    assert!(machine.is_down("b") && !machine.is_down("a"));
    assert_eq!(round(&mut machine, &["a"]), Vec::<String>::new());
    assert_eq!(round(&mut machine, &["a", "b"]), Vec::<String>::new());
    assert_eq!(round(&mut machine, &["a"]), Vec::<String>::new());
    assert_eq!(round(&mut machine, &["a", "b"]), Vec::<String>::new());
    assert_eq!(round(&mut machine, &["a", "b"]), ["b"]);
    assert!(!machine.is_down("b"));
}

#[test]
fn where_no_host_answers_none_is_down() {
    let mut machine = relaxed();
    for _ in 0..5 {
        assert_eq!(round(&mut machine, &[]), Vec::<String>::new());
    }
    // As soon as one answers again the others are known to be silent.
    assert_eq!(round(&mut machine, &["a"]), Vec::<String>::new());
    assert_eq!(round(&mut machine, &["a"]), ["b"]);
    // And when that one goes, all of them are believed to be there.
    for _ in 0..2 {
        assert_eq!(round(&mut machine, &[]), Vec::<String>::new());
    }
    assert_eq!(round(&mut machine, &[]), ["b"]);
    assert!(!machine.is_down("a") && !machine.is_down("b"));
}

#[test]
fn a_host_that_is_asked_no_more_is_not_down() {
    let mut machine = relaxed();
    for _ in 0..3 {
        round(&mut machine, &["a"]);
    }
    assert!(machine.is_down("b"));
    // The same again changes nothing.
    assert_eq!(machine.want(&many(1_001)), Vec::<String>::new());
    assert!(machine.is_down("b"));
    assert_eq!(machine.want(&many(10)), ["b"]);
    assert!(!machine.is_down("b"));
    // An answer that was on its way is nobody's any more.
    let late = Answer {
        host: "b".to_owned(),
        at: SocketAddr::from(([198, 18, 0, b'b'], 80)),
        answered: false,
    };
    assert_eq!(machine.hear(vec![late]), Vec::<String>::new());
}
