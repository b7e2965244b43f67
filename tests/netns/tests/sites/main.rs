//! HTTP that is served by the real Envoy.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod chance;
#[path = "../envoy/dice.rs"]
mod dice;
mod offered;
#[path = "../envoy/site.rs"]
#[allow(dead_code, reason = "other tests want more of it")]
mod site;

use std::{collections::BTreeMap, thread, time::Instant};

use kedge_control::site::Certificate;
use kedge_gateway_xds::{Here, Life, render};
use kedge_tests_netns::secs;

use dice::Dice;
use site::Site as Lab;

#[test]
fn whatever_is_told_of_sites_envoy_takes() {
    let Some(lab) = Lab::new() else { return };
    let seed = std::env::var("KEDGE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let rounds = std::env::var("KEDGE_ROUNDS").map_or(100, |it| it.parse().unwrap());
    let mut dice = Dice(seed);
    let certificates: Vec<Certificate> = offered::all_kinds_of_certificates();
    lab.server.wanted.declare([]);
    let _envoy = lab.envoy();
    let (mut told, mut refused) = (0, BTreeMap::<String, usize>::new());
    for round in 0..rounds {
        let mut offer = dice.offer(lab.address());
        offer.sites = dice.sites(lab.address(), &certificates);
        let mut here = Here::default();
        for host in 0..6 {
            let life = dice.of(&[Life::Alive, Life::Dead, Life::Draining]);
            here.lives.insert(format!("host-{host}"), life);
        }
        let rendered = render(&offer, &here);
        told += rendered.sites.len();
        for one in rendered
            .refused
            .iter()
            .filter(|one| one.frontend.starts_with("site"))
        {
            *refused.entry(one.reason.to_string()).or_default() += 1;
        }
        lab.server.wanted.declare(rendered.resources);
        let start = Instant::now();
        while !lab.server.wanted.pending().is_empty() {
            let waits = lab.server.wanted.pending();
            let refused = lab.server.wanted.refused();
            assert!(
                start.elapsed() < secs(10) && refused.is_empty(),
                "round {round} of seed {seed}: {waits:?} {refused:?} {:?}",
                offer.sites
            );
            thread::yield_now();
        }
        assert_eq!(
            lab.server.wanted.refused(),
            [],
            "round {round} of seed {seed}: {offer:?}"
        );
    }
    println!("{told} sites were told, refused were {refused:#?}");
}
