//! What is tried.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use kedge_control::local::{NetState, NetStep, Tunnel};
use kedge_net::underlay::Underlay;

use super::step;
use crate::{
    ask::ping::Pinging,
    style::{long, short},
};

/// Looks a name up. A resolver may take its time: nobody waits for it longer than `wait`.
pub(super) fn name(endpoint: &str, wait: Duration) -> (Option<SocketAddr>, NetStep) {
    if let Ok(address) = endpoint.parse() {
        let because = "it is an address";
        return (Some(address), step("name", NetState::Ok, because));
    }
    let begun = Instant::now();
    let (found, answer) = mpsc::channel();
    let text = endpoint.to_owned();
    thread::spawn(move || {
        let addresses = text.to_socket_addrs().map(Vec::from_iter);
        // Nobody may wait any more.
        let _ = found.send(addresses);
    });
    let failed = |because: String| (None, step("name", NetState::Failed, because));
    match answer.recv_timeout(wait) {
        Ok(Ok(addresses)) => match addresses.first() {
            Some(first) => {
                let all: Vec<String> = addresses.iter().map(|at| at.ip().to_string()).collect();
                let took = short(begun.elapsed().as_secs_f64());
                let because = format!("{} in {took}", all.join(", "));
                (Some(*first), step("name", NetState::Ok, because))
            }
            None => failed("it has no address".to_owned()),
        },
        Ok(Err(error)) => failed(error.to_string()),
        Err(_) => failed(format!("no answer in {}", short(wait.as_secs_f64()))),
    }
}

/// Looks for a route, and from which address it leaves.
pub(super) fn route(to: SocketAddr) -> NetStep {
    let any: IpAddr = if to.is_ipv4() {
        [0; 4].into()
    } else {
        [0_u16; 8].into()
    };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    match from {
        Ok(from) => {
            let mtu = Underlay::open().and_then(|mut underlay| underlay.mtu(to));
            let mtu = mtu.map_or_else(
                |error| format!("how large packets may be is not known ({error})"),
                |mtu| format!("the first link takes {mtu} bytes"),
            );
            step("route", NetState::Ok, format!("from {}, {mtu}", from.ip()))
        }
        Err(error) => step("route", NetState::Failed, error.to_string()),
    }
}

/// Asks through the tunnel, which makes a handshake where there is no session.
pub(super) fn udp(peer: &Tunnel, ends: Option<(IpAddr, IpAddr)>) -> NetStep {
    let age = peer.handshake_age_seconds;
    let handshake = age.map_or_else(
        || "no handshake was answered yet".to_owned(),
        |age| format!("the last handshake was answered {} ago", long(age)),
    );
    if let Some(fallback) = &peer.fallback {
        let because = format!(
            "{}: what answers comes by {}",
            fallback.because, fallback.path
        );
        return step("udp", NetState::Failed, because);
    }
    let fresh = age.is_some_and(|age| age < FRESH);
    let Some((from, to)) = ends else {
        let state = if fresh {
            NetState::Ok
        } else {
            NetState::Warning
        };
        return step(
            "udp",
            state,
            format!("{handshake}; there is nobody to ask in the tunnel"),
        );
    };
    match ask(peer, from, to) {
        Ok((received, Some(rtt))) => {
            let took = short(rtt);
            let because =
                format!("the tunnel answers in {took} ({received} of {QUESTIONS}); {handshake}");
            step("udp", NetState::Ok, because)
        }
        Ok((_, None)) => {
            let state = if fresh {
                NetState::Warning
            } else {
                NetState::Failed
            };
            step(
                "udp",
                state,
                format!("{QUESTIONS} questions in the tunnel went unanswered; {handshake}"),
            )
        }
        Err(error) => step(
            "udp",
            NetState::Skipped,
            format!("nothing was asked from {from}: {error}"),
        ),
    }
}

fn ask(peer: &Tunnel, from: IpAddr, to: IpAddr) -> io::Result<(u32, Option<f64>)> {
    let mut ping = Pinging::open(&peer.name, from, to, 80)?;
    for sequence in 1..=QUESTIONS {
        ping.ask(sequence);
        let last = sequence == QUESTIONS;
        let wait = if last { PATIENCE } else { PAUSE };
        ping.hear(wait, last, |_, _| {});
    }
    let told = ping.told(Duration::ZERO);
    Ok((told.received, told.rtt.map(|rtt| rtt.avg_seconds)))
}

/// What the agent knows of the way.
pub(super) fn mtu(peer: &Tunnel) -> NetStep {
    let Some(path) = &peer.path_mtu else {
        return step(
            "mtu",
            NetState::Skipped,
            "a number is configured: nothing is probed",
        );
    };
    let state = match path.source.as_str() {
        "probed" => NetState::Ok,
        "floor" => NetState::Warning,
        _ => NetState::Skipped,
    };
    step("mtu", state, format!("{} bytes {}", path.mtu, path.because))
}

/// Whether the gateway is reached where hosts call over TLS, if it is somewhere.
pub(super) fn tls(peer: &Tunnel, wait: Duration) -> Option<NetStep> {
    let endpoint = peer.tls_endpoint.as_ref()?;
    if peer.fallback.as_ref().is_some_and(|it| it.path == "tls") {
        let because = format!("the tunnel goes over {endpoint}");
        return Some(step("tls", NetState::Ok, because));
    }
    let (address, looked_up) = name(endpoint, wait);
    let reached = address.map_or(looked_up, |address| tcp(address, wait));
    let state = match reached.state {
        NetState::Ok if !reached.because.contains("nobody listens") => NetState::Ok,
        _ => NetState::Warning,
    };
    Some(step("tls", state, reached.because))
}

/// Connects, and hangs up.
pub(super) fn tcp(to: SocketAddr, wait: Duration) -> NetStep {
    let begun = Instant::now();
    let (state, because) = match TcpStream::connect_timeout(&to, wait) {
        Ok(_) => {
            let took = short(begun.elapsed().as_secs_f64());
            (NetState::Ok, format!("{to} accepts in {took}"))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => (
            NetState::Ok,
            format!("{to} is reached; nobody listens on that port"),
        ),
        Err(error) => (NetState::Warning, format!("{to} is not reached: {error}")),
    };
    step("tcp", state, because)
}

const QUESTIONS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// A handshake that has to come first may be tried again after five seconds (REKEY_TIMEOUT).
const PATIENCE: Duration = Duration::from_secs(2);
/// A session lives so long (REJECT_AFTER_TIME), in seconds.
const FRESH: f64 = 180.0;
