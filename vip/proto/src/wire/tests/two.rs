//! Version 2, against bytes of keepalived.

use std::net::Ipv4Addr;

use kedge_core::vip::{AdvertInterval, Priority, Vrid};
use proptest::prelude::*;

use super::{
    super::{
        Addresses, ParseError, Password,
        checksum::{Form, Forms},
        vrrp::{Advert, Version},
    },
    emit, packet, parse, resum,
};

/// keepalived 2.2.7, version 2 with `auth_pass secret1`, VRID 51, priority 150, 1 s, two addresses.
const KEEPALIVED_TWO: [u8; 44] = [
    0x45, 0xc0, 0x00, 0x2c, 0x00, 0x01, 0x00, 0x00, 0xff, 0x70, 0xc2, 0x6f, 0x0a, 0x14, 0x0e, 0x0b,
    0xe0, 0x00, 0x00, 0x12, 0x21, 0x33, 0x96, 0x02, 0x01, 0x01, 0xaa, 0x36, 0x0a, 0x14, 0x0e, 0x0a,
    0x0a, 0x14, 0x0e, 0x14, 0x73, 0x65, 0x63, 0x72, 0x65, 0x74, 0x31, 0x00,
];

fn captured() -> Advert {
    let addresses = [10, 20].map(|last| Ipv4Addr::new(10, 20, 14, last).into());
    Advert {
        version: Version::Two {
            password: Some(Password::new("secret1").unwrap()),
        },
        vrid: Vrid::new(51).unwrap(),
        priority: Some(Priority::new(150).unwrap()),
        interval: AdvertInterval::from_centis(100).unwrap(),
        addresses: Addresses::new(&addresses).unwrap(),
    }
}

/// The message of keepalived with another byte at `index` and a right checksum.
fn patched(index: usize, value: u8) -> Vec<u8> {
    let mut message = KEEPALIVED_TWO[20..].to_vec();
    message[index] = value;
    resum(&mut message);
    packet(255, 112, 0, &message)
}

#[test]
fn an_advert_of_keepalived_parses_and_is_what_we_would_send() {
    let received = parse(&KEEPALIVED_TWO).unwrap();
    assert_eq!(received.advert, captured());
    assert_eq!(received.forms, Forms::Message);
    assert_eq!(emit(&captured(), Form::Message), KEEPALIVED_TWO[20..]);
}

#[test]
fn without_a_password_the_field_is_zero_and_is_ignored() {
    let bare = Advert {
        version: Version::Two { password: None },
        ..captured()
    };
    let message = emit(&bare, Form::Message);
    assert_eq!(message[16..], [0; 8]);
    assert_eq!(parse(&packet(255, 112, 0, &message)).unwrap().advert, bare);
    // Type "none", and the password still stands in the field.
    assert_eq!(parse(&patched(4, 0)).unwrap().advert, bare);
}

#[test]
fn each_check_of_version_two_has_its_own_reason() {
    let refused = |bytes: &[u8], why: ParseError| assert_eq!(parse(bytes), Err(why));
    refused(&patched(4, 2), ParseError::AuthType);
    refused(&patched(5, 0), ParseError::ZeroInterval);
    refused(&patched(5, 41), ParseError::LongInterval);
    refused(&patched(0, 0x22), ParseError::NotAdvertisement);
    let mut wrong = KEEPALIVED_TWO;
    wrong[43] = 1;
    refused(&wrong, ParseError::Checksum);
    // The eight bytes behind the addresses are part of every message.
    let message = &KEEPALIVED_TWO[20..36];
    refused(&packet(255, 112, 0, message), ParseError::Truncated);
}

#[test]
fn every_flipped_bit_is_noticed() {
    for bit in 0..KEEPALIVED_TWO.len() * 8 {
        let mut flipped = KEEPALIVED_TWO;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&flipped).is_err(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn what_can_be_built_parses_back(
        vrid in 1..=255_u8,
        priority: u8,
        seconds in 1..=40_u16,
        password in prop::option::of("[!-~]{1,8}"),
        list in prop::collection::vec(any::<u32>(), 1..=255),
    ) {
        let list: Vec<_> = list.into_iter().map(|bits| Ipv4Addr::from_bits(bits).into()).collect();
        let advert = Advert {
            version: Version::Two {
                password: password.map(|text| Password::new(&text).unwrap()),
            },
            vrid: Vrid::new(vrid).unwrap(),
            priority: Priority::new(priority).ok(),
            interval: AdvertInterval::from_centis(seconds * 100).unwrap(),
            addresses: Addresses::new(&list).unwrap(),
        };
        let bytes = packet(255, 112, 0, &emit(&advert, Form::Message));
        prop_assert_eq!(parse(&bytes).unwrap().advert, advert);
    }
}
