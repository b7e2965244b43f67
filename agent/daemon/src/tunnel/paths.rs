//! The paths to gateways and to the other hosts of a mesh, as people see them.

use std::time::SystemTime;

use kedge_control::local::{PathList, TunnelPath};
use kedge_core::Instant;
use kedge_host::wall;
use kedge_net::clock;
use kedge_tunnel_proto::direct::{Because, Path, Refusal, View};

use super::{Tunnel, gateways::Gateways, mesh::Mesh};
use crate::desired::{Neighbor, Source};

impl Tunnel {
    /// Every path, and why it is that one.
    pub fn paths(&self) -> PathList {
        let mut list = PathList::default();
        self.add_gateways(&mut list);
        if let Some(mesh) = &self.mesh {
            self.add_hosts(mesh, &mut list);
        }
        list.items.sort_by(|a, b| a.name.cmp(&b.name));
        list
    }

    fn add_gateways(&self, list: &mut PathList) {
        let seen = self.mesh.as_ref().map(|mesh| mesh.standing().seen);
        let peers = self.wish.iter().flat_map(|wish| &wish.peers);
        let stats = self.keeper.device().map(|device| device.stats());
        for peer in peers.filter(|peer| peer.echo.is_some()) {
            let stats = stats.iter().flatten().find(|it| it.name == peer.name);
            let life = self.peers.get(&peer.name);
            let report = life.and_then(|life| life.report);
            let role = self.gateways.as_ref().and_then(|it| it.view(&peer.name));
            let fallback = self.fallbacks.view(&peer.name);
            let because = match (&role, life) {
                (Some(role), _) => role.because.clone(),
                (None, Some(life)) => life.because.clone(),
                (None, None) => String::new(),
            };
            let at = seen.as_ref().and_then(|seen| seen.get(&peer.name));
            list.items.push(TunnelPath {
                name: peer.name.clone(),
                path: super::fallback::path(fallback.as_ref()),
                endpoint: match &fallback {
                    Some(fallback) => Some(fallback.endpoint.clone()),
                    None => stats.and_then(|it| it.endpoint).map(|at| at.to_string()),
                },
                gateway_rtt_seconds: report.and_then(|it| it.rtt).map(|it| it.as_secs_f64()),
                reason: role
                    .map_or("only", |it| if it.active { "active" } else { "standby" })
                    .to_owned(),
                because,
                since: life
                    .map(|life| wall::rfc3339(life.since))
                    .unwrap_or_default(),
                seen_at: at.map(ToString::to_string),
                fallback,
                ..TunnelPath::default()
            });
        }
    }

    fn add_hosts(&self, mesh: &Mesh, list: &mut PathList) {
        let standing = mesh.standing();
        list.nat = standing.nat.to_string();
        let active = self.active_gateway();
        for neighbor in &mesh.wish.peers {
            let view = standing.peers.get(&neighbor.name);
            list.items.push(host(neighbor, view, active));
        }
    }

    /// The gateway that packets for other hosts go through.
    pub(super) fn active_gateway(&self) -> Option<&str> {
        let active = self.gateways.as_ref().and_then(Gateways::active);
        let peers = self.wish.iter().flat_map(|wish| &wish.peers);
        // A data plane without several gateways has the first.
        let managed = peers.filter(|it| it.source == Source::Manager);
        active.or_else(|| managed.map(|it| it.name.as_str()).min())
    }
}

fn host(neighbor: &Neighbor, view: Option<&View>, active: Option<&str>) -> TunnelPath {
    let name = neighbor.name.clone();
    let Some(view) = view else {
        let because = Because::Refused(Refusal::Limit);
        return TunnelPath {
            name,
            path: "gateway".to_owned(),
            through: active.map(str::to_owned),
            reason: because.label().to_owned(),
            because: because.to_string(),
            ..TunnelPath::default()
        };
    };
    let direct = view.path == Path::Direct;
    TunnelPath {
        name,
        path: if direct { "direct" } else { "gateway" }.to_owned(),
        through: active.filter(|_| !direct).map(str::to_owned),
        endpoint: view.at.map(|at| at.to_string()),
        direct_rtt_seconds: view.direct_rtt.map(|it| it.as_secs_f64()),
        gateway_rtt_seconds: view.gateway_rtt.map(|it| it.as_secs_f64()),
        nat: Some(view.nat.to_string()),
        reason: view.because.label().to_owned(),
        because: view.because.to_string(),
        since: since(view.since),
        seen_at: None,
        fallback: None,
        candidates: view.called.iter().map(ToString::to_string).collect(),
    }
}

fn since(at: Instant) -> String {
    wall::rfc3339(SystemTime::now() - clock::now().since(at))
}
