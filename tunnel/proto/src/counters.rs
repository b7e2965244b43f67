//! What is counted about one peer.

use std::{
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use kedge_core::Instant;

use crate::{drops::Drops, keys::Pair, other, place::Place};

/// Where the peer's session stands. Only an answered echo proves that the path works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No session and nobody asked for one.
    #[default]
    Idle = 0,
    /// A handshake is on its way.
    Connecting = 1,
    /// There is a session.
    Connected = 2,
}

/// Counters of one peer. The worker that owns the peer writes, any thread reads; no lock is taken
/// for a packet, the one around the endpoint only when it moves.
#[derive(Debug, Default)]
pub struct Counters {
    rx_bytes: AtomicU64,
    tx_bytes: AtomicU64,
    rx_packets: AtomicU64,
    tx_packets: AtomicU64,
    last_handshake: AtomicU64,
    last_data: AtomicU64,
    /// The number of the last question that was answered, and one.
    answered: AtomicU64,
    state: AtomicU8,
    seldom: Mutex<Seldom>,
    /// Packets of this peer that were not carried.
    pub drops: Drops,
}

/// What changes rarely.
#[derive(Debug, Default)]
struct Seldom {
    endpoint: Place,
    /// Boxed, since most peers never have another pair than the one they began with.
    pair: Option<Box<(Pair, Instant)>>,
}

/// One reading of the [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes of authenticated WireGuard messages received, without UDP and IP.
    pub rx_bytes: u64,
    /// Bytes of WireGuard messages sent.
    pub tx_bytes: u64,
    /// Inner packets received.
    pub rx_packets: u64,
    /// Inner packets sent.
    pub tx_packets: u64,
    /// When the last handshake was completed and confirmed.
    pub last_handshake: Option<Instant>,
    /// When the last authenticated data message came, keepalives included.
    pub last_data: Option<Instant>,
    /// Which question over a way of its own was answered last.
    pub answered: Option<u64>,
    /// Where the session stands.
    pub state: State,
    /// Where datagrams for the peer go.
    pub endpoint: Option<SocketAddr>,
    /// Whether from this end's other port.
    pub by_other: bool,
    /// The keys its packets are sent with, and since when; `None` is those it began with: the older
    /// one of each end.
    pub pair: Option<(Pair, Instant)>,
}

impl Counters {
    /// Reads everything.
    #[must_use]
    pub fn read(&self) -> Reading {
        let seldom = self.seldom();
        let endpoint = seldom.endpoint.get();
        Reading {
            rx_bytes: self.rx_bytes.load(Ordering::Relaxed),
            tx_bytes: self.tx_bytes.load(Ordering::Relaxed),
            rx_packets: self.rx_packets.load(Ordering::Relaxed),
            tx_packets: self.tx_packets.load(Ordering::Relaxed),
            last_handshake: instant(self.last_handshake.load(Ordering::Relaxed)),
            last_data: instant(self.last_data.load(Ordering::Relaxed)),
            answered: self.answered.load(Ordering::Relaxed).checked_sub(1),
            state: match self.state.load(Ordering::Relaxed) {
                2 => State::Connected,
                1 => State::Connecting,
                _ => State::Idle,
            },
            endpoint: endpoint.map(other::address),
            by_other: endpoint.is_some_and(other::is_by_other),
            pair: seldom.pair.as_deref().copied(),
        }
    }

    pub(crate) fn received(&self, now: Instant, message: usize) {
        add(&self.rx_bytes, message);
        self.last_data.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn received_handshake(&self, message: usize) {
        add(&self.rx_bytes, message);
    }

    pub(crate) fn delivered(&self) {
        add(&self.rx_packets, 1);
    }

    pub(crate) fn sent(&self, message: usize) {
        add(&self.tx_bytes, message);
    }

    pub(crate) fn carried(&self) {
        add(&self.tx_packets, 1);
    }

    pub(crate) fn handshake_completed(&self, now: Instant) {
        self.last_handshake.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn answered(&self, number: u64) {
        let after = number.saturating_add(1);
        self.answered.store(after, Ordering::Relaxed);
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(crate) fn set_endpoint(&self, endpoint: Option<SocketAddr>) {
        self.seldom().endpoint.replace(endpoint);
    }

    pub(crate) fn set_pair(&self, now: Instant, pair: Pair) {
        self.seldom().pair = Some(Box::new((pair, now)));
    }

    fn seldom(&self) -> MutexGuard<'_, Seldom> {
        self.seldom.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Its one writer needs no atomic addition, which is several times what a packet's other book-keeping takes.
fn add(counter: &AtomicU64, many: usize) {
    let many = u64::try_from(many).unwrap_or_default();
    let sum = counter.load(Ordering::Relaxed).wrapping_add(many);
    counter.store(sum, Ordering::Relaxed);
}

/// Zero means "never": nothing is received at the very epoch of the clock.
fn instant(nanos: u64) -> Option<Instant> {
    (nanos != 0).then(|| Instant::from_nanos(nanos))
}
