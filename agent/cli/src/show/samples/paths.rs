//! A gateway, a host on a direct path, and one behind a symmetric NAT.

use kedge_control::local::{PathList, TunnelPath};

pub(in crate::show) fn paths() -> PathList {
    let path = |name: &str, path: &str, reason: &str, because: &str| TunnelPath {
        name: name.to_owned(),
        path: path.to_owned(),
        reason: reason.to_owned(),
        because: because.to_owned(),
        since: "2026-11-21T09:48:00Z".to_owned(),
        ..TunnelPath::default()
    };
    PathList {
        nat: "cone".to_owned(),
        items: vec![
            TunnelPath {
                endpoint: Some("203.0.113.7:51820".to_owned()),
                gateway_rtt_seconds: Some(0.0004),
                seen_at: Some("198.51.100.9:51830".to_owned()),
                ..path("gw-a", "udp", "active", "it is the first of them")
            },
            TunnelPath {
                endpoint: Some("203.0.113.2:51830".to_owned()),
                direct_rtt_seconds: Some(0.0006),
                gateway_rtt_seconds: Some(0.0011),
                nat: Some("cone".to_owned()),
                candidates: vec!["10.2.0.2:51830".to_owned(), "203.0.113.2:51830".to_owned()],
                ..path(
                    "store-014/edge-b",
                    "direct",
                    "proven",
                    "an echo took 0.6 ms on it, and 1.1 ms through the gateway",
                )
            },
            TunnelPath {
                through: Some("gw-a".to_owned()),
                nat: Some("symmetric".to_owned()),
                ..path(
                    "store-014/edge-c",
                    "gateway",
                    "symmetric_there",
                    "the NAT of the peer is symmetric: it has another port for each destination",
                )
            },
        ],
    }
}
