//! Packets from the wire: nothing panics, and what can be read is written as it was read.

use std::{collections::BTreeMap, time::Duration};

use kedge_vip_proto::{
    auth::{AntiReplay, Config, Key, KeyId, Keys, Senders, Stamp, Verifier},
    wire::{
        Mac, Neighbor, arp, bfd,
        checksum::{Form, Forms},
        nd,
        vrrp::{Advert, MAX_LEN, Received},
    },
};

/// An IP packet of either family that may hold an advertisement, signed or not.
pub fn vrrp(bytes: &[u8]) {
    let Ok(heard) = Received::hear(STATION, bytes) else {
        return;
    };
    let Received {
        src, dst, forms, ..
    } = heard.received;
    let form = match forms {
        Forms::Message => Form::Message,
        _ => Form::PseudoHeader,
    };
    let advert: &Advert = &heard.received.advert;
    let mut written = [0; MAX_LEN];
    let length = advert.emit(form, src, dst, &mut written);
    assert_eq!(length, heard.pdu.len(), "written in another length");
    // Whoever does not know the key proves nothing.
    let now = Stamp::from_unix(Duration::from_secs(1_800_000_000));
    let mut verifier = Verifier::new(keys(), Senders::Group);
    let verified = verifier.verify(now, &heard.identity(), heard.pdu, heard.trailer);
    assert!(verified.is_err(), "a trailer was forged");
}

/// An ARP packet without its Ethernet header.
pub fn arp(bytes: &[u8]) {
    let Ok(packet) = arp::Packet::parse(bytes) else {
        return;
    };
    assert_eq!(arp::Packet::parse(&packet.emit()), Ok(packet));
    if let Some(claim) = Neighbor::Arp(packet).claim() {
        assert!(!claim.address.is_unspecified());
    }
}

/// An IPv6 packet that may hold a solicitation or an advertisement.
pub fn nd(bytes: &[u8]) {
    let Ok(packet) = nd::Packet::parse(STATION, bytes) else {
        return;
    };
    let mut written = [0; nd::LEN];
    let length = packet.emit(&mut written);
    let again = nd::Packet::parse(STATION, &written[..length]).unwrap();
    assert_eq!(again.target, packet.target);
    assert_eq!(again.mac, packet.mac);
    if let Some(claim) = Neighbor::Nd(packet).claim() {
        assert!(!claim.address.is_unspecified());
    }
}

/// A UDP payload that may hold a BFD control packet.
pub fn bfd(bytes: &[u8]) {
    let Ok(packet) = bfd::Control::parse(bytes) else {
        return;
    };
    let written = packet.control.emit();
    let read = bfd::Control::parse(&written).unwrap();
    assert_eq!(read.control, packet.control);
    if packet.auth.is_none() {
        // Its length may say more than there is to say.
        assert_eq!((&written[..3], &written[4..]), (&bytes[..3], &bytes[4..24]));
    }
}

fn keys() -> Config {
    let id = KeyId::new(1).unwrap();
    let key = Key::new(&[0x5a; 32]).unwrap();
    let keys = Keys::new(id, BTreeMap::from([(id, key)])).unwrap();
    Config {
        anti_replay: AntiReplay::Monotonic {
            first_contact: None,
        },
        ..Config::new(keys)
    }
}

const STATION: Mac = Mac([2, 0, 0, 0, 0, 9]);
