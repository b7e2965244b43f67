//! Whose an Ingress is.

use serde_json::json;

use super::{
    super::world::{World, class},
    ingress,
};
use crate::{
    names::{CONTROLLER, INGRESS_CLASS},
    plan::ingress::is_touched,
};

#[test]
fn the_class_says_whose_an_ingress_is() {
    let annotated = |name: &str| json!({"metadata": {"annotations": {INGRESS_CLASS: name}}});
    let unclassed = json!({"spec": {"ingressClassName": null}});
    let cases = [
        (json!({}), false, true),
        (json!({"spec": {"ingressClassName": "nginx"}}), false, false),
        (json!({"spec": {"ingressClassName": "gone"}}), false, false),
        (unclassed.clone(), false, false),
        (unclassed, true, true),
        // The annotation goes before the field.
        (annotated("nginx"), true, false),
        (annotated("kedge"), false, true),
        (annotated(""), true, false),
    ];
    for (changes, is_default, is_ours) in cases {
        let mut world = World::with_ingresses([ingress("shop", changes.clone())]);
        let classes = &mut world.snapshot.ingresses.as_mut().unwrap().classes;
        classes.extend([
            class("kedge", CONTROLLER, is_default),
            class("nginx", "k8s.io/ingress-nginx", !is_default),
        ]);
        world.settle();
        assert_eq!(world.routed().len() == 1, is_ours, "{changes}");
        assert_eq!(is_touched(world.ingress("shop")), is_ours, "{changes}");
        assert_eq!(world.offered().is_empty(), !is_ours, "{changes}");
    }
}

#[test]
fn of_several_default_classes_the_newest_is_meant() {
    let mut world =
        World::with_ingresses([ingress("shop", json!({"spec": {"ingressClassName": null}}))]);
    let at = |(name, mut class): (String, k8s_openapi::api::networking::v1::IngressClass), time| {
        class.metadata.creation_timestamp = Some(serde_json::from_value(json!(time)).unwrap());
        (name, class)
    };
    let classes = &mut world.snapshot.ingresses.as_mut().unwrap().classes;
    classes.extend([
        at(class("kedge", CONTROLLER, true), "2026-01-02T03:04:05Z"),
        at(
            class("nginx", "k8s.io/ingress-nginx", true),
            "2026-01-02T03:04:06Z",
        ),
    ]);
    world.settle();
    assert!(world.routed().is_empty());
    let classes = &mut world.snapshot.ingresses.as_mut().unwrap().classes;
    classes.extend([at(class("kedge", CONTROLLER, true), "2026-01-02T03:04:07Z")]);
    world.settle();
    assert_eq!(world.routed().len(), 1);
}

#[test]
fn a_class_that_is_gone_takes_nothing_away() {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    world.settle();
    world.snapshot.ingresses.as_mut().unwrap().classes.clear();
    world.settle();
    assert_eq!(world.routed(), ["shop.shop.shop9999"]);
    // Another's class does.
    world.patch_ingress("shop", json!({"spec": {"ingressClassName": "nginx"}}));
    let classes = &mut world.snapshot.ingresses.as_mut().unwrap().classes;
    classes.extend([class("nginx", "k8s.io/ingress-nginx", false)]);
    world.settle();
    assert!(world.routed().is_empty());
    assert!(!is_touched(world.ingress("shop")));
}

#[test]
fn a_class_with_parameters_is_not_understood() {
    let mut world = World::with_ingresses([ingress("shop", json!({}))]);
    let classes = &mut world.snapshot.ingresses.as_mut().unwrap().classes;
    let spec = classes.get_mut("kedge").unwrap().spec.as_mut().unwrap();
    spec.parameters = Some(serde_json::from_value(json!({"kind": "X", "name": "x"})).unwrap());
    world.settle();
    assert!(world.routed().is_empty());
    assert!(world.told("shop")[0].starts_with("ParametersNotSupported"));
}
