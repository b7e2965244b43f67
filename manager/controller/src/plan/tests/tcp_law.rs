//! Whatever happens to TCPLoadBalancers: the plan is empty once it was carried out, no two have one
//! place, and ports stay while others come and go.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::world::*;
use crate::{cases, snapshot::Hearing};

#[derive(Clone, Debug)]
enum Event {
    Offer(u8, u8, u8, bool),
    Refuse(u8),
    Remove(u8),
    Hear(u8, bool),
    Limit(u8),
    Balancer(u8),
    Access(u8, bool),
    Expose(u8, u8),
    Unreadable(bool),
    Later(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0_u8..5, 0_u8..4, 0_u8..8, any::<bool>())
            .prop_map(|(name, port, kind, two)| Event::Offer(name, port, kind, two)),
        1 => (0_u8..5).prop_map(Event::Refuse),
        2 => (0_u8..5).prop_map(Event::Remove),
        1 => (0_u8..2, any::<bool>()).prop_map(|(host, alive)| Event::Hear(host, alive)),
        1 => (0_u8..5).prop_map(Event::Limit),
        1 => (0_u8..3).prop_map(Event::Balancer),
        1 => (0_u8..2, any::<bool>()).prop_map(|(host, out)| Event::Access(host, out)),
        1 => (0_u8..2, 0_u8..5).prop_map(|(host, name)| Event::Expose(host, name)),
        1 => any::<bool>().prop_map(Event::Unreadable),
        2 => (0_u8..90).prop_map(Event::Later),
    ];
    prop::collection::vec(event, 1..24)
}

const NAMES: [&str; 5] = ["api", "dns", "mail", "web", "zip"];
const PORTS: [u16; 4] = [53, 80, 443, 30_001];
const HOSTS: [&str; 2] = ["edge-a", "edge-b"];

fn happen(world: &mut World, event: &Event) {
    match event {
        Event::Offer(name, port, kind, two) => {
            let port = PORTS[usize::from(*port)];
            let protocol = if kind % 4 == 1 { "UDP" } else { "TCP" };
            let annotations = match kind {
                2 => "kedge.dev/listener-ports: Hashed",
                3 => "kedge.dev/vip-pool: edge-lan",
                _ => "",
            };
            let second = match two {
                true => ", {name: q, port: 8080}",
                false => "",
            };
            let address = match kind {
                5 => ", address: {pool: edge-lan, ip: 10.20.14.15}",
                6 => ", address: {pool: edge-lan}",
                _ => "",
            };
            let spec = format!(
                "ports: [{{name: p, port: {port}, protocol: {protocol}}}{second}], \
                 endpoints: [{{hostSelector: {{}}}}]{address}"
            );
            world.offer(NAMES[usize::from(*name)], annotations, &spec);
        }
        Event::Refuse(name) => {
            let spec = "ports: [{name: p, port: 80}], exposure: Internal";
            world.offer(NAMES[usize::from(*name)], "", spec);
        }
        Event::Remove(name) => {
            let key = crate::store::ObjectKey::new(
                "kedge.dev",
                "TCPLoadBalancer",
                crate::store::Name::new(NS, NAMES[usize::from(*name)]),
            );
            if let Some(layers) = world.objects.by_key.get_mut(&key) {
                layers.user = None;
            }
        }
        Event::Hear(host, alive) => {
            let hearing = if *alive { Hearing::Alive } else { Hearing::Silent };
            world.hearing(HOSTS[usize::from(*host)], hearing);
        }
        Event::Limit(most) => world.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {NS}}}\n\
             spec: {{namespace: {NS}, gatewayRef: {{name: gw}}, limits: {{loadBalancers: {most}, ports: {most}}}}}\n"
        )),
        Event::Balancer(number) => world.write(&cluster(
            &format!("c{number}"),
            "kedge.dev/endpoint-mode: Tunnel, kedge.dev/gateway: gw",
            "",
        )),
        Event::Access(host, out) => {
            world.access(HOSTS[usize::from(*host)], if *out { "Suspended" } else { "Active" });
        }
        Event::Expose(host, name) => {
            let host = HOSTS[usize::from(*host)];
            if world.is_served(host) {
                world.expose(host, NAMES[usize::from(*name)]);
            }
        }
        Event::Unreadable(incomplete) => world.objects.incomplete = *incomplete,
        Event::Later(seconds) => world.later(i64::from(*seconds)),
    }
}

/// The places of everything a gateway serves, by protocol, address and port; none is there twice.
fn places(plan: &crate::plan::Plan) -> BTreeMap<String, (String, u16)> {
    let config = plan.gateways.values().next().unwrap();
    let mut taken = BTreeSet::new();
    let mut by_name = BTreeMap::new();
    for listener in &config.listeners {
        let place = ("TCP", listener.address, listener.port);
        assert!(taken.insert(place), "{place:?} twice");
    }
    for frontend in &config.offer.frontends {
        let protocol = match frontend.protocol {
            kedge_control::frontend::Protocol::Udp => "UDP",
            _ => "TCP",
        };
        let place = (protocol, frontend.address, frontend.port.get());
        assert!(
            taken.insert(place),
            "{place:?} twice, for {}",
            frontend.name
        );
        let at = format!("{protocol} {}", frontend.address);
        by_name.insert(frontend.name.clone(), (at, frontend.port.get()));
    }
    by_name
}

proptest! {
    #![proptest_config(cases::usually(48))]

    #[test]
    fn no_place_is_given_twice_and_ports_stay_when_others_come_and_go(
        events in events(), kubernetes in any::<bool>()
    ) {
        let mut world = if kubernetes { site().on_kubernetes() } else { site() };
        world.enrol_gateway("gw-0");
        HOSTS.into_iter().for_each(|host| world.enrol(host));
        let mut before = places(&world.settle());
        for event in &events {
            world.later(1);
            happen(&mut world, event);
            // `settle` asserts the law.
            let now = places(&world.settle());
            let of = match event {
                Event::Offer(name, ..) | Event::Refuse(name) | Event::Remove(name)
                | Event::Expose(_, name) => {
                    Some(format!("{NS}/{}/", NAMES[usize::from(*name)]))
                }
                _ => None,
            };
            for (name, place) in &before {
                let is_of_it = of.as_ref().is_some_and(|of| name.starts_with(of));
                if let Some(stands) = now.get(name).filter(|_| !is_of_it) {
                    prop_assert_eq!(stands, place, "{} moved by {:?}", name, event);
                }
                // Only who is changed, or said by a host that is out, loses its place.
                let may_go = is_of_it || matches!(event, Event::Access(..) | Event::Unreadable(_));
                prop_assert!(may_go || now.contains_key(name), "{} went by {:?}", name, event);
            }
            before = now;
        }
    }
}
