//! UDP that passes to port 443 alone: real agents and gateways, and what a packet each millisecond sees of the
//! way to the other port and back.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "test code"
)]

use crate::fallback;

use std::net::UdpSocket;

use fallback::{GATEWAYS, Site, codes, dropped, is_up, throughput, tunnel, until};
use kedge_tests_netns::{
    asked::Asked, eventually, gateway::Gateway, millis, on_a_steady_machine, secs, throughout,
    train::Train,
};

/// What a firewall drops that lets nothing out over UDP but QUIC.
const ALL_BUT_443: &str = "udp dport 443 accept; udp sport 443 accept; meta l4proto udp";
const UDP: &str = "meta l4proto udp";
const TLS: &str = "tcp dport 443";
const CODE: &str = "KEDGE-TUN-0022";

fn site() -> Site {
    let mut site = Site::new();
    site.other = Some(443);
    site
}

/// The path to its only host, as the gateway tells it.
fn path(gateway: &Gateway<'_>) -> String {
    let seen = gateway.kedge("tunnel list -o json").json();
    seen["items"][0]["path"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn where_udp_passes_to_443_alone_that_port_is_used_and_left_again_without_loss() {
    on_a_steady_machine(|| {
        let site = site();
        site.block("tls", TLS);
        let mut gateways = [site.gateway(0)];
        let agent = site.start(&mut gateways, "");
        let [gateway] = &gateways;
        until(&agent, "gw-a", "udp", secs(15));
        let _echo = site.echo(0);
        eventually("its path MTU is known", secs(10), || {
            tunnel(&agent, "gw-a")["pathMtu"]["source"] == "probed"
        });
        let usual = throughput(&site.edge, &site.gateways[0], GATEWAYS[0], secs(3));

        let train = Train::start(&site.edge, GATEWAYS[0]);
        std::thread::sleep(millis(300));
        site.block("udp", ALL_BUT_443);
        let took = until(&agent, "gw-a", "udp/443", secs(15));
        std::thread::sleep(secs(1));
        let (sent, outage) = train.outage();
        println!(
            "by 443/udp {:.1} s after the rest was blocked; {outage} ms without an answer, of {sent} ms",
            took.as_secs_f64()
        );
        assert!((4_000..=8_500).contains(&outage), "{outage} ms");

        // Loud, at both ends and in every list.
        let told = tunnel(&agent, "gw-a");
        println!("{told}");
        assert_eq!(told["endpoint"], "203.0.113.7:443");
        assert_eq!(told["fallback"]["endpoint"], "203.0.113.7:443");
        assert_eq!(told["fallback"]["udpEndpoint"], "203.0.113.7:51820");
        assert_eq!(told["fallback"]["code"], CODE);
        let why = told["fallback"]["because"].as_str().unwrap();
        assert!(why.contains("UDP/51820 got no answer"), "{why}");
        assert!(codes(&agent).contains(&CODE.to_owned()));
        for line in ["status", "tunnel list", "tunnel show gw-a", "tunnel path"] {
            let said = agent.kedge(line).out;
            println!("{said}");
            assert!(said.contains("FALLBACK"), "{line}: {said}");
            assert!(said.contains("udp/443"), "{line}: {said}");
        }
        assert!(agent.log().contains("FALLBACK"), "it is in the journal");
        assert_eq!(path(gateway), "udp/443");
        let said = gateway.kedge("tunnel list").out;
        assert!(
            said.contains("FALLBACK") && said.contains("203.0.113.1:"),
            "{said}"
        );
        let checked = agent.kedge("net check gw-a -o json").json();
        let steps = checked["items"][0]["steps"].as_array().unwrap();
        let udp = steps.iter().find(|it| it["step"] == "udp").unwrap();
        assert!(
            udp["because"].as_str().unwrap().contains("udp/443"),
            "{udp}"
        );
        assert_eq!(checked["items"][0]["state"], "Warning", "{checked}");

        // It is the tunnel it was: no stream, no second encryption.
        // What others leave of the processors may be less than before, for a while.
        let mut other = 0.0_f64;
        for _ in 0..3 {
            if other <= usual / 4.0 {
                other = throughput(&site.edge, &site.gateways[0], GATEWAYS[0], secs(3));
            }
        }
        println!("TCP: {usual:.0} Mbit/s by 51820/udp, {other:.0} by 443/udp");
        let why = dropped(&agent, gateway);
        assert!(other > usual / 4.0, "{other} of {usual} Mbit/s; {why}");
        let train = Train::start(&site.edge, GATEWAYS[0]);
        throughout("it stays while the rest is blocked", secs(12), || {
            is_up(&agent, "gw-a", "udp/443")
        });
        let (sent, lost) = train.finish();
        println!("by 443/udp: {lost} of {sent} packets lost");
        assert_eq!(lost, 0, "{}", dropped(&agent, gateway));

        let train = Train::start(&site.edge, GATEWAYS[0]);
        std::thread::sleep(millis(300));
        site.pass("udp");
        let took = until(&agent, "gw-a", "udp", secs(20));
        eventually("the gateway answers by its usual port", secs(5), || {
            path(gateway) == "udp"
        });
        std::thread::sleep(secs(3));
        let (sent, lost) = train.finish();
        println!(
            "by 51820/udp again {:.1} s after it was let pass: {lost} of {sent} packets lost",
            took.as_secs_f64()
        );
        assert_eq!(lost, 0, "{}", dropped(&agent, gateway));
        assert!(!codes(&agent).contains(&CODE.to_owned()));
        assert!(is_up(&agent, "gw-a", "udp"));
        assert!(
            agent
                .log()
                .contains("the tunnel goes over UDP, by the usual port")
        );
    });
}

#[test]
fn a_host_that_only_443_ever_answers_begins_there_and_comes_back_after_a_restart_of_its_gateway() {
    on_a_steady_machine(|| {
        let site = site();
        site.block("tls", TLS);
        site.block("udp", ALL_BUT_443);
        let mut gateways = [site.gateway(0)];
        let agent = site.start(&mut gateways, "");
        let took = until(&agent, "gw-a", "udp/443", secs(20));
        println!("up by 443/udp {:.1} s after the start", took.as_secs_f64());
        let _echo = site.echo(0);
        let (sent, lost) = {
            let train = Train::start(&site.edge, GATEWAYS[0]);
            std::thread::sleep(secs(2));
            train.finish()
        };
        let why = dropped(&agent, &gateways[0]);
        assert_eq!(lost, 0, "of {sent}; {why}");
        gateways[0].stop();
        gateways[0].start();
        eventually("the restarted gateway has it there", secs(30), || {
            path(&gateways[0]) == "udp/443"
        });
        until(&agent, "gw-a", "udp/443", secs(10));
    });
}

#[test]
fn a_port_that_does_not_answer_either_costs_the_way_over_tls_no_second() {
    on_a_steady_machine(|| {
        let site = site();
        let mut gateways = [site.gateway(0)];
        let agent = site.start(&mut gateways, "");
        until(&agent, "gw-a", "udp", secs(15));
        let _echo = site.echo(0);
        let train = Train::start(&site.edge, GATEWAYS[0]);
        std::thread::sleep(millis(300));
        site.block("udp", UDP);
        until(&agent, "gw-a", "tls", secs(25));
        std::thread::sleep(secs(1));
        let (sent, outage) = train.outage();
        println!("over TLS: {outage} ms without an answer, of {sent} ms");
        assert!((14_000..=18_500).contains(&outage), "{outage} ms");
        // Port 443 opens: it is better than a stream.
        site.pass("udp");
        site.block("udp", ALL_BUT_443);
        let train = Train::start(&site.edge, GATEWAYS[0]);
        let took = until(&agent, "gw-a", "udp/443", secs(25));
        std::thread::sleep(secs(7));
        let (sent, lost) = train.finish();
        println!(
            "by 443/udp {:.1} s after it opened: {lost} of {sent} packets lost",
            took.as_secs_f64()
        );
        assert_eq!(lost, 0, "{}", dropped(&agent, &gateways[0]));
    });
}

#[test]
fn a_gateway_whose_other_port_somebody_has_says_so_and_works_by_the_usual_one() {
    on_a_steady_machine(|| {
        let site = site();
        let at = ("0.0.0.0", 443);
        let taken = site.gateways[0].run(move || UdpSocket::bind(at).unwrap());
        let mut gateways = [site.gateway(0)];
        let agent = site.start(&mut gateways, "");
        until(&agent, "gw-a", "udp", secs(15));
        let status = gateways[0].kedge("status -o json").json();
        let problems = status["problems"].as_array().unwrap();
        let told = problems
            .iter()
            .find(|it| it["object"] == "tunnel.other_port")
            .unwrap();
        println!("{told}");
        assert_eq!(told["code"], "KEDGE-TUN-0002");
        drop(taken);
    });
}
