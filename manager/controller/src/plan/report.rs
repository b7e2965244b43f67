//! Takes what hosts and gateways reported into their status, on transitions only.

use std::sync::Arc;

use kedge_control::report::{AddressType, GatewayReport, HostReport};
use kedge_crd::{
    EdgeHostStatus,
    gateway::{DrainingBackend, InstanceKey, InstanceStatus, UnservedFrontend},
    host::{AddressKind, AgentInfo, Family, HostAddress, HostUnit, HostVip, TunnelInfo},
};

use crate::snapshot::Snapshot;

/// Puts every report into the status of its object.
pub fn take(snapshot: &mut Snapshot) {
    for (name, live) in &snapshot.live.hosts {
        if let (Some(host), Some(report)) = (snapshot.hosts.get_mut(name), &live.report) {
            let status = host_status(host.status.clone(), report);
            if host.status != status {
                Arc::make_mut(host).status = status;
            }
        }
    }
    for (name, gateway) in &mut snapshot.gateways {
        let last = std::mem::take(&mut gateway.status.instances);
        let enrolled = gateway.spec.instances.iter();
        let enrolled = enrolled.filter(|instance| !instance.identity.uid.is_empty());
        gateway.status.instances = enrolled
            .map(|instance| {
                let key = (name.clone(), instance.name.clone());
                let live = snapshot.live.gateways.get(&key);
                match live.and_then(|live| live.report.as_ref()) {
                    Some(report) => instance_status(&instance.name, report),
                    None => last
                        .iter()
                        .find(|status| status.name == instance.name)
                        .cloned()
                        .unwrap_or_else(|| InstanceStatus {
                            name: instance.name.clone(),
                            ..InstanceStatus::default()
                        }),
                }
            })
            .collect();
    }
}

fn host_status(last: EdgeHostStatus, report: &HostReport) -> EdgeHostStatus {
    let addresses = report.addresses.iter().map(|address| HostAddress {
        kind: match address.kind {
            AddressType::Hostname => AddressKind::Hostname,
            AddressType::ExternalIP => AddressKind::ExternalIP,
            AddressType::InternalIP => AddressKind::InternalIP,
            AddressType::ExternalDNS => AddressKind::ExternalDNS,
            AddressType::InternalDNS => AddressKind::InternalDNS,
        },
        address: clean(&address.address),
        interface: address.interface.as_deref().map(clean),
        family: address.address.parse().ok().map(Family::of),
        primary: address.primary,
        because: clean(&address.because),
    });
    let vips = report.vips.iter().map(|vip| {
        let (lb, address) = (clean(&vip.name), vip.address.to_string());
        let same =
            |old: &&HostVip| old.lb == lb && old.address == address && old.state == vip.state;
        // A reason may hold a moving number: it is taken when the state changes.
        let kept = last
            .vips
            .iter()
            .find(same)
            .filter(|old| old.since == vip.since);
        let because = kept.map_or_else(|| clean(&vip.because), |old| old.because.clone());
        HostVip {
            state: vip.state,
            since: clean(&vip.since),
            because,
            answers: vip.answers,
            lb,
            address,
        }
    });
    let vips = vips.collect();
    let tunnel = report.tunnel.as_ref().map(|tunnel| TunnelInfo {
        gateway: tunnel.gateway.as_deref().map(clean),
        last_transition: clean(&tunnel.last_transition),
    });
    let units = report
        .units
        .iter()
        .take(UNITS_AT_MOST)
        .map(|unit| HostUnit {
            name: clean(&unit.name),
            active: clean(&unit.active),
            sub: clean(&unit.sub),
        });
    EdgeHostStatus {
        addresses: addresses.collect(),
        units: units.collect(),
        agent: AgentInfo {
            version: clean(&report.version),
            boot_id: clean(&report.boot_id),
            machine_id: clean(&report.machine_id),
            config_generation: report.applied_generation,
        },
        tunnel: tunnel.unwrap_or_default(),
        vips,
        ..last
    }
}

fn instance_status(name: &str, report: &GatewayReport) -> InstanceStatus {
    let alive = report.peers.iter().filter(|peer| peer.alive);
    let mut peers_alive: Vec<String> = alive.map(|peer| clean(&peer.name)).collect();
    peers_alive.sort();
    InstanceStatus {
        name: name.to_owned(),
        version: clean(&report.version),
        boot_id: clean(&report.boot_id),
        listen_port: report.listen_port,
        config_generation: report.applied_generation,
        peers_alive,
        public_keys: keys(report),
        serves_frontends: report.unserved.is_some(),
        unserved: unserved(report),
        drains: report.draining.is_some(),
        draining: draining(report),
        tells_clients_apart: report.tells_clients_apart,
        ..InstanceStatus::default()
    }
}

/// The frontends that an instance does not serve, by name.
fn unserved(report: &GatewayReport) -> Vec<UnservedFrontend> {
    let told = report.unserved.iter().flatten().take(UNSERVED_AT_MOST);
    let told = told.map(|unserved| UnservedFrontend {
        name: clean(&unserved.frontend),
        reason: unserved.reason.as_str().to_owned(),
        message: clean(&unserved.message),
    });
    let mut told: Vec<UnservedFrontend> = told.collect();
    told.sort_by(|one, other| one.name.cmp(&other.name));
    told
}

/// The backends that an instance is leaving. How much is open there is no transition.
fn draining(report: &GatewayReport) -> Vec<DrainingBackend> {
    let told = report.draining.iter().flatten().take(UNSERVED_AT_MOST);
    let told = told.map(|draining| DrainingBackend {
        host: clean(&draining.host),
        address: draining.address,
        port: draining.port,
        busy: draining.open != Some(0),
    });
    let mut told: Vec<DrainingBackend> = told.collect();
    told.sort();
    told
}

/// The WireGuard keys of an instance: one, or the one of before and the one that follows.
fn keys(report: &GatewayReport) -> Vec<InstanceKey> {
    if report.public_key.is_empty() {
        return Vec::new();
    }
    let next = report.next_key.as_ref();
    let current = InstanceKey {
        key: clean(&report.public_key),
        not_after: next.map(|next| clean(&next.until)).unwrap_or_default(),
        ..InstanceKey::default()
    };
    let next = next.map(|next| InstanceKey {
        key: clean(&next.public_key),
        not_before: clean(&next.since),
        ..InstanceKey::default()
    });
    std::iter::once(current).chain(next).collect()
}

/// A text from elsewhere, fit for a terminal, a condition and a log: no control characters, and
/// not endless.
#[must_use]
pub fn clean(text: &str) -> String {
    let plain = text.chars().flat_map(|character| {
        let escaped = character
            .is_control()
            .then(|| character.escape_default().collect::<Vec<_>>());
        escaped.unwrap_or_else(|| vec![character])
    });
    plain.take(MAX_TEXT).collect()
}

const MAX_TEXT: usize = 300;
/// As many as the schema takes.
const UNSERVED_AT_MOST: usize = 4096;
/// More than agents ask systemd about.
const UNITS_AT_MOST: usize = 16;

#[cfg(test)]
mod tests {
    use kedge_control::report::ReportedUnit;

    use super::*;

    #[test]
    fn units_of_a_host_are_in_its_status_and_leave_it() {
        let unit = |name: &str| ReportedUnit {
            name: name.to_owned(),
            active: "activating\u{1b}".to_owned(),
            sub: "auto-restart".to_owned(),
        };
        let report = HostReport {
            units: (0..20).map(|n| unit(&format!("k3s-{n}.service"))).collect(),
            ..HostReport::default()
        };
        let status = host_status(EdgeHostStatus::default(), &report);
        assert_eq!(status.units.len(), UNITS_AT_MOST);
        let first = &status.units[0];
        assert_eq!(
            (first.name.as_str(), first.sub.as_str()),
            ("k3s-0.service", "auto-restart")
        );
        assert_eq!(first.active, "activating\\u{1b}");
        let without = host_status(status, &HostReport::default());
        assert!(without.units.is_empty());
    }
}
