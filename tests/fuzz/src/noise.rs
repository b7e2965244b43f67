//! Two tunnel ends on our own Noise core, and a network between them that loses, doubles, holds
//! back, bends and makes up datagrams.

use std::{
    collections::{BTreeSet, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use kedge_core::Instant;
use kedge_tunnel_proto::{
    directory::{Directory, PeerSpec},
    keys::PrivateKey,
    noise::{HEAD, Noise, Seed, Wall},
    shard::{Outcome, Shard},
};

/// Reads four bytes for each thing that happens: what, to which datagram, and two numbers more. The
/// bytes after a made-up datagram are that datagram.
pub fn noise(bytes: &[u8]) {
    let mut net = Net::new();
    let mut rest = bytes;
    for _ in 0..200 {
        let Some((&[what, which, first, second], left)) = rest.split_first_chunk() else {
            break;
        };
        rest = left;
        let from = usize::from(which & 1);
        match what % 8 {
            0 => net.seal(from),
            1 => net.ends[from].force(net.now),
            2 => net
                .take(which)
                .into_iter()
                .for_each(|flying| net.open(&flying)),
            3 => {
                if let Some(flying) = net.take(which) {
                    net.open(&flying);
                    net.flying.push_back(flying);
                }
            }
            4 => {
                if let Some(mut flying) = net.take(which) {
                    let at = usize::from(first) % flying.bytes.len();
                    flying.bytes[at] ^= second;
                    net.open(&flying);
                }
            }
            5 => drop(net.take(which)),
            6 => net.now += Duration::from_millis(u64::from(first) * u64::from(second)),
            _ => {
                let bytes = std::mem::take(&mut rest).to_vec();
                net.open(&Flying { from, bytes });
            }
        }
        net.tick();
    }
    net.heals();
}

struct Net {
    now: Instant,
    ends: [End; 2],
    flying: VecDeque<Flying>,
    /// Packets that were sealed and have not arrived.
    sealed: BTreeSet<u32>,
    count: u32,
}

struct End {
    shard: Shard,
    directory: Directory,
}

/// A datagram on its way from an end.
struct Flying {
    from: usize,
    bytes: Vec<u8>,
}

impl Net {
    fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            now,
            ends: [End::new(now, 1, 2), End::new(now, 2, 1)],
            flying: VecDeque::new(),
            sealed: BTreeSet::new(),
            count: 0,
        }
    }

    fn seal(&mut self, from: usize) {
        let mut slot = [0; 256];
        let packet = &mut slot[HEAD..];
        packet[0] = 0x45;
        packet[3] = 32;
        packet[12..20].copy_from_slice(&addresses(from));
        packet[20..24].copy_from_slice(&self.count.to_be_bytes());
        self.sealed.insert(self.count);
        self.count += 1;
        if let Some(sealed) = self.ends[from].shard.send(self.now, &mut slot, 32) {
            self.fly(from, &slot[..sealed.length]);
        }
    }

    fn open(&mut self, flying: &Flying) {
        let mut dst = vec![0; flying.bytes.len().max(148)];
        let to = 1 - flying.from;
        let shard = &mut self.ends[to].shard;
        let received = shard.receive(self.now, place(flying.from), &flying.bytes, &mut dst);
        let handshake = shard.poll_handshake(self.now, &mut dst);
        match handshake.unwrap_or(received) {
            Outcome::Nothing => {}
            Outcome::Send(transmit) => self.fly(to, &dst[..transmit.length]),
            Outcome::Cookie { length, .. } => self.fly(to, &dst[..length]),
            Outcome::Deliver { length, .. } => {
                assert_eq!((length, &dst[12..20]), (32, &addresses(flying.from)[..]));
                let count = u32::from_be_bytes(dst[20..24].try_into().unwrap());
                assert!(self.sealed.remove(&count), "forged, or delivered twice");
            }
        }
    }

    fn tick(&mut self) {
        for from in 0..2 {
            let mut dst = [0; 256];
            while let Some(due) = self.ends[from].shard.poll_transmit(self.now, &mut dst) {
                self.fly(from, &dst[..due.length]);
            }
            let next = self.ends[from].shard.poll_timeout();
            assert!(next.is_none_or(|at| at > self.now), "time stands still");
        }
    }

    fn take(&mut self, which: u8) -> Option<Flying> {
        let at = usize::from(which) % self.flying.len().max(1);
        self.flying.remove(at)
    }

    fn fly(&mut self, from: usize, bytes: &[u8]) {
        if self.flying.len() >= 64 {
            self.flying.pop_front();
        }
        self.flying.push_back(Flying {
            from,
            bytes: bytes.to_vec(),
        });
    }

    /// Whatever happened, the ends find each other as soon as the network lets them.
    fn heals(&mut self) {
        self.flying.clear();
        self.now += Duration::from_secs(10);
        self.ends[0].force(self.now);
        self.tick();
        let mut sealed = self.count;
        for _ in 0..64 {
            let Some(flying) = self.flying.pop_front() else {
                if self.count - sealed == 2 {
                    break;
                }
                self.seal(usize::try_from(self.count - sealed).unwrap());
                continue;
            };
            self.open(&flying);
            self.tick();
        }
        while sealed < self.count {
            assert!(
                !self.sealed.contains(&sealed),
                "the ends do not find each other"
            );
            sealed += 1;
        }
    }
}

impl End {
    fn new(now: Instant, own: u8, other: u8) -> Self {
        let key = |number| PrivateKey::from_random([number; 32]);
        let noise = Noise::Own {
            seed: Seed::new([own; 32].into()),
            wall: Wall::new(Instant::ZERO, Duration::from_secs(1_700_000_000)),
        };
        let mut shard = Shard::new(
            &key(own),
            0,
            1420,
            u64::from(own),
            Default::default(),
            noise,
        );
        let mut directory = Directory::new(key(own).public());
        let spec = PeerSpec {
            name: "peer".to_owned(),
            public_key: key(other).public(),
            preshared_key: None,
            endpoint: Some(place(usize::from(other - 1))),
            allowed_ips: vec![format!("10.0.0.{other}/32").parse().unwrap()],
            keepalive: None,
            always_up: false,
            accepts: Vec::new(),
            relays: false,
            realm: None,
            next_key: None,
        };
        let change = directory.plan(vec![spec]).unwrap();
        directory.commit(&change);
        shard.apply(now, change);
        Self { shard, directory }
    }

    fn force(&mut self, now: Instant) {
        let id = self.directory.find("peer").unwrap().id;
        self.shard.force_handshake(now, id);
    }
}

/// Source and destination of a packet from this end.
fn addresses(from: usize) -> [u8; 8] {
    let [own, other] = if from == 0 { [1, 2] } else { [2, 1] };
    [10, 0, 0, own, 10, 0, 0, other]
}

fn place(end: usize) -> SocketAddr {
    let port = if end == 0 { 1_000 } else { 2_000 };
    SocketAddr::from(([192, 0, 2, 1], port))
}
