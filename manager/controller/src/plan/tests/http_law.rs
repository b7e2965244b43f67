//! Whatever happens to HTTPLoadBalancers: the plan is empty once it was carried out, no name is two
//! tenants', names stay while others come and go, and everything leads to its own tenant's pools.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use kedge_control::{
    frontend::{Offer, Protocol},
    site::Action,
};
use proptest::prelude::*;

use super::{http::*, world::*};
use crate::{
    cases,
    plan::plan,
    store::{Layers, Name, ObjectKey},
};

#[derive(Clone, Debug)]
enum Event {
    Ask(u8, BTreeSet<u8>, u8, u8),
    Pool(u8),
    Remove(u8),
    Tcp(u8),
    Allow(bool, u8),
    Serve(u8),
    Certify(u8),
    Limit(u8),
    Unreadable(bool),
}

const NAMES: [&str; 4] = ["api", "front", "shop", "web"];
const HOSTS: [&str; 5] = [
    "shop.example.com",
    "a.example.org",
    "*.example.org",
    "*.a.example.org",
    "x.a.example.org",
];
const TENANTS: [&str; 2] = [NS, "other"];

fn events() -> impl Strategy<Value = Vec<Event>> {
    let hosts = prop::collection::btree_set(0_u8..5, 0..4);
    let event = prop_oneof![
        5 => (0_u8..4, hosts, 0_u8..5, 0_u8..4)
            .prop_map(|(name, hosts, kind, own)| Event::Ask(name, hosts, kind, own)),
        1 => (0_u8..3).prop_map(Event::Pool),
        2 => (0_u8..4).prop_map(Event::Remove),
        1 => (0_u8..3).prop_map(Event::Tcp),
        1 => (any::<bool>(), 0_u8..3).prop_map(|(other, dns)| Event::Allow(other, dns)),
        1 => (0_u8..3).prop_map(Event::Serve),
        1 => (0_u8..2).prop_map(Event::Certify),
        1 => (0_u8..5).prop_map(Event::Limit),
        1 => any::<bool>().prop_map(Event::Unreadable),
    ];
    prop::collection::vec(event, 1..20)
}

const ALL: &str = "domain: lb.example.net, allowedHostnames: [shop.example.com, '*.example.org']";

fn happen(world: &mut World, event: &Event, pairs: &[crate::certificates::Pair]) {
    match event {
        Event::Ask(name, hosts, kind, own) => {
            let hosts: Vec<String> = hosts
                .iter()
                .map(|at| format!("'{}'", HOSTS[usize::from(*at)]))
                .collect();
            let rest = match kind {
                0 => "tls: [{secretRef: cert}], rules: [{backends: [{name: web, port: 80}]}]",
                1 => "tls: [{passthrough: true}], rules: [{backends: [{name: web, port: 80}]}]",
                2 => "rules: [{backends: [{name: web, port: 80}, {name: none, port: 80}]}]",
                3 => "rules: [{method: 'a b'}]",
                _ => "httpsRedirect: true, rules: [{redirect: {scheme: https}}]",
            };
            let own = [
                "",
                "address: {pool: edge-lan, sharedBy: shop/one}, ",
                "address: {pool: edge-lan, sharedBy: shop/two}, ",
                "address: {pool: edge-lan}, ",
            ][usize::from(*own)];
            let spec = format!("hostnames: [{}], {own}{rest}", hosts.join(", "));
            // Nobody gives a load balancer to another tenant.
            let tenant = TENANTS[usize::from(*name) % 2];
            world.ask_as(tenant, NAMES[usize::from(*name)], &spec);
        }
        // Who holds an address of the pool as well, so that it has none for everybody.
        Event::Pool(kind) => {
            let annotations = ["", "kedge.dev/vip-pool: edge-lan"][usize::from(*kind) % 2];
            let ports: Vec<String> = (0..5)
                .map(|at| format!("{{name: p{at}, port: {}}}", 7000 + at))
                .collect();
            for number in 0..*kind * 3 {
                let spec = format!(
                    "ports: [{}], endpoints: [{{hostSelector: {{}}}}]",
                    ports.join(", ")
                );
                world.offer(&format!("vip-{number}"), annotations, &spec);
            }
        }
        Event::Remove(name) => {
            let name = Name::new(NS, NAMES[usize::from(*name)]);
            let key = ObjectKey::new("kedge.dev", "HTTPLoadBalancer", name);
            if let Some(layers) = world.objects.by_key.get_mut(&key) {
                layers.user = None;
            }
        }
        Event::Tcp(kind) => {
            let spec = match kind {
                0 => {
                    "exposure: Routed, ports: [{name: http, port: 80}], endpoints: [{hostSelector: {}}]"
                }
                1 => "ports: [{name: http, port: 80}], endpoints: [{hostSelector: {}}]",
                _ => "exposure: Internal, ports: [{name: http, port: 80}]",
            };
            world.offer("web", "", spec);
        }
        Event::Allow(other, dns) => {
            let dns = [ALL, "domain: lb.example.net", "provider: None"][usize::from(*dns)];
            world.write(&tenant_of(TENANTS[usize::from(*other)], dns, ""));
        }
        Event::Serve(kind) => {
            let http = ["", ", http: {}", ", http: {port: 8080, tlsPort: 8080}"];
            world.write(&GATEWAY.replace(", http: {}", http[usize::from(*kind)]));
        }
        Event::Certify(at) => world.certify("cert", &pairs[usize::from(*at)]),
        Event::Limit(most) => {
            let limits = format!("loadBalancers: {most}");
            world.write(&tenant_of(NS, ALL, &limits));
        }
        Event::Unreadable(incomplete) => world.objects.incomplete = *incomplete,
    }
}

/// Whose each name is at each address of the gateway, and by which load balancers; none is two tenants', and none
/// leads to another's pools. No address but the gateway's is two tenants'.
fn owners(offer: &Offer) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let pools: BTreeSet<_> = offer
        .pools
        .iter()
        .map(|it| (&it.tenant, &it.name))
        .collect();
    assert_eq!(pools.len(), offer.pools.len(), "a pool is there twice");
    let mut owners: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    let mut tenants: BTreeMap<IpAddr, String> = BTreeMap::new();
    let mut own = |at: IpAddr, host: &String, tenant: &String, name: &str| {
        if at.to_string() != SHARED {
            let of = tenants.entry(at).or_insert_with(|| tenant.clone());
            assert_eq!(of, tenant, "{at} is two tenants'");
        }
        let (owner, by) = owners
            .entry(format!("{at} {host}"))
            .or_insert_with(|| (tenant.clone(), BTreeSet::new()));
        assert_eq!(owner, tenant, "{host} is two tenants'");
        by.insert(name.split('/').nth(1).unwrap().to_owned());
    };
    let mut passed = BTreeSet::new();
    for frontend in &offer.frontends {
        assert!(
            pools.contains(&(&frontend.tenant, &frontend.pool)),
            "{frontend:?}"
        );
        if let Protocol::TlsPassthrough { server_names } = &frontend.protocol {
            for host in server_names {
                own(frontend.address, host, &frontend.tenant, &frontend.name);
                passed.insert((frontend.address, host.clone()));
            }
        }
    }
    for site in &offer.sites {
        site.hosts
            .iter()
            .for_each(|host| own(site.address, host, &site.tenant, &site.name));
        let shown = site.certificates.iter().flat_map(|it| &it.hosts);
        for host in shown {
            assert!(site.hosts.contains(host), "{host}");
            let place = (site.address, host.clone());
            assert!(!passed.contains(&place), "{host} is passed through as well");
        }
        for route in &site.routes {
            assert!(
                route.hosts.iter().all(|host| site.hosts.contains(host)),
                "{route:?}"
            );
            let Action::Forward { backends, .. } = &route.action else {
                continue;
            };
            for backend in backends {
                let of_others = pools.iter().filter(|(tenant, _)| **tenant != site.tenant);
                assert!(
                    of_others
                        .map(|(_, pool)| pool)
                        .all(|pool| **pool != backend.pool),
                    "{backend:?}"
                );
            }
        }
    }
    owners
}

/// The address that each load balancer has of its own.
fn addresses(world: &World) -> BTreeMap<&'static str, IpAddr> {
    let of = |name: &&'static str| {
        let key = ObjectKey::new("kedge.dev", "HTTPLoadBalancer", Name::new(NS, *name));
        let layers = world.objects.by_key.get(&key)?;
        let ip = layers.status.as_ref()?.pointer("/status/address/ip")?;
        Some((*name, ip.as_str()?.parse().unwrap()))
    };
    NAMES.iter().filter_map(of).collect()
}

/// What the gateway has itself.
const SHARED: &str = "203.0.113.7";

proptest! {
    #![proptest_config(cases::usually(48))]

    #[test]
    fn a_name_is_one_tenants_and_stays_when_others_come_and_go(events in events()) {
        let pairs = [
            pair(&["shop.example.com", "*.example.org"]),
            pair(&["nobody.example.com"]),
        ];
        let mut world = ready();
        world.write(&tenant_of("other", ALL, ""));
        let mut before = owners(&served(&world.settle()));
        for event in &events {
            world.later(1);
            let had = addresses(&world);
            happen(&mut world, event, &pairs);
            // `settle` asserts the law.
            let now = owners(&served(&world.settle()));
            for (name, address) in addresses(&world) {
                let is_its = matches!(event, Event::Ask(at, ..) if NAMES[usize::from(*at)] == name);
                let stays = had.get(name).is_none_or(|had| *had == address);
                prop_assert!(is_its || stays, "{} moved to {} by {:?}", name, address, event);
            }
            let its = match event {
                Event::Ask(name, ..) | Event::Remove(name) => Some(NAMES[usize::from(*name)]),
                Event::Certify(_) | Event::Limit(_) | Event::Tcp(_) | Event::Pool(_) => None,
                // A gateway and a list of names are an admin's to change.
                _ => {
                    before = now;
                    continue;
                }
            };
            for (host, (owner, by)) in &before {
                // Whoever has it by itself may give it up.
                let stays = by.iter().any(|name| Some(name.as_str()) != its);
                let is_same = now.get(host).is_none_or(|(now, _)| now == owner);
                prop_assert!(!stays || is_same, "{} moved by {:?}", host, event);
            }
            before = now;
        }
    }

    #[test]
    fn the_order_of_documents_decides_nothing(events in events()) {
        let pairs = [pair(&["shop.example.com"]), pair(&["nobody.example.com"])];
        let offers = [false, true].map(|reversed| {
            let mut world = ready();
            world.write(&tenant_of("other", ALL, ""));
            let mut last: BTreeMap<u8, &Event> = BTreeMap::new();
            for event in &events {
                if let Event::Ask(name, ..) = event {
                    last.insert(*name, event);
                }
            }
            let mut order: Vec<_> = last.into_values().collect();
            if reversed {
                order.reverse();
            }
            happen(&mut world, &Event::Certify(0), &pairs);
            order.into_iter().for_each(|event| happen(&mut world, event, &pairs));
            let snapshot = world.snapshot();
            let plan = plan(&snapshot);
            served(&plan)
        });
        prop_assert_eq!(&offers[0], &offers[1]);
    }
}

/// Layers are needed for what is not asked for any more as well.
#[test]
fn nothing_is_left_of_what_is_gone() {
    let mut world = ready();
    world.ask("front", RULE);
    world.settle();
    world.remove("kedge.dev", "HTTPLoadBalancer", "front");
    world.settle();
    let key = ObjectKey::new("kedge.dev", "HTTPLoadBalancer", Name::new(NS, "front"));
    let left = world.objects.get(&key).cloned().unwrap_or_default();
    assert_eq!(left, Layers::default());
}
