//! A gateway that restarts while thousands of hosts behind one address have sessions with it.
//!
//! The gateway is the role as it is, with what its manager told it on its disk. Each host is a peer of Kedge's own core
//! with a socket of its own and asks, as agents do, whether the gateway is there: once a second, and after
//! three answers that did not come it wants a session anew.

use std::{
    hash::{BuildHasher as _, RandomState},
    io,
    net::{IpAddr, Ipv4Addr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread,
    time::{self, Duration},
};

use futures_util::future::join_all;
use ipnet::Ipv4Net;
use kedge_control::agent::{GatewayConfig, PeerConfig, TunnelConfig};
use kedge_core::{Instant, Machine as _};
use kedge_host::Role;
use kedge_net::netns::Signal;
use kedge_tunnel_proto::{
    echo::{Config, Input, Output, Ping, Prober},
    noise::HEAD,
    shard::Outcome,
};
use tokio::time::timeout;

use super::{
    super::Samples,
    standing::{configure, key, remember},
    storm::{Crowd, GATEWAY, Host, INITIATION, ROOM, at_gateway},
};
use crate::{
    error::LabError,
    lab::Lab,
    stage::Stage,
    topology::{ENDS, Topology},
};

/// How the hosts came back.
pub(super) struct Restart {
    /// When each was answered again, in seconds since the old process was gone.
    pub(super) back: Samples,
    /// How often each asked for a session, on average.
    pub(super) initiations: f64,
}

/// What the hosts and whoever ends the gateway know of each other.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    /// How often the gateway was ended, and when last, in microseconds.
    ended: AtomicU32,
    ended_at: AtomicU64,
    /// How many hosts are answered since then.
    up: AtomicU32,
    /// How often hosts asked for a session since then.
    asked: AtomicU32,
}

/// Stops a gateway of so many hosts and starts it, then kills it and starts it; and what could not be removed.
pub(super) fn restart(
    kedge: &Path,
    many: u32,
    stage: &Stage,
) -> Result<([Restart; 2], Vec<String>), LabError> {
    let (mut lab, _) = Lab::build(Topology::pair(), kedge.to_owned())?;
    let restarts = restarts(&mut lab, many, stage);
    let left = lab.take_down();
    Ok((restarts?, left))
}

fn restarts(lab: &mut Lab, many: u32, stage: &Stage) -> Result<[Restart; 2], LabError> {
    let [_, gateway] = ENDS;
    configure(
        lab,
        gateway,
        Role::Gateway,
        "tunnel: {listen_port: 51820}\n",
    )?;
    let key = key(lab, gateway, Role::Gateway)?.to_string();
    let crowd = Crowd::gather(lab, &key, many)?;
    remember(lab, gateway, &wished(&crowd))?;
    lab.start_kedge(gateway, GATEWAY_ROLE, [GATEWAY_ROLE])?;
    let shared = Arc::new(Shared::default());
    let begun = time::Instant::now();
    let hosts = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || live(crowd, begun, &shared))
    };
    let result: Result<_, LabError> = (|| {
        until_all_are_up(&shared, many, stage)?;
        let mut initiations = [0.0; 2];
        for (asked, signal) in initiations.iter_mut().zip([Signal::TERM, Signal::KILL]) {
            lab.signal(gateway, GATEWAY_ROLE, signal)?;
            lab.process(gateway, GATEWAY_ROLE)?.wait(LIMIT)?;
            shared.asked.store(0, Ordering::Relaxed);
            shared.up.store(0, Ordering::Relaxed);
            shared.ended_at.store(micros(begun), Ordering::Relaxed);
            shared.ended.fetch_add(1, Ordering::Release);
            lab.start_kedge(gateway, GATEWAY_ROLE, [GATEWAY_ROLE])?;
            until_all_are_up(&shared, many, stage)?;
            *asked = f64::from(shared.asked.load(Ordering::Relaxed)) / f64::from(many);
        }
        Ok(initiations)
    })();
    shared.over.store(true, Ordering::Relaxed);
    let hosts = hosts.join();
    let [stopped, killed] = result?;
    let failed = || io::Error::other("a host ended");
    let hosts = hosts.unwrap_or_else(|_| Err(failed()));
    let hosts = hosts.map_err(LabError::file("a host's socket"))?;
    let back = |time: usize| hosts.iter().filter_map(move |back| back.get(time).copied());
    Ok(
        [(0, stopped), (1, killed)].map(|(time, initiations)| Restart {
            back: back(time).collect(),
            initiations,
        }),
    )
}

fn until_all_are_up(shared: &Shared, many: u32, stage: &Stage) -> Result<(), LabError> {
    stage.eventually("an answer to every host", LIMIT, || {
        let up = shared.up.load(Ordering::Relaxed);
        (up >= many)
            .then_some(())
            .ok_or_else(|| format!("{up} of {many} are answered"))
    })
}

/// All hosts as the manager would tell the gateway of them.
fn wished(crowd: &Crowd) -> GatewayConfig {
    let peer = |(number, host): (u32, &Host)| PeerConfig {
        name: format!("site/host-{number}"),
        public_key: host.key.to_string(),
        next_public_key: None,
        endpoint: None,
        other_endpoint: None,
        tls_endpoint: None,
        tenant: String::new(),
        allowed_ips: vec![Ipv4Net::from(address(number)).into()],
        keepalive_seconds: 0,
    };
    GatewayConfig {
        generation: 1,
        tunnel: Some(TunnelConfig {
            addresses: vec![Ipv4Net::from(GATEWAY).into()],
            // What the ways to these hosts carry nobody is to ask them: they would not answer.
            mtu: 1400,
            peers: (0..).zip(&crowd.hosts).map(peer).collect(),
        }),
        ..GatewayConfig::default()
    }
}

/// The address of a host in the tunnel.
fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(HOSTS.to_bits() + number)
}

/// All hosts until it is over; of each when it was answered again, in seconds since each end of the gateway.
fn live(crowd: Crowd, begun: time::Instant, shared: &Shared) -> io::Result<Vec<Vec<f64>>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let hosts = (0..).zip(crowd.hosts);
    let hosts = hosts.map(|(number, host)| Living::new(number, host, begun).live(shared));
    let all = runtime.block_on(async { join_all(hosts).await });
    all.into_iter().collect()
}

/// A host with a session.
struct Living {
    host: Host,
    ping: Ping,
    prober: Prober,
    begun: time::Instant,
    /// The last questions, and when each was asked.
    open: Vec<(u64, u64)>,
    /// How many ends of the gateway it has outlived, once the first session is there.
    outlived: Option<u32>,
    back: Vec<f64>,
}

impl Living {
    fn new(number: u32, host: Host, begun: time::Instant) -> Self {
        let session = RandomState::new().hash_one(number);
        let [high, low, ..] = session.to_be_bytes();
        // Not all in the same moment of each second.
        let spread = Duration::from_millis(session % 1_000);
        Self {
            host,
            ping: Ping {
                from: IpAddr::V4(address(number)),
                to: IpAddr::V4(GATEWAY),
                identifier: u16::from_be_bytes([high, low]),
            },
            prober: Prober::new(Config::default(), session, Instant::ZERO + spread),
            begun,
            open: Vec::new(),
            outlived: None,
            back: Vec::new(),
        }
    }

    async fn live(mut self, shared: &Shared) -> io::Result<Vec<f64>> {
        let socket = self.host.socket.try_clone()?;
        let socket = tokio::net::UdpSocket::from_std(socket)?;
        let (mut datagram, mut dst) = ([0; ROOM], [0; ROOM]);
        while !shared.over.load(Ordering::Relaxed) {
            let now = Instant::ZERO + self.begun.elapsed();
            self.prober.handle_timeout(now);
            while let Some(output) = self.prober.poll_output() {
                match output {
                    Output::Send(message) => {
                        let packet = self.ping.request(&message).unwrap_or_default();
                        let room = dst.get_mut(HEAD..).unwrap_or_default();
                        let Some(room) = room.get_mut(..packet.len()) else {
                            continue;
                        };
                        room.copy_from_slice(&packet);
                        self.asks(message.sequence);
                        let sent = self.host.shard.send(now, &mut dst, packet.len());
                        if let Some(transmit) = sent {
                            // Whatever does not leave is asked again.
                            _ = socket.send(part(&dst, transmit.length)).await;
                        }
                    }
                    Output::ForceHandshake => {
                        self.host.shard.force_handshake(now, self.host.peer);
                    }
                    Output::Up { .. } | Output::Down => {}
                }
            }
            while let Some(transmit) = self.host.shard.poll_transmit(now, &mut dst) {
                if dst.first() == Some(&INITIATION) {
                    shared.asked.fetch_add(1, Ordering::Relaxed);
                }
                _ = socket.send(part(&dst, transmit.length)).await;
            }
            while self.host.shard.poll_event().is_some() {}
            let due = [self.host.shard.poll_timeout(), self.prober.poll_timeout()];
            let due = due.into_iter().flatten().min();
            let wait = due.map_or(SECOND, |due| due.since(now)).min(SECOND);
            let Ok(Ok(length)) = timeout(wait, socket.recv(&mut datagram)).await else {
                continue;
            };
            let now = Instant::ZERO + self.begun.elapsed();
            let bytes = part(&datagram, length);
            match self.host.shard.receive(now, at_gateway(), bytes, &mut dst) {
                Outcome::Send(transmit) => {
                    _ = socket.send(part(&dst, transmit.length)).await;
                }
                Outcome::Deliver { length, .. } => self.hears(part(&dst, length), now, shared),
                Outcome::Nothing | Outcome::Cookie { .. } => {}
            }
        }
        Ok(self.back)
    }

    fn asks(&mut self, sequence: u64) {
        if self.open.len() >= OPEN {
            self.open.remove(0);
        }
        self.open.push((sequence, micros(self.begun)));
    }

    /// Takes an inner packet: an answer counts for the gateway that was there when it was asked.
    fn hears(&mut self, packet: &[u8], now: Instant, shared: &Shared) {
        let icmp = packet.get(IP..).unwrap_or_default();
        let Some(message) = self.ping.answer(icmp) else {
            return;
        };
        let taken = self.prober.handle_input(now, Input::Received(message));
        let asked = self.open.iter().find(|(it, _)| *it == message.sequence);
        let (Ok(()), Some((_, asked_at))) = (taken, asked) else {
            return;
        };
        let ended = shared.ended.load(Ordering::Acquire);
        let ended_at = shared.ended_at.load(Ordering::Relaxed);
        if self.outlived == Some(ended) || *asked_at < ended_at {
            return;
        }
        if self.outlived.is_some() {
            let after = Duration::from_micros(micros(self.begun) - ended_at);
            self.back.push(after.as_secs_f64());
        }
        self.outlived = Some(ended);
        shared.up.fetch_add(1, Ordering::Relaxed);
    }
}

fn part(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(..length).unwrap_or_default()
}

fn micros(begun: time::Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

const GATEWAY_ROLE: &str = "gateway";
/// Where the addresses of hosts begin.
const HOSTS: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 0);
const SECOND: Duration = Duration::from_secs(1);
/// A header of IPv4 without options.
const IP: usize = 20;
/// Questions whose answers may still come.
const OPEN: usize = 16;
/// Whoever is not back by then is not coming back.
const LIMIT: Duration = Duration::from_secs(60);
