use super::*;
use crate::{
    link::Links,
    netns::{Lease as Naming, Namespace, tests::root},
};

fn fence(leases: Vec<Lease>) -> Fence {
    Fence {
        interface: "lan0".to_owned(),
        ifindex: 7,
        leases,
    }
}

fn lease(vrid: u8, address: &str) -> Lease {
    let address: IpAddr = address.parse().unwrap();
    Lease {
        vrid,
        family: if address.is_ipv6() {
            Family::V6
        } else {
            Family::V4
        },
        lasts: Duration::from_millis(300),
        addresses: vec![address],
        accept: true,
        virtual_mac: None,
    }
}

#[test]
fn what_stays_is_not_taken_down_and_what_went_is() {
    let old = fence(vec![lease(51, "10.0.0.10"), lease(52, "10.0.0.20")]);
    let first = old.ruleset(None).unwrap();
    assert!(
        first.contains("delete table netdev kedge_vip_7\n"),
        "{first}"
    );
    let new = fence(vec![lease(51, "10.0.0.10")]);
    let change = new.ruleset(Some(&old)).unwrap();
    assert!(!change.contains("delete table"), "{change}");
    assert!(change.contains("delete set netdev kedge_vip_7 lease4_52"));
    assert!(!change.contains("delete set netdev kedge_vip_7 lease4_51"));
    let renamed = Fence {
        interface: "lan1".to_owned(),
        ..new.clone()
    };
    let moved = renamed.ruleset(Some(&new)).unwrap();
    assert!(
        moved.contains("delete table"),
        "a chain keeps the name it was made with: {moved}"
    );
}

#[test]
fn a_name_that_would_be_a_statement_is_refused() {
    for name in ["", "a\"; flush ruleset", "a b", "a\n"] {
        let bad = Fence {
            interface: name.to_owned(),
            ..fence(Vec::new())
        };
        assert!(
            matches!(bad.ruleset(None), Err(FenceError::Name(_))),
            "{name:?}"
        );
    }
}

#[test]
fn a_virtual_hardware_address_is_fenced_and_the_interface_is_silent_about_it() {
    let own = [10, 0, 0, 1].into();
    let mac = VirtualMac {
        v4: [0, 0, 0x5e, 0, 1, 51],
        v6: [0, 0, 0x5e, 0, 2, 51],
        asks: Some(own),
    };
    let virtually = |asks| Lease {
        virtual_mac: Some(VirtualMac { asks, ..mac }),
        ..lease(51, "10.0.0.10")
    };
    let text = fence(vec![virtually(Some(own))]).ruleset(None).unwrap();
    let of = "arp saddr ip 10.0.0.10 arp saddr ether != 00:00:5e:00:01:33";
    for rule in [
        "egress ether saddr 00:00:5e:00:01:33 oif != @lease4_51 counter drop".to_owned(),
        "ingress ether daddr 00:00:5e:00:02:33 iif != @lease4_51 counter drop".to_owned(),
        format!("egress arp operation reply {of} counter drop"),
        format!("egress arp operation request {of} arp saddr ip set 10.0.0.1"),
    ] {
        assert!(text.contains(&rule), "{rule}: {text}");
    }
    // Its own advert renews the lease before the rules that need it.
    assert!(text.find("update @lease4_51") < text.find("ether saddr"));
    let text = fence(vec![virtually(None)]).ruleset(None).unwrap();
    assert!(
        !text.contains("arp operation request arp saddr ip 10.0.0.10"),
        "{text}"
    );
    let text = fence(vec![lease(51, "10.0.0.10")]).ruleset(None).unwrap();
    assert!(!text.contains("ether"), "{text}");
}

#[test]
fn a_fence_is_changed_in_place_and_taken_down() {
    if !root() {
        return;
    }
    let naming = Naming::take().unwrap();
    let host = Namespace::create(&naming.namespace("fence")).unwrap();
    host.run(|| {
        Links::open().unwrap().bridge("lan0").unwrap();
        let ifindex = Links::open().unwrap().index("lan0").unwrap();
        let here = |leases| Fence {
            ifindex,
            ..fence(leases)
        };
        let watch = TableWatch::open().unwrap();
        let both = here(vec![lease(51, "10.0.0.10"), lease(51, "fd00::10")]);
        both.install(None).unwrap();
        both.install(Some(&both)).unwrap();
        assert_eq!(standing().unwrap(), [ifindex]);
        assert!(!watch.removed().unwrap() || standing().unwrap() == [ifindex]);
        let one = here(vec![lease(51, "10.0.0.10")]);
        let mut closed = both.clone();
        for lease in &mut closed.leases {
            lease.accept = false;
        }
        closed.install(Some(&both)).unwrap();
        one.install(Some(&closed)).unwrap();
        let rules = std::process::Command::new("nft")
            .args(["list", "ruleset"])
            .output()
            .unwrap();
        let rules = String::from_utf8_lossy(&rules.stdout).into_owned();
        assert!(
            rules.contains("lease4_51") && !rules.contains("lease6_51"),
            "{rules}"
        );
        assert!(rules.contains("arp saddr ip 10.0.0.10"), "{rules}");
        // Somebody else clears the ruleset, as firewalls do when they are reloaded.
        nft::apply_text("flush ruleset\n").unwrap();
        assert!(watch.removed().unwrap(), "a removed table is told");
        assert!(standing().unwrap().is_empty());
        one.install(None).unwrap();
        one.remove().unwrap();
        one.remove().unwrap();
        one.install(None).unwrap();
        remove_all().unwrap();
        assert!(standing().unwrap().is_empty());
        let nowhere = Fence {
            interface: "nowhere".to_owned(),
            ..one
        };
        let refused = nowhere.install(None).unwrap_err().problem();
        assert_eq!(refused.code, Code::VipFenceWeak);
    })
    .unwrap();
}
