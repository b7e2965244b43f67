//! BFD against a real BIRD 2.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use kedge_tests_netns::{
    agent::Agent, asked::Asked, bird::Bird, eventually, lan::Lan, millis, on_a_steady_machine,
    secs, throughout,
};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const OPTIONS: &str = "min rx interval 100 ms; min tx interval 100 ms; multiplier 3;";

fn session(agent: &Agent<'_>) -> Value {
    agent.kedge("bfd sessions -o json").json()["items"][0].clone()
}

#[test]
fn a_session_with_bird_comes_up_follows_timers_and_orders_and_sees_it_die() {
    on_a_steady_machine(|| {
        for ipv6 in [false, true] {
            let lan = Lan::new();
            let (a, b) = lan.pair();
            a.add_address("fd00:14::b/64");
            b.add_address("fd00:14::c/64");
            let (near, far) = if ipv6 {
                ("fd00:14::b", "fd00:14::c")
            } else {
                ("10.20.14.11", "10.20.14.12")
            };
            let mut bird = Bird::start(&b, OPTIONS, near);
            let yaml = |more: &str| {
                format!(
                    "bfd: {{sessions: {{tor: {{peer: '{far}', interface: eth0, transmit_interval: \
                     100ms, receive_interval: 100ms{more}}}}}}}\n"
                )
            };
            let agent = Agent::running(&a, KEDGE, &yaml(""));
            let is = |state: &str, liveness: &str| {
                let session = session(&agent);
                session["state"] == state && session["liveness"] == liveness
            };
            let is_up = |bird: &Bird<'_>| is("Up", "Alive") && bird.state() == "Up";
            eventually("up", secs(6), || is_up(&bird));
            eventually("agreed", secs(3), || {
                session(&agent)["detectionSeconds"] == 0.3
            });
            bird.configure(&OPTIONS.replace("100 ms", "400 ms"), near);
            eventually("BIRD is slower", secs(5), || {
                let session = session(&agent);
                session["detectionSeconds"] == 1.2 && session["transmitIntervalSeconds"] == 0.4
            });
            bird.configure(OPTIONS, near);
            eventually("and quick again", secs(5), || {
                let session = session(&agent);
                session["detectionSeconds"] == 0.3 && session["transmitIntervalSeconds"] == 0.1
            });
            throughout("it stays up", secs(1), || is_up(&bird));
            assert_eq!(session(&agent)["losses"], 0);
            agent.configure(&yaml(", shutdown: true"));
            agent.reload();
            eventually("we took it down", secs(2), || {
                is("AdminDown", "Unknown") && bird.state() == "Down"
            });
            agent.configure(&yaml(""));
            agent.reload();
            eventually("up again", secs(6), || {
                is_up(&bird) && session(&agent)["detectionSeconds"] == 0.3
            });
            bird.kill();
            eventually("its death is noticed", millis(700), || is("Down", "Lost"));
            println!("  detection time 300 ms: {}", session(&agent)["because"]);
        }
    });
}
