//! A flood of handshakes that come to nothing.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use kedge_core::Instant;
use kedge_tunnel_proto::{
    directory::{Directory, PeerSpec},
    keys::{PrivateKey, PublicKey},
    noise::Noise,
    shard::Shard,
    wire::INITIATION,
};

/// Initiations that are right for a gateway's key, of keys that it does not know; until it is ended or dropped.
#[derive(Debug)]
pub struct Flood {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Flood {
    /// Floods the gateway of that key, at `to`.
    #[must_use]
    pub fn start(from: UdpSocket, gateway: PublicKey, to: SocketAddr) -> Self {
        let initiations: Vec<Vec<u8>> = (0..400_u16)
            .map(|number| initiation(number, gateway, to))
            .collect();
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut sent = 0;
            while !ends.load(Ordering::Relaxed) {
                for batch in initiations.chunks(40) {
                    for bytes in batch {
                        sent += u64::from(from.send_to(bytes, to).is_ok());
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            sent
        });
        let thread = Some(thread);
        Self { over, thread }
    }

    /// Ends it; how many were sent.
    #[must_use]
    pub fn end(mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn initiation(number: u16, gateway: PublicKey, to: SocketAddr) -> Vec<u8> {
    let mut bytes = [0x77; 32];
    bytes[..2].copy_from_slice(&number.to_le_bytes());
    let key = PrivateKey::from_random(bytes);
    let now = Instant::ZERO + Duration::from_secs(1);
    let mut shard = Shard::new(
        &key,
        0,
        1420,
        u64::from(number),
        Arc::default(),
        Noise::Boringtun,
    );
    let mut directory = Directory::new(key.public());
    let peer = PeerSpec {
        name: "gateway".to_owned(),
        public_key: gateway,
        next_key: None,
        preshared_key: None,
        endpoint: Some(to),
        allowed_ips: vec!["198.18.0.1/32".parse().unwrap()],
        accepts: Vec::new(),
        relays: false,
        realm: None,
        keepalive: None,
        always_up: true,
    };
    let change = directory.plan(vec![peer]).unwrap();
    directory.commit(&change);
    shard.apply(now, change);
    let mut datagram = vec![0; 2_048];
    let transmit = shard.poll_transmit(now, &mut datagram).unwrap();
    assert_eq!(transmit.length, INITIATION);
    datagram.truncate(transmit.length);
    datagram
}
