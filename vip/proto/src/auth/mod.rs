//! Signed adverts: the HMAC-SHA256 trailer of `draft-cassen-vrrp-auth-hmac`, as keepalived speaks
//! it from 2.4.2 on. The same bytes serve VRRP versions 2 and 3, IPv4 and IPv6, unicast and
//! multicast.
//!
//! ```text
//!            detect by length            order of refusals
//! payload ──► Trailer::split ──► Verifier::verify: sender, form, window, key, tag, replay
//! PDU     ──► Signer::sign   ──► 28 bytes to append
//! ```
//!
//! The trailer proves that a holder of the key sent the advert from the address it claims, and
//! sent it recently or for the first time. It adds to the check of the TTL, it does not replace
//! it. The wall clock is an argument ([`Stamp`]); nothing here reads it.

mod config;
mod key;
mod marks;
mod signer;
mod stamp;
mod tag;
mod trailer;
mod verifier;

pub use config::{AntiReplay, Config, Mode, Window};
pub use key::{BadKey, Key, KeyId, Keys, NoActiveKey};
pub use marks::{Mark, Senders};
pub use signer::Signer;
pub use stamp::Stamp;
pub use tag::Identity;
pub use trailer::{Malformed, Trailer};
pub use verifier::{Reject, Verified, Verifier};

#[cfg(test)]
mod tests;
