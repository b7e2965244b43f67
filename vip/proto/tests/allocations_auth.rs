//! Signed adverts cost no allocation: neither signing nor verifying them.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::{alloc::System, collections::BTreeMap, net::IpAddr};

use kedge_core::vip::Vrid;
use kedge_vip_proto::auth::{
    AntiReplay, Config, Identity, Key, KeyId, Keys, Reject, Senders, Signer, Stamp, Trailer,
    Verifier, Window,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn config(anti_replay: AntiReplay) -> Config {
    let id = KeyId::new(1).unwrap();
    let all = BTreeMap::from([(id, Key::new(&[7; 32]).unwrap())]);
    Config {
        anti_replay,
        ..Config::new(Keys::new(id, all).unwrap())
    }
}

fn router(source: &str) -> Identity {
    Identity {
        source: source.parse().unwrap(),
        version: 3,
        vrid: Vrid::new(51).unwrap(),
    }
}

fn main() {
    a_thousand_adverts_are_signed_verified_and_refused_without_an_allocation();
}

fn a_thousand_adverts_are_signed_verified_and_refused_without_an_allocation() {
    let window = Window::new(5).unwrap();
    let identity = router("198.51.100.10");
    let others = [
        "198.51.100.11",
        "fe80::11",
        "fe80::12",
        "fe80::13",
        "fe80::14",
    ]
    .map(router);
    let peers: Vec<IpAddr> = others.iter().map(|other| other.source).collect();
    for anti_replay in [AntiReplay::Time { window }, AntiReplay::MONOTONIC] {
        let config = config(anti_replay);
        let mut signer = Signer::new(config.clone(), None);
        let mut group = Verifier::new(config.clone(), Senders::Group);
        let mut unicast = Verifier::new(config, Senders::Peers(peers.clone()));
        let mut wall = Stamp::from_bits(0x6836_f400_0000_0000);
        let mut payload = [0x31; 40];
        let region = Region::new(ALLOCATOR);
        for _ in 0..200 {
            wall = wall.plus_seconds(1);
            if let Some(mark) = signer.wants_mark(wall) {
                signer.marked(mark);
            }
            for sender in others.iter().chain([&identity]) {
                let trailer = signer.sign(wall, sender, &[0x31; 12]).unwrap();
                if let Some(end) = payload.last_chunk_mut::<{ Trailer::LEN }>() {
                    *end = trailer;
                }
                let (pdu, trailer) = Trailer::split(&payload, 12).unwrap();
                group.verify(wall, sender, pdu, Some(trailer)).unwrap();
                let again = group.verify(wall, sender, pdu, Some(trailer));
                assert_eq!(again, Err(Reject::Replay));
                let known = unicast.verify(wall, sender, pdu, Some(trailer)).is_ok();
                assert_eq!(known, *sender != identity);
                let forged = group.verify(wall, sender, &[0x32; 12], Some(trailer));
                assert_eq!(forged, Err(Reject::BadHmac));
            }
        }
        assert_eq!(unicast.marks().count(), others.len());
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations), (0, 0));
    }
}
