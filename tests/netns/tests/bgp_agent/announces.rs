//! Who announces what, and until when: health, BFD, other hosts.

use std::fs;

use kedge_tests_netns::{
    agent::Agent,
    asked::Asked as _,
    bird::Bird,
    eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs, throughout,
};

use super::site::{
    ANYCAST, Client, HOSTS, KEDGE, VIP, answering, anycast, elected, is_established, member, only,
    rack, router, session, stands, ways,
};

#[test]
fn every_well_host_is_told_and_one_that_is_ill_drained_or_dead_is_not() {
    on_a_steady_machine(|| {
        let (_lan, a, b, tor) = rack();
        let _here = answering(&a, &b);
        let bird = Bird::running(&tor, &router(""));
        let ready = [&a, &b].map(|host| host.directory().join("ready"));
        for file in &ready {
            fs::write(file, "").unwrap();
        }
        let yaml =
            |host: &Host, at: usize| member(host, "", &anycast(&ready[at].to_string_lossy()));
        let first = Agent::running(&a, KEDGE, &yaml(&a, 0));
        let mut second = Agent::running(&b, KEDGE, &yaml(&b, 1));
        eventually("both are told", secs(10), || {
            ways(&bird, ANYCAST).len() == 2
        });
        assert!(stands(&a) && stands(&b));
        let listed = first.kedge("vip list");
        assert!(listed.out.contains("ANNOUNCED"), "{listed:?}");

        fs::remove_file(&ready[0]).unwrap();
        eventually("the ill one is not told", secs(2), || {
            only(&bird, ANYCAST, HOSTS[1])
        });
        assert!(stands(&a), "its address went first");
        eventually("then its address goes", secs(3), || !stands(&a));
        let said = first.kedge(&format!("bgp explain {ANYCAST}"));
        assert!(said.out.contains("track ready"), "{said:?}");
        fs::write(&ready[0], "").unwrap();
        eventually("it is well again", secs(3), || {
            ways(&bird, ANYCAST).len() == 2
        });
        assert!(stands(&a));

        let client = Client::start(&tor, ANYCAST);
        let said = first.kedge("drain --yes");
        assert_eq!(said.code, 0, "{said:?}");
        eventually("the drained one is not told", secs(2), || {
            only(&bird, ANYCAST, HOSTS[1])
        });
        eventually("then its address goes", secs(3), || !stands(&a));
        client.end();
        assert_eq!(first.kedge("undrain").code, 0);
        eventually("it is back", secs(3), || ways(&bird, ANYCAST).len() == 2);

        second.kill();
        let took = eventually("the dead one is not told", secs(2), || {
            only(&bird, ANYCAST, HOSTS[0])
        });
        assert!(took < millis(500), "{took:?}");
    });
}

#[test]
fn an_anycast_address_of_the_hosts_own_network_is_refused() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, _b) = lan.pair();
        let yaml = member(
            &a,
            "",
            &format!("api: {{addresses: [{VIP}], via: [bgp], health: none}}"),
        );
        let agent = Agent::running(&a, KEDGE, &yaml);
        let status = agent.kedge("status");
        assert!(status.out.contains("KEDGE-BGP-0005"), "{status:?}");
        assert!(status.out.contains("10.20.14.0/24"), "{status:?}");
        throughout("it stands nowhere", millis(300), || !a.holds(VIP));
    });
}

#[test]
fn a_path_that_bfd_lost_ends_the_session_at_once_and_brings_it_back() {
    on_a_steady_machine(|| {
        let (_lan, a, _b, tor) = rack();
        let bird = Bird::running(&tor, &router(""));
        let agent = Agent::running(&a, KEDGE, &member(&a, ", bfd: auto", &elected(250)));
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
        eventually("BFD sees the router", secs(6), || {
            agent.kedge("bfd sessions -o json").json()["items"][0]["state"] == "Up"
        });
        // The router's packets of BFD are cut: TCP goes on, and the router's BGP asks nobody about the path.
        tor.nft(
            "table ip cut { chain out { type filter hook output priority 0; udp dport 3784 drop; }; }",
        );
        eventually("the session ended", secs(3), || {
            session(&agent)["lost"] == 1
        });
        eventually("for that reason", secs(2), || {
            agent.log().contains("because=\"BFD lost the neighbour\"")
        });
        eventually("the route is gone", secs(2), || ways(&bird, VIP).is_empty());
        // TCP would get through, and BIRD calls every second.
        throughout("and stays so", secs(4), || {
            session(&agent)["state"] == "Idle" && ways(&bird, VIP).is_empty()
        });
        let shown = agent.kedge("bgp neighbors");
        assert!(shown.out.contains("BFD lost the neighbour"), "{shown:?}");
        tor.nft("delete table ip cut");
        eventually("it is told again", secs(20), || only(&bird, VIP, HOSTS[0]));
    });
}

#[test]
fn without_bfd_of_the_neighbour_a_session_comes_up_unless_it_is_strict() {
    on_a_steady_machine(|| {
        let (_lan, a, _b, tor) = rack();
        let bird = Bird::running(&tor, &router(""));
        tor.nft(
            "table ip cut { chain out { type filter hook output priority 0; udp dport 3784 drop; }; }",
        );
        let yaml = |more: &str| member(&a, &format!(", bfd: auto{more}"), &elected(250));
        let agent = Agent::running(&a, KEDGE, &yaml(""));
        eventually("it is told without BFD", secs(12), || {
            only(&bird, VIP, HOSTS[0])
        });
        agent.configure(&yaml(", bfd_strict: true"));
        agent.reload();
        throughout("a session that stands is kept", secs(1), || {
            session(&agent)["lost"] == 0
        });
        agent.configure(&yaml(", bfd_strict: true, port: 179, ttl_security: true"));
        agent.reload();
        eventually("another one waits for BFD", secs(5), || {
            session(&agent)["because"] == "BFD does not see the neighbour yet"
        });
        agent.configure(&yaml(", bfd_strict: true"));
        agent.reload();
        throughout("for as long as it takes", secs(3), || {
            session(&agent)["state"] == "Idle" && ways(&bird, VIP).is_empty()
        });
        tor.nft("delete table ip cut");
        eventually("BFD is there, and the session", secs(15), || {
            is_established(&agent) && only(&bird, VIP, HOSTS[0])
        });
    });
}
