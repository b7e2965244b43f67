//! The demo's scenario from end to end: real roles in real namespaces, from blank endpoints to a
//! restarted gateway, and what is left when it is killed instead.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use kedge_net::netns::{self, Namespace};
use kedge_tests_netns::{eventually, on_a_steady_machine, secs};
use serde_json::Value;

/// One lab at a time: each has nine namespaces and a dozen processes.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kedge(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kedge-under-test"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> (Output, Value) {
    let output = kedge(arguments).args(["-o", "json"]).output().unwrap();
    let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|err| {
        panic!(
            "{arguments:?}: {err}\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    (output, value)
}

fn namespaces(id: &str) -> Vec<String> {
    let prefix = format!("kedge-{id}-");
    netns::list()
        .unwrap()
        .into_iter()
        .filter(|name| name.starts_with(&prefix))
        .collect()
}

#[test]
fn the_demo_holds_from_blank_endpoints_to_a_restarted_gateway() {
    on_a_steady_machine(|| {
        let _alone = alone();
        let (output, result) = run(&["lab", "demo"]);
        let chatter = String::from_utf8_lossy(&output.stderr);
        println!("{chatter}");
        assert!(output.status.success(), "{result:#}");
        assert_eq!(result["apiVersion"], "cli.kedge.dev/v1");
        assert_eq!(result["kind"], "DemoResult");
        assert_eq!(result["ok"], true);
        assert!(
            result["seconds"].as_f64().unwrap() < 60.0,
            "{}",
            result["seconds"]
        );
        assert_eq!(result["leftovers"], Value::Array(Vec::new()));

        let steps = result["steps"].as_array().unwrap();
        let names: Vec<_> = steps
            .iter()
            .map(|step| step["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "build",
                "manager",
                "gateway enrols",
                "agents enrol",
                "tunnels",
                "addresses",
                "endpoint edge",
                "endpoint edge-tunnel",
                "endpoint edge-host",
                "one owner",
                "API through the VIP",
                "API through the gateway",
                "host-death",
                "the host returns",
                "hand-over",
                "link-cut",
                "gateway-restart",
                "take down",
            ]
        );
        for step in steps {
            assert_eq!(step["ok"], true, "{step}");
            assert!(!step["detail"].as_str().unwrap().is_empty(), "{step}");
        }
        let detail = |name: &str| {
            let step = steps.iter().find(|step| step["name"] == name).unwrap();
            step["detail"].as_str().unwrap().to_owned()
        };
        assert!(
            detail("endpoint edge").starts_with("10.20.14.10:6443"),
            "{}",
            detail("endpoint edge")
        );
        assert!(detail("endpoint edge-tunnel").starts_with("203.0.113.7:"));
        assert!(detail("endpoint edge-host").starts_with("10.20.14.1"));

        let outage = |fault: &str| {
            let all = result["outages"].as_array().unwrap();
            let found = all.iter().find(|outage| outage["fault"] == fault).unwrap();
            assert!(!found["because"].as_str().unwrap().is_empty(), "{found}");
            (
                found["lostProbes"].as_u64().unwrap(),
                found["outageSeconds"].as_f64().unwrap(),
            )
        };
        // That they stay below their limits is what the steps say, which know how far the prober can
        // be trusted; here, that there was something to measure. A Backup waits for three adverts.
        for fault in ["host-death", "link-cut"] {
            let (lost, seconds) = outage(fault);
            assert!(lost > 0 && seconds > 0.1, "{fault}: {lost} in {seconds} s");
        }
        assert_eq!(outage("hand-over").0, 0);
        assert!(outage("gateway-restart").1 > 0.0);
    });
}

#[test]
fn what_a_killed_demo_leaves_is_gone_after_the_next_command() {
    on_a_steady_machine(|| {
        let _alone = alone();
        let (mut demo, id) = demo_under_way();
        demo.kill().unwrap();
        demo.wait().unwrap();
        let left = namespaces(&id);
        assert!(!left.is_empty(), "nothing to collect");
        eventually("its processes die with it", secs(5), || {
            left.iter()
                .all(|name| Namespace::open(name).unwrap().processes().is_empty())
        });
        let (output, change) = run(&["lab", "down"]);
        assert!(output.status.success(), "{change:#}");
        assert!(
            change["done"].as_str().unwrap().contains("killed run"),
            "{change:#}"
        );
        assert_eq!(namespaces(&id), Vec::<String>::new());
        assert!(!std::path::Path::new("/run/kedge-lab").join(&id).exists());
    });
}

#[test]
fn a_demo_that_is_interrupted_takes_itself_down() {
    on_a_steady_machine(|| {
        let _alone = alone();
        let (mut demo, id) = demo_under_way();
        let status = Command::new("kill")
            .args(["-INT", &demo.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
        let begun = Instant::now();
        let ended = demo.wait().unwrap();
        println!("down {:?} after SIGINT", begun.elapsed());
        assert!(!ended.success(), "an interrupted demo did not hold");
        assert!(begun.elapsed() < secs(5), "{:?}", begun.elapsed());
        assert_eq!(namespaces(&id), Vec::<String>::new());
        assert!(!std::path::Path::new("/run/kedge-lab").join(&id).exists());
    });
}

#[test]
fn a_lab_stands_between_commands() {
    on_a_steady_machine(|| {
        let _alone = alone();
        let (output, problem) = run(&["lab", "status"]);
        assert!(!output.status.success());
        assert_eq!(problem["code"], "KEDGE-LAB-0005", "{problem:#}");

        let (output, change) = run(&["lab", "up"]);
        assert!(output.status.success(), "{change:#}");
        let down = Down;
        let (output, problem) = run(&["lab", "up"]);
        assert!(!output.status.success());
        assert_eq!(problem["code"], "KEDGE-LAB-0003", "{problem:#}");

        let owner = vip_owner().expect("one owner");
        let held = run(&["lab", "kill", &owner]).0.status.success();
        assert!(held);
        eventually("another host takes over", secs(5), || {
            vip_owner().is_some_and(|successor| successor != owner)
        });
        assert_eq!(node(&owner)["state"], "dead");
        run(&["lab", "heal", &owner]);
        eventually("it stands by", secs(10), || node(&owner)["vip"] == "Backup");

        let successor = vip_owner().unwrap();
        run(&["lab", "cut", &successor]);
        eventually("the first one takes over", secs(5), || {
            vip_owner().is_some_and(|owner| owner != successor)
        });
        run(&["lab", "heal", &successor]);
        eventually("it stands by", secs(10), || {
            node(&successor)["vip"] == "Backup"
        });

        let shell = kedge(&["lab", "shell", "edge-a", "--", "ip", "-br", "addr"])
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&shell.stdout);
        assert!(shown.contains("10.20.14.11/24"), "{shown}");
        let (output, problem) = run(&["lab", "cut", "edge-z"]);
        assert!(!output.status.success());
        assert!(
            problem["what"].as_str().unwrap().contains("edge-z"),
            "{problem:#}"
        );

        let id = run(&["lab", "status"]).1["id"].as_str().unwrap().to_owned();
        let (output, change) = run(&["lab", "down"]);
        assert!(output.status.success(), "{change:#}");
        assert_eq!(change["leftovers"], Value::Array(Vec::new()));
        assert_eq!(namespaces(&id), Vec::<String>::new());
        drop(down);
    });
}

#[test]
fn a_host_of_a_real_fleet_reaches_its_gateway_over_tls() {
    on_a_steady_machine(|| {
        let _alone = alone();
        let (output, change) = run(&["lab", "up"]);
        assert!(output.status.success(), "{change:#}");
        let down = Down;
        let status = run(&["lab", "status"]).1;
        let root = format!("{}/edge-a", status["directory"].as_str().unwrap());
        let shell = |words: &[&str]| {
            let mut command = kedge(&["lab", "shell", "edge-a", "--"]);
            let output = command.args(words).output().unwrap();
            assert!(output.status.success(), "{words:?}: {output:?}");
            output.stdout
        };
        let tunnel = || -> Value {
            let this = env!("CARGO_BIN_EXE_kedge-under-test");
            let said = shell(&[this, "--root", &root, "tunnel", "list", "-o", "json"]);
            serde_json::from_slice::<Value>(&said).unwrap()["items"][0].clone()
        };
        let is = |path: &str| {
            let told = tunnel();
            told["state"] == "Up" && told["path"] == path
        };
        eventually("it is there over UDP", secs(15), || is("udp"));
        let rules = "table inet no_udp { chain out { type filter hook output priority 0; \
                     udp dport 51820 drop; }; }";
        shell(&["nft", rules]);
        eventually("it is there over TLS", secs(30), || is("tls"));
        println!("{}", tunnel()["fallback"]);
        shell(&["nft", "delete table inet no_udp"]);
        eventually("it is back on UDP", secs(30), || is("udp"));
        drop(down);
    });
}

/// Takes the standing lab down when a test fails in between.
struct Down;

impl Drop for Down {
    fn drop(&mut self) {
        _ = kedge(&["lab", "down"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

fn node(name: &str) -> Value {
    let status = run(&["lab", "status"]).1;
    let nodes = status["nodes"].as_array().unwrap();
    nodes
        .iter()
        .find(|node| node["name"] == name)
        .unwrap()
        .clone()
}

fn vip_owner() -> Option<String> {
    let status = run(&["lab", "status"]).1;
    let nodes = status["nodes"].as_array()?.iter();
    let mut owners = nodes.filter(|node| node["vip"] == "Active");
    let owner = owners.next()?["name"].as_str()?.to_owned();
    owners.next().is_none().then_some(owner)
}

/// A demo whose agents have begun to enrol, and its run's id.
fn demo_under_way() -> (Child, String) {
    let mut demo = kedge(&["lab", "demo"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap());
    let mut seen = String::new();
    while !seen.contains("gateway enrols:") {
        assert!(
            lines.read_line(&mut seen).unwrap() > 0,
            "the demo ended early:\n{seen}"
        );
    }
    // What it writes from here on is read and forgotten, so that it never waits for a reader.
    thread::spawn(move || _ = lines.read_to_end(&mut Vec::new()));
    let id = seen.split("run ").nth(1).unwrap()[..4].to_owned();
    eventually(
        "its namespaces hold processes",
        Duration::from_secs(10),
        || {
            let inside =
                |name: &String| Namespace::open(name).is_ok_and(|n| !n.processes().is_empty());
            namespaces(&id).iter().filter(|name| inside(name)).count() >= 2
        },
    );
    (demo, id)
}
