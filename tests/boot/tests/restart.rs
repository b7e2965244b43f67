//! What systemd does with the agent's unit, and where the VIP is meanwhile.
#![allow(clippy::print_stdout, reason = "test code")]

use kedge_tests_boot::{
    on_booted_nodes,
    pair::{Pair, VIP},
};
use kedge_tests_netns::{asked::Asked, eventually, lan::Lan, millis, secs, talk::Talk, throughout};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");

#[test]
fn systemctl_restart_and_reload_move_nothing_and_connections_live() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let pair = Pair::boot(&lan, KEDGE);
        let talk = Talk::begin(&pair.a, &pair.client, VIP);
        for _ in 0..3 {
            pair.a.systemctl("restart");
            eventually("it goes on", secs(5), || pair.a.state() == "Active");
            eventually("one guardian is left", secs(5), || {
                pair.a.guardians().len() == 1
            });
        }
        let served = pair.a.agent();
        pair.a.systemctl("reload");
        eventually("it says that it has read it again", secs(5), || {
            pair.a.run("systemctl is-active kedge-agent").out == "active\n"
        });
        assert_eq!(pair.a.agent(), served);
        // In place: the same process, the same sandbox.
        let said = pair.a.run("kedge restart -o json");
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(pair.a.agent(), served);
        eventually("it goes on once more", secs(5), || {
            pair.a.state() == "Active"
        });
        // Neither the agent that was replaced nor a process of it holds logind's lock on.
        let locks = || {
            pair.a
                .run("systemd-inhibit --list --no-legend")
                .out
                .lines()
                .count()
        };
        eventually("logind waits for one", secs(5), || locks() == 1);
        throughout("and for no other", millis(300), || locks() == 1);
        let (words, longest) = talk.end();
        println!("{words} words over one connection, the slowest after {longest:?}");
        assert!(longest < millis(150), "nobody answered for {longest:?}");
        pair.nothing_moved();
        let journal = pair.a.journal();
        assert_eq!(journal.matches("job=restart").count(), 3, "{journal}");
        assert!(journal.contains("SCHED_FIFO"), "{journal}");
    });
}

#[test]
fn without_a_bus_a_restart_is_a_stop_and_a_start() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let pair = Pair::boot(&lan, KEDGE);
        let stopped = pair.a.run("systemctl stop dbus.socket dbus.service");
        assert_eq!(stopped.code, 0, "{stopped:?}");
        let train = pair.train();
        pair.a.systemctl("restart");
        pair.moves();
        eventually("another agent stands by", secs(5), || pair.a.stands_by());
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} packets were lost");
        assert_eq!(lost, 0);
        let journal = pair.a.journal();
        assert!(journal.contains("nobody says what comes next"), "{journal}");
    });
}

#[test]
fn an_executable_that_does_not_start_costs_a_hand_over_after_five_seconds() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let pair = Pair::boot(&lan, KEDGE);
        let train = pair.train();
        pair.replace("#!/bin/sh\nexit 1\n");
        assert_ne!(pair.a.run("systemctl restart kedge-agent").code, 0);
        throughout("it is kept", secs(4), || pair.a.holds(VIP));
        pair.moves();
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} packets were lost");
        assert_eq!(lost, 0);
    });
}

#[test]
fn systemctl_stop_hands_over_at_once() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let pair = Pair::boot(&lan, KEDGE);
        let train = pair.train();
        pair.a.systemctl("stop");
        pair.moves();
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} packets were lost");
        assert_eq!(lost, 0);
        eventually("nobody is left", secs(5), || {
            pair.a.agent() == 0 && pair.a.guardians().is_empty()
        });
        let journal = pair.a.journal();
        assert!(journal.contains("job=stop"), "{journal}");
    });
}

#[test]
fn an_agent_that_is_killed_is_left_for_by_its_guardian_and_started_again() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let pair = Pair::boot(&lan, KEDGE);
        let killed = pair.a.agent();
        let train = pair.train();
        pair.a.systemctl("kill --kill-whom=main -s KILL");
        pair.moves();
        eventually("another agent stands by", secs(5), || {
            pair.a.stands_by() && pair.a.agent() != killed
        });
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} packets were lost");
        assert_eq!(lost, 0);
    });
}

#[test]
fn a_unit_that_is_killed_as_a_whole_is_waited_for_as_ever() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let pair = Pair::boot(&lan, KEDGE);
        let train = pair.train();
        pair.a.systemctl("kill -s KILL");
        eventually("b takes it", secs(10), || pair.b.holds(VIP));
        eventually("a stands by", secs(10), || pair.a.stands_by());
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} packets were lost");
        assert!(lost < 400, "three adverts take 300 ms: {lost}");
    });
}
