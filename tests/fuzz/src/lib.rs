//! What is fuzzed: each target takes any bytes and panics when a law breaks.
//!
//! `libfuzzer/` drives them with a fuzzer, `tests/corpus.rs` with the inputs that a fuzzer found
//! worth keeping, in every run of the tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a target's panic is its result"
)]

mod bgp;
mod claims;
mod codecs;
mod neighbour;
mod noise;
mod packets;
mod records;
mod router;
mod routers;
mod session;
mod uapi;
mod wireguard;

pub use bgp::{bgp_message, bgp_update};
pub use claims::claims;
pub use codecs::{arp, bfd, nd, vrrp};
pub use neighbour::neighbour;
pub use noise::noise;
pub use packets::{coalesce, split};
pub use records::records;
pub use router::router;
pub use routers::routers;
pub use session::session;
pub use uapi::uapi_text;
pub use wireguard::wg_dump;

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 17] = [
    ("vrrp", vrrp),
    ("arp", arp),
    ("nd", nd),
    ("bfd", bfd),
    ("router", router),
    ("session", session),
    ("noise", noise),
    ("split", split),
    ("coalesce", coalesce),
    ("uapi_text", uapi_text),
    ("wg_dump", wg_dump),
    ("claims", claims),
    ("records", records),
    ("bgp_message", bgp_message),
    ("bgp_update", bgp_update),
    ("neighbour", neighbour),
    ("routers", routers),
];
