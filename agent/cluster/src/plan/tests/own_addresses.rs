//! Gateways with addresses of their own, and the routes that are attached to them.

use std::{collections::BTreeSet, net::IpAddr};

use kedge_crd::{HttpLoadBalancerSpec, Status};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    routes::{gateway, read, route, said, world},
    world::{NOW, World},
};
use crate::{gateway_api::Gateway, names::start, plan::owner::Owner, snapshot::Key};

const POOL: &str = "kedge.dev/vip-pool";

fn named(name: &str, pool: Option<&str>) -> Gateway {
    let annotations = pool.map(|pool| json!({POOL: pool}));
    gateway(
        json!({"metadata": {"name": name, "uid": format!("{name}000000-1"),
        "annotations": annotations}}),
    )
}

/// One that names addresses.
fn naming(name: &str, pool: Option<&str>, addresses: Value) -> Gateway {
    let mut gateway = named(name, pool);
    gateway.spec.addresses = read(addresses);
    gateway
}

/// A manager that gives each Gateway an address, the one it names if that is from 192.0.2.0/24, and none of
/// the pool `empty`.
fn gives(spec: &HttpLoadBalancerSpec) -> Option<Value> {
    let Some(asked) = &spec.address else {
        return super::ingresses::served(spec);
    };
    let is_from = |ip: IpAddr| ip.to_string().starts_with("192.0.2.");
    let given = asked.pool != "empty" && asked.ip.is_none_or(is_from);
    let status = if given { Status::True } else { Status::False };
    let reason = if given { "Accepted" } else { "PoolExhausted" };
    let accepted = json!({"type": "Accepted", "status": status, "reason": reason,
        "message": if given { "" } else { "0 of 1 are free" }, "lastTransitionTime": NOW});
    let last = asked.shared_by.len();
    let named = asked.ip.map(|ip| ip.to_string());
    let ip = named.unwrap_or_else(|| format!("203.0.113.{last}"));
    let address = json!({"ip": ip, "pool": asked.pool, "sharedBy": asked.shared_by});
    let ingress = json!([{"ip": ip, "ports": [{"port": 80}]}]);
    Some(match (given, spec.rules.is_empty()) {
        (false, _) => json!({"conditions": [accepted]}),
        (true, true) => json!({"address": address, "conditions": [accepted]}),
        (true, false) => {
            json!({"address": address, "ingress": ingress, "conditions": [accepted]})
        }
    })
}

fn ready(all: impl IntoIterator<Item = Gateway>, routes: &[(&str, &[&str])]) -> World {
    let routes = routes.iter().map(|(name, parents)| {
        let parents: Vec<Value> = parents.iter().map(|name| json!({"name": name})).collect();
        route(name, json!({"spec": {"parentRefs": parents}}))
    });
    let mut world = world(gateway(json!({})), routes);
    world.serves = gives;
    for gateway in all {
        world.api().gateways.insert(Key::of(&gateway), gateway);
    }
    world.settle();
    world
}

fn status(world: &World, name: &str) -> Value {
    let api = world.snapshot.gateway.as_ref().unwrap();
    api.gateways[&Key::new("shop", name)].status.clone()
}

fn accepted(world: &World, name: &str) -> Vec<String> {
    let api = world.snapshot.gateway.as_ref().unwrap();
    let route = &api.routes[&Key::new("shop", name)];
    let parents = route.status["parents"].as_array().unwrap().iter();
    parents.map(|it| said(it, "Accepted")).collect()
}

fn patch(world: &mut World, name: &str, parents: Value) {
    let key = Key::new("shop", name);
    let held = world.api().routes[&key].metadata.finalizers.clone();
    let changes = json!({"metadata": {"finalizers": held}, "spec": {"parentRefs": parents}});
    let before = world.api().routes[&key].status.clone();
    let mut changed = route(name, changes);
    changed.status = before;
    world.api().routes.insert(key, changed);
}

#[test]
fn a_gateway_has_an_address_before_any_route_does() {
    let world = ready([named("edge", Some("public"))], &[]);
    assert_eq!(world.routed(), ["edge.shop.edge0000"]);
    let spec = world.route("edge");
    assert_eq!(
        spec,
        json!({"source": {"kind": "Gateway", "namespace": "shop", "name": "edge", "uid": "edge000000-1"},
            "address": {"pool": "public", "sharedBy": "shop/edge"},
            "listeners": [{"protocol": "HTTP", "port": 80}]})
    );
    let told = status(&world, "edge");
    let address = json!([{"type": "IPAddress", "value": "203.0.113.9"}]);
    assert_eq!(told["addresses"], address);
    assert_eq!(said(&told, "Programmed"), "True Programmed");
    // One that does not ask for it has the shared one.
    let shared = json!([{"type": "IPAddress", "value": "203.0.113.7"}]);
    assert_eq!(status(&world, "gw")["addresses"], shared);
}

#[test]
fn a_gateway_may_name_one_of_the_pools_addresses() {
    let one = naming("edge", Some("public"), json!([{"value": "192.0.2.9"}]));
    let mut world = ready([one], &[("shop", &["edge"])]);
    let address = json!({"pool": "public", "sharedBy": "shop/edge", "ip": "192.0.2.9"});
    assert_eq!(world.route("edge")["address"], address);
    assert_eq!(world.route("shop")["address"], address);
    let told = status(&world, "edge");
    let shown = json!([{"type": "IPAddress", "value": "192.0.2.9"}]);
    assert_eq!(told["addresses"], shown);
    assert_eq!(said(&told, "Programmed"), "True Programmed");
    // It moves to another one, and lacks what it cannot have.
    for (named, programmed, shown) in [
        (
            json!([{"value": "192.0.2.10"}]),
            "True Programmed",
            vec!["192.0.2.10"],
        ),
        (
            json!([{"value": "198.51.100.1"}]),
            "False AddressNotUsable",
            vec![],
        ),
        (
            json!([{"value": "192.0.2.9"}, {"value": "192.0.2.10"}]),
            "False AddressNotUsable",
            vec!["192.0.2.9"],
        ),
        (
            json!([{"type": "IPAddress"}]),
            "True Programmed",
            vec!["203.0.113.9"],
        ),
    ] {
        let key = Key::new("shop", "edge");
        world.api().gateways.get_mut(&key).unwrap().spec.addresses = read(named.clone());
        world.settle();
        let told = status(&world, "edge");
        assert_eq!(said(&told, "Programmed"), programmed, "{named}");
        let all = told["addresses"].as_array().unwrap().iter();
        let all: Vec<&str> = all.map(|it| it["value"].as_str().unwrap()).collect();
        assert_eq!(all, shown, "{named}");
    }
}

#[test]
fn at_its_own_address_it_listens_at_whichever_port() {
    let listeners = json!([{"name": "a", "port": 80, "protocol": "HTTP"},
        {"name": "b", "port": 8080, "protocol": "HTTP", "hostname": "shop.example.net"}]);
    let mut gateways = [named("edge", Some("public")), named("shared", None)];
    for gateway in &mut gateways {
        gateway.spec.listeners = read(listeners.clone());
    }
    let world = ready(gateways, &[("shop", &["edge", "shared"])]);
    let asked = json!([{"protocol": "HTTP", "port": 80}, {"protocol": "HTTP", "port": 8080}]);
    assert_eq!(world.route("edge")["listeners"], asked);
    let offered = world.snapshot.offered.clone().unwrap();
    let of =
        |name: &str| serde_json::to_value(&offered.http[name].spec).unwrap()["listeners"].clone();
    assert_eq!(of("shop.shop.shop7777.edge0000"), asked);
    assert_eq!(of("shop.shop.shop7777"), json!([{"protocol": "HTTP"}]));
    for (name, accepted) in [
        ("edge", "True Accepted"),
        ("shared", "False PortUnavailable"),
    ] {
        let told = status(&world, name);
        assert_eq!(said(&told["listeners"][1], "Accepted"), accepted, "{name}");
    }
}

#[test]
fn a_listener_for_some_names_takes_none_from_one_for_all() {
    let listeners = json!([{"name": "a", "port": 80, "protocol": "HTTP"},
        {"name": "b", "port": 8080, "protocol": "HTTP", "hostname": "shop.example.net"}]);
    let mut gateway = named("edge", Some("public"));
    gateway.spec.listeners = read(listeners);
    let mut world = ready([gateway], &[("shop", &["edge"])]);
    let key = Key::new("shop", "shop");
    let of = |world: &World| {
        let offered = world.snapshot.offered.clone().unwrap();
        let spec = serde_json::to_value(&offered.http["shop.shop.shop7777.edge0000"].spec).unwrap();
        ["hostnames", "otherHostnames", "listeners"].map(|field| spec[field].clone())
    };
    let names = json!(["shop.example.net"]);
    let both = json!([{"protocol": "HTTP", "port": 80}, {"protocol": "HTTP", "port": 8080}]);
    assert_eq!(of(&world), [names.clone(), Value::Null, both]);
    world
        .api()
        .routes
        .get_mut(&key)
        .unwrap()
        .spec
        .hostnames
        .clear();
    world.settle();
    // The listener's name there, and every name at the other one.
    let own = json!({"protocol": "HTTP", "hosts": names, "port": 8080});
    let both = json!([{"protocol": "HTTP", "port": 80}, own]);
    assert_eq!(of(&world), [names, json!(true), both]);
}

#[test]
fn without_a_pool_it_may_name_what_all_have() {
    for (named, accepted, programmed, shown) in [
        (
            json!([{"value": "203.0.113.7"}]),
            "True Accepted",
            "True Programmed",
            1,
        ),
        (
            json!([{"value": ""}]),
            "True Accepted",
            "True Programmed",
            1,
        ),
        (
            json!([{"value": "192.0.2.9"}]),
            "True Accepted",
            "False AddressNotUsable",
            0,
        ),
        (
            json!([{"value": "203.0.113.7"}, {"value": "192.0.2.9"}]),
            "True Accepted",
            "False AddressNotUsable",
            1,
        ),
        (
            json!([{"type": "Hostname", "value": "a.example"}]),
            "False UnsupportedAddress",
            "False Invalid",
            0,
        ),
        (
            json!([{"value": "a.example"}]),
            "False UnsupportedAddress",
            "False Invalid",
            0,
        ),
    ] {
        let world = ready([naming("edge", None, named.clone())], &[]);
        let told = status(&world, "edge");
        assert_eq!(said(&told, "Accepted"), accepted, "{named}");
        assert_eq!(said(&told, "Programmed"), programmed, "{named}");
        assert_eq!(
            told["addresses"].as_array().unwrap().len(),
            shown,
            "{named}"
        );
    }
}

#[test]
fn a_class_asks_for_all_its_gateways_and_each_may_ask_for_another_pool() {
    let mut world = ready([named("edge", Some("other"))], &[]);
    let class = read(json!({"metadata": {"name": "kedge", "uid": "c",
        "annotations": {POOL: "public"}}, "spec": {"controllerName": "kedge.dev/agent"}}));
    world.api().classes.insert("kedge".to_owned(), class);
    world.settle();
    for (name, pool) in [("edge", "other"), ("gw", "public")] {
        assert_eq!(world.route(name)["address"]["pool"], pool);
    }
}

#[test]
fn a_route_is_served_at_each_address_it_is_attached_to() {
    let gateways = [named("one", Some("public")), named("other", Some("public"))];
    let mut world = ready(gateways, &[("web", &["gw", "one", "other"])]);
    let all = [
        "one.shop.one00000",
        "other.shop.other000",
        "web.shop.web77771",
        "web.shop.web77771.one00000",
        "web.shop.web77771.other000",
    ];
    assert_eq!(world.routed(), all);
    let offered = world.snapshot.offered.clone().unwrap();
    let address = |name: &str| offered.http[name].spec.clone().unwrap().address;
    assert_eq!(address(all[2]), None);
    assert_eq!(address(all[3]).unwrap().shared_by, "shop/one");
    assert_eq!(address(all[4]).unwrap().shared_by, "shop/other");
    assert_eq!(accepted(&world, "web"), ["True Accepted"; 3]);
    // It is taken from where it is attached no more, and from nowhere else.
    patch(&mut world, "web", json!([{"name": "one"}]));
    world.settle();
    assert_eq!(world.routed(), [all[0], all[1], all[3]]);
    assert_eq!(accepted(&world, "web"), ["True Accepted"]);
    patch(&mut world, "web", json!([{"name": "nobody"}]));
    world.settle();
    assert_eq!(world.routed(), all[..2]);
    let api = world.snapshot.gateway.as_ref().unwrap();
    let web = &api.routes[&Key::new("shop", "web")];
    assert_eq!(web.metadata.finalizers, None);
}

#[test]
fn a_route_is_let_go_once_nothing_of_it_is_offered() {
    let mut world = ready([named("one", Some("public"))], &[("web", &["gw", "one"])]);
    let key = Key::new("shop", "web");
    let route = world.api().routes.get_mut(&key).unwrap();
    let now = serde_json::from_value(json!(NOW)).unwrap();
    route.metadata.deletion_timestamp = Some(now);
    world.settle();
    assert_eq!(world.routed(), ["one.shop.one00000"]);
    assert!(!world.api().routes.contains_key(&key));
    // And a Gateway's address once the Gateway is gone, without a finalizer of its own.
    world.api().gateways.remove(&Key::new("shop", "one"));
    world.settle();
    assert_eq!(world.routed(), Vec::<String>::new());
}

#[test]
fn an_address_that_is_not_given_is_told_and_the_others_are_served() {
    let gateways = [named("none", Some("empty")), named("one", Some("public"))];
    let world = ready(gateways, &[("web", &["none", "one"])]);
    let told = status(&world, "none");
    assert_eq!(said(&told, "Programmed"), "False AddressNotAssigned");
    assert_eq!(told["addresses"], json!([]));
    let condition = told["conditions"].as_array().unwrap().iter();
    let mut condition = condition.filter(|it| it["type"] == "Programmed");
    let message = &condition.next().unwrap()["message"];
    assert_eq!(message, "PoolExhausted: 0 of 1 are free");
    let both = accepted(&world, "web");
    assert_eq!(both, ["False RefusedByManager", "True Accepted"]);
}

#[test]
fn what_nobody_sees_stays() {
    let mut world = ready([named("edge", Some("public"))], &[]);
    world.snapshot.gateway = None;
    assert_eq!(world.settle(), 0);
    assert_eq!(world.routed(), ["edge.shop.edge0000"]);
}

/// Something that happens to Gateways and routes.
#[derive(Clone, Debug)]
enum Event {
    /// A Gateway asks for an address of a pool, for none, or is gone.
    Gateway(usize, Option<Option<&'static str>>),
    /// A route is attached to these Gateways.
    Route(usize, BTreeSet<usize>),
    Delete(usize),
    /// Only one plan is carried out.
    Step,
}

fn event() -> impl Strategy<Value = Event> {
    let pools = [None, Some(None), Some(Some("public")), Some(Some("empty"))];
    let parents = proptest::collection::btree_set(0..GATEWAYS.len(), 0..4);
    prop_oneof![
        3 => (0..GATEWAYS.len(), proptest::sample::select(pools.to_vec()))
            .prop_map(|(at, pool)| Event::Gateway(at, pool)),
        4 => (0..ROUTES.len(), parents).prop_map(|(at, parents)| Event::Route(at, parents)),
        1 => (0..ROUTES.len()).prop_map(Event::Delete),
        2 => Just(Event::Step),
    ]
}

fn happens(world: &mut World, event: Event) {
    match event {
        Event::Gateway(at, None) => {
            let key = Key::new("shop", GATEWAYS[at]);
            world.api().gateways.remove(&key);
        }
        Event::Gateway(at, Some(pool)) => {
            let mut fresh = named(GATEWAYS[at], pool);
            let key = Key::of(&fresh);
            if let Some(before) = world.api().gateways.get(&key) {
                fresh.status.clone_from(&before.status);
            }
            world.api().gateways.insert(key, fresh);
        }
        Event::Route(at, parents) => {
            let name = ROUTES[at];
            let parents = parents.iter().map(|at| json!({"name": GATEWAYS[*at]}));
            let parents: Vec<Value> = parents.collect();
            let key = Key::new("shop", name);
            match world.api().routes.get(&key) {
                Some(leaving) if leaving.metadata.deletion_timestamp.is_some() => {}
                Some(_) => patch(world, name, json!(parents)),
                None => {
                    let made = route(name, json!({"spec": {"parentRefs": parents}}));
                    world.api().routes.insert(key, made);
                }
            }
        }
        Event::Delete(at) => {
            let key = Key::new("shop", ROUTES[at]);
            let routes = &mut world.api().routes;
            if let Some(route) = routes.get_mut(&key) {
                if route.metadata.finalizers.is_none() {
                    routes.remove(&key);
                } else {
                    let now = serde_json::from_value(json!(NOW)).unwrap();
                    route.metadata.deletion_timestamp = Some(now);
                }
            }
        }
        Event::Step => {
            let plan = crate::plan::plan(&world.snapshot);
            world.carry_out(&plan);
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_each_route_is_where_it_is_attached_and_nowhere_else(
        events in proptest::collection::vec(event(), 1..24),
    ) {
        let mut world = ready([], &[]);
        for event in events {
            happens(&mut world, event);
        }
        world.settle();
        prop_assert_eq!(world.settle(), 0);
        let api = world.snapshot.gateway.clone().unwrap();
        let pool = |gateway: &Gateway| {
            let annotations = gateway.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(POOL))
        };
        let mut expected = BTreeSet::new();
        for gateway in api.gateways.values().filter(|it| pool(it)) {
            expected.insert(Owner::from(gateway).exposure());
        }
        for route in api.routes.values() {
            prop_assert!(route.metadata.deletion_timestamp.is_none(), "it was let go");
            let parents = route.spec.parent_refs.iter();
            let parents = parents.filter_map(|it| api.gateways.get(&Key::new("shop", &it.name)));
            let names: BTreeSet<String> = parents
                .map(|gateway| match pool(gateway) {
                    true => Owner::from(route).exposure_at(&start(&gateway.metadata)),
                    false => Owner::from(route).exposure(),
                })
                .collect();
            prop_assert_eq!(Owner::from(route).is_guarded(), !names.is_empty());
            expected.extend(names);
        }
        let offered: BTreeSet<String> = world.routed().into_iter().collect();
        prop_assert_eq!(offered, expected);
    }
}

const GATEWAYS: [&str; 4] = ["gw", "one", "other", "third"];
const ROUTES: [&str; 3] = ["api", "raw", "web"];
