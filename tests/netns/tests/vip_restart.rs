//! An agent that is replaced in place, with what its executable is now: the VIP stays where it is.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use kedge_core::{Code, Problem};
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, quietly, secs,
    talk::Talk,
};

const VIP: &str = "10.20.14.10";
const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");

fn member(priority: u8, more: &str) -> String {
    let more = more.replace("PRIORITY", &priority.to_string());
    format!(
        "vips: {{api: {{addresses: [{VIP}], health: none, vrid: 51, priority: {priority}, \
         startup_delay: 500ms{more}}}}}\n"
    )
}

/// `a` holds the VIP, `b` stands by and would take it from anybody lower.
fn standing<'a>(a: &'a Host, b: &'a Host, executable: &str, more: &str) -> (Agent<'a>, Agent<'a>) {
    let first = Agent::running(a, executable, &member(250, more));
    eventually("a holds it", secs(10), || a.holds(VIP));
    let second = Agent::running(b, KEDGE, &member(240, more));
    eventually("b stands by", secs(10), || second.stands_by());
    // Whoever restarts before is replaced without one.
    let _guardian = first.guardian();
    (first, second)
}

/// An executable of its own for one agent, which can be replaced.
fn own_executable(host: &Host) -> PathBuf {
    let path = host.directory().join("kedge");
    fs::copy(KEDGE, &path).unwrap();
    path
}

/// Puts something else in the place of an executable, as a package does.
fn replace(path: &Path, by: &str) {
    let new = path.with_extension("new");
    fs::write(&new, by).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, path).unwrap();
}

/// How often a host's router became Active, since its agent started.
fn became_active(agent: &Agent<'_>) -> u64 {
    agent.explanation()["counters"]["became_active"]
        .as_u64()
        .unwrap()
}

/// Whether both are as frequent as wanted; not, if timers were late while one of them measured them: then it keeps to
/// what every host can, and says so.
fn are_as_frequent((first, second): &(Agent<'_>, Agent<'_>), interval: Duration) -> bool {
    let mut refused = None;
    eventually("adverts are as frequent as wanted", secs(5), || {
        let vips = [first.vip(), second.vip()];
        let mut problems = vips
            .iter()
            .flat_map(|vip| vip["problems"].as_array().unwrap());
        let too_fast = Code::VipTooFast.to_string();
        refused = problems.find(|it| it["code"] == *too_fast).cloned();
        let wanted =
            |vip: &serde_json::Value| vip["advertIntervalSeconds"] == interval.as_secs_f64();
        vips.iter().all(wanted) || refused.is_some()
    });
    if let Some(problem) = &refused {
        println!("{problem}: again");
    }
    refused.is_none()
}

fn stays_over_a_restart(more: &str, interval: Duration, answers_within: Duration) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    a.add_ipv6();
    b.add_ipv6();
    let c = lan.host("c", "10.20.14.13/24");
    let executable = own_executable(&a);
    let mut again = 0..2;
    let (first, second) = loop {
        let pair = standing(&a, &b, executable.to_str().unwrap(), more);
        if are_as_frequent(&pair, interval) {
            break pair;
        }
        assert!(again.next().is_some(), "timers were late three times");
    };
    let before = first.kedge("status -o json").json();
    let talk = Talk::begin(&a, &c, VIP);
    for _ in 0..3 {
        let said = first.kedge("restart -o json");
        assert_eq!(said.code, 0, "{said:?}");
        let told = said.json();
        assert_eq!(told["keepsVips"], true, "{told}");
        println!("back after {} s", told["outcome"]["tookSeconds"]);
        assert!(first.gave("the agent before this one had it"));
        assert_eq!(first.state(), "Active");
        let _guardian = first.guardian();
    }
    let (words, longest) = talk.end();
    println!("{words} words over one connection, the slowest after {longest:?}");
    assert!(longest < answers_within, "nobody answered for {longest:?}");
    let after = first.kedge("status -o json").json();
    assert_eq!(before["pid"], after["pid"]);
    assert_eq!(became_active(&second), 0);
    assert!(a.holds(VIP) && !b.holds(VIP));
    assert!(!second.log().contains("to=Active"), "{}", second.log());
}

#[test]
fn the_vip_stays_over_a_restart_and_so_do_its_connections() {
    on_a_steady_machine(|| stays_over_a_restart("", millis(100), millis(150)));
}

#[test]
fn it_stays_at_ten_milliseconds_which_no_process_starts_in() {
    // Its fence lasts 30 ms: a machine that stands still for that costs one retransmission.
    on_a_steady_machine(|| stays_over_a_restart(", profile: fast", millis(10), secs(1)));
}

#[test]
fn vips_that_move_together_stay_together() {
    let web = "sync_group: all}, web: {addresses: [\"fd00:14::10\"], health: none, vrid: 52, \
               priority: PRIORITY, startup_delay: 500ms, sync_group: all";
    on_a_steady_machine(|| stays_over_a_restart(&format!(", {web}"), millis(100), millis(150)));
}

#[test]
fn it_stays_when_the_second_restart_comes_before_the_second_advert() {
    on_a_steady_machine(|| stays_over_a_restart(", profile: wan", secs(1), millis(150)));
}

#[test]
fn a_better_backup_that_preempts_gets_it_from_whoever_restarts_as_ever() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (first, second) = standing(&a, &b, KEDGE, "");
        second.configure(&member(254, ", preempt: true"));
        second.reload();
        eventually("b takes it", secs(5), || b.holds(VIP) && !a.holds(VIP));
        assert_eq!(first.kedge("restart").code, 0);
        assert_eq!(first.state(), "Backup");
        assert!(b.holds(VIP) && !a.holds(VIP));
    });
}

#[test]
fn an_executable_that_does_not_run_or_refuses_the_configuration_changes_nothing() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let executable = own_executable(&a);
        let (first, _second) = standing(&a, &b, executable.to_str().unwrap(), "");
        let pid = first.kedge("status -o json").json()["pid"].clone();
        let refused = |by: &str, why: &str| {
            replace(&executable, by);
            let mut asking = first.asked_by(KEDGE, "restart -o json");
            assert_eq!(asking.code, 1, "{asking:?}");
            let problem: Problem = serde_json::from_value(asking.json()).unwrap();
            assert_eq!(problem.code, Code::HostReplacement);
            let told = format!("{} {:?}", problem.what, problem.evidence);
            assert!(told.contains(why), "{told}");
            asking = first.asked_by(KEDGE, "status -o json");
            assert_eq!(asking.json()["pid"], pid);
        };
        refused("nonsense", "does not run");
        refused(
            "#!/bin/sh\necho no such key; exit 1\n",
            "refuses the configuration",
        );
        assert!(a.holds(VIP) && !b.holds(VIP));
    });
}

#[test]
fn an_agent_that_never_comes_back_hands_over_without_a_moment_nobody_holds_it() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let executable = own_executable(&a);
        let (first, second) = standing(&a, &b, executable.to_str().unwrap(), "");
        replace(
            &executable,
            "#!/bin/sh\ncase \"$*\" in *check*) exit 0;; esac\nexit 1\n",
        );
        let asked = thread::scope(|scope| {
            let asking = scope.spawn(|| first.asked_by(KEDGE, "restart --timeout 1s"));
            let kept = eventually("b takes it", secs(10), || {
                assert!(a.holds(VIP) || b.holds(VIP), "nobody holds it");
                b.holds(VIP)
            });
            assert!(kept > secs(4), "it was handed over after {kept:?}");
            asking.join().unwrap()
        });
        assert_eq!(asked.code, 7, "{asked:?}");
        quietly("a lets go", secs(2), || !a.holds(VIP));
        assert!(second.gave("said that it leaves"));
    });
}
