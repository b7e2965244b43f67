//! What holds of any bytes, and of any message.

use kedge_core::bgp::{Asn, Community, ExtendedCommunity, LargeCommunity, RouterId};
use proptest::prelude::*;

use super::{
    builder::{Raw, body, mandatory, raw, read},
    updates::said,
};
use crate::wire::bgp::{
    Action, AsPath, Attributes, Capability, Context, ExtendedNextHop, Family, Frame, HoldTime,
    Kind, Message, NextHop, Notification, Open, Origin, Prefix, RouteRefresh, Segment, SegmentKind,
    Subtype, Update, announce, withdraw,
};

fn any_context() -> impl Strategy<Value = Context> {
    any::<[bool; 3]>().prop_map(|[internal, four_octet, extended_next_hop]| Context {
        internal,
        four_octet,
        extended_next_hop,
    })
}

fn any_asn() -> impl Strategy<Value = Asn> {
    prop_oneof![1..70_000_u32, 1..=u32::MAX].prop_map(|number| Asn::new(number).unwrap())
}

fn any_path() -> impl Strategy<Value = AsPath> {
    let kind = prop::sample::select(vec![SegmentKind::Set, SegmentKind::Sequence]);
    let segment = (kind, prop::collection::vec(any_asn(), 1..20))
        .prop_map(|(kind, asns)| Segment::new(kind, asns).unwrap());
    prop::collection::vec(segment, 0..4).prop_map(AsPath::new)
}

pub(super) fn any_attributes() -> impl Strategy<Value = Attributes> {
    let origin = prop::sample::select(vec![Origin::Igp, Origin::Egp, Origin::Incomplete]);
    let communities = (
        prop::collection::vec(any::<u32>().prop_map(Community::from_bits), 0..70),
        prop::collection::vec(any::<u64>().prop_map(ExtendedCommunity::from_bits), 0..40),
        prop::collection::vec(any::<[u32; 3]>().prop_map(LargeCommunity::new), 0..30),
    );
    let numbers = (any::<Option<u32>>(), any::<u32>());
    (origin, any_path(), numbers, communities).prop_map(
        |(origin, as_path, (med, local_pref), (communities, extended, large))| Attributes {
            origin,
            as_path,
            med,
            local_pref: Some(local_pref),
            communities,
            extended,
            large,
        },
    )
}

pub(super) fn any_prefix(family: Family) -> impl Strategy<Value = Prefix> {
    (any::<u128>(), 0..=family.bits()).prop_map(move |(bits, length)| {
        let address = match family {
            Family::Ipv4 => {
                std::net::Ipv4Addr::from_bits(u32::try_from(bits >> 96).unwrap()).into()
            }
            Family::Ipv6 => std::net::Ipv6Addr::from_bits(bits).into(),
        };
        Prefix::new(address, length).unwrap()
    })
}

fn any_capability() -> impl Strategy<Value = Capability> {
    let way = (any::<[u16; 3]>()).prop_map(|[afi, safi, next_hop]| ExtendedNextHop {
        afi,
        safi,
        next_hop,
    });
    prop_oneof![
        any::<(u16, u8)>().prop_map(|(afi, safi)| Capability::Multiprotocol(afi, safi)),
        Just(Capability::RouteRefresh),
        prop::collection::vec(way, 0..5).prop_map(Capability::ExtendedNextHop),
        Just(Capability::ExtendedMessage),
        any_asn().prop_map(Capability::FourOctetAs),
        Just(Capability::EnhancedRouteRefresh),
        (
            any::<[bool; 2]>(),
            0..4096_u16,
            prop::collection::vec(any::<(u16, u8, u8)>(), 0..5)
        )
            .prop_map(|([restarted, notification], seconds, families)| {
                Capability::GracefulRestart {
                    restarted,
                    notification,
                    seconds,
                    families,
                }
            }),
        (200..=255_u8).prop_map(Capability::Other),
    ]
}

fn any_open() -> impl Strategy<Value = Open> {
    let hold = prop_oneof![Just(0), 3..=u16::MAX];
    (
        any_asn(),
        hold,
        1..=u32::MAX,
        prop::collection::vec(any_capability(), 0..40),
    )
        .prop_map(|(asn, hold, router_id, capabilities)| {
            let first = capabilities.iter().find_map(|one| match one {
                Capability::FourOctetAs(asn) => Some(*asn),
                _ => None,
            });
            Open {
                asn: first.unwrap_or(Asn::new(u32::from(asn.short())).unwrap()),
                hold_time: HoldTime::from_secs(hold).unwrap(),
                router_id: RouterId::new(router_id).unwrap(),
                capabilities,
            }
        })
}

fn any_message() -> impl Strategy<Value = Message> {
    let subtype = (0..=255_u8).prop_map(|code| match code {
        0..100 => Subtype::Request,
        100..150 => Subtype::Begin,
        150..200 => Subtype::End,
        other => Subtype::Other(other),
    });
    prop_oneof![
        any_open().prop_map(Message::Open),
        (
            any::<(u8, u8)>(),
            prop::collection::vec(any::<u8>(), 0..300)
        )
            .prop_map(
                |((code, subcode), data)| Message::Notification(Notification::new(
                    code, subcode, data
                ))
            ),
        Just(Message::Keepalive),
        (any::<(u16, u8)>(), subtype)
            .prop_map(|(family, subtype)| Message::RouteRefresh(RouteRefresh { family, subtype })),
    ]
}

/// The flawed and the right, in any order.
fn any_raw() -> impl Strategy<Value = Raw> {
    let code = prop_oneof![5 => 1..=18_u8, 1 => any::<u8>(), 1 => Just(32)];
    let flags = prop_oneof![
        Just(0x40),
        Just(0x80),
        Just(0xc0),
        any::<u8>().prop_map(|flags| flags & !0x10)
    ];
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..24),
        prop::collection::vec(0..3_u8, 0..24),
    ];
    (flags, code, value, prop::bool::weighted(0.05)).prop_map(|(flags, code, value, over)| Raw {
        excess: u8::from(over),
        ..raw(flags, code, &value)
    })
}

/// What holds of every UPDATE that was read.
fn sound(update: &Update) {
    assert_eq!(update.attributes.is_some(), !update.announced.is_empty());
    assert_ne!(update.action(), Some(Action::SessionReset));
    let refused = update.action() == Some(Action::TreatAsWithdraw);
    assert!(!refused || update.announced.is_empty());
    assert!(refused || update.refused.is_empty());
    if update.end_of_rib.is_some() {
        assert!(
            update.announced.is_empty() && update.withdrawn.is_empty() && update.refused.is_empty()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), context in any_context(), kind in 1..=5_u8) {
        let _ = Frame::split(&bytes);
        let kinds = [Kind::Open, Kind::Update, Kind::Notification, Kind::Keepalive, Kind::RouteRefresh];
        let kind = kinds[usize::from(kind) - 1];
        if let Ok(Message::Update(update)) = Message::parse(&Frame { kind, body: &bytes }, &context) {
            sound(&update);
        }
    }

    #[test]
    fn no_attributes_do_harm(raws in prop::collection::vec(any_raw(), 0..12), context in any_context(), withdrawn in prop::collection::vec(0..9_u8, 0..6), announced in prop::collection::vec(0..9_u8, 0..6)) {
        let mut all = mandatory(&context);
        all.extend(raws);
        if let Ok(update) = read(&body(&withdrawn, &all, &announced), &context) {
            sound(&update);
        }
    }

    /// Who shuffles attributes changes nothing but the order of complaints.
    #[test]
    fn the_order_of_attributes_says_nothing(raws in prop::collection::vec(any_raw(), 0..8), context in any_context(), seed in any::<u64>()) {
        let mut all = mandatory(&context);
        for raw in raws {
            // Of two the first counts, and where one ends beyond the end matters.
            if raw.excess == 0 && all.iter().all(|other| other.code != raw.code) {
                all.push(raw);
            }
        }
        let mut shuffled = all.clone();
        let mut state = seed | 1;
        for index in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let other = usize::try_from(state >> 33).unwrap() % (index + 1);
            shuffled.swap(index, other);
        }
        let announced = [32, 192, 0, 2, 1];
        let sorted = |attributes: &[Raw]| read(&body(&[], attributes, &announced), &context).map(|mut update| {
            update.faults.sort();
            update
        });
        match (sorted(&all), sorted(&shuffled)) {
            (Ok(one), Ok(other)) => prop_assert_eq!(one, other),
            (Err(_), Err(_)) => {}
            (one, other) => prop_assert!(false, "{one:?} and {other:?}"),
        }
    }

    #[test]
    fn what_is_written_reads_back(message in any_message(), context in any_context()) {
        let mut bytes = Vec::new();
        match &message {
            Message::Open(open) => open.put(&mut bytes),
            Message::Notification(notification) => notification.put(&mut bytes),
            Message::Keepalive => bytes = crate::wire::bgp::keepalive().bytes,
            Message::RouteRefresh(refresh) => refresh.put(&mut bytes),
            Message::Update(_) => {}
        }
        let (frame, rest) = Frame::split(&bytes).unwrap().unwrap();
        prop_assert!(rest.is_empty());
        prop_assert_eq!(Message::parse(&frame, &context), Ok(message));
    }

    #[test]
    fn routes_that_are_written_read_back(attributes in any_attributes(), four in prop::collection::vec(any_prefix(Family::Ipv4), 0..900), six in prop::collection::vec(any_prefix(Family::Ipv6), 0..300), link in any::<bool>(), four_octet in any::<bool>()) {
        let context = Context { internal: true, four_octet, extended_next_hop: true };
        let link_local = link.then(|| "fe80::1".parse().unwrap());
        let over_six = NextHop::V6("2001:db8::1".parse().unwrap(), link_local);
        let over_four = NextHop::V4("10.0.0.1".parse().unwrap());
        for (hop, prefixes) in [(over_four, &four), (over_six, &four), (over_six, &six)] {
            let messages = announce(&attributes, hop, prefixes, four_octet).unwrap();
            let mut found = Vec::new();
            for update in said(&messages, &context) {
                prop_assert_eq!(&update.faults, &[]);
                let read = update.attributes.unwrap();
                // Paths through two bytes may come back in other parts, with the same hops.
                prop_assert_eq!(read.as_path.hops(), attributes.as_path.hops());
                let expected = Attributes { as_path: read.as_path.clone(), ..attributes.clone() };
                prop_assert_eq!(&read, &expected);
                if four_octet {
                    prop_assert_eq!(&read.as_path, &attributes.as_path);
                }
                found.extend(update.announced.iter().map(|route| {
                    assert_eq!(route.next_hop, hop);
                    route.prefix
                }));
            }
            prop_assert_eq!(&found, prefixes);
        }
        let both = [four.clone(), six.clone()].concat();
        let found: Vec<Prefix> = said(&withdraw(&both), &context).into_iter().flat_map(|update| update.withdrawn).collect();
        prop_assert_eq!(found, both);
    }

    /// Cut anywhere, or bent in a bit, a message of ours does no harm.
    #[test]
    fn a_bent_message_does_no_harm(attributes in any_attributes(), prefixes in prop::collection::vec(any_prefix(Family::Ipv6), 0..5), at in any::<prop::sample::Index>(), bit in 0..8_u8, context in any_context()) {
        let hop = NextHop::V6("2001:db8::1".parse().unwrap(), None);
        let whole = announce(&attributes, hop, &prefixes, context.four_octet).unwrap().bytes;
        if !whole.is_empty() {
            let at = at.index(whole.len());
            let mut bent = whole.clone();
            bent[at] ^= 1 << bit;
            for bytes in [&bent[..], &whole[..at]] {
                if let Ok(Some((frame, _))) = Frame::split(bytes)
                    && let Ok(Message::Update(update)) = Message::parse(&frame, &context)
                {
                    sound(&update);
                }
            }
        }
    }
}
