//! Two shards on one port.

use std::{sync::Arc, time::Duration};

use super::harness::*;
use crate::{
    directory::{Directory, PeerSpec, owner},
    drops::{DropReason, Drops},
    noise::Noise,
    shard::{Outcome, Shard},
};

const PORT: &str = "192.0.2.2:2000";

/// A device of two workers, and its peers, by their numbers.
struct Crew {
    shards: Vec<Shard>,
    drops: Arc<Drops>,
    peers: [u8; 2],
}

impl Crew {
    /// With one peer for each worker.
    fn new() -> (Net, Self) {
        let mut net = Net::pair();
        let of = |worker| (3..).find(|number| owner(&public(*number), 2) == worker);
        let peers = [of(0).unwrap(), of(1).unwrap()];
        let drops = Arc::new(Drops::default());
        let mut shards: Vec<Shard> = (0..2_u8)
            .map(|number| {
                let mut shard = Shard::new(
                    &key(2),
                    number,
                    MTU,
                    number.into(),
                    Arc::clone(&drops),
                    Noise::Boringtun,
                );
                shard.join(2);
                shard
            })
            .collect();
        let mut directory = Directory::new(public(2));
        let change = directory.plan(peers.map(|peer| spec(peer, None)).into());
        let change = change.unwrap();
        directory.commit(&change);
        for (shard, share) in shards.iter_mut().zip(change.share(2)) {
            shard.apply(net.now, share);
        }
        net.ends = peers
            .map(|peer| {
                let mut end = End::new(peer, &format!("198.51.100.{peer}:1000"));
                end.apply(net.now, vec![spec(2, Some(PORT))]);
                end
            })
            .into();
        let crew = Self {
            shards,
            drops,
            peers,
        };
        (net, crew)
    }
}

fn to(peer: u8) -> Vec<u8> {
    packet("10.0.0.2", &format!("10.0.0.{peer}"), 100, 1)
}

fn from(peer: u8) -> Vec<u8> {
    packet(&format!("10.0.0.{peer}"), "10.0.0.2", 100, 1)
}

#[test]
fn a_peer_that_goes_over_to_another_key_stays_with_its_worker() {
    let (mut net, mut crew) = Crew::new();
    let (now, mut dst) = (net.now, [0; 2_048]);
    // Each announces a key that is the other worker's by its bytes, and then has it alone.
    let of = |worker| (100..).find(|number| owner(&public(*number), 2) == worker);
    let next = [of(1).unwrap(), of(0).unwrap()];
    let mut directory = Directory::new(public(2));
    let known = |keys: fn(u8, u8) -> (u8, Option<u8>)| {
        let peers = [0, 1].map(|at| {
            let (key, next) = keys(crew.peers[at], next[at]);
            PeerSpec {
                public_key: public(key),
                next_key: next.map(|next| Box::new(public(next))),
                ..spec(crew.peers[at], None)
            }
        });
        peers.to_vec()
    };
    let steps = [
        known(|key, _| (key, None)),
        known(|key, next| (key, Some(next))),
        known(|_, next| (next, None)),
    ];
    for (step, peers) in steps.into_iter().enumerate() {
        let change = directory.plan(peers).unwrap();
        directory.commit(&change);
        if step > 0 {
            for (shard, share) in crew.shards.iter_mut().zip(change.share(2)) {
                shard.apply(now, share);
            }
        }
    }
    for worker in [0, 1] {
        let mut end = End::new(next[worker], "198.51.100.200:1000");
        end.apply(now, vec![spec(2, Some(PORT))]);
        let initiation = end.seal(now, &from(next[worker])).unwrap();
        crew.shards[0].receive(now, end.at, &initiation.bytes, &mut dst);
        let mut answer = crew.shards[0].poll_handshake(now, &mut dst);
        let handed = crew.shards[0].handed(Duration::ZERO);
        assert_eq!(handed.is_some(), worker == 1);
        if let Some((to, admitted)) = handed {
            assert_eq!(to, 1);
            answer = Some(crew.shards[1].shake_hands(now, admitted, &mut dst).0);
        }
        assert!(matches!(answer, Some(Outcome::Send(_))), "{answer:?}");
        net.pass(100);
    }
}

#[test]
fn the_first_hears_whoever_calls_and_the_owner_answers() {
    let (mut net, mut crew) = Crew::new();
    let (now, mut dst) = (net.now, [0; 2_048]);
    for worker in 0..2 {
        let (peer, end) = (crew.peers[worker], &mut net.ends[worker]);
        let there = end.at;
        let initiation = end.seal(now, &from(peer)).unwrap();
        assert_eq!(crew.shards[1].stranger(&initiation.bytes), Some(0));
        assert_eq!(crew.shards[0].stranger(&initiation.bytes), None);
        let queued = crew.shards[0].receive(now, there, &initiation.bytes, &mut dst);
        assert_eq!(queued, Outcome::Nothing);
        let mut answer = crew.shards[0].poll_handshake(now, &mut dst);
        let handed = crew.shards[0].handed(Duration::from_micros(50));
        assert_eq!(handed.is_some(), worker == 1);
        if let Some((to, admitted)) = handed {
            assert_eq!(to, 1);
            let (outcome, done) = crew.shards[1].shake_hands(now, admitted, &mut dst);
            assert!(done.failed.is_none());
            let done = done.took(Duration::from_micros(100));
            assert_eq!(done.took, Duration::from_micros(150));
            crew.shards[0].heed(now, &done);
            answer = Some(outcome);
        }
        let Some(Outcome::Send(response)) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(response.to, there);
        let response = Datagram {
            from: address(PORT),
            to: there,
            bytes: dst[..response.length].to_vec(),
        };
        let data = end.open(now, &response);
        assert!(!data.is_empty(), "the packet that waited");
        for datagram in &data {
            let other = 1 - worker;
            let owner = u8::try_from(worker).unwrap();
            assert_eq!(crew.shards[other].stranger(&datagram.bytes), Some(owner));
            assert_eq!(crew.shards[worker].stranger(&datagram.bytes), None);
            crew.shards[worker].receive(now, there, &datagram.bytes, &mut dst);
        }
        assert!(
            crew.shards[worker]
                .send(now, &mut slot(&to(peer)), 100)
                .is_some()
        );
    }
    let [first, second] = crew.peers;
    assert_eq!(crew.shards[0].elsewhere(None, &to(second)), Some(1));
    assert_eq!(crew.shards[1].elsewhere(None, &to(first)), Some(0));
    assert_eq!(crew.shards[0].elsewhere(None, &to(first)), None);
    assert_eq!(crew.shards[0].elsewhere(None, &to(99)), None, "nobody's");
    let mut moves = Vec::new();
    crew.shards[0].take_moves(&mut moves);
    assert_eq!(moves, [], "it knows itself");
    crew.shards[1].take_moves(&mut moves);
    assert_eq!(moves, [(None, Some(net.ends[1].at))]);
    assert_eq!(crew.drops.nonzero(), []);
}

#[test]
fn whoever_is_nobody_s_peer_is_held_against_the_place_it_called_from() {
    let (mut net, mut crew) = Crew::new();
    let (now, mut dst) = (net.now, [0; 2_048]);
    let stranger = (100..).find(|number| owner(&public(*number), 2) == 1);
    let mut end = End::new(stranger.unwrap(), "203.0.113.66:6666");
    end.apply(now, vec![spec(2, Some(PORT))]);
    let initiation = end.seal(now, &from(9)).unwrap();
    for round in 0..4 {
        crew.shards[0].receive(now, end.at, &initiation.bytes, &mut dst);
        crew.shards[0].poll_handshake(now, &mut dst);
        let handed = crew.shards[0].handed(Duration::ZERO);
        // After three of them nothing that comes from there is looked at.
        assert_eq!(handed.is_some(), round < 3, "{round}");
        if let Some((_, admitted)) = handed {
            let (outcome, done) = crew.shards[1].shake_hands(now, admitted, &mut dst);
            assert_eq!(outcome, Outcome::Nothing);
            assert!(done.failed.is_some());
            crew.shards[0].heed(now, &done);
        }
    }
    assert_eq!(crew.drops.of(DropReason::UnknownPeer), 3);
    assert_eq!(crew.drops.of(DropReason::RateLimited), 1);
    net.ends.clear();
}

/// A packet with room around it.
fn slot(inner: &[u8]) -> Vec<u8> {
    let mut slot = vec![0; 2_048];
    slot[crate::noise::HEAD..][..inner.len()].copy_from_slice(inner);
    slot
}
