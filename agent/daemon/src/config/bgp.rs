//! What the configuration says of BGP.

use std::{collections::BTreeSet, path::PathBuf};

use kedge_core::Name;
use kedge_vip_speaker::bgp::{AoAlgorithm, BgpSpec, Offer};

/// BGP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BgpConfig {
    /// Who speaks.
    pub mode: BgpMode,
    /// The neighbours, by name.
    pub neighbors: Vec<NeighborConfig>,
}

/// Who speaks BGP for this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BgpMode {
    /// The agent.
    Own,
    /// Another daemon, which takes the routes from this table of the kernel.
    Table(u32),
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighborConfig {
    /// What the speaker is asked for, but for its password.
    pub spec: BgpSpec,
    /// The file with its password.
    pub password_file: Option<PathBuf>,
    /// What its key of TCP-AO is, but for the key.
    pub tcp_ao: Option<AoConfig>,
    /// The BFD session that it follows.
    pub bfd: Option<Name>,
}

/// A key of TCP-AO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AoConfig {
    /// The file with it.
    pub file: PathBuf,
    /// Its numbers: that of segments that are sent, that of those that come.
    pub ids: [u8; 2],
    /// How segments are signed.
    pub algorithm: AoAlgorithm,
}

/// How the network learns where a VIP is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// One host holds it, by VRRP.
    #[default]
    Vrrp,
    /// One host holds it, and routers are told which.
    VrrpAndBgp,
    /// Every healthy host has it, and routers are told of all of them.
    Bgp,
}

impl Via {
    /// Whether routers are told of it.
    #[must_use]
    pub const fn is_told(self) -> bool {
        matches!(self, Self::VrrpAndBgp | Self::Bgp)
    }
}

/// What routers are told of a VIP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// What is said of its routes.
    pub offer: Offer,
    /// Who is told; `None`: every neighbour.
    pub neighbors: Option<BTreeSet<Name>>,
}
