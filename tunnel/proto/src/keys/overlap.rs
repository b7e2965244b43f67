//! When a key of ours that was followed by another one can go.

use std::time::Duration;

use kedge_core::Instant;

use super::{Pair, PublicKey};

/// A peer, and what its packets go by.
#[derive(Clone, Copy, Debug)]
pub struct Using<'a> {
    /// Its name.
    pub name: &'a str,
    /// The keys its packets go by, and since when.
    pub pair: Option<(Pair, Instant)>,
    /// Whether the key of before is kept for it.
    pub counts: bool,
}

/// Who goes by the new key, and who does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Peers whose packets go by the new key.
    pub moved: Vec<String>,
    /// Peers that the old one is kept for.
    pub waiting: Vec<String>,
    /// Whether the old one is of no use to anybody, nor to anything that is on its way.
    pub over: bool,
}

/// How far the peers are with the key `next`, which they may use since `since`.
///
/// The old key is of no use once all that it is kept for go by the new one for as long as a packet is
/// opened after it was sealed: none is on its way then, and no handshake either.
pub fn overlap<'a>(
    now: Instant,
    next: &PublicKey,
    since: Instant,
    peers: impl IntoIterator<Item = Using<'a>>,
) -> Overlap {
    let mut overlap = Overlap::default();
    let mut newest = since;
    for peer in peers {
        match peer.pair {
            Some((pair, at)) if pair.local == *next => {
                newest = newest.max(at);
                overlap.moved.push(peer.name.to_owned());
            }
            _ if peer.counts => overlap.waiting.push(peer.name.to_owned()),
            _ => {}
        }
    }
    overlap.over = overlap.waiting.is_empty() && now.since(newest) >= REJECT_AFTER_TIME;
    overlap
}

/// A packet that was sealed longer ago is not opened.
const REJECT_AFTER_TIME: Duration = Duration::from_secs(180);

#[cfg(test)]
mod tests {
    use super::{super::PrivateKey, *};

    fn key(number: u8) -> PublicKey {
        PrivateKey::from_random([number; 32]).public()
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn using(name: &str, local: u8, since: u64, counts: bool) -> Using<'_> {
        let pair = Pair {
            local: key(local),
            remote: key(9),
        };
        Using {
            name,
            pair: Some((pair, at(since))),
            counts,
        }
    }

    #[test]
    fn a_key_is_kept_for_whoever_uses_it_and_for_what_is_on_its_way() {
        let look =
            |now: u64, peers: &[Using<'_>]| overlap(at(now), &key(2), at(100), peers.to_vec());
        // Nobody is there: what was there in the process before may still send.
        assert!(!look(279, &[]).over && look(280, &[]).over);
        let moved = [using("a", 2, 150, true), using("b", 2, 200, false)];
        assert!(!look(379, &moved).over && look(380, &moved).over);
        assert_eq!(look(380, &moved).moved, ["a", "b"]);
        let one_waits = [using("a", 2, 150, true), using("b", 1, 0, true)];
        assert_eq!(look(9_999, &one_waits).waiting, ["b"]);
        assert!(!look(9_999, &one_waits).over);
        let unknown = [Using {
            pair: None,
            ..using("c", 1, 0, true)
        }];
        assert!(!look(9_999, &unknown).over);
        let nobody_it_is_kept_for = [using("a", 2, 150, true), using("b", 1, 0, false)];
        assert!(look(330, &nobody_it_is_kept_for).over);
        assert!(look(330, &nobody_it_is_kept_for).waiting.is_empty());
    }
}
