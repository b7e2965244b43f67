//! Clients that are let in by their addresses, over real sockets on the loopback.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test code")]

mod alone;
mod waiting;

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use kedge_control::frontend::ClientIp;
use kedge_gateway_dataplane::{Carries, DataPlane, Limits};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream, UdpSocket},
    time::timeout,
};

#[tokio::test]
async fn connections_of_others_are_closed_and_a_change_leaves_open_ones_as_they_are() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let member = server.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = server.accept().await {
            tokio::spawn(async move {
                let mut room = [0; 4];
                while stream.read_exact(&mut room).await.is_ok() {
                    stream.write_all(&room).await.unwrap();
                }
            });
        }
    });
    let carries = |ranges: &[&str]| Carries::Connections {
        told: ClientIp::Hidden,
        ranges: parsed(ranges),
    };
    let plane = DataPlane::new(Limits::default());
    let probe = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = probe.local_addr().unwrap().port();
    drop(probe);
    let at = serve(&plane, carries(&["127.0.0.2/32"]), port, member).await;
    let mut kept = connected(INSIDE, at).await;
    assert!(lives(&mut kept).await);
    assert!(!lives(&mut connected(OUTSIDE, at).await).await);
    assert_eq!(plane.status()[0].refused, 1);
    for (ranges, is_in) in [
        (&["127.0.0.0/30"][..], false),
        (&["127.0.0.9/32", "127.0.0.0/29"], true),
        (&["::/0"], false),
        (&[], true),
    ] {
        serve(&plane, carries(ranges), port, member).await;
        assert!(lives(&mut kept).await, "{ranges:?}");
        let mut fresh = connected(OUTSIDE, at).await;
        assert_eq!(lives(&mut fresh).await, is_in, "{ranges:?}");
    }
    // Behind a load balancer it is who the load balancer says.
    serve(&plane, carries(&["192.0.2.0/24"]), port, member).await;
    plane.behind(Some(vec!["127.0.0.2/32".parse().unwrap()]));
    for (line, is_in) in [
        ("PROXY TCP4 192.0.2.7 203.0.113.9 5 80\r\n", true),
        ("PROXY TCP6 ::ffff:192.0.2.7 ::1 5 80\r\n", true),
        ("PROXY TCP4 192.0.3.7 203.0.113.9 5 80\r\n", false),
        // For itself.
        ("PROXY UNKNOWN\r\n", false),
    ] {
        let refused = plane.status()[0].refused;
        let mut stream = connected(INSIDE, at).await;
        stream.write_all(line.as_bytes()).await.unwrap();
        assert_eq!(lives(&mut stream).await, is_in, "{line}");
        assert_eq!(plane.status()[0].refused - refused, u64::from(!is_in));
    }
}

#[tokio::test]
async fn datagrams_of_others_are_dropped_and_counted_and_sessions_outlive_a_change() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let member = server.local_addr().unwrap();
    tokio::spawn(async move {
        let mut room = [0; 64];
        while let Ok((_, from)) = server.recv_from(&mut room).await {
            // The port of the session tells it from others.
            let port = from.port().to_be_bytes();
            server.send_to(&port, from).await.unwrap();
        }
    });
    let carries = |ranges: &[&str]| Carries::Datagrams {
        idle: Duration::from_secs(60),
        ranges: parsed(ranges),
    };
    let plane = DataPlane::new(Limits::default());
    let probe = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = probe.local_addr().unwrap().port();
    drop(probe);
    let at = serve(&plane, carries(&["127.0.0.2/32"]), port, member).await;
    let [inside, outside] = [datagrams(INSIDE, at).await, datagrams(OUTSIDE, at).await];
    let session = asked(&inside).await.unwrap();
    assert_eq!(asked(&outside).await, None);
    let status = plane.status().remove(0);
    assert_eq!((status.accepted, status.refused, status.open), (1, 1, 1));
    serve(&plane, carries(&["127.0.0.0/29"]), port, member).await;
    assert_eq!(asked(&inside).await, Some(session));
    assert!(asked(&outside).await.is_some());
    serve(&plane, carries(&["127.0.0.5/32"]), port, member).await;
    assert_eq!(asked(&inside).await, None, "datagrams are no connection");
    assert!(asked(&outside).await.is_some());
    assert_eq!(plane.status()[0].refused, 2);
}

/// Has the plane serve that, and waits until it is bound.
async fn serve(plane: &DataPlane, carries: Carries, port: u16, member: SocketAddr) -> SocketAddr {
    let listener = alone::listener("ns/web/http", port, member);
    plane.serve([(carries, listener)]);
    plane.alive("a", true, "test");
    timeout(PATIENCE, alone::bound(plane)).await.unwrap()
}

fn parsed(ranges: &[&str]) -> Vec<ipnet::IpNet> {
    ranges.iter().map(|net| net.parse().unwrap()).collect()
}

async fn connected(from: Ipv4Addr, at: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    socket.connect(at).await.unwrap()
}

/// Whether what is said comes back.
async fn lives(stream: &mut TcpStream) -> bool {
    let mut back = [0; 4];
    let said = async {
        stream.write_all(b"well").await?;
        stream.read_exact(&mut back).await
    };
    timeout(PATIENCE, said).await.unwrap().is_ok()
}

async fn datagrams(from: Ipv4Addr, at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).await.unwrap();
    socket.connect(at).await.unwrap();
    socket
}

/// Says something; by which session it was answered.
async fn asked(client: &UdpSocket) -> Option<[u8; 2]> {
    client.send(b"x").await.unwrap();
    let mut room = [0; 2];
    let length = timeout(Duration::from_millis(300), client.recv(&mut room));
    length.await.ok()?.unwrap();
    Some(room)
}

const INSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 5);
const PATIENCE: Duration = Duration::from_secs(5);
