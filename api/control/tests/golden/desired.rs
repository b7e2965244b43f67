//! What the manager wants of hosts and gateways, and what they report.

use std::num::NonZeroU16;

use kedge_control::{
    agent::{
        DirectPath, GatewayConfig, HealthMode, HostConfig, Mesh, MeshConfig, MeshPeer, PeerConfig,
        ShortcutConfig, ShortcutPort, ShortcutTarget, TunnelConfig, VipConfig,
    },
    balance::{Listener, Member},
    cors::Cors,
    frontend::{
        Affinity, ClientIp, Frontend, Limits, Offer, Policy, Pool, PoolMember, Protocol,
        ProxyProtocol,
    },
    report::{
        AddressType, GatewayReport, HostReport, NextKey, ReportAnswer, ReportedAddress,
        ReportedPeer, ReportedTunnel, ReportedUnit, ReportedVip, Unserved, UnservedReason,
    },
    site::{
        Action, Certificate, HeaderChange, HttpVersion, Match, PathChange, PathMatch, Rewrite,
        Route, RouteBackend, Site, ValueMatch,
    },
};
use kedge_core::{
    Code, Problem,
    vip::{Priority, RouterState, Vrid},
};

use crate::{golden, text};

#[test]
fn desired_states() {
    let tunnel = |address: &str, peers| TunnelConfig {
        addresses: vec![address.parse().unwrap()],
        mtu: 1420,
        peers,
    };
    golden(
        "host-config",
        &HostConfig {
            generation: 7,
            vips: vec![VipConfig {
                name: text("api"),
                addresses: vec!["10.20.14.10".parse().unwrap()],
                vrid: Vrid::new(252).unwrap(),
                priority: Priority::new(254).unwrap(),
                advert_interval_seconds: 0.1,
                interface: None,
                health: HealthMode::Auto,
            }],
            tunnel: Some(tunnel(
                "fd6b:6564:6765::a/128",
                vec![PeerConfig {
                    name: text("gw-0"),
                    public_key: text("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="),
                    next_public_key: None,
                    endpoint: Some(text("203.0.113.7:51820")),
                    other_endpoint: None,
                    tls_endpoint: None,
                    tenant: String::new(),
                    allowed_ips: vec!["fd6b:6564:6765::1/128".parse().unwrap()],
                    keepalive_seconds: 25,
                }],
            )),
            mesh: Some(MeshConfig {
                direct_path: DirectPath::Never,
                peers: vec![MeshPeer {
                    name: text("store-014/edge-b"),
                    public_key: text("AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM="),
                    next_public_key: None,
                    addresses: vec!["fd6b:6564:6765::b/128".parse().unwrap()],
                }],
            }),
            shortcuts: vec![ShortcutConfig {
                name: text("store-014/edge"),
                addresses: vec!["203.0.113.7".parse().unwrap()],
                ports: vec![ShortcutPort {
                    port: 30_001.try_into().unwrap(),
                    target_port: 6_443.try_into().unwrap(),
                }],
                targets: vec![ShortcutTarget {
                    host: text("store-014/edge-a"),
                    address: "10.20.14.11".parse().unwrap(),
                }],
            }],
            ca_bundle: text("-----BEGIN CERTIFICATE-----\n"),
        },
    );
    golden("host-config-empty", &HostConfig::default());
    golden(
        "gateway-config",
        &GatewayConfig {
            generation: 3,
            tunnel: Some(tunnel(
                "fd6b:6564:6765::1/128",
                vec![PeerConfig {
                    name: text("store-014/edge-a"),
                    public_key: text("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="),
                    next_public_key: Some(text("AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=")),
                    endpoint: None,
                    other_endpoint: None,
                    tls_endpoint: None,
                    tenant: text("store-014"),
                    allowed_ips: vec!["fd6b:6564:6765::a/128".parse().unwrap()],
                    keepalive_seconds: 0,
                }],
            )),
            meshes: vec![Mesh {
                hosts: vec![text("store-014/edge-a"), text("store-014/edge-b")],
            }],
            listeners: vec![Listener {
                name: text("store-014/edge-tunnel/api"),
                address: "203.0.113.7".parse().unwrap(),
                port: 30001,
                members: vec![Member {
                    host: text("store-014/edge-a"),
                    address: "fd6b:6564:6765::a".parse().unwrap(),
                    port: 6443,
                    draining: false,
                }],
            }],
            offer: offer(),
            ca_bundle: text("-----BEGIN CERTIFICATE-----\n"),
        },
    );
}

fn offer() -> Offer {
    Offer {
        frontends: vec![Frontend {
            name: text("store-014/web/https"),
            tenant: text("store-014"),
            address: "203.0.113.7".parse().unwrap(),
            port: NonZeroU16::new(443).unwrap(),
            protocol: Protocol::Tcp,
            pool: text("store-014/web/https"),
            client_ip: ClientIp::ProxyV2,
            source_ranges: Vec::new(),
        }],
        restricted: vec![Frontend {
            name: text("store-014/admin/ssh"),
            tenant: text("store-014"),
            address: "203.0.113.7".parse().unwrap(),
            port: NonZeroU16::new(22).unwrap(),
            protocol: Protocol::Tcp,
            pool: text("store-014/admin/ssh"),
            client_ip: ClientIp::Hidden,
            source_ranges: vec!["192.0.2.0/24".parse().unwrap()],
        }],
        pools: vec![Pool {
            name: text("store-014/web/https"),
            tenant: text("store-014"),
            members: vec![PoolMember {
                host: text("store-014/edge-a"),
                address: "fd6b:6564:6765::a".parse().unwrap(),
                port: NonZeroU16::new(30443).unwrap(),
                weight: 1,
                draining: false,
            }],
            policy: Policy::RoundRobin,
            affinity: Affinity::None,
            health: None,
            limits: Limits::default(),
            http: HttpVersion::Two,
        }],
        sites: vec![site()],
        proxy_protocol: Some(ProxyProtocol {
            from: vec!["192.0.2.0/28".parse().unwrap()],
        }),
    }
}

fn site() -> Site {
    let exact = |value: &str| ValueMatch::Exact(text(value));
    let forward = Route {
        hosts: vec![text("shop.example.net")],
        matches: Match {
            path: PathMatch::Exact(text("/basket")),
            method: Some(text("GET")),
            headers: [(text("x-beta"), exact("1"))].into(),
            query: [(text("lang"), ValueMatch::Regex(text("de|en")))].into(),
            grpc: false,
        },
        action: Action::Forward {
            backends: vec![RouteBackend {
                pool: text("store-014/web/https"),
                weight: 9,
                ..RouteBackend::default()
            }],
            rewrite: Rewrite {
                host: Some(text("basket.internal")),
                path: Some(PathChange::Prefix(text("/"))),
            },
            timeout_milliseconds: 10_000,
            backend_timeout_milliseconds: 3_000,
            retries: 1,
            mirrors: Vec::new(),
        },
        request_headers: HeaderChange {
            set: [(text("x-from"), text("edge"))].into(),
            add: [(text("x-seen"), text("gateway"))].into(),
            remove: vec![text("x-secret")],
        },
        response_headers: HeaderChange::default(),
        cors: Some(Cors {
            origins: vec![text("https://*.example.net")],
            methods: vec![text("PUT")],
            headers: vec![text("x-from")],
            exposed: vec![text("x-seen")],
            credentials: true,
            max_age_seconds: 600,
        }),
    };
    let redirect = Route {
        hosts: Vec::new(),
        matches: Match::default(),
        action: Action::Redirect {
            scheme: Some(text("https")),
            host: Some(text("www.example.net")),
            port: None,
            path: Some(PathChange::Full(text("/"))),
            status: 308,
        },
        request_headers: HeaderChange::default(),
        response_headers: HeaderChange::default(),
        cors: None,
    };
    let nobody = Route {
        action: Action::Answer { status: 404 },
        ..redirect.clone()
    };
    Site {
        name: text("store-014/shop"),
        tenant: text("store-014"),
        address: "203.0.113.7".parse().unwrap(),
        http: NonZeroU16::new(80),
        https: NonZeroU16::new(443),
        hosts: vec![text("shop.example.net"), text("*.example.net")],
        certificates: vec![Certificate {
            hosts: vec![text("shop.example.net")],
            chain: text("-----BEGIN CERTIFICATE-----\n"),
            key: text("-----BEGIN PRIVATE KEY-----\n"),
        }],
        redirect: true,
        routes: vec![forward, redirect, nobody],
    }
}

#[test]
fn a_host_reads_a_desired_state_without_what_has_a_default() {
    let config: HostConfig = serde_json::from_str(
        r#"{"generation": 1, "vips": [{"name": "api", "addresses": ["10.0.0.1"], "vrid": 1,
            "priority": 254, "advertIntervalSeconds": 1}]}"#,
    )
    .unwrap();
    assert_eq!(config.vips[0].health, HealthMode::Auto);
    for bad in [
        r#""vrid": 0"#,
        r#""vrid": 256"#,
        r#""priority": 0"#,
        r#""priority": 256"#,
    ] {
        let json = format!(
            r#"{{"name": "api", "addresses": [], "vrid": 1, "priority": 1, "advertIntervalSeconds": 1, {bad}}}"#
        );
        assert!(serde_json::from_str::<VipConfig>(&json).is_err(), "{bad}");
    }
}

#[test]
fn reports() {
    golden(
        "host-report",
        &HostReport {
            boot_id: text("0b0e"),
            machine_id: text("4d"),
            version: text("0.1.0"),
            applied_generation: 7,
            addresses: vec![ReportedAddress {
                kind: AddressType::InternalIP,
                address: text("10.20.14.11"),
                interface: Some(text("eth0")),
                primary: true,
                because: text("the default route leaves here"),
            }],
            vips: vec![ReportedVip {
                name: text("api"),
                address: "10.20.14.10".parse().unwrap(),
                state: RouterState::Active,
                since: text("2026-01-01T00:00:00.5Z"),
                because: text("no better router is heard"),
                answers: Some(true),
            }],
            tunnel: Some(ReportedTunnel {
                public_key: text("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="),
                next_public_key: Some(text("AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=")),
                gateway: Some(text("gw-0")),
                last_transition: text("2026-01-01T00:00:00Z"),
            }),
            units: vec![ReportedUnit {
                name: text("k3s.service"),
                active: text("activating"),
                sub: text("auto-restart"),
            }],
            problems: vec![Problem::new(
                Code::VipNoOnLinkPrefix,
                "no interface has a prefix for 10.0.0.1",
            )],
        },
    );
    golden(
        "gateway-report",
        &GatewayReport {
            draining: None,
            tells_clients_apart: true,
            boot_id: text("0b0e"),
            version: text("0.1.0"),
            applied_generation: 3,
            public_key: text("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="),
            next_key: Some(NextKey {
                public_key: text("AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM="),
                since: text("2026-01-31T00:00:00Z"),
                until: text("2026-03-02T00:00:00Z"),
            }),
            listen_port: 51820,
            peers: vec![ReportedPeer {
                name: text("store-014/edge-a"),
                alive: true,
                since: text("2026-01-01T00:00:00Z"),
            }],
            unserved: Some(vec![Unserved {
                frontend: text("store-014/web/https"),
                reason: UnservedReason::Unsupported,
                message: text("the built-in proxy does not do that: the PROXY protocol"),
            }]),
            problems: Vec::new(),
        },
    );
    golden("report-answer", &ReportAnswer { generation: 8 });
}
