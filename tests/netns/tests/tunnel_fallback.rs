//! UDP that is blocked: real agents and gateways, which wait for timers of many seconds. What a packet each
//! millisecond sees of the way over TLS and back is measured in `tunnel_fallback_measured`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "test code"
)]

use crate::fallback;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::Instant,
};

use fallback::{Site, TLS, UDP, codes, is_up, tunnel, until};
use kedge_host::{Role, Root};
use kedge_tests_netns::{
    asked::Asked, enrolled::Authority, eventually, on_a_steady_machine, secs, throughout,
};

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
