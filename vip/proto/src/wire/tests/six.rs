//! Adverts over IPv6 and Neighbor Discovery, against bytes of keepalived and Linux.

use std::net::Ipv6Addr;

use kedge_core::vip::{AdvertInterval, Priority, Vrid};
use proptest::prelude::*;

use super::{
    super::{
        Addresses, Claim, Mac, Neighbor, ParseError,
        checksum::{Form, Forms},
        ip,
        nd::{self, Kind, Packet},
        vrrp::{Advert, MAX_LEN, Version},
    },
    MAC, parse,
};

/// keepalived 2.2.7, version 3, VRID 52, priority 150, 100 ms, fe80::10 and fd00:14::10.
const KEEPALIVED_SIX: [u8; 80] = [
    0x6c, 0x0d, 0x71, 0x0a, 0x00, 0x28, 0x70, 0xff, 0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0xa8, 0xb6, 0xa3, 0xff, 0xfe, 0xbc, 0xad, 0xc1, 0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x12, 0x31, 0x34, 0x96, 0x02, 0x00, 0x0a, 0x45, 0xa6,
    0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10,
    0xfd, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10,
];

/// Its announcement of fe80::10.
const KEEPALIVED_NA: [u8; 72] = [
    0x60, 0x00, 0x00, 0x00, 0x00, 0x20, 0x3a, 0xff, 0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x88, 0x00, 0x5d, 0x49, 0x20, 0x00, 0x00, 0x00,
    0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10,
    0x02, 0x01, 0xaa, 0xb6, 0xa3, 0xbc, 0xad, 0xc1,
];

/// The probe of duplicate address detection of Linux 6.18.
const LINUX_PROBE: [u8; 72] = [
    0x60, 0x00, 0x00, 0x00, 0x00, 0x20, 0x3a, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x01, 0xff, 0x40, 0x1c, 0x01, 0x87, 0x00, 0x6f, 0x87, 0x00, 0x00, 0x00, 0x00,
    0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x4a, 0x89, 0xff, 0xfe, 0x40, 0x1c, 0x01,
    0x0e, 0x01, 0x82, 0xa9, 0xea, 0xb2, 0xf0, 0x6c,
];

/// The source of those adverts.
const SRC: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0xa8b6, 0xa3ff, 0xfebc, 0xadc1);
const VIP: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x10);

fn captured() -> Advert {
    let second = Ipv6Addr::new(0xfd00, 0x14, 0, 0, 0, 0, 0, 0x10);
    Advert {
        version: Version::Three,
        vrid: Vrid::new(52).unwrap(),
        priority: Some(Priority::new(150).unwrap()),
        interval: AdvertInterval::DEFAULT,
        addresses: Addresses::new(&[VIP.into(), second.into()]).unwrap(),
    }
}

/// An IPv6 packet of SRC for the group around a payload.
fn packet(hop_limit: u8, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![0x6c, 0, 0, 0, length[0], length[1], next_header, hop_limit];
    bytes.extend(SRC.octets());
    bytes.extend(ip::GROUP_V6.octets());
    bytes.extend(payload);
    bytes
}

fn emit(advert: &Advert) -> Vec<u8> {
    let mut buffer = [0xff; MAX_LEN];
    let group = ip::group(true);
    let length = advert.emit(Form::PseudoHeader, SRC.into(), group, &mut buffer);
    buffer[..length].to_vec()
}

fn read(bytes: &[u8]) -> Result<Packet, ParseError> {
    Packet::parse(MAC, bytes)
}

fn write(packet: &Packet) -> Vec<u8> {
    let mut buffer = [0xff; nd::LEN];
    let length = packet.emit(&mut buffer);
    buffer[..length].to_vec()
}

#[test]
fn an_advert_of_keepalived_parses_and_is_what_we_would_send() {
    let received = parse(&KEEPALIVED_SIX).unwrap();
    assert_eq!(received.advert, captured());
    assert_eq!((received.src, received.dst), (SRC.into(), ip::group(true)));
    assert_eq!((received.forms, received.ttl), (Forms::PseudoHeader, 255));
    assert_eq!(emit(&captured()), KEEPALIVED_SIX[40..]);
}

#[test]
fn each_check_over_ipv6_has_its_own_reason() {
    let message = &KEEPALIVED_SIX[40..];
    let refused = |bytes: &[u8], why: ParseError| assert_eq!(parse(bytes), Err(why));
    refused(&packet(254, 112, message), ParseError::Ttl);
    refused(&packet(255, 58, message), ParseError::NotVrrp);
    refused(&packet(255, 44, message), ParseError::Fragment);
    let mut two = message.to_vec();
    two[0] = 0x21;
    two.extend([0; 8]);
    refused(&packet(255, 112, &two), ParseError::Version);
    let mut bare = [0; MAX_LEN];
    let length = captured().emit(Form::Message, SRC.into(), ip::group(true), &mut bare);
    refused(&packet(255, 112, &bare[..length]), ParseError::Checksum);
    for length in 0..KEEPALIVED_SIX.len() {
        refused(&KEEPALIVED_SIX[..length], ParseError::Truncated);
    }
    // Over IPv6 nothing behind the message escapes the checksum.
    let mut long = message.to_vec();
    long.extend([1, 2]);
    refused(&packet(255, 112, &long), ParseError::Checksum);
}

#[test]
fn every_flipped_bit_behind_the_flow_label_is_noticed() {
    for bit in 32..KEEPALIVED_SIX.len() * 8 {
        let mut flipped = KEEPALIVED_SIX;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn an_announcement_is_what_keepalived_sends() {
    let announced = Packet::announcement(VIP, MAC);
    assert_eq!(read(&KEEPALIVED_NA), Ok(announced));
    assert_eq!(write(&announced), KEEPALIVED_NA);
    assert_eq!(announced.group_mac(), Mac([0x33, 0x33, 0, 0, 0, 1]));
    let claim = Neighbor::Nd(announced).claim().unwrap();
    assert_eq!((claim.address, claim.mac), (VIP.into(), MAC));
}

#[test]
fn a_probe_of_linux_is_one_and_claims_nothing() {
    let probe = read(&LINUX_PROBE).unwrap();
    assert!(probe.is_probe());
    assert_eq!(Neighbor::Nd(probe).claim(), None);
    // Linux adds a nonce (RFC 7527), which ours has not.
    let ours = write(&Packet::probe(probe.target, MAC));
    assert_eq!(ours[40 + 4..], LINUX_PROBE[40 + 4..64]);
    assert_eq!(ours[24..40], LINUX_PROBE[24..40]);
    assert_eq!(read(&ours), Ok(Packet { mac: MAC, ..probe }));
    let group = Packet::probe(VIP, MAC).group_mac();
    assert_eq!(group, Mac([0x33, 0x33, 0xff, 0, 0, 0x10]));
}

#[test]
fn who_solicits_from_an_address_claims_it() {
    let asks = Packet {
        src: VIP,
        dst: SRC,
        target: SRC,
        mac: MAC,
        kind: Kind::Solicitation,
    };
    let bytes = write(&asks);
    let heard = Packet::parse(Mac([9; 6]), &bytes).unwrap();
    let claim = Neighbor::Nd(heard).claim();
    let expected = Claim {
        address: VIP.into(),
        mac: MAC,
    };
    assert_eq!(
        claim,
        Some(expected),
        "the option says where, not the frame"
    );
}

#[test]
fn a_question_asks_the_holders_of_the_address_and_says_who_asks() {
    let Some(Neighbor::Nd(asks)) = Neighbor::question(SRC.into(), MAC, VIP.into()) else {
        panic!("both are IPv6 addresses");
    };
    assert!(!asks.is_probe());
    assert_eq!((asks.src, asks.target), (SRC, VIP));
    assert_eq!(asks.group_mac(), Mac([0x33, 0x33, 0xff, 0, 0, 0x10]));
    assert_eq!(read(&write(&asks)), Ok(asks));
    let mixed = Neighbor::question(SRC.into(), MAC, std::net::Ipv4Addr::LOCALHOST.into());
    assert_eq!(mixed, None);
}

#[test]
fn without_an_option_the_frame_says_who_it_is() {
    let mut bytes = KEEPALIVED_NA[..64].to_vec();
    bytes[5] = 24;
    bytes[42..44].fill(0);
    let sum = super::super::checksum::Sum::of(&bytes[40..]).plus(
        super::super::checksum::Sum::pseudo_header(VIP.into(), nd::ALL_NODES.into(), 58, 24),
    );
    bytes[42..44].copy_from_slice(&sum.checksum().to_be_bytes());
    assert_eq!(Packet::parse(Mac([9; 6]), &bytes).unwrap().mac, Mac([9; 6]));
}

#[test]
fn a_bad_neighbor_packet_is_refused() {
    for length in 0..KEEPALIVED_NA.len() {
        assert_eq!(read(&KEEPALIVED_NA[..length]), Err(ParseError::Truncated));
    }
    for bit in 32..KEEPALIVED_NA.len() * 8 {
        let mut flipped = KEEPALIVED_NA;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&flipped).is_err(), "bit {bit}");
    }
    assert_eq!(read(&KEEPALIVED_SIX), Err(ParseError::NotNd));
    let mut forwarded = KEEPALIVED_NA;
    forwarded[7] = 254;
    assert_eq!(read(&forwarded), Err(ParseError::Ttl));
}

#[test]
fn a_code_or_a_group_as_target_makes_it_none() {
    // Changes one byte of the message and makes its sum right.
    let with = |index: usize, value: u8| {
        let mut packet = KEEPALIVED_NA;
        let message = &mut packet[40..];
        let field = |message: &[u8], at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
        let before = field(message, index & !1);
        message[index] = value;
        let after = field(message, index & !1);
        // RFC 1624: the sum changes by the difference.
        let sum = u32::from(!field(message, 2)) + u32::from(!before) + u32::from(after);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        read(&packet)
    };
    assert!(with(5, 0).is_ok(), "a reserved byte is not looked at");
    assert_eq!(with(1, 1), Err(ParseError::NotNd));
    assert_eq!(with(8, 0xff), Err(ParseError::NotNd));
}

#[test]
fn the_longest_packet_fills_the_buffer_and_is_no_probe() {
    let announced = Packet::announcement(VIP, MAC);
    let mut buffer = [0; nd::LEN];
    assert_eq!(announced.emit(&mut buffer), nd::LEN);
    let forms = [Packet::probe(VIP, MAC), announced].map(|it| Neighbor::Nd(it).is_probe());
    assert_eq!(forms, [true, false]);
}

proptest! {
    #[test]
    fn what_can_be_built_parses_back(
        vrid in 1..=255_u8,
        priority: u8,
        centis in 1..4096_u16,
        list in prop::collection::vec(any::<u128>(), 1..=255),
    ) {
        let list: Vec<_> = list.into_iter().map(|bits| Ipv6Addr::from_bits(bits).into()).collect();
        let advert = Advert {
            version: Version::Three,
            vrid: Vrid::new(vrid).unwrap(),
            priority: Priority::new(priority).ok(),
            interval: AdvertInterval::from_centis(centis).unwrap(),
            addresses: Addresses::new(&list).unwrap(),
        };
        let bytes = packet(255, 112, &emit(&advert));
        prop_assert_eq!(parse(&bytes).unwrap().advert, advert);
    }

    #[test]
    fn whatever_a_neighbor_says_parses_back(
        bits: [u128; 3], mac: [u8; 6], flags: Option<[bool; 3]>,
    ) {
        let [src, dst, target] = bits.map(Ipv6Addr::from_bits);
        prop_assume!(!target.is_multicast() && !src.is_unspecified());
        let kind = match flags {
            Some([router, solicited, overrides]) => Kind::Advertisement { router, solicited, overrides },
            None => Kind::Solicitation,
        };
        let packet = Packet { src, dst, target, mac: Mac(mac), kind };
        prop_assert_eq!(read(&write(&packet)), Ok(packet));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), real: bool) {
        let mut packet = if real { KEEPALIVED_NA[..40].to_vec() } else { Vec::new() };
        packet.extend(&bytes);
        let _ = read(&packet);
        packet[..bytes.len().min(1)].fill(0x60);
        let _ = parse(&packet);
    }
}
