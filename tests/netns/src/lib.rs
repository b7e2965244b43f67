//! Network-namespace tests against real peers: the fixture they share.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code"
)]

pub mod agent;
pub mod answers;
pub mod asked;
pub mod bfdd;
pub mod bgpd;
pub mod bird;
pub mod bounds;
pub mod browser;
pub mod capture;
pub mod client;
pub mod enrolled;
pub mod envoy;
pub mod exabgp;
pub mod flood;
pub mod frr;
pub mod gateway;
pub mod gobgp;
pub mod guardian;
pub mod haproxy;
pub mod keepalived;
pub mod lan;
pub mod manager;
pub mod openbgpd;
pub mod plain;
pub mod role;
pub mod sealed;
pub mod speaking;
mod steady;
pub mod talk;
pub mod tenant;
pub mod tor;
pub mod train;
pub mod vmac;
pub mod web;

use std::time::{Duration, Instant};

pub use steady::{on_a_machine_without_pauses, on_a_steady_machine};

/// Whether the tests of this tier can run. Says why not, and fails where CI requires the tier.
#[must_use]
pub fn ready() -> bool {
    if kedge_net::privilege::check().is_ok() {
        return true;
    }
    left_out("network namespaces need root");
    false
}

/// Says why something of this tier does not run, and fails where CI requires the tier.
pub fn left_out(why: &str) {
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|tier| tier == "netns");
    assert!(!required, "{why}");
    eprintln!("skipped: {why}");
}

/// Waits until something holds, prints how long it took, and fails after `limit`.
pub fn eventually(what: &str, limit: Duration, holds: impl FnMut() -> bool) -> Duration {
    let took = quietly(what, limit, holds);
    println!("{what}: {:.1} ms", took.as_secs_f64() * 1e3);
    took
}

/// Waits until something holds and fails after `limit`.
pub fn quietly(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}

/// Watches for `time` that something holds all along.
pub fn throughout(what: &str, time: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < time {
        assert!(holds(), "{what}: not after {:?}", start.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// That many seconds.
#[must_use]
pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// That many milliseconds.
#[must_use]
pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
