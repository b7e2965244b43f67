//! A host that leaves says so first: no connection is lost.

use kedge_tests_netns::{
    agent::Agent, asked::Asked as _, bird::Bird, eventually, lan::Host, millis,
    on_a_steady_machine, secs, throughout,
};

use super::site::{
    ANYCAST, Client, HOSTS, KEDGE, VIP, answering, elected, is_established, member, only, rack,
    router, stands, watching, ways,
};

#[test]
fn a_vip_is_told_while_it_is_owned_and_a_drain_costs_no_connection() {
    on_a_steady_machine(|| {
        let (_lan, a, b, tor) = rack();
        let _here = answering(&a, &b);
        let bird = Bird::running(&tor, &router(""));
        let first = Agent::running(&a, KEDGE, &member(&a, "", &elected(250)));
        eventually("the higher one holds it", secs(10), || a.holds(VIP));
        let mut second = Agent::running(&b, KEDGE, &member(&b, "", &elected(240)));
        eventually("both have their sessions", secs(10), || {
            is_established(&first) && is_established(&second)
        });
        eventually("the lower one stands by", secs(10), || second.stands_by());
        eventually("the router knows the owner alone", secs(2), || {
            only(&bird, VIP, HOSTS[0])
        });
        let told = first.kedge("bgp routes advertised -o json").json();
        assert_eq!(told["items"][0]["prefix"], format!("{VIP}/32"), "{told}");
        assert_eq!(told["items"][0]["vip"], "api", "{told}");
        let said = second.kedge(&format!("bgp explain {VIP}"));
        assert!(
            said.out.contains("is not told: api is Backup here"),
            "{said:?}"
        );
        let client = Client::start(&tor, VIP);
        let said = first.kedge("drain --yes");
        assert_eq!(said.code, 0, "{said:?}");
        eventually("the router knows the next one alone", secs(3), || {
            only(&bird, VIP, HOSTS[1])
        });
        eventually("which holds it", secs(2), || b.holds(VIP) && !a.holds(VIP));
        throughout("and it stays there", millis(500), || {
            only(&bird, VIP, HOSTS[1])
        });
        client.end();
        // It ends with nobody to give it to who is not drained: routes go before the address does.
        let said = first.kedge("undrain");
        assert_eq!(said.code, 0, "{said:?}");
        let client = Client::start(&tor, VIP);
        second.stop();
        eventually("it is back", secs(3), || only(&bird, VIP, HOSTS[0]));
        client.end();
        assert!(
            bird.log().contains("Administrative shutdown"),
            "{}",
            bird.log()
        );
    });
}

#[test]
fn the_last_host_takes_its_route_back_before_its_address_goes() {
    on_a_steady_machine(|| {
        let (_lan, a, _b, tor) = rack();
        let bird = Bird::running(&tor, &router(""));
        let agent = Agent::running(&a, KEDGE, &member(&a, "", &elected(250)));
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
        agent.signal(rustix::process::Signal::TERM);
        eventually("the route is gone", secs(3), || ways(&bird, VIP).is_empty());
        assert!(a.holds(VIP), "its address went first");
        eventually("then the address", secs(4), || !a.holds(VIP));
    });
}

#[test]
fn a_vip_that_is_given_away_says_so_first_and_is_handed_over_no_later() {
    on_a_steady_machine(|| {
        let (_lan, a, b, tor) = rack();
        let _here = answering(&a, &b);
        let bird = Bird::running(&tor, &watching());
        let yaml = |host: &Host, priority| {
            member(host, ", graceful_shutdown: 2s", &elected(priority))
                .replace("vrid: 51", "vrid: 51, advert_interval: 1s")
        };
        let first = Agent::running(&a, KEDGE, &yaml(&a, 250));
        eventually("the higher one holds it", secs(15), || a.holds(VIP));
        // With that priority it waits for a quarter of a second.
        let second = Agent::running(&b, KEDGE, &yaml(&b, 192));
        eventually("both have their sessions", secs(10), || {
            is_established(&first) && is_established(&second)
        });
        eventually("the lower one stands by", secs(15), || second.stands_by());
        eventually("the router knows the owner alone", secs(2), || {
            only(&bird, VIP, HOSTS[0])
        });
        let client = Client::start(&tor, VIP);
        let said = first.kedge("drain --yes");
        assert_eq!(said.code, 0, "{said:?}");
        let took = eventually("the router is told that it goes", secs(1), || {
            bird.log()
                .contains(&format!("GOES {VIP}/32 FROM {}", HOSTS[0]))
        });
        let handed = eventually("the next one holds it", secs(3), || b.holds(VIP));
        println!("  said after {took:?}, handed over {handed:?} later");
        eventually("the router knows the next one alone", secs(3), || {
            only(&bird, VIP, HOSTS[1])
        });
        throughout("and it stays there", millis(500), || {
            only(&bird, VIP, HOSTS[1])
        });
        client.end();
        assert!(!bird.log().contains(&format!("FROM {}", HOSTS[1])));
    });
}

#[test]
fn an_anycast_vip_that_is_drained_says_so_first_and_answers_until_then() {
    on_a_steady_machine(|| {
        let (_lan, a, b, tor) = rack();
        let _here = answering(&a, &b);
        let bird = Bird::running(&tor, &watching());
        let yaml = |host: &Host| {
            let vip = format!("api: {{addresses: [{ANYCAST}], via: [bgp], health: none}}");
            member(host, ", graceful_shutdown: 1s", &vip)
        };
        let first = Agent::running(&a, KEDGE, &yaml(&a));
        let _second = Agent::running(&b, KEDGE, &yaml(&b));
        eventually("both are told", secs(12), || {
            ways(&bird, ANYCAST).len() == 2
        });
        let client = Client::start(&tor, ANYCAST);
        let said = first.kedge("drain --yes");
        assert_eq!(said.code, 0, "{said:?}");
        eventually("the router is told that it goes", secs(1), || {
            bird.log()
                .contains(&format!("GOES {ANYCAST}/32 FROM {}", HOSTS[0]))
        });
        throughout("it is there meanwhile", millis(500), || {
            ways(&bird, ANYCAST).len() == 2 && stands(&a)
        });
        eventually("then its route goes", secs(2), || {
            only(&bird, ANYCAST, HOSTS[1])
        });
        assert!(stands(&a), "its address went first");
        eventually("then its address", secs(3), || !stands(&a));
        client.end();
    });
}
