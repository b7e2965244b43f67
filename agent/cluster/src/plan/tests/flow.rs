//! The order of things, and what is taken back.

use serde_json::json;

use super::world::{NOW, World, node, served, service};
use crate::{
    names::FINALIZER,
    plan::{owner::Owner, plan},
    snapshot::{Config, ManagerRefusal},
};

#[test]
fn a_service_is_guarded_offered_and_told() {
    let mut world = World::with([service("web", json!({}))]);
    let first = plan(&world.snapshot);
    assert_eq!(first.guard.len(), 1);
    assert!(
        first.put.is_empty(),
        "nothing is offered before it is guarded"
    );
    assert_eq!(first.show[0].shown.conditions[0].reason, "Pending");
    world.carry_out(&first);
    let second = plan(&world.snapshot);
    assert_eq!(second.put, ["web.shop.web00001"]);
    world.carry_out(&second);
    let third = plan(&world.snapshot);
    assert_eq!(third.show.len(), 1);
    assert_eq!(third.show[0].notes[0].reason, "Ready");
    world.carry_out(&third);
    assert!(plan(&world.snapshot).is_empty());
    let ready = "True Ready served at 203.0.113.7 80/TCP";
    assert_eq!(world.said("web", "Ready"), ready);
}

#[test]
fn a_deleted_service_goes_once_nothing_of_it_is_offered() {
    let mut world = World::with([service("web", json!({})), service("other", json!({}))]);
    world.settle();
    world.delete("web");
    let first = plan(&world.snapshot);
    assert_eq!(first.withdraw, ["web.shop.web00001"]);
    assert!(first.release.is_empty(), "it is offered still");
    assert!(first.show.is_empty(), "nothing more is written to it");
    world.carry_out(&first);
    let second = plan(&world.snapshot);
    assert_eq!(second.release.len(), 1);
    world.settle();
    assert!(!world.is_there("web"));
    assert_eq!(world.offered(), ["other.shop.other000"]);
}

#[test]
fn what_is_ours_no_longer_is_taken_back() {
    let changes = [
        json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null}}),
        json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "cloud/x"}}),
    ];
    for changes in changes {
        let mut world = World::with([service("web", json!({}))]);
        world.settle();
        world.patch("web", json!({"status": {"conditions": [
            world.snapshot.services.values().next().unwrap().status.clone().unwrap().conditions.unwrap()[0],
            {"type": "theirs/Good", "status": "True", "reason": "Good", "message": "",
                "lastTransitionTime": NOW},
        ]}}));
        world.patch("web", changes);
        world.settle();
        assert!(world.offered().is_empty());
        let service = world.service("web");
        assert!(!crate::plan::is_touched(service), "{service:?}");
        let left = service.status.clone().unwrap().conditions.unwrap();
        assert_eq!(left.len(), 1, "another's condition stays");
    }
}

#[test]
fn a_refusal_closes_what_was_open_and_opens_it_again() {
    let mut world = World::with([service("web", json!({}))]);
    world.settle();
    let ranges = json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/33"]}});
    world.patch("web", ranges);
    world.settle();
    assert!(world.offered().is_empty());
    let status = world.service("web").status.clone().unwrap();
    assert!(status.load_balancer.is_none_or(|it| it.ingress.is_none()));
    assert!(world.said("web", "Ready").starts_with("False SourceRange"));
    world.patch("web", json!({"spec": {"loadBalancerSourceRanges": null}}));
    world.settle();
    assert!(world.said("web", "Ready").starts_with("True"));
}

#[test]
fn a_service_that_was_made_anew_is_another_load_balancer() {
    let mut world = World::with([service("web", json!({}))]);
    world.settle();
    world.put(service("web", json!({"metadata": {"uid": "fresh111-2"}})));
    let next = plan(&world.snapshot);
    assert_eq!(
        next.withdraw,
        ["web.shop.web00001"],
        "the old one is gone for sure"
    );
    world.settle();
    assert_eq!(world.offered(), ["web.shop.fresh111"]);
}

#[test]
fn what_nobody_knows_of_is_an_orphan() {
    let mut world = World::with([service("web", json!({}))]);
    world.settle();
    world.snapshot.services.clear();
    let next = plan(&world.snapshot);
    assert_eq!(next.orphans, ["web.shop.web00001"]);
    assert!(next.withdraw.is_empty(), "an empty list is no proof");
}

#[test]
fn without_a_manager_everything_stays_as_it_is() {
    let mut world = World::with([
        service("web", json!({})),
        service("bad", json!({"spec": {"ports": []}})),
        service("far", json!({"spec": {"loadBalancerIP": "192.0.2.9"}})),
    ]);
    world.settle();
    let before = world.snapshot.services.clone();
    let offered = world.snapshot.offered.take();
    world.delete("web");
    let next = plan(&world.snapshot);
    assert!(next.is_empty(), "{next:?}");
    assert!(
        world.is_there("web"),
        "it is offered, as far as anybody knows"
    );
    assert_eq!(
        world.service("bad"),
        &before[&crate::snapshot::Key::new("shop", "bad")]
    );
    world.snapshot.offered = offered;
    world.settle();
    assert!(!world.is_there("web"));
}

#[test]
fn a_node_that_is_not_ready_is_left_out_of_every_service() {
    let mut world = World::with([service("web", json!({})), service("other", json!({}))]);
    world.settle();
    world.node(node("b", false));
    let next = plan(&world.snapshot);
    assert_eq!(next.put.len(), 2);
    world.settle();
    let text = serde_json::to_string(&world.spec("web")).unwrap();
    assert!(text.contains(r#""values":["a"]"#), "{text}");
    assert!(
        world.said("web", "Ready").starts_with("True"),
        "it stays served"
    );
}

#[test]
fn what_the_manager_refuses_is_said_and_not_asked_again() {
    let mut world = World::with([service("web", json!({}))]);
    world.carry_out(&plan(&world.snapshot));
    let next = plan(&world.snapshot);
    let name = Owner::from(world.service("web")).exposure();
    let refusal = ManagerRefusal {
        spec: next.exposures[&name].clone(),
        because: "tenant t may have 0 load balancers".to_owned(),
    };
    world.snapshot.refused.insert(name, refusal);
    world.settle();
    assert!(world.offered().is_empty());
    assert_eq!(
        world.said("web", "Accepted"),
        "False RefusedByManager the manager says: tenant t may have 0 load balancers"
    );
    // Another wish is another question.
    world.patch("web", json!({"spec": {"sessionAffinity": "ClientIP"}}));
    world.settle();
    assert!(world.said("web", "Ready").starts_with("True"));
}

#[test]
fn beside_others_only_what_nobody_answered_is_taken() {
    let mut world = World::with([service("web", json!({"spec": {"loadBalancerClass": null}}))]);
    world.snapshot.config = Config {
        unclassed: true,
        ..Config::default()
    };
    world.settle();
    assert!(world.said("web", "Ready").starts_with("True"));
    world.patch(
        "web",
        json!({
        "metadata": {"managedFields": [super::world::written_by("metallb")]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
    );
    world.settle();
    assert!(world.offered().is_empty());
    assert!(world.said("web", "Ready").contains("metallb"));
    let status = world.service("web").status.clone().unwrap();
    let ingress = status.load_balancer.unwrap().ingress.unwrap();
    assert_eq!(
        ingress[0].ip.as_deref(),
        Some("192.0.2.1"),
        "it stays theirs"
    );
    assert!(world.service("web").metadata.finalizers.is_none());
}

#[test]
fn others_services_are_never_touched() {
    let mut world = World::with([
        service("web", json!({"spec": {"loadBalancerClass": "cloud/x"}})),
        service(
            "db",
            json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null}}),
        ),
    ]);
    assert!(plan(&world.snapshot).is_empty());
    world.says = served;
    assert_eq!(world.settle(), 0);
}

#[test]
fn the_finalizer_is_the_agents_own() {
    let mut world = World::with([service("web", json!({}))]);
    world.settle();
    let finalizers = world.service("web").metadata.finalizers.clone();
    assert_eq!(finalizers, Some(vec![FINALIZER.to_owned()]));
}
