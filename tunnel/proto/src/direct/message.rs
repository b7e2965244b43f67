//! What hosts and gateways tell each other of places, over overlay addresses inside the tunnel.
//!
//! ```text
//!  host to gateway: "KDGM" version 1, kind 1, flags, NAT, count u8, 3 reserved, count × place
//!  gateway to host: "KDGM" version 1, kind 2, flags, count u8, seen 18, count × mention
//!  mention:         key 32, flags, NAT, seen 18, count u8, count × place
//!  place:           kind u8, address 16, port u16     seen: address 16, port u16
//! ```
//! Flags: 1 willing, 2 `seen` holds something. Big-endian. Addresses of IPv4 are mapped (RFC 4291
//! section 2.5.5.2). What follows is ignored, so that a later version can add to the end; kinds of
//! places that are not known are left out.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::{Candidate, CandidateKind, Nat, PLACES, Told};
use crate::keys::PublicKey;

/// The UDP port of hosts and gateways, on overlay addresses only.
pub const MEETING_PORT: u16 = 51823;

/// What a host says of itself to its gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Whether it has direct paths at all.
    pub willing: bool,
    /// What its NAT does.
    pub nat: Nat,
    /// Where it may be called.
    pub candidates: Vec<Candidate>,
}

/// What a gateway tells a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Where it sees the host.
    pub seen: Option<SocketAddr>,
    /// Peers the host may meet.
    pub mentions: Vec<Mention>,
}

/// A peer that a host may meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Who.
    pub peer: PublicKey,
    /// What is told of it.
    pub told: Told,
}

impl Hello {
    /// Reads it; `None` where it is none, or cut.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<12>()?;
        let [b'K', b'D', b'G', b'M', 1, HELLO, flags, nat, count, ..] = *head else {
            return None;
        };
        let (candidates, _) = take_places(rest, count)?;
        Some(Self {
            willing: flags & WILLING != 0,
            nat: Nat::from_byte(nat),
            candidates,
        })
    }

    /// The message as bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let flags = if self.willing { WILLING } else { 0 };
        let mut bytes = b"KDGM\x01".to_vec();
        let count = counted(&self.candidates);
        bytes.extend([HELLO, flags, self.nat.byte(), count, 0, 0, 0]);
        put_places(&mut bytes, &self.candidates);
        bytes
    }
}

impl Word {
    /// Reads it; `None` where it is none, or cut.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let [b'K', b'D', b'G', b'M', 1, WORD, flags, count] = *head else {
            return None;
        };
        let (seen, mut rest) = take_seen(rest, flags)?;
        let mut mentions = Vec::new();
        for _ in 0..count {
            let (key, after) = rest.split_first_chunk::<32>()?;
            let (&[flags, nat], after) = after.split_first_chunk::<2>()?;
            let (at, after) = take_seen(after, flags)?;
            let (count, after) = after.split_first()?;
            let (candidates, after) = take_places(after, *count)?;
            rest = after;
            let told = Told {
                willing: flags & WILLING != 0,
                nat: Nat::from_byte(nat),
                at,
                candidates,
            };
            let peer = PublicKey::from_bytes(*key).ok()?;
            mentions.push(Mention { peer, told });
        }
        Some(Self { seen, mentions })
    }

    /// The message as datagrams that fit any tunnel. One without a mention is one, too.
    #[must_use]
    pub fn emit(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut parts = Vec::new();
        let mut count = 0_u8;
        let datagram = |count: u8, parts: &[u8]| {
            let flags = if self.seen.is_some() { SEEN } else { 0 };
            let mut bytes = b"KDGM\x01".to_vec();
            bytes.extend([WORD, flags, count]);
            put_seen(&mut bytes, self.seen);
            bytes.extend(parts);
            bytes
        };
        for Mention { peer, told } in &self.mentions {
            let mut mention = peer.as_bytes().to_vec();
            let willing = if told.willing { WILLING } else { 0 };
            let seen = if told.at.is_some() { SEEN } else { 0 };
            mention.extend([willing | seen, told.nat.byte()]);
            put_seen(&mut mention, told.at);
            mention.push(counted(&told.candidates));
            put_places(&mut mention, &told.candidates);
            if count == u8::MAX || HEAD + parts.len() + mention.len() > LONGEST {
                all.push(datagram(count, &parts));
                parts.clear();
                count = 0;
            }
            parts.extend(mention);
            count += 1;
        }
        if count > 0 || all.is_empty() {
            all.push(datagram(count, &parts));
        }
        all
    }
}

fn counted(candidates: &[Candidate]) -> u8 {
    u8::try_from(candidates.len().min(PLACES)).unwrap_or_default()
}

fn put_places(bytes: &mut Vec<u8>, candidates: &[Candidate]) {
    for candidate in candidates.iter().take(PLACES) {
        bytes.push(match candidate.kind {
            CandidateKind::Host => HOST,
            CandidateKind::Configured => CONFIGURED,
        });
        put_seen(bytes, Some(candidate.at));
    }
}

fn take_places(bytes: &[u8], count: u8) -> Option<(Vec<Candidate>, &[u8])> {
    let mut rest = bytes;
    let mut candidates = Vec::new();
    for _ in 0..count {
        let (kind, after) = rest.split_first()?;
        let (at, after) = take_seen(after, SEEN)?;
        rest = after;
        let kind = match *kind {
            HOST => CandidateKind::Host,
            CONFIGURED => CandidateKind::Configured,
            _ => continue,
        };
        if let Some(at) = at.filter(|_| candidates.len() < PLACES) {
            candidates.push(Candidate { kind, at });
        }
    }
    Some((candidates, rest))
}

fn put_seen(bytes: &mut Vec<u8>, seen: Option<SocketAddr>) {
    let (address, port) = match seen.map(|at| (at.ip(), at.port())) {
        None => (Ipv6Addr::UNSPECIFIED, 0),
        Some((IpAddr::V4(v4), port)) => (v4.to_ipv6_mapped(), port),
        Some((IpAddr::V6(v6), port)) => (v6, port),
    };
    bytes.extend(address.octets());
    bytes.extend(port.to_be_bytes());
}

fn take_seen(bytes: &[u8], flags: u8) -> Option<(Option<SocketAddr>, &[u8])> {
    let (address, rest) = bytes.split_first_chunk::<16>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let address = Ipv6Addr::from(*address).to_canonical();
    let seen = SocketAddr::new(address, u16::from_be_bytes(*port));
    Some(((flags & SEEN != 0).then_some(seen), rest))
}

const HELLO: u8 = 1;
const WORD: u8 = 2;
const WILLING: u8 = 1;
const SEEN: u8 = 2;
const HOST: u8 = 1;
const CONFIGURED: u8 = 2;
const HEAD: usize = 8 + 18;
/// Fits the smallest tunnel, of 1280 bytes.
const LONGEST: usize = 1124;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place() -> impl Strategy<Value = SocketAddr> {
        let v4 = any::<u32>().prop_map(|it| IpAddr::V4(it.into()));
        let v6 = any::<u128>().prop_map(|it| IpAddr::V6(it.into()).to_canonical());
        (prop_oneof![v4, v6], any::<u16>()).prop_map(SocketAddr::from)
    }

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        let kind = prop_oneof![Just(CandidateKind::Host), Just(CandidateKind::Configured)];
        let candidate = (kind, place()).prop_map(|(kind, at)| Candidate { kind, at });
        prop::collection::vec(candidate, 0..=PLACES)
    }

    fn nat() -> impl Strategy<Value = Nat> {
        (0_u8..4).prop_map(Nat::from_byte)
    }

    fn mention() -> impl Strategy<Value = Mention> {
        let told = (
            any::<bool>(),
            nat(),
            prop::option::of(place()),
            candidates(),
        );
        (1_u8.., told).prop_map(|(key, (willing, nat, at, candidates))| Mention {
            peer: PublicKey::from_bytes([key; 32]).unwrap(),
            told: Told {
                willing,
                nat,
                at,
                candidates,
            },
        })
    }

    proptest! {
        #[test]
        fn hellos_read_back(
            willing: bool, nat in nat(), candidates in candidates(), cut: prop::sample::Index,
        ) {
            let hello = Hello { willing, nat, candidates };
            let bytes = hello.emit();
            prop_assert_eq!(Hello::parse(&bytes[..cut.index(bytes.len())]), None);
            prop_assert_eq!(Word::parse(&bytes), None);
            prop_assert_eq!(Hello::parse(&bytes), Some(hello));
        }

        #[test]
        fn words_read_back(
            seen in prop::option::of(place()),
            mentions in prop::collection::vec(mention(), 0..40),
            cut: prop::sample::Index,
        ) {
            let word = Word { seen, mentions };
            let datagrams = word.emit();
            let mut read = Vec::new();
            for bytes in &datagrams {
                prop_assert!(bytes.len() <= LONGEST);
                prop_assert_eq!(Word::parse(&bytes[..cut.index(bytes.len())]), None);
                prop_assert_eq!(Hello::parse(bytes), None);
                let part = Word::parse(bytes).unwrap();
                prop_assert_eq!(part.seen, seen);
                read.extend(part.mentions);
            }
            prop_assert_eq!(read, word.mentions);
        }

        #[test]
        fn any_bytes_are_a_message_or_none(bytes: Vec<u8>) {
            let _ = Hello::parse(&bytes);
            let _ = Word::parse(&bytes);
        }
    }
}
