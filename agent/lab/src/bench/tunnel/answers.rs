//! What a handshake takes of whoever answers it, without sockets and threads: the limit of a gateway.

use std::{
    hash::{BuildHasher as _, RandomState},
    net::SocketAddr,
    sync::Arc,
    time::{self, Duration},
};

use kedge_core::Instant;
use kedge_tunnel_proto::{
    directory::{Directory, PeerSpec},
    drops::Drops,
    keys::{PrivateKey, PublicKey},
    noise::{Noise, Seed, Wall},
    shard::{Outcome, Shard},
};

use super::site::MTU;
use crate::error::LabError;

/// Seconds of processor time for a handshake that is asked for and answered, of the responder alone.
pub(super) fn answer() -> Result<f64, LabError> {
    let unexpected = |error: &dyn std::error::Error| LabError::Unexpected {
        who: "the loop of handshakes".to_owned(),
        said: error.to_string(),
    };
    let gateway_key = PrivateKey::from_random(random());
    let callers: Vec<PrivateKey> = (0..MANY)
        .map(|_| PrivateKey::from_random(random()))
        .collect();
    let keys: Vec<PublicKey> = callers.iter().map(PrivateKey::public).collect();
    let mut gateway = shard(&gateway_key, &keys, None).map_err(|error| unexpected(&*error))?;
    let mut spent = Duration::ZERO;
    let (mut answered, mut bytes, mut dst) = (0_u32, [0; ROOM], [0; ROOM]);
    for (number, key) in (0_u16..).zip(&callers) {
        let caller = shard(key, &[gateway_key.public()], Some(at(0)));
        let mut caller = caller.map_err(|error| unexpected(&*error))?;
        let Some(transmit) = caller.poll_transmit(Instant::ZERO, &mut bytes) else {
            continue;
        };
        let initiation = bytes.get(..transmit.length).unwrap_or_default();
        // Nobody is asked for a proof while the load is what one thread of this makes.
        let now = Instant::ZERO + Duration::from_millis(u64::from(number) * 40);
        let begun = time::Instant::now();
        let outcome = gateway.receive(now, at(number), initiation, &mut dst);
        let outcome = match outcome {
            Outcome::Nothing => gateway.poll_handshake(now, &mut dst),
            other => Some(other),
        };
        if matches!(outcome, Some(Outcome::Send(_))) {
            answered += 1;
            spent += begun.elapsed();
        }
    }
    Ok(spent.as_secs_f64() / f64::from(answered.max(1)))
}

fn shard(
    key: &PrivateKey,
    peers: &[PublicKey],
    endpoint: Option<SocketAddr>,
) -> Result<Shard, Box<dyn std::error::Error>> {
    let unix = time::SystemTime::now().duration_since(time::UNIX_EPOCH)?;
    let noise = Noise::Own {
        seed: Seed::new(random().into()),
        wall: Wall::new(Instant::ZERO, unix),
    };
    let drops = Arc::new(Drops::default());
    let mut shard = Shard::new(key, 0, u16::try_from(MTU)?, 7, drops, noise);
    let spec = |public_key: &PublicKey| PeerSpec {
        name: public_key.to_string(),
        public_key: *public_key,
        preshared_key: None,
        endpoint,
        allowed_ips: Vec::new(),
        accepts: Vec::new(),
        relays: false,
        realm: None,
        next_key: None,
        keepalive: None,
        always_up: endpoint.is_some(),
    };
    let change = Directory::new(key.public()).plan(peers.iter().map(spec).collect())?;
    shard.apply(Instant::ZERO, change);
    Ok(shard)
}

fn at(number: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 10_000 + number))
}

/// Nobody's secrets.
fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    for (word, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(0_u8..) {
        *word = RandomState::new().hash_one(number).to_le_bytes();
    }
    bytes
}

const MANY: u16 = 2_000;
const ROOM: usize = 2_048;
