//! What a packet each millisecond sees of the way over TLS and back, of real agents and gateways.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::fallback;

use std::process::Command;

use fallback::{
    GATEWAYS, Site, UDP, answered, codes, is_up, round_trips, throughput, tunnel, until,
};
use kedge_tests_netns::{
    asked::Asked, eventually, millis, on_a_steady_machine, secs, throughout, train::Train,
};

/// Connections of the host to port 443.
fn connections(site: &Site) -> usize {
    let listed = site.edge.run(|| {
        let mut ss = Command::new("ss");
        ss.args(["-Htn", "state", "established", "dport = :443"]);
        ss.output().unwrap()
    });
    assert!(listed.status.success(), "{listed:?}");
    String::from_utf8_lossy(&listed.stdout).lines().count()
}

#[test]
fn blocked_udp_is_left_for_tls_after_fifteen_seconds_and_come_back_to_without_loss() {
    on_a_steady_machine(|| {
        let site = Site::new();
        let mut gateways = [site.gateway(0)];
        let agent = site.start(&mut gateways, "");
        let [gateway] = &gateways;
        until(&agent, "gw-a", "udp", secs(15));
        let _echo = site.echo(0);
        eventually("its path MTU is known", secs(10), || {
            tunnel(&agent, "gw-a")["pathMtu"]["source"] == "probed"
        });
        let mtu = tunnel(&agent, "gw-a")["pathMtu"]["mtu"].clone();
        let udp = (
            throughput(&site.edge, &site.gateways[0], GATEWAYS[0], millis(1_500)),
            round_trips(&site.edge, GATEWAYS[0], 300),
        );

        let train = Train::start(&site.edge, GATEWAYS[0]);
        std::thread::sleep(millis(300));
        site.block("udp", UDP);
        let took = until(&agent, "gw-a", "tls", secs(25));
        answered(&site.edge, GATEWAYS[0]);
        let (sent, outage) = train.outage();
        println!(
            "over TLS {:.1} s after UDP was blocked; {outage} ms without an answer, of {sent} ms",
            took.as_secs_f64()
        );
        assert!((14_000..=18_500).contains(&outage), "{outage} ms");

        // Loud, at both ends and in every list.
        let told = tunnel(&agent, "gw-a");
        println!("{told}");
        assert_eq!(told["fallback"]["endpoint"], "203.0.113.7:443");
        assert_eq!(told["fallback"]["code"], "KEDGE-TUN-0022");
        let why = told["fallback"]["because"].as_str().unwrap();
        assert!(why.contains("UDP/51820 got no answer"), "{why}");
        assert!(codes(&agent).contains(&"KEDGE-TUN-0022".to_owned()));
        for line in ["status", "tunnel list", "tunnel show gw-a", "tunnel path"] {
            let said = agent.kedge(line).out;
            println!("{said}");
            assert!(said.contains("FALLBACK"), "{line}: {said}");
        }
        assert!(agent.log().contains("FALLBACK"), "it is in the journal");
        // The tunnel's packets are as large as they were.
        assert_eq!(told["pathMtu"]["mtu"], mtu);
        let checked = agent.kedge("net check gw-a -o json").json();
        let checked = &checked["items"][0];
        println!("{checked}");
        assert_eq!(checked["endpoint"], "203.0.113.7:51820");
        for (step, state) in [("udp", "failed"), ("tls", "ok")] {
            let all = checked["steps"].as_array().unwrap();
            let found = all.iter().find(|it| it["step"] == step).unwrap();
            let told = found["state"].as_str().unwrap();
            assert_eq!(told.to_lowercase(), state, "{found}");
        }
        assert_eq!(connections(&site), 1, "the way they are counted counts it");
        let seen = gateway.kedge("tunnel list -o json").json();
        assert_eq!(seen["items"][0]["path"], "tls", "{seen}");
        let from = seen["items"][0]["endpoint"].as_str().unwrap();
        assert!(from.starts_with("203.0.113.1:"), "{from}");

        // Everything inside goes on.
        let tls = (
            throughput(&site.edge, &site.gateways[0], GATEWAYS[0], millis(1_500)),
            round_trips(&site.edge, GATEWAYS[0], 300),
        );
        println!(
            "TCP: {:.0} Mbit/s over UDP, {:.0} over TLS; round trip p50/p99: {:?} µs over UDP, {:?} over TLS",
            udp.0, tls.0, udp.1, tls.1
        );
        assert!(tls.0 > 10.0, "{} Mbit/s", tls.0);
        let train = Train::start(&site.edge, GATEWAYS[0]);
        throughout("it stays while UDP is blocked", secs(3), || {
            is_up(&agent, "gw-a", "tls")
        });
        let (sent, lost) = train.finish();
        println!("over TLS: {lost} of {sent} packets lost");
        assert_eq!(lost, 0);

        let train = Train::start(&site.edge, GATEWAYS[0]);
        std::thread::sleep(millis(300));
        site.pass("udp");
        let took = until(&agent, "gw-a", "udp", secs(20));
        // The connection lingers and goes, and what comes after that still arrives.
        eventually("the connection is gone", secs(8), || {
            connections(&site) == 0
        });
        std::thread::sleep(millis(500));
        let (sent, lost) = train.finish();
        println!(
            "over UDP again {:.1} s after it was let pass: {lost} of {sent} packets lost",
            took.as_secs_f64()
        );
        assert_eq!(lost, 0);
        assert!(!codes(&agent).contains(&"KEDGE-TUN-0022".to_owned()));
        let seen = gateway.kedge("tunnel list -o json").json();
        assert_eq!(seen["items"][0]["path"], "udp", "{seen}");
        assert!(is_up(&agent, "gw-a", "udp"));
        assert!(agent.log().contains("the tunnel goes over UDP"));
    });
}

#[test]
fn udp_that_never_passed_is_no_reason_not_to_begin() {
    on_a_steady_machine(|| {
        let site = Site::new();
        site.block("udp", UDP);
        let mut gateways = [site.gateway(0)];
        let agent = site.start(&mut gateways, "");
        let took = until(&agent, "gw-a", "tls", secs(25));
        println!("up over TLS {:.1} s after the start", took.as_secs_f64());
        let _echo = site.echo(0);
        let (sent, lost) = {
            let train = Train::start(&site.edge, GATEWAYS[0]);
            std::thread::sleep(secs(2));
            train.finish()
        };
        assert_eq!(lost, 0, "of {sent}");
    });
}
