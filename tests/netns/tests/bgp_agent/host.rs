//! What else is on the host: another daemon, its kernel, its secrets.

use std::fs;

use kedge_tests_netns::{
    agent::Agent, asked::Asked as _, bird::Bird, eventually, on_a_steady_machine, secs, throughout,
};

use super::site::{HOSTS, KEDGE, ROUTER, VIP, elected, member, only, rack, router, session, ways};

/// This kernel has no TCP-AO, so what can be seen is the refusal, and that nothing goes unsigned.
#[test]
fn a_kernel_without_tcp_ao_is_told_and_nobody_is_spoken_to_unsigned() {
    on_a_steady_machine(|| {
        let (_lan, a, _b, tor) = rack();
        let bird = Bird::running(&tor, &router(""));
        let ao = ", tcp_ao: {key_file: /etc/kedge/tor, send_id: 1, receive_id: 2}";
        let mut agent = Agent::new(&a, KEDGE, &member(&a, ao, &elected(250)));
        fs::write(agent.root().join("etc/kedge/tor"), "open-sesame\n").unwrap();
        agent.start();
        eventually("the kernel's answer is told", secs(10), || {
            let status = agent.kedge("status -o json").json()["problems"].to_string();
            status.contains("KEDGE-BGP-0009") && status.contains("this kernel has no TCP-AO")
        });
        let because = session(&agent)["because"].to_string();
        assert!(because.contains("cannot be signed"), "{because}");
        // BIRD calls every second, and signs nothing.
        throughout("there is no session", secs(4), || {
            ways(&bird, VIP).is_empty() && session(&agent)["established"] == 0
        });
        let said = agent.kedge("explain KEDGE-BGP-0009");
        assert!(said.out.contains("CONFIG_TCP_AO"), "{said:?}");
        // Without it they speak.
        agent.configure(&member(&a, "", &elected(250)));
        agent.reload();
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
    });
}

#[test]
fn a_daemon_of_the_host_announces_what_stands_in_the_table() {
    on_a_steady_machine(|| {
        let (_lan, a, _b, tor) = rack();
        let bird = Bird::running(&tor, &router(""));
        let _daemon = Bird::running(
            &a,
            &format!(
                "log stderr all;\nrouter id 10.20.14.11;\nprotocol device {{ scan time 1; }}\nipv4 table \
                 vips;\nprotocol kernel {{ kernel table 107; learn; scan time 1; ipv4 {{ table vips; import \
                 all; export none; }}; }}\nprotocol bgp up {{ local 10.20.14.11 as 65001; neighbor {ROUTER} \
                 as 65014; connect delay time 1; connect retry time 1; ipv4 {{ table vips; import none; \
                 export all; }}; }}\n"
            ),
        );
        let agent = Agent::running(
            &a,
            KEDGE,
            &format!(
                "bgp: {{mode: route_table_only}}\nvips: {{{}}}\n",
                elected(250)
            ),
        );
        eventually("it is told", secs(15), || only(&bird, VIP, HOSTS[0]));
        let shown = agent.kedge("bgp summary");
        assert!(shown.out.contains(&format!("{VIP}/32")), "{shown:?}");
        agent.signal(rustix::process::Signal::TERM);
        eventually("it is not told any more", secs(5), || {
            ways(&bird, VIP).is_empty()
        });
    });
}

#[test]
fn a_port_that_is_taken_is_told_with_who_has_it() {
    on_a_steady_machine(|| {
        let (_lan, a, _b, tor) = rack();
        let bird = Bird::running(&tor, &router("passive;"));
        let _other = Bird::running(
            &a,
            "log stderr all;\nrouter id 10.20.14.11;\nprotocol device { }\nprotocol bgp taken { local as \
             65099; neighbor 10.20.14.99 as 65098; passive; ipv4 { import none; export none; }; }\n",
        );
        let agent = Agent::running(&a, KEDGE, &member(&a, "", &elected(250)));
        eventually("it is told all the same", secs(12), || {
            only(&bird, VIP, HOSTS[0])
        });
        eventually("who has the port is named", secs(5), || {
            let status = agent.kedge("status -o json").json()["problems"].to_string();
            status.contains("KEDGE-BGP-0001") && status.contains("it is that of bird (process ")
        });
    });
}

#[test]
fn a_password_is_used_and_told_to_nobody() {
    on_a_steady_machine(|| {
        let (_lan, a, _b, tor) = rack();
        let bird = Bird::running(&tor, &router("password \"open-sesame\";"));
        let mut agent = Agent::new(
            &a,
            KEDGE,
            &member(&a, ", password_file: /etc/kedge/tor", &elected(250)),
        );
        agent.start();
        let status = agent.kedge("status");
        assert!(
            status.out.contains("no password can be read from"),
            "{status:?}"
        );
        assert!(session(&agent).is_null(), "nobody is called without it");
        fs::write(agent.root().join("etc/kedge/tor"), "open-sesame\n").unwrap();
        agent.reload();
        eventually("it is told", secs(12), || only(&bird, VIP, HOSTS[0]));
        for line in [
            "status -o json",
            "bgp neighbors",
            "bgp neighbors -o json",
            "config view",
        ] {
            assert!(!agent.kedge(line).out.contains("sesame"), "{line}");
        }
        assert!(!agent.log().contains("sesame"));
        assert_eq!(session(&agent)["password"], true);
    });
}
