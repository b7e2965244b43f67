//! What the host wants to send, into the tunnel: super packets are split straight into the outbox
//! and sealed where they stand.

use std::io;

use kedge_net::{clock, tun::Tun, udp::LONGEST_RUN};
use kedge_tunnel_proto::{
    drops::DropReason,
    noise::HEAD,
    packet::{
        LARGEST, checksum,
        split::Split,
        vnet::{Gso, Header},
    },
    realm::Realm,
    shard::{ROOM, Shard},
};
use tracing::trace;

use crate::{
    network::Network,
    outbox::Outbox,
    post::{Kind, Post},
};

/// The host's side of the way out.
#[derive(Debug)]
pub(crate) struct FromHost {
    /// A `virtio_net_hdr` and a packet, as the kernel writes them.
    frame: Box<[u8]>,
}

impl FromHost {
    pub(crate) fn new() -> Self {
        Self {
            frame: vec![0; Header::LEN + LARGEST].into_boxed_slice(),
        }
    }

    /// Takes what the host wants to send, seals it, and sends it, until there is no more or others
    /// must have their turn.
    ///
    /// # Errors
    ///
    /// The interface is gone.
    pub(crate) fn drain(
        &mut self,
        (realm, tun): (Option<Realm>, &Tun),
        shard: &mut Shard,
        outbox: &mut Outbox,
        network: &mut Network,
        post: &mut Post,
    ) -> io::Result<()> {
        let mut taken = 0;
        while taken < TURN {
            let length = match tun.read(&mut self.frame) {
                Ok(length) => length,
                Err(err) if Tun::is_gone(&err) => return Err(err),
                Err(_) => break,
            };
            trace!(length, "from the host");
            let frame = self.frame.get(..length).unwrap_or_default();
            let packet = frame.get(Header::LEN..).unwrap_or_default();
            if let Some(worker) = shard.elsewhere(realm, packet) {
                if !post.put(worker, Kind::Frame(realm), frame) {
                    shard.count(None, DropReason::WorkerQueueFull, 1);
                }
                taken += 1 + packet.len() / USUAL;
                continue;
            }
            taken += forward((realm, frame), shard, outbox, network);
        }
        network.send(clock::now(), outbox, shard);
        Ok(())
    }
}

/// What the host sends, and the realm of the interface that it left by.
type Frame<'a> = (Option<Realm>, &'a [u8]);

/// Seals what a frame holds, sends it where that is much, and says how many packets it was.
pub(crate) fn forward(
    frame: Frame<'_>,
    shard: &mut Shard,
    outbox: &mut Outbox,
    network: &mut Network,
) -> usize {
    let segments = seal(frame, shard, outbox, network);
    let segments = segments.unwrap_or_else(|reason| {
        shard.count(None, reason, 1);
        1
    });
    if outbox.len() >= BATCH {
        network.send(clock::now(), outbox, shard);
    }
    segments
}

/// Seals what a frame holds, and says how many packets that are.
fn seal(
    (realm, frame): Frame<'_>,
    shard: &mut Shard,
    outbox: &mut Outbox,
    network: &mut Network,
) -> Result<usize, DropReason> {
    let now = clock::now();
    let header = Header::parse(frame).map_err(|_| DropReason::NotIp)?;
    let packet = frame.get(Header::LEN..).unwrap_or_default();
    if header.gso == Gso::None {
        let inner = room(outbox).and_then(|room| room.get_mut(..packet.len()));
        let inner = inner.ok_or(DropReason::Oversized)?;
        inner.copy_from_slice(packet);
        if let Some(partial) = header.partial
            && !checksum::finish(inner, partial.start, partial.offset)
        {
            return Err(DropReason::NotIp);
        }
        if let Some(transmit) = shard.send_in(now, realm, outbox.slot(), packet.len()) {
            outbox.push(transmit);
        }
        return Ok(1);
    }
    let mut split = Split::new(&header, packet).map_err(|_| DropReason::NotIp)?;
    let mut segments = 0;
    loop {
        if outbox.is_full() {
            network.send(now, outbox, shard);
        }
        let Some(length) = room(outbox).and_then(|room| split.next_into(room)) else {
            return Ok(segments);
        };
        segments += 1;
        if let Some(transmit) = shard.send_in(now, realm, outbox.slot(), length) {
            outbox.push(transmit);
        }
    }
}

/// Where the next packet is written, so that it can be sealed there.
fn room(outbox: &mut Outbox) -> Option<&mut [u8]> {
    let slot = outbox.slot();
    let end = slot.len().checked_sub(ROOM)?;
    slot.get_mut(HEAD..end)
}

/// So many datagrams are sent before more is taken: as many as one system call takes.
const BATCH: usize = LONGEST_RUN;

/// How long a packet usually is.
const USUAL: usize = 1_400;

/// So many packets are taken before others have their turn.
const TURN: usize = 256;
