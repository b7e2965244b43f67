//! Load balancers before the proxy, on loopback: who a client is they say, and nobody else.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test code")]

mod alone;
mod waiting;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use kedge_control::{frontend::ClientIp, local::ListenerStatus};
use kedge_gateway_dataplane::{Carries, DataPlane, Limits};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use waiting::PATIENCE;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 203.0.113.9 56324 443\r\n";

/// A plane with one listener, and the server behind it.
struct Site {
    plane: DataPlane,
    at: SocketAddr,
    server: TcpListener,
}

impl Site {
    async fn new(carries: Carries) -> Self {
        let server = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
        let plane = DataPlane::new(Limits {
            hello: Duration::from_millis(500),
            ..Limits::default()
        });
        plane.alive("a", true, "test");
        let member = server.local_addr().unwrap();
        plane.serve([(carries, alone::listener("t/web", 0, member))]);
        let at = alone::bound(&plane).await;
        Self { plane, at, server }
    }

    fn behind(&self, from: &str) {
        self.plane.behind(Some(vec![from.parse().unwrap()]));
    }

    fn status(&self) -> ListenerStatus {
        self.plane.status().remove(0)
    }

    /// What the server hears first of somebody who says this, piece by piece.
    async fn heard(&self, said: &[&[u8]], wanted: &[u8]) -> SocketAddr {
        let mut client = TcpStream::connect(self.at).await.unwrap();
        client.set_nodelay(true).unwrap();
        let own = client.local_addr().unwrap();
        for piece in said {
            client.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        let (mut member, _) = timeout(PATIENCE, self.server.accept())
            .await
            .unwrap()
            .unwrap();
        let mut heard = vec![0; wanted.len()];
        let read = timeout(PATIENCE, member.read_exact(&mut heard)).await;
        read.unwrap().unwrap();
        assert_eq!(heard, wanted);
        member.write_all(b"back").await.unwrap();
        let mut back = [0; 4];
        client.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"back");
        own
    }

    /// Whoever says this is closed, and counted.
    async fn closed(&self, said: &[u8]) {
        let before = self.status().refused;
        let mut client = TcpStream::connect(self.at).await.unwrap();
        let _ = client.write_all(said).await;
        let mut room = [0; 1];
        let end = timeout(PATIENCE, client.read(&mut room)).await.unwrap();
        assert!(!matches!(end, Ok(1..)), "an answer to {said:?}");
        assert_eq!(self.status().refused, before + 1);
        let nobody = timeout(Duration::from_millis(50), self.server.accept()).await;
        assert!(nobody.is_err(), "a member hears {said:?}");
    }
}

const fn told(told: ClientIp) -> Carries {
    let ranges = Vec::new();
    Carries::Connections { told, ranges }
}

#[tokio::test]
async fn who_a_load_balancer_says_is_told_to_the_member_and_no_byte_is_lost() {
    let site = Site::new(told(ClientIp::ProxyV1)).await;
    site.behind("127.0.0.1/32");
    let wanted = [LINE, b"GET /"].concat();
    site.heard(&[LINE, b"GET /"], &wanted).await;
    // In one piece, and byte by byte.
    site.heard(&[&wanted], &wanted).await;
    let bytes: Vec<&[u8]> = wanted.chunks(1).collect();
    site.heard(&bytes, &wanted).await;
    // The other version.
    let ends = [192, 0, 2, 7, 203, 0, 113, 9, 0xdc, 0x04, 0x01, 0xbb];
    let head = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f";
    let binary = [&head[..], &ends, &[0x04, 0, 0], b"GET /"].concat();
    site.heard(&[&binary], &wanted).await;
    site.plane.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_load_balancer_that_speaks_for_itself_is_served_with_its_own_address() {
    let site = Site::new(told(ClientIp::Hidden)).await;
    site.behind("127.0.0.0/8");
    site.heard(&[b"PROXY UNKNOWN\r\nwell"], b"well").await;
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0well";
    site.heard(&[local], b"well").await;
    // And where the member is told.
    let site = Site::new(told(ClientIp::ProxyV1)).await;
    site.behind("127.0.0.0/8");
    let own = site
        .heard(&[local], b"PROXY TCP4 127.0.0.1 127.0.0.1 ")
        .await;
    assert_eq!(own.ip(), LOOPBACK);
}

#[tokio::test]
async fn others_and_those_without_a_header_are_closed() {
    let site = Site::new(told(ClientIp::Hidden)).await;
    site.behind("127.0.0.1/32");
    for said in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        b"PROXY TCP9 \r\n",
        b"PROXY",
        b"",
    ] {
        site.closed(said).await;
    }
    site.behind("127.0.0.2/32");
    site.closed(LINE).await;
    site.plane.behind(Some(Vec::new()));
    site.closed(LINE).await;
    // Without load balancers a header is what the client says.
    site.plane.behind(None);
    site.heard(&[LINE], LINE).await;
}

#[tokio::test]
async fn a_name_is_heard_behind_the_header() {
    let carries = Carries::Named {
        names: vec!["a.example".to_owned()],
        told: ClientIp::ProxyV1,
    };
    let mut site = Site::new(carries).await;
    site.behind("127.0.0.1/32");
    let hello = hello("a.example");
    let wanted = [LINE, &hello].concat();
    site.heard(&[&wanted], &wanted).await;
    site.heard(&[LINE, &hello[..9], &hello[9..]], &wanted).await;
    let status = site.plane.status();
    let door = status.iter().find(|one| one.name.starts_with("tls/"));
    assert_eq!(door.unwrap().refused, 0);
    site.behind("127.0.0.2/32");
    site.at = SocketAddr::new(LOOPBACK, site.at.port());
    site.closed(&wanted).await;
}

/// What a client of TLS says first.
fn hello(name: &str) -> Vec<u8> {
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = name.to_owned().try_into().unwrap();
    let mut client = rustls::ClientConnection::new(std::sync::Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}
