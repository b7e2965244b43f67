//! boringtun's Noise core, hidden: nothing of it leaves this file.
//!
//! Its `Tunn` reads the boot clock, the wall clock and the system's randomness by itself
//! (docs/adr/0006). What its public interface leaves open is decided here: every buffer is large
//! enough before it is handed over, no limiter counts, no keepalive timer runs inside, and an
//! unconfirmed session never takes the slot of the confirmed one.

mod succession;

use std::{net::SocketAddr, sync::Arc};

use boringtun::{
    noise::{
        Packet, Tunn, TunnResult, errors::WireGuardError, handshake::parse_handshake_anon,
        rate_limiter::RateLimiter,
    },
    x25519::{PublicKey as Point, StaticSecret},
};
use zeroize::Zeroizing;

pub(crate) use self::succession::Succession;
use crate::{
    drops::DropReason,
    keys::{PrivateKey, PublicKey},
    noise::{Opened, Tick, own::name},
    wire::{self, Kind},
};

/// What every peer of a device shares: our key, and the check that a handshake message is for it.
pub(crate) struct FrontDoor {
    secret: StaticSecret,
    public: Point,
    /// Never demands cookies: with a limit, copies of one packet would put every peer under load.
    limiter: Arc<RateLimiter>,
    /// Demands one from everybody: for the initiations that have to prove where they come from.
    demanding: RateLimiter,
}

/// Handshakes and sessions with one preshared key.
struct Core {
    tunn: Box<Tunn>,
    /// 24 bits above those that tell its sessions apart.
    index: u32,
    /// The index given out last, own initiations included.
    last_index: u32,
    /// The index of the newest session both ends have.
    confirmed: Option<u32>,
    /// That of the one before: the peer sends with it until it hears of the newer one.
    before: Option<u32>,
    /// That of the last one that answered an initiation of ours, which packets are sent with.
    answered: Option<u32>,
}

impl FrontDoor {
    pub(crate) fn new(key: &PrivateKey) -> Self {
        let (secret, public) = (key.secret(), key.public().point());
        Self {
            limiter: Arc::new(RateLimiter::new(&public, u64::MAX)),
            demanding: RateLimiter::new(&public, 0),
            secret,
            public,
        }
    }

    /// Whether the sender of a handshake message knows our public key.
    pub(crate) fn check(&self, datagram: &[u8]) -> Result<(), DropReason> {
        let mut cookie = [0; wire::COOKIE_REPLY];
        let verified = self.limiter.verify_packet(None, datagram, &mut cookie);
        verified.map(|_| ()).map_err(|_| DropReason::BadMac)
    }

    /// Whether a cookie in a handshake message proves that the sender receives what is sent to
    /// `from`.
    pub(crate) fn proves(&self, from: SocketAddr, datagram: &[u8]) -> bool {
        let mut cookie = [0; wire::COOKIE_REPLY];
        let verified = self
            .demanding
            .verify_packet(Some(name(from)), datagram, &mut cookie);
        verified.is_ok()
    }

    /// Writes the cookie for whoever sent `datagram` to `dst`, and says how long it is.
    pub(crate) fn cookie(
        &self,
        from: SocketAddr,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        let verified = self
            .demanding
            .verify_packet(Some(name(from)), datagram, dst);
        match verified {
            Err(TunnResult::WriteToNetwork(cookie)) => Ok(cookie.len()),
            _ => Err(DropReason::BadMac),
        }
    }

    /// Who sent an initiation. Costs one Diffie-Hellman.
    pub(crate) fn initiator(&self, datagram: &[u8]) -> Result<PublicKey, DropReason> {
        let mut cookie = [0; wire::COOKIE_REPLY];
        let packet = self.limiter.verify_packet(None, datagram, &mut cookie);
        let Ok(Packet::HandshakeInit(initiation)) = packet else {
            return Err(DropReason::BadMac);
        };
        let half = parse_handshake_anon(&self.secret, &self.public, &initiation)
            .map_err(|_| DropReason::Forged)?;
        PublicKey::from_bytes(half.peer_static_public).map_err(|_| DropReason::UnknownPeer)
    }
}

impl Core {
    /// A core whose session indices are `index << 8 | n`; `index` has 24 bits and is nobody
    /// else's.
    fn new(
        door: &FrontDoor,
        peer: &PublicKey,
        psk: Option<Zeroizing<[u8; 32]>>,
        index: u32,
    ) -> Self {
        let limiter = Some(Arc::clone(&door.limiter));
        let tunn = Tunn::new(
            door.secret.clone(),
            peer.point(),
            psk.map(|psk| *psk),
            None,
            index,
            limiter,
        );
        Self {
            tunn: Box::new(tunn),
            index,
            last_index: index << 8,
            confirmed: None,
            before: None,
            answered: None,
        }
    }

    /// Seals a packet, or a keepalive when it is empty. There must be a session, and room.
    fn seal(&mut self, inner: &[u8], dst: &mut [u8]) -> Result<usize, DropReason> {
        match self.tunn.encapsulate(inner, dst) {
            TunnResult::WriteToNetwork(message) => Ok(message.len()),
            _ => Err(DropReason::UnknownSession),
        }
    }

    /// Opens a datagram of this kind. There must be room for it, and for an initiation.
    fn open(&mut self, kind: Kind, datagram: &[u8], dst: &mut [u8]) -> Result<Opened, DropReason> {
        match self.tunn.decapsulate(None, datagram, dst) {
            TunnResult::Done => Ok(match kind {
                Kind::CookieReply { .. } => Opened::Cookie,
                _ => Opened::Nothing,
            }),
            TunnResult::WriteToNetwork(message) => {
                self.note_index(message.first_chunk::<8>().copied());
                Ok(Opened::Reply(message.len()))
            }
            TunnResult::WriteToTunnelV4(packet, _) => Ok(Opened::Packet(packet.len())),
            TunnResult::WriteToTunnelV6(packet, _) => Ok(Opened::Packet(packet.len())),
            TunnResult::Err(error) => Err(reason(&error)),
        }
    }

    /// Does what is due. Must run at least once a second while packets flow: nothing else looks
    /// at the age of a session.
    fn tick(&mut self, dst: &mut [u8]) -> Tick {
        let length = match self.tunn.update_timers(dst) {
            TunnResult::WriteToNetwork(message) => message.len(),
            TunnResult::Err(WireGuardError::ConnectionExpired) => return Tick::Expired,
            _ => return Tick::Nothing,
        };
        self.note_index(dst.first_chunk::<8>().copied());
        Tick::Send(length)
    }

    /// Starts a handshake; `None` when one is under way and `force` does not ask for another.
    fn initiate(&mut self, force: bool, dst: &mut [u8]) -> Option<usize> {
        let mut length = self.try_initiate(force, dst)?;
        for _ in 0..IN_USE {
            if !self.is_in_use(self.last_index) {
                break;
            }
            // Its answer would take the place of a session that packets are on their way with.
            length = self.try_initiate(true, dst)?;
        }
        Some(length)
    }

    fn try_initiate(&mut self, force: bool, dst: &mut [u8]) -> Option<usize> {
        let length = match self.tunn.format_handshake_initiation(dst, force) {
            TunnResult::WriteToNetwork(message) => message.len(),
            _ => return None,
        };
        self.note_index(dst.first_chunk::<8>().copied());
        Some(length)
    }

    /// Makes room before the peer's initiation is opened.
    ///
    /// Sessions live in eight slots, by index. Eight handshakes that came to nothing would let the
    /// next, unconfirmed session overwrite the one in use; its index is spent on an initiation
    /// that is thrown away instead.
    fn keep_confirmed(&mut self, dst: &mut [u8]) {
        for _ in 0..IN_USE {
            if self.is_in_use(self.last_index.wrapping_add(1)) {
                let _ = self.try_initiate(true, dst);
            }
        }
    }

    /// Whether a session of this index would take the place of one that packets pass with.
    fn is_in_use(&self, index: u32) -> bool {
        let all: [_; IN_USE] = [self.confirmed, self.before, self.answered];
        all.into_iter()
            .flatten()
            .any(|used| used != index && used % SLOTS == index % SLOTS)
    }

    /// Notes that the session `index` answers an initiation of ours.
    fn answered(&mut self, index: u32) {
        self.follow(index);
        self.answered = Some(index);
    }

    /// Notes that the peer uses the session `index`; true when it is a newer one than before.
    fn confirm(&mut self, index: u32) -> bool {
        let age = |index: u32| self.last_index.wrapping_sub(index) & 0xff;
        let newer = self
            .confirmed
            .is_none_or(|confirmed| age(index) < age(confirmed));
        if newer {
            self.follow(index);
        }
        newer
    }

    fn follow(&mut self, index: u32) {
        if self.confirmed != Some(index) {
            self.before = self.confirmed.replace(index);
        }
    }

    /// Forgets which session both ends had: there is none.
    fn forget_confirmed(&mut self) {
        self.confirmed = None;
        self.before = None;
        self.answered = None;
    }

    /// Whether `index` is the newest session both ends have.
    fn is_newest(&self, index: u32) -> bool {
        self.confirmed == Some(index)
    }

    /// Whether there is a session to send with.
    fn has_session(&self) -> bool {
        self.tunn.time_since_last_handshake().is_some()
    }

    /// Whether handshakes were given up.
    fn is_expired(&self) -> bool {
        self.tunn.is_expired()
    }

    /// Remembers the index in a handshake message of ours.
    fn note_index(&mut self, head: Option<[u8; 8]>) {
        if let Some([1 | 2, 0, 0, 0, a, b, c, d]) = head {
            self.last_index = u32::from_le_bytes([a, b, c, d]);
        }
    }
}

fn reason(error: &WireGuardError) -> DropReason {
    match error {
        WireGuardError::InvalidMac => DropReason::BadMac,
        WireGuardError::InvalidAeadTag => DropReason::Forged,
        WireGuardError::InvalidCounter | WireGuardError::DuplicateCounter => DropReason::Replayed,
        WireGuardError::WrongTai64nTimestamp | WireGuardError::InvalidTai64nTimestamp => {
            DropReason::StaleHandshake
        }
        WireGuardError::NoCurrentSession
        | WireGuardError::WrongIndex
        | WireGuardError::ConnectionExpired => DropReason::UnknownSession,
        WireGuardError::WrongKey => DropReason::UnknownPeer,
        WireGuardError::UnexpectedPacket | WireGuardError::UnderLoad => {
            DropReason::UnexpectedHandshake
        }
        WireGuardError::InvalidPacket => DropReason::NotIp,
        WireGuardError::DestinationBufferTooSmall => DropReason::Oversized,
        WireGuardError::IncorrectPacketLength
        | WireGuardError::WrongPacketType
        | WireGuardError::LockFailed => DropReason::Malformed,
    }
}

/// Session slots in boringtun.
const SLOTS: u32 = 8;
/// How many of them packets may be on their way with.
const IN_USE: usize = 3;
