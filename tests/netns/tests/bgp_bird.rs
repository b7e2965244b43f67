//! BGP against a real BIRD 2, each in a network namespace of its own; passes without privilege or BIRD, and
//! says so.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, TcpStream},
    sync::Arc,
};

use kedge_core::{bfd::Liveness, bgp::SessionState};
use kedge_tests_netns::{
    bird::Bird,
    eventually,
    lan::{Host, Lan},
    millis, ready, secs, throughout,
    tor::spec,
};
use kedge_vip_speaker::bgp::{
    Bgp, BgpSnapshot, BgpSpec, HoldTime, Offer, Offers, PORT, Password, Text,
};

const NEAR: &str = "10.20.14.11";
const FAR: &str = "10.20.14.12";
const NEAR_6: &str = "fd00:14::b";
const FAR_6: &str = "fd00:14::c";

/// We are 65001, BIRD is 65014; as a router has it that learns everything.
fn router(host: &Host, [near, far]: [&str; 2], options: &str) -> String {
    format!(
        "log stderr all;\nrouter id {};\nprotocol device {{ }}\nprotocol static {{ ipv4; route \
         203.0.113.0/24 blackhole; }}\nprotocol bgp kedge {{\n  local {far} as 65014;\n  neighbor \
         {near} as 65001;\n  connect delay time 1;\n  {options}\n  ipv4 {{ import all; export all; \
         }};\n  ipv6 {{ import all; export all; }};\n}}\n",
        host.address()
    )
}

fn offers(all: &[(&str, Offer)]) -> Offers {
    let all = all.iter();
    all.map(|(text, offer)| (text.parse().unwrap(), offer.clone()))
        .collect()
}

fn plain() -> Offers {
    let one = Offer::default;
    offers(&[("192.0.2.10", one()), ("2001:db8:7::a", one())])
}

/// A speaker on a host.
fn speaker(host: &Host, specs: Vec<BgpSpec>, all: Offers) -> Bgp {
    host.run(move || {
        let mut bgp = Bgp::new(PORT);
        bgp.offer(all);
        bgp.apply(specs);
        bgp
    })
}

fn shown(bgp: &Bgp) -> Arc<Vec<BgpSnapshot>> {
    bgp.snapshot()
}

fn state(bgp: &Bgp) -> SessionState {
    shown(bgp)
        .first()
        .map_or(SessionState::Idle, |it| it.view.state)
}

fn is_established(bgp: &Bgp) -> bool {
    state(bgp) == SessionState::Established
}

fn leave(bgp: &mut Bgp, text: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(bgp.shutdown(Text::new(text), secs(3)));
}

fn hosts(lan: &Lan) -> (Host, Host) {
    let (a, b) = lan.pair();
    a.add_address(&format!("{NEAR_6}/64"));
    b.add_address(&format!("{FAR_6}/64"));
    (a, b)
}

#[test]
fn bird_learns_routes_what_they_say_and_that_they_are_gone_over_both_families() {
    if !ready() {
        return;
    }
    {
        for [near, far] in [[NEAR, FAR], [NEAR_6, FAR_6]] {
            let lan = Lan::new();
            let (a, b) = hosts(&lan);
            let bird = Bird::running(&b, &router(&b, [near, far], ""));
            let rich = Offer {
                med: Some(7),
                prepend: 2,
                communities: vec!["65001:7".parse().unwrap()],
                large: vec!["65001:1:2".parse().unwrap()],
                ..Offer::default()
            };
            let mut all = plain();
            all.extend(offers(&[("192.0.2.11", rich)]));
            let mut bgp = speaker(&a, vec![spec(far)], all);
            eventually("established", secs(10), || is_established(&bgp));
            eventually("all is there", secs(2), || {
                let table = bird.birdc("show route");
                ["192.0.2.10/32", "192.0.2.11/32", "2001:db8:7::a/128"]
                    .iter()
                    .all(|it| table.contains(it))
            });
            let said = bird.birdc("show route 192.0.2.11/32 all");
            for part in [
                "BGP.as_path: 65001 65001 65001",
                "BGP.med: 7",
                "BGP.community: (65001,7)",
                "BGP.large_community: (65001, 1, 2)",
                &format!("BGP.next_hop: {NEAR}"),
            ] {
                assert!(said.contains(part), "{part} in {said}");
            }
            let said = bird.birdc("show route 2001:db8:7::a/128 all");
            assert!(said.contains(&format!("BGP.next_hop: {NEAR_6}")), "{said}");
            // That of the link goes along where the session shows that both are on it.
            assert_eq!(said.contains("fe80::"), near == NEAR_6, "{said}");
            // What it announces is counted, and all of it was said.
            eventually("its route is heard", secs(2), || {
                shown(&bgp)[0]
                    .heard
                    .iter()
                    .any(|it| it.prefix.to_string() == "203.0.113.0/24")
            });
            // It asks again.
            let _ = bird.birdc("reload in kedge");
            eventually("asked for again", secs(2), || {
                shown(&bgp)[0].view.counts.refreshes == 2
            });
            throughout("nothing is lost of it", millis(300), || {
                bird.birdc("show route").contains("192.0.2.11/32")
            });
            bgp.offer(plain());
            let gone = eventually("taken back", secs(2), || {
                !bird.birdc("show route").contains("192.0.2.11/32")
            });
            assert!(gone < millis(500), "{gone:?}");
            assert!(bird.birdc("show route").contains("192.0.2.10/32"));
            leave(&mut bgp, "rack moves");
            eventually("everything is gone", secs(2), || {
                !bird.birdc("show route").contains("192.0.2.10/32")
            });
            let log = bird.log();
            assert!(
                log.contains("Received: Administrative shutdown: \"rack moves\""),
                "{log}"
            );
        }
    }
}

#[test]
fn bird_that_calls_a_passive_speaker_is_taken() {
    if !ready() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    let bird = Bird::running(&b, &router(&b, [NEAR, FAR], ""));
    let mut passive = spec(FAR);
    passive.config.passive = true;
    let bgp = speaker(&a, vec![passive], plain());
    eventually("established", secs(10), || is_established(&bgp));
    let (ours, _) = shown(&bgp)[0].ends.unwrap();
    assert_eq!(ours.port(), PORT);
    assert!(bird.birdc("show protocols").contains("Established"));
}

/// Both call all the time: whichever connection is kept, both keep the same, and hold it.
#[test]
fn calls_that_cross_end_in_one_session() {
    if !ready() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    let bird = Bird::running(&b, &router(&b, [NEAR, FAR], "connect retry time 1;"));
    let bgp = speaker(&a, vec![spec(FAR)], plain());
    for round in 0..5 {
        eventually("established", secs(15), || is_established(&bgp));
        throughout("and held", millis(500), || is_established(&bgp));
        let _ = bird.birdc("restart kedge");
        eventually("it was restarted", secs(5), || {
            shown(&bgp)[0].view.counts.lost > round
        });
    }
    eventually("established", secs(15), || is_established(&bgp));
}

#[test]
fn only_who_has_the_key_has_a_session() {
    if !ready() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    let locked = |key: &str| BgpSpec {
        password: Password::new(key.as_bytes()),
        ..spec(FAR)
    };
    let bird = Bird::running(&b, &router(&b, [NEAR, FAR], "password \"secret\";"));
    let mut bgp = speaker(&a, vec![locked("wrong")], plain());
    throughout("no session with another key", secs(4), || {
        state(&bgp) < SessionState::OpenSent
    });
    let specs = vec![locked("secret")];
    bgp.apply(specs);
    eventually("established with the same", secs(10), || {
        is_established(&bgp)
    });
    assert!(bird.birdc("show route").contains("192.0.2.10/32"));
}

/// RFC 5082: it drops what does not come with TTL 255, and so do we.
#[test]
fn a_neighbour_that_asks_for_a_full_ttl_gets_it_and_gives_it() {
    if !ready() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    let secured = BgpSpec {
        ttl_security: true,
        ..spec(FAR)
    };
    let mut bird = Bird::running(&b, &router(&b, [NEAR, FAR], "ttl security on;"));
    let bgp = speaker(&a, vec![secured], plain());
    eventually("established", secs(10), || is_established(&bgp));
    // One that does not send with 255 is not heard.
    bird.kill();
    drop(bird);
    eventually("gone", secs(2), || !is_established(&bgp));
    let bird = Bird::running(&b, &router(&b, [NEAR, FAR], "ttl security off;"));
    throughout("no session", secs(3), || !is_established(&bgp));
    drop(bird);
}

#[test]
fn a_neighbour_that_stands_still_is_gone_after_the_hold_time_and_back_when_it_goes_on() {
    if !ready() {
        return;
    }
    {
        let lan = Lan::new();
        let (a, b) = hosts(&lan);
        let bird = Bird::running(&b, &router(&b, [NEAR, FAR], "error wait time 1, 2;"));
        let mut quick = spec(FAR);
        quick.config.hold_time = HoldTime::LEAST;
        let bgp = speaker(&a, vec![quick], plain());
        eventually("established", secs(10), || is_established(&bgp));
        bird.freeze(true);
        let took = eventually("gone", secs(5), || !is_established(&bgp));
        assert!(took <= millis(3_300), "{took:?}");
        let because = shown(&bgp)[0].view.because.to_string();
        assert_eq!(because, "the neighbour was not heard for 3 s");
        bird.freeze(false);
        eventually("back", secs(15), || is_established(&bgp));
    }
}

#[test]
fn what_bfd_says_of_the_path_ends_the_session_at_once() {
    if !ready() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    let bird = Bird::running(&b, &router(&b, [NEAR, FAR], ""));
    let bgp = speaker(&a, vec![spec(FAR)], plain());
    eventually("established", secs(10), || is_established(&bgp));
    let says = |liveness| bgp.follow([("tor".parse().unwrap(), liveness)].into());
    says(Liveness::Alive);
    throughout("it is kept", millis(300), || is_established(&bgp));
    says(Liveness::Lost);
    eventually("ended", secs(1), || shown(&bgp)[0].view.counts.lost == 1);
    eventually("and told", secs(1), || bird.log().contains("Received: "));
}

/// A neighbour's nonsense ends its own session, and a stranger is not listened to.
#[test]
fn nonsense_of_one_neighbour_leaves_the_others_alone() {
    if !ready() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    b.add_address("10.20.14.77/24");
    b.add_address("10.20.14.78/24");
    let _bird = Bird::running(&b, &router(&b, [NEAR, FAR], ""));
    let mut other = spec("10.20.14.77");
    other.name = "other".parse().unwrap();
    other.config.passive = true;
    let bgp = speaker(&a, vec![spec(FAR), other], plain());
    let tor = || {
        shown(&bgp)
            .iter()
            .find(|it| it.spec.name.as_str() == "tor")
            .cloned()
            .unwrap()
    };
    eventually("established", secs(10), || {
        !shown(&bgp).is_empty() && tor().view.state == SessionState::Established
    });
    let call = |from: &'static str, words: Vec<u8>| {
        b.run(move || {
            let socket =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            let from: IpAddr = from.parse().unwrap();
            socket
                .bind(&std::net::SocketAddr::new(from, 0).into())
                .unwrap();
            let to = std::net::SocketAddr::new(NEAR.parse().unwrap(), PORT);
            socket.connect(&to.into()).unwrap();
            let mut stream = TcpStream::from(socket);
            stream.set_read_timeout(Some(secs(3))).unwrap();
            let _ = stream.write_all(&words);
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard);
            heard
        })
    };
    let nonsense = vec![0x5a; 4096];
    // A stranger hears nothing but the end.
    assert!(call("10.20.14.78", nonsense.clone()).is_empty());
    // A neighbour hears who we are, and what it did wrong: the connection is not synchronized.
    let heard = call("10.20.14.77", nonsense);
    assert_eq!(heard.get(18), Some(&1), "{heard:?}");
    assert_eq!(heard[heard.len() - 3..], [3, 1, 1], "{heard:?}");
    assert_eq!(tor().view.counts.lost, 0);
    assert_eq!(tor().view.state, SessionState::Established);
}

#[test]
fn a_port_that_is_taken_is_told_and_calls_are_made_all_the_same() {
    if !ready() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    let taken = a.run(|| std::net::TcpListener::bind(("0.0.0.0", PORT)).unwrap());
    let bird = Bird::running(&b, &router(&b, [NEAR, FAR], "passive;"));
    let bgp = speaker(&a, vec![spec(FAR)], plain());
    eventually("established", secs(10), || is_established(&bgp));
    let problems = bgp.problems();
    assert_eq!(
        problems[0].code,
        kedge_core::Code::BgpPortInUse,
        "{problems:?}"
    );
    let holder = a.run(|| kedge_net::holder::of_tcp_port(PORT)).unwrap();
    assert!(holder.contains(&std::process::id().to_string()), "{holder}");
    drop(taken);
    eventually("it is opened later", secs(7), || bgp.problems().is_empty());
    drop(bird);
}
