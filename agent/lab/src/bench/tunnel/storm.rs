//! Thousands of hosts behind one address, which call a gateway at once.
//!
//! Each is a peer of Kedge's own core with a socket of its own: whoever the gateway is, the same hosts call.

use std::{
    hash::{BuildHasher as _, RandomState},
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::{self, Duration},
};

use futures_util::future::join_all;
use ipnet::Ipv4Net;
use kedge_core::Instant;
use kedge_tunnel_proto::{
    counters::State,
    directory::{Directory, PeerId, PeerSpec},
    drops::Drops,
    keys::{PrivateKey, PublicKey},
    noise::{Noise, Seed, Wall},
    shard::{EventKind, Outcome, Shard},
};
use tokio::time::timeout;

use super::{
    super::Samples,
    site::{MTU, PORT},
};
use crate::{
    error::LabError,
    lab::Lab,
    topology::{ENDS, end_address},
};

/// Hosts that have not called yet.
pub(super) struct Crowd {
    pub(super) hosts: Vec<Host>,
}

pub(super) struct Host {
    pub(super) key: PublicKey,
    /// Its one peer, the gateway.
    pub(super) peer: PeerId,
    pub(super) shard: Shard,
    pub(super) socket: UdpSocket,
}

/// How they came.
pub(super) struct Arrival {
    /// When each had its session, in seconds since the first of them began.
    pub(super) sessions: Samples,
    /// How often each asked, on average.
    pub(super) initiations: f64,
}

impl Crowd {
    /// Hosts on the first host of a lab, which know the gateway on the second.
    pub(super) fn gather(lab: &Lab, gateway: &str, many: u32) -> Result<Self, LabError> {
        kedge_net::limits::raise_descriptors()
            .map_err(LabError::file("the limit of descriptors"))?;
        let unexpected = |said: String| LabError::Unexpected {
            who: "a host of the bench".to_owned(),
            said,
        };
        let gateway: PublicKey = gateway
            .parse()
            .map_err(|error| unexpected(format!("{error}")))?;
        let [one, _] = ENDS;
        let sockets = lab.worker(one)?.run(move || {
            let socket = |_| {
                let socket = UdpSocket::bind(SocketAddr::from((end_address(0), 0)))?;
                socket.connect(at_gateway())?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            };
            (0..many).map(socket).collect::<io::Result<Vec<_>>>()
        })?;
        let sockets = sockets.map_err(LabError::file("a socket"))?;
        let host = |socket| {
            let (key, peer, shard) =
                caller(gateway).map_err(|error| unexpected(error.to_string()))?;
            Ok(Host {
                key,
                peer,
                shard,
                socket,
            })
        };
        let hosts = sockets.into_iter().map(host);
        let hosts = hosts.collect::<Result<_, LabError>>()?;
        Ok(Self { hosts })
    }

    /// The public keys, in base64.
    pub(super) fn keys(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.key.to_string()).collect()
    }

    /// What each would call with, and from where.
    pub(super) fn initiations(self) -> Vec<(UdpSocket, Vec<u8>)> {
        let hosts = self.hosts.into_iter();
        let first = |mut host: Host| {
            let mut bytes = [0; ROOM];
            let transmit = host.shard.poll_transmit(Instant::ZERO, &mut bytes)?;
            Some((host.socket, bytes.get(..transmit.length)?.to_vec()))
        };
        hosts.filter_map(first).collect()
    }

    /// All of them call, and go on until each has a session or has waited for too long.
    pub(super) fn arrive(self) -> Result<Arrival, LabError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(LabError::file("the crowd's thread"))?;
        let all = runtime.block_on(async {
            let begun = time::Instant::now();
            join_all(self.hosts.into_iter().map(|host| host.call(begun))).await
        });
        let all = all.into_iter().collect::<io::Result<Vec<_>>>();
        let all = all.map_err(LabError::file("a host's socket"))?;
        let asked: u32 = all.iter().map(|(_, asked)| asked).sum();
        let many = f64::from(u32::try_from(all.len()).unwrap_or(u32::MAX));
        Ok(Arrival {
            sessions: all.iter().map(|(seconds, _)| *seconds).collect(),
            initiations: f64::from(asked) / many.max(1.0),
        })
    }
}

impl Host {
    /// Calls until there is a session, and says when that was and how often it asked.
    async fn call(mut self, begun: time::Instant) -> io::Result<(f64, u32)> {
        let socket = tokio::net::UdpSocket::from_std(self.socket)?;
        let (mut datagram, mut dst) = ([0; ROOM], [0; ROOM]);
        let mut asked = 0;
        let mut connected = None;
        loop {
            let elapsed = begun.elapsed();
            let now = Instant::ZERO + elapsed;
            while let Some(transmit) = self.shard.poll_transmit(now, &mut dst) {
                asked += u32::from(dst.first() == Some(&INITIATION));
                // Whatever does not leave is asked again.
                _ = socket
                    .send(dst.get(..transmit.length).unwrap_or_default())
                    .await;
            }
            while let Some(event) = self.shard.poll_event() {
                if let EventKind::State { to, .. } = event.change
                    && to == State::Connected
                {
                    connected.get_or_insert(elapsed);
                }
            }
            // What confirms the session has left by now.
            if let Some(seconds) = connected.or((elapsed > PATIENCE).then_some(elapsed)) {
                return Ok((seconds.as_secs_f64(), asked));
            }
            let due = self.shard.poll_timeout().unwrap_or(now + PATIENCE);
            let wait = due.since(now).min(PATIENCE);
            // A gateway that is not there yet refuses, which is no reason not to call again.
            let Ok(Ok(length)) = timeout(wait, socket.recv(&mut datagram)).await else {
                continue;
            };
            let now = Instant::ZERO + begun.elapsed();
            let bytes = datagram.get(..length).unwrap_or_default();
            let outcome = self.shard.receive(now, at_gateway(), bytes, &mut dst);
            if let Outcome::Send(transmit) = outcome {
                _ = socket
                    .send(dst.get(..transmit.length).unwrap_or_default())
                    .await;
            }
        }
    }
}

/// A shard whose one peer is the gateway, to be called for as long as it takes; and their names for each other.
fn caller(gateway: PublicKey) -> Result<(PublicKey, PeerId, Shard), Box<dyn std::error::Error>> {
    // Nobody's secrets: these keys live as long as the bench.
    let random = || {
        let mut bytes = [0; 32];
        for (word, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(0_u8..) {
            *word = RandomState::new().hash_one(number).to_le_bytes();
        }
        bytes
    };
    let unix = time::SystemTime::now().duration_since(time::UNIX_EPOCH)?;
    let noise = Noise::Own {
        seed: Seed::new(random().into()),
        wall: Wall::new(Instant::ZERO, unix),
    };
    let key = PrivateKey::from_random(random());
    let seed = RandomState::new().hash_one("jitter");
    let mtu = u16::try_from(MTU)?;
    let mut shard = Shard::new(&key, 0, mtu, seed, Arc::new(Drops::default()), noise);
    let change = Directory::new(key.public()).plan(vec![PeerSpec {
        name: "gateway".to_owned(),
        public_key: gateway,
        preshared_key: None,
        endpoint: Some(at_gateway()),
        allowed_ips: vec![Ipv4Net::from(GATEWAY).into()],
        accepts: Vec::new(),
        relays: false,
        realm: None,
        next_key: None,
        keepalive: None,
        always_up: true,
    }])?;
    let peer = change.add.first().map(|entry| entry.id);
    shard.apply(Instant::ZERO, change);
    Ok((key.public(), peer.ok_or("it is nobody's peer")?, shard))
}

pub(super) fn at_gateway() -> SocketAddr {
    SocketAddr::from((end_address(1), PORT))
}

/// The largest message of a handshake has 148 bytes.
pub(super) const ROOM: usize = 256;
/// The first byte of an initiation.
pub(super) const INITIATION: u8 = 1;
/// The address of the gateway in the tunnel.
pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Whoever has no session by then is said to have waited that long.
const PATIENCE: Duration = Duration::from_secs(60);
