//! Tests on booted systems: nodes with systemd, D-Bus and what configures links of their own, on a LAN in
//! namespaces of the test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code"
)]

mod base;
mod cgroup;
pub mod connects;
pub mod fleet;
pub mod gone;
pub mod guest;
pub mod later;
pub mod links;
pub mod node;
pub mod packages;
pub mod pair;
pub mod repository;
pub mod seed;
mod tree;
pub mod web;

use std::path::Path;

use kedge_dist::appliance::System;
use kedge_tests_netns::{lan::Lan, on_a_steady_machine};
use tempfile::TempDir;

/// Runs a test on booted systems, where they can be had; twice more if the machine stood still.
pub fn on_booted_nodes(body: impl Fn()) {
    if ready() {
        on_a_steady_machine(body);
    }
}

/// The system that guests of a test boot, where it can be had.
#[must_use]
pub fn guests() -> Option<System> {
    if !ready() {
        return None;
    }
    let begun = std::time::Instant::now();
    let system = System::ready(&base::cache()).unwrap();
    println!(
        "the system of the guests is there after {:?}",
        begun.elapsed()
    );
    Some(system)
}

/// A folder for disks of a LAN's guests, which are too large for memory. It goes when it is dropped.
#[must_use]
pub fn place(lan: &Lan) -> TempDir {
    let nodes = base::cache().join("nodes");
    std::fs::create_dir_all(&nodes).unwrap();
    tree::collect(&nodes);
    let prefix = format!("{}-guests-", lan.id());
    let place = tempfile::Builder::new().prefix(&prefix).tempdir_in(nodes);
    place.unwrap()
}

/// Whether the tests of this tier can run. Says why not, and fails where CI requires the tier.
fn ready() -> bool {
    let Some(why) = missing() else { return true };
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|tier| tier == "boot");
    assert!(!required, "booted nodes need {why}");
    eprintln!("skipped: booted nodes need {why}");
    false
}

fn missing() -> Option<&'static str> {
    if kedge_net::privilege::check().is_err() {
        return Some("root");
    }
    let has = |program: &str| Path::new("/usr/bin").join(program).exists();
    if !has("systemd-nspawn") {
        return Some("systemd-nspawn (Debian: systemd-container)");
    }
    (base::NODES.path().is_none() && !has("mmdebstrap")).then_some("mmdebstrap")
}
