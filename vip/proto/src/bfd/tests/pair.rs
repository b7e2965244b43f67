//! Two sessions on a path that delays and loses: a thousand seeds.

use std::{collections::BTreeMap, time::Duration};

use kedge_core::{
    Instant, Machine,
    bfd::{Liveness, SessionState},
};

use super::bench::ms;
use crate::{
    bfd::{Config, Input, Output, Received, Session},
    wire::bfd::{Control, Discriminator, Multiplier, TTL},
};

/// A path between two, in each direction.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    /// Of a thousand packets.
    lost: u64,
    cut: [bool; 2],
}

struct World {
    ends: [Session; 2],
    now: Instant,
    path: Path,
    /// By when they arrive, and in which order they were sent.
    under_way: BTreeMap<(Instant, u64), (usize, Control)>,
    random: u64,
    count: u64,
    /// When the last one of each end arrives: nobody overtakes.
    last: [Instant; 2],
    /// When each end said what of the path.
    told: [Vec<(Instant, Liveness)>; 2],
}

impl World {
    fn new(seed: u64, configs: [Config; 2], path: Path) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let end = |index: u32, config: Config| {
            let local = Discriminator::new(100 + index).unwrap();
            Session::new(now, config, local, seed ^ u64::from(index))
        };
        let [a, b] = configs;
        Self {
            ends: [end(0, a), end(1, b)],
            now,
            path,
            under_way: BTreeMap::new(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            count: 0,
            last: [now; 2],
            told: [Vec::new(), Vec::new()],
        }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// Runs until `until` holds; how long that took, or `None` after `limit`.
    fn run(&mut self, limit: Duration, until: impl Fn(&Self) -> bool) -> Option<Duration> {
        let start = self.now;
        while !until(self) {
            let arrival = self.under_way.first_key_value().map(|(at, _)| at.0);
            let due = self.ends.iter().filter_map(Machine::poll_timeout);
            let next = due.chain(arrival).min()?;
            if next.since(start) > limit {
                self.now = start + limit;
                return until(self).then_some(limit);
            }
            self.now = self.now.max(next);
            // What waits in the socket counts first.
            while let Some(entry) = self.under_way.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let (to, control) = entry.remove();
                let received = Received {
                    ttl: TTL,
                    sealed: false,
                    control,
                };
                let taken = self.ends[to].handle_input(self.now, Input::Packet(received));
                assert_eq!(taken, Ok(()), "{control:?}");
                self.drain(to);
            }
            for end in 0..2 {
                self.ends[end].handle_timeout(self.now);
                self.drain(end);
            }
        }
        Some(self.now.since(start))
    }

    fn drain(&mut self, from: usize) {
        while let Some(output) = self.ends[from].poll_output() {
            match output {
                Output::Send(control) => {
                    let dropped = self.roll(1_000) < self.path.lost || self.path.cut[from];
                    let delay = Duration::from_micros(self.roll(5_000));
                    if !dropped {
                        self.count += 1;
                        self.last[from] = self.last[from].max(self.now + delay);
                        let key = (self.last[from], self.count);
                        self.under_way.insert(key, (1 - from, control));
                    }
                }
                Output::Event(event) => self.told[from].push((self.now, event.liveness)),
                Output::Ended => {}
            }
        }
    }

    fn both(&self, state: SessionState) -> bool {
        self.ends.iter().all(|end| end.state() == state)
    }

    fn settled(&self) -> bool {
        self.both(SessionState::Up) && self.ends.iter().all(|end| !end.view().polling)
    }

    fn losses(&self) -> u64 {
        self.ends.iter().map(|end| end.view().stats.losses).sum()
    }
}

fn configs(seed: u64) -> [Config; 2] {
    let pick = |shift: u32| {
        let choices = [10, 50, 300, 1_000];
        ms(choices[usize::try_from(seed >> shift & 3).unwrap()])
    };
    let end = |shift: u32| Config {
        desired_min_tx: pick(shift),
        required_min_rx: pick(shift + 2),
        multiplier: Multiplier::new(u8::try_from(seed >> (shift + 4) & 1).unwrap() * 3 + 2)
            .unwrap(),
        ..Config::DEFAULT
    };
    let passive = seed >> 10 & 1 == 1;
    [end(0), Config { passive, ..end(5) }]
}

const SEEDS: u64 = 1_000;

#[test]
fn two_come_up_agree_on_timers_and_stay_while_nothing_is_lost() {
    for seed in 0..SEEDS {
        let configs = configs(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20);
        let mut world = World::new(seed, configs, Path::default());
        let took = world.run(Duration::from_secs(4), World::settled);
        assert!(took.is_some(), "seed {seed}: not up within 4 s");
        let [a, b] = [0, 1].map(|end| world.ends[end].view());
        assert_eq!(
            a.transmit_interval,
            configs[0]
                .desired_min_tx
                .max(configs[1].required_min_rx)
                .duration(),
            "seed {seed}"
        );
        let multiplier = u32::from(configs[0].multiplier.get());
        assert_eq!(
            b.detection_time,
            Some(a.transmit_interval * multiplier),
            "seed {seed}"
        );
        let broke = world.run(Duration::from_secs(20), |world| world.losses() > 0);
        assert_eq!(broke, None, "seed {seed}: a false alarm");
    }
}

#[test]
fn a_cut_path_is_told_by_both_within_the_detection_time_and_heals() {
    for seed in 0..SEEDS {
        let configs = configs(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
        let mut world = World::new(seed, configs, Path::default());
        world.run(Duration::from_secs(4), World::settled).unwrap();
        let one_way = seed % 3 == 0;
        world.path.cut = [true, !one_way];
        let start = world.now;
        let limit = world
            .ends
            .each_ref()
            .map(|end| end.view().detection_time.unwrap());
        // What was under way may arrive still, and the other side's word of it.
        let slack = Duration::from_millis(12);
        let bound = limit.into_iter().max().unwrap() + slack;
        world
            .run(bound, |world| {
                world
                    .ends
                    .iter()
                    .all(|end| end.liveness() == Liveness::Lost)
            })
            .unwrap_or_else(|| panic!("seed {seed}: not told within {bound:?}"));
        let at = world.told[1].last().unwrap().0.since(start);
        assert!(
            at <= limit[1] + slack,
            "seed {seed}: {at:?} for {:?}",
            limit[1]
        );
        // A path of one direction is none: neither end may come up, however long it lasts.
        let again = world.run(Duration::from_secs(10), |world| {
            world.ends.iter().any(|end| end.state() == SessionState::Up)
        });
        assert_eq!(again, None, "seed {seed}");
        world.path.cut = [false, false];
        let back = world.run(Duration::from_secs(5), World::settled);
        assert!(back.is_some(), "seed {seed}: not back within 5 s");
        assert!(
            world.ends.iter().all(|end| end.view().stats.losses == 1),
            "seed {seed}"
        );
    }
}

#[test]
fn a_path_that_loses_a_tenth_comes_up_and_agrees() {
    for seed in 0..SEEDS {
        let configs = configs(seed.wrapping_mul(0xd134_2543_de82_ef95) >> 20);
        let lossy = Path {
            lost: 100,
            ..Path::default()
        };
        let mut world = World::new(seed, configs, lossy);
        let took = world.run(Duration::from_secs(40), World::settled);
        assert!(took.is_some(), "seed {seed}: not up and agreed within 40 s");
    }
}

#[test]
fn new_timers_on_either_side_break_nothing() {
    for seed in 0..SEEDS {
        let mut configs = configs(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20);
        let mut world = World::new(seed, configs, Path::default());
        world.run(Duration::from_secs(4), World::settled).unwrap();
        for round in 0..6_u64 {
            let end = usize::try_from((seed + round) % 2).unwrap();
            let choice = [10, 70, 300, 2_000][usize::try_from(world.roll(4)).unwrap()];
            if world.roll(2) == 0 {
                configs[end].desired_min_tx = ms(choice);
            } else {
                configs[end].required_min_rx = ms(choice);
            }
            let now = world.now;
            world.ends[end]
                .handle_input(now, Input::Config(configs[end]))
                .unwrap();
            world.drain(end);
            let pause = Duration::from_millis(world.roll(3_000));
            world.run(pause, |_| false);
        }
        world
            .run(Duration::from_secs(10), World::settled)
            .unwrap_or_else(|| panic!("seed {seed}"));
        assert_eq!(world.losses(), 0, "seed {seed}: a false alarm");
        let a = world.ends[0].view();
        let wanted = configs[0].desired_min_tx.max(configs[1].required_min_rx);
        assert_eq!(a.transmit_interval, wanted.duration(), "seed {seed}");
    }
}
