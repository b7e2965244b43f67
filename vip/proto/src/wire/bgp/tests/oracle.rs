//! Our codec beside another one, written by others: rustbgpd's. The same bytes say the same to
//! both, and what one writes the other reads.

use std::net::IpAddr;

use bytes::Bytes;
use kedge_core::bgp::RouterId;
use proptest::prelude::*;
use rustbgpd_wire as other;

use super::{
    builder::{EXTERNAL, HOST, INTERNAL, Raw, body, mandatory, raw, read},
    laws::{any_attributes, any_prefix},
    updates::{asn, prefix, said},
};
use crate::wire::bgp::{
    Action, AsPath, Attributes, Capability, Context, ExtendedNextHop, Family, Frame, HoldTime,
    Message, Messages, NextHop, Notification, Open, Prefix, RouteRefresh, Segment, SegmentKind,
    Subtype, Text, announce, cease, codes, withdraw,
};

/// One whole message, as they read it.
fn theirs(bytes: &[u8]) -> other::Message {
    let mut bytes = Bytes::copy_from_slice(bytes);
    let message = other::decode_message(&mut bytes, other::MAX_MESSAGE_LEN).unwrap();
    assert!(bytes.is_empty());
    message
}

/// One whole message, as we read it.
fn ours(bytes: &[u8]) -> Message {
    let (frame, rest) = Frame::split(bytes).unwrap().unwrap();
    assert!(rest.is_empty());
    Message::parse(&frame, &EXTERNAL).unwrap()
}

fn parsed(message: other::Message) -> other::update::RevisedParsedUpdate {
    match message {
        other::Message::Update(update) => update.parse_revised(true, true, false, &[]).unwrap(),
        message => panic!("{message:?}"),
    }
}

/// Their routes of a message: where to, and over what.
fn routes(update: &other::update::ParsedUpdate) -> (Vec<Prefix>, Vec<Prefix>) {
    let four = |entry: &other::nlri::Ipv4NlriEntry| {
        Prefix::new(IpAddr::V4(entry.prefix.addr), entry.prefix.len).unwrap()
    };
    let any = |entry: &other::nlri::NlriEntry| match entry.prefix {
        other::nlri::Prefix::V4(prefix) => {
            Prefix::new(IpAddr::V4(prefix.addr), prefix.len).unwrap()
        }
        other::nlri::Prefix::V6(prefix) => {
            Prefix::new(IpAddr::V6(prefix.addr), prefix.len).unwrap()
        }
    };
    let mut announced: Vec<Prefix> = update.announced.iter().map(four).collect();
    let mut withdrawn: Vec<Prefix> = update.withdrawn.iter().map(four).collect();
    for attribute in &update.attributes {
        match attribute {
            other::PathAttribute::MpReachNlri(reach) => {
                announced.extend(reach.announced.iter().map(any))
            }
            other::PathAttribute::MpUnreachNlri(unreach) => {
                withdrawn.extend(unreach.withdrawn.iter().map(any))
            }
            _ => {}
        }
    }
    (announced, withdrawn)
}

/// Our attributes in their words.
fn translated(attributes: &Attributes) -> Vec<other::PathAttribute> {
    let segment = |segment: &Segment| {
        let asns = segment.asns().iter().map(|asn| asn.get()).collect();
        match segment.kind() {
            SegmentKind::Set => other::AsPathSegment::AsSet(asns),
            SegmentKind::Sequence => other::AsPathSegment::AsSequence(asns),
        }
    };
    let mut all = vec![
        other::PathAttribute::Origin(other::Origin::from_u8(attributes.origin.code()).unwrap()),
        other::PathAttribute::AsPath(other::AsPath {
            segments: attributes.as_path.segments().iter().map(segment).collect(),
        }),
    ];
    all.extend(attributes.med.map(other::PathAttribute::Med));
    all.extend(attributes.local_pref.map(other::PathAttribute::LocalPref));
    let bits = |all: &[kedge_core::bgp::Community]| all.iter().map(|one| one.bits()).collect();
    if !attributes.communities.is_empty() {
        all.push(other::PathAttribute::Communities(bits(
            &attributes.communities,
        )));
    }
    if !attributes.extended.is_empty() {
        let each = attributes.extended.iter();
        let each = each.map(|one| other::ExtendedCommunity::new(one.bits()));
        all.push(other::PathAttribute::ExtendedCommunities(each.collect()));
    }
    if !attributes.large.is_empty() {
        let each = attributes.large.iter().map(|one| {
            let [a, b, c] = one.parts();
            other::LargeCommunity::new(a, b, c)
        });
        all.push(other::PathAttribute::LargeCommunities(each.collect()));
    }
    all
}

/// Without what they refuse, sets in paths (RFC 9774), and what they take for the same: of equal
/// communities one counts (RFC 8092 section 5).
fn plain(mut attributes: Attributes) -> Attributes {
    let mut seen = std::collections::BTreeSet::new();
    attributes.large.retain(|one| seen.insert(*one));
    let parts = attributes.as_path.segments().iter();
    let parts = parts.filter(|part| part.kind() == SegmentKind::Sequence);
    attributes.as_path = AsPath::new(parts.cloned().collect());
    attributes
}

fn each(messages: &Messages) -> Vec<&[u8]> {
    let mut rest = messages.bytes.as_slice();
    let mut all = Vec::new();
    while let Some((_, after)) = Frame::split(rest).unwrap() {
        all.push(&rest[..rest.len() - after.len()]);
        rest = after;
    }
    all
}

/// What they do about an UPDATE: nothing, or their strongest action.
fn verdict(body: &[u8], context: &Context) -> Result<Option<Action>, ()> {
    let mut bytes = body;
    let update = other::UpdateMessage::decode(&mut bytes, body.len()).map_err(|_| ())?;
    let revised = update
        .parse_revised(context.four_octet, context.internal, false, &[])
        .map_err(|_| ())?;
    let worst = revised.malformed.iter().map(|one| one.disposition).max();
    Ok(match worst {
        None => None,
        Some(other::validate::ErrorDisposition::AttributeDiscard) => Some(Action::AttributeDiscard),
        Some(other::validate::ErrorDisposition::TreatAsWithdraw) => Some(Action::TreatAsWithdraw),
        Some(other::validate::ErrorDisposition::SessionReset) => return Err(()),
    })
}

fn any_bent() -> impl Strategy<Value = Raw> {
    let code = prop::sample::select(vec![1_u8, 2, 4, 6, 7, 8, 16, 32, 14, 15]);
    let flags = prop_oneof![
        6 => Just(None),
        1 => prop::sample::select(vec![0x40_u8, 0x80, 0xc0]).prop_map(Some),
    ];
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..26),
        prop::collection::vec(0..3_u8, 0..26),
    ];
    (code, flags, value).prop_map(|(code, flags, value)| {
        let usual = match code {
            1 | 2 | 6 => 0x40,
            4 | 14 | 15 => 0x80,
            _ => 0xc0,
        };
        raw(flags.unwrap_or(usual), code, &value)
    })
}

/// Where we read the RFCs another way than they do, and why.
fn differs_knowingly(raw: &Raw, context: &Context) -> bool {
    let is_foreign = matches!(raw.code, 14 | 15)
        && raw
            .value
            .get(..3)
            .is_some_and(|head| !matches!(head, [0, 1 | 2, 1]));
    // They end the session over a kind of routes that they do not know, we pass over it.
    let unknown_kind = is_foreign;
    // They take next hops of IPv6 for IPv4 whether or not that was agreed on.
    let next_hop = raw.code == 14
        && raw
            .value
            .get(..4)
            .is_some_and(|head| matches!(head, [0, 1, 1, 16 | 32]));
    // The zero of RFC 7607 they look for later, and sets they refuse (RFC 9774).
    let zero = match raw.code {
        2 => has_set_or_zero(&raw.value, if context.four_octet { 4 } else { 2 }),
        7 => raw.value.len() == if context.four_octet { 8 } else { 6 },
        _ => false,
    };
    // A length of zero is a flaw of the whole route to us (RFC 7606 section 4).
    let empty = raw.value.is_empty() && raw.code == 7;
    unknown_kind || next_hop || zero || empty
}

/// A path that is whole, and has a set, the number zero or a part without numbers in it (RFC 7606
/// section 7.2 has the last one malformed).
fn has_set_or_zero(mut path: &[u8], width: usize) -> bool {
    let mut found = false;
    while let [kind @ (1 | 2), count, rest @ ..] = path {
        let Some((asns, after)) = rest.split_at_checked(usize::from(*count) * width) else {
            return false;
        };
        found |= *kind == 1
            || asns.is_empty()
            || asns
                .chunks(width)
                .any(|asn| asn.iter().all(|byte| *byte == 0));
        path = after;
    }
    path.is_empty() && found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn they_read_what_we_write(attributes in any_attributes(), four in prop::collection::vec(any_prefix(Family::Ipv4), 0..600), six in prop::collection::vec(any_prefix(Family::Ipv6), 0..300)) {
        let attributes = plain(attributes);
        let over_four = NextHop::V4("10.0.0.1".parse().unwrap());
        let over_six = NextHop::V6("2001:db8::1".parse().unwrap(), Some("fe80::1".parse().unwrap()));
        for (hop, prefixes) in [(over_four, &four), (over_six, &six)] {
            let messages = announce(&attributes, hop, prefixes, true).unwrap();
            let mut found = Vec::new();
            for message in each(&messages) {
                let update = parsed(theirs(message));
                prop_assert_eq!(&update.malformed, &[]);
                found.extend(routes(&update.update).0);
                for attribute in translated(&attributes) {
                    prop_assert!(update.update.attributes.contains(&attribute), "{attribute:?} in {update:?}");
                }
                let is_there = update.update.attributes.iter().any(|attribute| match attribute {
                    other::PathAttribute::NextHop(address) => NextHop::V4(*address) == hop,
                    other::PathAttribute::MpReachNlri(reach) => match reach.next_hop {
                        IpAddr::V6(global) => NextHop::V6(global, reach.link_local_next_hop) == hop,
                        IpAddr::V4(_) => false,
                    },
                    _ => false,
                });
                prop_assert!(is_there);
            }
            prop_assert_eq!(&found, prefixes);
        }
        let both = [four, six].concat();
        let messages = withdraw(&both);
        let found: Vec<Prefix> = each(&messages).into_iter().flat_map(|message| routes(&parsed(theirs(message)).update).1).collect();
        prop_assert_eq!(found, both);
    }

    #[test]
    fn we_read_what_they_write(attributes in any_attributes(), four in prop::collection::vec(any_prefix(Family::Ipv4), 1..200), four_octet in any::<bool>()) {
        let attributes = plain(attributes);
        let entries: Vec<_> = four.iter().map(|prefix| match prefix.address() {
            IpAddr::V4(addr) => other::nlri::Ipv4NlriEntry { path_id: 0, prefix: other::nlri::Ipv4Prefix::new(addr, prefix.length()) },
            IpAddr::V6(_) => panic!(),
        }).collect();
        let mut all = translated(&attributes);
        all.push(other::PathAttribute::NextHop("10.0.0.1".parse().unwrap()));
        let mode = other::update::Ipv4UnicastMode::Body;
        let update = other::UpdateMessage::build(&entries, &[], &all, four_octet, false, mode);
        let bytes = other::encode_message(&other::Message::Update(update)).unwrap();
        let messages = Messages { bytes: bytes.to_vec(), count: 1 };
        let context = Context { four_octet, ..INTERNAL };
        let [update] = said(&messages, &context).try_into().unwrap();
        prop_assert_eq!(update.faults, &[]);
        let found: Vec<Prefix> = update.announced.iter().map(|route| route.prefix).collect();
        prop_assert_eq!(found, four);
        let read = update.attributes.unwrap();
        let expected = Attributes { as_path: if four_octet { attributes.as_path.clone() } else { read.as_path.clone() }, ..attributes };
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn both_do_the_same_about_what_is_wrong(bent in any_bent(), internal in any::<bool>(), four_octet in any::<bool>()) {
        let context = Context { internal, four_octet, extended_next_hop: false };
        let mut all = mandatory(&context);
        all.retain(|raw| raw.code != bent.code);
        all.push(bent.clone());
        let body = body(&[], &all, &HOST);
        let ours = read(&body, &context).map(|update| update.action()).map_err(|_| ());
        if !differs_knowingly(&bent, &context) {
            prop_assert_eq!(ours, verdict(&body, &context), "{:?} of {:?}", bent, context);
        }
    }
}

#[test]
fn both_read_the_same_open() {
    let open = Open {
        asn: asn(4_200_000_001),
        hold_time: HoldTime::from_secs(9).unwrap(),
        router_id: RouterId::new(0x0a00_0001).unwrap(),
        capabilities: vec![
            Capability::of(Family::Ipv4),
            Capability::of(Family::Ipv6),
            Capability::RouteRefresh,
            Capability::ExtendedNextHop(vec![ExtendedNextHop::IPV4_OVER_IPV6]),
            Capability::GracefulRestart {
                restarted: false,
                notification: true,
                seconds: 120,
                families: vec![(1, 1, 0x80)],
            },
            Capability::FourOctetAs(asn(4_200_000_001)),
            Capability::EnhancedRouteRefresh,
        ],
    };
    let mut bytes = Vec::new();
    open.put(&mut bytes);
    let other::Message::Open(read) = theirs(&bytes) else {
        panic!("no OPEN to them");
    };
    assert_eq!(
        (read.my_as, read.four_byte_as(), read.hold_time),
        (23_456, 4_200_000_001, 9)
    );
    assert_eq!(read.bgp_identifier.to_bits(), 0x0a00_0001);
    assert_eq!(read.capabilities.len(), open.capabilities.len());
    // And back, as they write it.
    let bytes = other::encode_message(&other::Message::Open(read)).unwrap();
    assert_eq!(ours(&bytes), Message::Open(open));
}

#[test]
fn both_read_the_same_goodbyes_and_refreshes() {
    let text = "rack 7 moves, back at 18:00";
    let mut bytes = Vec::new();
    Notification::shutdown(&Text::new(text)).put(&mut bytes);
    let other::Message::Notification(read) = theirs(&bytes) else {
        panic!("no NOTIFICATION to them");
    };
    assert_eq!(
        (read.code.as_u8(), read.subcode),
        (codes::CEASE, cease::SHUTDOWN)
    );
    let said = other::notification::decode_shutdown_communication(&read.data);
    assert_eq!(said.as_deref(), Some(text));
    let bytes = other::encode_message(&other::Message::Notification(read)).unwrap();
    let Message::Notification(back) = ours(&bytes) else {
        panic!("no NOTIFICATION to us");
    };
    assert_eq!(back.text(), Some(Text::new(text)));
    for subtype in [Subtype::Request, Subtype::Begin, Subtype::End] {
        let refresh = RouteRefresh::of(Family::Ipv6, subtype);
        let mut bytes = Vec::new();
        refresh.put(&mut bytes);
        let message = theirs(&bytes);
        assert!(
            matches!(message, other::Message::RouteRefresh(_)),
            "{message:?}"
        );
        let again = other::encode_message(&message).unwrap();
        assert_eq!(ours(&again), Message::RouteRefresh(refresh));
    }
}

#[test]
fn both_restore_a_path_through_two_bytes() {
    let path = AsPath::sequence(&[asn(65_014), asn(4_200_000_001)]);
    let attributes = Attributes::new(path.clone());
    let hop = NextHop::V4("10.0.0.1".parse().unwrap());
    let messages = announce(&attributes, hop, &[prefix("192.0.2.1")], false).unwrap();
    let other::Message::Update(update) = theirs(&messages.bytes) else {
        panic!("no UPDATE to them");
    };
    let read = update
        .parse_revised(false, false, false, &[])
        .unwrap()
        .update;
    let numbers = path.segments()[0]
        .asns()
        .iter()
        .map(|asn| asn.get())
        .collect();
    let expected = other::PathAttribute::AsPath(other::AsPath {
        segments: vec![other::AsPathSegment::AsSequence(numbers)],
    });
    assert!(read.attributes.contains(&expected), "{:?}", read.attributes);
}
