//! Who serves right now.

use jiff::Timestamp;
use kedge_core::vip::RouterState;
use kedge_crd::{balancer::Mode, host::HostVip};

use super::{
    Service,
    config::{peer_name, vip_name},
    targets::Target,
};
use crate::{snapshot::Snapshot, store::Name};

/// The host that holds a VIP: of those that are heard and say they are Active, the latest.
#[must_use]
pub fn holder(snapshot: &Snapshot, service: &Service) -> Option<Name> {
    let serving = service.targets.iter().filter_map(Target::serving);
    let active = serving
        .filter(|name| snapshot.is_alive(name))
        .filter_map(|name| {
            let vip = vip_of(snapshot, service, name)?;
            let since = vip.since.parse::<Timestamp>().ok();
            (vip.state == RouterState::Active).then_some((since, name))
        });
    active.max().map(|(_, name)| name.clone())
}

/// Whether the server behind a VIP answers its health probe on that host, by the host's word.
#[must_use]
pub fn answers(snapshot: &Snapshot, service: &Service, name: &Name) -> Option<bool> {
    vip_of(snapshot, service, name)?.answers
}

/// Whether a target takes traffic.
#[must_use]
pub fn is_serving(snapshot: &Snapshot, service: &Service, target: &Target) -> bool {
    let host = target.serving();
    host.is_some_and(|name| serves(snapshot, service, name))
}

/// Whether the host's tunnel carries data, by its own word or a gateway's.
#[must_use]
pub fn tunnel_is_up(snapshot: &Snapshot, name: &Name) -> bool {
    let by_host = snapshot
        .hosts
        .get(name)
        .is_some_and(|host| host.status.tunnel.gateway.is_some());
    let peer = peer_name(name);
    let faces = snapshot.faces.values().map(|face| &face.gateway);
    let gateways = snapshot.gateways.values().chain(faces);
    let instances = gateways.flat_map(|gateway| &gateway.status.instances);
    let by_gateway = instances
        .into_iter()
        .any(|instance| instance.peers_alive.contains(&peer));
    snapshot.is_alive(name) && (by_host || by_gateway)
}

fn serves(snapshot: &Snapshot, service: &Service, name: &Name) -> bool {
    match service.balancer.spec.mode {
        Some(Mode::Vip) => {
            let state = vip_of(snapshot, service, name).map(|vip| vip.state);
            let takes_part = matches!(
                state,
                Some(RouterState::Active | RouterState::Backup | RouterState::Releasing)
            );
            snapshot.is_alive(name) && takes_part
        }
        Some(Mode::Tunnel) => tunnel_is_up(snapshot, name),
        Some(Mode::HostAddress) | None => snapshot.is_alive(name),
    }
}

fn vip_of<'a>(snapshot: &'a Snapshot, service: &Service, name: &Name) -> Option<&'a HostVip> {
    let lb = vip_name(&service.balancer.name);
    let host = snapshot.hosts.get(name)?;
    host.status.vips.iter().find(|vip| vip.lb == lb)
}
