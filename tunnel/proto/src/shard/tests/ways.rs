//! Questions over another way, and orders to take it.

use super::harness::*;
use crate::{drops::DropReason, fallback::lane};

fn endpoint(end: &End, peer: u8) -> String {
    let at = end.reading(peer).endpoint;
    at.map(|at| at.to_string()).unwrap_or_default()
}

fn ask(net: &mut Net, place: &str, number: u64) -> Datagram {
    let (mut dst, id) = ([0; 2_048], net.ends[0].id(2));
    let end = &mut net.ends[0];
    let transmit = end.shard.ask(net.now, id, address(place), number, &mut dst);
    let transmit = transmit.unwrap();
    Datagram {
        from: end.at,
        to: transmit.to,
        bytes: dst[..transmit.length].to_vec(),
    }
}

#[test]
fn a_question_is_answered_where_it_came_from_and_moves_nobody() {
    let mut net = Net::connected();
    net.pass(2_000);
    assert_eq!(net.ends[0].reading(2).answered, None);
    let before = [endpoint(&net.ends[0], 2), endpoint(&net.ends[1], 1)];
    for number in [0, 1, u64::MAX - 1] {
        let mut question = ask(&mut net, "203.0.113.9:9", number);
        assert_eq!(question.to, address("203.0.113.9:9"));
        question.from = address("198.51.100.9:999");
        let answers = net.ends[1].open(net.now, &question);
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(answers[0].to, address("198.51.100.9:999"));
        assert!(
            net.ends[1].delivered.is_empty(),
            "the host hears nothing of it"
        );
        let mut answer = answers[0].clone();
        answer.from = address("203.0.113.9:9");
        assert!(net.ends[0].open(net.now, &answer).is_empty());
        assert_eq!(net.ends[0].reading(2).answered, Some(number));
        // Once more, as somebody else may send it.
        assert!(net.ends[1].open(net.now, &question).is_empty());
        assert!(net.ends[0].open(net.now, &answer).is_empty());
    }
    let after = [endpoint(&net.ends[0], 2), endpoint(&net.ends[1], 1)];
    assert_eq!(after, before);
    assert_eq!(net.ends[1].dropped(1, DropReason::NotIp), 0);
    assert_eq!(net.ends[1].dropped(1, DropReason::Replayed), 3);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn without_a_session_nothing_is_asked() {
    let mut net = Net::pair();
    let (mut dst, id) = ([0; 2_048], net.ends[0].id(2));
    let place = address("203.0.113.9:9");
    let asked = net.ends[0].shard.ask(net.now, id, place, 1, &mut dst);
    assert_eq!(asked, None);
}

#[test]
fn what_was_on_its_way_does_not_lead_back_from_where_one_was_ordered() {
    let mut net = Net::connected();
    net.pass(2_000);
    // The gateway goes on sending over UDP until it hears of the stream.
    let late = net.ends[1].seal(net.now, &packet("10.0.0.2", "10.0.0.1", 64, 1));
    let stream = lane(7);
    let mut ordered = spec(2, None);
    ordered.endpoint = Some(stream);
    let now = net.now;
    net.ends[0].apply(now, vec![ordered]);
    net.ends[0].open(now, &late.unwrap());
    assert_eq!(net.ends[0].delivered.len(), 1, "it is taken");
    assert_eq!(endpoint(&net.ends[0], 2), stream.to_string());
    let sent = net.ends[0].seal(now, &packet("10.0.0.1", "10.0.0.2", 64, 1));
    assert_eq!(sent.unwrap().to, stream);
    // A second later it counts again: the order may have been wrong.
    net.pass(1_500);
    let data = net.ends[1].seal(net.now, &packet("10.0.0.2", "10.0.0.1", 64, 2));
    net.ends[0].open(net.now, &data.unwrap());
    assert_eq!(endpoint(&net.ends[0], 2), "192.0.2.2:2000");
}

#[test]
fn a_peer_that_answers_from_another_address_than_ordered_is_followed_at_once() {
    let mut net = Net::connected();
    net.pass(2_000);
    let mut ordered = spec(2, None);
    ordered.endpoint = Some(address("192.0.2.8:2000"));
    let now = net.now;
    net.ends[0].apply(now, vec![ordered]);
    assert_eq!(endpoint(&net.ends[0], 2), "192.0.2.8:2000");
    let data = net.ends[1].seal(now, &packet("10.0.0.2", "10.0.0.1", 64, 1));
    net.ends[0].open(now, &data.unwrap());
    assert_eq!(endpoint(&net.ends[0], 2), "192.0.2.2:2000");
}

#[test]
fn a_stream_is_not_remembered_beyond_the_process() {
    let mut net = Net::connected();
    net.pass(2_000);
    net.ends[0].at = lane(9);
    let sent = net.ends[0].seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1));
    net.carry(sent, |_| true);
    assert_eq!(endpoint(&net.ends[1], 1), lane(9).to_string());
    let memory = net.ends[1].shard.memory();
    assert!(memory.0.values().all(|it| it.endpoint.is_none()));
}
