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
    noise::Caller,
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

    /// Who sent an initiation. Costs one hash for a stranger without our public key, one
    /// Diffie-Hellman for everybody else, and what was worked out is used for the answer.
    pub(crate) fn initiator(&self, datagram: &[u8]) -> Result<Caller, DropReason> {
        self.identity.labels.check(datagram)?;
        let call = Call::read(&self.identity.pair, datagram)?;
        let key = PublicKey::from_bytes(call.public).map_err(|_| DropReason::UnknownPeer)?;
        Ok(Caller {
            key,
            call: Some(call),
        })
    }

    /// Lets an initiation pass that proves where it comes from, while we are under load. `Some`
    /// is the length of the cookie to send there instead.
    pub(crate) fn demand(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<Option<usize>, DropReason> {
        let Self {
            identity,
            random,
            cookies,
        } = self;
        identity.labels.check(datagram)?;
        if cookies.prove(now, random, from, datagram) {
            return Ok(None);
        }
        cookies
            .reply(now, random, &identity.labels, (from, datagram), dst)
            .map(Some)
    }
}
