//! A route that leads another way, through a switch that drops what is larger than one of the routers takes and
//! says nothing: what the way carries is asked anew the moment the kernel says so. Nobody sends data meanwhile,
//! which would find out by being lost.
//!
//! ```text
//!   edge 10.1.0.2 ──┬── 10.1.0.1 router   203.0.113.1 ──┬── 203.0.113.7 gw-a
//!                   │     (1400)                        │
//!                   └── 10.1.0.3 router-b 203.0.113.2 ──┘
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::fallback;

use std::{process::Command, time::Duration};

use fallback::{Site, router, tunnel, until};
use kedge_tests_netns::{
    agent::Agent, asked::Asked as _, eventually, lan::Host, on_a_steady_machine, secs, throughout,
};

/// WireGuard over IPv4 takes 60 bytes.
const NARROW: u64 = 1400 - 60;
const WIDE: u64 = 1500 - 60;

fn ip(host: &Host, line: &str) {
    let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
    let status = host.run(move || Command::new("ip").args(words).status().unwrap());
    assert!(status.success(), "{line}");
}

/// Waits until the host has found out what the way carries, and says how long it took.
fn found(agent: &Agent<'_>, mtu: u64, limit: Duration) -> Duration {
    eventually(&format!("{mtu} bytes are found"), limit, || {
        is_found(agent, mtu)
    })
}

fn is_found(agent: &Agent<'_>, mtu: u64) -> bool {
    let path = tunnel(agent, "gw-a")["pathMtu"].clone();
    let because = path["because"].as_str().unwrap_or_default();
    path["mtu"] == mtu && path["source"] == "probed" && !because.contains("being tried")
}

#[test]
fn a_way_is_probed_anew_the_moment_its_route_leads_elsewhere() {
    on_a_steady_machine(|| {
        let site = Site::new();
        let other = router(&site.lan, "router-b", ["203.0.113.2/24", "10.1.0.3/24"]);
        site.lan.narrow(&site.router, 1400);
        let mut gateways = [site.gateway(0)];
        let agent = site.start(&mut gateways, "");
        let [gateway] = &gateways;
        until(&agent, "gw-a", "udp", secs(15));
        found(&agent, NARROW, secs(15));

        // It would be ten minutes until more is tried.
        ip(&site.edge, "route replace 203.0.113.0/24 via 10.1.0.3");
        found(&agent, WIDE, secs(2));
        // And for ever until less is, where nothing is sent.
        ip(&site.edge, "route replace 203.0.113.0/24 via 10.1.0.1");
        found(&agent, NARROW, secs(8));
        // A rule leads elsewhere as a route does.
        ip(&site.edge, "route add 203.0.113.0/24 via 10.1.0.3 table 77");
        ip(&site.edge, "rule add to 203.0.113.7 lookup 77");
        found(&agent, WIDE, secs(2));

        // Routes that do not matter lead to no question.
        let before = agent.log().matches("tunnel path MTU").count();
        for number in 0..50 {
            ip(
                &site.edge,
                &format!("route add 10.99.{number}.0/24 via 10.1.0.1"),
            );
        }
        throughout("nothing is asked for them", secs(2), || {
            is_found(&agent, WIDE)
        });
        assert_eq!(agent.log().matches("tunnel path MTU").count(), before);

        // The first link, at both ends: every five seconds without that.
        ip(&site.edge, "link set eth0 mtu 1380");
        eventually("the edge's link is seen", secs(1), || {
            tunnel(&agent, "gw-a")["pathMtu"]["most"] == 1380 - 60
        });
        ip(&site.gateways[0], "link set eth0 mtu 1390");
        eventually("the gateway's link is seen", secs(1), || {
            let told = gateway.kedge("tunnel list -o json").json();
            told["items"][0]["pathMtu"]["most"] == 1390 - 60
        });
        drop(other);
    });
}
