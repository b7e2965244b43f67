//! The vectors of the draft, byte for byte, and what each flipped bit of them is called.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_core::vip::Vrid;

use super::bench::{hears, id, key, monotonic, vrid};
use crate::auth::{Config, Identity, Key, Keys, Reject, Signer, Stamp, Trailer, Verified};

struct Vector {
    source: &'static str,
    pdu: &'static [u8],
    trailer: [u8; Trailer::LEN],
}

/// VRID 51, priority 200, one second, 192.0.2.100.
const IPV4: Vector = Vector {
    source: "198.51.100.10",
    pdu: &[
        0x31, 0x33, 0xc8, 0x01, 0x00, 0x64, 0x44, 0x02, 0xc0, 0x00, 0x02, 0x64,
    ],
    trailer: [
        0x01, 0x01, 0x00, 0x00, 0x68, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x1b, 0x84, 0xbc,
        0x4e, 0x8e, 0x43, 0x89, 0x2d, 0xc6, 0xd9, 0x84, 0x48, 0xf8, 0xee, 0x22, 0x65,
    ],
};

/// The same with fe80::100, sent to fe80::20: the destination is not signed.
const IPV6: Vector = Vector {
    source: "fe80::10",
    pdu: &[
        0x31, 0x33, 0xc8, 0x01, 0x00, 0x64, 0xa2, 0xe9, 0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00,
    ],
    trailer: [
        0x01, 0x01, 0x00, 0x00, 0x68, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0xc8, 0xc5, 0x61,
        0x46, 0xeb, 0xfd, 0x66, 0xee, 0x10, 0xec, 0x4d, 0x81, 0x86, 0x46, 0x1b, 0x78,
    ],
};

/// The sequence of both; it lies outside of any window.
const STAMP: Stamp = Stamp::from_bits(0x6800_0000_8000_0000);

impl Vector {
    fn identity(&self) -> Identity {
        Identity {
            source: self.source.parse().unwrap(),
            version: 3,
            vrid: vrid(),
        }
    }

    fn sign(&self) -> [u8; Trailer::LEN] {
        let mut signer = Signer::new(monotonic(), None);
        signer.sign(STAMP, &self.identity(), self.pdu).unwrap()
    }

    /// What a receiver that has heard nobody says of these bytes.
    fn verify(
        &self,
        config: Config,
        identity: &Identity,
        pdu: &[u8],
        trailer: &[u8; Trailer::LEN],
    ) -> Result<Verified, Reject> {
        hears(config).verify(Stamp::from_bits(0), identity, pdu, Some(trailer))
    }
}

#[test]
fn the_vectors_of_the_draft_are_what_we_sign() {
    for vector in [IPV4, IPV6] {
        assert_eq!(vector.sign(), vector.trailer, "{}", vector.source);
    }
}

#[test]
fn the_vectors_of_the_draft_verify() {
    for vector in [IPV4, IPV6] {
        let identity = vector.identity();
        let verified = vector.verify(monotonic(), &identity, vector.pdu, &vector.trailer);
        let key = id(1);
        assert_eq!(verified, Ok(Verified::Signed { key, skew: None }));
    }
}

#[test]
fn every_flipped_bit_of_an_advert_but_in_its_checksum_is_a_wrong_signature() {
    for vector in [IPV4, IPV6] {
        for bit in 0..vector.pdu.len() * 8 {
            let mut pdu = vector.pdu.to_vec();
            pdu[bit / 8] ^= 1 << (bit % 8);
            let verified = vector.verify(monotonic(), &vector.identity(), &pdu, &vector.trailer);
            if (6..8).contains(&(bit / 8)) {
                assert!(verified.is_ok(), "bit {bit}: {verified:?}");
            } else {
                assert_eq!(verified, Err(Reject::BadHmac), "bit {bit}");
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_a_trailer_has_the_name_of_its_field() {
    for vector in [IPV4, IPV6] {
        for bit in 0..Trailer::LEN * 8 {
            let mut trailer = vector.trailer;
            trailer[bit / 8] ^= 1 << (bit % 8);
            let expected = match bit / 8 {
                0 | 2 | 3 => Reject::Malformed,
                1 => Reject::UnknownKey,
                _ => Reject::BadHmac,
            };
            let verified = vector.verify(monotonic(), &vector.identity(), vector.pdu, &trailer);
            assert_eq!(verified, Err(expected), "bit {bit}");
        }
    }
}

#[test]
fn another_sender_virtual_router_version_or_key_is_a_wrong_signature() {
    for vector in [IPV4, IPV6] {
        let right = vector.identity();
        let refused = |identity: Identity| {
            let verified = vector.verify(monotonic(), &identity, vector.pdu, &vector.trailer);
            assert_eq!(verified, Err(Reject::BadHmac), "{identity:?}");
        };
        for bit in 0..128 {
            let source = match right.source {
                IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() ^ (1 << (bit % 32))).into()),
                IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() ^ (1 << bit)).into()),
            };
            refused(Identity { source, ..right });
        }
        for bit in 0..8 {
            let vrid = Vrid::new(vrid().get() ^ (1 << bit)).unwrap();
            refused(Identity { vrid, ..right });
        }
        let version = 2;
        refused(Identity { version, ..right });
        let all = BTreeMap::from([(id(1), key(1))]);
        let config = Config {
            keys: Keys::new(id(1), all).unwrap(),
            ..monotonic()
        };
        let verified = vector.verify(config, &right, vector.pdu, &vector.trailer);
        assert_eq!(verified, Err(Reject::BadHmac));
    }
}

#[test]
fn an_ipv4_source_is_not_the_ipv6_source_with_the_same_bytes() {
    let right = IPV4.identity();
    let source: IpAddr = "c633:640a::".parse().unwrap();
    let identity = Identity { source, ..right };
    let verified = IPV4.verify(monotonic(), &identity, IPV4.pdu, &IPV4.trailer);
    assert_eq!(verified, Err(Reject::BadHmac));
}

/// RFC 4231 case 2 has too short a key for us, case 6 too long a one; this one is of our own
/// making with a key of a whole block, computed with Python's `hmac`.
#[test]
fn a_key_of_a_whole_block_signs_what_another_implementation_signs() {
    let secret: Vec<u8> = (0..64).collect();
    let all = BTreeMap::from([(id(9), Key::new(&secret).unwrap())]);
    let config = Config {
        keys: Keys::new(id(9), all).unwrap(),
        ..monotonic()
    };
    let mut signer = Signer::new(config, None);
    let trailer = signer.sign(STAMP, &IPV4.identity(), IPV4.pdu).unwrap();
    assert_eq!(trailer[..12], [1, 9, 0, 0, 0x68, 0, 0, 0, 0x80, 0, 0, 0]);
    assert_eq!(trailer[12..], WHOLE_BLOCK);
}

const WHOLE_BLOCK: [u8; 16] = [
    0x21, 0x3b, 0x45, 0x38, 0x01, 0x42, 0x48, 0xfb, 0xa5, 0x6e, 0x30, 0x9d, 0x25, 0x58, 0x32, 0x79,
];
