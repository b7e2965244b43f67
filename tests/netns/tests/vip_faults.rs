//! Every fault of a host beside other implementations, in both roles: what they do when ours is struck,
//! and what we do when theirs is.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use std::{net::Ipv4Addr, time::Duration};

use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    bounds::active_down,
    client::{neighbor, send},
    eventually,
    frr::{self, Frr},
    keepalived::{self, Keepalived},
    lan::{Host, Lan},
    millis, on_a_machine_without_pauses, on_a_steady_machine, secs, throughout,
    train::{Echo, Train},
};
use rustix::process::Signal;

const VIP: &str = "10.20.14.10";
const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const INTERVAL: Duration = Duration::from_millis(100);
const TOLD: &str = "the guardian was told of the VIPs";
/// What a loaded machine with two cores may add to a bound.
const SLACK: Duration = Duration::from_millis(200);

/// The other implementation, on its host.
enum Theirs<'a> {
    Keepalived(&'a Host, Keepalived),
    Frr(&'a Host, Frr),
}

fn keepalived(host: &Host, priority: u8) -> Theirs<'_> {
    let settings = keepalived::Settings {
        version: 3,
        vrid: 51,
        priority,
        advert_int: "0.1",
        vips: &["10.20.14.10/32"],
        preempt: true,
        lines: "",
    };
    Theirs::Keepalived(host, Keepalived::start(host, settings))
}

fn frr(host: &Host, priority: u8) -> Theirs<'_> {
    let settings = frr::Settings {
        version: 3,
        vrid: 51,
        priority,
        interval: 100,
        vips: &[VIP],
    };
    Theirs::Frr(host, Frr::start(host, settings))
}

impl Theirs<'_> {
    fn is_active(&self) -> bool {
        match self {
            Self::Keepalived(host, _) => host.holds(VIP),
            Self::Frr(host, frr) => frr.status(host) == "Master",
        }
    }

    fn is_backup(&self) -> bool {
        match self {
            Self::Keepalived(host, it) => it.log().contains("Entering BACKUP") && !host.holds(VIP),
            Self::Frr(host, frr) => frr.status(host) == "Backup",
        }
    }

    fn signal(&self, signal: Signal) {
        match self {
            Self::Keepalived(_, it) => it.signal(signal),
            Self::Frr(_, frr) => frr.signal(signal),
        }
    }

    /// Kills it, so that its kernel goes on to answer for the address.
    fn kill(self) {
        match self {
            Self::Keepalived(_, mut it) => it.kill(),
            Self::Frr(_, frr) => {
                frr.signal(Signal::KILL);
                drop(frr);
            }
        }
    }
}

fn ours(priority: u8) -> String {
    format!(
        "vips: {{api: {{addresses: [{VIP}], vrid: 51, members: mixed, priority: {priority}, \
         unhealthy_priority: 1, preempt: true, health: none, startup_delay: 500ms}}}}\n"
    )
}

/// Ours is Active, theirs would succeed it.
fn ours_is_struck(start: fn(&Host, u8) -> Theirs<'_>) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let client = lan.host("client", "10.20.14.99/24");
    let _echoes = [&a, &b].map(Echo::start);
    let theirs = start(&b, 100);
    let mut agent = Agent::running(&a, KEDGE, &ours(200));
    eventually("we hold it", secs(10), || a.holds(VIP));
    eventually("theirs stands by", secs(10), || theirs.is_backup());
    let skew = active_down(3, INTERVAL, 100) - INTERVAL * 3;
    // Not while we take it back: who is preempted lets go before we hold it.
    let train = || Train::start(&client, VIP.parse::<Ipv4Addr>().unwrap());
    let loses_nothing = |train: Train| {
        let (sent, lost) = train.finish();
        assert_eq!(lost, 0, "of {sent} packets");
    };

    // What changes the process, and nothing else.
    let changed = train();
    agent.configure(&ours(199));
    agent.reload();
    eventually("it is read", secs(2), || agent.priority() == 199);
    let _guardian = agent.guardian();
    assert_eq!(agent.kedge("restart").code, 0);
    throughout("nothing moves", millis(500), || {
        a.holds(VIP) && theirs.is_backup()
    });

    // Stopped, and back.
    agent.stop();
    assert!(!a.holds(VIP));
    eventually("theirs has it", skew + SLACK, || theirs.is_active());
    loses_nothing(changed);
    let before = agent.log().matches(TOLD).count();
    agent.start();
    eventually("we have it back", secs(10), || {
        a.holds(VIP) && theirs.is_backup()
    });

    // Killed, after its guardian was told.
    let told = || agent.log().matches(TOLD).count();
    eventually("the guardian knows", secs(5), || told() > before);
    let killed = train();
    agent.kill();
    let took = eventually("theirs has it", secs(2), || theirs.is_active());
    assert!(
        took < skew + SLACK,
        "three adverts were waited for: {took:?}"
    );
    eventually("the address is gone here", secs(1), || !a.holds(VIP));
    loses_nothing(killed);
    agent.start();
    eventually("we have it back", secs(10), || {
        a.holds(VIP) && theirs.is_backup()
    });

    // Hung: nobody says goodbye, and nobody answers beside the successor.
    let guardian = agent.guardian();
    eventually("a fence stands", secs(5), || {
        a.run(|| !kedge_net::fence::standing().unwrap().is_empty())
    });
    agent.signal(Signal::STOP);
    let bound = active_down(3, INTERVAL, 100) + SLACK;
    eventually("theirs has it", bound, || theirs.is_active());
    let not_here = || {
        send(&client, VIP);
        neighbor(&client, VIP).is_some_and(|mac| mac != a.mac())
    };
    eventually("the client is with the successor", secs(1), not_here);
    agent.kill();
    eventually("the guardian has ended", secs(3), || !guardian.is_alive());
    throughout(
        "the death of the hung one moves nothing",
        millis(700),
        || theirs.is_active() && not_here(),
    );
    eventually("the address is gone here", secs(3), || !a.holds(VIP));
}

/// Theirs is Active, ours succeeds it.
fn theirs_is_struck(start: fn(&Host, u8) -> Theirs<'_>) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let client = lan.host("client", "10.20.14.99/24");
    let agent = Agent::running(&a, KEDGE, &ours(100));
    eventually("we hold it", secs(10), || a.holds(VIP));
    let theirs = start(&b, 200);
    eventually("theirs takes it", secs(10), || theirs.is_active());
    eventually("we stand by", secs(2), || {
        agent.stands_by() && !a.holds(VIP)
    });
    let here = || {
        send(&client, VIP);
        neighbor(&client, VIP) == Some(a.mac())
    };
    assert!(!here());
    let bound = active_down(3, INTERVAL, 100) + SLACK;

    // Killed: its kernel has the address still, and answers for it.
    theirs.kill();
    eventually("we have it", bound, || a.holds(VIP));
    eventually("the client is here", secs(1), here);
    throughout("and stays here", secs(1), here);

    // Hung, and awake again when another has it: whoever is better keeps it, and one alone.
    let theirs = start(&b, 200);
    eventually("theirs takes it back", secs(10), || {
        theirs.is_active() && !a.holds(VIP)
    });
    eventually("we stand by", secs(2), || agent.stands_by());
    theirs.signal(Signal::STOP);
    eventually("we have it", bound, || a.holds(VIP));
    eventually("the client is here", secs(1), here);
    theirs.signal(Signal::CONT);
    eventually("one has it, the better one", secs(3), || {
        theirs.is_active() && !a.holds(VIP)
    });
    // FRR announces an address when it takes it, and never again.
    if matches!(theirs, Theirs::Keepalived(..)) {
        eventually("the client is there", secs(2), || !here());
    }

    // Cut off.
    lan.unplug(&b);
    eventually("we have it", bound, || a.holds(VIP));
    assert_eq!(agent.counter("became_active"), 4);
}

#[test]
fn keepalived_succeeds_us_at_every_fault() {
    on_a_machine_without_pauses(|| ours_is_struck(keepalived));
}

#[test]
fn we_succeed_keepalived_at_every_fault() {
    on_a_steady_machine(|| theirs_is_struck(keepalived));
}

#[test]
fn frr_succeeds_us_at_every_fault() {
    on_a_machine_without_pauses(|| ours_is_struck(frr));
}

#[test]
fn we_succeed_frr_at_every_fault() {
    on_a_steady_machine(|| theirs_is_struck(frr));
}
