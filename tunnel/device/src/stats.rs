//! What a device tells about itself.

use std::{net::SocketAddr, time::SystemTime};

use kedge_control::local::{HandshakeGuard, OffloadPart, TunnelList, Workers as Threads};
use kedge_core::{Instant, Problem};
use kedge_tunnel_proto::{
    counters::{Reading, State},
    directory::Entry,
    drops::DropReason,
    guard::GuardReading,
    keys::{Pair, PublicKey},
};

use crate::{offload::Offload, workers::Workers};

/// One peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStats {
    /// Its name.
    pub name: String,
    /// Its key: of two that it has, the one in use.
    pub public_key: PublicKey,
    /// The keys of both ends its packets are sent with, and since when; the kernel does not tell.
    pub pair: Option<(Pair, Instant)>,
    /// Where datagrams for it go: where it was last heard from, else what was configured.
    pub endpoint: Option<SocketAddr>,
    /// Whether they leave from this end's other port.
    pub by_other: bool,
    /// Where its session stands. "Connected" is not "reachable": ask the echo.
    pub state: State,
    /// When the last handshake was completed, on the wall clock.
    pub last_handshake: Option<SystemTime>,
    /// When the last authenticated data message came, keepalives included, on the clock of
    /// `kedge_net::clock`. Of the kernel's device it is when its counter was last seen to have grown,
    /// which handshakes make it do as well.
    pub last_authenticated_data: Option<Instant>,
    /// Bytes of WireGuard messages received.
    pub rx_bytes: u64,
    /// Bytes of WireGuard messages sent.
    pub tx_bytes: u64,
    /// Inner packets received; 0 of the kernel's device, which does not count them.
    pub rx_packets: u64,
    /// Inner packets sent; 0 of the kernel's device, which does not count them.
    pub tx_packets: u64,
    /// Packets of this peer that were not carried, by reason; only reasons that happened.
    pub drops: Vec<(DropReason, u64)>,
}

impl PeerStats {
    pub(crate) fn of(entry: &Entry, reading: &Reading, last_handshake: Option<SystemTime>) -> Self {
        Self {
            name: entry.spec.name.clone(),
            public_key: reading
                .pair
                .map_or(entry.spec.public_key, |(pair, _)| pair.remote),
            pair: reading.pair,
            endpoint: reading.endpoint,
            by_other: reading.by_other,
            state: reading.state,
            last_handshake,
            last_authenticated_data: reading.last_data,
            rx_bytes: reading.rx_bytes,
            tx_bytes: reading.tx_bytes,
            rx_packets: reading.rx_packets,
            tx_packets: reading.tx_packets,
            drops: entry.counters.drops.nonzero(),
        }
    }
}

/// The device as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStats {
    /// Its public key.
    pub public_key: PublicKey,
    /// The UDP port in use.
    pub listen_port: u16,
    /// The other one, where there is one.
    pub other_port: Option<u16>,
    /// Why there is none, although one is wanted.
    pub other_problem: Option<Problem>,
    /// Whether it runs. It ends only when the interface is taken away from outside.
    pub running: bool,
    /// What is left to the kernel; `None` where the kernel does everything.
    pub offload: Option<Offload>,
    /// How many threads move its packets; `None` where the kernel does.
    pub workers: Option<Workers>,
    /// How the door to its handshakes stands; `None` where the kernel has it.
    pub guard: Option<GuardReading>,
    /// Packets that could be put down to no peer and were not carried, by reason.
    pub drops: Vec<(DropReason, u64)>,
}

impl DeviceStats {
    /// Tells people how it stands, as far as roles do not differ.
    pub fn tell(self, list: &mut TunnelList) {
        list.listen_port = self.listen_port;
        list.workers = self.workers.map(|workers| Threads {
            count: workers.count,
            because: workers.because.to_owned(),
        });
        list.guard = self.guard.map(|guard| HandshakeGuard {
            under_load: guard.under_load,
            times: guard.times,
            cookies_sent: guard.cookies_sent,
            cookies_proven: guard.cookies_proven,
        });
        let parts = self.offload.iter().flat_map(Offload::parts);
        let parts =
            parts.map(|(part, state, because)| (part.to_owned(), OffloadPart { state, because }));
        list.offload = parts.collect();
    }
}
