//! The proxy on loopback: real sockets, real servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code"
)]

mod waiting;

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use kedge_control::balance::{Listener, Member};
use kedge_core::Code;
use kedge_gateway_dataplane::{DataPlane, Limits};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use waiting::{PATIENCE, eventually};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn limits() -> Limits {
    Limits {
        connect: Duration::from_millis(500),
        recheck: Duration::from_millis(50),
        drain: Duration::from_millis(500),
        ..Limits::default()
    }
}

fn member(host: &str, at: SocketAddr) -> Member {
    Member {
        host: host.to_owned(),
        address: at.ip(),
        port: at.port(),
        draining: false,
    }
}

fn listener(port: u16, members: &[Member]) -> Listener {
    Listener {
        name: format!("edge/test/{port}"),
        address: LOOPBACK,
        port,
        members: members.to_vec(),
    }
}

/// The address a listener is bound to.
async fn bound(plane: &DataPlane) -> SocketAddr {
    eventually("the listener is bound", || {
        let status = plane.status();
        let first = status.first().filter(|status| status.bound)?;
        Some(SocketAddr::new(first.address, first.port))
    })
    .await
}

/// A plane with one listener that leads to the hosts, all of them alive.
async fn plane_for(members: &[Member]) -> (DataPlane, SocketAddr) {
    let plane = DataPlane::new(limits());
    for member in members {
        plane.alive(&member.host, true, "test");
    }
    plane.apply(vec![listener(0, members)]);
    let at = bound(&plane).await;
    (plane, at)
}

/// A server that answers every connection with its name, then echoes.
async fn named_server(name: &'static str, at: SocketAddr) -> (SocketAddr, JoinSet<()>) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(at).unwrap();
    let server = socket.listen(1024).unwrap();
    let at = server.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = server.accept().await.unwrap();
            connections.spawn(async move {
                if stream.write_all(name.as_bytes()).await.is_ok() {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                    let _ = write.shutdown().await;
                }
            });
        }
    });
    (at, tasks)
}

fn any_port() -> SocketAddr {
    SocketAddr::new(LOOPBACK, 0)
}

/// The name of the server that answers, or the error.
async fn ask(at: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at).await?;
    stream.shutdown().await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// A cheap stream of bytes that shows every lost, doubled or swapped chunk.
struct Noise(u64);

impl Noise {
    fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            chunk.copy_from_slice(&self.0.to_le_bytes()[..chunk.len()]);
        }
    }
}

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

async fn send_noise(write: &mut (impl AsyncWriteExt + Unpin), seed: u64, mut left: usize) -> u64 {
    let mut noise = Noise(seed);
    let mut hash = 0;
    let mut buffer = vec![0; 64 * 1024];
    while left > 0 {
        let size = left.min(buffer.len());
        noise.fill(&mut buffer[..size]);
        hash = fnv(hash, &buffer[..size]);
        write.write_all(&buffer[..size]).await.unwrap();
        left -= size;
    }
    write.shutdown().await.unwrap();
    hash
}

async fn digest(read: &mut (impl AsyncReadExt + Unpin)) -> (usize, u64) {
    let (mut total, mut hash) = (0, 0);
    let mut buffer = vec![0; 100_000];
    loop {
        let size = read.read(&mut buffer).await.unwrap();
        if size == 0 {
            return (total, hash);
        }
        total += size;
        hash = fnv(hash, &buffer[..size]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_transfers_both_ways_arrive_unchanged() {
    const SIZE: usize = 48 * 1024 * 1024 + 12_345;
    let server = TcpListener::bind(any_port()).await.unwrap();
    let (plane, at) = plane_for(&[member("a", server.local_addr().unwrap())]).await;
    let far = tokio::spawn(async move {
        let (stream, _) = server.accept().await.unwrap();
        let (mut read, mut write) = stream.into_split();
        tokio::join!(send_noise(&mut write, 7, SIZE), digest(&mut read))
    });
    let start = Instant::now();
    let stream = TcpStream::connect(at).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let (sent, received) = tokio::join!(send_noise(&mut write, 99, SIZE), digest(&mut read));
    let (far_sent, far_received) = far.await.unwrap();
    eprintln!("2 x {SIZE} bytes in {:?}", start.elapsed());
    assert_eq!(far_received, (SIZE, sent));
    assert_eq!(received, (SIZE, far_sent));
    assert_eq!(plane.status()[0].refused, 0);
}

/// A fast stream is gathered; what comes after it is little, and nothing follows until it is answered.
#[tokio::test]
async fn a_word_after_a_fast_burst_arrives_although_nothing_follows() {
    let server = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
    let at = server.local_addr().unwrap();
    let (_plane, door) = plane_for(&[member("a", at)]).await;
    let mut client = TcpStream::connect(door).await.unwrap();
    let (mut far, _) = server.accept().await.unwrap();
    let burst = vec![7; 16 << 20];
    for word in *b"kedge" {
        let reader = async {
            let mut came = vec![0; burst.len()];
            far.read_exact(&mut came).await.unwrap();
            far.write_u8(0).await.unwrap();
            let word = far.read_u8().await.unwrap();
            far.write_u8(word).await.unwrap();
        };
        let writer = async {
            client.write_all(&burst).await.unwrap();
            assert_eq!(client.read_u8().await.unwrap(), 0, "all of it has come");
            client.write_u8(word).await.unwrap();
            client.read_u8().await.unwrap()
        };
        let exchange = async { tokio::join!(writer, reader).0 };
        let answer = tokio::time::timeout(PATIENCE, exchange).await;
        assert_eq!(answer.expect("the last byte is stuck"), word);
    }
}

#[tokio::test]
async fn one_direction_ends_while_the_other_goes_on() {
    let server = TcpListener::bind(any_port()).await.unwrap();
    let (_plane, at) = plane_for(&[member("a", server.local_addr().unwrap())]).await;
    let mut client = TcpStream::connect(at).await.unwrap();
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let (mut stream, _) = server.accept().await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(
        text, "question",
        "the end of the question crossed the proxy"
    );
    for part in ["a ", "late ", "answer"] {
        stream.write_all(part.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
    }
    drop(stream);
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "a late answer");
}

#[tokio::test]
async fn a_connection_without_a_byte_closes_cleanly() {
    let server = TcpListener::bind(any_port()).await.unwrap();
    let (plane, at) = plane_for(&[member("a", server.local_addr().unwrap())]).await;
    let mut client = TcpStream::connect(at).await.unwrap();
    let (stream, _) = server.accept().await.unwrap();
    drop(stream);
    let mut rest = Vec::new();
    assert_eq!(client.read_to_end(&mut rest).await.unwrap(), 0);
    drop(client);
    eventually("nothing stays open", || {
        (plane.status()[0].open == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_reset_of_either_side_reaches_the_other() {
    let server = TcpListener::bind(any_port()).await.unwrap();
    let (plane, at) = plane_for(&[member("a", server.local_addr().unwrap())]).await;
    // The member resets.
    let mut client = TcpStream::connect(at).await.unwrap();
    let (stream, _) = server.accept().await.unwrap();
    stream.set_zero_linger().unwrap();
    drop(stream);
    let error = client.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // The client resets, after it has finished sending.
    let mut client = TcpStream::connect(at).await.unwrap();
    client.shutdown().await.unwrap();
    let (mut stream, _) = server.accept().await.unwrap();
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    client.set_zero_linger().unwrap();
    drop(client);
    let error = eventually("the reset arrives", || {
        stream
            .try_read(&mut [0; 8])
            .err()
            .filter(|e| e.kind() != ErrorKind::WouldBlock)
            .or_else(|| stream.try_write(b"x").err())
    })
    .await;
    assert!(
        matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        ),
        "{error}"
    );
    eventually("nothing stays open", || {
        (plane.status()[0].open == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_early_answer_survives_the_reset_that_follows_it() {
    let server = TcpListener::bind(any_port()).await.unwrap();
    let (_plane, at) = plane_for(&[member("a", server.local_addr().unwrap())]).await;
    let mut client = TcpStream::connect(at).await.unwrap();
    client.write_all(b"a body nobody reads").await.unwrap();
    let (mut stream, _) = server.accept().await.unwrap();
    stream.readable().await.unwrap();
    stream.write_all(b"413").await.unwrap();
    // Closing with unread data makes the kernel send a reset after the answer.
    drop(stream);
    let mut answer = [0; 3];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"413");
}

#[tokio::test]
async fn clients_move_to_another_member_and_return_when_it_is_back() {
    let (at_a, server_a) = named_server("a", any_port()).await;
    let (at_b, _server_b) = named_server("b", any_port()).await;
    let (plane, at) = plane_for(&[member("a", at_a), member("b", at_b)]).await;
    let mut seen = [ask(at).await.unwrap(), ask(at).await.unwrap()];
    seen.sort();
    assert_eq!(seen, ["a", "b"], "connections are spread");
    drop(server_a);
    eventually("a no longer listens", || {
        std::net::TcpStream::connect(at_a).is_err().then_some(())
    })
    .await;
    for _ in 0..4 {
        assert_eq!(ask(at).await.unwrap(), "b", "no client sees the failure");
    }
    let status = plane.status();
    assert!(!status[0].members[0].alive);
    assert!(
        status[0].members[0].because.contains("refused"),
        "{status:?}"
    );
    let (_, _server_a) = named_server("a", at_a).await;
    eventually("a is back", || {
        plane.status()[0].members[0].alive.then_some(())
    })
    .await;
    let mut seen = [ask(at).await.unwrap(), ask(at).await.unwrap()];
    seen.sort();
    assert_eq!(seen, ["a", "b"]);
}

/// `kubeadm init` has some ten seconds for its first call by the endpoint: none of them is for us to wait in.
#[tokio::test]
async fn the_first_client_after_the_only_server_came_up_is_answered() {
    let (at, tasks) = named_server("first", any_port()).await;
    drop(tasks);
    let plane = DataPlane::new(Limits {
        recheck: Duration::from_secs(3_600),
        ..limits()
    });
    plane.alive("first", true, "test");
    plane.apply(vec![listener(0, &[member("first", at)])]);
    let proxy = bound(&plane).await;
    for _ in 0..3 {
        assert!(ask(proxy).await.is_err());
    }
    assert!(!plane.status()[0].members[0].alive);
    let (_, _tasks) = named_server("first", at).await;
    assert_eq!(ask(proxy).await.unwrap(), "first");
    assert!(plane.status()[0].members[0].alive);
}

#[tokio::test]
async fn a_dead_host_gets_no_connection_and_without_members_clients_are_reset() {
    let (at_a, _server) = named_server("a", any_port()).await;
    let (plane, at) = plane_for(&[member("a", at_a)]).await;
    assert_eq!(ask(at).await.unwrap(), "a");
    plane.alive("a", false, "no data for 3 s");
    let start = Instant::now();
    assert!(ask(at).await.is_err());
    assert!(start.elapsed() < Duration::from_millis(300), "at once");
    let problems = plane.problems();
    assert_eq!(problems[0].code, Code::GatewayNoMember);
    assert_eq!(problems[0].evidence, ["a: no data for 3 s"]);
    eventually("it is counted", || {
        (plane.status()[0].refused == 1).then_some(())
    })
    .await;
    plane.alive("a", true, "data again");
    assert_eq!(ask(at).await.unwrap(), "a");
    assert!(plane.problems().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_small_connections_all_get_their_answer() {
    const CLIENTS: usize = 64;
    const EACH: usize = 50;
    let (at_a, _server_a) = named_server("a", any_port()).await;
    let (at_b, _server_b) = named_server("b", any_port()).await;
    let (plane, at) = plane_for(&[member("a", at_a), member("b", at_b)]).await;
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(async move {
            let mut seen = [0; 2];
            for _ in 0..EACH {
                let name = ask(at).await.unwrap();
                seen[usize::from(name == "b")] += 1;
            }
            seen
        });
    }
    let mut seen = [0; 2];
    while let Some(counts) = clients.join_next().await {
        let counts = counts.unwrap();
        seen = [seen[0] + counts[0], seen[1] + counts[1]];
    }
    eprintln!(
        "{} connections in {:?}: {seen:?}",
        CLIENTS * EACH,
        start.elapsed()
    );
    assert_eq!(seen[0] + seen[1], CLIENTS * EACH);
    assert!(seen[0].abs_diff(seen[1]) < CLIENTS * EACH / 4, "{seen:?}");
    let total = u64::try_from(CLIENTS * EACH).unwrap();
    eventually("all are closed", || {
        (plane.status()[0].open == 0).then_some(())
    })
    .await;
    let status = plane.status();
    assert_eq!((status[0].accepted, status[0].refused), (total, 0));
}

#[tokio::test]
async fn unchanged_listeners_keep_their_connections_and_removed_ones_drain() {
    let (at_a, _server) = named_server("a", any_port()).await;
    let members = [member("a", at_a)];
    let (plane, at) = plane_for(&members).await;
    let mut kept = TcpStream::connect(at).await.unwrap();
    let mut byte = [0; 1];
    kept.read_exact(&mut byte).await.unwrap();
    // Another listener beside it, and another name for the first.
    let mut renamed = listener(0, &members);
    renamed.name = "edge/renamed/0".to_owned();
    let spare = std::net::TcpListener::bind(any_port()).unwrap();
    let second = spare.local_addr().unwrap();
    drop(spare);
    plane.apply(vec![renamed, listener(second.port(), &members)]);
    eventually("both are bound", || {
        plane
            .status()
            .iter()
            .all(|status| status.bound)
            .then_some(())
    })
    .await;
    assert_eq!(plane.status()[0].name, "edge/renamed/0");
    assert_eq!(bound(&plane).await, at, "the socket is the same");
    kept.write_all(b"x").await.unwrap();
    kept.read_exact(&mut byte).await.unwrap();
    // The first goes: it accepts nobody, what is open ends when the drain is over.
    plane.apply(vec![listener(second.port(), &members)]);
    eventually("new clients are refused", || {
        std::net::TcpStream::connect(at).is_err().then_some(())
    })
    .await;
    kept.write_all(b"y").await.unwrap();
    kept.read_exact(&mut byte).await.unwrap();
    assert_eq!(&byte, b"y", "an open connection goes on while draining");
    let start = Instant::now();
    let ended = kept.read(&mut byte).await;
    assert!(matches!(ended, Ok(0) | Err(_)));
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "the drain is bounded"
    );
    assert_eq!(ask(second).await.unwrap(), "a");
}

#[tokio::test]
async fn a_taken_port_is_a_problem_until_it_is_free() {
    let (at_a, _server) = named_server("a", any_port()).await;
    let squatter = std::net::TcpListener::bind(any_port()).unwrap();
    let at = squatter.local_addr().unwrap();
    let plane = DataPlane::new(limits());
    plane.alive("a", true, "test");
    let wanted = listener(at.port(), &[member("a", at_a)]);
    plane.apply(vec![wanted.clone(), wanted.clone()]);
    let problems = eventually("it is told", || {
        let problems = plane.problems();
        (problems.len() == 2).then_some(problems)
    })
    .await;
    assert!(problems.iter().all(|p| p.code == Code::GatewayPortInUse));
    assert!(
        problems[1].evidence[0].contains(&at.to_string()),
        "{problems:?}"
    );
    assert!(!plane.status()[0].bound);
    plane.apply(vec![wanted]);
    drop(squatter);
    assert_eq!(bound(&plane).await, at);
    assert!(plane.problems().is_empty());
    assert_eq!(ask(at).await.unwrap(), "a");
}

#[tokio::test]
async fn a_full_listener_turns_clients_away_and_counts_them() {
    let (at_a, _server) = named_server("a", any_port()).await;
    let plane = DataPlane::new(Limits {
        connections: 2,
        ..limits()
    });
    plane.alive("a", true, "test");
    plane.apply(vec![listener(0, &[member("a", at_a)])]);
    let at = bound(&plane).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.read_u8().await.unwrap();
        held.push(stream);
    }
    assert!(ask(at).await.is_err());
    let problems = plane.problems();
    assert_eq!(problems[0].code, Code::GatewayListenerFull, "{problems:?}");
    assert_eq!(plane.status()[0].refused, 1);
    held.clear();
    eventually("there is room again", || {
        plane.problems().is_empty().then_some(())
    })
    .await;
    assert_eq!(ask(at).await.unwrap(), "a");
}

#[tokio::test]
async fn shutdown_waits_for_connections_within_its_limit() {
    let (at_a, _server) = named_server("a", any_port()).await;
    let (plane, at) = plane_for(&[member("a", at_a)]).await;
    let mut open = TcpStream::connect(at).await.unwrap();
    open.read_u8().await.unwrap();
    let start = Instant::now();
    plane.shutdown(Duration::from_millis(200)).await;
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(200) && took < Duration::from_secs(1),
        "{took:?}"
    );
    assert!(TcpStream::connect(at).await.is_err());
}
