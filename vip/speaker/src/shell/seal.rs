//! Signed adverts of one VIP: the trailer of what leaves, and the proof of what arrives.

use std::time::{SystemTime, UNIX_EPOCH};

use kedge_vip_proto::{
    auth::{Config, Reject, Senders, Signer, Stamp, Verifier},
    vrrp::{Peers, Transmit},
    wire::vrrp::{Heard, MAX_LEN},
};

/// The keys of a VIP, and how far the sequences are.
#[derive(Debug)]
pub(super) struct Seal {
    config: Config,
    signer: Signer,
    verifier: Verifier,
}

impl Seal {
    pub(super) fn new(config: Config, peers: &Peers) -> Self {
        Self {
            signer: Signer::new(config.clone(), None),
            verifier: Verifier::new(config.clone(), senders(peers)),
            config,
        }
    }

    /// Goes on with other keys; the sequences of the members are as they were.
    pub(super) fn reconfigure(&mut self, config: Config, peers: &Peers) {
        if config != self.config {
            self.signer.reconfigure(config.clone());
        }
        self.verifier.reconfigure(config.clone(), senders(peers));
        self.config = config;
    }

    /// Appends the trailer to a message of `length` bytes and gives the new length.
    pub(super) fn sign(
        &mut self,
        transmit: &Transmit,
        buffer: &mut [u8; MAX_LEN],
        length: usize,
    ) -> usize {
        let pdu = buffer.get(..length).unwrap_or_default();
        match self.signer.sign(now(), &transmit.identity(), pdu) {
            Some(trailer) => transmit.seal(buffer, length, &trailer),
            None => length,
        }
    }

    /// Whether an advert is a member's.
    pub(super) fn verify(&mut self, heard: &Heard<'_>) -> Result<(), Reject> {
        let verified = self
            .verifier
            .verify(now(), &heard.identity(), heard.pdu, heard.trailer);
        verified.map(drop)
    }
}

fn senders(peers: &Peers) -> Senders {
    match peers {
        Peers::Group => Senders::Group,
        Peers::Unicast { routers, .. } => Senders::Peers(routers.to_vec()),
    }
}

/// The wall clock: members of a group have no other clock in common.
fn now() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Stamp::from_unix(since.unwrap_or_default())
}
