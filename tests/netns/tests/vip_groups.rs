//! VIPs that move together (R20), among Kedge hosts and beside a keepalived with a sync group.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::process::Command;

use kedge_core::vip::RouterState;
use kedge_tests_netns::{
    eventually,
    keepalived::Keepalived,
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_speaker::{Settings, Tracked, Tracks, VipSpec};

const FOUR: &str = "10.20.14.10";
const SIX: &str = "fd00:14::10";

fn hosts(lan: &Lan) -> (Host, Host) {
    let (a, b) = lan.pair();
    a.add_ipv6();
    b.add_ipv6();
    (a, b)
}

fn group(priority: u8) -> Vec<VipSpec> {
    let gate = Some("gate".parse().unwrap());
    let four = VipSpec {
        name: "four".parse().unwrap(),
        sync_group: gate.clone(),
        ..vip(51, priority, FOUR)
    };
    let six = VipSpec {
        name: "six".parse().unwrap(),
        sync_group: gate,
        tracked: true,
        ..vip(61, priority, SIX)
    };
    vec![six, four]
}

fn start(host: &Host, priority: u8) -> Speaking {
    let settings = Settings {
        link_up_wait: millis(500),
        ..Settings::default()
    };
    let speaking = Speaking::start_with(host, settings, group(priority));
    speaking.tracks(&"six".parse().unwrap(), Tracks::default());
    speaking
}

fn has_both(host: &Host) -> bool {
    host.holds(FOUR) && host.holds(SIX)
}

fn has_none(host: &Host) -> bool {
    !host.holds(FOUR) && !host.holds(SIX)
}

fn states(speaking: &Speaking) -> Vec<RouterState> {
    speaking.snapshot().iter().map(|vip| vip.state).collect()
}

/// Lets the bridge lose the adverts of one family.
fn lose(lan: &Lan, rule: &str) {
    let text = format!(
        "nft add table bridge loss; \
         nft 'add chain bridge loss forward {{ type filter hook forward priority 0; }}'; \
         nft 'add rule bridge loss forward {rule} drop'"
    );
    let mut command = Command::new("sh");
    command.args(["-ec", &text]);
    assert!(lan.spawn(command).wait().unwrap().success());
}

fn carry_all(lan: &Lan) {
    let mut command = Command::new("nft");
    command.args(["delete", "table", "bridge", "loss"]);
    assert!(lan.spawn(command).wait().unwrap().success());
}

#[test]
fn two_vips_of_a_group_are_taken_handed_over_and_returned_together() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = hosts(&lan);
        let first = start(&a, 200);
        eventually("the first host holds both", secs(5), || has_both(&a));
        let second = start(&b, 150);
        eventually("the second one waits", secs(5), || {
            states(&second) == [RouterState::Backup; 2]
        });
        let six = first
            .snapshot()
            .iter()
            .find(|it| it.name.as_str() == "six")
            .cloned()
            .unwrap();
        assert_eq!(six.leader.unwrap().as_str(), "four", "IPv4 leads");
        assert!(
            six.because.contains("four, which leads its sync group"),
            "{}",
            six.because
        );

        lan.unplug(&a);
        eventually("the second host holds both", secs(2), || has_both(&b));
        eventually("the first one none", secs(1), || has_none(&a));
        lan.plug(&a);
        eventually("they return together", secs(9), || {
            has_both(&a) && has_none(&b)
        });

        // A member's own trouble moves all, and nobody is without an answer meanwhile.
        let failed = Tracks {
            tracked: Tracked {
                cost: 0,
                critical: true,
            },
            because: "track proxy: it is gone".to_owned(),
            failing: "track proxy: it is gone".to_owned(),
        };
        first.tracks(&"six".parse().unwrap(), failed);
        eventually("both are handed over", secs(2), || {
            assert!(a.holds(FOUR) || b.holds(FOUR), "nobody holds {FOUR}");
            assert!(a.holds(SIX) || b.holds(SIX), "nobody holds {SIX}");
            has_both(&b) && has_none(&a)
        });
        eventually("both are barred", secs(1), || {
            states(&first) == [RouterState::Fault; 2]
        });
        let four = first
            .snapshot()
            .iter()
            .find(|it| it.name.as_str() == "four")
            .cloned()
            .unwrap();
        assert!(
            four.because.contains("track proxy: it is gone"),
            "{}",
            four.because
        );
        first.tracks(&"six".parse().unwrap(), Tracks::default());
        eventually("they return", secs(9), || has_both(&a) && has_none(&b));

        // A hand-over of the follower is one of the group.
        first.release(&"six".parse().unwrap());
        eventually("both are given away", secs(2), || has_both(&b));
    });
}

#[test]
fn a_family_whose_multicast_is_lost_moves_nobody() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = hosts(&lan);
        let first = start(&a, 200);
        eventually("the first host holds both", secs(5), || has_both(&a));
        let second = start(&b, 150);
        eventually("the second one waits", secs(5), || {
            states(&second) == [RouterState::Backup; 2]
        });
        lose(&lan, "ether type ip6 ip6 nexthdr 112");
        let heard = |name: &str| {
            let all = second.snapshot();
            let vip = all.iter().find(|vip| vip.name.as_str() == name).unwrap();
            vip.counters["adverts_received"]
        };
        let (four, six) = (heard("four"), heard("six"));
        throughout("nothing moves", secs(3), || has_both(&a) && has_none(&b));
        assert!(heard("four") > four + 10, "IPv4 is heard");
        assert!(heard("six") <= six + 2, "IPv6 is lost");
        lan.unplug(&a);
        eventually("a dead host is replaced all the same", secs(2), || {
            has_both(&b)
        });
        carry_all(&lan);
        lan.plug(&a);
        eventually("they return together", secs(9), || {
            has_both(&a) && has_none(&b)
        });
        drop((first, second));
    });
}

fn keepalived(host: &Host, priority: u8) -> Keepalived {
    let instance = |name: &str, vrid: u8, address: &str| {
        format!(
            "vrrp_instance {name} {{\n  state BACKUP\n  interface eth0\n  virtual_router_id {vrid}\n  \
             priority {priority}\n  advert_int 0.1\n  virtual_ipaddress {{\n    {address} dev eth0\n  \
             }}\n}}\n"
        )
    };
    let config = format!(
        "global_defs {{\n  router_id {}\n  vrrp_version 3\n}}\n\
         vrrp_sync_group gate {{\n  group {{\n    four\n    six\n  }}\n}}\n{}{}",
        host.name,
        instance("four", 51, "10.20.14.10/32"),
        instance("six", 61, "fd00:14::10/128"),
    );
    Keepalived::start_with(host, "keepalived", &config)
}

#[test]
fn beside_a_keepalived_with_a_sync_group_both_sides_move_both() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = hosts(&lan);
        let theirs = keepalived(&b, 100);
        eventually("keepalived holds both", secs(9), || has_both(&b));
        let ours = start(&a, 200);
        eventually("Kedge takes both", secs(9), || has_both(&a) && has_none(&b));
        throughout("they stay", secs(2), || has_both(&a) && has_none(&b));
        lan.unplug(&a);
        eventually("keepalived has both", secs(3), || has_both(&b));
        lan.plug(&a);
        eventually("Kedge takes both back", secs(12), || {
            has_both(&a) && has_none(&b)
        });
        let took = ours.leave(secs(3));
        println!("left within {took:?}");
        eventually("keepalived has both", secs(2), || {
            has_both(&b) && has_none(&a)
        });
        let log = theirs.log();
        assert!(
            log.contains("VRRP_Group(gate) Syncing instances to"),
            "{log}"
        );
    });
}

#[test]
fn a_stronger_keepalived_takes_both_from_us() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = hosts(&lan);
        let ours = start(&a, 150);
        eventually("Kedge holds both", secs(9), || has_both(&a));
        let theirs = keepalived(&b, 200);
        eventually("keepalived takes both", secs(9), || {
            has_both(&b) && has_none(&a)
        });
        throughout("they stay", secs(2), || has_both(&b) && has_none(&a));
        assert_eq!(states(&ours), [RouterState::Backup; 2]);
        drop(theirs);
        eventually("Kedge has both", secs(3), || has_both(&a) && has_none(&b));
    });
}
