//! What changes about a peer while it runs.

use super::{Owed, Peer, pad};
use crate::{
    backlog::Budget,
    counters::State,
    directory::PeerSpec,
    drops::DropReason,
    keys::PresharedKey,
    noise::{HEAD, NoiseCore, TAIL},
};

impl Peer {
    /// Takes over new wishes; the session stays.
    pub(crate) fn update(&mut self, spec: &PeerSpec, endpoint_changed: bool) {
        if spec.keepalive.is_some() && self.keepalive.is_none() {
            // Whoever switches it on wants the way back to be open from here on.
            self.owe(Owed::Keepalive);
        }
        self.keepalive = spec.keepalive;
        self.always_up = spec.always_up;
        if let Some(endpoint) = spec.endpoint.filter(|_| endpoint_changed) {
            self.set_endpoint(endpoint);
            // The peer learns where we are from the first authenticated data.
            self.owe(Owed::Keepalive);
        }
    }

    /// Has another preshared key from the next handshake on; false when its core cannot change it.
    pub(crate) fn set_preshared_key(&mut self, key: Option<&PresharedKey>) -> bool {
        self.core.set_preshared_key(key.map(PresharedKey::bytes))
    }

    /// Goes on with a core that has no session, and asks for one if there was one.
    pub(crate) fn replace_core(&mut self, core: NoiseCore) {
        let in_use = self.state != State::Idle;
        self.core = core;
        self.heard = None;
        self.session = None;
        self.rearm_at = None;
        self.set_state(State::Idle);
        if in_use {
            self.owe(Owed::Initiation);
        }
    }

    /// Tells the peer where we are, if there is a session or one is kept alive.
    pub(crate) fn announce(&mut self) {
        if self.state == State::Connected || self.keepalive.is_some() {
            self.owe(Owed::Keepalive);
        }
    }

    /// Keeps a packet until the device can send again.
    pub(crate) fn hold(
        &mut self,
        (slot, length): (&mut [u8], usize),
        mtu: usize,
        budget: &mut Budget,
    ) -> Result<(), DropReason> {
        let last = slot.len().saturating_sub(TAIL);
        let inner = slot.get_mut(HEAD..last).ok_or(DropReason::Oversized)?;
        let padded = pad(inner, length, mtu).ok_or(DropReason::Oversized)?;
        self.backlog.push(budget, padded)
    }
}
