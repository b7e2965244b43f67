//! The agent as people and the manager see it.

use std::time::Duration;

use kedge_control::{
    local::{ActivePeer, AgentStatus, RoleInfo, TrackStatus, TunnelList, Vip, VipList},
    report::{HostReport, MAX_ITEMS, ReportedAddress, ReportedVip},
};
use kedge_core::{Problem, vip::RouterState};
use kedge_host::wall;
use kedge_net::{clock, monitor::MacText};
use kedge_vip_speaker::VipSnapshot;

use crate::{
    agent::Agent,
    desired::{Source, Vip as Wanted},
    orders, report,
    tunnel::Tunnel,
};

impl Agent {
    /// The agent at one glance.
    pub fn status(&self) -> AgentStatus {
        let list = self.tunnel.as_ref().map(Tunnel::list);
        let TunnelList { items, guard, .. } = list.unwrap_or_default();
        AgentStatus {
            role: RoleInfo {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                hostname: self.hostname().to_owned(),
                started: wall::rfc3339(self.started),
                uptime_seconds: self.up_since.elapsed().as_secs_f64(),
                pid: std::process::id(),
                config_generation: self.live.generation(),
                config_stale: self.live.stale().is_some(),
            },
            drained_since: self.orders.drained_since(),
            inhibitor: self.power.status(),
            vips: self.vips().items,
            anycast: self.anycast(),
            health: self.gates.status(),
            bfd: self.bfd.list().items,
            bgp: self.announcing.neighbors.list(),
            tunnels: items,
            guard,
            shortcuts: self.shortcuts.status(),
            peer_links: self.peers.status(),
            manager: self.link.as_ref().map(|link| link.status(self.applied())),
            addresses: self.addresses(),
            problems: self.problems(),
        }
    }

    /// Every VIP.
    pub fn vips(&self) -> VipList {
        let snapshot = self.speaker.snapshot();
        VipList {
            items: snapshot.iter().map(|vip| self.described(vip)).collect(),
            anycast: self.anycast(),
        }
    }

    /// A VIP as people see it, with what was ordered of it.
    pub fn described(&self, vip: &VipSnapshot) -> Vip {
        let wanted = self.desired.vip(&vip.name);
        let mut described = describe(vip, wanted, self.tracks.of(&vip.name));
        described.frozen = self.orders.frozen(vip.name.as_str());
        described.problems.extend(self.frozen(vip));
        described
    }

    fn frozen(&self, vip: &VipSnapshot) -> Option<Problem> {
        let frozen = self.orders.frozen(vip.name.as_str())?;
        Some(orders::frozen(&vip.name, &frozen, vip.ordered.pinned))
    }

    /// Everything that is wrong, VIPs first.
    pub fn problems(&self) -> Vec<Problem> {
        let snapshot = self.speaker.snapshot();
        let vips = snapshot
            .iter()
            .flat_map(|vip| vip.problems.iter().cloned().chain(self.frozen(vip)));
        let link = self
            .link
            .as_ref()
            .map(|link| link.standing().borrow().problems.clone());
        // The link needs the tunnel's key as well: what is wrong with it is told once.
        let start = self.link_problems.iter();
        let start = start.filter(|problem| self.key_problem.as_ref() != Some(problem));
        vips.chain(self.live.stale().cloned())
            .chain(self.standing.iter().cloned())
            .chain(self.key_problem.clone())
            .chain(self.key_change_problem())
            .chain(start.cloned())
            .chain(self.facts.problem.clone())
            .chain(self.desired.problems.iter().cloned())
            .chain(self.tunnel.iter().flat_map(|tunnel| tunnel.problems()))
            .chain(link.into_iter().flatten())
            .chain(self.shortcuts.problems())
            .chain(self.dns.problem())
            .chain(self.gates.problems())
            .chain(self.tracks.problems())
            .chain(self.bfd.problems())
            .chain(self.announcing.problems())
            .chain(self.claims.saver.problem())
            .chain(self.speaker.guardian_problem().map(|it| (*it).clone()))
            .chain(self.peers.problems())
            .chain(self.orders.problems())
            .chain(self.history.problems())
            .collect()
    }

    /// The line the service manager shows.
    pub fn line(&self) -> String {
        let snapshot = self.speaker.snapshot();
        let mut parts: Vec<String> = snapshot
            .iter()
            .map(|vip| format!("{} {}", vip.name, vip.state))
            .collect();
        if parts.is_empty() {
            parts.push("no VIP".to_owned());
        }
        if self.orders.drained_since().is_some() {
            parts.push("drained".to_owned());
        }
        if let Some((up, of)) = self
            .tunnel
            .as_ref()
            .map(|tunnel| tunnel.up())
            .filter(|t| t.1 > 0)
        {
            parts.push(format!("{up} of {of} tunnels up"));
        }
        if let Some(link) = &self.link {
            let connected = link.standing().borrow().connected;
            parts.push(
                if connected {
                    "manager connected"
                } else {
                    "manager not connected"
                }
                .to_owned(),
            );
        }
        match self.problems().len() {
            0 => {}
            1 => parts.push("1 problem".to_owned()),
            problems => parts.push(format!("{problems} problems")),
        }
        parts.join(", ")
    }

    /// Says to the manager what it does not know yet.
    pub fn report(&self) {
        let Some(link) = &self.link else { return };
        let facts = &self.host;
        let vips = self.speaker.snapshot();
        let device = self
            .tunnel
            .as_ref()
            .and_then(|tunnel| tunnel.device_problem());
        link.report(HostReport {
            boot_id: facts.boot_id.clone(),
            machine_id: facts.machine_id.clone(),
            version: facts.version.clone(),
            applied_generation: self.applied(),
            addresses: self.addresses(),
            vips: vips
                .iter()
                .filter_map(|vip| reported(vip, self.gates.answers(&vip.name)))
                .collect(),
            tunnel: self.tunnel.as_ref().map(|tunnel| tunnel.report()),
            units: self.units.reported(),
            problems: self
                .desired
                .problems
                .iter()
                .chain(device)
                .take(MAX_ITEMS)
                .cloned()
                .collect(),
        });
    }

    fn addresses(&self) -> Vec<ReportedAddress> {
        let specs = self.desired.vips.iter().map(|vip| &vip.spec);
        let elected = specs.flat_map(|spec| spec.addresses.iter().chain(&spec.excluded));
        let anycast = self.desired.anycast.iter().flat_map(|vip| &vip.addresses);
        let vips: Vec<std::net::IpAddr> = elected.chain(anycast).copied().collect();
        let rules = report::Rules {
            config: Some(&self.live.config().report),
            hostname: self.hostname(),
            vips: &vips,
            tunnel: &self.live.config().tunnel.interface,
        };
        report::build(&self.facts, &rules)
    }
}

/// A VIP as people see it.
pub(crate) fn describe(
    vip: &VipSnapshot,
    wanted: Option<&Wanted>,
    tracks: Vec<TrackStatus>,
) -> Vip {
    let now = clock::now();
    let priority_because = match wanted {
        Some(wanted) if vip.priority == vip.base_priority => wanted.priority_because.clone(),
        _ => vip.priority_because.clone(),
    };
    Vip {
        name: vip.name.to_string(),
        addresses: vip.addresses_with_prefix(),
        source: wanted
            .map_or(Source::Local, |wanted| wanted.source)
            .to_string(),
        state: vip.state,
        since: wall::rfc3339_micros(vip.since),
        state_seconds: now.since(vip.since_boottime).as_secs_f64(),
        because: vip.because.clone(),
        interface: vip.interface.as_ref().map(|chosen| chosen.name.clone()),
        interface_because: vip.interface_because.clone(),
        sync_group: vip.sync_group.as_ref().map(ToString::to_string),
        leader: vip.leader.as_ref().map(ToString::to_string),
        vrid: vip.vrid.get(),
        vrid_because: wanted.map_or_else(|| vip.vrid_because.clone(), |w| w.vrid_because.clone()),
        priority: vip.priority.get(),
        base_priority: vip.base_priority.get(),
        priority_because,
        advert_interval_seconds: vip.interval.duration().as_secs_f64(),
        active_down_seconds: vip.active_down.as_secs_f64(),
        active: vip.active.map(|peer| ActivePeer {
            address: peer.address,
            mac: Some(MacText(peer.mac).to_string()),
            priority: peer.priority.get(),
            last_heard_seconds: now.since(peer.heard_at).as_secs_f64(),
        }),
        tracks,
        duplicates: vip
            .duplicates
            .iter()
            .map(|seen| {
                format!(
                    "{} claimed {} by ARP, {} times, last at {}",
                    MacText(seen.mac),
                    seen.address,
                    seen.claims,
                    wall::rfc3339(seen.last)
                )
            })
            .collect(),
        fence_seconds: vip.fence.map(|lasts| lasts.as_secs_f64()),
        frozen: None,
        problems: vip.problems.clone(),
    }
}

fn reported(vip: &VipSnapshot, answers: Option<bool>) -> Option<ReportedVip> {
    Some(ReportedVip {
        name: vip.name.to_string(),
        address: *vip.addresses.first()?,
        state: vip.state,
        since: wall::rfc3339(vip.since),
        because: vip.because.clone(),
        answers,
    })
}

/// A duration as people read it.
pub(crate) fn spoken(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", span.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Whether the host that says so holds the VIP.
pub(crate) const fn holds(state: RouterState) -> bool {
    matches!(state, RouterState::Active | RouterState::Releasing)
}
