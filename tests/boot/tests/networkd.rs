//! What systemd-networkd does to the link a VIP is on: it takes away addresses that are not its own, and
//! its own as well before it puts them back.
#![allow(clippy::print_stdout, reason = "test code")]

use std::time::Duration;

use kedge_tests_boot::{
    gone::Gone,
    links::NETWORK,
    node::Node,
    on_booted_nodes,
    pair::{Pair, VIP},
};
use kedge_tests_netns::{asked::Asked, eventually, lan::Lan, millis, secs};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");
const OWN: &str = "10.20.14.11";

#[test]
fn what_networkd_takes_away_is_there_again_at_once_and_nobody_takes_over() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let pair = Pair::boot(&lan, KEDGE);
        let [restarted, reloaded, reconfigured] = spans(&pair, "as it comes");
        assert!(restarted.is_empty(), "{restarted:?}");
        // Without this the rest says nothing.
        assert!(!reloaded.is_empty() && !reconfigured.is_empty());
        for gone in [reloaded, reconfigured] {
            let gone = gone.iter().sum::<Duration>();
            assert!(gone < millis(20), "{gone:?}");
        }
        assert!(pair.a.counter("address_readded") >= 2);
    });
}

#[test]
fn with_keep_configuration_it_is_never_gone() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let pair = Pair::boot(&lan, KEDGE);
        let looked = || pair.a.run("kedge doctor -o json").json()["items"].clone();
        let link = |items: &serde_json::Value| {
            let mut items = items.as_array().cloned().unwrap_or_default();
            items.retain(|item| item["name"] == "link eth0");
            items.pop().unwrap_or_default()
        };
        let before = link(&looked());
        assert_eq!(before["state"], "Warning", "{before}");
        let fix = before["fix"].as_str().unwrap_or_default();
        assert!(
            fix.contains(&format!("/{NETWORK}.d/50-kedge.conf")),
            "{fix}"
        );
        let keep = format!("{NETWORK}.d/50-kedge.conf");
        pair.a.write(&keep, "[Network]\nKeepConfiguration=yes\n");
        // This one is a change as well.
        after(&pair.a, || pair.a.does("networkctl reload"));
        eventually("the VIP is there", secs(2), || pair.a.holds(VIP));
        let items = looked();
        let after = link(&items);
        assert!(after["state"] == "Ok" && after["fix"].is_null(), "{after}");
        assert!(
            items[0]["because"].to_string().contains("Debian"),
            "{items}"
        );
        let clock = items[1]["because"].as_str().unwrap_or_default();
        println!("the clock: {clock}");
        let told = ["it is kept right", "set it right", "keeps it right"];
        assert!(told.iter().any(|words| clock.contains(words)), "{items}");
        let spans = spans(&pair, "with KeepConfiguration=yes");
        assert!(spans.iter().all(Vec::is_empty), "{spans:?}");
    });
}

/// For how long the VIP was gone each time, for each thing that networkd is told.
fn spans(pair: &Pair, how: &str) -> [Vec<Duration>; 3] {
    let a = &pair.a;
    [
        pair.gone_while(&format!("networkd restarted, {how}"), || {
            a.does("systemctl restart systemd-networkd");
        }),
        pair.gone_while(&format!("a changed file reloaded, {how}"), || {
            let text = std::fs::read_to_string(a.path(NETWORK)).unwrap_or_default();
            a.write(NETWORK, &format!("{text}DNS=192.0.2.53\n"));
            after(a, || a.does("networkctl reload"));
        }),
        pair.gone_while(&format!("the link reconfigured, {how}"), || {
            after(a, || a.does("networkctl reconfigure eth0"));
        }),
    ]
}

/// Does something for which networkd puts the link's own address back, and waits for that.
fn after(node: &Node, act: impl Fn()) {
    let own = Gone::listen(node, OWN);
    act();
    eventually("networkd has put its own address back", secs(10), || {
        own.was_gone()
    });
    println!("its own address was gone for {:?}", own.end());
}
