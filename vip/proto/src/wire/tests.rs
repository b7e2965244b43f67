//! Codecs against bytes of another implementation, every truncation, every bit flip.

mod sealed;
mod six;
mod two;

use std::net::{IpAddr, Ipv4Addr};

use kedge_core::vip::{AdvertInterval, Priority, Vrid};
use proptest::prelude::*;

use super::{
    Addresses, Mac, Neighbor, ParseError, arp,
    checksum::{Form, Forms},
    ip,
    vrrp::{Advert, MAX_LEN, Received, Version},
};

/// keepalived 2.2.7, priority 150, VRID 51, 100 ms, two addresses; without Ethernet header.
const KEEPALIVED: [u8; 36] = [
    0x45, 0xc0, 0x00, 0x24, 0x00, 0x01, 0x00, 0x00, 0xff, 0x70, 0xc2, 0x77, 0x0a, 0x14, 0x0e, 0x0b,
    0xe0, 0x00, 0x00, 0x12, 0x31, 0x33, 0x96, 0x02, 0x00, 0x0a, 0x0f, 0xc8, 0x0a, 0x14, 0x0e, 0x0a,
    0x0a, 0x14, 0x0e, 0x14,
];

/// What the same keepalived sent last when it was stopped.
const KEEPALIVED_GOODBYE: [u8; 36] = [
    0x45, 0xc0, 0x00, 0x24, 0x00, 0x3a, 0x00, 0x00, 0xff, 0x70, 0xc2, 0x3e, 0x0a, 0x14, 0x0e, 0x0b,
    0xe0, 0x00, 0x00, 0x12, 0x31, 0x33, 0x00, 0x02, 0x00, 0x0a, 0xa5, 0xc8, 0x0a, 0x14, 0x0e, 0x0a,
    0x0a, 0x14, 0x0e, 0x14,
];

/// Its gratuitous ARP, without Ethernet header: a request with a broadcast target.
const KEEPALIVED_ARP: [u8; 28] = [
    0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, 0xaa, 0xb6, 0xa3, 0xbc, 0xad, 0xc1, 0x0a, 0x14,
    0x0e, 0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0a, 0x14, 0x0e, 0x0a,
];

const MAC: Mac = Mac([0xaa, 0xb6, 0xa3, 0xbc, 0xad, 0xc1]);
const SRC: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 20, 14, 11));
const GROUP: IpAddr = ip::group(false);

fn captured() -> Advert {
    let addresses = [10, 20].map(|last| Ipv4Addr::new(10, 20, 14, last).into());
    Advert {
        version: Version::Three,
        vrid: Vrid::new(51).unwrap(),
        priority: Some(Priority::new(150).unwrap()),
        interval: AdvertInterval::from_centis(10).unwrap(),
        addresses: Addresses::new(&addresses).unwrap(),
    }
}

fn parse(packet: &[u8]) -> Result<Received, ParseError> {
    Received::parse(MAC, packet)
}

/// An IPv4 packet around `payload` with a right header checksum.
fn packet(ttl: u8, protocol: u8, options: usize, payload: &[u8]) -> Vec<u8> {
    let header_len = 20 + options;
    let total = u16::try_from(header_len + payload.len())
        .unwrap()
        .to_be_bytes();
    let ihl = 0x40 | u8::try_from(header_len / 4).unwrap();
    let mut bytes = vec![
        ihl, 0xc0, total[0], total[1], 0, 1, 0, 0, ttl, protocol, 0, 0,
    ];
    bytes.extend([10, 20, 14, 11]);
    bytes.extend(ip::GROUP_V4.octets());
    bytes.resize(header_len, 1);
    let sum: u32 = bytes
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn emit(advert: &Advert, form: Form) -> Vec<u8> {
    let mut buffer = [0xff; MAX_LEN];
    let length = advert.emit(form, SRC, GROUP, &mut buffer);
    buffer[..length].to_vec()
}

/// Makes the sum of a message right, by other means than the code under test.
fn resum(message: &mut [u8]) {
    message[6..8].fill(0);
    let sum: u32 = message
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    message[6..8].copy_from_slice(&sum.to_be_bytes());
}

/// A valid message whose byte at `index` was replaced and whose checksum was made right again.
fn patched(index: usize, value: u8) -> Vec<u8> {
    let mut message = emit(&captured(), Form::Message);
    message[index] = value;
    resum(&mut message);
    packet(255, 112, 0, &message)
}

#[test]
fn an_advert_of_keepalived_parses_and_is_what_we_would_send() {
    let received = parse(&KEEPALIVED).unwrap();
    assert_eq!(
        received,
        Received {
            src: SRC,
            dst: GROUP,
            ttl: 255,
            mac: MAC,
            forms: Forms::PseudoHeader,
            advert: captured()
        }
    );
    assert_eq!(emit(&captured(), Form::PseudoHeader), KEEPALIVED[20..]);
}

#[test]
fn a_goodbye_of_keepalived_has_no_priority() {
    let received = parse(&KEEPALIVED_GOODBYE).unwrap();
    assert_eq!(
        received.advert,
        Advert {
            priority: None,
            ..captured()
        }
    );
}

#[test]
fn an_announcement_of_keepalived_claims_its_address() {
    let packet = arp::Packet::parse(&KEEPALIVED_ARP).unwrap();
    assert!(packet.is_announcement());
    assert!(!packet.is_probe());
    assert_eq!(
        (packet.sender, packet.sender_mac),
        (Ipv4Addr::new(10, 20, 14, 10), MAC)
    );
    assert_eq!(packet.emit(), KEEPALIVED_ARP);
}

#[test]
fn the_message_form_is_the_sum_of_rfc_9568() {
    // 3133 + 9602 + 000a + 0a14 + 0e0a + 0a14 + 0e14 = f785, computed by hand.
    let message = emit(&captured(), Form::Message);
    assert_eq!(message[6..8], (!0xf785_u16).to_be_bytes());
    assert_eq!(
        parse(&packet(255, 112, 0, &message)).unwrap().forms,
        Forms::Message
    );
}

#[test]
fn a_pseudo_header_that_sums_to_zero_matches_both_forms() {
    // Chosen so that source + destination + protocol + length sum to ffff, which counts as zero.
    let src = Ipv4Addr::new(10, 20, 0x15, 0x59).into();
    let header = ip::Header {
        src,
        dst: GROUP,
        ttl: 255,
        protocol: 112,
    };
    let advert = captured();
    let mut buffer = [0; MAX_LEN];
    let length = advert.emit(Form::Message, src, GROUP, &mut buffer);
    assert_eq!(
        Advert::parse(&header, &buffer[..length]),
        Ok((advert, Forms::Both))
    );
}

#[test]
fn no_truncation_parses() {
    for length in 0..KEEPALIVED.len() {
        assert_eq!(
            parse(&KEEPALIVED[..length]),
            Err(ParseError::Truncated),
            "{length}"
        );
    }
    let header = ip::Header {
        src: SRC,
        dst: GROUP,
        ttl: 255,
        protocol: 112,
    };
    for length in 0..16 {
        let cut = Advert::parse(&header, &KEEPALIVED[20..20 + length]);
        assert_eq!(cut, Err(ParseError::Truncated), "{length}");
    }
    for length in 0..arp::LEN {
        let cut = arp::Packet::parse(&KEEPALIVED_ARP[..length]);
        assert_eq!(cut, Err(ParseError::Truncated), "{length}");
    }
}

#[test]
fn every_flipped_bit_of_an_advert_is_noticed() {
    for bit in 0..KEEPALIVED.len() * 8 {
        let mut flipped = KEEPALIVED;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn every_flipped_bit_of_an_arp_packet_is_refused_or_changes_its_meaning() {
    let original = arp::Packet::parse(&KEEPALIVED_ARP).unwrap();
    for bit in 0..KEEPALIVED_ARP.len() * 8 {
        let mut flipped = KEEPALIVED_ARP;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(arp::Packet::parse(&flipped), Ok(original), "bit {bit}");
    }
}

#[test]
fn padding_and_ip_options_are_tolerated() {
    let mut padded = KEEPALIVED.to_vec();
    padded.resize(46, 0xee);
    assert_eq!(parse(&padded).unwrap().advert, captured());
    let message = emit(&captured(), Form::PseudoHeader);
    assert_eq!(
        parse(&packet(255, 112, 8, &message)).unwrap().advert,
        captured()
    );
    // Bytes behind the addresses but inside the IPv4 packet belong to no checksum.
    let mut long = message;
    long.extend([1, 2, 3]);
    assert_eq!(
        parse(&packet(255, 112, 0, &long)).unwrap().advert,
        captured()
    );
    let mut frame = KEEPALIVED_ARP.to_vec();
    frame.resize(46, 0);
    assert!(arp::Packet::parse(&frame).is_ok());
}

#[test]
fn each_check_has_its_own_reason() {
    let message = emit(&captured(), Form::Message);
    let refused = |bytes: &[u8], why: ParseError| assert_eq!(parse(bytes), Err(why));
    refused(&packet(254, 112, 0, &message), ParseError::Ttl);
    refused(&packet(255, 89, 0, &message), ParseError::NotVrrp);
    refused(&patched(0, 0x21), ParseError::Truncated);
    refused(&patched(0, 0x41), ParseError::Version);
    refused(&patched(0, 0x32), ParseError::NotAdvertisement);
    refused(&patched(1, 0), ParseError::ZeroVrid);
    refused(&patched(3, 0), ParseError::NoAddress);
    refused(&patched(3, 3), ParseError::Truncated);
    refused(&patched(5, 0), ParseError::ZeroInterval);
    let mut wrong = message.clone();
    wrong[6] ^= 0x55;
    refused(&packet(255, 112, 0, &wrong), ParseError::Checksum);
    let mut fragment = packet(255, 112, 0, &message);
    fragment[6] = 0x20;
    fragment[10] -= 0x20;
    refused(&fragment, ParseError::Fragment);
    let mut seven = KEEPALIVED;
    seven[0] = 0x75;
    refused(&seven, ParseError::BadIpHeader);
    let mut short = KEEPALIVED;
    short[0] = 0x44;
    refused(&short, ParseError::BadIpHeader);
}

#[test]
fn reserved_bits_and_priority_255_are_accepted() {
    let reserved = parse(&patched(4, 0xf0)).unwrap();
    assert_eq!(reserved.advert, captured());
    let owner = parse(&patched(2, 255)).unwrap();
    assert_eq!(owner.advert.priority, Some(Priority::OWNER));
}

#[test]
fn labels_are_unique() {
    use ParseError as E;
    let all = [
        E::Truncated,
        E::BadIpHeader,
        E::Fragment,
        E::NotVrrp,
        E::Ttl,
        E::Version,
        E::NotAdvertisement,
        E::NoAddress,
        E::ZeroInterval,
        E::ZeroVrid,
        E::Checksum,
        E::NotArp,
        E::NotNd,
        E::AuthType,
        E::LongInterval,
    ];
    let mut labels = all.map(E::label).to_vec();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), all.len());
}

#[test]
fn probes_and_announcements_have_the_fields_of_rfc_5227() {
    let vip = Ipv4Addr::new(10, 20, 14, 10);
    let probe = arp::Packet::probe(vip, MAC);
    assert!(probe.is_probe());
    assert!(!probe.is_announcement());
    assert_eq!((probe.sender, probe.target), (Ipv4Addr::UNSPECIFIED, vip));
    for operation in [arp::Operation::Request, arp::Operation::Reply] {
        let announcement = arp::Packet::announcement(operation, vip, MAC);
        assert!(announcement.is_announcement());
        assert_eq!(arp::Packet::parse(&announcement.emit()), Ok(announcement));
    }
    assert_eq!(arp::Packet::parse(&probe.emit()), Ok(probe));
}

fn any_advert() -> impl Strategy<Value = Advert> {
    let address = any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into());
    let list = prop::collection::vec(address, 1..=255);
    (1..=255_u8, any::<u8>(), 1..4096_u16, list).prop_map(|(vrid, priority, centis, list)| Advert {
        version: Version::Three,
        vrid: Vrid::new(vrid).unwrap(),
        priority: Priority::new(priority).ok(),
        interval: AdvertInterval::from_centis(centis).unwrap(),
        addresses: Addresses::new(&list).unwrap(),
    })
}

proptest! {
    #[test]
    fn what_can_be_built_can_be_sent_and_parses_back(advert in any_advert(), pseudo: bool) {
        let form = if pseudo { Form::PseudoHeader } else { Form::Message };
        let received = parse(&packet(255, 112, 0, &emit(&advert, form))).unwrap();
        prop_assert_eq!(received.advert, advert);
        let expected = if pseudo { Forms::PseudoHeader } else { Forms::Message };
        prop_assert!(received.forms == expected || received.forms == Forms::Both);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..1200)) {
        let _ = parse(&bytes);
        let _ = arp::Packet::parse(&bytes);
        let header = ip::Header { src: SRC, dst: GROUP, ttl: 255, protocol: 112 };
        let _ = Advert::parse(&header, &bytes);
    }

    #[test]
    fn changed_bytes_of_a_real_advert_never_panic(index in 0_usize..36, value: u8, cut in 0_usize..40) {
        let mut bytes = KEEPALIVED.to_vec();
        bytes[index] = value;
        bytes.truncate(cut);
        let _ = parse(&bytes);
    }
}

#[test]
fn only_who_speaks_about_itself_announces() {
    let vip = Ipv4Addr::new(10, 20, 14, 10);
    let announcement = arp::Packet::announcement(arp::Operation::Request, vip, MAC);
    assert!(announcement.is_announcement());
    let question = arp::Packet {
        target: Ipv4Addr::new(10, 20, 14, 1),
        ..announcement
    };
    assert!(!question.is_announcement(), "it asks for another");
    let nobody = arp::Packet {
        sender: Ipv4Addr::UNSPECIFIED,
        target: Ipv4Addr::UNSPECIFIED,
        ..announcement
    };
    assert!(!nobody.is_announcement());
    let probe = Neighbor::Arp(arp::Packet::probe(vip, MAC));
    assert!(probe.is_probe() && !Neighbor::Arp(announcement).is_probe());
}

#[test]
fn addresses_read_as_a_list() {
    let addresses = captured().addresses;
    assert_eq!(format!("{addresses:?}"), "[10.20.14.10, 10.20.14.20]");
    assert_eq!(addresses.to_string(), "10.20.14.10, 10.20.14.20");
}
