use std::time::Duration;

use kedge_control::agent::HostConfig;
use kedge_core::vip::RouterState;

use super::*;
use crate::{
    config::{AgentConfig, tests::loaded},
    desired::{Claimed, plan},
    facts::Facts,
};

const YAML: &str = "bgp: {asn: 65001, router_id: 10.0.0.1, neighbors: {a: {address: 10.0.0.2, asn: 1}, \
                    b: {address: 10.0.0.3, asn: 1, export: [192.0.2.0/28]}}}\n";

fn planned(vips: &str) -> (AgentConfig, Desired) {
    let config = loaded(&format!("{YAML}vips: {{{vips}}}\n"));
    let manager: Option<&HostConfig> = None;
    let secrets = Secrets::default();
    let desired = plan(
        &config,
        manager,
        &Facts::default(),
        &Claimed::new(),
        &secrets,
    );
    (config, desired)
}

fn ownership(names: &[&str], states: &[RouterState]) -> Ownership {
    let mut ownership = Ownership::default();
    let spans = [Duration::from_secs(1); 2];
    for name in names {
        for state in states {
            ownership.moved(Instant::ZERO, &name.parse().unwrap(), *state, spans);
        }
    }
    ownership
}

#[test]
fn a_vip_is_told_of_exactly_while_it_is_owned() {
    use RouterState::{Active, Backup, Fault, Initialize, Releasing};

    let (_, desired) = planned(
        "api: {addresses: [192.0.2.10, '2001:db8::10'], via: [vrrp, bgp], bgp: {med: 7}}, \
         lan: {addresses: [192.0.2.20]}",
    );
    for state in [Initialize, Backup, Active, Releasing, Fault] {
        let ownership = ownership(&["api", "lan"], &[state]);
        let offers = offers(&owned(&desired, Instant::ZERO, &ownership));
        if state == Active {
            let told: Vec<String> = offers.keys().map(ToString::to_string).collect();
            assert_eq!(told, ["192.0.2.10/32", "2001:db8::10/128"]);
            assert!(
                offers
                    .values()
                    .all(|offer| offer.med == Some(7) && !offer.leaving)
            );
        } else {
            assert!(offers.is_empty(), "{state}");
        }
    }
    let nobody = Ownership::default();
    assert!(owned(&desired, Instant::ZERO, &nobody).is_empty());
    // One that is being given away is said to go.
    let goes = ownership(&["api"], &[Active, Releasing]);
    let told = offers(&owned(&desired, Instant::ZERO, &goes));
    assert_eq!(told.len(), 2);
    assert!(told.values().all(|offer| offer.leaving));
}

#[test]
fn a_neighbour_may_be_told_of_what_the_vip_and_its_list_allow() {
    let exports = |vips: &str| {
        let (config, desired) = planned(vips);
        let bgp = config.bgp.unwrap();
        let mut problems = Vec::new();
        let all = neighbors(&bgp, &desired, &Secrets::default(), &mut problems);
        assert!(problems.is_empty());
        let export = |spec: &BgpSpec| {
            let list = spec.config.policy.export.clone();
            list.map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        all.iter().map(export).collect::<Vec<_>>()
    };
    let own = |list: &[&str]| Some(list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    let all = exports("api: {addresses: [192.0.2.10], via: [bgp]}");
    assert_eq!(all, [None, own(&["192.0.2.0/28"])]);
    let some = exports(
        "api: {addresses: [192.0.2.10], via: [bgp], bgp: {neighbors: [b]}}, \
         far: {addresses: [192.0.2.99], via: [bgp], bgp: {neighbors: [a]}}, \
         lan: {addresses: [192.0.2.11], via: [vrrp, bgp]}",
    );
    // Each has what names it and what names nobody.
    let a = own(&["192.0.2.11/32", "192.0.2.99/32"]);
    let b = own(&["192.0.2.11/32", "192.0.2.10/32"]);
    assert_eq!(some, [a, b]);
    // What `b` does not export stays out, whoever names it.
    let far = exports("far: {addresses: [192.0.2.99], via: [bgp], bgp: {neighbors: [b]}}");
    assert_eq!(far, [own(&[]), own(&["192.0.2.0/28"])]);
}

#[test]
fn a_neighbour_whose_password_is_not_there_is_left_out_and_told() {
    let config = loaded(
        "bgp: {asn: 1, router_id: 10.0.0.1, neighbors: {tor: {address: 10.0.0.2, asn: 2, \
         password_file: /nowhere}}}\n",
    );
    let mut problems = Vec::new();
    let bgp = config.bgp.unwrap();
    let specs = neighbors(
        &bgp,
        &Desired::default(),
        &Secrets::default(),
        &mut problems,
    );
    assert!(specs.is_empty());
    assert_eq!(problems[0].object, "bgp/tor");
    assert_eq!(problems[0].code, kedge_core::Code::ConfigFileUnreadable);
}
