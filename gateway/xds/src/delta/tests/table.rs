//! One rule at a time.

use std::{sync::Arc, time::Duration};

use kedge_core::{Instant, Machine as _};

use super::change;
use crate::{
    Kind,
    delta::{
        Input, Name, Outcome, Output, Reject, Request, Response, Revision, Stream, Version, WARMING,
    },
};

#[test]
fn a_first_request_without_names_asks_for_everything_of_kinds_that_are_listed() {
    let mut stream = Stream::new(vec![
        change(Kind::Cluster, "a", Some(1)),
        change(Kind::Cluster, "b", Some(1)),
        change(Kind::Secret, "s", Some(1)),
    ]);
    let response = only(ask(&mut stream, Request::new(Kind::Cluster)));
    assert_eq!(names(&response), ["a", "b"]);
    let response = only(ask(&mut stream, Request::new(Kind::Secret)));
    assert_eq!(names(&response), [""; 0]);
}

#[test]
fn a_star_asks_for_everything_of_any_kind_until_it_is_taken_back() {
    let mut stream = Stream::new(vec![change(Kind::Secret, "s", Some(1))]);
    let response = only(ask(&mut stream, subscribe(Kind::Secret, &["*"])));
    assert_eq!(names(&response), ["s"]);
    ack(&mut stream, &response);
    let mut request = Request::new(Kind::Secret);
    request.unsubscribe.push(Name::from("*"));
    assert_eq!(ask(&mut stream, request), []);
    assert_eq!(publish(&mut stream, Kind::Secret, "s", Some(2)), []);
}

#[test]
fn the_first_question_is_answered_even_if_there_is_nothing() {
    let mut stream = Stream::new(Vec::new());
    for kind in [Kind::Cluster, Kind::Listener] {
        let response = only(ask(&mut stream, Request::new(kind)));
        assert_eq!((response.told, response.removed), (vec![], vec![]));
    }
}

#[test]
fn who_asks_for_what_is_not_there_hears_that_it_is_not() {
    let mut stream = Stream::new(Vec::new());
    let response = only(ask(&mut stream, subscribe(Kind::Endpoint, &["a"])));
    assert_eq!(response.removed, [Name::from("a")]);
    ack(&mut stream, &response);
    let response = only(publish(&mut stream, Kind::Endpoint, "a", Some(1)));
    assert_eq!(names(&response), ["a"]);
}

#[test]
fn who_comes_back_hears_what_changed_and_what_is_gone() {
    let mut stream = Stream::new(vec![
        change(Kind::Listener, "kept", Some(1)),
        change(Kind::Listener, "changed", Some(2)),
        change(Kind::Listener, "another's", Some(1)),
    ]);
    let mut request = Request::new(Kind::Listener);
    request.holds = vec![
        (Name::from("kept"), Some(Version(1))),
        (Name::from("changed"), Some(Version(1))),
        (Name::from("another's"), None),
        (Name::from("gone"), Some(Version(1))),
    ];
    stream
        .handle_input(Instant::ZERO, Input::Request(request))
        .unwrap();
    let settled = stream.poll_output();
    let Some(Output::Settled(settled)) = settled else {
        panic!("{settled:?}");
    };
    assert_eq!(
        (&*settled.name, settled.outcome),
        ("kept", Outcome::Applied(Version(1)))
    );
    let response = only(sent(&mut stream));
    assert_eq!(names(&response), ["another's", "changed"]);
    assert_eq!(response.removed, [Name::from("gone")]);
}

#[test]
fn members_are_told_again_to_who_comes_back() {
    let mut stream = Stream::new(vec![
        change(Kind::Cluster, "a", Some(1)),
        change(Kind::Endpoint, "a", Some(1)),
    ]);
    let mut request = subscribe(Kind::Endpoint, &["a"]);
    request.holds.push((Name::from("a"), Some(Version(1))));
    assert_eq!(names(&only(ask(&mut stream, request))), ["a"]);
}

#[test]
fn who_asks_again_is_told_again() {
    let mut stream = Stream::new(vec![change(Kind::Endpoint, "a", Some(1))]);
    let first = only(ask(&mut stream, subscribe(Kind::Endpoint, &["a"])));
    ack(&mut stream, &first);
    let again = only(ask(&mut stream, subscribe(Kind::Endpoint, &["a"])));
    assert_eq!(again.told, first.told);
}

#[test]
fn one_response_of_a_kind_is_under_way_and_changes_meanwhile_become_one() {
    let mut stream = Stream::new(vec![change(Kind::Cluster, "a", Some(1))]);
    let first = only(ask(&mut stream, Request::new(Kind::Cluster)));
    for version in 2..10 {
        assert_eq!(publish(&mut stream, Kind::Cluster, "a", Some(version)), []);
    }
    let second = only(ack(&mut stream, &first));
    assert_eq!(second.told, [(Name::from("a"), Version(9))]);
    // An answer to something else is none to this.
    assert_eq!(ack(&mut stream, &first), []);
    assert!(!stream.is_settled());
    assert_eq!(ack(&mut stream, &second), []);
    assert!(stream.is_settled());
}

#[test]
fn members_follow_their_cluster_in_one_go() {
    let mut stream = settled();
    let responses = publish(&mut stream, Kind::Cluster, "a", Some(2));
    let kinds: Vec<Kind> = responses.iter().map(|response| response.kind).collect();
    assert_eq!(kinds, [Kind::Cluster, Kind::Endpoint]);
}

#[test]
fn a_listener_waits_for_the_members_of_a_new_cluster() {
    let (mut stream, cluster) = with_a_new_cluster();
    assert_eq!(ack(&mut stream, &cluster), []);
    let members = only(ask(&mut stream, subscribe(Kind::Endpoint, &["b"])));
    let listener = only(ack(&mut stream, &members));
    assert_eq!(names(&listener), ["lb"]);
    assert_eq!(stream.poll_timeout(), None);
}

#[test]
fn a_listener_does_not_wait_for_ever() {
    let (mut stream, cluster) = with_a_new_cluster();
    assert_eq!(ack(&mut stream, &cluster), []);
    let until = Instant::ZERO + WARMING;
    assert_eq!(stream.poll_timeout(), Some(until));
    stream.handle_timeout(until - Duration::from_nanos(1));
    assert_eq!(sent(&mut stream), []);
    stream.handle_timeout(until);
    assert_eq!(names(&only(sent(&mut stream))), ["lb"]);
    assert_eq!(stream.poll_timeout(), None);
}

#[test]
fn a_cluster_goes_after_its_listener() {
    let mut stream = settled();
    let gone = vec![
        change(Kind::Cluster, "a", None),
        change(Kind::Endpoint, "a", None),
        change(Kind::Listener, "la", None),
    ];
    let responses = input(&mut stream, Input::Changed(gone));
    let [members, listener] = responses.as_slice() else {
        panic!("{responses:?}");
    };
    assert_eq!((members.kind, members.removed.len()), (Kind::Endpoint, 1));
    assert_eq!((listener.kind, listener.removed.len()), (Kind::Listener, 1));
    let cluster = only(ack(&mut stream, listener));
    assert_eq!((cluster.kind, cluster.removed.len()), (Kind::Cluster, 1));
    ack(&mut stream, members);
    ack(&mut stream, &cluster);
    assert!(stream.is_settled());
}

#[test]
fn a_listener_that_takes_an_address_comes_with_the_removal_of_the_one_that_had_it() {
    let mut stream = settled();
    let moved = vec![
        change(Kind::Listener, "la", None),
        change(Kind::Listener, "lb", Some(1)),
    ];
    let response = only(input(&mut stream, Input::Changed(moved)));
    assert_eq!(names(&response), ["lb"]);
    assert_eq!(response.removed, [Name::from("la")]);
}

#[test]
fn one_bad_resource_of_four_thousand_is_found_and_the_others_are_told() {
    let all = (0..4000).map(|index| change(Kind::Cluster, &format!("c{index:04}"), Some(1)));
    let mut stream = Stream::new(all.collect());
    let mut queue = ask(&mut stream, Request::new(Kind::Cluster));
    let (mut rounds, mut applied, mut refused) = (0, 0, Vec::new());
    while let Some(response) = queue.pop() {
        rounds += 1;
        let is_bad = response.told.iter().any(|(name, _)| &**name == "c1234");
        let mut request = answer(&response);
        request.refused = is_bad.then(|| Arc::from("bad"));
        stream
            .handle_input(Instant::ZERO, Input::Request(request))
            .unwrap();
        while let Some(output) = stream.poll_output() {
            match output {
                Output::Send(response) => queue.push(response),
                Output::Settled(settled) => match settled.outcome {
                    Outcome::Applied(_) => applied += 1,
                    Outcome::Refused { .. } => refused.push(settled.name),
                    Outcome::Gone => panic!("{settled:?}"),
                },
            }
        }
    }
    assert_eq!((applied, refused), (3999, vec![Name::from("c1234")]));
    assert!(rounds <= 2 * 12 + 1, "{rounds}");
    assert!(!stream.is_settled());
    // It waits until it changes.
    assert_eq!(publish(&mut stream, Kind::Cluster, "c1234", Some(1)), []);
    assert_eq!(
        publish(&mut stream, Kind::Cluster, "c1234", Some(2)).len(),
        1
    );
}

#[test]
fn what_is_refused_is_tried_again_once_something_of_its_kind_is_gone() {
    let mut stream = settled();
    let response = only(publish(&mut stream, Kind::Listener, "lb", Some(1)));
    assert_eq!(nack(&mut stream, &response), []);
    let response = only(publish(&mut stream, Kind::Listener, "la", None));
    let again = only(ack(&mut stream, &response));
    assert_eq!(names(&again), ["lb"]);
}

#[test]
fn a_cluster_stays_while_a_listener_is_refused() {
    let mut stream = settled();
    let response = only(publish(&mut stream, Kind::Listener, "la", Some(2)));
    nack(&mut stream, &response);
    // Envoy still has the listener as it was, which leads there.
    assert_eq!(publish(&mut stream, Kind::Cluster, "a", None), []);
}

#[test]
fn much_is_told_in_several_responses() {
    let all = (0..5).map(|index| {
        let mut change = change(Kind::Cluster, &format!("c{index}"), Some(1));
        change.revision = Some(Revision {
            version: Version(1),
            length: 500_000,
        });
        change
    });
    let mut stream = Stream::new(all.collect());
    let mut response = only(ask(&mut stream, Request::new(Kind::Cluster)));
    let mut sizes = vec![response.told.len()];
    while let Some(next) = ack(&mut stream, &response).pop() {
        sizes.push(next.told.len());
        response = next;
    }
    assert_eq!(sizes, [2, 2, 1]);
}

#[test]
fn who_asks_for_too_much_is_refused_and_nothing_changes() {
    let mut stream = settled();
    let long = "x".repeat(1025);
    let request = subscribe(Kind::Endpoint, &[&long]);
    let refused = stream.handle_input(Instant::ZERO, Input::Request(request));
    assert_eq!(refused, Err(Reject::NameTooLong));
    let mut request = Request::new(Kind::Endpoint);
    request.subscribe = (0..100_001).map(|i| Name::from(i.to_string())).collect();
    let refused = stream.handle_input(Instant::ZERO, Input::Request(request));
    assert_eq!(refused, Err(Reject::TooManyNames));
    assert!(stream.is_settled());
}

#[test]
fn versions_are_read_as_they_are_written_and_others_are_nobodys() {
    for version in [Version(0), Version(u64::MAX), Version(0x1234)] {
        assert_eq!(Version::parse(&version.to_string()), Some(version));
    }
    for text in [
        "",
        "1",
        "+000000000000001",
        "00000000000000000",
        "000000000000000g",
    ] {
        assert_eq!(Version::parse(text), None, "{text}");
    }
}

/// Envoy holds one cluster, its members, and a listener that leads there.
fn settled() -> Stream {
    let mut stream = Stream::new(vec![
        change(Kind::Cluster, "a", Some(1)),
        change(Kind::Endpoint, "a", Some(1)),
        change(Kind::Listener, "la", Some(1)),
    ]);
    let clusters = only(ask(&mut stream, Request::new(Kind::Cluster)));
    ack(&mut stream, &clusters);
    let members = only(ask(&mut stream, subscribe(Kind::Endpoint, &["a"])));
    ack(&mut stream, &members);
    let listeners = only(ask(&mut stream, Request::new(Kind::Listener)));
    assert_eq!(ack(&mut stream, &listeners), []);
    assert!(stream.is_settled());
    stream
}

/// The same, and a cluster with a listener that Envoy was just told of.
fn with_a_new_cluster() -> (Stream, Response) {
    let mut stream = settled();
    let news = vec![
        change(Kind::Cluster, "b", Some(1)),
        change(Kind::Endpoint, "b", Some(1)),
        change(Kind::Listener, "lb", Some(1)),
    ];
    let cluster = only(input(&mut stream, Input::Changed(news)));
    assert_eq!(cluster.kind, Kind::Cluster);
    (stream, cluster)
}

fn input(stream: &mut Stream, input: Input) -> Vec<Response> {
    stream.handle_input(Instant::ZERO, input).unwrap();
    sent(stream)
}

fn sent(stream: &mut Stream) -> Vec<Response> {
    let mut sent = Vec::new();
    while let Some(output) = stream.poll_output() {
        if let Output::Send(response) = output {
            sent.push(response);
        }
    }
    sent
}

fn ask(stream: &mut Stream, request: Request) -> Vec<Response> {
    input(stream, Input::Request(request))
}

fn publish(stream: &mut Stream, kind: Kind, name: &str, version: Option<u64>) -> Vec<Response> {
    input(stream, Input::Changed(vec![change(kind, name, version)]))
}

fn subscribe(kind: Kind, names: &[&str]) -> Request {
    let mut request = Request::new(kind);
    request.subscribe = names.iter().map(|name| Name::from(*name)).collect();
    request
}

fn answer(response: &Response) -> Request {
    let mut request = Request::new(response.kind);
    request.nonce = Some(response.nonce);
    request
}

fn ack(stream: &mut Stream, response: &Response) -> Vec<Response> {
    ask(stream, answer(response))
}

fn nack(stream: &mut Stream, response: &Response) -> Vec<Response> {
    let mut request = answer(response);
    request.refused = Some(Arc::from("bad"));
    ask(stream, request)
}

fn only(mut responses: Vec<Response>) -> Response {
    assert_eq!(responses.len(), 1, "{responses:?}");
    responses.remove(0)
}

fn names(response: &Response) -> Vec<&str> {
    response.told.iter().map(|(name, _)| &**name).collect()
}
