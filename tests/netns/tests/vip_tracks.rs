//! What a VIP tracks: real interfaces, processes, files and scripts, between agents and beside a
//! keepalived that tracks too.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    path::Path,
    process::{Child, Command},
    time::Duration,
};

use kedge_net::link::Links;
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    eventually,
    keepalived::{Keepalived, Settings},
    lan::{Host, Lan},
    on_a_steady_machine, secs, throughout,
};

const VIP: &str = "10.20.14.10";
const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");

fn agent<'a>(host: &'a Host, priority: u8, track: &str) -> Agent<'a> {
    let yaml = format!(
        "vips: {{api: {{addresses: [{VIP}], vrid: 51, priority: {priority}, preempt: true, \
         members: mixed, unhealthy_priority: 1, health: none, startup_delay: 500ms, \
         link_up_delay: 500ms, track: {{{track}}}}}}}\n"
    );
    Agent::running(host, KEDGE, &yaml)
}

/// Two hosts; what the first one tracks goes by `lose` and comes back by `regain`.
fn moves_and_returns(
    track: impl Fn(&Host) -> String,
    mut lose: impl FnMut(&Host),
    mut regain: impl FnMut(&Host),
    limit: Duration,
    reason: &str,
) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    regain(&a);
    // One after the other: who takes a VIP from the other one cannot take it again for 5 s.
    let first = agent(&a, 250, &track(&a));
    eventually("the higher one holds it", secs(10), || a.holds(VIP));
    let second = agent(&b, 240, "");
    eventually("the lower one stands by", secs(10), || second.stands_by());
    assert_eq!(first.priority(), 250);
    lose(&a);
    eventually("the other one holds it alone", limit, || {
        b.holds(VIP) && !a.holds(VIP)
    });
    let shown = first.explanation();
    let problems = shown["vip"]["problems"].to_string();
    assert!(
        problems.contains("KEDGE-VIP-0011") && problems.contains(reason),
        "{shown}"
    );
    throughout("it stays there", secs(1), || b.holds(VIP));
    regain(&a);
    eventually("it is back", limit + secs(2), || {
        a.holds(VIP) && !b.holds(VIP)
    });
    assert_eq!(first.priority(), 250);
    drop((first, second));
}

fn cable(host: &Host, up: bool) {
    host.run(move || {
        let mut links = Links::open().unwrap();
        if links.index("eth1").is_err() {
            links.veth("eth1", "far", None).unwrap();
            links.up("eth1").unwrap();
        }
        if up {
            links.up("far").unwrap();
        } else {
            links.down("far").unwrap();
        }
    });
}

fn start(host: &Host, name: &str) -> Child {
    let program = host.directory().join(name);
    fs::copy("/bin/sleep", &program).unwrap();
    let mut command = Command::new(program);
    command.arg("600");
    host.spawn(command)
}

#[test]
fn a_vip_leaves_a_host_whose_other_link_goes_down_and_returns_with_it() {
    on_a_steady_machine(|| {
        moves_and_returns(
            |_| "uplink: {interface: eth1, weight: -20}".to_owned(),
            |host| cable(host, false),
            |host| cable(host, true),
            secs(2),
            "track uplink: eth1 has no carrier",
        );
    });
}

#[test]
fn a_vip_leaves_a_host_whose_process_dies_and_returns_with_it() {
    on_a_steady_machine(|| {
        // Namespaces of the network alone: every host sees every process.
        let name = format!("kedge-proxy-{}", std::process::id());
        let running: std::cell::RefCell<Option<Child>> = std::cell::RefCell::default();
        moves_and_returns(
            |_| format!("proxy: {{process: {name}, weight: -20}}"),
            |_| {
                let mut child = running.take().unwrap();
                child.kill().unwrap();
                child.wait().unwrap();
            },
            |host| _ = running.replace(Some(start(host, &name))),
            secs(3),
            &format!("track proxy: no process {name} runs"),
        );
        let mut child = running.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn a_vip_leaves_a_host_whose_file_goes_and_returns_with_it() {
    on_a_steady_machine(|| {
        let ready = |host: &Host| host.directory().join("ready");
        moves_and_returns(
            |host| format!("ready: {{file: {}, weight: -20}}", ready(host).display()),
            |host| fs::remove_file(ready(host)).unwrap(),
            |host| fs::write(ready(host), "").unwrap(),
            secs(2),
            "ready is not there",
        );
    });
}

/// Lets everybody look into a directory below those of the lab.
fn open_up(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    for path in path.ancestors() {
        let mut mode = fs::metadata(path).unwrap().permissions();
        if mode.mode() & 0o001 == 0 {
            mode.set_mode(mode.mode() | 0o011);
            fs::set_permissions(path, mode).unwrap();
        }
    }
}

#[test]
fn a_vip_leaves_a_host_whose_script_fails_and_returns_when_it_succeeds() {
    on_a_steady_machine(|| {
        let good = |host: &Host| host.directory().join("good");
        moves_and_returns(
            |host| {
                open_up(host.directory());
                let good = good(host);
                format!(
                    "check: {{script: [/bin/ls, {}], interval: 200ms, rise: 2, fall: 2, weight: -20}}",
                    good.display()
                )
            },
            |host| fs::remove_file(good(host)).unwrap(),
            |host| fs::write(good(host), "").unwrap(),
            secs(4),
            "track check: /bin/ls ended with 2",
        );
    });
}

#[test]
fn a_critical_track_hands_the_vip_over_without_a_moment_nobody_holds_it() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        cable(&a, true);
        // One after the other: who takes a VIP from the other one cannot take it again for 5 s.
        let first = agent(&a, 250, "uplink: {interface: eth1, critical: true}");
        eventually("the higher one holds it", secs(10), || a.holds(VIP));
        // A host that never preempts gets it too: the first one says goodbye.
        let mut second = Agent::running(
            &b,
            KEDGE,
            &format!(
                "vips: {{api: {{addresses: [{VIP}], vrid: 51, priority: 240, health: none, \
                 startup_delay: 500ms}}}}\n"
            ),
        );
        eventually("the lower one stands by", secs(10), || second.stands_by());
        cable(&a, false);
        let took = eventually("the successor holds it", secs(2), || {
            // Asked in this order, a gap cannot be missed.
            assert!(a.holds(VIP) || b.holds(VIP), "nobody holds it");
            b.holds(VIP)
        });
        // Its skew, and what a loaded machine adds: not the down interval of 306 ms.
        assert!(took < Duration::from_millis(280), "{took:?}");
        eventually("it is gone there", secs(1), || !a.holds(VIP));
        let shown = first.explanation();
        assert_eq!(shown["vip"]["state"], "Fault", "{shown}");
        assert_eq!(shown["vip"]["because"], "track uplink: eth1 has no carrier");
        cable(&a, true);
        eventually("it is back", secs(5), || a.holds(VIP) && !b.holds(VIP));
        assert!(
            first.gave("track uplink: eth1 has a carrier"),
            "{:?}",
            first.explanation()
        );
        // Alone it lets go as well.
        second.stop();
        cable(&a, false);
        eventually("nobody holds it", secs(2), || !a.holds(VIP));
    });
}

#[test]
fn a_restart_of_the_agent_moves_nothing_while_a_track_fails() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        cable(&a, false);
        open_up(a.directory());
        let missing = a.directory().join("missing");
        let tracks = format!(
            "uplink: {{interface: eth1, weight: -5}}, file: {{file: {0}, weight: -4}}, \
             proxy: {{process: kedge-nobody, weight: -3}}, \
             check: {{script: [/bin/ls, {0}], interval: 100ms, fall: 1, weight: -2}}",
            missing.display()
        );
        let mut first = agent(&a, 250, &tracks);
        let second = agent(&b, 240, "");
        // 250 - 14 is below 240; without any one of the four it is not.
        eventually("the healthy one holds it", secs(10), || {
            b.holds(VIP) && !a.holds(VIP)
        });
        eventually("all four fail", secs(5), || first.priority() == 236);
        eventually("the script's answer is on the disk", secs(5), || {
            first
                .root()
                .join("var/lib/kedge/agent/tracks.json")
                .exists()
        });
        first.stop();
        let first = agent(&a, 250, &tracks);
        throughout("it stays", secs(3), || b.holds(VIP) && !a.holds(VIP));
        assert_eq!(first.priority(), 236);
        drop(second);
    });
}

#[test]
fn beside_a_keepalived_that_tracks_each_gives_way_to_the_other() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        cable(&a, true);
        cable(&b, true);
        let keepalived = Keepalived::start(
            &b,
            Settings {
                vrid: 51,
                priority: 240,
                advert_int: "0.1",
                version: 3,
                vips: &["10.20.14.10/32"],
                preempt: true,
                lines: "track_interface {\n eth1 weight -100\n }\n",
            },
        );
        let kedge = agent(&a, 200, "uplink: {interface: eth1, weight: -100}");
        eventually("keepalived holds it", secs(10), || {
            b.holds(VIP) && !a.holds(VIP)
        });
        cable(&b, false);
        eventually("Kedge holds it", secs(3), || a.holds(VIP) && !b.holds(VIP));
        cable(&a, false);
        cable(&b, true);
        eventually("keepalived has it back", secs(3), || {
            b.holds(VIP) && !a.holds(VIP)
        });
        assert_eq!(kedge.priority(), 100);
        cable(&a, true);
        throughout("it stays", secs(1), || b.holds(VIP) && !a.holds(VIP));
        let log = keepalived.log();
        assert!(log.contains("Changing effective priority"), "{log}");
    });
}
