//! BGP against real GoBGP, OpenBGPD and ExaBGP, each in a network namespace of its own; passes without
//! privilege or the program, and says so.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
};

use kedge_core::bgp::SessionState;
use kedge_tests_netns::{
    eventually,
    exabgp::ExaBgp,
    gobgp::GoBgp,
    lan::{Host, Lan},
    openbgpd::OpenBgpd,
    ready, secs,
    tor::spec,
};
use kedge_vip_proto::bgp::Side;
use kedge_vip_speaker::bgp::{Bgp, BgpSnapshot, BgpSpec, Offer, Offers, PORT, Text};
use serde_json::json;

/// This host and the neighbour.
const OVER: [[&str; 2]; 2] = [["10.20.14.11", "10.20.14.12"], ["fd00:14::b", "fd00:14::c"]];
const NEAR: &str = OVER[0][0];
const FAR: &str = OVER[0][1];
/// Says nothing but that it is there.
const PLAIN: &str = "192.0.2.10";
/// Says everything that a route can say.
const RICH: &str = "192.0.2.11";
const PLAIN_6: &str = "2001:db8:7::a";
/// What the neighbour tells of.
const OWN: &str = "203.0.113.0/24";

fn offers() -> Offers {
    let rich = Offer {
        med: Some(7),
        prepend: 2,
        communities: vec!["65001:7".parse().unwrap()],
        large: vec!["65001:1:2".parse().unwrap()],
        ..Offer::default()
    };
    let plain = [PLAIN, PLAIN_6].map(|it| (it.parse().unwrap(), Offer::default()));
    plain
        .into_iter()
        .chain([(RICH.parse().unwrap(), rich)])
        .collect()
}

/// A speaker on a host.
fn speaker(host: &Host, specs: Vec<BgpSpec>) -> Bgp {
    host.run(move || {
        let mut bgp = Bgp::new(PORT);
        bgp.offer(offers());
        bgp.apply(specs);
        bgp
    })
}

fn shown(bgp: &Bgp, name: &str) -> BgpSnapshot {
    let all = bgp.snapshot();
    let of_it = all.iter().find(|it| it.spec.name.as_str() == name);
    of_it.unwrap().clone()
}

fn established(bgp: &Bgp, name: &str) {
    eventually(&format!("{name} is established"), secs(20), || {
        let all = bgp.snapshot();
        let of_it = all.iter().find(|it| it.spec.name.as_str() == name);
        of_it.is_some_and(|it| it.view.state == SessionState::Established)
    });
}

/// A route of its own is heard, and nothing of what it says was wrong.
fn is_heard(bgp: &Bgp, route: &str) {
    eventually("its route is heard", secs(5), || {
        let heard = shown(bgp, "tor").heard;
        heard.iter().any(|it| it.prefix.to_string() == route)
    });
    assert_eq!(shown(bgp, "tor").view.counts.flaws, [0; 3]);
}

/// Takes the rich one back.
fn take_back(bgp: &mut Bgp) {
    let mut left = offers();
    left.remove(&RICH.parse().unwrap());
    bgp.offer(left);
}

/// The neighbour ended the session, and said this of it.
fn was_ended(bgp: &Bgp, because: &str) {
    eventually("it ended the session", secs(5), || {
        shown(bgp, "tor").view.counts.lost == 1
    });
    let view = shown(bgp, "tor").view;
    let (side, said) = view.notification.unwrap();
    assert_eq!((side, said.to_string().as_str()), (Side::Theirs, because));
}

/// The session is established again, and the neighbour has said its route again, and that this is all where
/// it says so: with more on its way, it might see that nobody takes it before it reads why the session ends.
fn is_back(bgp: &Bgp, says_all: bool) {
    established(bgp, "tor");
    eventually("its route is heard again", secs(5), || {
        let view = shown(bgp, "tor").view;
        let complete = view.peer.is_some_and(|it| it.complete == [says_all; 2]);
        complete && view.counts.routes_announced >= 2
    });
}

fn leave(bgp: &mut Bgp, why: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(bgp.shutdown(Text::new(why), secs(3)));
}

fn hosts(lan: &Lan) -> (Host, Host) {
    let (a, b) = lan.pair();
    a.add_ipv6();
    b.add_ipv6();
    (a, b)
}

fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn gobgp_learns_routes_what_they_say_and_that_they_are_gone_over_both_families() {
    if !ready() || !GoBgp::is_there() {
        return;
    }
    for [near, far] in OVER {
        let lan = Lan::new();
        let (a, b) = hosts(&lan);
        let gobgp = GoBgp::running(&b, near);
        let mut tor = spec(far);
        // Over IPv6 it gives its routes of IPv4 a next hop of IPv6 (RFC 8950) whatever was agreed on.
        tor.config.extended_next_hop = near != NEAR;
        let mut bgp = speaker(&a, vec![tor]);
        established(&bgp, "tor");
        let table = |family: &str| gobgp.gobgp(&format!("global rib -a {family}"));
        eventually("all is there", secs(5), || {
            let ipv4 = table("ipv4");
            ipv4.contains(PLAIN) && ipv4.contains(RICH) && table("ipv6").contains(PLAIN_6)
        });
        let said = gobgp.gobgp(&format!("global rib -a ipv4 {RICH}/32"));
        let parts = [
            "65001 65001 65001",
            "{Med: 7}",
            "{Communities: 65001:7}",
            "{LargeCommunity: [ 65001:1:2]}",
            " 10.20.14.11 ",
        ];
        says(&said, &parts);
        is_heard(&bgp, OWN);
        take_back(&mut bgp);
        eventually("taken back", secs(5), || !table("ipv4").contains(RICH));
        assert!(table("ipv4").contains(PLAIN));
        leave(&mut bgp, "rack moves");
        eventually("everything is gone", secs(5), || {
            !table("ipv4").contains(PLAIN) && !table("ipv6").contains(PLAIN_6)
        });
    }
}

#[test]
fn gobgp_and_this_host_end_a_session_and_each_hears_why() {
    if !ready() || !GoBgp::is_there() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    let gobgp = GoBgp::running(&b, NEAR);
    let mut bgp = speaker(&a, vec![spec(FAR)]);
    established(&bgp, "tor");
    is_heard(&bgp, OWN);
    // Its `disable` leaves the reason out.
    let _ = gobgp.gobgp(&format!("neighbor {NEAR} shutdown --reason=maintenance"));
    was_ended(&bgp, "cease/administrative shutdown \"maintenance\"");
    is_back(&bgp, false);
    leave(&mut bgp, "rack moves");
    eventually("it heard why", secs(5), || {
        gobgp.log().contains("Communicated-Reason=\"rack moves\"")
    });
}

#[test]
fn openbgpd_learns_routes_what_they_say_and_that_they_are_gone_over_both_families() {
    if !ready() || !OpenBgpd::is_there() {
        return;
    }
    for [near, far] in OVER {
        let lan = Lan::new();
        let (a, b) = hosts(&lan);
        let openbgpd = OpenBgpd::running(&b, [near, far]);
        let mut bgp = speaker(&a, vec![spec(far)]);
        established(&bgp, "tor");
        let table = || openbgpd.bgpctl("show rib neighbor kedge");
        eventually("all is there", secs(5), || {
            let table = table();
            [PLAIN, RICH, PLAIN_6].iter().all(|it| table.contains(it))
        });
        let said = openbgpd.bgpctl(&format!("show rib detail {RICH}/32"));
        let parts = [
            "65001 65001 65001",
            "Nexthop 10.20.14.11 ",
            "metric 7",
            "    Communities: 65001:7",
            "Large Communities: 65001:1:2",
        ];
        says(&said, &parts);
        is_heard(&bgp, OpenBgpd::route(near));
        take_back(&mut bgp);
        eventually("taken back", secs(5), || !table().contains(RICH));
        assert!(table().contains(PLAIN));
        leave(&mut bgp, "rack moves");
        eventually("everything is gone", secs(5), || {
            let table = table();
            ![PLAIN, PLAIN_6].iter().any(|it| table.contains(it))
        });
    }
}

#[test]
fn openbgpd_and_this_host_end_a_session_and_each_hears_why() {
    if !ready() || !OpenBgpd::is_there() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    let openbgpd = OpenBgpd::running(&b, OVER[0]);
    let mut bgp = speaker(&a, vec![spec(FAR)]);
    established(&bgp, "tor");
    is_heard(&bgp, OWN);
    let _ = openbgpd.bgpctl("neighbor kedge down maintenance");
    was_ended(&bgp, "cease/administrative shutdown \"maintenance\"");
    let _ = openbgpd.bgpctl("neighbor kedge up");
    is_back(&bgp, true);
    leave(&mut bgp, "rack moves");
    eventually("it heard why", secs(5), || {
        openbgpd
            .bgpctl("show neighbor kedge")
            .contains("Last received shutdown reason: \"rack moves\"")
    });
}

#[test]
fn exabgp_learns_routes_what_they_say_and_that_they_are_gone_over_both_families() {
    if !ready() || !ExaBgp::is_there() {
        return;
    }
    for ends in OVER {
        let lan = Lan::new();
        let (a, b) = hosts(&lan);
        let exabgp = ExaBgp::running(&b, ends);
        let mut bgp = speaker(&a, vec![spec(ends[1])]);
        established(&bgp, "tor");
        let knows = |address: &str, length: u8| {
            exabgp.routes().contains_key(&format!("{address}/{length}"))
        };
        eventually("all is there", secs(5), || {
            knows(PLAIN, 32) && knows(RICH, 32) && knows(PLAIN_6, 128)
        });
        let said = &exabgp.routes()[&format!("{RICH}/32")]["attribute"];
        assert_eq!(said["as-path"], json!([65001, 65001, 65001]), "{said}");
        assert_eq!(said["med"], 7, "{said}");
        assert_eq!(said["community"], json!([[65001, 7]]), "{said}");
        assert_eq!(said["large-community"], json!([[65001, 1, 2]]), "{said}");
        is_heard(&bgp, OWN);
        take_back(&mut bgp);
        eventually("taken back", secs(5), || !knows(RICH, 32));
        assert!(knows(PLAIN, 32));
        leave(&mut bgp, "rack moves");
        eventually("everything is gone", secs(5), || exabgp.routes().is_empty());
    }
}

#[test]
fn exabgp_and_this_host_end_a_session_and_each_hears_why() {
    if !ready() || !ExaBgp::is_there() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    let exabgp = ExaBgp::running(&b, OVER[0]);
    let mut bgp = speaker(&a, vec![spec(FAR)]);
    established(&bgp, "tor");
    is_heard(&bgp, OWN);
    exabgp.order(&format!("neighbor {NEAR} teardown 2"));
    was_ended(
        &bgp,
        "cease/administrative shutdown \"Administrative Shutdown\"",
    );
    is_back(&bgp, true);
    // It cannot read a text that comes along (RFC 9003), and complains of that instead.
    leave(&mut bgp, "");
    eventually("it heard why", secs(5), || {
        exabgp.lost().contains("notification received (6,2)")
    });
}

/// What breaks rules ends the session of who said it, or less where the rules ask for less (RFC 7606), and
/// GoBGP's goes on all along.
#[test]
fn malformed_messages_of_one_neighbour_leave_the_session_of_another_alone() {
    if !ready() || !GoBgp::is_there() || !ExaBgp::is_there() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = hosts(&lan);
    let c = lan.host("c", "10.20.14.13/24");
    let gobgp = GoBgp::running(&c, NEAR);
    let exabgp = ExaBgp::running(&b, OVER[0]);
    let mut steady = spec("10.20.14.13");
    steady.name = "steady".parse().unwrap();
    let mut specs = vec![spec(FAR), steady];
    for at in 0..CASES.len() {
        let mut raw = spec(&caller(at));
        raw.name = format!("raw-{at}").parse().unwrap();
        raw.config.passive = true;
        specs.push(raw);
        b.add_address(&format!("{}/24", caller(at)));
    }
    let bgp = speaker(&a, specs);
    established(&bgp, "steady");
    established(&bgp, "tor");
    is_heard(&bgp, OWN);
    let announce = |attribute: &str| {
        exabgp.order(&format!(
            "announce route 198.51.100.0/24 next-hop {FAR} attribute [ {attribute} ]"
        ));
    };
    let flaws = |count: [u64; 3]| {
        eventually(&format!("flaws are {count:?}"), secs(5), || {
            shown(&bgp, "tor").view.counts.flaws == count
        });
    };
    // An AGGREGATOR of one byte is left out, a MED of two bytes takes the route back, and a
    // destination of a family that nobody knows where to end ends the session.
    announce("0x07 0xc0 0x01");
    flaws([1, 0, 0]);
    announce("0x04 0x80 0x0064");
    flaws([1, 1, 0]);
    let view = shown(&bgp, "tor").view;
    assert_eq!(
        (view.state, view.counts.lost),
        (SessionState::Established, 0)
    );
    assert_eq!(view.counts.routes_refused, 1);
    announce("0x0e 0x80 0x0001");
    eventually("it hears why", secs(5), || {
        exabgp.lost().contains("notification received (3,9)")
    });
    // It may have called again meanwhile, and said it again.
    assert!(shown(&bgp, "tor").view.counts.lost >= 1);
    for (at, (what, messages, code)) in CASES.into_iter().enumerate() {
        let last = b.run(move || last_word(&caller(at), &messages()));
        println!("{what}: {last:?}");
        let [subject, of_it] = code;
        assert_eq!(
            last.get(18..21),
            Some(&[3, subject, of_it][..]),
            "{what}: {last:?}"
        );
    }
    // Established once, never lost, and the neighbour sees it the same way.
    let view = shown(&bgp, "steady").view;
    assert_eq!(view.state, SessionState::Established);
    assert_eq!((view.counts.established, view.counts.lost), (1, 0));
    let said = gobgp.gobgp(&format!("neighbor {NEAR}"));
    says(&said, &["BGP state = ESTABLISHED"]);
    says(&gobgp.gobgp("global rib -a ipv4"), &[PLAIN, RICH]);
    assert!(!gobgp.log().contains("Peer Down"), "{}", gobgp.log());
}

/// What it is, the messages, and the code and subcode of the answer.
type Case = (&'static str, fn() -> Vec<u8>, [u8; 2]);

const CASES: [Case; 14] = [
    ("a marker of zeros", || in_session([0; 19].to_vec()), [1, 1]),
    (
        "a length below the header's",
        || in_session(header(18, 4)),
        [1, 2],
    ),
    (
        "a length above the longest",
        || in_session(header(4097, 2)),
        [1, 2],
    ),
    ("a type that is none", || in_session(framed(9, &[])), [1, 3]),
    (
        "a KEEPALIVE with a body",
        || in_session(framed(4, &[0])),
        [1, 2],
    ),
    (
        "an OPEN of version 3",
        || framed(1, &open(3, 65_014, 90)),
        [2, 1],
    ),
    (
        "an OPEN of another AS",
        || framed(1, &open(4, 65_099, 90)),
        [2, 2],
    ),
    (
        "an OPEN with 1 s to hold",
        || framed(1, &open(4, 65_014, 1)),
        [2, 6],
    ),
    ("no OPEN", || framed(2, &[0; 4]), [5, 1]),
    (
        "no KEEPALIVE",
        || [framed(1, &open(4, 65_014, 90)), framed(2, &[0; 4])].concat(),
        [5, 2],
    ),
    (
        "another OPEN",
        || in_session(framed(1, &open(4, 65_014, 90))),
        [5, 3],
    ),
    (
        "routes taken back beyond the end",
        || in_session(framed(2, &[0xff; 4])),
        [3, 1],
    ),
    (
        "MP_REACH_NLRI without a next hop",
        || in_session(framed(2, &[0, 0, 0, 5, 0x80, 14, 2, 0, 1])),
        [3, 9],
    ),
    (
        "a prefix of 33 bits",
        || {
            let attributes: [u8; 20] = [
                0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xf6, 0x40, 3, 4, 10, 20, 14, 12,
            ];
            let route = [33, 198, 51, 100, 0, 0];
            in_session(framed(
                2,
                &[&[0, 0, 0, 20], &attributes[..], &route].concat(),
            ))
        },
        [3, 10],
    ),
];

fn caller(at: usize) -> String {
    format!("10.20.14.{}", 70 + at)
}

/// A message in a session that is established by then.
fn in_session(message: Vec<u8>) -> Vec<u8> {
    [framed(1, &open(4, 65_014, 90)), framed(4, &[]), message].concat()
}

/// RFC 4271 section 4.2, with AS numbers of four bytes (RFC 6793).
fn open(version: u8, asn: u16, hold_time: u16) -> Vec<u8> {
    let [high, low] = asn.to_be_bytes();
    let capability = [2, 6, 65, 4, 0, 0, high, low];
    let hold_time = hold_time.to_be_bytes();
    let id = [192, 0, 2, 99, 8];
    [&[version, high, low], &hold_time[..], &id, &capability].concat()
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(19 + body.len()).unwrap();
    [&header(length, kind), body].concat()
}

fn header(length: u16, kind: u8) -> Vec<u8> {
    [&[0xff; 16], &length.to_be_bytes()[..], &[kind]].concat()
}

/// Calls the speaker from an address, says something, and returns the last message it hears.
fn last_word(from: &str, messages: &[u8]) -> Vec<u8> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let from: IpAddr = from.parse().unwrap();
    socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
    let to = SocketAddr::new(NEAR.parse().unwrap(), PORT);
    socket.connect(&to.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(secs(3))).unwrap();
    stream.write_all(messages).unwrap();
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    let mut last = Vec::new();
    while heard.len() >= 19 {
        let length = usize::from(u16::from_be_bytes([heard[16], heard[17]]));
        last = heard.drain(..length.min(heard.len())).collect();
    }
    last
}
