//! What the tests of signed adverts share.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use kedge_core::vip::Vrid;

use crate::auth::{
    AntiReplay, Config, Identity, Key, KeyId, Keys, Mode, Reject, Senders, Signer, Stamp, Trailer,
    Verified, Verifier, Window,
};

/// Some advert of version 3 with one address.
pub(super) const PDU: [u8; 12] = [
    0x31, 0x33, 0xc8, 0x01, 0x00, 0x64, 0x44, 0x02, 0xc0, 0x00, 0x02, 0x64,
];

/// 28 May 2025, in seconds since 1970.
pub(super) const NOON: u32 = 0x6836_f400;

/// The time `seconds` after [`NOON`].
pub(super) fn at(seconds: i32) -> Stamp {
    on(NOON.wrapping_add_signed(seconds))
}

/// The time `seconds` after 1970, as the 32 bits of the field.
pub(super) fn on(seconds: u32) -> Stamp {
    Stamp::from_bits(u64::from(seconds) << 32)
}

pub(super) fn id(value: u8) -> KeyId {
    KeyId::new(value).unwrap()
}

/// A key whose bytes are `first` and those that follow.
pub(super) fn key(first: u8) -> Key {
    let bytes: Vec<u8> = (0..32).map(|byte| byte + first).collect();
    Key::new(&bytes).unwrap()
}

/// The numbers in `all` are keys, `active` signs; each number has its own key.
pub(super) fn keys(active: u8, all: &[u8]) -> Keys {
    let all: BTreeMap<KeyId, Key> = all
        .iter()
        .map(|number| (id(*number), key(*number - 1)))
        .collect();
    Keys::new(id(active), all).unwrap()
}

pub(super) fn window(seconds: u16) -> Window {
    Window::new(seconds).unwrap()
}

pub(super) fn by_time(seconds: u16) -> Config {
    with(AntiReplay::Time {
        window: window(seconds),
    })
}

/// Monotonic, without a window for the first contact.
pub(super) fn monotonic() -> Config {
    with(AntiReplay::Monotonic {
        first_contact: None,
    })
}

pub(super) fn with(anti_replay: AntiReplay) -> Config {
    Config {
        keys: keys(1, &[1]),
        mode: Mode::Enforce,
        anti_replay,
    }
}

pub(super) fn vrid() -> Vrid {
    Vrid::new(51).unwrap()
}

pub(super) fn host(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, last))
}

/// The router 51 of version 3 on `host(last)`.
pub(super) fn router(last: u8) -> Identity {
    Identity {
        source: host(last),
        version: 3,
        vrid: vrid(),
    }
}

/// A trailer that `host(last)` signs for [`PDU`] with the sequence `stamp`.
pub(super) fn signed(last: u8, stamp: Stamp) -> [u8; Trailer::LEN] {
    let mut signer = Signer::new(monotonic(), None);
    signer.sign(stamp, &router(last), &PDU).unwrap()
}

/// The same with the key `number`.
pub(super) fn signed_with(number: u8, last: u8, stamp: Stamp) -> [u8; Trailer::LEN] {
    let config = Config {
        keys: keys(number, &[number]),
        ..monotonic()
    };
    let mut signer = Signer::new(config, None);
    signer.sign(stamp, &router(last), &PDU).unwrap()
}

pub(super) fn hears(config: Config) -> Verifier {
    Verifier::new(config, Senders::Group)
}

pub(super) fn hears_peers(config: Config, peers: &[u8]) -> Verifier {
    let peers = peers.iter().map(|last| host(*last)).collect();
    Verifier::new(config, Senders::Peers(peers))
}

/// What `verifier` says of [`PDU`] from `host(last)` with `trailer` at the time `wall`.
pub(super) fn verify(
    verifier: &mut Verifier,
    wall: Stamp,
    last: u8,
    trailer: &[u8; Trailer::LEN],
) -> Result<Verified, Reject> {
    verifier.verify(wall, &router(last), &PDU, Some(trailer))
}

/// Accepted, signed with key 1, the clocks close enough.
pub(super) fn fine() -> Result<Verified, Reject> {
    skewed(None)
}

pub(super) fn skewed(skew: Option<i32>) -> Result<Verified, Reject> {
    Ok(Verified::Signed { key: id(1), skew })
}
