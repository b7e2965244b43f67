//! VIPs of two families that move together (R20), on hosts whose families lose frames apart.
//!
//! A host is its two routers and what the shell does between them: it tells the leader of its
//! member and the member of its leader. Real routers; frames are adverts that are carried or lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code"
)]

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use kedge_core::{
    Instant, Machine,
    vip::{Priority, RouterState, Vrid},
};
use kedge_tests_sim::random::Random;
use kedge_vip_proto::{
    vrrp::{Command, Config, Input, Lead, Link, LinkLoss, Output, Router, Tracked, Transmit},
    wire::{Addresses, Mac, checksum::Forms, ip, vrrp::Received},
};

const FOUR: usize = 0;
const SIX: usize = 1;
const ADV: Duration = Duration::from_millis(100);

struct Host {
    /// The IPv4 router, which leads, and the IPv6 router.
    routers: [Router; 2],
    /// What the kernel holds.
    holds: [bool; 2],
}

/// What is on its way.
enum Happening {
    Advert {
        to: usize,
        family: usize,
        sent: Transmit,
        from: usize,
    },
    Owned {
        host: usize,
        family: usize,
        input: Input,
    },
}

struct World {
    now: Instant,
    hosts: Vec<Host>,
    queue: Vec<(Instant, Happening)>,
    random: Random,
    /// Whether a family's adverts from one host are lost on the way to another.
    lost: Vec<Vec<[bool; 2]>>,
    /// Since when the members are on different hosts.
    split: Option<Instant>,
    longest_split: Duration,
    takeovers: u64,
}

fn source(host: usize, family: usize) -> IpAddr {
    let last = 11 + u8::try_from(host).unwrap();
    if family == SIX {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last.into()).into()
    } else {
        Ipv4Addr::new(10, 20, 14, last).into()
    }
}

fn mac(host: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, 11 + u8::try_from(host).unwrap()])
}

fn router(priority: u8, family: usize, preempt: bool, follows: bool) -> Router {
    let address: IpAddr = if family == SIX {
        "fd00:14::10".parse().unwrap()
    } else {
        "10.20.14.10".parse().unwrap()
    };
    let vrid = Vrid::new(51 + u8::try_from(family).unwrap()).unwrap();
    let addresses = Addresses::new(&[address]).unwrap();
    let config = Config {
        startup_wait: Duration::ZERO,
        link_up_wait: Duration::ZERO,
        preempt,
        follows: follows && family == SIX,
        ..Config::new(vrid, addresses, Priority::new(priority).unwrap())
    };
    Router::new(config).unwrap()
}

impl World {
    fn new(priorities: &[u8], preempt: bool, seed: u64) -> Self {
        Self::with(priorities, preempt, seed, true)
    }

    fn with(priorities: &[u8], preempt: bool, seed: u64, follows: bool) -> Self {
        let hosts = priorities.len();
        let mut world = Self {
            now: Instant::from_nanos(1_000_000_000),
            hosts: priorities
                .iter()
                .map(|priority| Host {
                    routers: [FOUR, SIX].map(|family| router(*priority, family, preempt, follows)),
                    holds: [false; 2],
                })
                .collect(),
            queue: Vec::new(),
            random: Random::new(seed),
            lost: vec![vec![[false; 2]; hosts]; hosts],
            split: None,
            longest_split: Duration::ZERO,
            takeovers: 0,
        };
        for host in 0..hosts {
            for family in [FOUR, SIX] {
                world.link(host, family, true);
                world.give(host, family, Input::Heard);
                world.give(host, family, Input::Command(Command::Start));
            }
        }
        world
    }

    fn link(&mut self, host: usize, family: usize, up: bool) {
        let link = if up {
            Link::Up {
                source: source(host, family),
                mac: mac(host),
            }
        } else {
            Link::Down(LinkLoss::Carrier)
        };
        self.give(host, family, Input::Link(link));
    }

    fn lose(&mut self, family: usize, lost: bool) {
        for way in self.lost.iter_mut().flatten() {
            way[family] = lost;
        }
    }

    fn give(&mut self, host: usize, family: usize, input: Input) {
        // A frame for a router that has no link, or a kernel's answer that is too late.
        let _ = self.hosts[host].routers[family].handle_input(self.now, input);
        self.settle(host);
    }

    /// Does what the routers of a host want, and tells leader and follower of each other.
    fn settle(&mut self, host: usize) {
        loop {
            for family in [FOUR, SIX] {
                while let Some(output) = self.hosts[host].routers[family].poll_output() {
                    self.execute(host, family, output);
                }
            }
            let [leader, follower] = &mut self.hosts[host].routers;
            let burden = Tracked::default().with_member(follower.tracked(), follower.state());
            if follower.config().follows && leader.tracked() != burden {
                leader
                    .handle_input(self.now, Input::Tracked(burden))
                    .unwrap();
                continue;
            }
            if !follower.config().follows {
                break;
            }
            let lead = Lead::of(leader);
            if follower.lead() == Some(lead) {
                break;
            }
            follower.handle_input(self.now, Input::Lead(lead)).unwrap();
        }
        self.look();
    }

    /// Measures how long the group is on two hosts: the one member here alone, the other there.
    fn look(&mut self) {
        let (four, six) = (self.holders(FOUR), self.holders(SIX));
        let apart = !four.is_empty() && !six.is_empty() && four.iter().all(|it| !six.contains(it));
        match self.split {
            None if apart => self.split = Some(self.now),
            Some(since) => {
                self.longest_split = self.longest_split.max(self.now.since(since));
                self.split = self.split.filter(|_| apart);
            }
            None => {}
        }
    }

    fn execute(&mut self, host: usize, family: usize, output: Output) {
        match output {
            Output::Send(sent) => {
                for to in (0..self.hosts.len()).filter(|to| *to != host) {
                    if self.lost[host][to][family] {
                        continue;
                    }
                    let way = Duration::from_micros(100 + self.random.below(400));
                    let sent = sent.clone();
                    let from = host;
                    let advert = Happening::Advert {
                        to,
                        family,
                        sent,
                        from,
                    };
                    self.queue.push((self.now + way, advert));
                }
            }
            Output::Own { hold: true, ticket } => {
                self.takeovers += 1;
                let input = Input::Owned {
                    ticket,
                    result: Ok(()),
                };
                let done = self.now + Duration::from_micros(50 + self.random.below(450));
                self.queue.push((
                    done,
                    Happening::Owned {
                        host,
                        family,
                        input,
                    },
                ));
            }
            Output::Own { hold: false, .. } => self.hosts[host].holds[family] = false,
            _ => {}
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let queued = self.queue.iter().enumerate().min_by_key(|(_, (at, _))| *at);
            let queued = queued.map(|(index, (at, _))| (*at, index));
            let timer = self
                .hosts
                .iter()
                .enumerate()
                .flat_map(|(host, it)| {
                    let due = |family: usize| it.routers[family].poll_timeout();
                    [FOUR, SIX].map(|family| due(family).map(|at| (at, host, family)))
                })
                .flatten()
                .min();
            match (queued, timer) {
                (Some((at, index)), timer)
                    if at <= end && timer.is_none_or(|(due, ..)| at <= due) =>
                {
                    self.now = self.now.max(at);
                    let (_, happening) = self.queue.swap_remove(index);
                    self.happen(happening);
                }
                (_, Some((due, host, family))) if due <= end => {
                    self.now = self.now.max(due);
                    self.hosts[host].routers[family].handle_timeout(self.now);
                    self.settle(host);
                }
                _ => break,
            }
        }
        self.now = end;
        self.look();
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Advert {
                to,
                family,
                sent,
                from,
            } => {
                let received = Received {
                    src: sent.src,
                    dst: sent.dst,
                    ttl: ip::TTL,
                    mac: mac(from),
                    forms: Forms::PseudoHeader,
                    advert: sent.advert,
                };
                self.give(to, family, Input::Advert(received));
            }
            Happening::Owned {
                host,
                family,
                input,
            } => {
                let wants = matches!(
                    self.hosts[host].routers[family].state(),
                    RouterState::Active | RouterState::Releasing
                );
                self.hosts[host].holds[family] = wants;
                self.give(host, family, input);
            }
        }
    }

    fn holders(&self, family: usize) -> Vec<usize> {
        let holds = |host: &usize| self.hosts[*host].holds[family];
        (0..self.hosts.len()).filter(holds).collect()
    }

    /// Asserts the law: nobody holds a part of the group, and it was on two hosts for `bound` at most.
    fn is_whole(&self, bound: Duration, what: &str) {
        for (host, it) in self.hosts.iter().enumerate() {
            assert_eq!(
                it.holds[FOUR], it.holds[SIX],
                "{what}: host {host} holds a part"
            );
        }
        let longest = self.longest_split;
        assert!(
            longest <= bound,
            "{what}: a group was split for {longest:?}"
        );
    }
}

/// The slowest answer of a kernel in this world, for the one member, while the other is there.
const BOUND: Duration = Duration::from_micros(500);

#[test]
fn members_of_a_group_are_never_split_between_hosts_longer_than_a_bound() {
    let mut longest = Duration::ZERO;
    for seed in 0..1_000 {
        let mut random = Random::new(seed);
        let preempt = random.chance(50);
        let mut world = World::new(&[254, 251, 248], preempt, seed);
        for _ in 0..6 {
            world.run(Duration::from_millis(300 + random.below(1_500)));
            let host = random.index(3);
            let family = random.index(2);
            match random.below(4) {
                0 => {
                    world.link(host, family, false);
                    world.run(Duration::from_millis(random.below(900)));
                    world.link(host, family, true);
                }
                1 => {
                    world.lose(family, true);
                    world.run(Duration::from_millis(random.below(1_500)));
                    world.lose(family, false);
                }
                2 => {
                    let other = random.index(3);
                    world.lost[host][other][family] = true;
                    world.run(Duration::from_millis(random.below(1_500)));
                    world.lost[host][other][family] = false;
                }
                _ => {
                    let failed = Tracked {
                        cost: 0,
                        critical: true,
                    };
                    world.give(host, SIX, Input::Tracked(failed));
                    world.run(Duration::from_millis(random.below(900)));
                    world.give(host, SIX, Input::Tracked(Tracked::default()));
                }
            }
        }
        world.run(Duration::from_secs(12));
        world.is_whole(BOUND, &format!("seed {seed}"));
        assert_eq!(world.holders(FOUR).len(), 1, "seed {seed}: one host has it");
        assert_eq!(world.holders(FOUR), world.holders(SIX), "seed {seed}");
        longest = longest.max(world.longest_split);
    }
    eprintln!("a group was split for {longest:?} at most");
}

#[test]
fn a_group_does_not_play_ping_pong_while_one_familys_multicast_is_lost() {
    for family in [FOUR, SIX] {
        let mut world = World::new(&[254, 251], false, 7);
        world.run(Duration::from_secs(2));
        assert_eq!(
            (world.holders(FOUR), world.holders(SIX)),
            (vec![0], vec![0])
        );
        world.lose(family, true);
        let before = world.takeovers;
        world.run(ADV * 1_000);
        let moves = world.takeovers - before;
        if family == SIX {
            assert_eq!(moves, 0, "the leader's family is heard");
            assert_eq!(world.holders(SIX), [0]);
        } else {
            // Without the leader's own adverts both have it: once, and all of it.
            assert_eq!(moves, 2, "{moves} take-overs of two members");
            assert_eq!(
                (world.holders(FOUR), world.holders(SIX)),
                (vec![0, 1], vec![0, 1])
            );
        }
        world.lose(family, false);
        world.run(Duration::from_secs(2));
        assert_eq!(
            (world.holders(FOUR), world.holders(SIX)),
            (vec![0], vec![0])
        );
        world.is_whole(BOUND, "afterwards");
    }
}

#[test]
fn members_that_each_elect_are_found_apart() {
    let mut world = World::with(&[254, 251], false, 7, false);
    world.run(Duration::from_secs(2));
    world.link(0, SIX, false);
    world.run(Duration::from_secs(2));
    assert_eq!(
        (world.holders(FOUR), world.holders(SIX)),
        (vec![0], vec![1])
    );
    assert!(world.longest_split > BOUND);
}
