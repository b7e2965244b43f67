//! The BGP neighbour of tests: a router of AS 65014, and this host of AS 65001.

use std::{net::Ipv4Addr, time::Duration};

use kedge_core::bgp::{Asn, RouterId};
use kedge_vip_speaker::bgp::{BgpSpec, Config, PORT};

/// The neighbour at an address, called again after a second.
#[must_use]
pub fn spec(peer: &str) -> BgpSpec {
    let router_id = RouterId::try_from(Ipv4Addr::new(10, 20, 14, 11)).unwrap();
    let asn = |number| Asn::new(number).unwrap();
    BgpSpec {
        name: "tor".parse().unwrap(),
        peer: Some(peer.parse().unwrap()),
        port: PORT,
        interface: None,
        source: None,
        multihop: None,
        ttl_security: false,
        password: None,
        tcp_ao: None,
        config: Config {
            connect_retry: Duration::from_secs(1),
            ..Config::new(asn(65_001), asn(65_014), router_id)
        },
    }
}
