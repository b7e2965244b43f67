//! What is left to the kernel, in each direction: what may be, and how it stands.
//!
//! ```text
//!            out                                   in
//!   host     tun: uso > tso > plain (split)        coalesce: tcp, udp
//!   network  gso: runs (UDP_SEGMENT)               gro: runs (UDP_GRO)
//! ```

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use kedge_net::{
    tun::{Climbed, Rung, Tun},
    udp::Sockets,
};
use kedge_tunnel_proto::packet::{coalesce, vnet::Gso};

/// What a device may leave to the kernel. What the kernel does not know it does itself, and what
/// fails on the way it does itself from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The highest step of the ladder of what the host may hand over in one piece.
    pub tun: Rung,
    /// Whether datagrams may be sent in runs.
    pub gso: bool,
    /// Whether datagrams may be received in runs.
    pub gro: bool,
    /// Whether the host may be given packets in one piece.
    pub coalesce: bool,
}

/// How it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offload {
    /// The step of the ladder.
    pub tun: Rung,
    /// Why it is not the highest.
    pub tun_because: Option<Because>,
    /// Datagrams sent in runs.
    pub gso: Part,
    /// Datagrams received in runs.
    pub gro: Part,
    /// TCP segments given to the host in one piece.
    pub coalesce_tcp: Part,
    /// UDP datagrams given to the host in one piece.
    pub coalesce_udp: Part,
}

/// Whether something is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is.
    On,
    /// It is, but not for so many destinations, which take single datagrams for a while.
    OnBut(usize),
    /// It is not.
    Off(Because),
}

/// Why something is not in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It is switched off.
    Configured,
    /// The kernel does not know it; the number of its error.
    Unknown(i32),
    /// The kernel took it and then refused a packet in that form.
    Refused,
}

impl Allowed {
    /// Everything.
    pub const ALL: Self = Self {
        tun: Rung::Uso,
        gso: true,
        gro: true,
        coalesce: true,
    };

    /// Nothing: a packet at a time.
    pub const NONE: Self = Self {
        tun: Rung::Plain,
        gso: false,
        gro: false,
        coalesce: false,
    };
}

impl Default for Allowed {
    fn default() -> Self {
        Self::ALL
    }
}

impl Offload {
    /// What may be given to the host in one piece.
    pub(crate) const fn coalesced(&self) -> coalesce::Allowed {
        coalesce::Allowed {
            tcp: self.coalesce_tcp.is_on(),
            udp: self.coalesce_udp.is_on(),
        }
    }

    /// The host did not take this in one piece.
    pub(crate) const fn refuse(&mut self, kind: Gso) {
        match kind {
            Gso::None => {}
            Gso::TcpV4 | Gso::TcpV6 => self.coalesce_tcp = Part::Off(Because::Refused),
            Gso::Udp => self.coalesce_udp = Part::Off(Because::Refused),
        }
    }
}

impl Because {
    pub(crate) fn unknown(error: &io::Error) -> Self {
        Self::Unknown(error.raw_os_error().unwrap_or_default())
    }
}

impl Part {
    /// Whether it is in use.
    #[must_use]
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off(_))
    }
}

/// How something stands that is allowed or not, and that the kernel knows or not.
fn part(allowed: bool, known: io::Result<()>) -> Part {
    match known {
        _ if !allowed => Part::Off(Because::Configured),
        Ok(()) => Part::On,
        Err(error) => Part::Off(Because::unknown(&error)),
    }
}

/// How it stands, written by the worker and read by whoever asks.
#[derive(Debug)]
pub(crate) struct Standing {
    allowed: Allowed,
    now: Mutex<Offload>,
}

impl Standing {
    /// Takes the highest step that is allowed and that the kernel knows, in each direction.
    pub(crate) fn settle(tun: &Tun, sockets: &Sockets, allowed: Allowed) -> Self {
        let coalesce = allowed.coalesce && !tun.is_bare();
        // What the host takes in one piece is what it could give.
        let known = tun.climb(Rung::Uso);
        let (known, unknown) = match known {
            Ok(Climbed { rung, refused }) => (rung, refused),
            Err(error) => (Rung::Plain, Some(error)),
        };
        let unknown = unknown
            .as_ref()
            .map_or(Because::Configured, Because::unknown);
        let (tun, tun_because) = match tun.climb(allowed.tun.min(known)) {
            Ok(Climbed { rung, .. }) if rung == Rung::Uso => (rung, None),
            Ok(Climbed { rung, .. }) if rung == allowed.tun => (rung, Some(Because::Configured)),
            Ok(Climbed { rung, .. }) => (rung, Some(unknown)),
            Err(error) => (Rung::Plain, Some(Because::unknown(&error))),
        };
        let coalesce_udp = match part(coalesce, Ok(())) {
            Part::On if known < Rung::Uso => Part::Off(unknown),
            other => other,
        };
        let standing = Self {
            allowed,
            now: Mutex::new(Offload {
                tun,
                tun_because,
                gso: part(allowed.gso, Ok(())),
                gro: part(allowed.gro, Ok(())),
                coalesce_tcp: part(coalesce, Ok(())),
                coalesce_udp,
            }),
        };
        standing.meet(sockets);
        standing
    }

    /// Has other sockets, of which as much is asked as of those before.
    pub(crate) fn meet(&self, sockets: &Sockets) {
        if !sockets.are_open() {
            return;
        }
        let Allowed { gso, gro, .. } = self.allowed;
        let (gso, gro) = (
            part(gso, sockets.knows_segments()),
            part(gro, sockets.set_gro(gro)),
        );
        self.change(|offload| (offload.gso, offload.gro) = (gso, gro));
    }

    pub(crate) fn read(&self) -> Offload {
        self.lock().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Offload)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Offload> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
