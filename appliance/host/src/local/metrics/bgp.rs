//! What is said of BGP neighbours: told apart by their configured names alone.

use kedge_control::local::BgpNeighbor;
use kedge_core::bgp::SessionState;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use super::{OfDirection, OfPeer, Value};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWhat {
    peer: String,
    what: &'static str,
}

pub(super) fn add(neighbors: &[BgpNeighbor], registry: &mut Registry) {
    let up = Family::<OfPeer, Gauge>::default();
    let state = Family::<OfPeer, Value>::default();
    let advertised = Family::<OfPeer, Gauge>::default();
    let received = Family::<OfWhat, Counter>::default();
    let messages = Family::<OfDirection, Counter>::default();
    let established = Family::<OfPeer, Counter>::default();
    let lost = Family::<OfPeer, Counter>::default();
    for it in neighbors {
        let peer = || it.name.clone();
        let of = OfPeer { peer: peer() };
        let is_up = it.state == SessionState::Established;
        up.get_or_create(&of).set(i64::from(is_up));
        state.get_or_create(&of).set(it.state_seconds);
        let told = i64::try_from(it.advertised).unwrap_or(i64::MAX);
        advertised.get_or_create(&of).set(told);
        for (what, count) in [
            ("announced", it.received.announced),
            ("withdrawn", it.received.withdrawn),
            ("refused", it.received.refused),
        ] {
            let of = OfWhat { peer: peer(), what };
            received.get_or_create(&of).inc_by(count);
        }
        for (direction, count) in [("in", it.messages_received), ("out", it.messages_sent)] {
            let of = OfDirection {
                peer: peer(),
                direction,
            };
            messages.get_or_create(&of).inc_by(count);
        }
        established.get_or_create(&of).inc_by(it.established);
        lost.get_or_create(&of).inc_by(it.lost);
    }
    registry.register("up", "Whether the session is established", up);
    let help = "How long the session has been in its state";
    registry.register_with_unit("state", help, Unit::Seconds, state);
    let help = "Destinations that the neighbour is told of";
    registry.register("advertised_routes", help, advertised);
    let help = "Routes that the neighbour told of; none of them is installed";
    registry.register("received_routes", help, received);
    registry.register("messages", "Messages on the sessions", messages);
    let help = "How often the session was established";
    registry.register("established", help, established);
    registry.register("lost", "How often the session was lost", lost);
}

#[cfg(test)]
mod tests {
    use kedge_control::local::{BgpReceived, TunnelList};
    use kedge_core::bgp::Asn;

    use super::*;

    #[test]
    fn what_is_shown_of_a_neighbour_is_told_to_scrapers_without_its_address() {
        let asn = Asn::new(65_001).unwrap();
        let tor = BgpNeighbor {
            name: "tor".to_owned(),
            address: Some("192.0.2.1".parse().unwrap()),
            port: 179,
            interface: None,
            asn: Some(asn),
            local_asn: asn,
            multihop: None,
            ttl_security: false,
            password: true,
            passive: false,
            state: SessionState::Established,
            because: String::new(),
            since: String::new(),
            state_seconds: 2.5,
            local: None,
            remote: Some("192.0.2.1:179".parse().unwrap()),
            router_id: None,
            hold_seconds: 9,
            families: Vec::new(),
            bfd: None,
            advertised: 3,
            received: BgpReceived {
                announced: 7,
                ..BgpReceived::default()
            },
            messages_received: 11,
            messages_sent: 12,
            established: 2,
            lost: 1,
            notification: None,
            refused: [].into(),
            problems: Vec::new(),
        };
        let text = super::super::text(&TunnelList::default(), &[tor], &[]).unwrap();
        for line in [
            "kedge_bgp_up{peer=\"tor\"} 1",
            "kedge_bgp_state_seconds{peer=\"tor\"} 2.5",
            "kedge_bgp_advertised_routes{peer=\"tor\"} 3",
            "kedge_bgp_received_routes_total{peer=\"tor\",what=\"announced\"} 7",
            "kedge_bgp_messages_total{peer=\"tor\",direction=\"out\"} 12",
            "kedge_bgp_established_total{peer=\"tor\"} 2",
            "kedge_bgp_lost_total{peer=\"tor\"} 1",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
        assert!(!text.contains("192.0.2"), "{text}");
    }
}
