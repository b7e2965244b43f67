//! From which of its addresses a device answers.

use super::harness::*;

/// Where peer 1 calls device 2, and where nobody does.
const CALLED: &str = "203.0.113.7";
const OTHER: &str = "203.0.113.8";

/// From where device 2 has sent what peer 1 got, while `datagrams` and their answers are carried.
fn carry(net: &mut Net, datagrams: impl IntoIterator<Item = Datagram>) -> Vec<String> {
    let (mut from, there) = (Vec::new(), net.ends[0].at);
    net.carry(datagrams, |datagram| {
        if datagram.to == there {
            from.push(datagram.from.ip().to_string());
        }
        true
    });
    from
}

/// From where device 2 sends a packet.
fn left(net: &mut Net) -> String {
    let inner = packet("10.0.0.2", "10.0.0.1", 100, 1);
    let sealed = net.ends[1].seal(net.now, &inner).unwrap();
    sealed.from.ip().to_string()
}

fn data(net: &mut Net) -> Datagram {
    let inner = packet("10.0.0.1", "10.0.0.2", 100, 1);
    net.ends[0].seal(net.now, &inner).unwrap()
}

/// A session that peer 1 asked for at [`CALLED`].
fn called() -> Net {
    let mut net = Net::pair();
    net.ends[1].here = Some(CALLED.parse().unwrap());
    let initiation = data(&mut net);
    let from = carry(&mut net, [initiation]);
    assert_eq!(from[0], CALLED, "the response");
    net
}

#[test]
fn whoever_called_hears_from_the_address_it_called() {
    let mut net = called();
    assert_eq!(left(&mut net), CALLED);
    let (now, place) = (net.now, address("192.0.2.1:1000"));
    let (id, mut dst) = (net.ends[1].id(1), [0; 2_048]);
    let asked = net.ends[1].shard.ask(now, id, place, 1, &mut dst).unwrap();
    assert_eq!(asked.from, None, "a question goes as the routes lead");
    net.pass(2_000);
    net.ends[1].here = Some(OTHER.parse().unwrap());
    let mut forged = data(&mut net);
    forged.bytes[20] ^= 1;
    carry(&mut net, [forged]);
    assert_eq!(
        left(&mut net),
        CALLED,
        "what is not authentic moves nothing"
    );
    let genuine = data(&mut net);
    carry(&mut net, [genuine]);
    assert_eq!(left(&mut net), OTHER);
}

#[test]
fn an_address_that_is_gone_is_left_to_the_routes() {
    let mut net = called();
    let (id, routed) = (net.ends[1].id(1), net.ends[1].at.ip().to_string());
    net.ends[1].shard.lost_address(id, OTHER.parse().unwrap());
    assert_eq!(left(&mut net), CALLED, "another one is gone");
    net.ends[1].shard.lost_address(id, CALLED.parse().unwrap());
    assert_eq!(left(&mut net), routed);
}

#[test]
fn who_has_no_answer_does_not_insist_on_an_address() {
    let mut net = called();
    let routed = net.ends[1].at.ip().to_string();
    let first = net.initiation(1, 1);
    assert_eq!(first.from.ip().to_string(), CALLED);
    let second = net.initiation(1, 1);
    assert_eq!(second.from.ip().to_string(), routed);
    assert_eq!(left(&mut net), routed);
}

#[test]
fn a_caller_goes_wherever_its_routes_lead() {
    let mut net = Net::pair();
    net.ends[0].here = Some(OTHER.parse().unwrap());
    let initiation = data(&mut net);
    carry(&mut net, [initiation]);
    let inner = packet("10.0.0.2", "10.0.0.1", 100, 1);
    let answer = net.ends[1].seal(net.now, &inner);
    carry(&mut net, answer);
    assert_eq!(data(&mut net).from, net.ends[0].at);
}
