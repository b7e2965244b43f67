//! UPDATEs that are right: as they are read, and as they are written.

use std::net::{Ipv4Addr, Ipv6Addr};

use kedge_core::bgp::{Asn, Community, ExtendedCommunity, LargeCommunity};

use super::builder::{EXTERNAL, HOST, INTERNAL, body, mandatory, raw, read};
use crate::wire::bgp::{
    AsPath, Attributes, Context, Family, Frame, MAX_LEN, Message, Messages, NextHop, Origin,
    Prefix, Segment, SegmentKind, TooLarge, Update, announce, end_of_rib, withdraw,
};

pub(super) fn asn(number: u32) -> Asn {
    Asn::new(number).unwrap()
}

pub(super) fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// What messages say, each of them whole and no longer than may be.
pub(super) fn said(messages: &Messages, context: &Context) -> Vec<Update> {
    let mut rest = messages.bytes.as_slice();
    let mut all = Vec::new();
    while let Some((frame, after)) = Frame::split(rest).unwrap() {
        assert!(rest.len() - after.len() <= MAX_LEN);
        let Ok(Message::Update(update)) = Message::parse(&frame, context) else {
            panic!("not read: {frame:?}");
        };
        all.push(update);
        rest = after;
    }
    assert_eq!(
        (rest.len(), all.len()),
        (0, usize::try_from(messages.count).unwrap())
    );
    all
}

fn full() -> Attributes {
    Attributes {
        origin: Origin::Incomplete,
        as_path: AsPath::sequence(&[asn(4_200_000_001), asn(65_014)]),
        med: Some(10),
        local_pref: Some(200),
        communities: vec![
            Community::GRACEFUL_SHUTDOWN,
            Community::from_bits(0xfdf6_0001),
        ],
        extended: vec![ExtendedCommunity::from_bits(0x0002_fdf6_0000_0064)],
        large: vec![LargeCommunity::new([4_200_000_001, 1, 2])],
    }
}

const HOP: NextHop = NextHop::V4(Ipv4Addr::new(10, 0, 0, 1));

#[test]
fn a_route_of_ipv4_is_written_as_the_rfc_has_it() {
    let messages = announce(
        &full(),
        HOP,
        &[prefix("192.0.2.1"), prefix("10.0.0.0/9")],
        true,
    );
    #[rustfmt::skip]
    let expected = [
        &[0xff; 16][..], &[0, 106, 2],
        &[0, 0], &[0, 75],
        &[0x40, 1, 1, 2],
        &[0x40, 2, 10, 2, 2, 0xfa, 0x56, 0xea, 0x01, 0, 0, 0xfd, 0xf6],
        &[0x40, 3, 4, 10, 0, 0, 1],
        &[0x80, 4, 4, 0, 0, 0, 10],
        &[0x40, 5, 4, 0, 0, 0, 200],
        &[0xc0, 8, 8, 0xff, 0xff, 0, 0, 0xfd, 0xf6, 0, 1],
        &[0xc0, 16, 8, 0, 2, 0xfd, 0xf6, 0, 0, 0, 0x64],
        &[0xc0, 32, 12, 0xfa, 0x56, 0xea, 0x01, 0, 0, 0, 1, 0, 0, 0, 2],
        &[32, 192, 0, 2, 1], &[9, 10, 0],
    ].concat();
    assert_eq!(
        messages.as_ref().map(|messages| messages.bytes.clone()),
        Ok(expected)
    );
    let [update] = said(&messages.unwrap(), &INTERNAL).try_into().unwrap();
    assert_eq!(update.attributes, Some(full()));
    assert_eq!(update.announced.len(), 2);
    assert_eq!(update.faults, []);
}

#[test]
fn destinations_in_attributes_stand_first() {
    let hop = NextHop::V6(
        "2001:db8::1".parse().unwrap(),
        Some("fe80::1".parse().unwrap()),
    );
    let messages = announce(&full(), hop, &[prefix("2001:db8::a")], true).unwrap();
    // Flags, code, length; AFI, SAFI; the length of the next hop.
    assert_eq!(messages.bytes[23..30], [0x80, 14, 54, 0, 2, 1, 32]);
    let [update] = said(&messages, &INTERNAL).try_into().unwrap();
    assert_eq!(update.announced[0].next_hop, hop);
    assert_eq!(update.announced[0].prefix, prefix("2001:db8::a/128"));
    let messages = withdraw(&[prefix("2001:db8::a")]);
    assert_eq!(messages.bytes[23..29], [0x80, 15, 20, 0, 2, 1]);
}

/// RFC 8950.
#[test]
fn ipv4_goes_over_ipv6_where_both_agreed() {
    let hop = NextHop::V6("fe80::1".parse().unwrap(), None);
    let messages = announce(&full(), hop, &[prefix("192.0.2.1")], true).unwrap();
    let agreed = Context {
        extended_next_hop: true,
        ..INTERNAL
    };
    let [update] = said(&messages, &agreed).try_into().unwrap();
    assert_eq!(update.announced[0].prefix, prefix("192.0.2.1/32"));
    assert_eq!(update.announced[0].next_hop, hop);
    let (frame, _) = Frame::split(&messages.bytes).unwrap().unwrap();
    assert!(Message::parse(&frame, &INTERNAL).is_err());
    // IPv6 goes over IPv4 nowhere.
    assert!(
        announce(&full(), HOP, &[prefix("::1")], true)
            .unwrap()
            .is_empty()
    );
}

/// RFC 6793.
#[test]
fn a_long_number_passes_by_who_speaks_two_bytes() {
    let two = Context {
        four_octet: false,
        ..INTERNAL
    };
    let messages = announce(&full(), HOP, &[prefix("192.0.2.1")], false).unwrap();
    let has = |bytes: &[u8]| {
        messages
            .bytes
            .windows(bytes.len())
            .any(|window| window == bytes)
    };
    assert!(
        has(&[0x40, 2, 6, 2, 2, 0x5b, 0xa0, 0xfd, 0xf6]),
        "the path in two bytes"
    );
    assert!(
        has(&[0xc0, 17, 10, 2, 2, 0xfa, 0x56, 0xea, 0x01]),
        "the path in four"
    );
    let [update] = said(&messages, &two).try_into().unwrap();
    assert_eq!(update.attributes.unwrap().as_path, full().as_path);
    // Without a long number there is nothing to add.
    let short = Attributes::new(AsPath::sequence(&[asn(65_014)]));
    let messages = announce(&short, HOP, &[prefix("192.0.2.1")], false).unwrap();
    assert!(!messages.bytes.windows(2).any(|window| window == [0xc0, 17]));
}

#[test]
fn of_two_paths_the_longer_one_leads() {
    let path =
        |numbers: &[u32]| AsPath::sequence(&numbers.iter().copied().map(asn).collect::<Vec<_>>());
    let two = Context {
        four_octet: false,
        ..EXTERNAL
    };
    let with = |path: &[u8], long: &[u8], aggregator: Option<&[u8]>| {
        let mut all = vec![
            raw(0xc0, 17, long),
            raw(0x40, 1, &[0]),
            raw(0x40, 2, path),
            raw(0x40, 3, &[10, 0, 0, 1]),
        ];
        all.extend(aggregator.map(|value| raw(0xc0, 7, value)));
        read(&body(&[], &all, &HOST), &two)
            .unwrap()
            .attributes
            .unwrap()
            .as_path
    };
    let long = [2, 2, 0, 1, 0, 0, 0, 0, 0, 9];
    // One more went before, in two bytes.
    assert_eq!(
        with(&[2, 3, 0, 7, 0x5b, 0xa0, 0, 9], &long, None),
        path(&[7, 65_536, 9])
    );
    // Somebody shortened it: then it is not of this path.
    assert_eq!(with(&[2, 1, 0, 7], &long, None), path(&[7]));
    // Put together again by somebody who does not know of it.
    let anew = [0, 8, 1, 1, 1, 1];
    assert_eq!(with(&[2, 2, 0, 7, 0, 8], &long, Some(&anew)), path(&[7, 8]));
    let known = [0x5b, 0xa0, 1, 1, 1, 1];
    assert_eq!(
        with(&[2, 2, 0, 7, 0, 8], &long, Some(&known)),
        path(&[65_536, 9])
    );
    // A set counts once.
    let set = [1, 2, 0, 7, 0, 8, 2, 2, 0, 1, 0, 2];
    let expected = AsPath::new(vec![
        Segment::new(SegmentKind::Set, vec![asn(7), asn(8)]).unwrap(),
        Segment::new(SegmentKind::Sequence, vec![asn(65_536), asn(9)]).unwrap(),
    ]);
    assert_eq!(with(&set, &long, None), expected);
    assert_eq!(expected.to_string(), "{7,8} 65536 9");
}

/// RFC 4724 section 2.
#[test]
fn the_end_of_all_routes_is_a_message_without_any() {
    for family in Family::ALL {
        let messages = end_of_rib(family);
        let [update] = said(&messages, &EXTERNAL).try_into().unwrap();
        let expected = Update {
            end_of_rib: Some(family),
            ..Update::default()
        };
        assert_eq!(update, expected);
    }
    assert_eq!(end_of_rib(Family::Ipv4).bytes.len(), 23);
    // One that takes something back, or says something, is no end.
    let unreach = raw(0x80, 15, &[0, 2, 1]);
    for (withdrawn, more) in [(&HOST[..], vec![]), (&[], vec![raw(0x40, 1, &[0])])] {
        let all = [vec![unreach.clone()], more].concat();
        assert_eq!(
            read(&body(withdrawn, &all, &[]), &EXTERNAL)
                .unwrap()
                .end_of_rib,
            None
        );
    }
}

#[test]
fn a_thousand_routes_need_few_messages() {
    let four: Vec<Prefix> = (0..1_000)
        .map(|n| Prefix::host(Ipv4Addr::from_bits(0x0a00_0000 + n).into()))
        .collect();
    let six: Vec<Prefix> = (0..1_000)
        .map(|n| Prefix::host(Ipv6Addr::from_bits((0x2001_0db8 << 96) + n).into()))
        .collect();
    let hop = NextHop::V6("2001:db8::1".parse().unwrap(), None);
    let all = |messages: &Messages| -> Vec<Prefix> {
        let updates = said(messages, &INTERNAL);
        updates
            .iter()
            .flat_map(|update| {
                update
                    .announced
                    .iter()
                    .map(|route| route.prefix)
                    .chain(update.withdrawn.clone())
            })
            .collect()
    };
    let messages = announce(&full(), HOP, &four, true).unwrap();
    assert_eq!((messages.count, all(&messages)), (2, four.clone()));
    let messages = announce(&full(), hop, &six, true).unwrap();
    assert_eq!((messages.count, all(&messages)), (5, six.clone()));
    let both = [six.clone(), four.clone()].concat();
    let messages = withdraw(&both);
    assert_eq!(
        (messages.count, all(&messages)),
        (2 + 5, [four, six].concat())
    );
}

#[test]
fn what_no_message_holds_is_refused() {
    let many = Attributes {
        large: vec![LargeCommunity::new([1, 2, 3]); 336],
        ..Attributes::new(AsPath::default())
    };
    let one = [prefix("192.0.2.1")];
    assert!(announce(&many, HOP, &one, true).is_ok());
    let many = Attributes {
        large: vec![LargeCommunity::new([1, 2, 3]); 400],
        ..many
    };
    assert_eq!(announce(&many, HOP, &one, true), Err(TooLarge));
    let huge = Attributes {
        communities: vec![Community::NO_EXPORT; 20_000],
        ..many
    };
    assert_eq!(announce(&huge, HOP, &one, true), Err(TooLarge));
}

#[test]
fn routes_of_a_kind_that_nobody_knows_harm_none() {
    let mut all = mandatory(&EXTERNAL);
    // Labelled ones, of which not a byte is looked at.
    all.push(raw(0x80, 14, &[0, 1, 4, 4, 10, 0, 0, 1, 0, 0xff, 0xff]));
    all.push(raw(0x80, 15, &[0, 25, 70, 0xff]));
    let update = read(&body(&[], &all, &HOST), &EXTERNAL).unwrap();
    assert!(update.foreign && update.faults.is_empty());
    assert_eq!(update.announced.len(), 1);
    // But where its next hop ends has to be known.
    let broken = [raw(0x80, 14, &[0, 1, 4, 40, 10, 0, 0, 1, 0])];
    assert!(read(&body(&[], &broken, &[]), &EXTERNAL).is_err());
}

#[test]
fn a_destination_is_its_bits_and_no_more() {
    let written = |text: &str| prefix(text).to_string();
    assert_eq!(written("10.1.2.3/8"), "10.0.0.0/8");
    assert_eq!(written("10.1.2.3/0"), "0.0.0.0/0");
    assert_eq!(written("2001:db8::1/33"), "2001:db8::/33");
    assert_eq!(written("::1/0"), "::/0");
    assert_eq!(written("10.1.2.3"), "10.1.2.3/32");
    for bad in [
        "10.0.0.0/33",
        "::/129",
        "10.0.0/8",
        "a/8",
        "10.0.0.0/-1",
        "",
    ] {
        assert!(bad.parse::<Prefix>().is_err(), "{bad}");
    }
    assert!(prefix("10.0.0.0/8").contains(&prefix("10.1.0.0/16")));
    assert!(prefix("10.0.0.0/8").contains(&prefix("10.0.0.0/8")));
    assert!(!prefix("10.1.0.0/16").contains(&prefix("10.0.0.0/8")));
    assert!(!prefix("0.0.0.0/0").contains(&prefix("::1")));
    // What a sloppy peer leaves in the last byte does not count.
    let sloppy = read(&body(&[9, 10, 0xff], &[], &[]), &EXTERNAL).unwrap();
    assert_eq!(sloppy.withdrawn, [prefix("10.128.0.0/9")]);
}
