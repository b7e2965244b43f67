//! Tests on booted systems: nodes with systemd, D-Bus and what configures links of their own, on a LAN in
//! namespaces of the test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code"
)]

mod base;
mod cgroup;
pub mod gone;
pub mod links;
pub mod node;
pub mod packages;
pub mod pair;
mod tree;

use std::path::Path;

use kedge_tests_netns::on_a_steady_machine;

/// Runs a test on booted systems, where they can be had; twice more if the machine stood still.
pub fn on_booted_nodes(body: impl Fn()) {
    if ready() {
        on_a_steady_machine(body);
    }
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
    (base::path().is_none() && !has("mmdebstrap")).then_some("mmdebstrap")
}
