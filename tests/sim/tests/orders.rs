//! The operator's orders in many worlds: where the VIP is, and within which time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::time::Duration;

use kedge_core::{Instant, vip::RouterState};
use kedge_tests_sim::{faults::Fault, random::Random, setup::Setup, world::World};
use kedge_vip_proto::vrrp::Router;

const WORLDS: u64 = 200;

/// Three hosts that have been running for two seconds; the VIP is on one of them.
fn world(seed: u64, preempt: bool) -> World<Router> {
    let random = Random::new(seed);
    let mut setup = Setup::plain(&[254, 251, 248]);
    // Below what is between two neighbours' skews: whoever is first is heard in time.
    setup.delay = (Duration::from_micros(100), Duration::from_micros(500));
    for config in &mut setup.configs {
        config.preempt = preempt;
    }
    let start = |host: usize| {
        let at = Duration::from_millis(seed * 7 % 300) * u32::try_from(host).unwrap();
        (Instant::ZERO + at, Fault::Start(host))
    };
    let mut world = World::new(setup, random, &[start(0), start(1), start(2)]);
    world.run(Instant::ZERO + Duration::from_secs(2)).unwrap();
    assert_eq!(world.actives().len(), 1, "seed {seed}");
    world
}

/// Runs until something holds, and says how long that took.
fn within(
    world: &mut World<Router>,
    limit: u64,
    seed: u64,
    holds: impl Fn(&World<Router>) -> bool,
) -> Duration {
    let start = world.now;
    let end = start + Duration::from_millis(limit);
    assert!(
        world.run_until(end, holds).unwrap(),
        "seed {seed}: not within {limit} ms, on {:?}",
        world.actives()
    );
    world.now.since(start)
}

fn stays(world: &mut World<Router>, millis: u64, on: usize, seed: u64) {
    let end = world.now + Duration::from_millis(millis);
    let moved = world
        .run_until(end, |world| world.actives() != [on])
        .unwrap();
    assert!(!moved, "seed {seed}: {:?}", world.actives());
}

#[test]
fn a_drained_host_holds_the_vip_while_nobody_else_lives_and_no_longer() {
    for seed in 0..WORLDS {
        let mut world = world(seed, seed % 2 == 0);
        let drained = world.actives()[0];
        world.inject(Fault::Drain(drained, true)).unwrap();
        // Every other host's skew is below an interval.
        within(&mut world, 120, seed, |world| {
            world.actives().len() == 1 && world.actives() != [drained]
        });
        let others: Vec<usize> = (0..3).filter(|host| *host != drained).collect();
        let successor = world.actives()[0];
        stays(&mut world, 1_000, successor, seed);
        for host in &others {
            world.inject(Fault::KillHost(*host)).unwrap();
        }
        // Three intervals and nearly one of skew.
        within(&mut world, 500, seed, |world| world.actives() == [drained]);
        world.inject(Fault::Start(others[0])).unwrap();
        let back = within(&mut world, 700, seed, |world| {
            world.actives() == [others[0]]
        });
        stays(&mut world, 3_000, others[0], seed);
        assert!(back < Duration::from_millis(700));
    }
}

#[test]
fn a_vip_that_was_given_away_stays_away_with_preempt_on() {
    for seed in 0..WORLDS {
        let mut world = world(seed, true);
        // The best one preempts the others once all run.
        let limit = Instant::ZERO + Duration::from_secs(20);
        assert!(
            world
                .run_until(limit, |world| world.actives() == [0])
                .unwrap()
        );
        world.inject(Fault::HandOver(0)).unwrap();
        within(&mut world, 120, seed, |world| {
            world.actives().len() == 1 && world.actives() != [0]
        });
        let end = world.now + Duration::from_secs(10);
        let back = world
            .run_until(end, |world| world.actives() == [0])
            .unwrap();
        assert!(!back, "seed {seed}");
    }
}

#[test]
fn a_take_moves_the_vip_to_a_better_host_within_its_skew_and_to_no_other() {
    for seed in 0..WORLDS {
        let mut world = world(seed, false);
        let owner = world.actives()[0];
        for host in (0..3).filter(|host| *host != owner) {
            world.inject(Fault::Take(host)).unwrap();
        }
        // Of two that are better the best has it in the end.
        let best = if owner == 0 { owner } else { 0 };
        let end = world.now + Duration::from_millis(120);
        world.run(end).unwrap();
        assert_eq!(world.actives(), [best], "seed {seed}, was on {owner}");
        stays(&mut world, 2_000, best, seed);
    }
}

#[test]
fn a_frozen_group_moves_for_a_dead_host_alone() {
    for seed in 0..WORLDS {
        let mut world = world(seed, true);
        let limit = Instant::ZERO + Duration::from_secs(20);
        assert!(
            world
                .run_until(limit, |world| world.actives() == [0])
                .unwrap()
        );
        for host in 0..3 {
            world.inject(Fault::Freeze(host, true)).unwrap();
        }
        world.inject(Fault::HandOver(0)).unwrap();
        world.inject(Fault::Ill(0)).unwrap();
        world.inject(Fault::Take(1)).unwrap();
        stays(&mut world, 2_000, 0, seed);
        world.inject(Fault::KillHost(0)).unwrap();
        within(&mut world, 450, seed, |world| world.actives() == [1]);
        // The better one comes back, and preempts only once they thaw.
        world.inject(Fault::Start(0)).unwrap();
        stays(&mut world, 8_000, 1, seed);
        assert_eq!(world.hosts[0].state(), Some(RouterState::Backup));
        world.inject(Fault::Freeze(0, false)).unwrap();
        within(&mut world, 450, seed, |world| world.actives() == [0]);
    }
}
