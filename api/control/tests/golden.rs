//! The wire, letter by letter: every type as it stands in `tests/golden/*.json`, both ways.
//!
//! A file that must change is a change of the wire: fields are only ever added. Write the files
//! anew with `KEDGE_UPDATE_GOLDEN=1 cargo test -p kedge-control --test golden`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::{fmt::Debug, fs, path::PathBuf};

use kedge_control::{
    Document,
    agent::{GatewayConfig, HealthMode, HostConfig, PeerConfig, TunnelConfig, VipConfig},
    balance::{Listener, Member},
    enrol::{
        EnrolRequest, Enrolled, Facts, HostRef, Proof, ProofKind, RecoverRequest, RenewRequest,
        Waiting,
    },
    exposure::{
        Epoch, Exposed, Exposure, ExposureAnswer, ExposureChange, ExposureKind, ExposureList,
        ExposureSet,
    },
    identity::Role,
    local::{
        ActivePeer, AgentStatus, ConfigInForce, EchoStatus, FleetCondition, FleetEndpoint,
        FleetEndpointList, FleetHost, FleetHostList, GatewayStatus, HealthStatus, ListenerStatus,
        ManagerLink, ManagerStatus, MemberStatus, Origin, RejectedInterface, Reloaded, RoleInfo,
        TokenCreated, TokenList, TokenRequest, TokenSummary, Transition, Tunnel, TunnelList,
        TunnelState, Vip, VipExplanation, VipList,
    },
    report::{
        AddressType, GatewayReport, HostReport, ReportAnswer, ReportedAddress, ReportedPeer,
        ReportedTunnel, ReportedVip,
    },
};
use kedge_core::{
    Code, Fix, Problem,
    vip::{Priority, RouterState, Vrid},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The value is what the file says, and the file is what the value says.
fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(name: &str, value: &T) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.json"));
    let written = serde_json::to_string_pretty(value).unwrap() + "\n";
    if std::env::var_os("KEDGE_UPDATE_GOLDEN").is_some() {
        fs::write(&path, &written).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(written, kept, "{name}.json");
    assert_eq!(
        &serde_json::from_str::<T>(&kept).unwrap(),
        value,
        "{name}.json"
    );
    // Unknown fields are how a newer version speaks: what a person or a host reads tolerates them.
    let mut more: Value = serde_json::from_str(&kept).unwrap();
    if let (Some(object), false) = (more.as_object_mut(), name.ends_with("request")) {
        object.insert("addedLater".to_owned(), Value::Bool(true));
        assert_eq!(
            &serde_json::from_value::<T>(more).unwrap(),
            value,
            "{name}.json"
        );
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

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
                    endpoint: Some(text("203.0.113.7:51820")),
                    allowed_ips: vec!["fd6b:6564:6765::1/128".parse().unwrap()],
                    keepalive_seconds: 25,
                }],
            )),
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
                    endpoint: None,
                    allowed_ips: vec!["fd6b:6564:6765::a/128".parse().unwrap()],
                    keepalive_seconds: 0,
                }],
            )),
            listeners: vec![Listener {
                name: text("store-014/edge-tunnel/api"),
                address: "203.0.113.7".parse().unwrap(),
                port: 30001,
                members: vec![Member {
                    host: text("store-014/edge-a"),
                    address: "fd6b:6564:6765::a".parse().unwrap(),
                    port: 6443,
                }],
            }],
            ca_bundle: text("-----BEGIN CERTIFICATE-----\n"),
        },
    );
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
fn exposures_and_who_waits() {
    golden(
        "waiting",
        &Waiting {
            key_hash: text("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        },
    );
    let spec = serde_json::json!({"ports": [{"name": "http", "port": 80}]});
    golden(
        "exposure-set-request",
        &ExposureSet {
            epoch: 3,
            kinds: vec![ExposureKind::Tcp, ExposureKind::Http],
            items: vec![Exposure {
                kind: ExposureKind::Tcp,
                name: text("web"),
                spec: spec.clone(),
            }],
            confirm: false,
        },
    );
    golden(
        "exposure-change-request",
        &ExposureChange {
            epoch: 3,
            spec: spec.clone(),
        },
    );
    golden("exposure-epoch-request", &Epoch { epoch: 3 });
    golden(
        "exposure-answer",
        &ExposureAnswer {
            written: 1,
            removed: 0,
            held: vec![text("TCPLoadBalancer/mail")],
        },
    );
    golden(
        "exposure-list",
        &ExposureList {
            epoch: 3,
            items: vec![Exposed {
                kind: ExposureKind::Http,
                name: text("shop"),
                spec,
                status: serde_json::json!({"ingress": [{"ip": "203.0.113.7"}]}),
                generation: 2,
                observed_generation: 1,
            }],
        },
    );
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
            }],
            tunnel: Some(ReportedTunnel {
                public_key: text("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="),
                gateway: Some(text("gw-0")),
                last_transition: text("2026-01-01T00:00:00Z"),
            }),
            problems: vec![Problem::new(
                Code::VipNoOnLinkPrefix,
                "no interface has a prefix for 10.0.0.1",
            )],
        },
    );
    golden(
        "gateway-report",
        &GatewayReport {
            boot_id: text("0b0e"),
            version: text("0.1.0"),
            applied_generation: 3,
            public_key: text("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="),
            listen_port: 51820,
            peers: vec![ReportedPeer {
                name: text("store-014/edge-a"),
                alive: true,
                since: text("2026-01-01T00:00:00Z"),
            }],
            problems: Vec::new(),
        },
    );
    golden("report-answer", &ReportAnswer { generation: 8 });
}

#[test]
fn enrolment() {
    let proof = |kind, id: &str| Proof {
        kind,
        id: text(id),
        signature: text("c2lnbmF0dXJl"),
    };
    let host_ref = HostRef {
        api_group: text("infrastructure.cluster.x-k8s.io"),
        kind: text("ElementalHost"),
        name: text("edge-a"),
    };
    golden(
        "enrol-request",
        &EnrolRequest {
            name: text("edge-a"),
            csr: text("-----BEGIN CERTIFICATE REQUEST-----\n"),
            tunnel_key: text("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="),
            host_ref: Some(host_ref.clone()),
            facts: Facts {
                hostname: text("edge-a"),
                machine_id: text("4d"),
                boot_id: text("0b0e"),
                version: text("0.1.0"),
            },
            proof: proof(ProofKind::Token, "abcdefgh01"),
        },
    );
    golden(
        "renew-request",
        &RenewRequest {
            csr: text("-----BEGIN CERTIFICATE REQUEST-----\n"),
            generation: 2,
            renewal_id: text("5e"),
        },
    );
    golden(
        "recover-request",
        &RecoverRequest {
            csr: text("-----BEGIN CERTIFICATE REQUEST-----\n"),
            certificate: text("-----BEGIN CERTIFICATE-----\n"),
            generation: 2,
            renewal_id: text("5e"),
            proof: proof(ProofKind::BoundKey, "edge-a"),
        },
    );
    golden(
        "enrolled",
        &Enrolled {
            role: Role::Host,
            uid: text("0b0e4d5e-0000-4000-8000-000000000000"),
            name: text("edge-a"),
            path: text("/kedge/v1/tenants/store-014/hosts/edge-a"),
            certificate: text("-----BEGIN CERTIFICATE-----\n"),
            ca_bundle: text("-----BEGIN CERTIFICATE-----\n"),
            generation: 1,
        },
    );
    let summary = TokenSummary {
        id: text("abcdefgh01"),
        role: Role::Host,
        scope: text("store-014"),
        host_ref: Some(host_ref.clone()),
        expires: text("2026-01-01T01:00:00Z"),
        uses: 0,
        max_uses: 1,
        state: text("usable"),
    };
    golden(
        "token-request",
        &TokenRequest {
            role: Role::Host,
            tenant: Some(text("store-014")),
            gateway: None,
            host_ref: Some(host_ref),
            ttl_seconds: Some(3600),
            max_uses: Some(1),
        },
    );
    let token = TokenCreated {
        token: text("kedge1.…"),
        summary: summary.clone(),
    };
    golden("token", &Document::new(token));
    golden(
        "token-list",
        &Document::new(TokenList {
            items: vec![summary],
        }),
    );
}

#[test]
fn problems() {
    golden(
        "problem",
        &Document::new(
            Problem::new(
                Code::VipVridInUse,
                "VRID 252 is used by another router on eth0",
            )
            .object("vips/api")
            .evidence("advert from 00:1b:17:aa:20:01 (10.20.14.1)")
            .consequence("the VIP is not claimed on this host")
            .fix(
                Fix::text("choose another VRID on every host of this group")
                    .command("kedge config set vips.api.vrid=188 && kedge reload"),
            ),
        ),
    );
}

#[test]
fn the_fleet() {
    let condition = FleetCondition {
        kind: text("EndpointPublished"),
        status: text("True"),
        reason: text("Published"),
        message: text("10.20.14.10:6443"),
    };
    golden(
        "fleet-endpoint-list",
        &Document::new(FleetEndpointList {
            items: vec![FleetEndpoint {
                namespace: text("store-014"),
                cluster: text("edge"),
                endpoint: Some(text("10.20.14.10:6443")),
                mode: text("VIP"),
                from: text("pool edge-lan"),
                reached_via: text("gw 203.0.113.7:30000"),
                owner: text("edge-a"),
                since: Some(text("2026-01-01T00:00:00Z")),
                because: text("10.20.14.10 was the lowest free address of VIPPool edge-lan"),
                conditions: vec![condition.clone()],
                problems: Vec::new(),
            }],
        }),
    );
    golden(
        "fleet-host-list",
        &Document::new(FleetHostList {
            items: vec![FleetHost {
                namespace: text("store-014"),
                name: text("edge-a"),
                tenant: text("store-014"),
                host_ref: text("ElementalHost/edge-a"),
                cluster: text("edge"),
                address: text("10.20.14.11"),
                overlay: vec![text("fd6b:6564:6765::a/128")],
                alive: true,
                vips: vec![text("edge Active")],
                gateway: text("gw-0"),
                applied_generation: 7,
                generation: 7,
                version: text("0.1.0"),
                conditions: vec![condition],
            }],
        }),
    );
    golden(
        "manager-status",
        &Document::new(ManagerStatus {
            role: role(),
            store: text("directory /srv/kedge"),
            agent_api: text("203.0.113.9:9443"),
            ca_pin: text("pin"),
            clusters: 3,
            endpoints: 2,
            hosts: 3,
            hosts_alive: 2,
            problems: Vec::new(),
        }),
    );
}

fn role() -> RoleInfo {
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
        duplicates: Vec::new(),
        problems: Vec::new(),
    }
}

fn tunnel() -> Tunnel {
    Tunnel {
        name: text("gw-0"),
        source: text("manager"),
        state: TunnelState::Up,
        because: text("the last probe was answered"),
        since: text("2026-01-01T00:00:00Z"),
        path: text("udp"),
        public_key: text("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="),
        endpoint: Some(text("203.0.113.7:51820")),
        allowed_ips: vec![text("fd6b:6564:6765::1/128")],
        last_handshake: Some(text("2026-01-01T00:00:00Z")),
        handshake_age_seconds: Some(31.0),
        rx_bytes: 1,
        tx_bytes: 2,
        drops: [(text("unknown_peer"), 3)].into(),
        echo: Some(EchoStatus {
            rtt_seconds: Some(0.018),
            sent: 10,
            lost: 1,
            missed_in_a_row: 0,
            forced_handshakes: 0,
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

#[test]
fn the_agent() {
    golden(
        "agent-status",
        &Document::new(AgentStatus {
            role: role(),
            vips: vec![vip()],
            health: vec![HealthStatus {
                vip: text("api"),
                probe: text("https://127.0.0.1:6443/readyz"),
                verdict: text("healthy"),
                because: text("200 OK"),
                latency_seconds: Some(0.003),
            }],
            tunnels: vec![tunnel()],
            manager: Some(link()),
            addresses: Vec::new(),
            problems: Vec::new(),
        }),
    );
    golden("vip-list", &Document::new(VipList { items: vec![vip()] }));
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
        addresses: vec![text("fd6b:6564:6765::a/128")],
        listen_port: 51820,
        mtu: 1420,
        items: vec![tunnel()],
        problems: Vec::new(),
    };
    golden("tunnel-list", &Document::new(list));
    golden("tunnel", &Document::new(tunnel()));
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
fn the_gateway() {
    golden(
        "gateway-status",
        &Document::new(GatewayStatus {
            role: role(),
            tunnels: vec![tunnel()],
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
            problems: Vec::new(),
        }),
    );
}
