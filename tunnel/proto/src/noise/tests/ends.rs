//! Two cores without anything around them.

use std::{net::SocketAddr, time::Duration};

use kedge_core::Instant;
use zeroize::Zeroizing;

use crate::{
    drops::DropReason,
    keys::{PrivateKey, PublicKey},
    noise::{CoreName, DoorId, FrontDoor, Noise, NoiseCore, Opened, Seed, Wall},
    wire::{self, Kind},
};

/// A core with its front door.
pub(super) struct End {
    pub(super) door: FrontDoor,
    pub(super) core: NoiseCore,
    peer: PublicKey,
    index: u32,
}

/// What became of a datagram, and the bytes.
pub(super) type Verdict = Result<(Opened, Vec<u8>), DropReason>;

pub(super) const BOTH: [CoreName; 2] = [CoreName::Boringtun, CoreName::Own];

pub(super) fn key(number: u8) -> PrivateKey {
    PrivateKey::from_random([number; 32])
}

pub(super) fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

pub(super) fn from() -> SocketAddr {
    "192.0.2.1:1000".parse().unwrap()
}

/// An IPv4 packet of 32 bytes whose last byte is `mark`.
pub(super) fn packet(mark: u8) -> [u8; 32] {
    let mut packet = [0; 32];
    packet[0] = 0x45;
    packet[3] = 32;
    packet[31] = mark;
    packet
}

/// The end `own` whose peer is `other`.
pub(super) fn end(name: CoreName, own: u8, other: u8, psk: Option<u8>) -> End {
    let noise = match name {
        CoreName::Boringtun => Noise::Boringtun,
        CoreName::Own => Noise::Own {
            seed: Seed::new(Zeroizing::new([own; 32])),
            wall: Wall::new(Instant::ZERO, Duration::from_secs(1_700_000_000)),
        },
    };
    let mut door = FrontDoor::new(&key(own), noise);
    let peer = key(other).public();
    let psk = psk.map(|byte| Zeroizing::new([byte; 32]));
    End {
        core: door.core(&peer, psk, u32::from(own)),
        door,
        peer,
        index: u32::from(own),
    }
}

impl End {
    pub(super) fn initiate(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.look_at_the_clock();
        let mut dst = [0; 200];
        let length = self.core.initiate(now, true, &mut dst)?;
        Some(dst[..length].to_vec())
    }

    pub(super) fn seal(&mut self, now: Instant, inner: &[u8]) -> Result<Vec<u8>, DropReason> {
        let mut dst = [0; 2_048];
        let length = self.core.seal(now, inner, &mut dst)?;
        Ok(dst[..length].to_vec())
    }

    /// Opens a datagram the way a shard does.
    pub(super) fn open(&mut self, now: Instant, datagram: &[u8]) -> Verdict {
        let kind = wire::classify(datagram)?;
        let caller = match kind {
            Kind::Initiation => {
                self.look_at_the_clock();
                self.door.check(datagram)?;
                let caller = self.door.initiator(DoorId::default(), datagram)?;
                if caller.key != self.peer {
                    return Err(DropReason::UnknownPeer);
                }
                Some(caller)
            }
            Kind::Response { receiver }
            | Kind::CookieReply { receiver }
            | Kind::Data { receiver, .. } => {
                // The shard finds the peer by its 24 bits.
                if receiver >> 8 != self.index {
                    return Err(DropReason::UnknownSession);
                }
                None
            }
        };
        let mut dst = [0; 2_048];
        let opened = self.core.open(now, (kind, caller), datagram, &mut dst)?;
        match kind {
            Kind::Response { receiver } => self.core.answered(receiver),
            Kind::Data { receiver, .. } => {
                self.core.confirm(receiver);
            }
            _ => {}
        }
        let length = match opened {
            Opened::Reply(length) | Opened::Packet(length) => length,
            Opened::Nothing | Opened::Cookie => 0,
        };
        Ok((opened, dst[..length].to_vec()))
    }

    /// boringtun learns the time in its tick, and of two sessions of one time takes either.
    fn look_at_the_clock(&mut self) {
        #[cfg(feature = "mock-clock")]
        mock_instant::MockClock::advance(Duration::from_millis(1));
        if let NoiseCore::Boringtun(core) = &mut self.core {
            core.tick(&mut [0; 200]);
        }
    }

    /// Opens what must be answered, and gives the answer.
    pub(super) fn answer(&mut self, now: Instant, datagram: &[u8]) -> Vec<u8> {
        let (opened, bytes) = self.open(now, datagram).unwrap();
        assert_eq!(opened, Opened::Reply(bytes.len()));
        bytes
    }
}

/// A session between `a`, which initiates, and `b`, confirmed.
pub(super) fn connect(now: Instant, a: &mut End, b: &mut End) {
    let initiation = a.initiate(now).unwrap();
    let response = b.answer(now, &initiation);
    let keepalive = a.answer(now, &response);
    assert_eq!((response.len(), keepalive.len()), (92, 32));
    assert_eq!(b.open(now, &keepalive), Ok((Opened::Nothing, Vec::new())));
}

/// Whether a packet of each gets to the other.
pub(super) fn talk(now: Instant, a: &mut End, b: &mut End) -> bool {
    let carry = |from: &mut End, to: &mut End, mark| {
        let sealed = from.seal(now, &packet(mark));
        let opened = sealed.and_then(|sealed| to.open(now, &sealed));
        opened == Ok((Opened::Packet(32), packet(mark).to_vec()))
    };
    carry(a, b, 1) && carry(b, a, 2)
}
