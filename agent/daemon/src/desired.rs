//! What this host must do: its own configuration and the manager's wishes, brought together by
//! name and held within the host's bounds. No I/O.

mod anycast;
mod mesh;
mod shortcuts;
mod tunnel;
mod vips;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kedge_control::agent::HostConfig;
use kedge_core::{Name, Problem, vip::Vrid};
use kedge_vip_speaker::VipSpec;

pub(crate) use self::{
    anycast::Anycast,
    mesh::{MeshWish, Neighbor},
    shortcuts::{ShortcutWish, unanswered},
    tunnel::{FailoverWish, Peer, TunnelWish},
};
use crate::{
    config::{AgentConfig, Announced, ProbeConfig, TrackConfig},
    facts::Facts,
    secrets::Secrets,
};

/// Who wants something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// This host's configuration.
    Local,
    /// The manager.
    Manager,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Manager => "manager",
        })
    }
}

/// The (interface, VRID) pairs this host has held: there nobody else is asked before a claim.
pub(crate) type Claimed = BTreeSet<(String, Vrid)>;

/// What this host must do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Desired {
    /// The VIPs, by name.
    pub vips: Vec<Vip>,
    /// The VIPs that every healthy host has, by name.
    pub anycast: Vec<Anycast>,
    /// The tunnel; `None` while nobody wants one.
    pub tunnel: Option<TunnelWish>,
    /// Endpoints at a gateway that this host answers for while no gateway is reached.
    pub shortcuts: Vec<ShortcutWish>,
    /// What is not done, and why; and what is done though something is wrong with it.
    pub problems: Vec<Problem>,
}

/// A VIP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Vip {
    /// Who wants it.
    pub source: Source,
    /// What the speaker is told.
    pub spec: VipSpec,
    /// The health gate.
    pub health: Option<ProbeConfig>,
    /// What is tracked, by name.
    pub tracks: BTreeMap<Name, TrackConfig>,
    /// What routers are told of it; `None`: nothing.
    pub announced: Option<Announced>,
    /// Where the VRID comes from.
    pub vrid_because: String,
    /// Where the base priority comes from.
    pub priority_because: String,
}

impl Desired {
    /// Whether a VIP is held by every host that one host held `before`, or the other way round: what was
    /// said of its health was said to somebody else.
    pub fn has_other_kinds(&self, before: &Self) -> bool {
        let both = |one: &Self, other: &Self| {
            let mut anycast = one.anycast.iter();
            anycast.any(|vip| other.vip(&vip.name).is_some())
        };
        both(self, before) || both(before, self)
    }

    /// The health probes, by VIP.
    pub fn probes(&self) -> BTreeMap<Name, ProbeConfig> {
        let elected = self.vips.iter().map(|vip| (&vip.spec.name, &vip.health));
        let anycast = self.anycast.iter().map(|vip| (&vip.name, &vip.health));
        let all = elected.chain(anycast);
        all.filter_map(|(name, probe)| Some((name.clone(), probe.clone()?)))
            .collect()
    }

    /// What is tracked, by VIP.
    pub fn tracked(&self) -> BTreeMap<Name, BTreeMap<Name, TrackConfig>> {
        let elected = self.vips.iter().map(|vip| (&vip.spec.name, &vip.tracks));
        let anycast = self.anycast.iter().map(|vip| (&vip.name, &vip.tracks));
        let all = elected.chain(anycast).filter(|(_, of)| !of.is_empty());
        all.map(|(name, of)| (name.clone(), of.clone())).collect()
    }

    /// The VIP of that name.
    pub fn vip(&self, name: &Name) -> Option<&Vip> {
        self.vips.iter().find(|vip| vip.spec.name == *name)
    }
}

/// Brings the configuration and the manager's wishes together.
///
/// A name both use belongs to the host's configuration. What of the manager's does not fit (an
/// address or VRID that is taken, a prefix outside the host's bounds) is left out and told; the
/// rest is done.
pub(crate) fn plan(
    config: &AgentConfig,
    manager: Option<&HostConfig>,
    facts: &Facts,
    claimed: &Claimed,
    secrets: &Secrets,
) -> Desired {
    let mut problems = secrets.exposed().to_vec();
    let wishes = manager.map_or(&[][..], |manager| manager.vips.as_slice());
    let vips = vips::plan(config, wishes, facts, claimed, secrets, &mut problems);
    let anycast = anycast::plan(config, facts, &vips, &mut problems);
    let wish = manager.and_then(|manager| manager.tunnel.as_ref());
    let mesh = manager.and_then(|manager| manager.mesh.as_ref());
    let mut tunnel = tunnel::plan(&config.tunnel, wish, mesh.is_some(), &mut problems);
    if let Some((wish, tunnel)) = mesh.zip(tunnel.as_mut()) {
        let mesh = mesh::plan(&config.tunnel, wish, tunnel, facts, &mut problems);
        tunnel.mesh = Some(mesh);
    }
    let shortcuts = shortcuts::plan(manager, facts, &mut problems);
    Desired {
        vips,
        anycast,
        tunnel,
        shortcuts,
        problems,
    }
}

#[cfg(test)]
mod tests;
