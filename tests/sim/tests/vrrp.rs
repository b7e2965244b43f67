//! A thousand worlds of routers.
//!
//! A failure prints its seed; `KEDGE_SIM_SEED=<seed> cargo test -p kedge-tests-sim` runs that one
//! alone, `KEDGE_SIM_SEEDS=<count>` more of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code"
)]

use std::{collections::BTreeMap, time::Duration};

use kedge_core::{Instant, vip::RouterState};
use kedge_tests_sim::{
    check::Violation,
    digest::Digest,
    faults::{self, Fault},
    mutant::Mutant,
    random::Random,
    setup::{Setup, mac},
    subject::Subject,
    world::World,
};
use kedge_vip_proto::vrrp::Router;

struct Report {
    digest: Digest,
    met: BTreeMap<&'static str, u64>,
}

/// Lives through the world of `seed`: faults, repairs, and the quiet after them.
fn live<S: Subject>(seed: u64) -> Result<Report, Violation> {
    let mut random = Random::new(seed);
    let setup = Setup::any(&mut random);
    let adv = setup.interval.duration();
    let boot = if setup.configs[0].first_claim {
        Duration::from_secs(3)
    } else {
        Duration::ZERO
    };
    let end = Instant::ZERO + boot + adv * 60;
    let (fastest, slowest) = setup.delay;
    let plan = faults::plan(&mut random, &setup, end);
    let mut world = World::<S>::new(setup, random, &plan);
    world.run(end)?;
    settle(&mut world, end + Duration::from_secs(150))?;
    // Whoever owns it now loses its host, on a LAN without faults.
    let owner = world.actives()[0];
    world.inject(Fault::KillHost(owner))?;
    let died = world.now;
    world.run_until(died + adv * 6, |world| !world.actives().is_empty())?;
    if world.actives().is_empty() {
        let what = "nobody took over from a dead host".to_owned();
        return Err(Violation {
            at: world.now,
            host: owner,
            what,
        });
    }
    // Until a duel, if there was one, is over and its loser made the winner announce again.
    world.run(world.now + adv + slowest * 6 + Duration::from_millis(150))?;
    let owner = world.actives()[0];
    // Where frames overtake each other, so may the last word.
    if fastest == slowest && world.client.cache != Some(mac(owner)) {
        let what = format!("the client sends to {:?}", world.client.cache);
        return Err(Violation {
            at: world.now,
            host: owner,
            what,
        });
    }
    Ok(Report {
        digest: world.digest,
        met: world.met,
    })
}

/// Waits until one host is Active, every other one is a Backup that could take over, and that
/// stays so.
fn settle<S: Subject>(world: &mut World<S>, limit: Instant) -> Result<(), Violation> {
    loop {
        if !world.run_until(limit, World::is_settled)? {
            let states: Vec<_> = world.hosts.iter().map(|host| host.state()).collect();
            let what = format!("it never settles: {states:?}");
            return Err(Violation {
                at: world.now,
                host: 0,
                what,
            });
        }
        let owner = world.actives();
        let calm = world.hosts[0].config.interval.duration() * 6;
        let changed = |world: &World<S>| world.actives() != owner;
        if !world.run_until(world.now + calm, changed)? {
            return Ok(());
        }
    }
}

fn seeds() -> Vec<u64> {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    match number("KEDGE_SIM_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("KEDGE_SIM_SEEDS").unwrap_or(1_000)).collect(),
    }
}

#[test]
fn a_thousand_worlds_keep_every_invariant() {
    let mut met = BTreeMap::<&str, u64>::new();
    let seeds = seeds();
    for seed in &seeds {
        let report = live::<Router>(*seed)
            .unwrap_or_else(|violation| panic!("KEDGE_SIM_SEED={seed}: {violation}"));
        for (what, count) in report.met {
            *met.entry(what).or_default() += count;
        }
    }
    if seeds.len() < 1_000 {
        return;
    }
    eprintln!("{} worlds met {met:#?}", seeds.len());
    for what in [
        "take-over after silence",
        "take-over, nobody heard",
        "take-over after a goodbye",
        "take-over by priority",
        "take-over by health",
        "stepped down",
        "let go after a stall",
        "succeeded",
        "no successor",
        "critical track lost",
        "critical track back",
        "foreign claim",
        "both checksums",
        "address probed",
        "address in use",
        "asked, and answered by a kernel",
        "refused by a kernel",
        "damaged or foreign frame",
        "frame lost",
        "fresh probe",
        "proof asked for",
        "proof missing",
        "old_ticket",
    ] {
        assert!(met.contains_key(what), "no world met: {what}");
    }
}

#[test]
fn the_same_seed_gives_the_same_digest_and_another_seed_another() {
    let mut digests = Vec::new();
    for seed in 0..20 {
        let first = live::<Router>(seed).unwrap();
        let second = live::<Router>(seed).unwrap();
        assert_eq!(first.digest, second.digest, "seed {seed}");
        assert!(!digests.contains(&first.digest), "seed {seed}");
        digests.push(first.digest);
    }
}

/// Some world catches a mutant for what it does wrong.
fn caught<const FLAW: usize>(expected: &str) {
    let mut others = Vec::new();
    for seed in 0..500 {
        match live::<Mutant<FLAW>>(seed) {
            Err(violation) if violation.what.contains(expected) => return,
            Err(violation) => others.push(violation),
            Ok(_) => {}
        }
    }
    panic!("a broken router must be caught: {others:?}");
}

#[test]
fn a_router_that_ignores_better_adverts_is_caught() {
    caught::<0>("stays Active after a better advert");
}

#[test]
fn a_router_that_announces_too_early_is_caught() {
    caught::<1>("announced before the kernel held the address");
}

#[test]
fn a_router_that_puts_the_take_over_off_is_caught() {
    caught::<2>("moved the take-over");
}

#[test]
fn a_router_that_never_takes_over_is_caught() {
    caught::<3>("nobody owns the VIP");
}

#[test]
fn a_router_that_forgets_to_advertise_is_caught() {
    caught::<4>("an Active was silent");
}

#[test]
fn a_router_that_catches_up_after_a_stall_is_caught() {
    caught::<5>("of silence the first thing was");
}

#[test]
fn a_router_that_acts_on_refused_inputs_is_caught() {
    caught::<6>("a refused input changed something");
}

/// Two hosts that took over on their sides of a partition, with the client on the side of the
/// one that will lose.
#[test]
fn after_a_partition_the_clients_of_the_loser_follow_the_winner_at_once() {
    for offset in 0..40 {
        let mut world = World::<Router>::new(
            Setup::plain(&[254, 251]),
            Random::new(offset),
            &[
                (Instant::ZERO, Fault::Start(0)),
                (Instant::ZERO, Fault::Start(1)),
            ],
        );
        world.run(Instant::ZERO + Duration::from_secs(2)).unwrap();
        assert_eq!(world.actives(), [0]);
        world.inject(Fault::Partition(0b001)).unwrap();
        // Long after every scheduled announcement but the refresh.
        world
            .run(world.now + Duration::from_millis(20_000 + offset * 5))
            .unwrap();
        assert_eq!(world.actives(), [0, 1]);
        assert_eq!(world.client.cache, Some(mac(1)));
        world.inject(Fault::Heal).unwrap();
        world.run(world.now + Duration::from_millis(102)).unwrap();
        assert_eq!(world.actives(), [0]);
        assert_eq!(world.client.cache, Some(mac(0)), "{offset}");
    }
}

#[test]
fn a_graceful_stop_leaves_no_moment_without_an_answering_kernel() {
    for seed in 0..50 {
        let setup = Setup::plain(&[254, 251, 248]);
        let starts: Vec<_> = (0..3)
            .map(|host| (Instant::ZERO, Fault::Start(host)))
            .collect();
        let mut world = World::<Router>::new(setup, Random::new(seed), &starts);
        world.run(Instant::ZERO + Duration::from_secs(2)).unwrap();
        world.inject(Fault::Stop(0)).unwrap();
        let begin = world.now;
        let answers = |world: &World<Router>| world.hosts.iter().any(|host| host.kernel.holds);
        let gap = world
            .run_until(begin + Duration::from_secs(1), |world| !answers(world))
            .unwrap();
        assert!(
            !gap,
            "seed {seed}: nobody answered at {:?}",
            world.now.since(begin)
        );
        assert_eq!(world.actives(), [1]);
        assert_eq!(world.hosts[0].state(), Some(RouterState::Initialize));
        assert!(!world.hosts[0].kernel.holds);
        assert_eq!(world.client.cache, Some(mac(1)));
    }
}

#[test]
fn a_dead_host_is_replaced_within_active_down() {
    for seed in 0..50 {
        let setup = Setup::plain(&[254, 251, 248]);
        let starts: Vec<_> = (0..3)
            .map(|host| (Instant::ZERO, Fault::Start(host)))
            .collect();
        let mut world = World::<Router>::new(setup, Random::new(seed), &starts);
        let chosen = Duration::from_millis(2_000 + seed * 7);
        world.run(Instant::ZERO + chosen).unwrap();
        world.inject(Fault::KillHost(0)).unwrap();
        let died = world.now;
        world
            .run_until(died + Duration::from_secs(1), |world| {
                !world.actives().is_empty()
            })
            .unwrap();
        let gap = world.now.since(died);
        // 3 × 100 ms + 5/256 × 100 ms after the last advert, which was up to 100 ms before.
        assert!(gap <= Duration::from_micros(302_200), "{gap:?}");
        assert!(gap >= Duration::from_micros(201_900), "{gap:?}");
        assert_eq!(world.actives(), [1]);
    }
}

#[test]
fn a_first_start_beside_an_active_takes_its_answer_for_what_it_is() {
    for seed in 0..20 {
        let mut setup = Setup::plain(&[254, 251]);
        setup
            .configs
            .iter_mut()
            .for_each(|config| config.first_claim = true);
        let second = Duration::from_millis(5_000 + seed * 13);
        let mut world = World::<Router>::new(
            setup,
            Random::new(seed),
            &[
                (Instant::ZERO, Fault::Start(0)),
                (Instant::ZERO + second, Fault::Start(1)),
            ],
        );
        world
            .run(Instant::ZERO + second + Duration::from_secs(5))
            .unwrap();
        assert!(world.met.contains_key("asked, and answered by a kernel"));
        assert!(!world.met.contains_key("address in use"));
        assert_eq!(world.actives(), [0]);
    }
}

#[test]
fn a_first_start_while_a_dead_agents_kernel_answers_waits_for_it() {
    let mut setup = Setup::plain(&[254, 251]);
    setup.configs[1].first_claim = true;
    let mut world =
        World::<Router>::new(setup, Random::new(1), &[(Instant::ZERO, Fault::Start(0))]);
    world.run(Instant::ZERO + Duration::from_secs(2)).unwrap();
    world.inject(Fault::KillProcess(0)).unwrap();
    world.inject(Fault::Start(1)).unwrap();
    let start = world.now;
    world.run(start + Duration::from_secs(1)).unwrap();
    assert_eq!(world.hosts[1].state(), Some(RouterState::Fault));
    let claimed = |world: &World<Router>| world.actives() == [1];
    assert!(
        world
            .run_until(start + Duration::from_secs(30), claimed)
            .unwrap()
    );
    // Found at Active_Down, asked again 5 s later, quiet for 5 s more, then the usual 3 s.
    let took = world.now.since(start);
    assert!((13_300..13_400).contains(&took.as_millis()), "{took:?}");
}
