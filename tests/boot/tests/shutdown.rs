//! A node that is switched off: its VIP leaves before anything that is reached through it.
#![allow(clippy::print_stdout, reason = "test code")]

use kedge_tests_boot::{
    on_booted_nodes,
    pair::{Pair, VIP},
};
use kedge_tests_netns::{eventually, lan::Lan, secs};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");

/// Takes its time to stop, and says when it begins.
const K3S: &str = "[Service]\nExecStart=/bin/sleep infinity\n\
                   ExecStop=/bin/sh -c \"touch /srv/stopping; sleep 1\"\n";

#[test]
fn power_off_moves_the_vip_before_what_it_leads_to_stops() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let mut pair = Pair::boot(&lan, KEDGE);
        pair.a.write("etc/systemd/system/k3s.service", K3S);
        pair.a.does("systemctl daemon-reload");
        pair.a.does("systemctl start k3s");
        let train = pair.train();
        pair.a.does("systemctl poweroff");
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
fn without_the_hand_over_unit_the_agent_hands_over_as_it_stops() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let mut pair = Pair::boot(&lan, KEDGE);
        // It is gone without having been stopped.
        pair.a.does("systemctl mask --runtime kedge-handover");
        pair.a.does("systemctl daemon-reload");
        let train = pair.train();
        pair.a.does("systemctl poweroff");
        eventually("b takes it", secs(10), || pair.b.holds(VIP));
        eventually("a is off", secs(30), || !pair.a.is_on());
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} packets were lost");
        assert_eq!(lost, 0);
    });
}
