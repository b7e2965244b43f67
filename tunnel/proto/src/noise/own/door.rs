//! What all peers of a device share: our key, the wall clock, and the check that a handshake
//! message is for us.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use kedge_core::Instant;

use super::{
    Seed,
    exchange::KeyPair,
    handshake::Call,
    macs::{Cookies, Labels},
    random::Random,
    stamp::Wall,
};
use crate::{
    drops::DropReason,
    keys::{PrivateKey, PublicKey},
};

/// Where initiations come in.
pub(crate) struct FrontDoor {
    pub(super) identity: Arc<Identity>,
    pub(super) random: Random,
    cookies: Cookies,
}

/// Who we are.
pub(super) struct Identity {
    pub(super) pair: KeyPair,
    pub(super) labels: Labels,
    pub(super) wall: Wall,
}

impl FrontDoor {
    pub(crate) fn new(key: &PrivateKey, seed: &Seed, wall: Wall) -> Self {
        let mut random = seed.random();
        let pair = KeyPair::new(&key.bytes());
        Self {
            identity: Arc::new(Identity {
                labels: Labels::new(&pair.public),
                pair,
                wall,
            }),
            cookies: Cookies::new(Instant::ZERO, &mut random),
            random,
        }
    }

    pub(crate) fn set_wall(&self, now: Instant, unix: Duration) {
        self.identity.wall.set(now, unix);
    }

    /// Whether the sender of a handshake message knows our public key. Costs one hash.
    pub(crate) fn check(&self, datagram: &[u8]) -> Result<(), DropReason> {
        self.identity.labels.check(datagram)
    }

    /// Who sent an initiation that was checked. Costs one Diffie-Hellman, and what was worked out
    /// is used for the answer.
    pub(crate) fn initiator(&self, datagram: &[u8]) -> Result<(PublicKey, Call), DropReason> {
        let call = Call::read(&self.identity.pair, datagram)?;
        let key = PublicKey::from_bytes(call.public).map_err(|_| DropReason::UnknownPeer)?;
        Ok((key, call))
    }

    /// Whether a cookie in a handshake message proves that the sender receives what is sent to
    /// `from`.
    pub(crate) fn proves(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool {
        self.cookies.prove(now, &mut self.random, from, datagram)
    }

    /// Writes the cookie for whoever sent `datagram` to `dst`, and says how long it is.
    pub(crate) fn cookie(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        let Self {
            identity,
            random,
            cookies,
        } = self;
        cookies.reply(now, random, &identity.labels, (from, datagram), dst)
    }
}
