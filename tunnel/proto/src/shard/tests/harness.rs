//! The network between the shards.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use kedge_core::Instant;

use crate::{
    counters::Reading,
    directory::{Directory, PeerId, PeerSpec},
    drops::{DropReason, Drops},
    keys::{PrivateKey, PublicKey},
    noise::{CoreName, HEAD, Noise, Seed, Wall},
    shard::{Outcome, Shard, Transmit},
    way::Way,
};

pub(super) const MTU: u16 = 1420;

/// The wall clock at the epoch of the other one, in seconds since 1970.
pub(super) const WALL: u64 = 1_700_000_000;

/// How many packets may overtake one before the device with this number refuses it.
pub(super) fn window(number: u8) -> u16 {
    match super::core(number) {
        CoreName::Boringtun => 1_024,
        CoreName::Own => 8_192,
    }
}

pub(super) fn key(number: u8) -> PrivateKey {
    PrivateKey::from_random([number; 32])
}

pub(super) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// An IPv4 packet of `length` bytes whose last byte is `mark`.
pub(super) fn packet(from: &str, to: &str, length: usize, mark: u8) -> Vec<u8> {
    let octets = |text: &str| match text.parse().unwrap() {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => panic!("IPv4 only"),
    };
    let mut bytes = vec![0; length];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
    bytes[12..16].copy_from_slice(&octets(from));
    bytes[16..20].copy_from_slice(&octets(to));
    bytes[length - 1] = mark;
    bytes
}

#[derive(Clone, Debug)]
pub(super) struct Datagram {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

impl Datagram {
    pub(super) fn kind(&self) -> u8 {
        self.bytes[0]
    }
}

/// One device: a shard with its directory, at an address.
pub(super) struct End {
    pub(super) shard: Shard,
    directory: Directory,
    pub(super) drops: Arc<Drops>,
    pub(super) at: SocketAddr,
    /// To which of its addresses datagrams come.
    pub(super) here: Option<IpAddr>,
    pub(super) delivered: Vec<Vec<u8>>,
}

pub(super) fn spec(number: u8, endpoint: Option<&str>) -> PeerSpec {
    PeerSpec {
        name: format!("peer-{number}"),
        public_key: key(number).public(),
        preshared_key: None,
        endpoint: endpoint.map(address),
        allowed_ips: vec![format!("10.0.0.{number}/32").parse::<IpNet>().unwrap()],
        keepalive: None,
        always_up: false,
        accepts: Vec::new(),
        relays: false,
        realm: None,
        next_key: None,
    }
}

/// The core of a device with this number for a key with that number.
fn noise(number: u8, key: u8, seed: u64, wall: u64) -> Noise {
    match super::core(number) {
        CoreName::Boringtun => Noise::Boringtun,
        CoreName::Own => {
            let mut bytes = [key; 32];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            Noise::Own {
                seed: Seed::new(bytes.into()),
                wall: Wall::new(Instant::ZERO, Duration::from_secs(wall)),
            }
        }
    }
}

impl End {
    pub(super) fn new(number: u8, at: &str) -> Self {
        Self::seeded(number, at, u64::from(number))
    }

    pub(super) fn seeded(number: u8, at: &str, seed: u64) -> Self {
        Self::restarted(number, at, seed, WALL)
    }

    /// The device with this number; its wall clock stood at `wall` when the other one began.
    pub(super) fn restarted(number: u8, at: &str, seed: u64, wall: u64) -> Self {
        let drops = Arc::new(Drops::default());
        let noise = noise(number, number, seed, wall);
        let shard = Shard::new(&key(number), 0, MTU, seed, Arc::clone(&drops), noise);
        let directory = Directory::new(key(number).public());
        Self {
            shard,
            directory,
            drops,
            at: address(at),
            here: None,
            delivered: Vec::new(),
        }
    }

    /// The device with this number has the key of another number as well.
    pub(super) fn add_key(&mut self, now: Instant, number: u8, other: u8) {
        let noise = noise(number, other, u64::from(other), WALL);
        self.shard.add_key(now, &key(other), noise);
        self.directory.set_own(self.shard.keys().collect());
    }

    pub(super) fn drop_key(&mut self, now: Instant, number: u8) {
        self.shard.drop_key(now, &public(number));
        self.directory.set_own(self.shard.keys().collect());
    }

    pub(super) fn apply(&mut self, now: Instant, specs: Vec<PeerSpec>) {
        let change = self.directory.plan(specs).unwrap();
        self.directory.commit(&change);
        self.shard.apply(now, change);
    }

    pub(super) fn reading(&self, peer: u8) -> Reading {
        self.directory
            .find(&format!("peer-{peer}"))
            .unwrap()
            .counters
            .read()
    }

    pub(super) fn dropped(&self, peer: u8, reason: DropReason) -> u64 {
        self.directory
            .find(&format!("peer-{peer}"))
            .unwrap()
            .counters
            .drops
            .of(reason)
    }

    pub(super) fn id(&self, peer: u8) -> PeerId {
        self.directory.find(&format!("peer-{peer}")).unwrap().id
    }

    pub(super) fn force(&mut self, now: Instant, peer: u8) {
        let id = self.id(peer);
        self.shard.force_handshake(now, id);
    }

    /// Seals a packet; what comes out is what goes on the wire.
    pub(super) fn seal(&mut self, now: Instant, inner: &[u8]) -> Option<Datagram> {
        let mut slot = [0xee; 2_048];
        slot[HEAD..][..inner.len()].copy_from_slice(inner);
        let transmit = self.shard.send(now, &mut slot, inner.len())?;
        Some(self.datagram(transmit, &slot))
    }

    /// Opens one datagram and returns what it is answered with, backlog included.
    pub(super) fn open(&mut self, now: Instant, datagram: &Datagram) -> Vec<Datagram> {
        let way = Way {
            there: datagram.from,
            here: self.here,
        };
        let mut dst = [0; 2_048];
        let mut answers = Vec::new();
        let mut outcome = self.shard.receive(now, way, &datagram.bytes, &mut dst);
        loop {
            match outcome {
                Outcome::Nothing => {}
                Outcome::Send(transmit) => answers.push(self.datagram(transmit, &dst)),
                Outcome::Cookie { to, length } => answers.push(Datagram {
                    from: self.at,
                    to: to.there,
                    bytes: dst[..length].to_vec(),
                }),
                Outcome::Deliver { length, .. } => self.delivered.push(dst[..length].to_vec()),
            }
            let Some(next) = self.shard.poll_handshake(now, &mut dst) else {
                break;
            };
            outcome = next;
        }
        answers.extend(self.due(now));
        answers
    }

    /// What is due or waits.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Datagram> {
        let mut dst = [0; 2_048];
        let mut out = Vec::new();
        while let Some(transmit) = self.shard.poll_transmit(now, &mut dst) {
            out.push(self.datagram(transmit, &dst));
        }
        assert!(
            self.shard.poll_timeout().is_none_or(|at| at > now),
            "the deadline moves on"
        );
        out
    }

    fn datagram(&self, transmit: Transmit, dst: &[u8]) -> Datagram {
        Datagram {
            from: SocketAddr::new(transmit.from.unwrap_or(self.at.ip()), self.at.port()),
            to: transmit.to,
            bytes: dst[..transmit.length].to_vec(),
        }
    }
}

/// Ends and a clock.
pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) ends: Vec<End>,
}

impl Net {
    /// Peers 1 and 2 that know each other; only 1 knows where 2 is.
    pub(super) fn pair() -> Self {
        let now = Instant::ZERO + Duration::from_secs(1_000);
        let mut ends = vec![End::new(1, "192.0.2.1:1000"), End::new(2, "192.0.2.2:2000")];
        ends[0].apply(now, vec![spec(2, Some("192.0.2.2:2000"))]);
        ends[1].apply(now, vec![spec(1, None)]);
        Self { now, ends }
    }

    /// A pair with a session, started by 1.
    pub(super) fn connected() -> Self {
        let mut net = Self::pair();
        net.send(0, &packet("10.0.0.1", "10.0.0.2", 100, 1));
        assert_eq!(
            net.ends[1].delivered.len(),
            1,
            "the first packet waits and arrives"
        );
        net.ends[1].delivered.clear();
        net
    }

    pub(super) fn pass(&mut self, millis: u64) {
        let span = Duration::from_millis(millis);
        self.now += span;
        #[cfg(feature = "mock-clock")]
        mock_instant::MockClock::advance(span);
    }

    /// Seals at `end` and carries everything until it is quiet.
    pub(super) fn send(&mut self, end: usize, inner: &[u8]) {
        let now = self.now;
        let sealed = self.ends[end].seal(now, inner);
        self.carry(sealed, |_| true);
    }

    /// Lets timers fire at every end and carries everything until it is quiet.
    pub(super) fn tick(&mut self) {
        let now = self.now;
        let due: Vec<Datagram> = self.ends.iter_mut().flat_map(|end| end.due(now)).collect();
        self.carry(due, |_| true);
    }

    /// Carries datagrams and their answers; `passes` decides which get through.
    pub(super) fn carry(
        &mut self,
        datagrams: impl IntoIterator<Item = Datagram>,
        mut passes: impl FnMut(&Datagram) -> bool,
    ) {
        let mut queue: VecDeque<Datagram> = datagrams.into_iter().collect();
        let mut left = 1_000;
        while let Some(datagram) = queue.pop_front() {
            left -= 1;
            assert!(left > 0, "the network never falls quiet");
            if !passes(&datagram) {
                continue;
            }
            let now = self.now;
            if let Some(end) = self.ends.iter_mut().find(|end| end.at == datagram.to) {
                queue.extend(end.open(now, &datagram));
            }
        }
    }

    /// Forces a handshake at `end` and returns the initiation.
    pub(super) fn initiation(&mut self, end: usize, peer: u8) -> Datagram {
        self.pass(400);
        let now = self.now;
        self.ends[end].force(now, peer);
        let due = self.ends[end].due(now);
        due.into_iter()
            .find(|datagram| datagram.kind() == 1)
            .unwrap()
    }

    /// Whether a packet gets from `end` to the other, on the session there is.
    pub(super) fn works(&mut self, from: usize) -> bool {
        let to = 1 - from;
        let inner = packet(
            &format!("10.0.0.{}", from + 1),
            &format!("10.0.0.{}", to + 1),
            200,
            0xaa,
        );
        self.ends[to].delivered.clear();
        let sealed = self.ends[from].seal(self.now, &inner);
        self.carry(sealed, |datagram| datagram.kind() == 4);
        self.ends[to].delivered == [inner]
    }
}

pub(super) fn public(number: u8) -> PublicKey {
    key(number).public()
}
