//! The gateway as people see it.

use std::{collections::BTreeMap, time::SystemTime};

use kedge_control::local::{GatewayStatus, RoleInfo, Tunnel, TunnelList, TunnelState};
use kedge_host::wall;
use kedge_net::clock;
use kedge_tunnel_device::PeerStats;
use kedge_tunnel_proto::fallback::is_lane;

use crate::{hub::Hub, tenants::peers};

impl Hub {
    /// The gateway at one glance.
    pub fn status(&self) -> GatewayStatus {
        let TunnelList { items, guard, .. } = self.tunnels();
        GatewayStatus {
            role: RoleInfo {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                hostname: self
                    .live
                    .config()
                    .name
                    .as_ref()
                    .map_or_else(|| self.host.hostname.clone(), ToString::to_string),
                started: wall::rfc3339(self.started),
                uptime_seconds: self.up_since.elapsed().as_secs_f64(),
                pid: std::process::id(),
                config_generation: self.live.generation(),
                config_stale: self.live.stale().is_some(),
            },
            tunnels: items,
            guard,
            tenants: self.tenants.status(peers(&self.plan)),
            listeners: self.plane.status(),
            manager: self.link.as_ref().map(|link| link.status(self.applied())),
            drain: Some(self.draining()).filter(|drain| drain.draining),
            problems: self.problems(),
        }
    }

    /// Why hosts cannot call it.
    pub fn unready(&self) -> Option<&'static str> {
        match (&self.plan.tunnel, self.keeper.device()) {
            (None, _) => Some("no manager has given it a tunnel yet"),
            (Some(_), None) => Some("the tunnel's device is not open"),
            (Some(_), Some(_)) => self.plane.unready(),
        }
    }

    /// Every host's tunnel.
    pub fn tunnels(&self) -> TunnelList {
        let wish = self.plan.tunnel.as_ref();
        let device = self.keeper.device();
        let mut list = TunnelList {
            device: self.live.config().tunnel.interface.clone(),
            public_key: self.keys.current.to_string(),
            key_change: Some(self.tunnel_key()).filter(|key| key.next_public_key.is_some()),
            listen_port: self.live.config().tunnel.listen_port,
            problems: self.keeper.problem().cloned().into_iter().collect(),
            ..TunnelList::default()
        };
        if let Some(wish) = wish {
            list.addresses = wish.addresses.iter().map(ToString::to_string).collect();
            list.mtu = self.ways.device_mtu(&self.plan).unwrap_or(wish.mtu);
        }
        if let Some(device) = device {
            device.device_stats().tell(&mut list);
            let stats = device.stats();
            list.items = stats.into_iter().map(|peer| self.tunnel(peer)).collect();
        }
        list
    }

    fn tunnel(&self, peer: PeerStats) -> Tunnel {
        let host = self.hosts.get(&peer.name);
        let spec = self
            .plan
            .tunnel
            .as_ref()
            .and_then(|wish| wish.peers.iter().find(|spec| spec.name == peer.name));
        let age = |at: SystemTime| SystemTime::now().duration_since(at).ok();
        let state = match host {
            Some(host) if host.alive => TunnelState::Up,
            Some(host) if host.seen => TunnelState::Down,
            _ => TunnelState::Connecting,
        };
        let silence = peer
            .last_authenticated_data
            .map(|at| clock::now().since(at))
            .filter(|_| state == TunnelState::Down);
        let because = host.map(|host| host.because.clone()).unwrap_or_default();
        let place = peer.endpoint.filter(|at| is_lane(*at));
        let caller = place.and_then(|place| self.fallback.caller(place));
        Tunnel {
            path_mtu: self.ways.view(&peer.name),
            name: peer.name,
            source: "manager".to_owned(),
            state,
            because: match silence {
                Some(silence) => format!("{because} ({:.0} s by now)", silence.as_secs_f64()),
                None => because,
            },
            since: host
                .map(|host| wall::rfc3339(host.since))
                .unwrap_or_default(),
            path: match self.live.config().tunnel.other_port {
                _ if place.is_some() => "tls".to_owned(),
                Some(port) if peer.by_other => format!("udp/{port}"),
                _ => "udp".to_owned(),
            },
            public_key: peer.public_key.to_string(),
            endpoint: match place {
                Some(_) => caller.map(|at| at.to_string()),
                None => peer.endpoint.map(|at| at.to_string()),
            },
            fallback: None,
            tls_endpoint: None,
            allowed_ips: spec
                .iter()
                .flat_map(|spec| spec.allowed_ips.iter().map(ToString::to_string))
                .collect(),
            last_handshake: peer.last_handshake.map(wall::rfc3339),
            handshake_age_seconds: peer
                .last_handshake
                .and_then(age)
                .map(|age| age.as_secs_f64()),
            rx_bytes: peer.rx_bytes,
            tx_bytes: peer.tx_bytes,
            drops: peer
                .drops
                .iter()
                .map(|(reason, count)| (reason.label().to_owned(), *count))
                .collect(),
            offload: BTreeMap::new(),
            echo: None,
            gateway: spec.and_then(|spec| self.place_of(&spec.allowed_ips)),
        }
    }
}
