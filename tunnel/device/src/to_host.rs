//! Opened packets, to the host.

use kedge_net::tun::Tun;
use kedge_tunnel_proto::{directory::PeerId, drops::DropReason, shard::Shard};
use tracing::trace;

/// Packets that were opened and wait to be written. Made once; nothing allocates later.
#[derive(Debug)]
pub(crate) struct ToHost {
    arena: Box<[u8]>,
    used: usize,
    packets: Vec<Packet>,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    at: usize,
    length: usize,
    peer: PeerId,
}

impl ToHost {
    pub(crate) fn new() -> Self {
        Self {
            arena: vec![0; ENOUGH_BYTES + SLACK].into_boxed_slice(),
            used: 0,
            packets: Vec::with_capacity(CAPACITY),
        }
    }

    /// Whether the next packet, however long, might find no room.
    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() >= CAPACITY || self.used > ENOUGH_BYTES
    }

    /// Where the next datagram is opened: room for the largest, while there is not too much here.
    pub(crate) fn slot(&mut self) -> &mut [u8] {
        self.arena.get_mut(self.used..).unwrap_or_default()
    }

    /// Takes the packet that was opened at the start of the slot.
    pub(crate) fn push(&mut self, length: usize, peer: PeerId) {
        self.packets.push(Packet {
            at: self.used,
            length,
            peer,
        });
        self.used += length;
    }

    /// Writes all of it. What the kernel refuses is counted.
    pub(crate) fn flush(&mut self, tun: &Tun, shard: &mut Shard) {
        for Packet { at, length, peer } in self.packets.drain(..) {
            let packet = self.arena.get(at..).and_then(|rest| rest.get(..length));
            if let Err(err) = tun.write(packet.unwrap_or_default()) {
                let error = &err as &dyn std::error::Error;
                trace!(error, "the host refused a packet");
                shard.count(Some(peer), DropReason::DeliverFailed, 1);
            }
        }
        self.used = 0;
    }
}

/// With so much there is no sense in waiting for more.
const ENOUGH_BYTES: usize = 8 * 65_536;
/// The largest packet.
const SLACK: usize = 65_536;
const CAPACITY: usize = 512;
