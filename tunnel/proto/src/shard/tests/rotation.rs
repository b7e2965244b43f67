//! Keys that are followed by others while packets pass.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::harness::*;
use crate::{counters::State, directory::PeerSpec, drops::DropReason, keys::Pair};

/// Two ends that send a packet each millisecond, over a way that loses and reorders.
struct Train {
    net: Net,
    random: u64,
    /// In percent.
    loss: u64,
    /// In milliseconds.
    longest: u64,
    flying: Vec<(u64, Datagram)>,
    millis: u64,
    sent: u64,
    /// Packets that the way lost.
    lost: u64,
    arrived: [BTreeSet<u64>; 2],
}

impl Train {
    /// The first end keeps its session up. Each has one already.
    fn new(seed: u64, loss: u64, longest: u64) -> Self {
        let mut net = Net::connected();
        net.send(1, &packet("10.0.0.2", "10.0.0.1", 100, 1));
        for end in &mut net.ends {
            end.delivered.clear();
        }
        let now = net.now;
        net.ends[0].apply(now, vec![far(2, None)]);
        Self {
            net,
            random: seed | 1,
            loss,
            longest,
            flying: Vec::new(),
            millis: 0,
            sent: 0,
            lost: 0,
            arrived: [BTreeSet::new(), BTreeSet::new()],
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % sides
    }

    fn fly(&mut self, datagrams: Vec<Datagram>) {
        for datagram in datagrams {
            let carries = datagram.kind() == 4 && datagram.bytes.len() > 32;
            if self.roll(100) < self.loss {
                self.lost += u64::from(carries);
            } else {
                let at = self.millis + 1 + self.roll(self.longest);
                self.flying.push((at, datagram));
            }
        }
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.step(true);
        }
    }

    fn step(&mut self, sends: bool) {
        self.millis += 1;
        self.net.pass(1);
        let now = self.net.now;
        for end in 0..2 {
            if sends {
                let (from, to) = (format!("10.0.0.{}", end + 1), format!("10.0.0.{}", 2 - end));
                let mut inner = packet(&from, &to, 64, 1);
                inner[20..28].copy_from_slice(&self.sent.to_be_bytes());
                self.sent += 1;
                let sealed = self.net.ends[end].seal(now, &inner);
                self.fly(sealed.into_iter().collect());
            }
            let due = self.net.ends[end].due(now);
            self.fly(due);
        }
        let (there, flying): (Vec<_>, Vec<_>) = std::mem::take(&mut self.flying)
            .into_iter()
            .partition(|(at, _)| *at <= self.millis);
        self.flying = flying;
        for (_, datagram) in there {
            let at = self.net.ends.iter().position(|end| end.at == datagram.to);
            let Some(at) = at else { continue };
            let answers = self.net.ends[at].open(now, &datagram);
            self.fly(answers);
            for inner in std::mem::take(&mut self.net.ends[at].delivered) {
                let number = u64::from_be_bytes(inner[20..28].try_into().unwrap());
                assert!(self.arrived[at].insert(number), "once");
            }
        }
    }

    /// Packets that neither arrived nor were lost on the way, once everything has.
    fn missing(&mut self) -> u64 {
        for _ in 0..=self.longest * 3 {
            self.step(false);
        }
        let arrived: usize = self.arrived.iter().map(BTreeSet::len).sum();
        self.sent - self.lost - u64::try_from(arrived).unwrap()
    }

    fn run_until(&mut self, limit: u64, is_so: impl Fn(&Net) -> bool) {
        for _ in 0..limit {
            if is_so(&self.net) {
                return;
            }
            self.step(true);
        }
        assert!(
            is_so(&self.net),
            "within {limit} ms, {:?}",
            pairs(&self.net)
        );
    }

    /// Whether the first end has this key, and the second knows it beside or instead of the other.
    fn first_knows(&mut self, keys: (u8, Option<u8>)) {
        let now = self.net.now;
        self.net.ends[0].apply(now, vec![far(keys.0, keys.1)]);
    }

    fn second_knows(&mut self, keys: (u8, Option<u8>)) {
        let now = self.net.now;
        self.net.ends[1].apply(now, vec![near(keys.0, keys.1)]);
    }
}

/// The peer of the first end.
fn far(key: u8, next: Option<u8>) -> PeerSpec {
    PeerSpec {
        public_key: public(key),
        next_key: next.map(|next| Box::new(public(next))),
        always_up: true,
        ..spec(2, Some("192.0.2.2:2000"))
    }
}

/// That of the second.
fn near(key: u8, next: Option<u8>) -> PeerSpec {
    PeerSpec {
        public_key: public(key),
        next_key: next.map(|next| Box::new(public(next))),
        ..spec(1, None)
    }
}

/// What both ends send with, where that is not what they began with.
fn pairs(net: &Net) -> [Option<Pair>; 2] {
    let pair = |end: usize, peer| net.ends[end].reading(peer).pair.map(|(pair, _)| pair);
    [pair(0, 2), pair(1, 1)]
}

/// Whether both ends send with these keys.
fn goes_by(net: &Net, first: u8, second: u8) -> bool {
    let (a, b) = (public(first), public(second));
    let (ab, ba) = (
        Pair {
            local: a,
            remote: b,
        },
        Pair {
            local: b,
            remote: a,
        },
    );
    let began = (first, second) == (1, 2);
    let go_by = |pair: Option<Pair>, wanted| pair.map_or(began, |pair| pair == wanted);
    let [first, second] = pairs(net);
    go_by(first, ab) && go_by(second, ba)
}

/// A `Tunn` begins its stamps at the wall clock, which a mocked clock has left behind: our own core would
/// take them for old ones.
fn clocks_differ() -> bool {
    cfg!(feature = "mock-clock") && super::core(1) != super::core(2)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn one_end_goes_over_to_another_key_and_loses_nothing(
        seed: u64, loss in 0_u64..30, longest in 1_u64..60, first: bool, lag in 0_u64..700,
    ) {
        if clocks_differ() {
            return Ok(());
        }
        let mut train = Train::new(seed, loss, longest);
        train.run(50);
        let now = train.net.now;
        if first {
            train.net.ends[0].add_key(now, 1, 11);
            train.run(lag);
            train.second_knows((1, Some(11)));
            train.run_until(100_000, |net| goes_by(net, 11, 2));
            train.run(200);
            train.second_knows((11, None));
            let now = train.net.now;
            train.net.ends[0].drop_key(now, 1);
        } else {
            train.net.ends[1].add_key(now, 2, 12);
            train.run(lag);
            train.first_knows((2, Some(12)));
            train.run_until(100_000, |net| goes_by(net, 1, 12));
            train.run(200);
            train.first_knows((12, None));
            let now = train.net.now;
            train.net.ends[1].drop_key(now, 2);
        }
        train.run(100);
        prop_assert_eq!(train.missing(), 0);
    }

    #[test]
    fn both_ends_go_over_at_once_and_lose_nothing(
        seed: u64, loss in 0_u64..30, longest in 1_u64..60, lags in [0_u64..3_000, 0_u64..3_000],
    ) {
        if clocks_differ() {
            return Ok(());
        }
        let mut train = Train::new(seed, loss, longest);
        train.run(50);
        let now = train.net.now;
        train.net.ends[0].add_key(now, 1, 11);
        train.net.ends[1].add_key(now, 2, 12);
        for at in 0..3_000 {
            if at == lags[0] {
                train.second_knows((1, Some(11)));
            }
            if at == lags[1] {
                train.first_knows((2, Some(12)));
            }
            train.run(1);
        }
        train.run_until(200_000, |net| goes_by(net, 11, 12));
        train.run(200);
        train.first_knows((12, None));
        train.second_knows((11, None));
        let now = train.net.now;
        train.net.ends[0].drop_key(now, 1);
        train.net.ends[1].drop_key(now, 2);
        train.run(100);
        prop_assert_eq!(train.missing(), 0);
    }

    #[test]
    fn handshakes_that_both_ends_force_lose_nothing(
        seed: u64, loss in 0_u64..30, longest in 1_u64..150, often in 1_u64..40,
    ) {
        prop_assert_eq!(lost_of_forced(seed, loss, longest, often), 0);
    }
}

/// How many packets are missing after four seconds in which both ends force handshakes `often` times of a hundred.
fn lost_of_forced(seed: u64, loss: u64, longest: u64, often: u64) -> u64 {
    let mut train = Train::new(seed, loss, longest);
    for _ in 0..4_000 {
        let now = train.net.now;
        for (end, peer) in [(0, 2), (1, 1)] {
            if train.roll(100) < often {
                train.net.ends[end].force(now, peer);
            }
        }
        train.run(1);
    }
    train.missing()
}

#[test]
fn handshakes_that_both_ends_forced_once_lost_nothing() {
    for seed in [6_690_833_326_036_420_039, 6_690_935_421_608_649_174] {
        assert_eq!(lost_of_forced(seed, 29, 106, 12), 0, "{seed}");
    }
}

/// A train of ends that have gone over to the keys 11 and 12, and know no others.
fn gone_over() -> Train {
    let mut train = Train::new(1, 0, 5);
    let now = train.net.now;
    train.net.ends[0].add_key(now, 1, 11);
    train.net.ends[1].add_key(now, 2, 12);
    train.first_knows((2, Some(12)));
    train.second_knows((1, Some(11)));
    train.run_until(100_000, |net| goes_by(net, 11, 12));
    train.run(10);
    train
}

#[test]
fn an_old_key_is_refused_once_it_is_dropped() {
    let mut train = gone_over();
    let old_first = {
        let mut end = End::new(1, "192.0.2.1:1000");
        end.apply(train.net.now, vec![far(12, None)]);
        end.due(train.net.now).remove(0)
    };
    let for_old_second = {
        let mut end = End::new(1, "192.0.2.1:1000");
        end.apply(train.net.now, vec![far(2, None)]);
        end.due(train.net.now).remove(0)
    };
    assert_eq!((old_first.kind(), for_old_second.kind()), (1, 1));
    train.second_knows((11, None));
    let now = train.net.now;
    train.net.ends[1].drop_key(now, 2);
    let second = &mut train.net.ends[1];
    assert!(second.open(now, &old_first).is_empty());
    assert_eq!(second.drops.of(DropReason::UnknownPeer), 1);
    assert!(second.open(now, &for_old_second).is_empty());
    assert_eq!(second.drops.of(DropReason::BadMac), 1);
    assert_eq!(train.missing(), 0);
}

#[test]
fn a_session_of_a_key_that_is_dropped_before_another_one_is_agreed_on_is_over() {
    let mut train = Train::new(1, 0, 5);
    let late = {
        let now = train.net.now;
        let inner = packet("10.0.0.1", "10.0.0.2", 64, 1);
        train.net.ends[0].seal(now, &inner).unwrap()
    };
    let now = train.net.now;
    train.net.ends[0].add_key(now, 1, 11);
    train.second_knows((1, Some(11)));
    train.second_knows((11, None));
    train.net.ends[1].open(now, &late);
    assert_eq!(train.net.ends[1].delivered.len(), 0);
    train.run_until(20_000, |net| goes_by(net, 11, 2));
    assert!(train.net.works(0) && train.net.works(1));
}

#[test]
fn an_end_that_restarts_in_the_middle_goes_on_with_the_newest_keys() {
    for knows in [false, true] {
        let mut train = Train::new(1, 0, 5);
        train.run(50);
        let now = train.net.now;
        train.net.ends[0].add_key(now, 1, 11);
        train.second_knows((1, Some(11)));
        if knows {
            train.run_until(100_000, |net| goes_by(net, 11, 2));
        }
        // A peer is given no two sessions within 20 ms.
        train.run(50);
        let now = train.net.now;
        let mut again = End::restarted(1, "192.0.2.1:1000", 77, WALL + 10);
        again.add_key(now, 1, 11);
        again.apply(now, vec![far(2, None)]);
        train.net.ends[0] = again;
        train.run_until(1_000, |net| {
            net.ends[0].reading(2).state == State::Connected
        });
        train.run_until(100_000, |net| goes_by(net, 11, 2));
        assert!(train.net.works(0) && train.net.works(1));
    }
}

#[test]
fn a_peer_without_a_session_is_not_called_because_of_a_key() {
    let mut net = Net::pair();
    let now = net.now;
    for end in &mut net.ends {
        end.due(now);
    }
    net.ends[1].add_key(now, 2, 12);
    net.ends[1].apply(now, vec![near(1, Some(11))]);
    for _ in 0..600 {
        net.pass(100);
        let now = net.now;
        assert!(net.ends[1].due(now).is_empty());
    }
    assert_eq!(net.ends[1].reading(1).state, State::Idle);
}

#[test]
fn a_key_nobody_answers_costs_nothing_but_an_initiation_now_and_then() {
    let mut train = Train::new(1, 0, 5);
    let now = train.net.now;
    train.net.ends[0].add_key(now, 1, 11);
    train.run(60_000);
    assert!(goes_by(&train.net, 1, 2));
    let refused = train.net.ends[1].drops.of(DropReason::UnknownPeer);
    assert!((4..=7).contains(&refused), "{refused} in a minute");
    assert_eq!(train.missing(), 0);
}
