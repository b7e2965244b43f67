//! How targets come and go: the six states, the annotations that show them, and the hook.

use kedge_core::vip::RouterState;
use serde_json::{Value, json};

use super::world::{NS, World, demo};
use crate::{
    plan::Plan,
    snapshot::Hearing,
    store::{Layer, Name, ObjectKey},
};

const CAPI: &str = "cluster.x-k8s.io";
const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/kedge-lb";

/// A served site on Kubernetes, every host of cluster `edge` in its VIP.
fn served() -> World {
    let mut world = demo().on_kubernetes();
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b", "edge-c"] {
        world.enrol(host);
    }
    world.core();
    world.settle();
    world.core();
    for (host, state) in [
        ("edge-a", RouterState::Active),
        ("edge-b", RouterState::Backup),
        ("edge-c", RouterState::Backup),
    ] {
        let since = world.now.clone();
        world.vip_state(host, "edge", state, &since);
    }
    let plan = world.settle();
    applied(&mut world, &plan);
    world.settle();
    world
}

/// Hosts and gateway report that the latest desired state is in force.
fn applied(world: &mut World, plan: &Plan) {
    for (name, config) in &plan.hosts {
        let generation = config.generation;
        let keeps = |vip: &kedge_control::report::ReportedVip| {
            config.vips.iter().any(|wanted| wanted.name == vip.name)
        };
        world.report(&name.name, |report| {
            report.applied_generation = generation;
            report.vips.retain(keeps);
        });
    }
    for (name, config) in &plan.gateways {
        let live = world.live.gateways.get_mut(name).unwrap();
        live.report.as_mut().unwrap().applied_generation = config.generation;
    }
}

fn annotations(world: &World, machine: &str) -> Value {
    let key = ObjectKey::new(CAPI, "Machine", Name::new(NS, machine));
    let marks = world.objects.content(&key, &Layer::Marks);
    marks.map_or(Value::Null, |marks| {
        marks["metadata"]["annotations"].clone()
    })
}

/// The state a Machine shows, and whether our hook holds it.
fn shown(world: &World, machine: &str) -> (String, bool) {
    let annotations = annotations(world, machine);
    let state = annotations["loadbalancer.cluster.x-k8s.io/status"].as_str();
    let hooked = annotations.get(PRE_DRAIN) == Some(&json!("kedge-manager"));
    (state.unwrap_or_default().to_owned(), hooked)
}

fn is(state: &str, hooked: bool) -> (String, bool) {
    (state.to_owned(), hooked)
}

fn annotate(world: &mut World, machine: &str, annotations: Value) {
    world.document(CAPI, "Machine", machine)["metadata"]["annotations"] = annotations;
}

fn has_vip(plan: &Plan, host: &str) -> bool {
    plan.hosts[&Name::new(NS, host)]
        .vips
        .iter()
        .any(|vip| vip.name == "edge")
}

#[test]
fn a_target_shows_its_load_balancer_and_state_and_gets_the_hook_once_it_serves() {
    let mut world = demo().on_kubernetes();
    world.core();
    world.settle();
    assert_eq!(shown(&world, "edge-cp-a"), is("adding", false));
    let world = served();
    assert_eq!(
        annotations(&world, "edge-cp-a"),
        json!({"loadbalancer.cluster.x-k8s.io/name": "edge",
            "loadbalancer.cluster.x-k8s.io/status": "active", PRE_DRAIN: "kedge-manager"})
    );
    // Nobody waits for a hook on a directory.
    let mut world = served();
    world.environment = crate::snapshot::Environment::Directory;
    world.settle();
    assert_eq!(shown(&world, "edge-cp-a"), is("active", false));
}

#[test]
fn a_deleted_machine_is_held_until_its_traffic_is_gone_and_the_vip_elsewhere() {
    let mut world = served();
    world.delete(CAPI, "Machine", "edge-cp-a");
    let plan = world.settle();
    assert!(!has_vip(&plan, "edge-a") && has_vip(&plan, "edge-b"));
    assert_eq!(shown(&world, "edge-cp-a"), is("removing", true));
    // The gateway still sends there.
    let gateways = world.live.gateways.clone();
    applied(&mut world, &plan);
    let after = std::mem::replace(&mut world.live.gateways, gateways);
    world.settle();
    assert_eq!(shown(&world, "edge-cp-a"), is("removing", true));
    world.live.gateways = after;
    world.settle();
    assert_eq!(shown(&world, "edge-cp-a"), is("removed", false));
    assert_eq!(shown(&world, "edge-cp-b"), is("active", true));
    let endpoint = json!({"host": "10.20.14.10", "port": 6443});
    assert_eq!(
        world.endpoints("edge").0,
        Some(endpoint),
        "the endpoint does not change"
    );
}

#[test]
fn a_dead_agent_holds_nothing() {
    let mut world = served();
    world.delete(CAPI, "Machine", "edge-cp-a");
    world.hearing("edge-a", Hearing::Silent);
    let plan = world.settle();
    applied(&mut world, &plan);
    world.settle();
    assert_eq!(shown(&world, "edge-cp-a"), is("removed", false));
}

#[test]
fn the_hook_fails_open_after_its_time_counted_from_the_machine() {
    // The start of the wait as the Machine tells it, the timeout, the seconds left.
    let table = [
        (None, "", 60),
        (Some("2026-01-01T00:00:20Z"), "", 80),
        (None, "drain: {timeout: 5s}", 5),
        (Some("no time"), "", 0),
    ];
    for (since, drain, left) in table {
        let mut world = served();
        if !drain.is_empty() {
            world.write(&format!(
                "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\n\
                 metadata: {{name: edge, namespace: {NS}}}\nspec: {{clusterName: edge, mode: VIP, \
                 vip: {{poolRef: {{name: edge-lan}}}}, {drain}}}\n"
            ));
            world.settle();
        }
        world.delete(CAPI, "Machine", "edge-cp-a");
        if let Some(since) = since {
            let machine = world.document(CAPI, "Machine", "edge-cp-a");
            machine["status"] = json!({"deletion": {"waitForPreDrainHookStartTime": since}});
        }
        if left > 0 {
            let wake = world.settle().wake.earliest().map(|due| due.to_string());
            assert_eq!(
                shown(&world, "edge-cp-a"),
                is("removing", true),
                "{since:?} {drain}"
            );
            world.later(left);
            assert_eq!(wake, Some(world.now.clone()), "{since:?} {drain}");
        }
        world.settle();
        assert_eq!(
            shown(&world, "edge-cp-a"),
            is("removed", false),
            "{since:?} {drain}"
        );
    }
}

#[test]
fn a_cluster_that_goes_is_served_to_its_last_machine_without_a_hook() {
    let mut world = served();
    world.delete(CAPI, "Cluster", "edge");
    for machine in ["edge-cp-a", "edge-cp-b", "edge-cp-c"] {
        world.delete(CAPI, "Machine", machine);
    }
    let plan = world.settle();
    for (machine, host) in [("edge-cp-a", "edge-a"), ("edge-cp-c", "edge-c")] {
        assert!(has_vip(&plan, host));
        assert_eq!(shown(&world, machine), is("removed", false));
    }
}

#[test]
fn a_target_is_disabled_by_either_annotation_and_comes_back() {
    for key in [
        "loadbalancer.cluster.x-k8s.io/disabled",
        "kedge.dev/lb-disabled",
    ] {
        let mut world = served();
        annotate(&mut world, "edge-cp-a", json!({key: ""}));
        let plan = world.settle();
        assert!(!has_vip(&plan, "edge-a"));
        assert_eq!(shown(&world, "edge-cp-a"), is("disabling", true), "{key}");
        applied(&mut world, &plan);
        world.settle();
        assert_eq!(shown(&world, "edge-cp-a"), is("disabled", false), "{key}");
        annotate(&mut world, "edge-cp-a", json!({}));
        assert!(has_vip(&world.settle(), "edge-a"));
        assert_eq!(shown(&world, "edge-cp-a"), is("adding", false), "{key}");
        let since = world.now.clone();
        world.vip_state("edge-a", "edge", RouterState::Backup, &since);
        world.settle();
        assert_eq!(shown(&world, "edge-cp-a"), is("active", true), "{key}");
    }
}

#[test]
fn no_hook_is_put_on_a_machine_that_is_being_deleted_already() {
    let mut world = demo().on_kubernetes();
    world.delete(CAPI, "Machine", "edge-cp-a");
    world.enrol_gateway("gw-0");
    world.enrol("edge-a");
    world.core();
    world.settle();
    assert!(!shown(&world, "edge-cp-a").1);
}

#[test]
fn a_paused_cluster_keeps_its_annotations_and_an_unselected_machine_loses_them() {
    let mut world = served();
    let before = annotations(&world, "edge-cp-a");
    world.document(CAPI, "Cluster", "edge")["spec"]["paused"] = json!(true);
    world.hearing("edge-a", Hearing::Silent);
    world.delete(CAPI, "Machine", "edge-cp-a");
    world.settle();
    assert_eq!(annotations(&world, "edge-cp-a"), before);
    let mut world = served();
    world.document(CAPI, "Machine", "edge-cp-a")["metadata"]["labels"] = json!({});
    world.settle();
    assert_eq!(annotations(&world, "edge-cp-a"), Value::Null);
}

#[test]
fn the_hook_can_stand_elsewhere_or_be_left_out() {
    for (hook, wanted) in [
        (
            "PreTerminate",
            Some("pre-terminate.delete.hook.machine.cluster.x-k8s.io/kedge-lb"),
        ),
        ("PreDrain", Some(PRE_DRAIN)),
        ("None", None),
    ] {
        let mut world = served();
        world.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: edge, namespace: \
             {NS}}}\nspec: {{clusterName: edge, mode: VIP, vip: {{poolRef: {{name: edge-lan}}}}, \
             drain: {{hook: {hook}}}}}\n"
        ));
        world.settle();
        let annotations = annotations(&world, "edge-cp-a");
        let hooks: Vec<&str> = annotations
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| key.contains("delete.hook"))
            .map(String::as_str)
            .collect();
        assert_eq!(hooks, wanted.into_iter().collect::<Vec<_>>());
    }
}
