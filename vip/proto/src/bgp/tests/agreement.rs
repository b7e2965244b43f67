//! What two OPENs lead to, and which of two connections stays.

use super::bench::{asn, config, id, open};
use crate::{
    bgp::{Config, Keep, Side, capabilities, collision, negotiate},
    wire::bgp::{Capability, ExtendedNextHop, Family, HoldTime, Notification, Open, codes},
};

fn refused(open: &Open) -> (u8, Vec<u8>) {
    refused_by(&config(), open)
}

fn refused_by(config: &Config, open: &Open) -> (u8, Vec<u8>) {
    let notification: Notification = negotiate(config, open).unwrap_err();
    assert_eq!(notification.code(), codes::OPEN);
    (notification.subcode(), notification.data().to_vec())
}

#[test]
fn only_the_neighbour_that_was_configured_is_one() {
    let other = Open {
        asn: asn(65_015),
        ..open()
    };
    assert_eq!(refused(&other), (codes::PEER_AS, vec![]));
    // Another autonomous system may use our identifier (RFC 6286), our own may not.
    let same = Open {
        router_id: id(5),
        ..open()
    };
    assert!(negotiate(&config(), &same).is_ok());
    let internal = Config {
        peer_as: asn(65_001).into(),
        ..config()
    };
    let same = Open {
        asn: asn(65_001),
        ..same
    };
    assert_eq!(refused_by(&internal, &same), (codes::IDENTIFIER, vec![]));
    let namesake = Open {
        router_id: id(9),
        ..same
    };
    assert!(negotiate(&internal, &namesake).unwrap().context.internal);
}

#[test]
fn without_a_kind_of_routes_in_common_there_is_no_session() {
    let six_alone = Config {
        families: [false, true],
        ..config()
    };
    let four_alone = Open {
        capabilities: vec![Capability::of(Family::Ipv4)],
        ..open()
    };
    let wanted = vec![1, 4, 0, 2, 0, 1];
    assert_eq!(
        refused_by(&six_alone, &four_alone),
        (codes::CAPABILITY, wanted)
    );
    // Who says nothing has IPv4.
    let silent = Open {
        capabilities: vec![],
        ..open()
    };
    assert!(negotiate(&six_alone, &silent).is_err());
    let agreed = negotiate(&config(), &silent).unwrap();
    assert_eq!(agreed.families, [true, false]);
    assert!(!agreed.context.four_octet && !agreed.enhanced_refresh);
}

#[test]
fn the_shorter_hold_time_counts_and_never_is_the_shortest() {
    let hold = |ours: u16, theirs: u16| {
        let config = Config {
            hold_time: HoldTime::from_secs(ours).unwrap(),
            ..config()
        };
        let open = Open {
            hold_time: HoldTime::from_secs(theirs).unwrap(),
            ..open()
        };
        negotiate(&config, &open).unwrap().hold_time.secs()
    };
    assert_eq!(hold(9, 180), 9);
    assert_eq!(hold(90, 3), 3);
    assert_eq!(hold(9, 0), 0);
    assert_eq!(hold(0, 180), 0);
}

/// RFC 8950 section 4: both have to say it.
#[test]
fn ipv4_over_ipv6_is_agreed_on_by_both() {
    let way = Capability::ExtendedNextHop(vec![ExtendedNextHop::IPV4_OVER_IPV6]);
    let mut theirs = open();
    theirs.capabilities.push(way.clone());
    let ours = Config {
        extended_next_hop: true,
        ..config()
    };
    let agreed =
        |config: &Config, open: &Open| negotiate(config, open).unwrap().context.extended_next_hop;
    assert!(agreed(&ours, &theirs));
    assert!(!agreed(&config(), &theirs));
    assert!(!agreed(&ours, &open()));
    assert!(capabilities(&ours).contains(&way));
    assert!(!capabilities(&config()).contains(&way));
}

/// RFC 4724, RFC 8538: a helper, of which nobody keeps routes.
#[test]
fn no_route_of_ours_outlives_us() {
    let restart = Capability::GracefulRestart {
        restarted: false,
        notification: true,
        seconds: 0,
        families: vec![],
    };
    assert!(capabilities(&config()).contains(&restart));
}

/// RFC 4271 section 6.8, RFC 6286 section 2.3.
#[test]
fn of_two_connections_both_sides_keep_the_same() {
    let speakers = [
        (id(5), asn(65_001)),
        (id(9), asn(65_014)),
        (id(5), asn(65_014)),
        (id(0x0100_0000), asn(1)),
    ];
    for ours in speakers {
        for theirs in speakers.into_iter().filter(|theirs| *theirs != ours) {
            let Keep(here) = collision(ours, theirs);
            let Keep(there) = collision(theirs, ours);
            assert_eq!(here, there.other(), "{ours:?} {theirs:?}");
        }
    }
    // The higher identifier, then the higher autonomous system.
    assert_eq!(
        collision((id(5), asn(9)), (id(9), asn(1))),
        Keep(Side::Theirs)
    );
    assert_eq!(
        collision((id(5), asn(9)), (id(5), asn(1))),
        Keep(Side::Ours)
    );
}
