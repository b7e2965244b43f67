//! Opened packets, to the host: those of a flow in one piece, where it takes that.

use std::io::{self, IoSlice};

use kedge_tunnel_proto::{
    directory::PeerId,
    drops::DropReason,
    packet::{
        LARGEST,
        coalesce::{Allowed, Coalescer, LONGEST_RUN, Write},
        split::Split,
        vnet::{Gso, Header},
    },
    realm::Realm,
    shard::Shard,
};
use tracing::trace;

/// Packets that were opened and wait to be written. Made once; nothing allocates later.
#[derive(Debug)]
pub(crate) struct ToHost {
    arena: Box<[u8]>,
    used: usize,
    coalescer: Coalescer,
    /// Whose each packet is, in the order they came.
    peers: Vec<(PeerId, Option<Realm>)>,
    /// Of the last one.
    realm: Option<Realm>,
    allowed: Allowed,
}

/// A `virtio_net_hdr` and the parts of a packet.
type Parts<'a> = &'a [IoSlice<'a>];

impl ToHost {
    pub(crate) fn new(allowed: Allowed) -> Self {
        Self {
            arena: vec![0; ENOUGH_BYTES + LARGEST].into_boxed_slice(),
            used: 0,
            coalescer: Coalescer::new(allowed),
            peers: Vec::with_capacity(Coalescer::CAPACITY),
            realm: None,
            allowed,
        }
    }

    /// Whether the next packet, however long, might find no room.
    pub(crate) fn is_full(&self) -> bool {
        self.coalescer.is_full() || self.used > ENOUGH_BYTES
    }

    /// Where the next datagram is opened: room for the largest, while there is not too much here.
    pub(crate) fn slot(&mut self) -> &mut [u8] {
        self.arena.get_mut(self.used..).unwrap_or_default()
    }

    /// Takes the packet that was opened at the start of the slot, for the interface of a realm.
    pub(crate) fn push(&mut self, length: usize, peer: PeerId, realm: Option<Realm>) {
        if self.realm != realm {
            // The same addresses are another flow there.
            self.coalescer.separate();
            self.realm = realm;
        }
        if self.coalescer.push(&self.arena, self.used, length) {
            self.peers.push((peer, realm));
            self.used += length;
        }
    }

    /// Gives all of it to `to`, which takes a `virtio_net_hdr` and the parts of a packet of a realm. What the
    /// kernel refuses is counted. What it does not take in one piece it gets one by one, is not
    /// given in one piece again, and is returned.
    pub(crate) fn flush(
        &mut self,
        to: impl Fn(Option<Realm>, Parts<'_>) -> io::Result<()>,
        shard: &mut Shard,
    ) -> Option<Gso> {
        let mut refused = None;
        while let Some(write) = self.coalescer.next_run(&mut self.arena) {
            let first = self.peers.get(write.first).copied();
            let (peer, realm) = first.map_or((None, None), |(peer, realm)| (Some(peer), realm));
            let to = |parts: Parts<'_>| to(realm, parts);
            let mut taken = 0;
            let mut outcome = put(to, &self.arena, &write);
            if write.gso != Gso::None && outcome.as_ref().is_err_and(may_be_the_form) {
                (taken, outcome) = put_each(to, &self.arena, &write);
                refused = (taken > 0).then_some(write.gso).or(refused);
            }
            if let Err(error) = outcome {
                let lost = write.packets - taken;
                let error = &error as &dyn std::error::Error;
                trace!(error, lost, "the host refused a packet");
                let lost = u64::try_from(lost).unwrap_or_default();
                shard.count(peer, DropReason::DeliverFailed, lost);
            }
        }
        self.peers.clear();
        self.used = 0;
        if let Some(refused) = refused {
            match refused {
                Gso::Udp => self.allowed.udp = false,
                _ => self.allowed.tcp = false,
            }
            self.coalescer.allow(self.allowed);
        }
        refused
    }
}

/// Writes a run in one piece.
fn put(
    to: impl Fn(Parts<'_>) -> io::Result<()>,
    arena: &[u8],
    write: &Write<'_>,
) -> io::Result<()> {
    let mut parts = [IoSlice::new(&[]); 1 + LONGEST_RUN];
    let header: &[u8] = &write.header;
    let bytes = write
        .pieces
        .iter()
        .map(|piece| arena.get(piece.clone()).unwrap_or_default());
    let mut count = 0;
    for (part, bytes) in parts.iter_mut().zip(std::iter::once(header).chain(bytes)) {
        *part = IoSlice::new(bytes);
        count += 1;
    }
    to(parts.get(..count).unwrap_or_default())
}

/// Writes the packets of a run one by one, and says how many the kernel took. Rare: whoever needs
/// it makes no runs any more.
fn put_each(
    to: impl Fn(Parts<'_>) -> io::Result<()>,
    arena: &[u8],
    write: &Write<'_>,
) -> (usize, io::Result<()>) {
    let pieces = write
        .pieces
        .iter()
        .filter_map(|piece| arena.get(piece.clone()));
    let whole: Vec<u8> = pieces.flatten().copied().collect();
    let split = Header::parse(&write.header)
        .ok()
        .and_then(|header| Split::new(&header, &whole).ok());
    let Some(mut split) = split else {
        return (0, Err(io::ErrorKind::InvalidData.into()));
    };
    let mut packet = vec![0; split.longest()];
    let (mut taken, mut outcome) = (0, Ok(()));
    while let Some(length) = split.next_into(&mut packet) {
        let header = Header::default().emit();
        let packet = packet.get(..length).unwrap_or_default();
        match to(&[IoSlice::new(&header), IoSlice::new(packet)]) {
            Ok(()) => taken += 1,
            Err(error) => outcome = Err(error),
        }
    }
    (taken, outcome)
}

/// Whether the kernel may have meant the run and not its packets: some refuse runs of UDP that they
/// said they take.
fn may_be_the_form(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

/// With so much there is no sense in waiting for more.
const ENOUGH_BYTES: usize = 8 * 65_536;

#[cfg(test)]
mod tests;
