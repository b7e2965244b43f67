//! A node that is switched off, started again or suspended: its VIP leaves before anything that is
//! reached through it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use kedge_tests_boot::{
    node::Node,
    on_booted_nodes,
    pair::{Pair, VIP},
};
use kedge_tests_netns::{asked::Asked, eventually, lan::Lan, secs};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");

/// Takes its time to stop, and says when it begins.
const K3S: &str = "[Service]\nExecStart=/bin/sleep infinity\n\
                   ExecStop=/bin/sh -c \"touch /srv/stopping; sleep 1\"\n";

/// A container cannot sleep. What systemd-sleep writes to is a file here; logind, its signals and its
/// patience are as ever, and the sleep lasts a second.
const BED: &str = "set -e; mkdir /run/sys; mount -t tmpfs tmpfs /run/sys; \
                   for it in /sys/*; do mkdir /run$it; mount --rbind $it /run$it; done; \
                   mkdir -p /run/sys/power; echo freeze mem > /run/sys/power/state; \
                   mount --rbind /run/sys /sys; mkdir -p /usr/lib/systemd/system-sleep; \
                   cd /usr/lib/systemd/system-sleep; echo '#!/bin/sh' > long; \
                   echo '[ $1 = post ] || sleep 1' >> long; chmod 755 long";

#[test]
fn logind_waits_for_the_vip_whether_the_host_goes_down_sleeps_or_does_neither() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let mut pair = Pair::boot(&lan, KEDGE);
        pair.a.write("etc/systemd/system/k3s.service", K3S);
        pair.a.does("systemctl daemon-reload");
        pair.a.does("systemctl start k3s");
        // The hand-over unit would hide what logind does.
        pair.a.does("systemctl mask --runtime kedge-handover");
        eventually("logind waits", secs(5), || logind_waits(&pair.a));
        let locks = pair.a.run("systemd-inhibit --list --no-legend").out;
        let lock = "kedge shutdown:sleep VIPs are handed over first delay";
        assert!(locks.contains(lock), "{locks}");

        let train = pair.train();
        // What logind is to start is gone by the time it starts it: it waits for somebody else as well.
        let other = "systemd-inhibit --what=shutdown --mode=delay --who=other sleep 3";
        let mut other = pair.a.inside(other).spawn().unwrap();
        let locks = || pair.a.run("systemd-inhibit --list --no-legend").out;
        eventually("another one has a lock", secs(5), || {
            locks().contains("other")
        });
        pair.a.does("systemctl reboot");
        pair.moves();
        let said = pair.a.kedge("status").out;
        assert!(said.contains("THE HOST GOES DOWN"), "{said}");
        pair.a.does("systemctl mask --runtime reboot.target");
        eventually("it is called off", secs(10), || logind_waits(&pair.a));
        other.wait().unwrap();
        eventually("a stands by", secs(5), || pair.a.stands_by());
        let priority = || pair.a.vip()["priority"].as_u64();
        eventually("a takes part again", secs(5), || priority() == Some(250));

        pair.a.does("kedge vip move api --yes");
        eventually("a holds it again", secs(5), || pair.a.holds(VIP));
        let mut bed = pair.a.inside("sh");
        let made = bed.args(["-c", BED]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        pair.a.does("systemctl suspend");
        pair.moves();
        eventually("a wakes up and stands by", secs(10), || pair.a.stands_by());
        let journal = pair.a.journal();
        for words in ["about to sleep", "to=Initialize", "the host is awake"] {
            assert!(journal.contains(words), "{words}: {journal}");
        }
        let slept = std::fs::read_to_string(pair.a.seen("/sys/power/state")).unwrap();
        assert!(
            slept.starts_with("mem") || slept.starts_with("freeze\n"),
            "{slept}"
        );
        eventually("logind waits again", secs(5), || logind_waits(&pair.a));

        pair.a.does("kedge vip move api --yes");
        eventually("a holds it once more", secs(5), || pair.a.holds(VIP));
        pair.a.does("systemctl unmask --runtime reboot.target");
        pair.a.does("systemctl reboot");
        let stopping = pair.a.path("srv/stopping");
        eventually("the API server is told to stop", secs(10), || {
            stopping.exists()
        });
        assert!(pair.b.holds(VIP) && !pair.a.holds(VIP), "the VIP is late");
        eventually("a is down", secs(30), || !pair.a.is_on());
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} packets were lost");
        assert_eq!(lost, 0);
    });
}

#[test]
fn without_logind_power_off_moves_the_vip_before_what_it_leads_to_stops() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let mut pair = Pair::boot(&lan, KEDGE);
        pair.a.write("etc/systemd/system/k3s.service", K3S);
        pair.a.does("systemctl mask --runtime systemd-logind");
        pair.a.does("systemctl daemon-reload");
        pair.a.does("systemctl stop systemd-logind");
        pair.a.does("systemctl restart kedge-agent");
        eventually("it is told", secs(5), || {
            inhibitor(&pair.a)["because"] == "none (no logind)"
        });
        assert!(
            pair.a
                .kedge("status")
                .out
                .contains("inhibitor: none (no logind)")
        );
        pair.a.does("systemctl start k3s");
        let train = pair.train();
        pair.a.does(POWER_OFF);
        let stopping = pair.a.path("srv/stopping");
        eventually("the API server is told to stop", secs(10), || {
            stopping.exists()
        });
        assert!(pair.b.holds(VIP) && !pair.a.holds(VIP), "the VIP is late");
        eventually("a is off", secs(30), || !pair.a.is_on());
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} packets were lost");
        assert_eq!(lost, 0);
    });
}

#[test]
fn without_logind_and_the_hand_over_unit_the_agent_hands_over_as_it_stops() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let mut pair = Pair::boot(&lan, KEDGE);
        // It is gone without having been stopped.
        pair.a.does("systemctl mask --runtime kedge-handover");
        pair.a.does("systemctl daemon-reload");
        let train = pair.train();
        pair.a.does(POWER_OFF);
        eventually("b takes it", secs(10), || pair.b.holds(VIP));
        eventually("a is off", secs(30), || !pair.a.is_on());
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} packets were lost");
        assert_eq!(lost, 0);
    });
}

/// Past logind, which `systemctl poweroff` would ask.
const POWER_OFF: &str =
    "systemctl start --no-block --job-mode=replace-irreversibly poweroff.target";

fn inhibitor(node: &Node) -> Value {
    let status = node.kedge("status -o json").out;
    let status: Value = serde_json::from_str(&status).unwrap_or_default();
    status["inhibitor"].clone()
}

fn logind_waits(node: &Node) -> bool {
    let inhibitor = inhibitor(node);
    inhibitor["held"] == true && inhibitor["ending"].is_null()
}
