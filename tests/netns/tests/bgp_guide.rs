//! The lines of the guide, as they stand there: an agent, and a real FRR or BIRD that routes by them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    collections::BTreeSet,
    io::Read as _,
    net::{SocketAddr, TcpStream},
};

use kedge_tests_netns::{
    agent::Agent,
    answers::Answers,
    asked::Asked,
    bgpd::Bgpd,
    bird::Bird,
    eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs,
};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const GUIDE: &str = include_str!("../../../docs/guide/bgp.md");
const VIP: &str = "192.0.2.10";
const HOSTS: [&str; 2] = ["10.20.14.11", "10.20.14.12"];
const PORT: u16 = 8080;

/// The block of the guide that holds all of these words.
fn block(words: &[&str]) -> &'static str {
    let mut blocks = GUIDE.split("```").skip(1).step_by(2);
    let found = blocks.find(|block| words.iter().all(|word| block.contains(word)));
    let block = found.unwrap();
    // What follows the fence on its line says what the block is.
    &block[block.find('\n').unwrap() + 1..]
}

/// The agent's file of the guide, for a host. There is no API server here to ask.
fn agent<'a>(host: &'a Host, words: &[&str], more: &str) -> Agent<'a> {
    let yaml = block(words);
    assert!(yaml.contains(HOSTS[0]), "{yaml}");
    let yaml = yaml.replace(HOSTS[0], &host.address().to_string());
    let yaml = yaml.replace("via: [bgp]", "via: [bgp]\n    health: none");
    Agent::running(host, KEDGE, &format!("{yaml}{more}"))
}

/// Who answers at the VIP, in as many connections as that.
fn answers(router: &Host, count: u16) -> BTreeSet<String> {
    router.run(move || {
        let to: SocketAddr = format!("{VIP}:{PORT}").parse().unwrap();
        let ask = |_| {
            let mut stream = TcpStream::connect_timeout(&to, millis(500)).ok()?;
            stream.set_read_timeout(Some(millis(500))).unwrap();
            let mut word = [0; 1];
            stream.read_exact(&mut word).ok()?;
            Some(char::from(word[0]).to_string())
        };
        (0..count).filter_map(ask).collect()
    })
}

fn bfd_is_up(agent: &Agent<'_>) -> bool {
    agent.kedge("bfd sessions -o json").json()["items"][0]["state"] == "Up"
}

/// Routes and packets over whatever router the hosts told: both, then the one that is left.
fn share(lan: &Lan, router: &Host, hosts: [&Host; 2], kernel: &dyn Fn() -> String) {
    let _here = [
        Answers::start(hosts[0], PORT, "a", 0),
        Answers::start(hosts[1], PORT, "b", 0),
    ];
    // A router shares its load by addresses alone unless it is told to look at ports, too.
    router.run(|| {
        kedge_net::link::sysctl("ipv4/fib_multipath_hash_policy", "1").unwrap();
    });
    let words = ["router_id", "via: [bgp]", "address: 10.20.14.1"];
    let first = agent(hosts[0], &words, "");
    let second = agent(hosts[1], &words, "");
    eventually("the kernel shares the load", secs(30), || {
        let routes = kernel();
        HOSTS
            .iter()
            .all(|host| routes.contains(&format!("via {host}")))
    });
    println!("  {}", kernel().trim().replace('\n', "\n  "));
    eventually("BFD watches both", secs(15), || {
        bfd_is_up(&first) && bfd_is_up(&second)
    });
    let both = answers(router, 64);
    assert_eq!(both.len(), 2, "{both:?}");
    lan.unplug(hosts[0]);
    let took = eventually("the one that is cut off is left out", secs(3), || {
        let routes = kernel();
        !routes.contains(HOSTS[0]) && routes.contains(HOSTS[1])
    });
    println!("  detection time 900 ms, out of the kernel after {took:?}");
    assert_eq!(answers(router, 16), ["b".to_owned()].into());
    lan.plug(hosts[0]);
    eventually("and comes back", secs(40), || kernel().contains(HOSTS[0]));
}

#[test]
fn frr_routes_and_shares_the_load_by_the_lines_of_the_guide() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let r = lan.host("r", "10.20.14.1/24");
        let bgpd = Bgpd::routing(
            &r,
            block(&["router bgp 65000", "neighbor hosts peer-group"]),
        );
        share(&lan, &r, [&a, &b], &|| bgpd.kernel_route(VIP));
    });
}

#[test]
fn bird_routes_and_shares_the_load_by_the_lines_of_the_guide() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let r = lan.host("r", "10.20.14.1/24");
        let _bird = Bird::running(&r, block(&["protocol bgp host_a from hosts"]));
        share(&lan, &r, [&a, &b], &|| {
            r.run(|| {
                let mut ip = std::process::Command::new("ip");
                let output = ip.args(["route", "show", VIP]).output().unwrap();
                String::from_utf8_lossy(&output.stdout).into_owned()
            })
        });
    });
}

#[test]
fn an_unnumbered_frr_routes_by_the_lines_of_the_guide() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        // No address of the hosts' network.
        let r = lan.host("r", "203.0.113.1/32");
        let policy = "ip prefix-list vips seq 5 permit 192.0.2.0/24 ge 32\nroute-map vips permit 10\n match \
                      ip address prefix-list vips\nexit\nroute-map nothing deny 10\nexit\n";
        let lines = block(&["neighbor eth0 interface remote-as external"]);
        let bgpd = Bgpd::routing(&r, &format!("{lines}{policy}"));
        let vip = format!("vips: {{api: {{addresses: [{VIP}], via: [bgp], health: none}}}}\n");
        let agent = agent(&a, &["interface: eth0", "asn: external"], &vip);
        let near = a.link_local();
        eventually("the kernel has its route", secs(30), || {
            bgpd.kernel_route(VIP)
                .contains(&format!("via inet6 {near}"))
        });
        println!("  {}", bgpd.kernel_route(VIP).trim());
        eventually("BFD watches it", secs(15), || bfd_is_up(&agent));
    });
}
