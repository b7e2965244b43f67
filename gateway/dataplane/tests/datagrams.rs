//! Datagrams over real sockets on the loopback: sessions, answers, members that die, silence.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test code")]

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use kedge_control::balance::{Listener, Member};
use kedge_core::Code;
use kedge_gateway_dataplane::{Carries, DataPlane, Limits};
use tokio::{net::UdpSocket, time::timeout};

/// A backend that answers with its name and what it heard.
async fn backend(name: &'static str) -> Member {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut room = [0; 2048];
        loop {
            let (length, from) = socket.recv_from(&mut room).await.unwrap();
            let mut answer = name.as_bytes().to_vec();
            answer.extend_from_slice(&room[..length]);
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    Member {
        host: name.to_owned(),
        address: at.ip(),
        port: at.port(),
        draining: false,
    }
}

fn listener(port: u16, members: &[Member]) -> Listener {
    Listener {
        name: "ns/dns/udp".to_owned(),
        address: "127.0.0.1".parse().unwrap(),
        port,
        members: members.to_vec(),
    }
}

const fn carries(idle: Duration) -> Carries {
    let ranges = Vec::new();
    Carries::Datagrams { idle, ranges }
}

async fn plane_for(members: &[Member], idle: Duration, limits: Limits) -> (DataPlane, SocketAddr) {
    let plane = DataPlane::new(limits);
    plane.serve([(carries(idle), listener(0, members))]);
    for member in members {
        plane.alive(&member.host, true, "test");
    }
    let at = timeout(LIMIT, async {
        loop {
            let status = plane.status();
            if let Some(bound) = status.iter().find(|one| one.bound) {
                return SocketAddr::new(bound.address, bound.port);
            }
            tokio::task::yield_now().await;
        }
    });
    let at = at.await.unwrap();
    (plane, at)
}

async fn client(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(at).await.unwrap();
    socket
}

/// Says something; who answers, if somebody does.
async fn ask(client: &UdpSocket, words: &str) -> Option<char> {
    client.send(words.as_bytes()).await.unwrap();
    let mut room = [0; 2048];
    let length = timeout(Duration::from_millis(500), client.recv(&mut room));
    let length = length.await.ok()?.ok()?;
    let answer = std::str::from_utf8(&room[..length]).unwrap();
    assert_eq!(&answer[1..], words);
    answer.chars().next()
}

#[tokio::test]
async fn a_client_stays_with_its_member_and_clients_are_spread() {
    let members = [backend("a").await, backend("b").await];
    let (plane, at) = plane_for(&members, LONG, Limits::default()).await;
    let mut heard = BTreeSet::new();
    for _ in 0..4 {
        let client = client(at).await;
        let first = ask(&client, "one").await.unwrap();
        for words in ["two", "three", ""] {
            assert_eq!(ask(&client, words).await, Some(first));
        }
        heard.insert(first);
    }
    assert_eq!(heard.len(), 2);
    let status = &plane.status()[0];
    assert_eq!((status.accepted, status.refused), (4, 0));
}

#[tokio::test]
async fn a_session_of_a_dead_host_moves_with_the_next_datagram() {
    let members = [backend("a").await, backend("b").await];
    let (plane, at) = plane_for(&members, LONG, Limits::default()).await;
    let client = client(at).await;
    let first = ask(&client, "x").await.unwrap();
    let other = if first == 'a' { 'b' } else { 'a' };
    plane.alive(&first.to_string(), false, "gone");
    assert_eq!(ask(&client, "x").await, Some(other));
    plane.alive(&first.to_string(), true, "back");
    assert_eq!(ask(&client, "x").await, Some(other), "it stays there");
    plane.alive("a", false, "gone");
    plane.alive("b", false, "gone");
    assert_eq!(ask(&client, "x").await, None);
    assert!(
        plane
            .problems()
            .iter()
            .any(|one| one.code == Code::GatewayNoMember)
    );
    plane.alive("b", true, "back");
    assert_eq!(ask(&client, "x").await, Some('b'));
}

#[tokio::test]
async fn a_silent_session_ends_and_gives_its_place_to_another() {
    let members = [backend("a").await];
    let limits = Limits {
        connections: 1,
        ..Limits::default()
    };
    let (_plane, at) = plane_for(&members, Duration::from_millis(400), limits).await;
    let (one, other) = (client(at).await, client(at).await);
    assert_eq!(ask(&one, "x").await, Some('a'));
    assert_eq!(ask(&other, "x").await, None, "there is room for one");
    let free = timeout(LIMIT, async { while ask(&other, "x").await.is_none() {} });
    free.await.unwrap();
}

#[tokio::test]
async fn one_that_is_taken_away_answers_no_more_and_frees_its_port() {
    let members = [backend("a").await];
    let (plane, at) = plane_for(&members, LONG, Limits::default()).await;
    let client = client(at).await;
    assert_eq!(ask(&client, "x").await, Some('a'));
    plane.serve([]);
    let free = timeout(LIMIT, async {
        while UdpSocket::bind(at).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    free.await.unwrap();
    assert_eq!(plane.status(), []);
}

const LONG: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(5);
