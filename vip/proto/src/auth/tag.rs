//! What is signed, and how.
//!
//! ```text
//! family(8)=4|6 version(8) vrid(8) 0(8) | source address(128, IPv4 first and then zeros)
//! the advert, bytes 6 and 7 (the checksum) read as zero
//! the trailer up to the tag | 16 zero bytes in the tag's place
//! ```
//!
//! The IP header and the destination are left out, so that one signature serves every unicast
//! peer; the checksum too, because for IPv6 the kernel writes it after the signature.

use std::net::IpAddr;

use hmac::{Hmac, Mac as _};
use kedge_core::vip::Vrid;
use sha2::Sha256;

use super::{Key, Trailer};

/// Whose advert it is: what is signed beside the advert's own bytes, so that a signature is worth
/// nothing for another sender or another virtual router under the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The source address of the packet.
    pub source: IpAddr,
    /// The VRRP version, 2 or 3.
    pub version: u8,
    /// The virtual router.
    pub vrid: Vrid,
}

/// The tag of the advert `pdu` under `trailer`, whose own tag is not looked at.
pub(super) fn make(
    key: &Key,
    identity: &Identity,
    pdu: &[u8],
    trailer: &Trailer,
) -> [u8; Trailer::TAG_LEN] {
    let whole = signed(key, identity, pdu, trailer).finalize().into_bytes();
    let mut tag = [0; Trailer::TAG_LEN];
    for (to, from) in tag.iter_mut().zip(whole) {
        *to = from;
    }
    tag
}

/// Whether the tag of `trailer` is the right one for the advert `pdu`; in the same time for any
/// wrong tag.
pub(super) fn is_right(key: &Key, identity: &Identity, pdu: &[u8], trailer: &Trailer) -> bool {
    signed(key, identity, pdu, trailer)
        .verify_truncated_left(&trailer.tag)
        .is_ok()
}

fn signed(key: &Key, identity: &Identity, pdu: &[u8], trailer: &Trailer) -> Hmac<Sha256> {
    let before = pdu.get(..CHECKSUM_AT).unwrap_or(pdu);
    let after = pdu.get(CHECKSUM_AT + 2..).unwrap_or_default();
    <Hmac<Sha256> as hmac::digest::KeyInit>::new(key.block().into())
        .chain_update(header(identity))
        .chain_update(before)
        .chain_update([0; 2])
        .chain_update(after)
        .chain_update(trailer.head())
        .chain_update([0; Trailer::TAG_LEN])
}

fn header(identity: &Identity) -> [u8; 20] {
    let (family, source) = match identity.source {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            (4, [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        }
        IpAddr::V6(v6) => (6, v6.octets()),
    };
    let mut header = [0; 20];
    let (fixed, address) = header.split_at_mut(4);
    fixed.copy_from_slice(&[family, identity.version, identity.vrid.get(), 0]);
    address.copy_from_slice(&source);
    header
}

/// Where the two bytes of the checksum stand in an advert of either version.
const CHECKSUM_AT: usize = 6;
