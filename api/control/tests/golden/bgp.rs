//! BGP at the agent's socket.

use kedge_control::{
    Document,
    local::{
        AnycastVip, BgpExplanation, BgpMode, BgpNeighbor, BgpNeighborList, BgpReceived, BgpRoute,
        BgpRouteList, BgpTold,
    },
};
use kedge_core::bgp::{Asn, SessionState};

use crate::{golden, text};

pub(crate) fn neighbor() -> BgpNeighbor {
    let asn = |number| Asn::new(number).unwrap();
    BgpNeighbor {
        name: text("tor"),
        address: Some("10.20.14.1".parse().unwrap()),
        port: 179,
        interface: Some(text("eth0")),
        asn: Some(asn(65_000)),
        local_asn: asn(65_001),
        multihop: Some(2),
        ttl_security: true,
        password: true,
        passive: false,
        state: SessionState::Established,
        because: text("both sides agree"),
        since: text("2026-01-01T00:00:00.123456Z"),
        state_seconds: 12.5,
        local: Some("10.20.14.11:40123".parse().unwrap()),
        remote: Some("10.20.14.1:179".parse().unwrap()),
        router_id: Some(
            "10.20.14.1"
                .parse::<std::net::Ipv4Addr>()
                .unwrap()
                .try_into()
                .unwrap(),
        ),
        hold_seconds: 9,
        families: vec![text("ipv4")],
        bfd: Some(text("tor")),
        advertised: 1,
        received: BgpReceived {
            announced: 7,
            withdrawn: 2,
            refused: 1,
            standing: Some(4),
        },
        messages_received: 42,
        messages_sent: 41,
        established: 2,
        lost: 1,
        notification: Some(text("Cease")),
        refused: [(text("busy"), 1)].into(),
        problems: Vec::new(),
    }
}

pub(crate) fn anycast() -> AnycastVip {
    AnycastVip {
        name: text("dns"),
        addresses: vec!["192.0.2.53".parse().unwrap()],
        state: text("announced"),
        because: text("no health probe is configured"),
        state_seconds: 12.5,
    }
}

#[test]
fn neighbours_and_routes() {
    golden(
        "bgp-neighbor-list",
        &Document::new(BgpNeighborList {
            mode: BgpMode::Own,
            table: None,
            asn: Asn::new(65_001),
            router_id: Some(
                "10.20.14.11"
                    .parse::<std::net::Ipv4Addr>()
                    .unwrap()
                    .try_into()
                    .unwrap(),
            ),
            routes: vec![text("192.0.2.53/32")],
            items: vec![neighbor()],
        }),
    );
    golden("bgp-neighbor", &Document::new(neighbor()));
    golden(
        "bgp-route-list",
        &Document::new(BgpRouteList {
            items: vec![BgpRoute {
                neighbor: text("tor"),
                prefix: text("192.0.2.53/32"),
                vip: Some(text("dns")),
                what: text("announced"),
                next_hop: Some(text("10.20.14.11")),
                as_path: text("65001"),
                origin: text("igp"),
                med: Some(7),
                local_pref: Some(100),
                communities: vec!["65001:7".parse().unwrap()],
                extended_communities: vec!["rt:65001:7".parse().unwrap()],
                large_communities: vec!["65001:1:2".parse().unwrap()],
                age_seconds: Some(2.5),
                flaw: None,
            }],
        }),
    );
    golden(
        "bgp-explanation",
        &Document::new(BgpExplanation {
            prefix: text("192.0.2.53/32"),
            vip: Some(text("dns")),
            offered: true,
            because: text("dns is announced here"),
            items: vec![BgpTold {
                neighbor: text("tor"),
                told: true,
                because: text("packets go to 10.20.14.11"),
            }],
        }),
    );
}
