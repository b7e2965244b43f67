//! What changes about a peer while it runs.

use std::net::SocketAddr;

use kedge_core::Instant;

use super::{CALL_PAUSE, FORCE_PAUSE, Owed, Peer, padding::padded};
use crate::{
    backlog::Budget, counters::State, directory::PeerSpec, drops::DropReason, fallback::is_lane,
    keys::PresharedKey, noise::NoiseCore,
};

impl Peer {
    /// Makes an initiation for each of `places`, and says how long it is. It stands at the start of `dst`
    /// and is the same for all of them: the first that arrives is answered, the others are replays.
    pub(crate) fn call(
        &mut self,
        now: Instant,
        places: &[SocketAddr],
        dst: &mut [u8],
    ) -> Option<usize> {
        let length = self.core.initiate(now, true, dst)?;
        self.rare_mut().called = places.to_vec();
        for _ in places {
            self.counters.sent(length);
        }
        if self.state == State::Idle {
            self.set_state(State::Connecting);
        }
        Some(length)
    }

    /// Takes the place that answered a call, if it is one that was called: else nobody would know where
    /// the first packet goes. What authenticated data says later, holds.
    pub(super) fn meet(&mut self, now: Instant, from: SocketAddr) {
        if self.endpoint != Some(from)
            && self
                .rare
                .as_ref()
                .is_some_and(|it| it.called.contains(&from))
        {
            self.move_to(now, from);
        }
    }

    /// Has another place from here on. The first one is no move.
    pub(super) fn move_to(&mut self, now: Instant, to: SocketAddr) {
        if self.endpoint.is_some() {
            self.rare_mut().moved_at = Some(now);
        }
        self.set_endpoint(to);
    }

    /// Takes over new wishes; the session stays.
    pub(crate) fn update(&mut self, now: Instant, spec: &PeerSpec, endpoint_changed: bool) {
        if spec.keepalive.is_some() && self.keepalive.is_none() {
            // Whoever switches it on wants the way back to be open from here on.
            self.owe(Owed::Keepalive);
        }
        self.keepalive = spec.keepalive;
        self.always_up = spec.always_up;
        if let Some(endpoint) = spec.endpoint.filter(|_| endpoint_changed) {
            let port = |before: SocketAddr| before.ip() == endpoint.ip();
            if is_lane(endpoint) || self.endpoint.is_some_and(|at| is_lane(at) || port(at)) {
                // What is still on its way from the place before does not lead back there. Between
                // two addresses it does: a peer that answers from elsewhere may be deaf where one
                // believes it, as behind a NAT that knows only its other address.
                self.rare_mut().moved_at = Some(now);
            }
            self.set_endpoint(endpoint);
            // The peer learns where we are from the first authenticated data.
            self.owe(Owed::Keepalive);
        }
    }

    /// Has another preshared key from the next handshake on; false when its core cannot change it.
    pub(crate) fn set_preshared_key(&mut self, key: Option<&PresharedKey>) -> bool {
        self.core.set_preshared_key(key.map(PresharedKey::bytes))
    }

    /// Takes all handshakes to another core from here on. The index of the core that goes on with the
    /// session, if there is one.
    pub(crate) fn succeed(&mut self, core: NoiseCore) -> Option<u32> {
        let before = std::mem::replace(&mut self.core, core);
        let former = self.core.succeed(before);
        if former.is_none() {
            self.begin_anew();
        }
        former
    }

    /// Goes on with a core that has no session, and asks for one if there was one.
    pub(crate) fn replace_core(&mut self, core: NoiseCore) {
        self.core = core;
        self.begin_anew();
    }

    pub(super) fn begin_anew(&mut self) {
        let in_use = self.state != State::Idle;
        self.heard = None;
        self.session = None;
        if let Some(rare) = &mut self.rare {
            rare.rearm_at = None;
        }
        self.set_state(State::Idle);
        if in_use {
            self.owe(Owed::Initiation);
        }
    }

    /// Asks for a handshake whatever the state, not more often than a peer may be asked. A wish that
    /// comes too early is put off: the peer may have forgotten the session that the last one led to.
    pub(crate) fn force_handshake(&mut self, now: Instant) {
        self.rare_mut().wished = true;
        self.grant(now);
    }

    /// Asks for the handshake that was put off, once its time has come.
    pub(super) fn grant(&mut self, now: Instant) {
        if self.put_off_until().is_some_and(|at| at <= now) {
            let rare = self.rare_mut();
            (rare.wished, rare.forced_at) = (false, Some(now));
            self.owe(Owed::Initiation);
        }
    }

    /// When a wish that was put off is granted, if there is one.
    pub(crate) fn put_off_until(&self) -> Option<Instant> {
        let rare = self.rare.as_ref().filter(|it| it.wished)?;
        let forced = rare.forced_at.map(|at| at + FORCE_PAUSE);
        let asked = self.session.filter(|session| session.initiator);
        // Too soon after the last one it would be dropped in silence, and asked for again after 5 s.
        let asked = asked.map(|session| session.since + CALL_PAUSE);
        Some(forced.max(asked).unwrap_or(Instant::ZERO))
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
        self.backlog.push(budget, padded(slot, length, mtu)?)
    }

    /// Gives back what the peer holds of the budget.
    pub(crate) fn discard(&mut self, budget: &mut Budget) {
        let waiting = self.backlog.clear(budget);
        self.counters.drops.count_many(DropReason::Expired, waiting);
        self.set_state(State::Idle);
    }
}
