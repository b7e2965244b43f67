//! The operator's commands, with real agents on a LAN and the real command line beside them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::{fs, time::Duration};

use kedge_core::{Code, Problem};
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    eventually,
    keepalived::{Keepalived, Settings},
    lan::{Host, Lan},
    millis, on_a_steady_machine,
    role::RoleOf,
    secs, throughout,
};
use serde_json::Value;

const VIP: &str = "10.20.14.10";
const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const LIMIT: Duration = secs(20);

fn member(priority: u8, more: &str) -> String {
    format!(
        "vips: {{api: {{addresses: [{VIP}], health: none, vrid: 51, priority: {priority}{more}}}}}"
    )
}

fn holds(agent: &Agent<'_>) -> bool {
    agent.state() == "Active"
}

/// Two agents: the first holds the VIP, the second stands by.
fn pair<'a>(a: &'a Host, b: &'a Host, one: &str, two: &str) -> (Agent<'a>, Agent<'a>) {
    let mut first = Agent::new(a, KEDGE, one);
    first.start();
    eventually("a holds the VIP", LIMIT, || holds(&first));
    let mut second = Agent::new(b, KEDGE, two);
    second.start();
    eventually("b stands by", LIMIT, || second.stands_by());
    (first, second)
}

fn code(problem: &Value) -> Code {
    let problem: Problem = serde_json::from_value(problem.clone()).unwrap();
    problem.code
}

#[test]
fn a_released_vip_goes_to_the_other_host_and_stays_there_though_preempt_is_on() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (first, second) = pair(&a, &b, &member(250, ", preempt: true"), &member(240, ""));
        // Nobody can be asked, and looking changes nothing.
        assert_eq!(first.kedge("vip release api").code, 2);
        let looked = first.kedge("vip release api --dry-run");
        assert_eq!(looked.code, 0, "{looked:?}");
        assert!(
            looked.out.starts_with("not done: this host says goodbye"),
            "{looked:?}"
        );
        assert!(holds(&first));

        let said = first.kedge("vip release api --yes -o json");
        assert_eq!(said.code, 0, "{said:?}");
        let told = said.json();
        assert_eq!(told["outcome"]["holder"], "10.20.14.12", "{told}");
        assert_eq!(told["outcome"]["moved"], true);
        println!("released: {}", told["outcome"]["because"]);
        assert!(b.holds(VIP) && !a.holds(VIP));
        throughout("it stays there", secs(7), || b.holds(VIP) && !a.holds(VIP));
        let explained = first.kedge("vip explain api").out;
        assert!(explained.contains("released by order"), "{explained}");
        assert!(explained.contains("Last moved: "), "{explained}");

        // Who does not hold it cannot give it.
        let refused = first.kedge("vip release api --yes -o json");
        assert_eq!(refused.code, 8, "{refused:?}");
        assert_eq!(code(&refused.json()), Code::VipOrderRefused);
        // And alone nobody takes it.
        drop(second);
        eventually("a holds it again", LIMIT, || holds(&first));
        let kept = first.kedge("vip release api --yes");
        assert_eq!(kept.code, 1, "{kept:?}");
        assert!(kept.out.contains("held here again"), "{kept:?}");
        assert!(kept.err.contains("KEDGE-VIP-0016"), "{kept:?}");
        assert!(a.holds(VIP));
        let typo = first.kedge("vip release apo --yes");
        assert!(
            typo.code == 1 && typo.err.contains("did you mean `api`?"),
            "{typo:?}"
        );
        let unknown = first.kedge("vip release nobody --yes");
        assert!(
            unknown.code == 1 && unknown.err.contains("KEDGE-VIP-0010"),
            "{unknown:?}"
        );
    });
}

#[test]
fn a_vip_is_brought_here_from_a_lower_active_and_not_from_a_better_one() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (first, second) = pair(&a, &b, &member(240, ""), &member(250, ""));
        let elsewhere = first.kedge("vip move api b --yes");
        assert_eq!(elsewhere.code, 8, "{elsewhere:?}");
        assert!(
            elsewhere.err.contains("kedge vip release api"),
            "{elsewhere:?}"
        );
        let taken = second.kedge("vip move api 10.20.14.12 --yes -o json");
        assert_eq!(taken.code, 0, "{taken:?}");
        assert_eq!(taken.json()["outcome"]["holder"], "this host");
        eventually("the other lets go", secs(2), || {
            b.holds(VIP) && !a.holds(VIP)
        });
        let again = second.kedge("vip move api --yes");
        assert!(
            again.code == 0 && again.out.contains("here already"),
            "{again:?}"
        );
        eventually("a hears b", secs(2), || first.stands_by());
        let better = first.kedge("vip move api --yes");
        assert_eq!(better.code, 8, "{better:?}");
        assert!(better.err.contains("priority 250"), "{better:?}");
        assert!(b.holds(VIP));
    });
}

#[test]
fn a_frozen_vip_moves_for_nothing_but_a_fault_and_survives_the_agent() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (first, mut second) = pair(&a, &b, &member(240, ""), &member(250, ""));
        let frozen = second.kedge("vip freeze api --for 10m");
        assert_eq!(frozen.code, 0, "{frozen:?}");
        assert_eq!(second.kedge("vip move api --yes").code, 8);
        second.kill();
        second.configure(&member(250, ", preempt: true"));
        second.start();
        eventually("b stands by again", LIMIT, || second.stands_by());
        let status = second.kedge("status");
        assert_eq!(status.code, 4, "{status:?}");
        assert!(status.out.contains("FROZEN until "), "{status:?}");
        throughout("b does not preempt", secs(1), || {
            a.holds(VIP) && !b.holds(VIP)
        });
        // The end of it, and what was held back counts.
        assert_eq!(second.kedge("vip thaw api").code, 0);
        eventually("b preempts", secs(5), || b.holds(VIP) && !a.holds(VIP));

        // A frozen Active is not given away, and ends by itself.
        assert_eq!(second.kedge("vip freeze api --for 2s").code, 0);
        let refused = second.kedge("vip release api --yes");
        assert_eq!(refused.code, 8, "{refused:?}");
        assert!(refused.err.contains("kedge vip thaw api"), "{refused:?}");
        assert_eq!(second.kedge("drain --yes").code, 8);
        eventually("the freeze ends", secs(5), || {
            second.vip()["frozen"].is_null()
        });
        let history = second.kedge("vip history api").out;
        assert!(history.contains("its time has passed"), "{history}");

        // A dead Active is replaced by a frozen Backup.
        eventually("a stands by", secs(5), || first.stands_by());
        assert_eq!(first.kedge("vip freeze api").code, 0);
        lan.unplug(&b);
        second.kill();
        eventually("a takes over", secs(3), || a.holds(VIP));
    });
}

#[test]
fn a_drained_host_gives_its_vips_away_and_holds_one_only_while_nobody_else_lives() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (mut first, mut second) =
            pair(&a, &b, &member(250, ", preempt: true"), &member(240, ""));
        assert_eq!(first.kedge("drain").code, 2);
        let looked = first.kedge("drain --dry-run");
        assert!(
            looked.out.contains("api is given to another host"),
            "{looked:?}"
        );
        let said = first.kedge("drain --yes --wait -o json");
        assert_eq!(said.code, 0, "{said:?}");
        let told = said.json();
        assert_eq!(
            told["items"][0]["outcome"]["holder"], "10.20.14.12",
            "{told}"
        );
        assert!(b.holds(VIP) && !a.holds(VIP));
        throughout("it does not preempt", secs(1), || b.holds(VIP));
        let status = first.kedge("status");
        assert_eq!(status.code, 4, "{status:?}");
        assert!(status.out.contains("DRAINED"), "{status:?}");

        // The order outlives the agent.
        first.stop();
        first.start();
        eventually("a stands by again", LIMIT, || first.stands_by());
        assert_eq!(first.vip()["priority"], 1);

        // Nobody else lives: better here than nowhere.
        second.kill();
        eventually("a holds it", secs(5), || a.holds(VIP));
        // The first that comes relieves it, with neither preempt nor a gate.
        second.start();
        eventually("b relieves it", LIMIT, || b.holds(VIP) && !a.holds(VIP));
        eventually("a stands by", secs(5), || first.stands_by());

        let back = first.kedge("undrain");
        assert_eq!(back.code, 0, "{back:?}");
        eventually("a preempts again", secs(10), || {
            a.holds(VIP) && !b.holds(VIP)
        });
        assert_eq!(first.kedge("status").code, 0);
    });
}

#[test]
fn history_outlives_the_agent_and_a_failover_is_told_stamp_by_stamp() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (mut first, mut second) = pair(&a, &b, &member(250, ""), &member(240, ""));
        assert_eq!(first.kedge("vip release api --yes").code, 0);
        // Both sides of a release put the clocks together: here they are one clock.
        let write = |agent: &Agent<'_>, name: &str| {
            let told = agent.kedge("vip timeline api -o json");
            assert_eq!(told.code, 0, "{told:?}");
            let mut document = told.json();
            document["host"] = name.into();
            let path = a.directory().join(format!("{name}.json"));
            fs::write(&path, document.to_string()).unwrap();
            path.display().to_string()
        };
        let of_b = write(&second, "edge-b");
        let merged = first.kedge(&format!("vip timeline api --merge {of_b} -o json"));
        assert_eq!(merged.code, 0, "{merged:?}");
        let merged = merged.json();
        let clock = merged["clocks"][1].as_str().unwrap();
        println!("{clock}");
        assert!(
            clock.starts_with("edge-b: offset corrected ("),
            "{merged:#}"
        );
        let stamps: Vec<&str> = merged["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["stamp"].as_str().unwrap())
            .collect();
        let order = ["goodbyeSent", "goodbyeHeard", "timerFired", "announced"];
        let places: Vec<_> = order
            .iter()
            .map(|wanted| {
                stamps
                    .iter()
                    .rposition(|stamp| stamp == wanted)
                    .expect(wanted)
            })
            .collect();
        assert!(places.is_sorted(), "{stamps:?}");
        let text = first.kedge(&format!("vip timeline api --merge {of_b}")).out;
        println!("{text}");
        let same = first.kedge(&format!("vip timeline api --merge {of_b} {of_b}"));
        assert!(
            same.code == 2 && same.err.contains("two timelines"),
            "{same:?}"
        );

        // A dead owner: what the survivor saw. Its guardian says no goodbye through a cut cable.
        lan.unplug(&b);
        second.kill();
        eventually("a takes over", secs(3), || holds(&first));
        let told = first.kedge("vip timeline --last -o json").json();
        let items = told["items"].as_array().unwrap();
        let at = |wanted: &str| {
            let found = items.iter().rev().find(|item| item["stamp"] == wanted);
            found.unwrap_or_else(|| panic!("{wanted}: {told:#}"))["at"].to_string()
        };
        let order = [
            "lastHeard",
            "timerFired",
            "advertSent",
            "addressHeld",
            "announced",
        ];
        let times = order.map(at);
        assert!(times.is_sorted(), "{times:?}");
        let text = first.kedge("vip timeline --last").out;
        println!("{text}");
        assert!(
            text.contains("Active_Down_Timer fired (3 x 100 ms + skew"),
            "{text}"
        );

        // Both endings of the agent keep what happened.
        let state = a.directory().join("root/var/lib/kedge/agent");
        for stop in [RoleOf::stop, RoleOf::kill] {
            eventually("a holds it", LIMIT, || holds(&first));
            let items = |agent: &Agent<'_>| {
                let told = agent.kedge("vip history api -o json").json();
                told["items"].as_array().cloned().unwrap_or_default()
            };
            let before = items(&first);
            let last = before.last().unwrap()["boottimeMicros"].to_string();
            // Who is killed keeps what the disk has; that is not waited for anywhere else.
            eventually("it is on the disk", LIMIT, || {
                let file = fs::read_to_string(state.join("history.json"));
                file.is_ok_and(|file| file.contains(&format!("\"boottimeMicros\":{last}")))
            });
            stop(&mut first);
            first.start();
            eventually("more has happened", LIMIT, || {
                items(&first).len() > before.len()
            });
            assert_eq!(&items(&first)[..before.len()], before.as_slice());
        }
        let last = first.kedge("vip history --last 1 -o json").json();
        assert_eq!(last["items"].as_array().unwrap().len(), 1);
        // A file nobody can read is told, and begun anew.
        first.stop();
        for name in ["history.json", "history.prev.json"] {
            fs::write(state.join(name), "no").unwrap();
        }
        first.start();
        let status = first.kedge("status -o json");
        assert_eq!(status.code, 4, "{status:?}");
        assert!(status.out.contains("KEDGE-HOST-0001"), "{status:?}");
        eventually("it is written again", LIMIT, || {
            let items = first.kedge("vip history api -o json");
            items.code == 0
                && items.json()["items"]
                    .as_array()
                    .is_some_and(|all| !all.is_empty())
        });
    });
}

#[test]
fn a_stranger_on_our_vrid_is_named_by_the_scan_and_by_the_agent() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let _keepalived = Keepalived::start(
            &b,
            Settings {
                version: 3,
                vrid: 51,
                priority: 100,
                advert_int: "0.1",
                vips: &["10.20.14.99/24"],
                preempt: true,
                lines: "",
            },
        );
        let c = lan.host("c", "10.20.14.13/24");
        let _old = Keepalived::start(
            &c,
            Settings {
                version: 2,
                vrid: 77,
                priority: 90,
                advert_int: "1",
                vips: &["10.20.14.98/24"],
                preempt: true,
                lines: "authentication {\n auth_type PASS\n auth_pass geheim42\n }",
            },
        );
        eventually("both hold their own", secs(10), || {
            b.holds("10.20.14.99") && c.holds("10.20.14.98")
        });
        let mac: Vec<String> = b.mac().iter().map(|byte| format!("{byte:02x}")).collect();
        let mac = mac.join(":");
        // The agent is dead: what is ours comes from the files.
        let mut agent = Agent::new(&a, KEDGE, &member(250, ""));
        let scan = agent.kedge("vip scan --for 2s --interface eth0 -o json");
        assert_eq!(scan.code, 8, "{scan:?}");
        let told = scan.json();
        assert_eq!(told["items"][0]["ours"], "api", "{told:#}");
        assert_eq!(told["items"][0]["routers"][0]["mac"], mac.as_str());
        assert_eq!(told["items"][0]["routers"][0]["priority"], 100);
        assert!(
            told["problems"][0]["what"].as_str().unwrap().contains(&mac),
            "{told:#}"
        );
        assert_eq!(code(&told["problems"][0]), Code::VipVridInUse);
        assert_eq!(told["free"]["eth0"], 100);
        // A password is counted as one and never kept.
        let old = &told["items"][1]["routers"][0];
        assert_eq!(
            (
                &old["version"],
                &old["auth"],
                &old["checksum"],
                &old["priority"]
            ),
            (&2.into(), &"password".into(), &"message".into(), &90.into()),
            "{told:#}"
        );
        assert_eq!(told["items"][1]["ours"], "");
        assert!(!scan.out.contains("geheim42"), "{told:#}");
        let text = agent.kedge("vip scan --for 500ms").out;
        assert!(text.contains("`vips.api.vrid: 100`"), "{text}");
        let nowhere = agent.kedge("vip scan --interface eth7");
        assert!(
            nowhere.code == 1 && nowhere.err.contains("KEDGE-VIP-0009"),
            "{nowhere:?}"
        );

        // The agent's own listening says the same, with the address and what to do.
        agent.start();
        eventually("the agent names it", LIMIT, || {
            let vip = agent.vip();
            let problems = vip["problems"].as_array().cloned().unwrap_or_default();
            problems.iter().any(|problem| {
                code(problem) == Code::VipVridInUse
                    && problem["what"].as_str().unwrap().contains(&mac)
                    && problem["fix"]["command"] == "kedge vip scan"
            })
        });
        let beside = agent.kedge("vip scan --for 1s");
        assert_eq!(beside.code, 8, "{beside:?}");
        // Another VRID on every host of ours, and there is nothing to say.
        agent.configure(&member(250, "").replace("vrid: 51", "vrid: 100"));
        agent.reload();
        eventually("it is another router", LIMIT, || agent.vip()["vrid"] == 100);
        let clean = agent.kedge("vip scan --for 1s");
        assert_eq!(clean.code, 0, "{clean:?}");
        throughout("both stand", millis(200), || b.holds("10.20.14.99"));
    });
}
