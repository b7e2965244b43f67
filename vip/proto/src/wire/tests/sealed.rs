//! Adverts with something behind the message: where it ends, and what is summed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kedge_core::vip::{AdvertInterval, Priority, Vrid};

use super::{
    super::{
        Addresses, Password,
        checksum::{Form, Forms},
        ip,
        vrrp::{Advert, MAX_LEN, Received, Version},
    },
    MAC, SRC, packet,
};
use crate::auth::Trailer;

const TRAILER: [u8; Trailer::LEN] = [0xa5; Trailer::LEN];
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x11));

fn advert(version: Version, addresses: &[IpAddr]) -> Advert {
    Advert {
        version,
        vrid: Vrid::new(51).unwrap(),
        priority: Some(Priority::new(150).unwrap()),
        interval: AdvertInterval::from_centis(100).unwrap(),
        addresses: Addresses::new(addresses).unwrap(),
    }
}

fn four(count: u8) -> Vec<IpAddr> {
    let all = 1..=count;
    all.map(|last| Ipv4Addr::new(10, 20, 14, last).into())
        .collect()
}

fn six(count: u16) -> Vec<IpAddr> {
    let all = 1..=count;
    all.map(|last| Ipv6Addr::new(0xfd00, 0x14, 0, 0, 0, 0, 0, last).into())
        .collect()
}

/// An IPv6 packet around `payload`.
fn packet_six(payload: &[u8]) -> Vec<u8> {
    let [hi, lo] = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![0x60, 0, 0, 0, hi, lo, 112, 255];
    for address in [SIX, ip::group(true)] {
        if let IpAddr::V6(address) = address {
            bytes.extend(address.octets());
        }
    }
    bytes.extend(payload);
    bytes
}

#[test]
fn a_signed_advert_of_any_version_and_family_is_heard_with_its_message_and_its_trailer() {
    let password = Some(Password::new("secret1").unwrap());
    let two = |password| Version::Two { password };
    let cases = [
        (Version::Three, Form::PseudoHeader, four(1), 12),
        (Version::Three, Form::Message, four(3), 20),
        (two(None), Form::Message, four(2), 24),
        (two(password), Form::Message, four(1), 20),
        (Version::Three, Form::PseudoHeader, six(1), 24),
        (Version::Three, Form::PseudoHeader, six(3), 56),
    ];
    for (version, form, addresses, expected) in cases {
        let advert = advert(version, &addresses);
        let ipv6 = advert.addresses.is_ipv6();
        let (src, dst) = (if ipv6 { SIX } else { SRC }, ip::group(ipv6));
        let mut buffer = [0xff; MAX_LEN];
        let length = advert.emit(form, src, dst, &mut buffer);
        assert_eq!(length, expected);
        let whole = Advert::seal(&mut buffer, length, &TRAILER, src, dst);
        assert_eq!(whole, length + Trailer::LEN);
        let payload = &buffer[..whole];
        let bytes = if ipv6 {
            packet_six(payload)
        } else {
            packet(255, 112, 0, payload)
        };
        let heard = Received::hear(MAC, &bytes).unwrap();
        assert_eq!(heard.pdu, &buffer[..length]);
        assert_eq!(heard.trailer, Some(&TRAILER));
        assert_eq!(heard.received.advert, advert);
        let forms = match form {
            Form::Message => Forms::Message,
            Form::PseudoHeader => Forms::PseudoHeader,
        };
        assert_eq!(heard.received.forms, forms);
    }
}

#[test]
fn the_longest_advert_with_its_trailer_fills_the_buffer() {
    let advert = advert(Version::Three, &six(255));
    let mut buffer = [0; MAX_LEN];
    let group = ip::group(true);
    let length = advert.emit(Form::PseudoHeader, SIX, group, &mut buffer);
    let whole = Advert::seal(&mut buffer, length, &TRAILER, SIX, group);
    assert_eq!(whole, MAX_LEN);
    let beyond = Advert::seal(&mut buffer, whole, &TRAILER, SIX, group);
    assert_eq!(beyond, whole, "what does not fit is not appended");
}

#[test]
fn a_unicast_advert_may_be_summed_for_its_peer_or_for_the_group() {
    let peer: IpAddr = "10.20.14.12".parse().unwrap();
    let advert = advert(Version::Three, &four(1));
    for summed_for in [peer, ip::group(false)] {
        let mut buffer = [0; MAX_LEN];
        let length = advert.emit(Form::PseudoHeader, SRC, summed_for, &mut buffer);
        let header = ip::Header {
            src: SRC,
            dst: peer,
            ttl: 255,
            protocol: 112,
        };
        let parsed = Advert::parse(&header, &buffer[..length]);
        assert_eq!(parsed, Ok((advert.clone(), Forms::PseudoHeader)));
    }
}
