//! The order of things, and what is taken back.

use serde_json::json;

use super::{super::world::World, backend, certificate, ingress, rule};
use crate::{
    certificates::Certificate,
    names::INGRESS_FINALIZER,
    plan::{ingress::is_touched, plan},
    snapshot::ManagerRefusal,
};

#[test]
fn an_ingress_is_guarded_offered_and_told() {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    let first = plan(&world.snapshot);
    let routes = first.routes.as_ref().unwrap();
    assert_eq!(routes.guard.len(), 1);
    assert!(
        routes.put.is_empty(),
        "nothing is offered before it is guarded"
    );
    world.carry_out(&first);
    assert_eq!(world.offered(), ["web-80.shop.web00001"]);
    world.settle();
    assert_eq!(world.routed(), ["shop.shop.shop9999"]);
    let finalizers = world.ingress("shop").metadata.finalizers.clone();
    assert_eq!(finalizers.unwrap(), [INGRESS_FINALIZER]);
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    assert_eq!(
        world.shown("shop"),
        json!([{"ip": "203.0.113.7", "ports": ports}])
    );
    assert_eq!(world.told("shop"), ["Ready served at 203.0.113.7"]);
}

#[test]
fn a_deleted_ingress_goes_and_what_it_led_to_after_it() {
    let mut world = World::with_ingresses([
        ingress("shop", json!({})),
        ingress(
            "other",
            json!({"spec": {"rules": [rule("b.example.net", "/", "api")]}}),
        ),
    ]);
    world.settle();
    world.delete_ingress("shop");
    let first = plan(&world.snapshot);
    let routes = first.routes.as_ref().unwrap();
    assert_eq!(routes.withdraw, ["shop.shop.shop9999"]);
    assert!(routes.release.is_empty(), "it is offered still");
    assert!(first.withdraw.is_empty(), "something leads there still");
    world.settle();
    assert!(!world.has_ingress("shop"));
    assert_eq!(world.routed(), ["other.shop.other999"]);
    assert_eq!(world.offered(), ["api-80.shop.api00001"]);
}

#[test]
fn two_ingresses_lead_to_one_backend() {
    let mut world = World::with_ingresses([ingress("one", json!({})), ingress("two", json!({}))]);
    world.settle();
    assert_eq!(world.offered(), ["web-80.shop.web00001"]);
    world.delete_ingress("one");
    world.settle();
    assert_eq!(world.offered(), ["web-80.shop.web00001"]);
}

#[test]
fn what_nobody_knows_of_is_an_orphan_with_what_it_leads_to() {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    world.settle();
    world.snapshot.ingresses.as_mut().unwrap().all.clear();
    let next = plan(&world.snapshot);
    let routes = next.routes.as_ref().unwrap();
    assert_eq!(routes.orphans, ["shop.shop.shop9999"]);
    assert_eq!(next.orphans, ["web-80.shop.web00001"]);
    assert!(
        next.withdraw.is_empty() && routes.withdraw.is_empty(),
        "an empty list is no proof"
    );
}

#[test]
fn while_ingresses_are_not_seen_everything_of_them_stays() {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    world.settle();
    world.snapshot.ingresses = None;
    let next = plan(&world.snapshot);
    assert!(next.is_empty());
    assert!(next.routes.is_none());
    assert!(
        next.exposures.contains_key("web-80.shop.web00001"),
        "the whole set names it"
    );
}

#[test]
fn while_a_secret_is_not_told_nothing_is_decided() {
    let tls = json!({"spec": {"tls": [{"secretName": "cert"}]}});
    let mut world = World::with_ingresses([ingress("shop", tls)]);
    assert!(plan(&world.snapshot).routes.is_none());
    world.secret("cert", Certificate::Missing);
    assert!(plan(&world.snapshot).routes.is_some());
}

#[test]
fn without_a_manager_nothing_is_taken_back() {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    world.settle();
    world.snapshot.offered = None;
    let next = plan(&world.snapshot);
    assert!(next.is_empty(), "{next:?}");
}

#[test]
fn a_backend_that_changes_goes_once_nothing_leads_there() {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    world.settle();
    world.patch_ingress(
        "shop",
        json!({"spec": {"rules": [rule("shop.example.net", "/", "api")]}}),
    );
    let next = plan(&world.snapshot);
    assert_eq!(next.put, ["api-80.shop.api00001"]);
    assert!(next.withdraw.is_empty());
    assert!(next.exposures.contains_key("web-80.shop.web00001"));
    world.settle();
    assert_eq!(world.offered(), ["api-80.shop.api00001"]);
}

#[test]
fn a_service_that_goes_leaves_an_answer_of_500() {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    world.settle();
    world.delete("web");
    world.settle();
    assert!(world.offered().is_empty());
    let rules = world.route("shop")["rules"].clone();
    assert_eq!(
        rules,
        json!([{"hosts": ["shop.example.net"], "paths": [{"path": "/"}]}])
    );
    assert!(world.told("shop")[0].starts_with("ServiceNotFound Service shop/web"));
    world.put(backend("web", json!({})));
    world.settle();
    assert_eq!(world.told("shop"), ["Ready served at 203.0.113.7"]);
}

#[test]
fn what_the_manager_refuses_is_told_and_the_old_stays() {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    world.settle();
    let before = world.route("shop");
    world.patch_ingress(
        "shop",
        json!({"spec": {"rules": [rule("b.example.net", "/", "web")]}}),
    );
    let next = plan(&world.snapshot);
    let spec = next.routes.unwrap().exposures["shop.shop.shop9999"].clone();
    let because = "the name is another tenant's".to_owned();
    let refusal = ManagerRefusal { spec, because };
    world
        .snapshot
        .refused_http
        .insert("shop.shop.shop9999".to_owned(), refusal);
    world.settle();
    assert_eq!(world.route("shop"), before, "the whole set keeps it");
    assert_eq!(
        world.shown("shop"),
        json!([]),
        "but it is not what is asked for"
    );
    assert_eq!(
        world.told("shop"),
        ["RefusedByManager the name is another tenant's"]
    );
}

#[test]
fn a_renewed_certificate_is_another_set() {
    let tls = json!({"spec": {"tls": [{"secretName": "cert"}]}});
    let mut world = World::with_ingresses([ingress("shop", tls)]);
    world.secret("cert", certificate("cert"));
    world.settle();
    let before = plan(&world.snapshot).routes.unwrap();
    let Certificate::There(mut renewed) = certificate("cert") else {
        panic!("it is there");
    };
    renewed.chain.push_str(" renewed");
    world.secret("cert", Certificate::There(renewed));
    let after = plan(&world.snapshot).routes.unwrap();
    assert!(after.is_empty(), "its name is as before");
    assert_ne!(before.certificates, after.certificates);
}

#[test]
fn an_ingress_of_another_class_is_taken_back_whole() {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    world.settle();
    world.patch_ingress("shop", json!({"spec": {"ingressClassName": "nginx"}}));
    let classes = &mut world.snapshot.ingresses.as_mut().unwrap().classes;
    classes.extend([super::super::world::class(
        "nginx",
        "k8s.io/ingress-nginx",
        false,
    )]);
    world.settle();
    assert!(!is_touched(world.ingress("shop")));
    assert_eq!(world.shown("shop"), json!([]));
    assert!(world.routed().is_empty() && world.offered().is_empty());
}
