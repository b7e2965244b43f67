//! TLS by name on loopback: real clients, real servers, one address.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

mod waiting;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use kedge_control::{
    balance::{Listener, Member},
    frontend::ClientIp,
    local::ListenerStatus,
};
use kedge_gateway_dataplane::{Carries, DataPlane, Limits};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use waiting::{PATIENCE, eventually};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn limits() -> Limits {
    Limits {
        connect: Duration::from_millis(500),
        recheck: Duration::from_millis(50),
        drain: Duration::from_millis(500),
        hello: Duration::from_secs(5),
        ..Limits::default()
    }
}

/// A server with a certificate of its names: it says the first of them, then what it is told.
struct Server {
    names: Vec<String>,
    at: SocketAddr,
    certificate: CertificateDer<'static>,
    tasks: JoinSet<()>,
}

impl Server {
    async fn start(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let own = rcgen::generate_simple_self_signed(names.clone()).unwrap();
        let certificate = own.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (mut tasks, name) = (JoinSet::new(), names[0].clone());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, name) = (acceptor.clone(), name.clone());
                connections.spawn(async move {
                    if let Ok(mut stream) = acceptor.accept(stream).await
                        && stream.write_all(name.as_bytes()).await.is_ok()
                    {
                        let (mut read, mut write) = tokio::io::split(stream);
                        let _ = tokio::io::copy(&mut read, &mut write).await;
                        let _ = write.shutdown().await;
                    }
                });
            }
        });
        Self {
            names,
            at,
            certificate,
            tasks,
        }
    }

    /// The frontend that leads to it.
    fn frontend(&self, port: u16) -> (Carries, Listener) {
        let listener = Listener {
            name: format!("t/{}", self.names[0]),
            address: LOOPBACK,
            port,
            members: vec![Member {
                host: self.names[0].clone(),
                address: self.at.ip(),
                port: self.at.port(),
                draining: false,
            }],
        };
        let names = self.names.clone();
        (named(names), listener)
    }

    /// A client that trusts nobody else.
    fn client(&self, sni: bool) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.enable_sni = sni;
        TlsConnector::from(Arc::new(config))
    }

    /// A client of it behind a door, as far as its name has come back.
    async fn ask(&self, at: SocketAddr, name: &str) -> io::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(at).await?;
        self.ask_over(socket, name).await
    }

    async fn ask_over<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        socket: S,
        name: &str,
    ) -> io::Result<TlsStream<S>> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut stream = self.client(true).connect(name, socket).await?;
        let mut said = vec![0; self.names[0].len()];
        stream.read_exact(&mut said).await?;
        assert_eq!(said, self.names[0].as_bytes());
        Ok(stream)
    }
}

fn named(names: Vec<String>) -> Carries {
    let told = ClientIp::Hidden;
    Carries::Named { names, told }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// A plane with a door in front of the servers, and where it is.
async fn door(limits: Limits, servers: &[&Server]) -> (DataPlane, SocketAddr) {
    let plane = DataPlane::new(limits);
    for server in servers {
        plane.alive(&server.names[0], true, "test");
    }
    plane.serve(servers.iter().map(|server| server.frontend(0)));
    let at = eventually("the door is bound", || {
        let status = plane.status();
        let first = status.first().filter(|status| status.bound)?;
        Some(SocketAddr::new(first.address, first.port))
    })
    .await;
    (plane, at)
}

fn status(plane: &DataPlane, name: &str) -> ListenerStatus {
    let mut all = plane.status().into_iter();
    all.find(|one| one.name.starts_with(name)).unwrap()
}

/// Bytes both ways at once, more than any buffer on the way holds.
async fn carries<S: AsyncRead + AsyncWrite + Unpin>(stream: TlsStream<S>) {
    let sent: Vec<u8> = (0..=250).cycle().take(3_000_000).collect();
    let (mut read, mut write) = tokio::io::split(stream);
    let (mut came, length) = (Vec::new(), sent.len());
    tokio::join!(
        async {
            write.write_all(&sent).await.unwrap();
            write.flush().await.unwrap();
        },
        async {
            let mut room = vec![0; 65_536];
            while came.len() < length {
                let length = read.read(&mut room).await.unwrap();
                assert_ne!(length, 0, "it ended after {} bytes", came.len());
                came.extend_from_slice(&room[..length]);
            }
        }
    );
    assert!(came == sent, "the bytes are the same");
    write.shutdown().await.unwrap();
    assert_eq!(read.read(&mut [0; 8]).await.unwrap(), 0, "its end crosses");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_names_at_one_address_lead_to_two_servers() {
    let a = Server::start(&["a.example", "www.a.example"]).await;
    let b = Server::start(&["b.example"]).await;
    let (plane, at) = door(limits(), &[&a, &b]).await;
    for (server, name) in [(&a, "a.example"), (&b, "b.example"), (&a, "WWW.A.Example")] {
        let stream = server.ask(at, name).await.unwrap();
        carries(stream).await;
    }
    eventually("all are counted and closed", || {
        let (of_a, of_b) = (status(&plane, "t/a"), status(&plane, "t/b"));
        let counted = (of_a.accepted, of_b.accepted) == (2, 1);
        (counted && of_a.open + of_b.open == 0).then_some(())
    })
    .await;
    assert_eq!(status(&plane, "tls/").accepted, 3);
    assert!(
        plane
            .status()
            .iter()
            .all(|one| one.bound && one.refused == 0)
    );
    assert_eq!(plane.problems(), []);
}

/// A socket that takes one byte at a time.
struct Dribble(TcpStream);

impl AsyncWrite for Dribble {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let bytes = &bytes[..bytes.len().min(1)];
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl AsyncRead for Dribble {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, room)
    }
}

#[tokio::test]
async fn a_hello_in_single_bytes_is_a_hello() {
    let a = Server::start(&["a.example"]).await;
    let (_plane, at) = door(limits(), &[&a]).await;
    let socket = TcpStream::connect(at).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let mut stream = a.ask_over(Dribble(socket), "a.example").await.unwrap();
    stream.write_all(b"and on").await.unwrap();
    let mut said = [0; 6];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"and on");
}

/// Says something, and waits until it is closed; nothing is ever answered.
async fn closed(at: SocketAddr, said: &[u8]) -> Duration {
    let start = Instant::now();
    let mut socket = TcpStream::connect(at).await.unwrap();
    socket.write_all(said).await.unwrap();
    let mut room = [0; 64];
    let ended = tokio::time::timeout(PATIENCE, socket.read(&mut room)).await;
    assert!(matches!(ended.unwrap(), Ok(0) | Err(_)));
    start.elapsed()
}

#[tokio::test]
async fn whoever_names_nobody_here_is_closed_and_counted() {
    let a = Server::start(&["a.example"]).await;
    let other = Server::start(&["other.example"]).await;
    let (plane, at) = door(limits(), &[&a]).await;
    assert!(other.ask(at, "other.example").await.is_err(), "unknown");
    let socket = TcpStream::connect(at).await.unwrap();
    let name = ServerName::try_from("a.example").unwrap();
    let unnamed = a.client(false).connect(name, socket).await;
    assert!(unnamed.is_err(), "no name");
    let took = closed(at, b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert!(took < Duration::from_secs(4), "plain text: {took:?}");
    closed(at, &[22, 3, 1, 0xff, 0xff]).await;
    // A record of the right form that goes on for longer than a hello may.
    let mut long = vec![22, 3, 1, 0x3f, 0xff];
    long.resize(20_000, 1);
    closed(at, &long).await;
    // One that leaves without a word.
    drop(TcpStream::connect(at).await.unwrap());
    eventually("all are counted", || {
        let door = status(&plane, "tls/");
        (door.refused == 6 && door.open == 0).then_some(())
    })
    .await;
    assert_eq!(status(&plane, "t/a").accepted, 0, "no host heard of them");
    a.ask(at, "a.example").await.unwrap();
}

#[tokio::test]
async fn a_slow_hello_is_waited_for_so_long_and_keeps_nobody() {
    let a = Server::start(&["a.example"]).await;
    let hello = Duration::from_millis(400);
    let limits = Limits {
        hello,
        connections: 3,
        ..limits()
    };
    let (plane, at) = door(limits, &[&a]).await;
    let mut slow = JoinSet::new();
    for said in [&b""[..], &[22, 3, 1], &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc]] {
        slow.spawn(async move { closed(at, said).await });
    }
    eventually("all are waited for", || {
        (status(&plane, "tls/").open == 3).then_some(())
    })
    .await;
    closed(at, b"").await;
    let problems = plane.problems();
    assert!(problems[0].what.contains("no room"), "{problems:?}");
    while let Some(took) = slow.join_next().await {
        let took = took.unwrap();
        assert!(took >= hello && took < Duration::from_secs(4), "{took:?}");
    }
    eventually("there is room", || {
        plane.problems().is_empty().then_some(())
    })
    .await;
    assert_eq!(status(&plane, "tls/").refused, 4);
    a.ask(at, "a.example").await.unwrap();
}

#[tokio::test]
async fn each_name_has_its_own_hosts_and_room() {
    let a = Server::start(&["a.example"]).await;
    let b = Server::start(&["b.example"]).await;
    let limits = Limits {
        connections: 2,
        ..limits()
    };
    let (plane, at) = door(limits, &[&a, &b]).await;
    let held = [
        a.ask(at, "a.example").await.unwrap(),
        a.ask(at, "a.example").await.unwrap(),
    ];
    assert!(a.ask(at, "a.example").await.is_err(), "a is full");
    b.ask(at, "b.example").await.unwrap();
    drop(held);
    eventually("a has room", || {
        (status(&plane, "t/a").open == 0).then_some(())
    })
    .await;
    plane.alive("a.example", false, "no data for 3 s");
    assert!(a.ask(at, "a.example").await.is_err(), "a is dead");
    b.ask(at, "b.example").await.unwrap();
    let problems = plane.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].object.contains("t/a.example"));
    plane.alive("a.example", true, "data again");
    a.ask(at, "a.example").await.unwrap();
    // Its server is gone for a while: it is asked again, as behind any listener.
    let Server { at: address, .. } = b;
    drop(b.tasks);
    eventually("b no longer listens", || {
        std::net::TcpStream::connect(address).is_err().then_some(())
    })
    .await;
    let name = ServerName::try_from("b.example").unwrap();
    let socket = TcpStream::connect(at).await.unwrap();
    assert!(a.client(true).connect(name, socket).await.is_err());
    assert!(!status(&plane, "t/b").members[0].alive);
    let _back = TcpListener::bind(address).await.unwrap();
    eventually("b is back", || {
        status(&plane, "t/b").members[0].alive.then_some(())
    })
    .await;
}

#[tokio::test]
async fn names_come_and_go_while_others_stay() {
    let a = Server::start(&["a.example"]).await;
    let b = Server::start(&["b.example"]).await;
    let (plane, at) = door(limits(), &[&a]).await;
    let mut kept = a.ask(at, "a.example").await.unwrap();
    plane.alive("b.example", true, "test");
    plane.serve([b.frontend(0), a.frontend(0)]);
    assert_eq!(status(&plane, "tls/").port, at.port(), "the same socket");
    let mut leaving = b.ask(at, "b.example").await.unwrap();
    // What somebody has nobody else gets.
    let (_, mut late) = b.frontend(0);
    late.name = "t/late".to_owned();
    let names = vec!["a.example".to_owned(), "c.example".to_owned()];
    plane.serve([a.frontend(0), (named(names), late)]);
    let gone = b.ask(at, "b.example").await;
    assert!(gone.is_err(), "nobody is called so any more");
    leaving.write_all(b"x").await.unwrap();
    assert_eq!(leaving.read_u8().await.unwrap(), b'x', "while it drains");
    let ended = leaving.read(&mut [0; 8]).await;
    assert!(matches!(ended, Ok(0) | Err(_)));
    a.ask(at, "a.example").await.unwrap();
    kept.write_all(b"y").await.unwrap();
    assert_eq!(kept.read_u8().await.unwrap(), b'y');
    let start = Instant::now();
    plane.shutdown(Duration::from_millis(200)).await;
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(1));
    assert!(TcpStream::connect(at).await.is_err());
}
