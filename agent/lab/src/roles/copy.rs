//! A tunnel without cryptography: what is left of an engine's work when nothing is sealed. The limit that
//! `lab bench tunnel` measures against.
//!
//! It does what an engine does in the same order with the same offloads: super packets are cut into
//! datagrams with room for a head and a tag, runs of them leave in one call, and what comes is put together
//! again.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
};

use clap::Args;
use kedge_core::{Code, Problem};
use kedge_net::{
    tun::{Rung, Tun},
    udp::{Family, Form, Inbox, LARGEST_RUN, LONGEST_RUN, Sockets},
    wait::Waiter,
};
use kedge_tunnel_proto::packet::{
    LARGEST, checksum,
    coalesce::{Allowed, Coalescer, LONGEST_RUN as LONGEST_WRITE},
    split::Split,
    vnet::{Gso, Header},
};

/// Flags of the copy loop.
#[derive(Clone, Debug, Args)]
pub struct CopyArgs {
    /// The TUN device it makes
    #[arg(long)]
    ifname: String,
    /// The other end; the port is that of this end, too
    #[arg(long)]
    to: SocketAddr,
}

pub(super) fn run(args: &CopyArgs) -> Result<(), Problem> {
    let failed = |error: io::Error| {
        Problem::new(Code::LabStepFailed, "the copy loop has ended").caused_by(&error)
    };
    let other = |error: &dyn std::error::Error| io::Error::other(error.to_string());
    let tun = Tun::open(&args.ifname).map_err(|error| failed(other(&error)))?;
    tun.climb(Rung::Uso).map_err(failed)?;
    let sockets = Sockets::bind(args.to.port()).map_err(|error| failed(other(&error)))?;
    sockets.set_gro(true).map_err(failed)?;
    let mut ends = Ends {
        tun,
        sockets,
        to: args.to,
        outward: Outward::new(),
        inward: Inward::new(),
    };
    ends.carry().map_err(failed)
}

struct Ends {
    tun: Tun,
    sockets: Sockets,
    to: SocketAddr,
    outward: Outward,
    inward: Inward,
}

impl Ends {
    fn carry(&mut self) -> io::Result<()> {
        let mut waiter = Waiter::new()?;
        waiter.add(&self.tun, TUN)?;
        if let Some(socket) = self.sockets.fd(Family::V4) {
            waiter.add(&socket, UDP)?;
        }
        loop {
            let (mut out, mut back) = (false, false);
            for key in waiter.wait()? {
                out |= *key == TUN;
                back |= *key == UDP;
            }
            if out {
                self.outward.take(&self.tun, &self.sockets, self.to)?;
            }
            if back {
                self.inward.take(&self.tun, &self.sockets);
            }
        }
    }
}

/// From the host to the network.
struct Outward {
    frame: Vec<u8>,
    arena: Vec<u8>,
    used: usize,
    /// How long each datagram is.
    lengths: Vec<usize>,
}

impl Outward {
    fn new() -> Self {
        Self {
            frame: vec![0; Header::LEN + LARGEST],
            arena: vec![0; ENOUGH + 2 * LARGEST],
            used: 0,
            lengths: Vec::new(),
        }
    }

    fn take(&mut self, tun: &Tun, sockets: &Sockets, to: SocketAddr) -> io::Result<()> {
        for _ in 0..TURN {
            let length = match tun.read(&mut self.frame) {
                Ok(length) => length,
                Err(error) if Tun::is_gone(&error) => return Err(error),
                Err(_) => break,
            };
            self.cut(length);
            if self.lengths.len() >= LONGEST_RUN || self.used > ENOUGH {
                self.send(sockets, to);
            }
        }
        self.send(sockets, to);
        Ok(())
    }

    /// What is no packet is left out.
    fn cut(&mut self, length: usize) {
        let frame = self.frame.get(..length).unwrap_or_default();
        let Ok(header) = Header::parse(frame) else {
            return;
        };
        let packet = frame.get(Header::LEN..).unwrap_or_default();
        if header.gso == Gso::None {
            let inner = self.arena.get_mut(self.used + HEAD..);
            let Some(inner) = inner.and_then(|rest| rest.get_mut(..packet.len())) else {
                return;
            };
            inner.copy_from_slice(packet);
            if let Some(partial) = header.partial {
                checksum::finish(inner, partial.start, partial.offset);
            }
            self.lengths.push(HEAD + packet.len() + TAIL);
            self.used += HEAD + packet.len() + TAIL;
            return;
        }
        let Ok(mut split) = Split::new(&header, packet) else {
            return;
        };
        while let Some(inner) = self
            .arena
            .get_mut(self.used + HEAD..)
            .and_then(|rest| split.next_into(rest))
        {
            self.lengths.push(HEAD + inner + TAIL);
            self.used += HEAD + inner + TAIL;
        }
    }

    /// Runs of one size, of which the last may be shorter.
    fn send(&mut self, sockets: &Sockets, to: SocketAddr) {
        let (mut at, mut lengths) = (0, self.lengths.as_slice());
        while let Some(&size) = lengths.first() {
            let (mut count, mut total) = (0, 0);
            for &length in lengths.iter().take(LONGEST_RUN) {
                if length > size || total + length > LARGEST_RUN {
                    break;
                }
                (count, total) = (count + 1, total + length);
                if length < size {
                    break;
                }
            }
            let count = count.max(1);
            let run = self.arena.get(at..at + total).unwrap_or_default();
            let segment = (count > 1).then(|| u16::try_from(size).unwrap_or(u16::MAX));
            // What does not leave is lost, as on any network.
            let _ = sockets.send(to, None, &[IoSlice::new(run)], Form::segments(segment));
            at += total;
            lengths = lengths.get(count..).unwrap_or_default();
        }
        self.lengths.clear();
        self.used = 0;
    }
}

/// From the network to the host.
struct Inward {
    inbox: Inbox,
    arena: Vec<u8>,
    used: usize,
    coalescer: Coalescer,
}

impl Inward {
    fn new() -> Self {
        let all = Allowed {
            tcp: true,
            udp: true,
        };
        Self {
            inbox: Inbox::new(),
            arena: vec![0; 8 * ENOUGH + LARGEST],
            used: 0,
            coalescer: Coalescer::new(all),
        }
    }

    fn take(&mut self, tun: &Tun, sockets: &Sockets) {
        if self.inbox.fill(sockets, Family::V4).is_err() {
            return;
        }
        let Self {
            inbox,
            arena,
            used,
            coalescer,
        } = self;
        for datagram in inbox.received().flatten().flat_map(|it| it.datagrams()) {
            if coalescer.is_full() || *used > 8 * ENOUGH {
                deliver(tun, arena, used, coalescer);
            }
            let end = datagram.len().saturating_sub(TAIL);
            let inner = datagram.get(HEAD..end).unwrap_or_default();
            // As an engine, which opens a datagram to where it is put together.
            let Some(slot) = arena.get_mut(*used..*used + inner.len()) else {
                continue;
            };
            slot.copy_from_slice(inner);
            if coalescer.push(arena, *used, inner.len()) {
                *used += inner.len();
            }
        }
        deliver(tun, arena, used, coalescer);
    }
}

fn deliver(tun: &Tun, arena: &mut [u8], used: &mut usize, coalescer: &mut Coalescer) {
    while let Some(write) = coalescer.next_run(arena) {
        let header = write.header;
        let mut parts = [IoSlice::new(&[]); 1 + LONGEST_WRITE];
        let bytes = write
            .pieces
            .iter()
            .map(|piece| arena.get(piece.clone()).unwrap_or_default());
        let mut count = 0;
        let all = std::iter::once(&header[..]).chain(bytes);
        for (part, bytes) in parts.iter_mut().zip(all) {
            *part = IoSlice::new(bytes);
            count += 1;
        }
        let _ = tun.write(parts.get(..count).unwrap_or_default());
    }
    *used = 0;
}

/// What WireGuard puts before a packet, and behind it.
const HEAD: usize = 16;
const TAIL: usize = 16;
const TURN: usize = 256;
const ENOUGH: usize = 65_536;
const TUN: u64 = 0;
const UDP: u64 = 1;
