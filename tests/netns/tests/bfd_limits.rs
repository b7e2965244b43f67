//! What BFD costs, how quick it may be, and what it withstands.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use kedge_core::bfd::SessionState;
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    bfdd::Bfdd,
    eventually,
    lan::{Host, Lan},
    on_a_steady_machine, secs,
};
use kedge_vip_proto::wire::bfd::{Control, Diagnostic, Discriminator, Interval, Multiplier};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const A: &str = "10.20.14.11";
const B: &str = "10.20.14.12";

fn session(agent: &Agent<'_>) -> Value {
    agent.kedge("bfd sessions -o json").json()["items"][0].clone()
}

fn yaml(timers: &str) -> String {
    format!("bfd: {{sessions: {{tor: {{peer: {B}{timers}}}}}}}\n")
}

/// How often the thread of BFD went to sleep of its own accord.
fn sleeps(agent: &Agent<'_>) -> u64 {
    let pid = agent.kedge("status -o json").json()["pid"]
        .as_u64()
        .unwrap();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_bfd = tasks.flatten().map(|task| task.path()).find(|task| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "kedge-bfd")
    });
    let status = fs::read_to_string(of_bfd.unwrap().join("status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("voluntary_ctxt_switches"));
    let count = line.and_then(|line| line.split_whitespace().nth(1));
    count.unwrap().parse().unwrap()
}

#[test]
fn a_session_wakes_its_thread_once_for_each_packet() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let _frr = Bfdd::start(&b, &[(A, "")]);
        let agent = Agent::running(&a, KEDGE, &yaml(""));
        eventually("up", secs(6), || session(&agent)["detectionSeconds"] == 0.9);
        let packets = || {
            let shown = session(&agent);
            shown["packetsSent"].as_u64().unwrap() + shown["packetsReceived"].as_u64().unwrap()
        };
        let start = Instant::now();
        let (slept, sent) = (sleeps(&agent), packets());
        // A measurement, not a wait for something.
        while start.elapsed() < secs(8) {
            std::thread::sleep(Duration::from_millis(100));
        }
        let (slept, sent) = (sleeps(&agent) - slept, packets() - sent);
        let time = start.elapsed().as_secs_f64();
        println!(
            "300 ms both ways: {:.1} wake-ups a second for {:.1} packets a second",
            slept as f64 / time,
            sent as f64 / time
        );
        // Counters are up to a second old.
        assert!(sent >= 40, "{sent} packets");
        assert!(slept <= sent + 12, "{slept} wake-ups for {sent} packets");
    });
}

#[test]
fn ten_milliseconds_are_kept_once_the_host_has_shown_that_it_can() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let frr = Bfdd::start(&b, &[(A, "transmit-interval 10, receive-interval 10")]);
        let timers = ", transmit_interval: 10ms, receive_interval: 10ms";
        let agent = Agent::running(&a, KEDGE, &yaml(timers));
        eventually("up, at 100 ms for now", secs(6), || {
            session(&agent)["state"] == "Up"
        });
        let mut problems = String::new();
        eventually("it is known what the host can keep", secs(8), || {
            let shown = session(&agent);
            problems = shown["problems"].to_string();
            shown["transmitIntervalSeconds"] == 0.01 || problems.contains("KEDGE-BFD-0006")
        });
        if problems.contains("KEDGE-BFD-0006") {
            println!("{problems}");
            eventually("FRR is told 100 ms", secs(3), || {
                frr.number(A, "remote-transmit-interval") == 100
            });
        } else {
            eventually("FRR is told 10 ms", secs(3), || {
                frr.number(A, "remote-transmit-interval") == 10
                    && session(&agent)["detectionSeconds"] == 0.03
            });
        }
    });
}

/// Sends packets from a host as fast as it can, until told to stop; how many there were.
fn flood(host: &Host, stop: Arc<AtomicBool>) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let namespace = host.namespace().name().to_owned();
    std::thread::spawn(move || {
        let namespace = kedge_net::netns::Namespace::open(&namespace).unwrap();
        let worker = kedge_net::netns::Worker::start(&namespace).unwrap();
        let job = move || {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
            let to: SocketAddr = "10.20.14.11:3784".parse().unwrap();
            let mut random = 0x2545_f491_u32;
            while !stop.load(Ordering::Relaxed) {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let packet = Control {
                    diagnostic: Diagnostic::ADMIN_DOWN,
                    state: SessionState::AdminDown,
                    poll: true,
                    fin: false,
                    independent: false,
                    demand: false,
                    multiplier: Multiplier::DEFAULT,
                    my: Discriminator::new(random | 1).unwrap(),
                    your: Discriminator::new(random | 2),
                    desired_min_tx: Interval::SLOW,
                    required_min_rx: Interval::ZERO,
                    required_min_echo_rx: Interval::ZERO,
                };
                // In turn as from the peer's own link, and from behind a router.
                socket.set_ttl_v4(255 - (random >> 31)).unwrap();
                if socket.send_to(&packet.emit(), &to.into()).is_ok() {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        worker.run(job).unwrap();
    });
    count
}

#[test]
fn a_flood_of_guessed_sessions_from_the_peers_own_address_takes_none_down() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let frr = Bfdd::start(&b, &[(A, "")]);
        let agent = Agent::running(&a, KEDGE, &yaml(""));
        eventually("up", secs(6), || session(&agent)["detectionSeconds"] == 0.9);
        let stop = Arc::new(AtomicBool::new(false));
        let count = flood(&b, Arc::clone(&stop));
        let start = Instant::now();
        while start.elapsed() < secs(5) {
            let shown = session(&agent);
            assert!(shown["state"] == "Up" && shown["losses"] == 0, "{shown}");
        }
        stop.store(true, Ordering::Relaxed);
        let sent = count.load(Ordering::Relaxed);
        println!("{sent} packets in {:?}", start.elapsed());
        assert!(sent > 10_000, "that was no flood: {sent}");
        eventually("they are counted", secs(3), || {
            let refused = &session(&agent)["packetsRefused"];
            refused["other_session"]
                .as_u64()
                .is_some_and(|count| count > 1_000)
        });
        assert_eq!(session(&agent)["losses"], 0);
        assert_eq!(frr.downs(A), 0);
    });
}
