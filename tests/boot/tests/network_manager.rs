//! What NetworkManager does to the link a VIP is on.
#![allow(clippy::print_stdout, reason = "test code")]

use std::time::Duration;

use kedge_tests_boot::{gone::Gone, links::Links, node::Node, on_booted_nodes, pair::Pair};
use kedge_tests_netns::{asked::Asked, eventually, lan::Lan, millis, secs};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");
const OWN: &str = "10.20.14.11";

#[test]
fn what_it_takes_away_is_there_again_at_once_and_nobody_takes_over() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let pair = Pair::boot_with(&lan, KEDGE, Links::NetworkManager);
        let a = &pair.a;
        let restarted = pair.gone_while("NetworkManager restarted", || {
            a.does("systemctl restart NetworkManager");
            connected(a);
        });
        assert!(restarted.is_empty(), "{restarted:?}");
        let looked = a.run("kedge doctor");
        assert!(
            looked.out.contains("NetworkManager configures it"),
            "{looked:?}"
        );
        let reloaded = pair.gone_while("NetworkManager and its connections reloaded", || {
            a.does("systemctl reload NetworkManager");
            a.does("nmcli connection reload");
            connected(a);
        });
        assert!(reloaded.is_empty(), "{reloaded:?}");
        a.does("nmcli connection modify lan ipv4.dns 192.0.2.53");
        let reapplied = pair.gone_while("a changed connection reapplied", || {
            a.does("nmcli device reapply eth0");
        });
        let activated = pair.gone_while("the connection activated anew", || {
            let own = Gone::listen(a, OWN);
            a.does("nmcli connection up lan");
            connected(a);
            eventually("its own address is back", secs(10), || own.was_gone());
            println!("its own address was gone for {:?}", own.end());
        });
        // Without this the test says nothing.
        assert!(!activated.is_empty());
        for gone in [reapplied, activated] {
            let gone = gone.iter().sum::<Duration>();
            assert!(gone < millis(20), "{gone:?}");
        }
        assert!(a.counter("address_readded") >= 1);
    });
}

fn connected(node: &Node) {
    eventually("NetworkManager has the link", secs(10), || {
        let said = node.run("nmcli -g GENERAL.STATE device show eth0");
        said.out.starts_with("100")
    });
}
