//! A batch of opened packets, put together into as few writes as the host can tell apart again.
//!
//! Only what the kernel's own GRO would put together is, so that nothing on the way to a socket
//! sees a difference; and only after the inner checksums were found right, because the host will
//! not look at them again. Packets of one flow stay in order, packets of different flows need not.

use std::ops::Range;

use super::{
    checksum::{IP_CHECKSUM, Sum, TCP_CHECKSUM, UDP_CHECKSUM},
    field::{self, short},
    view::{Transport, Version, View},
    vnet::{Gso, Header, Partial},
};

/// Which packets may be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// TCP segments.
    pub tcp: bool,
    /// UDP datagrams.
    pub udp: bool,
}

/// Collects the packets of a batch and gives them out in runs. Made once; nothing allocates later.
///
/// Packets lie in the caller's arena, which must not change between the first
/// [`push`](Self::push) and the last [`next_run`](Self::next_run) of a batch.
#[derive(Debug)]
pub struct Coalescer {
    allowed: Allowed,
    packets: Vec<Packet>,
    runs: Vec<Run>,
    given_out: usize,
    /// The run that may go on, by the hash of its flow.
    open: Box<[u16; TABLE]>,
    pieces: Vec<Range<usize>>,
}

/// What is written at once: a `virtio_net_hdr` and parts of the arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// What stands before it.
    pub header: [u8; Header::LEN],
    /// Its bytes in the arena, in order: at least one part, at most [`LONGEST_RUN`].
    pub pieces: &'a [Range<usize>],
    /// How many packets it is, at least one.
    pub packets: usize,
    /// The first one's number in the batch, from zero, as they were pushed.
    pub first: usize,
    /// How the host will cut it.
    pub gso: Gso,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    at: usize,
    length: usize,
    payload_at: usize,
    /// The next packet of the run.
    next: u16,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    view: Option<View>,
    head: u16,
    tail: u16,
    count: u16,
    /// Bytes of the whole run with the headers once.
    total: usize,
    /// What the next segment's sequence number must be.
    sequence: u32,
    /// From identification to identification, once there are two.
    id_step: Option<u16>,
    /// Whether the first packet was found intact.
    intact: bool,
    pushed: bool,
}

impl Coalescer {
    /// How many packets fit into a batch.
    pub const CAPACITY: usize = 512;

    /// An empty batch.
    #[must_use]
    pub fn new(allowed: Allowed) -> Self {
        Self {
            allowed,
            packets: Vec::with_capacity(Self::CAPACITY),
            runs: Vec::with_capacity(Self::CAPACITY),
            given_out: 0,
            open: Box::new([NONE; TABLE]),
            pieces: Vec::with_capacity(LONGEST_RUN),
        }
    }

    /// Puts together only this from here on.
    pub fn allow(&mut self, allowed: Allowed) {
        self.allowed = allowed;
        self.open.fill(NONE);
    }

    /// What comes goes on with nothing that is here.
    pub fn separate(&mut self) {
        self.open.fill(NONE);
    }

    /// Whether there is nothing to give out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether another packet finds room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.packets.len() >= Self::CAPACITY
    }

    /// Takes the packet `arena[at..at + length]`. `false` when the batch is full or there are no
    /// such bytes.
    pub fn push(&mut self, arena: &[u8], at: usize, length: usize) -> bool {
        let Some(packet) = arena.get(at..).and_then(|rest| rest.get(..length)) else {
            return false;
        };
        if self.is_full() {
            return false;
        }
        let Some(view) = View::of(packet) else {
            // A fragment may be of any flow, and nothing may overtake it.
            if may_be_of_a_flow(packet) {
                self.open.fill(NONE);
            }
            self.begin(None, at, packet);
            return true;
        };
        let slot = slot(&view, packet);
        if self.go_on(slot, arena, at, &view, packet) {
            return true;
        }
        // What was open for this flow is not any more, so that the order stays.
        let run = self.begin(Some(view), at, packet);
        if let Some(open) = self.open.get_mut(slot) {
            *open = if can_begin(self.allowed, &view, packet) {
                run
            } else {
                NONE
            };
        }
        true
    }

    /// The next write, with the head of its run made fit; after the last one `None`, and the batch
    /// is empty.
    pub fn next_run(&mut self, arena: &mut [u8]) -> Option<Write<'_>> {
        let Some(run) = self.runs.get(self.given_out).copied() else {
            self.clear();
            return None;
        };
        self.given_out += 1;
        self.pieces.clear();
        let mut at = run.head;
        for number in 0..run.count {
            let packet = self.packets.get(usize::from(at)).copied()?;
            let begin = if number == 0 { 0 } else { packet.payload_at };
            self.pieces
                .push(packet.at + begin..packet.at + packet.length);
            at = packet.next;
        }
        let head = self.pieces.first().cloned()?;
        let header = match run.view {
            Some(view) if run.count > 1 => {
                let head = arena.get_mut(head)?;
                join(head, &view, run.total, run.pushed)?
            }
            _ => Header::default(),
        };
        Some(Write {
            header: header.emit(),
            pieces: &self.pieces,
            packets: usize::from(run.count),
            first: usize::from(run.head),
            gso: header.gso,
        })
    }

    fn clear(&mut self) {
        if !self.packets.is_empty() {
            self.open.fill(NONE);
        }
        self.packets.clear();
        self.runs.clear();
        self.given_out = 0;
    }

    /// A run of its own for a packet.
    fn begin(&mut self, view: Option<View>, at: usize, packet: &[u8]) -> u16 {
        let (index, run) = (count(self.packets.len()), count(self.runs.len()));
        let payload_at = view.map_or(0, |view| view.payload_at);
        self.packets.push(Packet {
            at,
            length: packet.len(),
            payload_at,
            next: NONE,
        });
        self.runs.push(Run {
            view,
            head: index,
            tail: index,
            count: 1,
            total: packet.len(),
            sequence: view.map_or(0, |view| after(&view, packet)),
            id_step: None,
            intact: false,
            pushed: false,
        });
        run
    }

    /// Whether the packet went on with the run that is open in `slot`.
    fn go_on(&mut self, slot: usize, arena: &[u8], at: usize, view: &View, packet: &[u8]) -> bool {
        self.try_go_on(slot, arena, at, view, packet)
            .unwrap_or_default()
    }

    fn try_go_on(
        &mut self,
        slot: usize,
        arena: &[u8],
        at: usize,
        view: &View,
        packet: &[u8],
    ) -> Option<bool> {
        let open = self.open.get_mut(slot)?;
        let run = self.runs.get_mut(usize::from(*open))?;
        let first = self.packets.get(usize::from(run.head))?;
        let head = arena.get(first.at..)?.get(..first.length)?;
        let head_view = run.view?;
        let id_step = step(run, &head_view, head, packet);
        let fits = usize::from(run.count) < LONGEST_RUN
            && run.total + view.payload() <= super::LARGEST
            && (1..=head_view.payload()).contains(&view.payload());
        if !fits || !alike(&head_view, head, view, packet) || id_step.is_none() {
            return Some(false);
        }
        if view.transport == Transport::Tcp && sequence(view, packet) != Some(run.sequence) {
            return Some(false);
        }
        run.intact = run.intact || is_intact(&head_view, head);
        if !run.intact || !is_intact(view, packet) {
            return Some(false);
        }
        let index = count(self.packets.len());
        run.id_step = id_step;
        run.total += view.payload();
        run.count += 1;
        run.sequence = after(view, packet);
        run.pushed = view.transport == Transport::Tcp && flags(view, packet)? & PSH != 0;
        let tail = std::mem::replace(&mut run.tail, index);
        if run.pushed || view.payload() < head_view.payload() {
            *open = NONE;
        }
        self.packets.get_mut(usize::from(tail))?.next = index;
        self.packets.push(Packet {
            at,
            length: packet.len(),
            payload_at: view.payload_at,
            next: NONE,
        });
        Some(true)
    }
}

/// Whether other packets may be put behind this one.
fn can_begin(allowed: Allowed, view: &View, packet: &[u8]) -> bool {
    let wanted = match view.transport {
        Transport::Tcp => allowed.tcp && flags(view, packet) == Some(ACK),
        Transport::Udp => allowed.udp,
    };
    wanted && view.payload() > 0
}

/// Whether a packet differs from the head of its run only in what the host computes anew.
fn alike(head_view: &View, head: &[u8], view: &View, packet: &[u8]) -> bool {
    if (head_view.version, head_view.transport, head_view.payload_at)
        != (view.version, view.transport, view.payload_at)
    {
        return false;
    }
    let same = |range: Range<usize>| {
        let (a, b) = (head.get(range.clone()), packet.get(range));
        a.is_some() && a == b
    };
    let ip = match view.version {
        // Version and TOS; flags, TTL and protocol; addresses.
        Version::V4 => same(0..2) && same(6..10) && same(12..20),
        // Version, class and label; next header and hop limit; addresses.
        Version::V6 => same(0..4) && same(6..8) && same(8..40),
    };
    let at = view.transport_at;
    let ports = same(at..at + 4);
    match view.transport {
        Transport::Tcp => {
            // Acknowledgement, window, urgent pointer and options.
            let rest = same(at + 8..at + 13) && same(at + 14..at + 16);
            let flags = flags(view, packet).map(|flags| flags & !PSH);
            ip && ports && rest && same(at + 18..view.payload_at) && flags == Some(ACK)
        }
        Transport::Udp => {
            let summed = |packet| field::word(packet, at + UDP_CHECKSUM).map(|sum| sum != 0);
            ip && ports && summed(head) == summed(packet)
        }
    }
}

/// The step of identifications if the packet is put behind the run: one, or none where packets
/// that are never fragmented all have the same (RFC 6864).
fn step(run: &Run, view: &View, head: &[u8], packet: &[u8]) -> Option<u16> {
    if view.version == Version::V6 {
        return Some(0);
    }
    let (first, id) = (field::word(head, 4)?, field::word(packet, 4)?);
    let dont_fragment = head.get(6)? & 0x40 != 0;
    let passed = id.wrapping_sub(first);
    let step = match passed {
        0 if dont_fragment => 0,
        passed if passed == run.count => 1,
        _ => return None,
    };
    (run.id_step.is_none() || run.id_step == Some(step)).then_some(step)
}

/// Makes the first packet of a run the head of the whole.
fn join(head: &mut [u8], view: &View, total: usize, pushed: bool) -> Option<Header> {
    let at = view.transport_at;
    let segment = short(view.payload());
    match view.version {
        Version::V4 => {
            field::set_word(head, 2, short(total));
            field::set_word(head, IP_CHECKSUM, 0);
            let sum = Sum::of(head.get(..20)?);
            field::set_word(head, IP_CHECKSUM, sum.checksum());
        }
        Version::V6 => field::set_word(head, 4, short(total.saturating_sub(40))),
    }
    let pseudo = Sum::pseudo(
        view.version.addresses(head)?,
        view.transport.number(),
        total.saturating_sub(at),
    );
    let (gso, offset) = match (view.transport, view.version) {
        (Transport::Tcp, version) => {
            if pushed {
                *head.get_mut(at + 13)? |= PSH;
            }
            let gso = match version {
                Version::V4 => Gso::TcpV4,
                Version::V6 => Gso::TcpV6,
            };
            (gso, TCP_CHECKSUM)
        }
        (Transport::Udp, _) => {
            field::set_word(head, at + 4, short(total.saturating_sub(at)));
            (Gso::Udp, UDP_CHECKSUM)
        }
    };
    field::set_word(head, at + offset, pseudo.folded());
    Some(Header {
        gso,
        header_length: short(view.payload_at),
        segment,
        partial: Some(Partial {
            start: short(at),
            offset: short(offset),
        }),
        tunnel: None,
    })
}

/// Whether the checksums are right; UDP may go without one.
fn is_intact(view: &View, packet: &[u8]) -> bool {
    let check = || {
        if view.version == Version::V4 && !Sum::of(packet.get(..20)?).is_intact() {
            return Some(false);
        }
        let message = packet.get(view.transport_at..)?;
        if view.transport == Transport::Udp && field::word(message, UDP_CHECKSUM)? == 0 {
            return Some(true);
        }
        let addresses = view.version.addresses(packet)?;
        let pseudo = Sum::pseudo(addresses, view.transport.number(), message.len());
        Some(pseudo.plus(Sum::of(message)).is_intact())
    };
    check().unwrap_or_default()
}

/// Whether a packet that is not seen through may be part of a flow of TCP or UDP.
fn may_be_of_a_flow(packet: &[u8]) -> bool {
    match Version::of(packet) {
        Some(Version::V4) => matches!(packet.get(9), Some(6 | 17)),
        // Behind extension headers there may be anything; ICMPv6 stands alone.
        Some(Version::V6) => packet.get(6) != Some(&58),
        None => false,
    }
}

/// Where in the table a flow is looked for. Two that meet there only part each other's runs.
fn slot(view: &View, packet: &[u8]) -> usize {
    let addresses = view.version.addresses(packet).unwrap_or_default();
    let ports = packet
        .get(view.transport_at..)
        .and_then(<[u8]>::first_chunk::<4>);
    let seed = u32::from(view.transport.number());
    let words = addresses.as_chunks::<4>().0.iter().chain(ports);
    let hash = words.fold(seed, |hash, word| {
        (hash.rotate_left(5) ^ u32::from_ne_bytes(*word)).wrapping_mul(0x9e37_79b9)
    });
    usize::try_from(hash >> 24).unwrap_or_default() % TABLE
}

fn flags(view: &View, packet: &[u8]) -> Option<u8> {
    packet.get(view.transport_at + 13).copied()
}

fn sequence(view: &View, packet: &[u8]) -> Option<u32> {
    field::double(packet, view.transport_at + 4)
}

/// The sequence number behind a segment.
fn after(view: &View, packet: &[u8]) -> u32 {
    let passed = u32::try_from(view.payload()).unwrap_or_default();
    sequence(view, packet)
        .unwrap_or_default()
        .wrapping_add(passed)
}

/// A number of packets or runs, which are bounded.
fn count(many: usize) -> u16 {
    u16::try_from(many).unwrap_or(NONE)
}

/// The most packets in one run: as many as the kernel's GRO puts together of UDP.
pub const LONGEST_RUN: usize = 64;

const TABLE: usize = 256;
const NONE: u16 = u16::MAX;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

#[cfg(test)]
mod tests;
