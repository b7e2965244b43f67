//! Documents as roles send them.

mod bfd;
mod bgp;
mod lb;
mod operate;
mod paths;
mod shortcuts;

use std::collections::BTreeMap;

use kedge_control::{
    local::{
        ActivePeer, AgentStatus, DataPlane, EchoStatus, Ending, FleetCondition, FleetEndpoint,
        FleetEndpointList, FleetHost, FleetHostList, GatewayStatus, HealthStatus, Inhibitor,
        ListenerStatus, ManagerLink, ManagerStatus, MemberStatus, OffloadPart, PathMtu, PeerLink,
        RejectedInterface, RoleInfo, TokenList, TokenSummary, TrackStatus, Transition, Tunnel,
        TunnelList, TunnelState, Vip, VipExplanation,
    },
    report::{AddressType, ReportedAddress},
};
use kedge_core::{Code, Fix, Problem, vip::RouterState};

pub(super) use self::bfd::sessions;
pub(super) use self::bgp::{neighbors, routes, told};
pub(super) use self::lb::load_balancers;
pub(super) use self::operate::{drained, history, release, restarted, scan, timeline, upgraded};
pub(super) use self::paths::paths;
pub(super) use self::shortcuts::shortcuts;

pub(crate) fn role() -> RoleInfo {
    RoleInfo {
        version: "0.1.0".into(),
        hostname: "edge-a".into(),
        started: "2026-11-20T10:00:00Z".into(),
        uptime_seconds: 2_685_700.0,
        pid: 1234,
        config_generation: 41,
        config_stale: false,
    }
}

pub(crate) fn active_vip() -> Vip {
    Vip {
        name: "api".into(),
        addresses: vec!["10.20.14.10/24".into()],
        source: "local".into(),
        state: RouterState::Active,
        since: "2026-11-20T10:00:03.123456Z".into(),
        state_seconds: 1_051_200.0,
        because: "edge-b fell silent and priority 254 was the highest left".into(),
        interface: Some("eth0".into()),
        interface_because: "eth0 has 10.20.14.11/24, which contains the VIP".into(),
        sync_group: None,
        leader: None,
        vrid: 252,
        vrid_because: "derived from 10.20.14.10".into(),
        priority: 254,
        base_priority: 254,
        priority_because: String::new(),
        advert_interval_seconds: 0.1,
        active_down_seconds: 0.301,
        active: None,
        tracks: Vec::new(),
        frozen: None,
        duplicates: Vec::new(),
        fence_seconds: Some(0.3),
        problems: Vec::new(),
    }
}

pub(crate) fn backup_vip() -> Vip {
    Vip {
        name: "web".into(),
        addresses: vec!["10.20.14.14/24".into()],
        state: RouterState::Backup,
        state_seconds: 30.0,
        because: "a better router is Active".into(),
        priority: 63,
        base_priority: 254,
        priority_because:
            "254 → 63 because no API server has answered on 127.0.0.1:6443 since boot".into(),
        active: Some(ActivePeer {
            address: "10.20.14.12".parse().unwrap(),
            mac: Some("02:00:00:00:00:12".into()),
            priority: 253,
            last_heard_seconds: 0.05,
        }),
        tracks: vec![
            TrackStatus {
                name: "uplink".into(),
                what: "interface eth1".into(),
                good: false,
                because: "eth1 has no carrier".into(),
                weight: Some(-20),
                critical: false,
            },
            TrackStatus {
                name: "proxy".into(),
                what: "process haproxy".into(),
                good: true,
                because: "haproxy runs as process 812".into(),
                weight: None,
                critical: true,
            },
        ],
        sync_group: Some("gate".into()),
        leader: Some("api".into()),
        ..active_vip()
    }
}

pub(super) fn faulty_vip() -> Vip {
    Vip {
        name: "db".into(),
        state: RouterState::Fault,
        interface: None,
        interface_because: "no interface has a prefix that contains 10.9.9.9".into(),
        because: "there is no interface to be on".into(),
        addresses: vec!["10.9.9.9/32".into()],
        problems: vec![
            Problem::new(
                Code::VipNoOnLinkPrefix,
                "no interface has a prefix that contains 10.9.9.9",
            )
            .object("vips/db")
            .evidence("eth0 10.20.14.11/24")
            .fix(Fix::text("correct the address")),
        ],
        ..active_vip()
    }
}

pub(super) fn tunnel(name: &str, state: TunnelState) -> Tunnel {
    let up = state == TunnelState::Up;
    Tunnel {
        name: name.into(),
        source: "manager".into(),
        state,
        because: if up {
            "the last probe was answered".into()
        } else {
            "no answer to 12 probes".into()
        },
        since: "2026-11-21T09:00:00Z".into(),
        path: "udp".into(),
        tls_endpoint: None,
        fallback: None,
        public_key: "tTpyVTmHt9KKrynwDulkOR1/XLh0MwK7k2eL7DHIjkk=".into(),
        endpoint: Some("203.0.113.7:51820".into()),
        allowed_ips: vec!["fd6b:6564:6765::1/128".into()],
        last_handshake: None,
        handshake_age_seconds: Some(31.0),
        rx_bytes: 1_234_567,
        tx_bytes: 999,
        drops: BTreeMap::from([("no_peer".into(), 3)]),
        offload: BTreeMap::new(),
        echo: Some(EchoStatus {
            rtt_seconds: up.then_some(0.018),
            sent: 1000,
            lost: if up { 0 } else { 12 },
            missed_in_a_row: if up { 0 } else { 12 },
            forced_handshakes: 4,
        }),
        gateway: None,
        path_mtu: Some(if up {
            path_mtu(
                1440,
                "probed",
                "probed: packets of this size arrive, larger ones do not",
            )
        } else {
            path_mtu(1420, "route", "from the route: the peer answers no probe")
        }),
    }
}

fn path_mtu(mtu: u16, source: &str, because: &str) -> PathMtu {
    PathMtu {
        mtu,
        source: source.into(),
        because: because.into(),
        most: 1440,
    }
}

fn part(state: &str, because: Option<&str>) -> OffloadPart {
    OffloadPart {
        state: state.into(),
        because: because.map(Into::into),
    }
}

pub(super) fn tunnels() -> TunnelList {
    TunnelList {
        device: "kedge0".into(),
        public_key: "tTpyVTmHt9KKrynwDulkOR1/XLh0MwK7k2eL7DHIjkk=".into(),
        key_change: None,
        addresses: vec!["fd6b:6564:6765::a/128".into()],
        listen_port: 51820,
        mtu: 1420,
        data_plane: Some(DataPlane {
            mode: "kernel".into(),
            because: "tunnel.data_plane is kernel".into(),
            repairs: 2,
        }),
        workers: None,
        guard: None,
        offload: BTreeMap::from([
            ("tun".into(), part("tun+uso", None)),
            (
                "udp_gro".into(),
                part("off", Some("switched off by the configuration")),
            ),
        ]),
        items: vec![
            tunnel("gw-0", TunnelState::Up),
            tunnel("gw-1", TunnelState::Down),
        ],
        problems: Vec::new(),
    }
}

pub(super) fn closed_tunnels() -> TunnelList {
    let mut peer = tunnel("gw-0", TunnelState::Connecting);
    peer.because = "the tunnel device is not open".into();
    peer.handshake_age_seconds = None;
    peer.echo = None;
    (peer.rx_bytes, peer.tx_bytes) = (0, 0);
    TunnelList {
        items: vec![peer],
        offload: BTreeMap::new(),
        problems: vec![Problem::new(
            Code::TunDeviceMissing,
            "the TUN device /dev/net/tun cannot be opened",
        )],
        ..tunnels()
    }
}

pub(super) fn agent() -> AgentStatus {
    AgentStatus {
        drained_since: None,
        inhibitor: Some(Inhibitor {
            held: true,
            because: "held, logind waits up to 5 s".into(),
            ending: None,
        }),
        role: role(),
        vips: vec![active_vip(), backup_vip()],
        health: vec![HealthStatus {
            vip: "api".into(),
            probe: "https://127.0.0.1:6443/readyz".into(),
            verdict: "healthy".into(),
            because: String::new(),
            latency_seconds: Some(0.0031),
        }],
        bfd: sessions().items,
        bgp: neighbors().items,
        anycast: vec![bgp::anycast()],
        tunnels: tunnels().items,
        guard: None,
        shortcuts: shortcuts(),
        peer_links: vec![
            PeerLink {
                host: Some("edge-b\u{1b}[31m".into()),
                address: "10.20.14.12".parse().unwrap(),
                called: false,
                up: true,
                since: "2026-11-21T10:00:00Z".into(),
                because: String::new(),
            },
            PeerLink {
                host: None,
                address: "10.20.14.13".parse().unwrap(),
                called: true,
                up: false,
                since: "2026-11-21T10:00:00Z".into(),
                because: "Connection refused".into(),
            },
        ],
        manager: Some(ManagerLink {
            url: "https://203.0.113.9:9443".into(),
            enrolled: true,
            record: "tenants/t/hosts/edge-a".into(),
            connected: true,
            since: String::new(),
            because: String::new(),
            applied_generation: 7,
            certificate_expires: Some("2026-11-22T08:00:00Z".into()),
        }),
        addresses: vec![ReportedAddress {
            kind: AddressType::InternalIP,
            address: "10.20.14.11".into(),
            interface: Some("eth0".into()),
            primary: true,
            because: "it is the source of the default route".into(),
        }],
        problems: Vec::new(),
    }
}

pub(super) fn ill_agent() -> AgentStatus {
    AgentStatus {
        drained_since: Some("2026-11-21T09:30:00Z".into()),
        inhibitor: Some(Inhibitor {
            held: false,
            because: "none (no polkit)".into(),
            ending: Some(Ending::Shutdown),
        }),
        role: RoleInfo {
            config_stale: true,
            ..role()
        },
        vips: vec![faulty_vip()],
        health: Vec::new(),
        bfd: Vec::new(),
        bgp: Vec::new(),
        anycast: Vec::new(),
        tunnels: Vec::new(),
        guard: None,
        shortcuts: Vec::new(),
        peer_links: Vec::new(),
        manager: Some(ManagerLink {
            url: "https://203.0.113.9:9443".into(),
            because: "the token has expired".into(),
            ..ManagerLink::default()
        }),
        addresses: Vec::new(),
        problems: vec![Problem::warning(
            Code::ConfigStale,
            "agent.yaml:3:5 \x1b[31mis refused",
        )],
    }
}

pub(crate) fn explanation() -> VipExplanation {
    VipExplanation {
        vip: active_vip(),
        conclusion: "10.20.14.10 is on edge-a".into(),
        because: vec![
            "edge-b fell silent at 02:11:09.101; priority 254 was the highest left".into(),
            "VRID 252 is derived from the VIP".into(),
        ],
        would_move_if: vec![
            "readyz fails 3 times (1.5 s)".into(),
            "the carrier is lost".into(),
        ],
        rejected_interfaces: vec![RejectedInterface {
            interface: "eth1".into(),
            because: "10.0.9.4/24 does not contain the VIP".into(),
        }],
        transitions: vec![Transition {
            at: "2026-11-08T02:11:09.426000Z".into(),
            boottime_micros: 1,
            from: RouterState::Backup,
            to: RouterState::Active,
            because: "Active_Down_Timer fired".into(),
        }],
        counters: BTreeMap::from([("adverts_received".into(), 12)]),
    }
}

pub(super) fn gateway() -> GatewayStatus {
    let member = |host: &str, alive| MemberStatus {
        host: host.into(),
        address: "fd6b:6564:6765::a".parse().unwrap(),
        port: 6443,
        alive,
        because: "no authenticated packet for 3 s".into(),
    };
    GatewayStatus {
        role: role(),
        tunnels: vec![tunnel("edge-a", TunnelState::Up)],
        guard: None,
        tenants: Vec::new(),
        listeners: vec![ListenerStatus {
            name: "edge/edge-tunnel/6443".into(),
            address: "203.0.113.7".parse().unwrap(),
            port: 30001,
            bound: true,
            accepted: 12,
            open: 3,
            refused: 0,
            members: vec![member("edge-a", true), member("edge-b", false)],
        }],
        manager: agent().manager,
        drain: None,
        problems: Vec::new(),
    }
}

pub(super) fn manager() -> ManagerStatus {
    ManagerStatus {
        role: role(),
        store: "directory /srv/kedge".into(),
        agent_api: "203.0.113.9:9443".into(),
        ca_pin: "AAAA".into(),
        clusters: 3,
        endpoints: 2,
        hosts: 3,
        hosts_alive: 3,
        problems: vec![Problem::warning(Code::IpamPoolExhausted, "pool full")],
    }
}

pub(super) fn endpoints() -> FleetEndpointList {
    let filled = FleetEndpoint {
        namespace: "edge".into(),
        cluster: "store-014".into(),
        load_balancer: "store-014".into(),
        endpoint: Some("10.20.14.10:6443".into()),
        mode: "VIP".into(),
        from: "pool edge-lan".into(),
        reached_via: "gw-0 203.0.113.7:30001".into(),
        owner: "edge-a".into(),
        since: Some("2026-11-09T12:00:00Z".into()),
        because: "the pool had a free address".into(),
        ..FleetEndpoint::default()
    };
    let blank = FleetEndpoint {
        cluster: "store-016".into(),
        endpoint: None,
        owner: String::new(),
        reached_via: String::new(),
        since: None,
        ..filled.clone()
    };
    FleetEndpointList {
        items: vec![
            filled.clone(),
            FleetEndpoint {
                problems: vec![Problem::new(
                    Code::IpamPoolExhausted,
                    "edge-west has 0 of 16 addresses free",
                )],
                ..blank.clone()
            },
            FleetEndpoint {
                cluster: "store-017".into(),
                conditions: vec![FleetCondition {
                    kind: "Ready".into(),
                    status: "False".into(),
                    reason: "WaitingForHosts".into(),
                    message: "no control-plane host is enrolled".into(),
                }],
                ..blank
            },
        ],
    }
}

pub(super) fn hosts() -> FleetHostList {
    FleetHostList {
        items: vec![FleetHost {
            namespace: "edge".into(),
            name: "edge-a".into(),
            tenant: "t".into(),
            host_ref: "ElementalHost/edge-a".into(),
            cluster: "store-014".into(),
            address: "10.20.14.11".into(),
            overlay: vec!["fd6b:6564:6765::a".into()],
            alive: false,
            vips: vec!["api Active".into()],
            gateway: "gw-0".into(),
            applied_generation: 6,
            generation: 7,
            version: "0.1.0".into(),
            conditions: vec![FleetCondition {
                kind: "ConfigApplied".into(),
                status: "False".into(),
                reason: "OutsideBounds".into(),
                message: "0.0.0.0/0 is not allowed".into(),
            }],
        }],
    }
}

pub(super) fn tokens() -> TokenList {
    TokenList {
        items: vec![TokenSummary {
            id: "abcdefgh01".into(),
            role: kedge_control::identity::Role::Host,
            scope: "tenant t".into(),
            host_ref: None,
            bound_to: kedge_control::local::BoundTo {
                hostname_regex: Some("edge-[0-9]+".into()),
                ..Default::default()
            },
            labels: Default::default(),
            approval: Some(kedge_control::local::Approval::Manual),
            expires: "2026-11-21T10:30:00Z".into(),
            uses: 0,
            max_uses: 1,
            state: "usable".into(),
        }],
    }
}
