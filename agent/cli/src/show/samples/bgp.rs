//! BGP neighbours as an agent sends them.

use kedge_control::local::{
    AnycastVip, BgpExplanation, BgpMode, BgpNeighbor, BgpNeighborList, BgpReceived, BgpRoute,
    BgpRouteList, BgpTold,
};
use kedge_core::{Code, Problem, bgp::SessionState};

pub(crate) fn neighbors() -> BgpNeighborList {
    let asn = |number| kedge_core::bgp::Asn::new(number).unwrap();
    let id = |text: &str| {
        text.parse::<std::net::Ipv4Addr>()
            .unwrap()
            .try_into()
            .unwrap()
    };
    let up = BgpNeighbor {
        name: "tor-a".into(),
        address: Some("10.20.14.1".parse().unwrap()),
        port: 179,
        interface: None,
        asn: Some(asn(65_000)),
        local_asn: asn(65_001),
        multihop: None,
        ttl_security: true,
        password: true,
        passive: false,
        state: SessionState::Established,
        because: "both sides agree".into(),
        since: "2026-11-21T09:00:00Z".into(),
        state_seconds: 3_600.0,
        local: Some("10.20.14.11:40123".parse().unwrap()),
        remote: Some("10.20.14.1:179".parse().unwrap()),
        router_id: Some(id("10.20.14.1")),
        hold_seconds: 9,
        families: vec!["ipv4".into(), "ipv6".into()],
        bfd: Some("tor-a".into()),
        advertised: 2,
        received: BgpReceived {
            announced: 7,
            withdrawn: 1,
            refused: 0,
            standing: None,
        },
        messages_received: 1_300,
        messages_sent: 1_204,
        established: 1,
        lost: 0,
        notification: None,
        refused: [("busy".into(), 1)].into(),
        problems: Vec::new(),
    };
    let down = BgpNeighbor {
        name: "tor-b".into(),
        address: Some("10.20.14.2".parse().unwrap()),
        state: SessionState::Connect,
        because: "it refuses connections".into(),
        state_seconds: 12.0,
        local: None,
        remote: None,
        router_id: None,
        bfd: None,
        advertised: 0,
        received: BgpReceived::default(),
        lost: 1,
        notification: Some("Hold Timer Expired".into()),
        refused: [].into(),
        problems: vec![
            Problem::new(
                Code::BgpNotEstablished,
                "the BGP session tor-b is not established",
            )
            .object("bgp/tor-b"),
        ],
        ..up.clone()
    };
    BgpNeighborList {
        mode: BgpMode::Own,
        table: None,
        asn: Some(asn(65_001)),
        router_id: Some(id("10.20.14.11")),
        routes: vec!["192.0.2.10/32".into(), "2001:db8::10/128".into()],
        items: vec![up, down],
    }
}

pub(crate) fn routes() -> BgpRouteList {
    let told = BgpRoute {
        neighbor: "tor-a".into(),
        prefix: "192.0.2.10/32".into(),
        vip: Some("api".into()),
        what: "announced".into(),
        next_hop: Some("10.20.14.11".into()),
        as_path: "65001".into(),
        origin: "igp".into(),
        med: Some(7),
        local_pref: None,
        communities: vec!["65001:7".parse().unwrap()],
        extended_communities: Vec::new(),
        large_communities: vec!["65001:1:2".parse().unwrap()],
        age_seconds: None,
        flaw: None,
    };
    let refused = BgpRoute {
        prefix: "198.51.100.0/24".into(),
        vip: None,
        what: "refused".into(),
        next_hop: None,
        as_path: String::new(),
        origin: String::new(),
        med: None,
        communities: Vec::new(),
        large_communities: Vec::new(),
        age_seconds: Some(3.0),
        flaw: Some("ORIGIN: its value is none".into()),
        ..told.clone()
    };
    BgpRouteList {
        items: vec![told, refused],
    }
}

pub(crate) fn told() -> BgpExplanation {
    BgpExplanation {
        prefix: "192.0.2.10/32".into(),
        vip: Some("api".into()),
        offered: true,
        because: "api is Active here: no better router is heard".into(),
        items: vec![
            BgpTold {
                neighbor: "tor-a".into(),
                told: true,
                because: "packets go to 10.20.14.11".into(),
            },
            BgpTold {
                neighbor: "tor-b".into(),
                told: false,
                because: "its session is Connect: it refuses connections".into(),
            },
        ],
    }
}

pub(crate) fn anycast() -> AnycastVip {
    AnycastVip {
        name: "dns".into(),
        addresses: vec!["192.0.2.53".parse().unwrap()],
        state: "announced".into(),
        because: "no health probe is configured".into(),
        state_seconds: 60.0,
    }
}
