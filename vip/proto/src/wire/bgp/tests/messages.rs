//! Messages other than UPDATE, as bytes.

use std::net::Ipv4Addr;

use kedge_core::bgp::{Asn, RouterId};

use super::builder::EXTERNAL;
use crate::wire::bgp::{
    Capability, ExtendedNextHop, Family, Frame, HoldTime, Kind, Message, Notification, Open,
    RouteRefresh, Subtype, Text, cease, codes, keepalive,
};

/// A whole message.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff; 16];
    bytes.extend(u16::try_from(19 + body.len()).unwrap().to_be_bytes());
    bytes.push(kind);
    bytes.extend(body);
    bytes
}

fn parse(bytes: &[u8]) -> Result<Message, (u8, u8)> {
    let of = |refusal: crate::wire::bgp::Refusal| {
        (refusal.notification.code(), refusal.notification.subcode())
    };
    let (frame, rest) = Frame::split(bytes).map_err(of)?.expect("not whole");
    assert!(rest.is_empty());
    Message::parse(&frame, &EXTERNAL).map_err(of)
}

fn open() -> Open {
    Open {
        asn: Asn::new(4_200_000_001).unwrap(),
        hold_time: HoldTime::from_secs(9).unwrap(),
        router_id: RouterId::try_from(Ipv4Addr::new(10, 0, 0, 1)).unwrap(),
        capabilities: vec![
            Capability::of(Family::Ipv4),
            Capability::of(Family::Ipv6),
            Capability::RouteRefresh,
            Capability::ExtendedNextHop(vec![ExtendedNextHop::IPV4_OVER_IPV6]),
            Capability::GracefulRestart {
                restarted: false,
                notification: true,
                seconds: 0,
                families: Vec::new(),
            },
            Capability::FourOctetAs(Asn::new(4_200_000_001).unwrap()),
            Capability::EnhancedRouteRefresh,
        ],
    }
}

#[rustfmt::skip]
const OPEN: &[u8] = &[
    4, 0x5b, 0xa0, 0, 9, 10, 0, 0, 1, 48,
    2, 6, 1, 4, 0, 1, 0, 1,
    2, 6, 1, 4, 0, 2, 0, 1,
    2, 2, 2, 0,
    2, 8, 5, 6, 0, 1, 0, 1, 0, 2,
    2, 4, 64, 2, 0x40, 0,
    2, 6, 65, 4, 0xfa, 0x56, 0xea, 0x01,
    2, 2, 70, 0,
];

#[test]
fn an_open_stands_where_the_rfcs_have_it() {
    let mut bytes = Vec::new();
    open().put(&mut bytes);
    assert_eq!(bytes, message(1, OPEN));
    assert_eq!(parse(&bytes), Ok(Message::Open(open())));
    let open = open();
    assert!(open.speaks(Family::Ipv4) && open.speaks(Family::Ipv6));
    assert!(open.four_octet() && open.extended_next_hop() && open.keeps_at_notification());
}

#[test]
fn a_speaker_of_the_first_edition_has_ipv4_and_short_numbers() {
    let bytes = message(1, &[4, 0xfd, 0xf6, 0, 180, 10, 0, 0, 1, 0]);
    let Ok(Message::Open(open)) = parse(&bytes) else {
        panic!("not read");
    };
    assert_eq!(open.asn.get(), 65_014);
    assert_eq!(open.hold_time.secs(), 180);
    assert!(open.speaks(Family::Ipv4) && !open.speaks(Family::Ipv6));
    assert!(!open.four_octet() && !open.extended_next_hop() && !open.keeps_at_notification());
}

/// RFC 9072.
#[test]
fn parameters_may_be_longer_than_one_byte_says() {
    let capabilities = [1, 4, 0, 2, 0, 1];
    for short in [255, 9] {
        let mut body = vec![4, 0xfd, 0xf6, 0, 9, 10, 0, 0, 1, short, 255, 0, 9, 2, 0, 6];
        body.extend(capabilities);
        let Ok(Message::Open(open)) = parse(&message(1, &body)) else {
            panic!("not read");
        };
        assert!(open.speaks(Family::Ipv6));
    }
    // What one speaker can say that has more than 255 bytes.
    let way = ExtendedNextHop::IPV4_OVER_IPV6;
    let many = Open {
        capabilities: vec![Capability::ExtendedNextHop(vec![way; 42]); 3],
        ..open()
    };
    let expected = Open {
        asn: Asn::TRANS,
        ..many.clone()
    };
    let mut bytes = Vec::new();
    many.put(&mut bytes);
    assert_eq!(bytes[28..32], [255, 255, 3, 3]);
    assert_eq!(parse(&bytes), Ok(Message::Open(expected)));
}

#[test]
fn an_open_that_is_none_is_answered_with_why() {
    let bent = |at: usize, value: &[u8]| {
        let mut body = OPEN.to_vec();
        body[at..at + value.len()].copy_from_slice(value);
        parse(&message(1, &body))
    };
    assert_eq!(bent(0, &[3]), Err((codes::OPEN, codes::VERSION)));
    assert_eq!(bent(3, &[0, 1]), Err((codes::OPEN, codes::HOLD_TIME)));
    assert_eq!(bent(3, &[0, 2]), Err((codes::OPEN, codes::HOLD_TIME)));
    assert!(bent(3, &[0, 0]).is_ok());
    assert_eq!(
        bent(5, &[0, 0, 0, 0]),
        Err((codes::OPEN, codes::IDENTIFIER))
    );
    // The number beside the capability is not looked at; that in it is none.
    assert!(bent(1, &[0, 0]).is_ok());
    assert_eq!(bent(50, &[0; 4]), Err((codes::OPEN, codes::PEER_AS)));
    // Lengths: of all, of a parameter, of a capability.
    assert_eq!(bent(9, &[47]), Err((codes::OPEN, 0)));
    assert_eq!(bent(9, &[49]), Err((codes::OPEN, 0)));
    assert_eq!(bent(11, &[7]), Err((codes::OPEN, 0)));
    assert_eq!(bent(13, &[5]), Err((codes::OPEN, 0)));
    // A parameter that nobody knows any more.
    assert_eq!(bent(10, &[1]), Err((codes::OPEN, codes::PARAMETER)));
    let short = message(1, &[4, 0, 0, 0, 9, 10, 0, 0, 1, 0]);
    assert_eq!(parse(&short), Err((codes::OPEN, codes::PEER_AS)));
    // Our version is said.
    let (frame, _) = Frame::split(&short).unwrap().unwrap();
    let body = [&[9], &frame.body[1..]].concat();
    let kind = Kind::Open;
    let refusal = Message::parse(&Frame { kind, body: &body }, &EXTERNAL).unwrap_err();
    assert_eq!(refusal.notification.data(), [0, 4]);
}

#[test]
fn a_capability_that_nobody_knows_is_passed_over() {
    let body = [
        &[4, 0xfd, 0xf6, 0, 9, 10, 0, 0, 1, 9][..],
        &[2, 7, 73, 3, 1, 2, 3, 2, 0],
    ]
    .concat();
    let Ok(Message::Open(open)) = parse(&message(1, &body)) else {
        panic!("not read");
    };
    assert_eq!(
        open.capabilities,
        [Capability::Other(73), Capability::RouteRefresh]
    );
}

#[test]
fn a_stream_is_cut_into_messages() {
    let mut stream = keepalive().bytes;
    stream.extend(message(2, &[0, 0, 0, 0]));
    stream.extend(&keepalive().bytes[..10]);
    let (first, rest) = Frame::split(&stream).unwrap().unwrap();
    assert_eq!(first.kind, Kind::Keepalive);
    let (second, rest) = Frame::split(rest).unwrap().unwrap();
    assert_eq!(
        (second.kind, second.body),
        (Kind::Update, &[0, 0, 0, 0][..])
    );
    assert_eq!(Frame::split(rest), Ok(None));
    for length in 0..19 {
        assert_eq!(Frame::split(&stream[..length]), Ok(None));
    }
    for length in 19..42 {
        let (_, rest) = Frame::split(&stream[..length]).unwrap().unwrap();
        assert_eq!(Frame::split(rest), Ok(None), "{length}");
    }
}

#[test]
fn a_header_that_is_none_is_answered_with_why() {
    let header = |marker: u8, length: u16, kind: u8| {
        let mut bytes = vec![0xff; 15];
        bytes.push(marker);
        bytes.extend(length.to_be_bytes());
        bytes.push(kind);
        let refusal = Frame::split(&bytes).map(|_| ()).err()?;
        let notification = refusal.notification;
        assert_eq!(notification.code(), codes::HEADER);
        Some((notification.subcode(), notification.data().to_vec()))
    };
    assert_eq!(header(0xfe, 19, 4), Some((codes::NOT_SYNCHRONIZED, vec![])));
    assert_eq!(header(0xff, 23, 6), Some((codes::BAD_TYPE, vec![6])));
    assert_eq!(header(0xff, 23, 0), Some((codes::BAD_TYPE, vec![0])));
    for (kind, least, most) in [
        (1, 29, 4096),
        (2, 23, 4096),
        (3, 21, 4096),
        (4, 19, 19),
        (5, 23, 4096),
    ] {
        assert_eq!(header(0xff, least, kind), None, "{kind}");
        assert_eq!(header(0xff, most, kind), None, "{kind}");
        for length in [0, least - 1, most + 1, u16::MAX] {
            let data = length.to_be_bytes().to_vec();
            assert_eq!(
                header(0xff, length, kind),
                Some((codes::BAD_LENGTH, data)),
                "{kind}"
            );
        }
    }
}

#[test]
fn a_goodbye_carries_what_people_say() {
    let goodbye = Notification::shutdown(&Text::new("Wartung bis 18:00"));
    let mut bytes = Vec::new();
    goodbye.put(&mut bytes);
    let body = [&[6, 2, 17], "Wartung bis 18:00".as_bytes()].concat();
    assert_eq!(bytes, message(3, &body));
    assert_eq!(parse(&bytes), Ok(Message::Notification(goodbye.clone())));
    assert_eq!(
        goodbye.to_string(),
        "cease/administrative shutdown \"Wartung bis 18:00\""
    );
    let hard = goodbye.hard();
    assert_eq!(hard.subcode(), cease::HARD_RESET);
    assert_eq!(hard.text(), Some(Text::new("Wartung bis 18:00")));
    assert!(hard.is(codes::CEASE, cease::SHUTDOWN));
    assert_eq!(
        hard.to_string(),
        "hard reset: cease/administrative shutdown \"Wartung bis 18:00\""
    );
    // It ends where it fits, between two letters, and nobody's terminal is told anything.
    let long = Text::new(&"é".repeat(200));
    assert_eq!(long.as_str().len(), 254);
    assert_eq!(Text::new("a\u{1b}[31m\nb").as_str(), "a[31mb");
}

#[test]
fn what_a_peer_says_as_it_leaves_is_never_trusted_to_be_whole() {
    let read = |body: &[u8]| match parse(&message(3, body)) {
        Ok(Message::Notification(notification)) => notification,
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&[6, 2]).text(), None);
    assert_eq!(read(&[6, 2, 0]).text(), None);
    assert_eq!(read(&[6, 2, 5, b'a']).text(), None);
    assert_eq!(
        read(&[6, 2, 2, 0xff, b'a']).text(),
        Some(Text::new("\u{fffd}a"))
    );
    assert_eq!(read(&[6, 9]).to_string(), "cease/hard reset");
    assert_eq!(
        read(&[6, 9, 4, 0]).to_string(),
        "hard reset: hold timer expired"
    );
    assert_eq!(
        read(&[6, 9, 6, 9, 6, 9]).to_string(),
        "hard reset: hard reset: cease/hard reset"
    );
    assert_eq!(read(&[77, 3]).to_string(), "error 77/3");
    assert_eq!(read(&[3, 77]).to_string(), "UPDATE error/77");
}

#[test]
fn a_route_refresh_is_of_a_kind_of_routes() {
    let mut bytes = Vec::new();
    RouteRefresh::of(Family::Ipv6, Subtype::Begin).put(&mut bytes);
    assert_eq!(bytes, message(5, &[0, 2, 1, 1]));
    let read = |body: &[u8]| parse(&message(5, body));
    for (code, subtype) in [
        (0, Subtype::Request),
        (1, Subtype::Begin),
        (2, Subtype::End),
        (9, Subtype::Other(9)),
    ] {
        let expected = RouteRefresh::of(Family::Ipv4, subtype);
        assert_eq!(read(&[0, 1, code, 1]), Ok(Message::RouteRefresh(expected)));
        assert_eq!(expected.family(), Some(Family::Ipv4));
    }
    // A request may bring filters, a mark may not.
    assert!(read(&[0, 1, 0, 1, 7, 7]).is_ok());
    assert_eq!(read(&[0, 1, 1, 1, 7]), Err((codes::REFRESH, 1)));
    assert_eq!(read(&[0, 1, 2, 1, 7]), Err((codes::REFRESH, 1)));
    let Ok(Message::RouteRefresh(foreign)) = read(&[0, 25, 0, 65]) else {
        panic!("not read");
    };
    assert_eq!(foreign.family(), None);
}
