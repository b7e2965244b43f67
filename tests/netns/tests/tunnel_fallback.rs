//! UDP that is blocked: real agents and gateways, and what a packet each millisecond sees of the way over
//! TLS and back.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "test code"
)]

mod fallback;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::Instant,
};

use fallback::{GATEWAYS, Site, codes, is_up, round_trips, throughput, tunnel, until};
use kedge_host::{Role, Root};
use kedge_tests_netns::{
    asked::Asked, enrolled::Authority, eventually, millis, on_a_steady_machine, secs, throughout,
    train::Train,
};

const UDP: &str = "meta l4proto udp";
const TLS: &str = "tcp dport 443";

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
            throughput(&site.edge, &site.gateways[0], GATEWAYS[0], secs(3)),
            round_trips(&site.edge, GATEWAYS[0], 300),
        );

        let train = Train::start(&site.edge, GATEWAYS[0]);
        std::thread::sleep(millis(300));
        site.block("udp", UDP);
        let took = until(&agent, "gw-a", "tls", secs(25));
        std::thread::sleep(secs(1));
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
        let seen = gateway.kedge("tunnel list -o json").json();
        assert_eq!(seen["items"][0]["path"], "tls", "{seen}");
        let from = seen["items"][0]["endpoint"].as_str().unwrap();
        assert!(from.starts_with("203.0.113.1:"), "{from}");

        // Everything inside goes on.
        let tls = (
            throughput(&site.edge, &site.gateways[0], GATEWAYS[0], secs(3)),
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
        // The connection lingers and goes.
        std::thread::sleep(secs(7));
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

#[test]
fn where_nothing_passes_it_is_said_and_whichever_opens_first_is_taken() {
    on_a_steady_machine(|| {
        let site = Site::new();
        let mut gateways = [site.gateway(0)];
        let agent = site.start(&mut gateways, "");
        until(&agent, "gw-a", "udp", secs(15));
        site.block("udp", UDP);
        site.block("tls", TLS);
        eventually("both ways are said to be blocked", secs(40), || {
            codes(&agent).contains(&"KEDGE-TUN-0023".to_owned())
        });
        println!("{}", agent.kedge("status").out);
        assert_eq!(
            tunnel(&agent, "gw-a")["path"],
            "udp",
            "it is not said to work"
        );
        site.pass("tls");
        let took = until(&agent, "gw-a", "tls", secs(30));
        println!("up over TLS {:.1} s after it opened", took.as_secs_f64());
        site.block("tls", TLS);
        eventually("the dead connection is left", secs(30), || {
            codes(&agent).contains(&"KEDGE-TUN-0023".to_owned())
        });
        site.pass("udp");
        let took = until(&agent, "gw-a", "udp", secs(15));
        println!("up over UDP {:.1} s after it opened", took.as_secs_f64());
        eventually("nothing is wrong any more", secs(10), || {
            codes(&agent)
                .iter()
                .all(|code| !code.starts_with("KEDGE-TUN"))
        });
    });
}

#[test]
fn a_gateway_that_only_a_proxy_leads_to_is_reached_and_found_again_when_it_is_killed() {
    on_a_steady_machine(|| {
        let site = Site::new();
        site.block("udp", UDP);
        site.block("tls", TLS);
        let _proxy = site.proxy("edge secret");
        let mut gateways = [site.gateway(0)];
        let proxied =
            "tunnel: {proxy: 'http://10.1.0.1:3128', proxy_auth_file: /etc/kedge/proxy}\n";
        let mut agent = site.agent(proxied);
        let file = Root::new(agent.root()).locate(Path::new("/etc/kedge/proxy"));
        std::fs::write(file, "edge:secret\n").unwrap();
        site.introduce(&agent, &gateways);
        gateways[0].start();
        agent.start();
        let took = until(&agent, "gw-a", "tls", secs(25));
        println!(
            "up through the proxy {:.1} s after the start",
            took.as_secs_f64()
        );
        let [gateway] = &mut gateways;
        gateway.kill();
        eventually("it is missed", secs(10), || {
            tunnel(&agent, "gw-a")["state"] != "Up"
        });
        gateway.start();
        let took = until(&agent, "gw-a", "tls", secs(30));
        println!("up again {:.1} s after the gateway was", took.as_secs_f64());
    });
}

#[test]
fn a_gateway_that_udp_reaches_comes_before_one_that_only_tls_does() {
    on_a_steady_machine(|| {
        let site = Site::new();
        let mut gateways = [site.gateway(0), site.gateway(1)];
        let failover = "tunnel: {failover: {prefixes: [10.9.0.0/24], gateways: [gw-a, gw-b], \
                        profile: fast, return_after: 2s}}\n";
        let agent = site.start(&mut gateways, failover);
        let active = || {
            let both = ["gw-a", "gw-b"].into_iter();
            both.filter(|name| tunnel(&agent, name)["gateway"]["active"] == true)
                .collect::<Vec<_>>()
        };
        for name in ["gw-a", "gw-b"] {
            until(&agent, name, "udp", secs(15));
        }
        eventually("the preferred one is active", secs(10), || {
            active() == ["gw-a"]
        });
        site.block("udp", "ip daddr 203.0.113.7 meta l4proto udp");
        let blocked = Instant::now();
        eventually("the other is active", secs(5), || active() == ["gw-b"]);
        println!("elsewhere after {:.1} s", blocked.elapsed().as_secs_f64());
        until(&agent, "gw-a", "tls", secs(25));
        // The preferred one is there over TLS, for longer than it takes to come back to it.
        throughout("UDP comes first", secs(5), || {
            active() == ["gw-b"] && is_up(&agent, "gw-a", "tls")
        });
        let why = tunnel(&agent, "gw-a")["gateway"]["because"].to_string();
        assert!(why.contains("over TLS alone"), "{why}");
        // The last way there is.
        site.block("other", "ip daddr 203.0.113.8 meta l4proto udp");
        eventually("the first is active, over TLS", secs(5), || {
            active() == ["gw-a"]
        });
        site.pass("other");
        eventually("UDP comes first again", secs(20), || active() == ["gw-b"]);
        site.pass("udp");
        until(&agent, "gw-a", "udp", secs(20));
        eventually("the preferred one is active", secs(15), || {
            active() == ["gw-a"]
        });
    });
}

#[test]
fn whoever_is_no_member_gets_nothing_over_tls() {
    on_a_steady_machine(|| {
        let site = Site::new();
        site.block("udp", UDP);
        let mut gateways = [site.gateway(0)];
        let mut agent = site.agent("");
        site.introduce(&agent, &gateways);
        // A member of somebody else's fleet, with the right tunnel key.
        let stranger = Authority::new();
        stranger.enrol(agent.root(), Role::Agent, "11");
        gateways[0].start();
        agent.start();
        eventually("it is told why", secs(40), || {
            codes(&agent).contains(&"KEDGE-TUN-0023".to_owned())
        });
        println!("{}", agent.kedge("status").out);
        assert_ne!(tunnel(&agent, "gw-a")["state"], "Up");
        assert!(tunnel(&agent, "gw-a")["fallback"].is_null());
        // Who says nothing is not waited for, and who speaks something else is not answered.
        let heard = site.edge.run(|| {
            let mut silent = TcpStream::connect("203.0.113.7:443").unwrap();
            silent.set_read_timeout(Some(secs(15))).unwrap();
            let begun = Instant::now();
            let length = silent.read(&mut [0; 64]).unwrap_or_default();
            let waited = begun.elapsed();
            let mut other = TcpStream::connect("203.0.113.7:443").unwrap();
            other.set_read_timeout(Some(secs(15))).unwrap();
            other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            // It may be reset before all of it was read.
            let _ = other.read_to_end(&mut answer);
            (length, waited, answer)
        });
        let (length, waited, answer) = heard;
        println!(
            "closed after {:.1} s; answered {answer:?}",
            waited.as_secs_f64()
        );
        assert_eq!(length, 0, "nothing is said first");
        assert!(waited < secs(8), "{waited:?}");
        assert!(answer.len() <= 7, "no more than an alert: {answer:?}");
        // The same host with the right certificate is let in.
        agent.stop();
        site.authority.enrol(agent.root(), Role::Agent, "11");
        agent.start();
        until(&agent, "gw-a", "tls", secs(25));
    });
}
