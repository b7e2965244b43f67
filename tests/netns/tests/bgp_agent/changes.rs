//! A configuration or an executable that changes beneath a session.

use kedge_tests_netns::{
    agent::Agent, asked::Asked as _, bird::Bird, eventually, millis, on_a_steady_machine, secs,
    throughout,
};

use super::site::{
    HOSTS, KEDGE, VIP, elected, is_established, member, only, rack, router, session,
};

#[test]
fn a_reload_changes_one_neighbour_and_the_other_notices_nothing() {
    on_a_steady_machine(|| {
        let (lan, a, _b, tor) = rack();
        let bird = Bird::running(&tor, &router(""));
        let spare = lan.host("s", "10.20.14.2/24");
        let spare = Bird::running(
            &spare,
            "log stderr all;\nrouter id 10.20.14.2;\nprotocol device { }\nprotocol bgp host_a { local \
             10.20.14.2 as 65014; neighbor 10.20.14.11 as 65001; connect delay time 1; connect retry time 1; \
             ipv4 { import all; export none; }; }\n",
        );
        let yaml = |more: &str| member(&a, more, &elected(250));
        let agent = Agent::running(&a, KEDGE, &yaml(""));
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
        let names = || {
            let list = agent.kedge("bgp neighbors -o name");
            list.out.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        agent.configure(&yaml(
            "}, more: {address: 10.20.14.2, asn: 65014, connect_retry: 1s, med: 9",
        ));
        agent.reload();
        eventually("the other one is there", secs(10), || {
            let shown = agent.kedge("bgp neighbors more -o json");
            shown.code == 0 && shown.json()["state"] == "Established"
        });
        assert_eq!(names(), ["more", "tor"]);
        eventually("and told what is its own", secs(2), || {
            spare
                .birdc(&format!("show route {VIP}/32 all"))
                .contains("BGP.med: 9")
        });
        // What routes say changes within the session.
        agent.configure(&yaml(
            ", communities: ['65001:7']}, more: {address: 10.20.14.2, asn: 65014, connect_retry: 1s",
        ));
        agent.reload();
        eventually("the router hears it", secs(2), || {
            bird.birdc(&format!("show route {VIP}/32 all"))
                .contains("(65001,7)")
        });
        agent.configure(&yaml(""));
        agent.reload();
        eventually("the other one is gone", secs(3), || names() == ["tor"]);
        eventually("and was told so", secs(2), || {
            spare.log().contains("de-configured")
        });
        let tor = session(&agent);
        assert_eq!(
            (&tor["established"], &tor["lost"]),
            (&1.into(), &0.into()),
            "{tor}"
        );
        // A mistake leaves everything as it is.
        agent.configure(&yaml(", hold_time: 1s"));
        agent.reload();
        eventually("it is told", secs(3), || {
            agent.kedge("status -o json").out.contains("3s to 65535s")
        });
        assert_eq!(session(&agent)["established"], 1);
    });
}

#[test]
fn an_agent_that_is_replaced_in_place_calls_again_at_once_and_moves_nothing() {
    on_a_steady_machine(|| {
        let (_lan, a, b, tor) = rack();
        let bird = Bird::running(&tor, &router(""));
        let first = Agent::running(&a, KEDGE, &member(&a, "", &elected(250)));
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
        let second = Agent::running(&b, KEDGE, &member(&b, "", &elected(240)));
        eventually("the lower one stands by", secs(10), || second.stands_by());
        let _guardian = first.guardian();
        let said = first.kedge("restart");
        assert_eq!(said.code, 0, "{said:?}");
        let took = eventually("it is told again", secs(10), || {
            is_established(&first) && only(&bird, VIP, HOSTS[0])
        });
        println!("after {took:?}");
        throughout("it stays here", millis(500), || {
            a.holds(VIP) && !b.holds(VIP)
        });
        // Nobody kept the session of the agent before.
        assert_eq!(session(&first)["established"], 1);
    });
}
