//! What is left to the kernel, in each direction: what may be, and how it stands.
//!
//! ```text
//!            out                                            in
//!   host     tun: usotnl > uso > tso > plain (split)        coalesce: tcp, udp
//!   network  gso: runs (UDP_SEGMENT)                        gro: runs (UDP_GRO)
//! ```

use std::{
    fmt, io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use kedge_net::{
    tun::{Climbed, Interface, Rung, Tun},
    udp::Sockets,
};
use kedge_tunnel_proto::packet::{coalesce, vnet::Gso};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::workers::Workers;

/// A switch of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// As far as the kernel goes along.
    #[default]
    Auto,
    /// Not at all.
    Off,
}

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
        tun: Rung::TOP,
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

impl Allowed {
    /// What the configuration allows: in both directions, out, and in.
    #[must_use]
    pub fn switched(both: Switch, send: Switch, receive: Switch) -> Self {
        let on = |one| both == Switch::Auto && one == Switch::Auto;
        let (out, inward) = (on(send), on(receive));
        Self {
            tun: if out { Rung::TOP } else { Rung::Plain },
            gso: out,
            gro: inward,
            coalesce: inward,
        }
    }
}

impl Default for Allowed {
    fn default() -> Self {
        Self::ALL
    }
}

impl Offload {
    /// Each part: its name, how it stands, and why it is not all it could be.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, String, Option<String>); 5] {
        let part = |name, part: Part| match part {
            Part::On => (name, "on".to_owned(), None),
            Part::OnBut(many) => {
                let because = format!("the kernel refused it for {many} destinations, tried again");
                (name, "on".to_owned(), Some(because))
            }
            Part::Off(because) => (name, "off".to_owned(), Some(because.to_string())),
        };
        let because = self.tun_because.map(|because| because.to_string());
        [
            ("tun", self.tun.to_string(), because),
            part("udp_gso", self.gso),
            part("udp_gro", self.gro),
            part("coalesce_tcp", self.coalesce_tcp),
            part("coalesce_udp", self.coalesce_udp),
        ]
    }

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

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("switched off by the configuration"),
            Self::Unknown(0) => f.write_str("the kernel does not know it"),
            Self::Unknown(number) => {
                let error = io::Error::from_raw_os_error(*number);
                write!(f, "the kernel does not know it: {error}")
            }
            Self::Refused => f.write_str("the kernel refused a packet in that form"),
        }
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
    /// How many destinations each worker knows that take no runs.
    refused: Mutex<[usize; Workers::MOST as usize]>,
}

impl Standing {
    /// Takes the highest step that is allowed and that the kernel knows, in each direction.
    pub(crate) fn settle<'a>(
        tun: &Tun,
        sockets: impl IntoIterator<Item = &'a Sockets>,
        allowed: Allowed,
    ) -> Self {
        let coalesce = allowed.coalesce && !tun.is_bare();
        // What the host takes in one piece is what it could give.
        let known = tun.climb(Rung::TOP);
        let (known, unknown) = match known {
            Ok(Climbed { rung, refused }) => (rung, refused),
            Err(error) => (Rung::Plain, Some(error)),
        };
        let unknown = unknown
            .as_ref()
            .map_or(Because::Configured, Because::unknown);
        let (tun, tun_because) = match tun.climb(allowed.tun.min(known)) {
            Ok(Climbed { rung, .. }) if rung == Rung::TOP => (rung, None),
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
            refused: Mutex::default(),
        };
        for sockets in sockets {
            standing.meet(sockets);
        }
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

    /// So many destinations of a worker take no runs; what is told is the sum of all workers'.
    pub(crate) fn refused(&self, worker: u8, destinations: usize) {
        let mut all = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = all.get_mut(usize::from(worker)) {
            *place = destinations;
        }
        let sum: usize = all.iter().sum();
        self.change(|offload| match (offload.gso, sum) {
            (Part::Off(_), _) => {}
            (_, 0) => offload.gso = Part::On,
            (_, many) => offload.gso = Part::OnBut(many),
        });
    }

    /// Has the interface take super packets of any size where they may be inside datagrams.
    pub(crate) fn fit(&self, interface: &mut Interface) {
        if self.lock().tun >= Rung::UsoTunnel {
            interface.take_any_size();
        }
    }

    /// Has another interface, of which as much is asked as of the first.
    pub(crate) fn join(&self, tun: &Tun, interface: &mut Interface) {
        // What it refuses it gives in smaller pieces, each with its form.
        let _ = tun.climb(self.read().tun);
        self.fit(interface);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_switch_turns_off_its_direction_and_the_first_one_both() {
        use Switch::{Auto, Off};
        let out = Allowed {
            tun: Rung::TOP,
            gso: true,
            ..Allowed::NONE
        };
        let inward = Allowed {
            gro: true,
            coalesce: true,
            ..Allowed::NONE
        };
        for (both, send, receive, allowed) in [
            (Auto, Auto, Auto, Allowed::ALL),
            (Auto, Auto, Off, out),
            (Auto, Off, Auto, inward),
            (Auto, Off, Off, Allowed::NONE),
            (Off, Auto, Auto, Allowed::NONE),
        ] {
            assert_eq!(Allowed::switched(both, send, receive), allowed);
        }
    }

    #[test]
    fn destinations_that_take_no_runs_are_told_of_all_workers() {
        let standing = |gso| Standing {
            allowed: Allowed::ALL,
            now: Mutex::new(Offload {
                tun: Rung::Uso,
                tun_because: None,
                gso,
                gro: Part::On,
                coalesce_tcp: Part::On,
                coalesce_udp: Part::On,
            }),
            refused: Mutex::default(),
        };
        let on = standing(Part::On);
        for (worker, destinations, told) in [
            (0, 2, Part::OnBut(2)),
            (3, 1, Part::OnBut(3)),
            (0, 0, Part::OnBut(1)),
            (3, 0, Part::On),
        ] {
            on.refused(worker, destinations);
            assert_eq!(on.read().gso, told);
        }
        let off = standing(Part::Off(Because::Configured));
        off.refused(0, 1);
        assert_eq!(off.read().gso, Part::Off(Because::Configured));
    }

    #[test]
    fn every_part_is_told_with_its_reason() {
        let mut offload = Offload {
            tun: Rung::Tso,
            tun_because: Some(Because::Unknown(22)),
            gso: Part::OnBut(3),
            gro: Part::Off(Because::Configured),
            coalesce_tcp: Part::On,
            coalesce_udp: Part::On,
        };
        offload.refuse(Gso::Udp);
        let told = offload.parts().map(|(name, state, because)| {
            let because = because.unwrap_or_default();
            format!("{name} {state} {because}")
        });
        assert_eq!(
            told,
            [
                "tun tun+tso the kernel does not know it: Invalid argument (os error 22)",
                "udp_gso on the kernel refused it for 3 destinations, tried again",
                "udp_gro off switched off by the configuration",
                "coalesce_tcp on ",
                "coalesce_udp off the kernel refused a packet in that form",
            ]
        );
        assert_eq!(
            offload.coalesced(),
            coalesce::Allowed {
                tcp: true,
                udp: false
            }
        );
    }
}
