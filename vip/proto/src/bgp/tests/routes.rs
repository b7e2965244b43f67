//! What a neighbour is told of what is offered.

use std::sync::Arc;

use kedge_core::bgp::{Community, LargeCommunity};

use super::bench::{Bench, asn, config, offers, open, place, prefix};
use crate::{
    bgp::{Config, Input, Offer, Offers, Place, Policy, Side},
    wire::bgp::{Capability, ExtendedNextHop, Family, Message, Open, RouteRefresh, Subtype},
};

fn offered(all: &[(&str, Offer)]) -> Input {
    let all: Offers = all
        .iter()
        .map(|(text, offer)| (prefix(text), offer.clone()))
        .collect();
    Input::Offers(Arc::new(all))
}

fn internal() -> Config {
    Config {
        peer_as: asn(65_001).into(),
        ..config()
    }
}

fn internal_open() -> Open {
    Open {
        asn: asn(65_001),
        ..open()
    }
}

fn rich() -> Offer {
    Offer {
        med: Some(10),
        local_pref: Some(200),
        prepend: 2,
        communities: vec![Community::from_bits(0xfde9_0001)],
        large: vec![LargeCommunity::new([65_001, 1, 2])],
        ..Offer::default()
    }
}

#[test]
fn what_goes_goes_first_and_what_is_alike_goes_together() {
    let mut bench = Bench::established(config());
    assert_eq!(bench.input(Input::Offers(offers(&["192.0.2.10"]))), [""; 0]);
    let said = bench.input(Input::Offers(offers(&[
        "192.0.2.11",
        "192.0.2.12",
        "2001:db8::a",
    ])));
    assert_eq!(
        said,
        [
            "ours: -192.0.2.10/32",
            "ours: +192.0.2.11/32 via 10.0.0.5 +192.0.2.12/32 via 10.0.0.5 path [65001]",
            "ours: +2001:db8::a/128 via 2001:db8::5 path [65001]",
        ]
    );
    bench.taken(Side::Ours);
    // What says something else is said again, and nothing but that.
    let all = [
        ("192.0.2.11", rich()),
        ("192.0.2.12", Offer::default()),
        ("2001:db8::a", Offer::default()),
    ];
    let said = bench.input(offered(&all));
    assert_eq!(
        said,
        ["ours: +192.0.2.11/32 via 10.0.0.5 path [65001 65001 65001] 65001:1 med 10"]
    );
}

#[test]
fn within_our_autonomous_system_there_is_a_preference_and_no_path() {
    let mut bench = Bench::established_with(internal(), internal_open(), place());
    let said = bench.input(offered(&[
        ("192.0.2.10", Offer::default()),
        ("192.0.2.11", rich()),
    ]));
    assert_eq!(
        said,
        ["ours: +192.0.2.11/32 via 10.0.0.5 path [] 65001:1 med 10 pref 200"]
    );
    let view = bench.session.view();
    let told = &view.told[&prefix("192.0.2.10")];
    assert_eq!(told.attributes.local_pref, Some(100));
}

#[test]
fn the_neighbours_policy_adds_and_fills_in() {
    let config = Config {
        policy: Policy {
            offer: Offer {
                med: Some(77),
                prepend: 1,
                communities: vec![Community::NO_EXPORT, Community::from_bits(0xfde9_0001)],
                ..Offer::default()
            },
            export: None,
        },
        ..config()
    };
    let mut bench = Bench::established(config);
    let said = bench.input(offered(&[
        ("192.0.2.11", rich()),
        ("192.0.2.12", Offer::default()),
    ]));
    assert_eq!(
        said,
        [
            "ours: -192.0.2.10/32",
            "ours: +192.0.2.12/32 via 10.0.0.5 path [65001 65001] 65001:1 no-export med 77",
            "ours: +192.0.2.11/32 via 10.0.0.5 path [65001 65001 65001 65001] 65001:1 no-export med 10",
        ]
    );
}

/// The list is what counts, whatever is offered.
#[test]
fn nothing_outside_of_the_export_list_is_ever_told() {
    let policy = |export: &[&str]| Policy {
        export: Some(export.iter().map(|text| prefix(text)).collect()),
        ..Policy::NONE
    };
    let config = Config {
        policy: policy(&["192.0.2.0/24", "2001:db8::/32"]),
        ..config()
    };
    let mut bench = Bench::established(config.clone());
    let said = bench.input(Input::Offers(offers(&[
        "192.0.2.10",
        "192.0.2.0/25",
        "192.0.0.0/16",
        "0.0.0.0/0",
        "198.51.100.1",
        "2001:db8::a",
        "2001:db9::a",
    ])));
    assert_eq!(
        said,
        [
            "ours: +192.0.2.0/25 via 10.0.0.5 path [65001]",
            "ours: +2001:db8::a/128 via 2001:db8::5 path [65001]",
        ]
    );
    bench.taken(Side::Ours);
    // A shorter list takes back what it no longer holds.
    let shorter = Config {
        policy: policy(&[]),
        ..config
    };
    let said = bench.input(Input::Config(Box::new(shorter)));
    assert_eq!(
        said,
        [
            "ours: -192.0.2.0/25 -192.0.2.10/32",
            "ours: -2001:db8::a/128"
        ]
    );
}

#[test]
fn a_vip_that_leaves_says_so_before_it_does() {
    let mut bench = Bench::established_with(internal(), internal_open(), place());
    let leaving = Offer {
        leaving: true,
        ..rich()
    };
    let said = bench.input(offered(&[("192.0.2.10", leaving)]));
    // Its preference is the least there is (RFC 8326 section 4.1).
    assert_eq!(
        said,
        ["ours: +192.0.2.10/32 via 10.0.0.5 path [] 65001:1 graceful-shutdown med 10 pref 0"]
    );
}

#[test]
fn a_route_without_an_address_to_send_to_is_not_told_but_shown() {
    let four_alone = Place {
        v6: None,
        link_local: None,
        ..place()
    };
    let mut bench = Bench::established_with(config(), open(), four_alone);
    let said = bench.input(Input::Offers(offers(&["192.0.2.10", "2001:db8::a"])));
    assert_eq!(said, [""; 0]);
    assert_eq!(
        bench.session.view().without_next_hop,
        [prefix("2001:db8::a")]
    );
    // One that is configured does.
    let fixed = Config {
        next_hops: [None, Some("2001:db8::77".parse().unwrap())],
        ..config()
    };
    let said = bench.input(Input::Config(Box::new(fixed)));
    assert_eq!(
        said,
        ["ours: +2001:db8::a/128 via 2001:db8::77 path [65001]"]
    );
    assert_eq!(bench.session.view().without_next_hop, []);
}

#[test]
fn ipv4_goes_over_ipv6_where_there_is_nothing_else_and_both_can() {
    let six_alone = Place {
        v4: None,
        ..place()
    };
    let both = Config {
        extended_next_hop: true,
        ..config()
    };
    let mut can = open();
    can.capabilities.push(Capability::ExtendedNextHop(vec![
        ExtendedNextHop::IPV4_OVER_IPV6,
    ]));
    let bench = Bench::established_with(both.clone(), can.clone(), six_alone);
    let told = bench.session.view().told;
    assert_eq!(
        told[&prefix("192.0.2.10")].next_hop.to_string(),
        "2001:db8::5"
    );
    let bench = Bench::established_with(both.clone(), open(), six_alone);
    assert_eq!(
        bench.session.view().without_next_hop,
        [prefix("192.0.2.10")]
    );
    // On a link without another address it is that of the link, once.
    let link_alone = Place {
        v4: None,
        v6: Some("fe80::5".parse().unwrap()),
        link_local: Some("fe80::5".parse().unwrap()),
    };
    let bench = Bench::established_with(both, can, link_alone);
    let told = bench.session.view().told;
    assert_eq!(
        told[&prefix("192.0.2.10")].next_hop,
        crate::wire::bgp::NextHop::V6("fe80::5".parse().unwrap(), None)
    );
}

#[test]
fn a_family_that_the_neighbour_does_not_speak_is_not_told() {
    let four_alone = Open {
        capabilities: vec![Capability::of(Family::Ipv4)],
        ..open()
    };
    let mut bench = Bench::established_with(config(), four_alone, place());
    let said = bench.input(Input::Offers(offers(&["192.0.2.10", "2001:db8::a"])));
    assert_eq!(said, [""; 0]);
    assert_eq!(bench.session.view().without_next_hop, []);
}

/// To a peer that takes nothing, nothing is said that can wait: what it hears then is what is so.
#[test]
fn who_takes_nothing_is_told_the_last_state_when_it_does() {
    let mut bench = Bench::established(config());
    assert_eq!(
        bench.input(Input::Offers(offers(&[]))),
        ["ours: -192.0.2.10/32"]
    );
    for _ in 0..1_000 {
        assert_eq!(bench.input(Input::Offers(offers(&["192.0.2.11"]))), [""; 0]);
        assert_eq!(bench.input(Input::Offers(offers(&["192.0.2.12"]))), [""; 0]);
    }
    assert_eq!(bench.input(Input::Written(Side::Ours, false)), [""; 0]);
    assert_eq!(
        bench.taken(Side::Ours),
        ["ours: +192.0.2.12/32 via 10.0.0.5 path [65001]"]
    );
}

/// RFC 2918, RFC 7313.
#[test]
fn routes_are_told_again_once_for_all_requests_that_wait() {
    let request = |family| Message::RouteRefresh(RouteRefresh::of(family, Subtype::Request));
    let mut bench = Bench::established(config());
    let said = bench.hear(Side::Ours, request(Family::Ipv4));
    let again = [
        "ours: REFRESH Ipv4 Begin",
        "ours: +192.0.2.10/32 via 10.0.0.5 path [65001]",
        "ours: REFRESH Ipv4 End",
    ];
    assert_eq!(said, again);
    for _ in 0..1_000 {
        assert_eq!(bench.hear(Side::Ours, request(Family::Ipv4)), [""; 0]);
    }
    assert_eq!(bench.taken(Side::Ours), again);
    assert_eq!(bench.taken(Side::Ours), [""; 0]);
    assert_eq!(bench.session.view().counts.refreshes, 1_001);
    // Without a route there are the marks alone; of other kinds there is nothing.
    let said = bench.hear(Side::Ours, request(Family::Ipv6));
    assert_eq!(said, ["ours: REFRESH Ipv6 Begin", "ours: REFRESH Ipv6 End"]);
    bench.taken(Side::Ours);
    let foreign = RouteRefresh {
        family: (25, 65),
        subtype: Subtype::Request,
    };
    assert_eq!(
        bench.hear(Side::Ours, Message::RouteRefresh(foreign)),
        [""; 0]
    );
    for subtype in [Subtype::Begin, Subtype::End, Subtype::Other(9)] {
        let mark = RouteRefresh::of(Family::Ipv4, subtype);
        assert_eq!(bench.hear(Side::Ours, Message::RouteRefresh(mark)), [""; 0]);
    }
    // A neighbour that knows no marks gets none.
    let plain = Open {
        capabilities: vec![
            Capability::RouteRefresh,
            Capability::FourOctetAs(asn(65_014)),
        ],
        ..open()
    };
    let mut bench = Bench::established_with(config(), plain, place());
    let said = bench.hear(Side::Ours, request(Family::Ipv4));
    assert_eq!(said, ["ours: +192.0.2.10/32 via 10.0.0.5 path [65001]"]);
}
