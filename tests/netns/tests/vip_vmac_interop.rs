//! The virtual hardware address beside other implementations that use it: neighbours notice nothing
//! of a move from the one to the other.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use kedge_core::vip::RouterState;
use kedge_net::link::sysctl;
use kedge_tests_netns::{
    client::{neighbor, send},
    eventually,
    frr::{self, Frr},
    keepalived::Keepalived,
    lan::{Host, Lan},
    on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
    vmac::{MAC, MAC_V6, holds, links},
};
use kedge_vip_speaker::VipSpec;

const VIP: &str = "10.20.14.10";
const VIP_V6: &str = "fd00:14::10";

fn ours(priority: u8, addresses: &[&str]) -> VipSpec {
    VipSpec {
        virtual_mac: true,
        addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        ..vip(51, priority, addresses.first().unwrap())
    }
}

fn keepalived(host: &Host, priority: u8, lines: &str) -> Keepalived {
    let config = format!(
        "global_defs {{\n  router_id {name}\n  vrrp_version 3\n}}\n\
         vrrp_instance vip {{\n  state BACKUP\n  interface eth0\n  virtual_router_id 51\n  \
         priority {priority}\n  advert_int 0.1\n  {lines}\n  \
         virtual_ipaddress {{\n    {VIP}/32\n  }}\n}}\n",
        name = host.name,
    );
    Keepalived::start_with(host, "keepalived", &config)
}

/// Whether our link is there, and down.
fn is_down(host: &Host) -> bool {
    let all = links(host);
    !all.is_empty() && all.iter().all(|(_, up)| !up)
}

/// Has the interface neither answer for what stands on a macvlan nor ask in its name: what Kedge
/// does by itself is theirs to be configured for.
fn settled(host: &Host) -> &Host {
    host.run(|| {
        sysctl("ipv4/conf/eth0/arp_ignore", "1").unwrap();
        sysctl("ipv4/conf/eth0/arp_announce", "2").unwrap();
    });
    host
}

#[test]
fn keepalived_with_use_vmac_and_kedge_succeed_each_other() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let client = lan.host("c", "10.20.14.13/24");
        let is_found = || {
            send(&client, VIP);
            neighbor(&client, VIP) == Some(MAC)
        };
        {
            let theirs = keepalived(settled(&b), 100, "use_vmac");
            eventually("keepalived holds it alone", secs(5), || holds(&b, VIP));
            eventually("a client finds it", secs(3), is_found);
            let kedge = Speaking::start(&a, ours(200, &[VIP]));
            kedge.becomes(RouterState::Active, secs(5));
            eventually("keepalived gives way", secs(2), || !holds(&b, VIP));
            throughout("it stays, and is where it was", secs(1), || {
                kedge.state() == RouterState::Active && neighbor(&client, VIP) == Some(MAC)
            });
            assert_eq!(theirs.transitions(), 3, "{}", theirs.log());
            let took = kedge.leave(secs(5));
            println!("we left in {took:?}");
            eventually("keepalived succeeds us", secs(2), || holds(&b, VIP));
            throughout("it is where it was", secs(1), || {
                neighbor(&client, VIP) == Some(MAC)
            });
        }
        let kedge = Speaking::start(&a, ours(100, &[VIP]));
        kedge.becomes(RouterState::Active, secs(5));
        let _theirs = keepalived(&b, 200, "use_vmac");
        eventually("keepalived takes it", secs(5), || holds(&b, VIP));
        kedge.becomes(RouterState::Backup, secs(2));
        eventually("our link is down", secs(1), || is_down(&a));
        assert!(!holds(&a, VIP));
        throughout("it stays, and is where it was", secs(1), || {
            kedge.state() == RouterState::Backup && neighbor(&client, VIP) == Some(MAC)
        });
        lan.unplug(&b);
        kedge.becomes(RouterState::Active, secs(1));
        eventually("a client finds it again", secs(1), is_found);
        let refused = kedge.refused();
        assert!(refused.is_empty(), "{refused:?}");
    });
}

/// Its macvlan is private, and takes every advert from the virtual hardware address for itself, while
/// it listens on the interface.
#[test]
fn keepalived_with_vmac_xmit_base_hears_a_kedge_that_advertises_from_its_own_address() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let plainly = |priority| VipSpec {
            virtual_mac: false,
            ..ours(priority, &[VIP])
        };
        let lines = "use_vmac\n  vmac_xmit_base";
        {
            let _theirs = keepalived(settled(&b), 100, lines);
            eventually("keepalived holds it alone", secs(5), || holds(&b, VIP));
            let kedge = Speaking::start(&a, plainly(200));
            kedge.becomes(RouterState::Active, secs(5));
            eventually("keepalived gives way", secs(2), || !holds(&b, VIP));
            kedge.leave(secs(5));
            eventually("keepalived succeeds us", secs(2), || holds(&b, VIP));
        }
        let kedge = Speaking::start(&a, plainly(100));
        kedge.becomes(RouterState::Active, secs(5));
        let _theirs = keepalived(&b, 200, lines);
        eventually("keepalived takes it", secs(5), || holds(&b, VIP));
        kedge.becomes(RouterState::Backup, secs(2));
    });
}

fn with_frr(vips: &'static [&'static str], mac: [u8; 6]) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    settled(&b);
    let client = lan.host("client", "10.20.14.99/24");
    for host in [&a, &b, &client] {
        host.add_ipv6();
    }
    let last = *vips.last().unwrap();
    let theirs = |priority| {
        let settings = frr::Settings {
            version: 3,
            vrid: 51,
            priority,
            interval: 100,
            vips,
        };
        Frr::start(&b, settings)
    };
    let is_found = || {
        send(&client, last);
        neighbor(&client, last) == Some(mac)
    };
    let frr = theirs(100);
    eventually("FRR holds it alone", secs(8), || frr.status(&b) == "Master");
    eventually("a client finds it", secs(3), is_found);
    let kedge = Speaking::start(&a, ours(200, vips));
    kedge.becomes(RouterState::Active, secs(5));
    eventually("FRR gives way", secs(2), || frr.status(&b) == "Backup");
    throughout("it stays, and is where it was", secs(1), || {
        kedge.state() == RouterState::Active && neighbor(&client, last) == Some(mac)
    });
    let took = kedge.leave(secs(5));
    println!("we left in {took:?}");
    eventually("FRR succeeds us", secs(2), || frr.status(&b) == "Master");
    throughout("it is where it was", secs(1), || {
        neighbor(&client, last) == Some(mac)
    });
    drop(frr);
    let kedge = Speaking::start(&a, ours(50, vips));
    kedge.becomes(RouterState::Active, secs(5));
    let frr = theirs(150);
    eventually("FRR takes it", secs(8), || frr.status(&b) == "Master");
    kedge.becomes(RouterState::Backup, secs(2));
    eventually("our link is down", secs(1), || is_down(&a));
    lan.unplug(&b);
    kedge.becomes(RouterState::Active, secs(1));
    eventually("a client finds it again", secs(1), is_found);
}

#[test]
fn frr_and_kedge_succeed_each_other() {
    on_a_steady_machine(|| with_frr(&[VIP], MAC));
}

#[test]
fn frr_and_kedge_succeed_each_other_over_ipv6() {
    on_a_steady_machine(|| with_frr(&["fe80::10", VIP_V6], MAC_V6));
}
