//! What a TUN device takes and gives in one piece: super packets of TCP (TSO) and UDP (USO), which
//! whoever reads them splits.
//!
//! Kernels differ in what they know, so there is a ladder, and every step down is always possible.

use std::{fmt, io, os::fd::AsFd as _};

use super::Tun;
use crate::sys;

/// A step of the ladder. The higher one is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// Packets as they are, with their checksums.
    Plain,
    /// Super packets of TCP.
    Tso,
    /// And of UDP: Linux 6.2 and later.
    Uso,
    /// And of TCP inside UDP, such as VXLAN's: Linux 6.17 and later.
    UsoTunnel,
}

/// How far the kernel went along.
#[derive(Debug)]
pub struct Climbed {
    /// The step it took.
    pub rung: Rung,
    /// What it said to the step above.
    pub refused: Option<io::Error>,
}

impl Rung {
    /// Every step, the highest first.
    pub const LADDER: [Self; 4] = [Self::UsoTunnel, Self::Uso, Self::Tso, Self::Plain];

    /// The highest.
    pub const TOP: Self = Self::UsoTunnel;

    /// What the kernel is asked for: it refuses TSO without checksums, and either USO alone.
    const fn bits(self) -> libc::c_uint {
        match self {
            Self::Plain => 0,
            Self::Tso => TSO,
            Self::Uso => USO,
            Self::UsoTunnel => USO | UDP_TUNNEL_GSO,
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Tso => "tun+tso",
            Self::Uso => "tun+uso",
            Self::UsoTunnel => "tun+usotnl",
        })
    }
}

impl Tun {
    /// Takes the highest step that is at most `highest` and that the kernel knows. It may be called
    /// at any time; what waits to be read keeps its form.
    ///
    /// # Errors
    ///
    /// The kernel refuses even plain packets.
    pub fn climb(&self, highest: Rung) -> io::Result<Climbed> {
        if self.bare {
            return Ok(Climbed {
                rung: Rung::Plain,
                refused: None,
            });
        }
        let mut refused = None;
        let steps = Rung::LADDER.into_iter().filter(|rung| *rung <= highest);
        for rung in steps {
            match sys::tun::set_offload(self.fd.as_fd(), rung.bits()) {
                Ok(()) => return Ok(Climbed { rung, refused }),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
    }
}

const TSO: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
const USO: libc::c_uint = TSO | libc::TUN_F_USO4 | libc::TUN_F_USO6;
/// `TUN_F_UDP_TUNNEL_GSO`, which no headers have yet. Of outer checksums (0x100) the kernel keeps the
/// computing: few tunnels have them.
const UDP_TUNNEL_GSO: libc::c_uint = 0x80;
