use kedge_control::local::{
    AgentStatus, ConfigInForce, Frozen, GatewayStatus, HandshakeGuard, NetCheck, NetState, NetStep,
    NetTarget, Origin, PingItem, RoundTrips, Timeline, TunnelPing, Vip, VipList, VipOrder,
};

use super::{samples, *};

pub(super) fn view() -> View {
    View {
        style: Style::PLAIN,
        wide: false,
        now: "2026-11-21T10:00:00Z".parse().unwrap(),
    }
}

fn wide() -> View {
    View {
        wide: true,
        ..view()
    }
}

#[test]
fn the_agents_status_is_a_line_per_thing() {
    insta::assert_snapshot!(samples::agent().text(&view()));
}

#[test]
fn an_ill_agents_status_names_codes_and_lets_nobody_draw() {
    insta::assert_snapshot!(samples::ill_agent().text(&view()));
}

#[test]
fn marks_have_glyphs_and_colours_on_a_terminal() {
    let style = Style {
        color: true,
        ascii: false,
    };
    let text = samples::agent().text(&View { style, ..view() });
    assert!(text.contains("\x1b[32m●\x1b[0m VIP"), "{text}");
    assert!(text.contains("○"), "{text}");
    assert!(text.contains("✗"), "{text}");
    assert!(samples::agent().text(&view()).is_ascii());
}

#[test]
fn the_gateways_and_the_managers_status_have_the_same_shape() {
    insta::assert_snapshot!("gateway_status", samples::gateway().text(&view()));
    let alone = GatewayStatus {
        manager: None,
        ..samples::gateway()
    };
    let alone = alone.text(&view());
    assert!(alone.contains("Manager  none is configured"), "{alone}");
    let apart = GatewayStatus {
        tenants: vec![kedge_control::local::TenantStatus {
            tenant: "shop".into(),
            namespace: "/run/kedge/netns/shop".into(),
            hosts: 2,
            ready: true,
        }],
        ..samples::gateway()
    };
    let apart = apart.text(&view());
    assert!(apart.contains("shop"), "{apart}");
    assert!(apart.contains("2 hosts"), "{apart}");
    insta::assert_snapshot!("manager_status", samples::manager().text(&view()));
}

#[test]
fn vips_are_listed_shown_and_explained() {
    let list = VipList {
        items: vec![
            samples::active_vip(),
            samples::backup_vip(),
            samples::faulty_vip(),
        ],
        anycast: Vec::new(),
    };
    insta::assert_snapshot!("vip_list", list.text(&view()));
    insta::assert_snapshot!("vip_list_wide", list.text(&wide()));
    insta::assert_snapshot!("vip_show", samples::backup_vip().text(&view()));
    insta::assert_snapshot!("vip_explain", samples::explanation().text(&wide()));
    assert_eq!(list.names(), ["api", "web", "db"]);
}

#[test]
fn orders_tell_what_came_of_them() {
    insta::assert_snapshot!("vip_release", samples::release().text(&view()));
    insta::assert_snapshot!("drain", samples::drained().text(&view()));
    insta::assert_snapshot!("restart", samples::restarted().text(&view()));
    insta::assert_snapshot!("upgrade", samples::upgraded().text(&view()));
    let only_looked = VipOrder {
        given: false,
        outcome: None,
        ..samples::release()
    };
    let text = only_looked.text(&view());
    assert!(
        text.starts_with("not done: this host says goodbye"),
        "{text}"
    );
    assert_eq!(samples::drained().names()[0], "api");
}

#[test]
fn a_frozen_vip_cannot_be_overlooked() {
    let frozen = Vip {
        frozen: Some(Frozen {
            since: "2026-11-21T09:59:00Z".into(),
            until: "2026-11-21T10:59:00Z".into(),
        }),
        ..samples::active_vip()
    };
    let list = VipList {
        items: vec![frozen.clone()],
        anycast: Vec::new(),
    };
    assert!(list.text(&view()).contains("Active FROZEN"));
    let shown = frozen.text(&view());
    assert!(
        shown.contains("since 2026-11-21T09:59:00Z, until"),
        "{shown}"
    );
    let status = AgentStatus {
        vips: vec![frozen],
        ..samples::agent()
    };
    let status = status.text(&view());
    assert!(
        status.contains("FROZEN until 2026-11-21T10:59:00Z"),
        "{status}"
    );
}

#[test]
fn what_happened_is_told_with_its_times() {
    insta::assert_snapshot!("vip_history", samples::history().text(&view()));
    insta::assert_snapshot!("vip_timeline", samples::timeline().text(&view()));
    insta::assert_snapshot!("vip_scan", samples::scan().text(&view()));
    let nothing = Timeline::default().text(&view());
    assert!(nothing.starts_with("no failover is recorded"), "{nothing}");
}

#[test]
fn bfd_sessions_are_listed_with_what_is_wrong() {
    insta::assert_snapshot!("bfd_sessions", samples::sessions().text(&view()));
    insta::assert_snapshot!("bfd_sessions_wide", samples::sessions().text(&wide()));
    let nothing = kedge_control::local::BfdSessionList::default().text(&view());
    assert!(
        nothing.starts_with("no BFD session is configured"),
        "{nothing}"
    );
    assert_eq!(samples::sessions().names(), ["core", "tor"]);
}

#[test]
fn bgp_neighbours_are_listed_and_shown_with_what_is_wrong() {
    let list = samples::neighbors();
    insta::assert_snapshot!("bgp_summary", list.text(&view()));
    insta::assert_snapshot!("bgp_summary_wide", list.text(&wide()));
    let details = Details(list.clone()).text(&view());
    insta::assert_snapshot!("bgp_neighbors", details);
    let nothing = kedge_control::local::BgpNeighborList::default().text(&view());
    assert!(nothing.starts_with("BGP is not configured"), "{nothing}");
    assert_eq!(list.names(), ["tor-a", "tor-b"]);
}

#[test]
fn bgp_routes_are_listed_and_explained() {
    insta::assert_snapshot!("bgp_routes", samples::routes().text(&view()));
    insta::assert_snapshot!("bgp_explain", samples::told().text(&view()));
}

#[test]
fn tunnels_are_listed_and_shown() {
    insta::assert_snapshot!("tunnel_list", samples::tunnels().text(&view()));
    let peer = samples::tunnel("gw-1", kedge_control::local::TunnelState::Down);
    insta::assert_snapshot!("tunnel_show", peer.text(&view()));
}

#[test]
fn paths_are_listed_with_what_decides_them() {
    insta::assert_snapshot!("tunnel_path_list", samples::paths().text(&view()));
    let direct = samples::paths().items.remove(1);
    insta::assert_snapshot!("tunnel_path", direct.text(&view()));
    let nothing = kedge_control::local::PathList::default().text(&view());
    assert!(nothing.starts_with("no path"), "{nothing}");
    assert_eq!(samples::paths().names().len(), 3);
}

#[test]
fn a_fallback_is_loud_wherever_a_tunnel_is_shown() {
    let mut peer = samples::tunnel("gw-0", kedge_control::local::TunnelState::Up);
    peer.path = "tls".to_owned();
    // A gateway sees that a host calls over TLS, and does not ask why.
    let seen = kedge_control::local::TunnelList {
        items: vec![peer.clone()],
        ..samples::tunnels()
    };
    let text = seen.text(&view());
    assert!(text.contains("FALLBACK: it calls over TLS"), "{text}");
    let mut by_other = seen.clone();
    "udp/443".clone_into(&mut by_other.items[0].path);
    let text = by_other.text(&view());
    assert!(text.contains("FALLBACK: it calls by udp/443"), "{text}");
    peer.fallback = Some(kedge_control::local::Fallback {
        path: "tls".to_owned(),
        endpoint: "198.51.100.4:443".to_owned(),
        udp_endpoint: "198.51.100.4:51820".to_owned(),
        because: "UDP/51820 got no answer for 6 h".to_owned(),
        since: "2026-11-21T09:00:00Z".to_owned(),
        udp_silent_seconds: 21_600.0,
        code: "KEDGE-TUN-0022".to_owned(),
    });
    peer.endpoint = Some("198.51.100.4:443".to_owned());
    let why = "because UDP/51820 got no answer for 6 h (KEDGE-TUN-0022)";
    let list = kedge_control::local::TunnelList {
        items: vec![peer.clone()],
        ..samples::tunnels()
    };
    let status = AgentStatus {
        tunnels: vec![peer.clone()],
        ..samples::agent()
    };
    for text in [peer.text(&view()), list.text(&view()), status.text(&view())] {
        assert!(text.contains("FALLBACK") && text.contains(why), "{text}");
    }
    assert!(!samples::tunnels().text(&view()).contains("FALLBACK"));
}

#[test]
fn a_door_under_load_is_told_while_it_is() {
    let guard = HandshakeGuard {
        under_load: true,
        times: 1,
        cookies_sent: 40,
        cookies_proven: 7,
    };
    let shown = |guard| {
        let status = GatewayStatus {
            guard: Some(guard),
            ..samples::gateway()
        };
        let list = kedge_control::local::TunnelList {
            guard: Some(guard),
            ..samples::tunnels()
        };
        [status.text(&view()), list.text(&view())]
    };
    for text in shown(guard) {
        assert!(text.contains("UNDER LOAD"), "{text}");
        assert!(text.contains("40 cookies sent, 7 came back"), "{text}");
    }
    let [status, list] = shown(HandshakeGuard {
        under_load: false,
        ..guard
    });
    assert!(!status.contains("Guard"), "{status}");
    assert!(list.contains("under load 1 times"), "{list}");
}

#[test]
fn a_closed_tunnel_says_why_where_peers_are_listed() {
    let list = samples::closed_tunnels();
    insta::assert_snapshot!("tunnel_list_closed", list.text(&view()));
    let wide = list.text(&wide());
    assert_eq!(wide.matches("device is not open").count(), 1, "{wide}");
    // Without a peer, too.
    let bare = kedge_control::local::TunnelList {
        items: Vec::new(),
        ..list
    };
    assert!(bare.text(&view()).contains("KEDGE-TUN-"), "{bare:?}");
}

#[test]
fn the_fleet_says_why_an_endpoint_is_blank() {
    insta::assert_snapshot!("fleet_endpoints", samples::endpoints().text(&view()));
    insta::assert_snapshot!("fleet_endpoints_wide", samples::endpoints().text(&wide()));
    insta::assert_snapshot!("fleet_hosts", samples::hosts().text(&wide()));
    insta::assert_snapshot!("tokens", samples::tokens().text(&view()));
}

#[test]
fn a_load_balancer_says_who_serves_it_and_why_not() {
    let list = samples::load_balancers();
    insta::assert_snapshot!("lb_list", list.text(&view()));
    insta::assert_snapshot!("lb_list_wide", list.text(&wide()));
    assert_eq!(
        list.names(),
        ["tenant-shop/front", "tenant-shop/other", "tenant-shop/web"]
    );
    let shown: Vec<String> = list.items.iter().map(|it| it.text(&view())).collect();
    insta::assert_snapshot!("lb_show", shown.join("\n"));
    let items = list.items.into_iter();
    let explained: Vec<String> = items.map(|it| Explained(it).text(&view())).collect();
    insta::assert_snapshot!("lb_explain", explained.join("\n"));
}

#[test]
fn an_empty_list_says_what_to_do() {
    insta::assert_snapshot!(VipList::default().text(&view()), @r"
    NAME  ADDRESS  INTERFACE  STATE  SINCE  PRIORITY  VRID  ACTIVE
    Next: kedge config default  (no VIP is configured)
    ");
}

#[test]
fn origins_are_a_table_and_values_are_yaml() {
    let config = ConfigInForce {
        generation: 1,
        files: vec!["/etc/kedge/agent.yaml".into()],
        values: serde_json::json!({"tunnel": {"mtu": 1420}}),
        origins: vec![Origin {
            key: "tunnel.mtu".into(),
            value: 1420.into(),
            origin: "/etc/kedge/agent.yaml:2:8".into(),
        }],
    };
    insta::assert_snapshot!(config.text(&view()), @r"
    # read: /etc/kedge/agent.yaml
    tunnel:
      mtu: 1420
    ");
    insta::assert_snapshot!(config.text(&wide()), @r"
    KEY         VALUE  ORIGIN
    tunnel.mtu  1420   /etc/kedge/agent.yaml:2:8
    Next: kedge config check
    ");
}

#[test]
fn every_format_shows_the_same_document() {
    let answer = own(&samples::tokens()).unwrap();
    let shown = |format| render(&answer, format, &view()).unwrap();
    assert_eq!(shown(Format::Name), "abcdefgh01\n");
    let json: Value = serde_json::from_str(&shown(Format::Json)).unwrap();
    assert_eq!(json["kind"], "TokenList");
    let yaml: Value = serde_saphyr::from_str(&shown(Format::Yaml)).unwrap();
    assert_eq!(yaml, json);
    let lines = shown(Format::Jsonl);
    assert_eq!(lines.lines().count(), 1);
    let line: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(line["id"], "abcdefgh01");
    let single = own(&samples::manager()).unwrap();
    let line = render(&single, Format::Jsonl, &view()).unwrap();
    assert_eq!(line.lines().count(), 1);
}

#[test]
fn a_ping_is_summed_up_as_everybody_knows_it() {
    let item = |sequence, rtt_seconds| PingItem {
        sequence,
        rtt_seconds,
    };
    let mut ping = TunnelPing {
        peer: "gw-0".into(),
        from: [198, 18, 0, 10].into(),
        to: [198, 18, 0, 1].into(),
        bytes: 80,
        sent: 3,
        received: 2,
        loss_percent: 100.0 / 3.0,
        duration_seconds: 3.004,
        rtt: RoundTrips::of(&[0.018, 0.022]),
        items: vec![item(1, Some(0.018)), item(2, None), item(3, Some(0.022))],
    };
    insta::assert_snapshot!(ping.text(&view()));
    ping.rtt = None;
    ping.received = 0;
    ping.loss_percent = 100.0;
    insta::assert_snapshot!(ping.text(&view()));
}

#[test]
fn what_the_network_lets_through_is_a_line_per_step() {
    let step = |step: &str, state, because: &str| NetStep {
        step: step.into(),
        state,
        because: because.into(),
    };
    let check = NetCheck {
        items: vec![NetTarget {
            name: "gw-0".into(),
            endpoint: "gw.example.com:51820".into(),
            state: NetState::Failed,
            because: "its host is reached by TCP, and UDP is not answered".into(),
            fix: Some("let UDP out to port 51820 and its answers in".into()),
            steps: vec![
                step("name", NetState::Ok, "203.0.113.7 in 12.0 ms"),
                step(
                    "route",
                    NetState::Ok,
                    "from 10.0.0.2, the first link takes 1500 bytes",
                ),
                step(
                    "udp",
                    NetState::Failed,
                    "5 questions in the tunnel went unanswered",
                ),
                step(
                    "mtu",
                    NetState::Skipped,
                    "1420 bytes from the route: not probed yet",
                ),
                step("tcp", NetState::Ok, "203.0.113.7:443 accepts in 18.0 ms"),
            ],
        }],
    };
    insta::assert_snapshot!(check.text(&view()));
}
