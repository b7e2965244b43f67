//! Services without node ports: what is put beside them, and taken away again.

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use serde_json::{Value, json};

use super::{
    ingresses::{ingress, rule},
    kinds,
    world::{World, service},
};
use crate::{
    plan::{companion::is_companion, plan},
    snapshot::{Key, Slice},
};

/// A Service without node ports.
fn inner(name: &str, changes: Value) -> Service {
    let mut whole = json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null,
        "externalTrafficPolicy": null, "selector": {"app": name}, "ports": [
        {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080},
        {"name": "other", "port": 81, "protocol": "TCP", "targetPort": 8081}]}});
    super::world::merge(&mut whole, changes);
    service(name, whole)
}

fn world(changes: Value) -> World {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    world.put(inner("web", changes));
    world
}

fn companions(world: &World) -> Vec<Service> {
    let all = world.snapshot.services.values();
    all.filter(|it| is_companion(it)).cloned().collect()
}

const NAME: &str = "kedge-web-web00001";

#[test]
fn the_port_that_is_led_to_gets_a_node_port_before_anything_is_offered() {
    let mut world = world(json!({}));
    let first = plan(&world.snapshot);
    assert!(first.companions.is_first());
    world.carry_out(&first);
    let [companion] = &companions(&world)[..] else {
        panic!("one is made");
    };
    let owner = &companion.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.name.as_str(), owner.uid.as_str()),
        ("web", "web0000-1111")
    );
    let spec = serde_json::to_value(companion.spec.as_ref().unwrap()).unwrap();
    assert_eq!(companion.metadata.name.as_deref(), Some(NAME));
    assert_eq!(spec["type"], "NodePort");
    assert_eq!(spec["selector"], json!({"app": "web"}));
    assert_eq!(
        spec["ports"],
        json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 31080}])
    );
    assert!(!plan(&world.snapshot).companions.is_first());
    world.settle();
    let offered = world.snapshot.offered.as_ref().unwrap();
    let spec = serde_json::to_value(&offered.items["web-80.shop.web00001"].spec).unwrap();
    assert_eq!(spec["source"]["name"], "web");
    assert_eq!(
        spec["endpoints"][0]["ports"],
        json!([{"name": "http", "port": 31080}])
    );
}

#[test]
fn it_is_as_its_service_and_goes_when_nothing_leads_there() {
    let mut world = world(json!({}));
    world.settle();
    world.patch(
        "web",
        json!({"spec": {"selector": {"app": "web", "color": "green"}}}),
    );
    assert!(plan(&world.snapshot).companions.is_first());
    world.settle();
    let spec = companions(&world)[0].spec.clone().unwrap();
    assert_eq!(spec.selector.unwrap()["color"], "green");

    world.patch_ingress(
        "shop",
        json!({"spec": {"rules": [rule("a.example.net", "/", "api")]}}),
    );
    let first = plan(&world.snapshot);
    assert!(
        first.companions.remove.is_empty(),
        "something leads there still"
    );
    world.settle();
    assert_eq!(companions(&world), []);
    assert_eq!(world.offered(), ["api-80.shop.api00001"]);
}

#[test]
fn labels_that_others_put_on_it_stay() {
    let mut world = world(json!({}));
    world.settle();
    world.patch(NAME, json!({"metadata": {"labels": {"argocd": "shop"}}}));
    assert!(!plan(&world.snapshot).companions.is_first());
}

#[test]
fn it_stays_until_what_a_route_of_calls_leads_to_is_offered_no_more() {
    let mut world = kinds::calls();
    world.put(inner("web", json!({})));
    world.settle();
    assert_eq!(world.offered(), ["web-80-grpc.shop.web00001"]);
    assert_eq!(companions(&world).len(), 1);
    world.api().grpc.as_mut().unwrap().clear();
    let first = plan(&world.snapshot);
    assert!(first.companions.remove.is_empty(), "it is offered still");
    world.settle();
    assert_eq!(world.offered(), Vec::<String>::new());
    assert_eq!(companions(&world), []);
}

#[test]
fn endpoints_that_somebody_wrote_are_copied() {
    let mut world = world(json!({"spec": {"selector": null, "clusterIP": "None"}}));
    let written: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"name": "by-hand", "namespace": "shop",
            "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.42.0.9"]}],
        "ports": [{"name": "http", "port": 8080}]}))
    .unwrap();
    let key = Key::new("shop", "by-hand");
    world
        .snapshot
        .slices
        .insert(key.clone(), Slice::of(&written).unwrap());
    world.settle();
    let at = Key::new("shop", format!("{NAME}-by-hand"));
    let copy = world.snapshot.slices[&at].written.clone().unwrap();
    assert_eq!(
        (&copy.endpoints, &copy.ports),
        (&written.endpoints, &written.ports)
    );
    assert_eq!(
        copy.metadata.labels.unwrap()["kubernetes.io/service-name"],
        NAME
    );

    world.snapshot.slices.remove(&key);
    world.settle();
    assert!(!world.snapshot.slices.contains_key(&at));
}

#[test]
fn what_the_cluster_refuses_is_told_and_the_rest_is_served() {
    let mut world = world(json!({}));
    let why = "services is forbidden".to_owned();
    let key = Key::new("shop", "web");
    world.snapshot.companions_refused.insert(key.clone(), why);
    world.settle();
    let told = world.told("shop");
    assert!(told[0].starts_with("NodePortRequired"), "{told:?}");
    assert!(told[0].contains("services is forbidden"), "{told:?}");

    // What is there already serves on, and is not taken away.
    world.snapshot.companions_refused.clear();
    world.settle();
    world
        .snapshot
        .companions_refused
        .insert(key, "full".to_owned());
    world.patch("web", json!({"spec": {"selector": {"app": "new"}}}));
    world.settle();
    assert_eq!(companions(&world).len(), 1);
    assert_eq!(world.offered(), ["web-80.shop.web00001"]);
}

#[test]
fn nothing_is_put_beside_what_has_no_pods_or_is_not_ours() {
    for kind in ["ExternalName", "NodePort", "LoadBalancer"] {
        let mut world = world(json!({"spec": {"type": kind}}));
        world.settle();
        assert_eq!(companions(&world), [], "{kind}");
    }
    let mut world = world(json!({}));
    let mut other = service(NAME, json!({"spec": {"type": "ClusterIP"}}));
    other.metadata.uid = Some("other".to_owned());
    world.put(other.clone());
    world.settle();
    assert_eq!(
        world.service(NAME).spec,
        other.spec,
        "another's stays as it is"
    );
}
