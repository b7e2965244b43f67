//! BGP against a real FRR, each in a network namespace of its own.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use kedge_core::bgp::SessionState;
use kedge_tests_netns::{
    bgpd::Bgpd, eventually, lan::Lan, millis, ready, secs, throughout, tor::spec,
};
use kedge_vip_speaker::bgp::{Bgp, Offer, Offers, PORT, Text};

#[test]
fn frr_learns_routes_what_they_say_and_that_they_are_gone_over_both_families() {
    if !ready() {
        return;
    }
    for [near, far] in [["10.20.14.11", "10.20.14.12"], ["fd00:14::b", "fd00:14::c"]] {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        a.add_address("fd00:14::b/64");
        b.add_address("fd00:14::c/64");
        let bgpd = Bgpd::running(
            &b,
            &format!(
                "router bgp 65014\n bgp router-id 10.20.14.12\n no bgp ebgp-requires-policy\n no bgp \
                 network import-check\n neighbor {near} remote-as 65001\n neighbor {near} timers connect 1\n \
                 address-family ipv4 unicast\n  network 203.0.113.0/24\n  neighbor {near} activate\n \
                 exit-address-family\n address-family ipv6 unicast\n  neighbor {near} activate\n \
                 exit-address-family\n"
            ),
        );
        let spec = spec(far);
        let rich = Offer {
            med: Some(7),
            prepend: 2,
            communities: vec!["65001:7".parse().unwrap()],
            large: vec!["65001:1:2".parse().unwrap()],
            ..Offer::default()
        };
        let mut offers = Offers::new();
        offers.insert("192.0.2.10".parse().unwrap(), Offer::default());
        offers.insert("192.0.2.11".parse().unwrap(), rich);
        let all = offers.clone();
        let mut bgp = a.run(move || {
            let mut bgp = Bgp::new(PORT);
            bgp.offer(all);
            bgp.apply(vec![spec]);
            bgp
        });
        let view = |bgp: &Bgp| bgp.snapshot().first().map(|it| it.view.clone());
        let is_established =
            |bgp: &Bgp| view(bgp).is_some_and(|it| it.state == SessionState::Established);
        eventually("established", secs(15), || is_established(&bgp));
        let route = |address: &str| bgpd.vtysh(&format!("show bgp ipv4 unicast {address}/32"));
        eventually("its routes are there", secs(5), || {
            route("192.0.2.11").contains("65001 65001 65001")
        });
        let said = route("192.0.2.11");
        for part in [
            "metric 7",
            "Community: 65001:7",
            "Large Community: 65001:1:2",
            "10.20.14.11",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        eventually("its route is heard", secs(5), || {
            bgp.snapshot()[0]
                .heard
                .iter()
                .any(|it| it.prefix.to_string() == "203.0.113.0/24")
        });
        // It asks for all of them again.
        let _ = bgpd.vtysh(&format!("clear bgp ipv4 unicast {near} soft in"));
        eventually("asked for again", secs(3), || {
            view(&bgp).unwrap().counts.refreshes > 0
        });
        throughout("nothing is lost of it", millis(300), || {
            is_established(&bgp)
        });
        offers.remove(&"192.0.2.11".parse().unwrap());
        bgp.offer(offers);
        let took = eventually("taken back", secs(2), || {
            !route("192.0.2.11").contains("65001")
        });
        assert!(took < secs(1), "{took:?}");
        assert!(route("192.0.2.10").contains("65001"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(bgp.shutdown(Text::new("rack moves"), secs(3)));
        eventually("everything is gone", secs(2), || {
            !route("192.0.2.10").contains("65001")
        });
        let said = bgpd.vtysh(&format!("show bgp neighbors {near}"));
        // As a hard reset, as FRR would keep routes over a plain one (RFC 8538).
        let reason = "Notification received (Cease/Administrative Shutdown/Hard Reset)";
        assert!(said.contains(reason), "{said}");
    }
}
