//! Sealing and opening a packet of an established session allocates nothing, and a peer that nobody has
//! heard takes less than a kilobyte.
//!
//! Alone in its program: the counter counts every thread.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    alloc::System,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ipnet::Ipv4Net;
use kedge_core::Instant;
use kedge_tunnel_proto::{
    directory::{Directory, PeerSpec},
    keys::{PrivateKey, PublicKey},
    noise::{HEAD, Noise, Seed, Wall},
    shard::{Outcome, Shard},
    uapi::{AllowedIp, Configuration, PeerSet, Set},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MTU: u16 = 1420;

fn our_own(number: u8) -> Noise {
    Noise::Own {
        seed: Seed::new([number; 32].into()),
        wall: Wall::new(Instant::ZERO, Duration::from_secs(1_700_000_000)),
    }
}

fn end(own: u8, other: u8, endpoint: Option<SocketAddr>, noise: Noise) -> Shard {
    let key = |number| PrivateKey::from_random([number; 32]);
    let mut shard = Shard::new(&key(own), 0, MTU, u64::from(own), Arc::default(), noise);
    let spec = PeerSpec {
        name: "peer".into(),
        public_key: key(other).public(),
        preshared_key: None,
        endpoint,
        allowed_ips: vec![format!("10.0.0.{other}/32").parse().unwrap()],
        keepalive: Some(Duration::from_millis(500)),
        always_up: endpoint.is_some(),
        accepts: Vec::new(),
        relays: false,
        realm: None,
        next_key: None,
    };
    let change = Directory::new(key(own).public()).plan(vec![spec]).unwrap();
    shard.apply(Instant::ZERO, change);
    shard
}

/// What one end has on its way to the other, in buffers that are made once.
struct Wire {
    made: Vec<u8>,
    opened: Vec<u8>,
    from: [SocketAddr; 2],
}

/// Opens `length` sealed bytes at the other end, and what that answers, and so on.
fn carry(
    ends: &mut [Shard; 2],
    wire: &mut Wire,
    now: Instant,
    mut to: usize,
    length: usize,
) -> bool {
    let mut length = Some(length);
    let mut delivered = false;
    while let Some(bytes) = length {
        let datagram = &wire.made[..bytes];
        let received = ends[to].receive(now, wire.from[1 - to], datagram, &mut wire.opened);
        let handshake = ends[to].poll_handshake(now, &mut wire.opened);
        let outcome = handshake.unwrap_or(received);
        length = match outcome {
            Outcome::Send(transmit) => {
                std::mem::swap(&mut wire.made, &mut wire.opened);
                Some(transmit.length)
            }
            Outcome::Deliver { .. } => {
                delivered = true;
                None
            }
            Outcome::Nothing | Outcome::Cookie { .. } => None,
        };
        to = 1 - to;
    }
    delivered
}

// One test: the counter counts every thread.
#[test]
fn a_hundred_thousand_packets_allocate_nothing_and_dormant_peers_are_small() {
    count("boringtun", |_| Noise::Boringtun);
    count("our own", our_own);
    know("boringtun", Noise::Boringtun);
    know("our own", our_own(1));
}

/// What ten thousand peers take that are known and have never been heard.
fn know(core: &str, noise: Noise) {
    let key = PrivateKey::from_random([1; 32]);
    let told = |number: u32| {
        let mut bytes = [0xee; 32];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        let prefix = Ipv4Net::from(Ipv4Addr::from_bits(0x6440_0000 + number)).into();
        PeerSet {
            allowed_ips: vec![AllowedIp {
                prefix,
                remove: false,
            }],
            ..PeerSet::new(PublicKey::from_bytes(bytes).unwrap())
        }
    };
    let region = Region::new(ALLOCATOR);
    let mut shard = Shard::new(&key, 0, MTU, 1, Arc::default(), noise);
    let mut directory = Directory::unruled();
    // What `wg` was told of them stands beside.
    let mut configuration = Configuration::default();
    configuration.apply(Set {
        private_key: Some(Some(key)),
        peers: (1..=PEERS).map(told).collect(),
        ..Set::default()
    });
    let change = directory.plan(configuration.specs()).unwrap();
    directory.commit(&change);
    shard.apply(Instant::ZERO, change);
    assert!(shard.poll_transmit(Instant::ZERO, &mut [0; 200]).is_none());
    assert_eq!(shard.poll_timeout(), None, "nothing falls due");
    let stats = region.change();
    let kept = stats.bytes_allocated - stats.bytes_deallocated;
    let each = kept / usize::try_from(PEERS).unwrap();
    println!("{core}: {each} bytes for each dormant peer");
    // What allocators add to it is about an eighth, and a peer takes a kibibyte at most.
    assert!(each < 900, "{each}");
    drop((shard, directory, configuration));
}

const PEERS: u32 = 10_000;

fn count(core: &str, noise: impl Fn(u8) -> Noise) {
    let from = ["192.0.2.1:1", "192.0.2.2:2"].map(|text| text.parse().unwrap());
    let mut ends = [
        end(1, 2, Some(from[1]), noise(1)),
        end(2, 1, None, noise(2)),
    ];
    let mut wire = Wire {
        made: vec![0; 2_048],
        opened: vec![0; 2_048],
        from,
    };
    let mut now = Instant::ZERO;
    let mut packet = [0; 1_400];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&1_400_u16.to_be_bytes());
    let mut delivered = 0;
    let mut round = |count: u32, delivered: &mut u32| {
        for _ in 0..count {
            now += Duration::from_millis(1);
            for end in 0..2 {
                while let Some(due) = ends[end].poll_transmit(now, &mut wire.made) {
                    carry(&mut ends, &mut wire, now, 1 - end, due.length);
                }
                let (own, other) = ([1, 2][end], [2, 1][end]);
                packet[12..16].copy_from_slice(&[10, 0, 0, own]);
                packet[16..20].copy_from_slice(&[10, 0, 0, other]);
                wire.made[HEAD..][..1_400].copy_from_slice(&packet);
                let sealed = ends[end].send(now, &mut wire.made, 1_400);
                if let Some(sealed) = sealed {
                    *delivered +=
                        u32::from(carry(&mut ends, &mut wire, now, 1 - end, sealed.length));
                }
            }
        }
    };
    round(1_000, &mut delivered);
    delivered = 0;
    let region = Region::new(ALLOCATOR);
    round(50_000, &mut delivered);
    let change = region.change();
    println!(
        "{core}: {delivered} packets, {} allocations",
        change.allocations
    );
    assert_eq!(delivered, 100_000);
    assert_eq!(
        (
            change.allocations,
            change.reallocations,
            change.deallocations
        ),
        (0, 0, 0)
    );
}
