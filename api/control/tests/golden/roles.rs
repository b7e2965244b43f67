//! Agent and gateway at their sockets.

use std::collections::BTreeMap;

use kedge_control::{
    Document,
    local::{
        ActivePeer, AgentStatus, BfdRemote, BfdSession, BfdSessionList, ConfigInForce, DataPlane,
        DrainOrder, EchoStatus, GatewayDrain, GatewayStatus, GatewayUse, HandshakeGuard,
        HealthStatus, History, HistoryItem, Inhibitor, ListenerStatus, ManagerLink, MemberStatus,
        OffloadPart, Order, OrderOutcome, OrderRequest, Origin, PackageForm, PathMtu, PeerLink,
        RejectedInterface, Reloaded, Restart, RestartOutcome, RoleInfo, ScannedRouter,
        ShortcutState, ShortcutStatus, Stamp, TenantStatus, Timeline, TimelineItem, TrackStatus,
        Transition, Tunnel, TunnelKey, TunnelList, TunnelState, Upgrade, UpgradeOutcome, Vip,
        VipExplanation, VipList, VipOrder, VridScan, VridUse, Workers,
    },
};
use kedge_core::{
    bfd::{Liveness, SessionState},
    vip::RouterState,
};

use crate::{golden, text};

fn key_change() -> TunnelKey {
    TunnelKey {
        public_key: text("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="),
        since: text("2026-01-01T00:00:00Z"),
        next_public_key: Some(text("AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=")),
        next_since: Some(text("2026-01-31T00:00:00Z")),
        until: Some(text("2026-02-07T00:00:00Z")),
        moved: vec![text("gw-0")],
        waiting: vec![text("gw-1")],
        because: text("one peer does not use the new key yet"),
    }
}

fn guard() -> HandshakeGuard {
    HandshakeGuard {
        under_load: true,
        times: 2,
        cookies_sent: 4_711,
        cookies_proven: 31,
    }
}

fn bfd() -> BfdSession {
    BfdSession {
        name: text("tor"),
        peer: "10.20.14.1".parse().unwrap(),
        interface: Some(text("eth0")),
        source: None,
        multihop: false,
        state: SessionState::Up,
        liveness: Liveness::Alive,
        because: text("the peer and this host hear each other"),
        since: text("2026-01-01T00:00:00.123456Z"),
        state_seconds: 12.5,
        transmit_interval_seconds: 0.3,
        detection_seconds: Some(0.9),
        detect_multiplier: 3,
        local_discriminator: 17,
        diagnostic: text("no diagnostic"),
        remote: Some(BfdRemote {
            discriminator: 34,
            state: SessionState::Up,
            diagnostic: text("no diagnostic"),
            desired_min_tx_seconds: 0.3,
            required_min_rx_seconds: 0.3,
            detect_multiplier: 3,
            last_heard_seconds: 0.1,
        }),
        ups: 1,
        losses: 0,
        packets_sent: 42,
        packets_received: 41,
        packets_refused: [(text("ttl"), 1)].into(),
        problems: Vec::new(),
    }
}

#[test]
fn the_agent() {
    golden(
        "agent-status",
        &Document::new(AgentStatus {
            role: role(),
            drained_since: None,
            inhibitor: Some(Inhibitor {
                held: true,
                because: "held, logind waits up to 5 s".into(),
                ending: None,
            }),
            vips: vec![vip()],
            health: vec![HealthStatus {
                vip: text("api"),
                probe: text("https://127.0.0.1:6443/readyz"),
                verdict: text("healthy"),
                because: text("200 OK"),
                latency_seconds: Some(0.003),
            }],
            bfd: vec![bfd()],
            bgp: vec![crate::bgp::neighbor()],
            anycast: vec![crate::bgp::anycast()],
            tunnels: vec![tunnel()],
            guard: Some(guard()),
            shortcuts: vec![ShortcutStatus {
                name: text("store-014/edge"),
                endpoints: vec![text("203.0.113.7:30001")],
                state: ShortcutState::Standing,
                since: text("2026-11-21T10:00:00Z"),
                because: text("no gateway answers"),
                targets: vec![text("store-014/edge-a 10.20.14.11")],
                answering: vec![text("store-014/edge-a 10.20.14.11")],
                open: 3,
                taken: 1,
            }],
            peer_links: vec![PeerLink {
                host: Some("edge-b".into()),
                address: "10.20.14.12".parse().unwrap(),
                called: false,
                up: true,
                since: "2026-11-21T10:00:00Z".into(),
                because: String::new(),
            }],
            manager: Some(link()),
            addresses: Vec::new(),
            problems: Vec::new(),
        }),
    );
    golden(
        "bfd-session-list",
        &Document::new(BfdSessionList { items: vec![bfd()] }),
    );
    golden(
        "vip-list",
        &Document::new(VipList {
            items: vec![vip()],
            anycast: vec![crate::bgp::anycast()],
        }),
    );
    golden("vip", &Document::new(vip()));
    golden(
        "vip-explanation",
        &Document::new(VipExplanation {
            vip: vip(),
            conclusion: text("10.20.14.10 is on 10.20.14.12"),
            because: vec![text("a better router is heard")],
            would_move_if: vec![text("it falls silent for 0.3 s")],
            rejected_interfaces: vec![RejectedInterface {
                interface: text("eth1"),
                because: text("10.0.9.4/24 does not contain the VIP"),
            }],
            transitions: vec![Transition {
                at: text("2026-01-01T00:00:00.123456Z"),
                boottime_micros: 1_000_000,
                from: RouterState::Initialize,
                to: RouterState::Backup,
                because: text("started"),
            }],
            counters: [(text("adverts_received"), 100)].into(),
        }),
    );
    let list = TunnelList {
        device: text("kedge0"),
        public_key: text("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="),
        key_change: Some(key_change()),
        addresses: vec![text("fd6b:6564:6765::a/128")],
        listen_port: 51820,
        mtu: 1420,
        data_plane: Some(DataPlane {
            mode: text("kernel"),
            because: text("tunnel.data_plane is kernel"),
            repairs: 2,
        }),
        offload: offload(),
        workers: Some(Workers {
            count: 2,
            because: text("auto: one for each processor, up to 4"),
        }),
        guard: Some(guard()),
        items: vec![tunnel()],
        problems: Vec::new(),
    };
    golden("tunnel-list", &Document::new(list));
    golden("tunnel-key", &Document::new(key_change()));
    let asked = Tunnel {
        offload: offload(),
        ..tunnel()
    };
    golden("tunnel", &Document::new(asked));
    golden(
        "config",
        &Document::new(ConfigInForce {
            generation: 1,
            files: vec![text("/etc/kedge/agent.yaml")],
            values: serde_json::json!({"version": 1}),
            origins: vec![Origin {
                key: text("version"),
                value: serde_json::json!(1),
                origin: text("/etc/kedge/agent.yaml:1:1"),
            }],
        }),
    );
    let reloaded = Reloaded {
        generation: 2,
        changes: vec![text("vips.api.preempt: false → true")],
    };
    golden("reloaded", &Document::new(reloaded));
}

#[test]
fn orders_and_what_happened() {
    let item = VipOrder {
        vip: text("api"),
        order: Order::Release,
        given: true,
        plan: vec![text("this host says goodbye for api")],
        state: RouterState::Active,
        at: text("2026-01-01T00:00:00.123456Z"),
        boottime_micros: 1_000_000,
        to: None,
        outcome: Some(OrderOutcome {
            moved: true,
            holder: text("10.20.14.12"),
            because: text("10.20.14.12 took over"),
            took_seconds: 0.023,
        }),
    };
    golden("vip-order", &Document::new(item.clone()));
    golden(
        "drain-order",
        &Document::new(DrainOrder {
            order: Order::Drain,
            given: true,
            plan: vec![text("this host gives its VIPs away")],
            items: vec![item],
        }),
    );
    golden(
        "restart",
        &Document::new(Restart {
            given: true,
            executable: text("/usr/bin/kedge"),
            keeps_vips: true,
            plan: vec![text("the agent is replaced by /usr/bin/kedge")],
            started: text("2026-01-01T00:00:00Z"),
            outcome: Some(RestartOutcome {
                version: text("0.1.0"),
                took_seconds: 0.125,
            }),
        }),
    );
    golden(
        "upgrade",
        &Document::new(Upgrade {
            given: true,
            form: PackageForm::Sysext,
            from: text("0.1.0"),
            to: text("0.2.0"),
            plan: vec![text("systemd-sysext merges it")],
            outcome: Some(UpgradeOutcome {
                restarted: true,
                ready_seconds: 0.125,
                kept: Some(text("0.1.0")),
            }),
        }),
    );
    let request = OrderRequest {
        dry_run: true,
        for_seconds: Some(3_600),
        host: Some(text("edge-a")),
    };
    golden("order-request", &request);
    golden(
        "history",
        &Document::new(History {
            host: text("edge-a"),
            items: vec![HistoryItem {
                vip: text("api"),
                at: text("2026-01-01T00:00:00.123456Z"),
                boottime_micros: 1_000_000,
                this_boot: true,
                from: Some(RouterState::Backup),
                to: Some(RouterState::Active),
                because: text("10.20.14.12 said that it leaves"),
            }],
        }),
    );
    golden(
        "timeline",
        &Document::new(Timeline {
            host: text("edge-a"),
            vip: text("api"),
            sources: vec!["10.20.14.11".parse().unwrap()],
            clocks: vec![text("every stamp is of edge-a's own clock")],
            items: vec![TimelineItem {
                at: text("2026-01-01T00:00:00.123456Z"),
                host: text("edge-a"),
                stamp: Stamp::LastHeard,
                peer: Some("10.20.14.12".parse().unwrap()),
                text: text("last advertisement received from 10.20.14.12"),
            }],
        }),
    );
    golden(
        "vrid-scan",
        &Document::new(VridScan {
            interfaces: vec![text("eth0")],
            seconds: 3.0,
            items: vec![VridUse {
                interface: text("eth0"),
                vrid: 252,
                family: text("IPv4"),
                ours: text("api"),
                routers: vec![ScannedRouter {
                    address: "10.20.14.1".parse().unwrap(),
                    mac: text("00:1b:17:aa:20:01"),
                    version: 3,
                    priority: 100,
                    advert_interval_seconds: 1.0,
                    addresses: vec!["10.20.14.1".parse().unwrap()],
                    checksum: text("pseudoHeader"),
                    auth: text("none"),
                    unicast: false,
                    adverts: 3,
                }],
            }],
            free: [(text("eth0"), 100)].into(),
            malformed: [(text("checksum"), 1)].into(),
            problems: Vec::new(),
        }),
    );
}

#[test]
fn the_gateway() {
    golden(
        "gateway-status",
        &Document::new(GatewayStatus {
            role: role(),
            tunnels: vec![tunnel()],
            guard: Some(guard()),
            tenants: vec![TenantStatus {
                tenant: text("store-014"),
                namespace: text("/run/kedge/netns/store-014"),
                hosts: 1,
                ready: true,
            }],
            listeners: vec![ListenerStatus {
                name: text("store-014/edge/api"),
                address: "203.0.113.7".parse().unwrap(),
                port: 30000,
                bound: true,
                accepted: 5,
                open: 1,
                refused: 0,
                members: vec![MemberStatus {
                    host: text("store-014/edge-a"),
                    address: "fd6b:6564:6765::a".parse().unwrap(),
                    port: 6443,
                    alive: true,
                    because: text("data arrived 0.2 s ago"),
                }],
            }],
            manager: Some(link()),
            drain: Some(drain()),
            problems: Vec::new(),
        }),
    );
    golden("gateway-drain", &Document::new(drain()));
}

fn drain() -> GatewayDrain {
    GatewayDrain {
        draining: true,
        since: Some(text("2026-01-01T00:00:00Z")),
        hosts: 3,
        waiting: 1,
    }
}

pub fn role() -> RoleInfo {
    RoleInfo {
        version: text("0.1.0"),
        hostname: text("edge-a"),
        started: text("2026-01-01T00:00:00Z"),
        uptime_seconds: 1.5,
        pid: 42,
        config_generation: 1,
        config_stale: false,
    }
}

fn vip() -> Vip {
    Vip {
        name: text("api"),
        addresses: vec![text("10.20.14.10/24")],
        source: text("manager"),
        state: RouterState::Backup,
        since: text("2026-01-01T00:00:00.123456Z"),
        state_seconds: 12.5,
        because: text("a better router is heard"),
        interface: Some(text("eth0")),
        interface_because: text("10.20.14.11/24 is on-link for the VIP"),
        sync_group: Some(text("gate")),
        leader: Some(text("six")),
        vrid: 252,
        vrid_because: text("derived from the VIP"),
        priority: 63,
        base_priority: 254,
        priority_because: text("no API server has answered since boot"),
        advert_interval_seconds: 0.1,
        active_down_seconds: 0.3,
        active: Some(ActivePeer {
            address: "10.20.14.12".parse().unwrap(),
            mac: Some(text("00:1b:17:aa:20:01")),
            priority: 251,
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
        frozen: None,
        duplicates: Vec::new(),
        fence_seconds: Some(0.3),
        problems: Vec::new(),
    }
}

fn offload() -> BTreeMap<String, OffloadPart> {
    let part = |state, because: Option<&str>| OffloadPart {
        state: text(state),
        because: because.map(text),
    };
    let off = Some("switched off by the configuration");
    [
        (text("tun"), part("tun+uso", None)),
        (text("udp_gro"), part("off", off)),
    ]
    .into()
}

fn tunnel() -> Tunnel {
    Tunnel {
        name: text("gw-0"),
        source: text("manager"),
        state: TunnelState::Up,
        because: text("the last probe was answered"),
        since: text("2026-01-01T00:00:00Z"),
        fallback: None,
        tls_endpoint: None,
        path: text("udp"),
        public_key: text("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="),
        endpoint: Some(text("203.0.113.7:51820")),
        allowed_ips: vec![text("fd6b:6564:6765::1/128")],
        last_handshake: Some(text("2026-01-01T00:00:00Z")),
        handshake_age_seconds: Some(31.0),
        rx_bytes: 1,
        tx_bytes: 2,
        drops: [(text("unknown_peer"), 3)].into(),
        offload: BTreeMap::new(),
        echo: Some(EchoStatus {
            rtt_seconds: Some(0.018),
            sent: 10,
            lost: 1,
            missed_in_a_row: 0,
            forced_handshakes: 0,
        }),
        gateway: Some(GatewayUse {
            active: true,
            because: text("the one before is not heard any more"),
            active_seconds: Some(12.5),
            targets_unreachable: false,
        }),
        path_mtu: Some(PathMtu {
            mtu: 1440,
            source: text("probed"),
            because: text("probed: packets of this size arrive, larger ones do not"),
            most: 8940,
        }),
    }
}

fn link() -> ManagerLink {
    ManagerLink {
        url: text("https://203.0.113.9:9443"),
        enrolled: true,
        record: text("tenants/store-014/hosts/edge-a"),
        connected: true,
        since: text("2026-01-01T00:00:00Z"),
        because: text("reported"),
        applied_generation: 7,
        certificate_expires: Some(text("2026-01-02T00:00:00Z")),
    }
}
