//! Where a host is: what it says beside each probe, and what gateways tell each other of it.
//!
//! ```text
//!  behind a probe:  "KDGC" version 1, 3 reserved, epoch u64, gateway key 32
//!  between gateways: "KDGR" version 1, count u8, reserved u16, count × (host 16, epoch u64, key 32)
//! ```
//! Big-endian. Hosts are overlay addresses, those of IPv4 mapped (RFC 4291 section 2.5.5.2).

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

use crate::keys::PublicKey;

/// A host's word on the gateway that it sends through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// Grows with each change, over restarts too: the older one loses.
    pub epoch: u64,
    /// The gateway's key.
    pub gateway: PublicKey,
}

/// Bytes of a claim behind a probe.
pub const CLAIM_LENGTH: usize = 48;

/// The UDP port between gateways, on overlay addresses only.
pub const RELAY_PORT: u16 = 51822;

/// Claims in one datagram: 1124 bytes, which fit any tunnel.
pub const RELAYED: usize = 20;

impl Claim {
    /// The claim behind a probe, if there is one.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let [b'K', b'D', b'G', b'C', 1, _, _, _] = *head else {
            return None;
        };
        Self::body(rest)
    }

    /// The claim as bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; CLAIM_LENGTH] {
        let mut bytes = [0; CLAIM_LENGTH];
        let head = *b"KDGC\x01\0\0\0";
        let epoch = self.epoch.to_be_bytes();
        let all = head.iter().chain(&epoch).chain(self.gateway.as_bytes());
        for (to, from) in bytes.iter_mut().zip(all) {
            *to = *from;
        }
        bytes
    }

    fn body(bytes: &[u8]) -> Option<Self> {
        let (epoch, rest) = bytes.split_first_chunk::<8>()?;
        let (key, _) = rest.split_first_chunk::<32>()?;
        Some(Self {
            epoch: u64::from_be_bytes(*epoch),
            gateway: PublicKey::from_bytes(*key).ok()?,
        })
    }
}

/// The newest claim of every host.
#[derive(Clone, Debug, Default)]
pub struct Claims(BTreeMap<IpAddr, Claim>);

impl Claims {
    /// Takes a claim; whether it is news. The greater epoch wins, and of equal ones the greater key.
    pub fn take(&mut self, host: IpAddr, claim: Claim) -> bool {
        let newer = self.0.get(&host).is_none_or(|known| *known < claim);
        if newer {
            self.0.insert(host, claim);
        }
        newer
    }

    /// Where a host is.
    #[must_use]
    pub fn of(&self, host: IpAddr) -> Option<Claim> {
        self.0.get(&host).copied()
    }

    /// Forgets hosts that there are no more.
    pub fn keep(&mut self, is_there: impl Fn(IpAddr) -> bool) {
        self.0.retain(|host, _| is_there(*host));
    }

    /// Every claim, by host.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, Claim)> {
        self.0.iter().map(|(host, claim)| (*host, *claim))
    }
}

/// What gateways tell each other: datagrams of [`RELAYED`] claims at most.
pub fn emit_relays(claims: impl IntoIterator<Item = (IpAddr, Claim)>) -> Vec<Vec<u8>> {
    let all: Vec<(IpAddr, Claim)> = claims.into_iter().collect();
    all.chunks(RELAYED)
        .map(|chunk| {
            let count = u8::try_from(chunk.len()).unwrap_or_default();
            let mut bytes = b"KDGR\x01".to_vec();
            bytes.extend([count, 0, 0]);
            for (host, claim) in chunk {
                let host = match host {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => *v6,
                };
                bytes.extend(host.octets());
                bytes.extend(claim.epoch.to_be_bytes());
                bytes.extend(claim.gateway.as_bytes());
            }
            bytes
        })
        .collect()
}

/// The claims in a datagram of another gateway; nothing where it is none, or cut.
#[must_use]
pub fn parse_relay(bytes: &[u8]) -> Vec<(IpAddr, Claim)> {
    let Some((head, rest)) = bytes.split_first_chunk::<8>() else {
        return Vec::new();
    };
    let [b'K', b'D', b'G', b'R', 1, count, _, _] = *head else {
        return Vec::new();
    };
    let (entries, _) = rest.as_chunks::<ENTRY>();
    let entries = entries.iter().take(usize::from(count));
    let entry = |bytes: &[u8; ENTRY]| {
        let (host, claim) = bytes.split_first_chunk::<16>()?;
        let host = Ipv6Addr::from(*host).to_canonical();
        Some((host, Claim::body(claim)?))
    };
    entries.filter_map(entry).collect()
}

const ENTRY: usize = 16 + 8 + 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(epoch: u64, key: u8) -> Claim {
        Claim {
            epoch,
            gateway: PublicKey::from_bytes([key; 32]).unwrap(),
        }
    }

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 10));

    #[test]
    fn the_older_claim_loses_whatever_comes_first() {
        let mut claims = Claims::default();
        for (told, news, at) in [
            (claim(5, 7), true, 7),
            (claim(5, 7), false, 7),
            (claim(4, 9), false, 7),
            (claim(6, 1), true, 1),
            (claim(6, 3), true, 3),
            (claim(6, 2), false, 3),
        ] {
            assert_eq!(claims.take(HOST, told), news, "{told:?}");
            assert_eq!(claims.of(HOST).unwrap().gateway, claim(0, at).gateway);
        }
        claims.keep(|_| false);
        assert_eq!(claims.of(HOST), None);
    }

    proptest! {
        #[test]
        fn claims_read_back(epoch: u64, key in 1_u8..=255, cut in 0..CLAIM_LENGTH) {
            let claim = claim(epoch, key);
            let bytes = claim.emit();
            prop_assert_eq!(Claim::parse(&bytes), Some(claim));
            prop_assert_eq!(Claim::parse(&bytes[..cut]), None);
        }

        #[test]
        fn relays_read_back(hosts in prop::collection::btree_map(any::<u32>(), any::<u64>(), 0..70)) {
            let all: Vec<(IpAddr, Claim)> = hosts
                .into_iter()
                .map(|(host, epoch)| (IpAddr::V4(host.into()), claim(epoch, 9)))
                .collect();
            let datagrams = emit_relays(all.clone());
            prop_assert!(datagrams.iter().all(|it| it.len() <= 8 + RELAYED * ENTRY));
            let read: Vec<_> = datagrams.iter().flat_map(|it| parse_relay(it)).collect();
            prop_assert_eq!(read, all);
        }

        #[test]
        fn any_bytes_are_claims_or_none(bytes: Vec<u8>) {
            let _ = Claim::parse(&bytes);
            let _ = parse_relay(&bytes);
        }
    }
}
