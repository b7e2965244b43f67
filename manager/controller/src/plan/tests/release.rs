//! When a LoadBalancer may go, who does the work in its place, and an endpoint that moves.

use serde_json::json;

use super::world::{NS, VIP, World, cluster, demo, site};
use crate::{
    plan::plan,
    store::{Layer, Name, ObjectKey},
};

const CAPI: &str = "cluster.x-k8s.io";
const FROM_POOL: &str = "mode: VIP, vip: {poolRef: {name: edge-lan}}";

fn lb(spec: &str) -> String {
    format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: c, namespace: {NS}}}\n\
         spec: {{clusterName: c, {spec}}}\n"
    )
}

fn filled() -> World {
    let mut world = site().on_kubernetes();
    world.write(&cluster("c", "", ""));
    world.write(&lb(FROM_POOL));
    settled(&mut world);
    world
}

fn settled(world: &mut World) {
    for _ in 0..2 {
        world.core();
        world.settle();
    }
}

fn key() -> ObjectKey {
    ObjectKey::new("kedge.dev", "LoadBalancer", Name::new(NS, "c"))
}

#[test]
fn a_load_balancer_is_held_and_owned_and_remembers_only_what_was_decided() {
    let world = filled();
    let marks = world.objects.content(&key(), &Layer::Marks);
    assert_eq!(
        marks,
        Some(&json!({"metadata": {"finalizers": ["kedge.dev/loadbalancer"]}}))
    );
    let layers = world.objects.get(&key()).unwrap();
    let managers: Vec<&str> = layers.owned.keys().map(String::as_str).collect();
    assert_eq!(managers, ["kedge-endpoint"]);
    let owner = &layers.owned["kedge-endpoint"]["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("Cluster"), &json!("uid-Cluster-c"))
    );
}

#[test]
fn a_deleted_load_balancer_goes_on_while_its_cluster_lives_with_its_endpoint() {
    let mut world = filled();
    world.delete("kedge.dev", "LoadBalancer", "c");
    world.settle();
    assert!(
        world
            .condition("c", "Degraded")
            .starts_with("True: DeletionBlocked")
    );
    assert_eq!(
        world.endpoints("c").0,
        Some(json!({"host": "10.20.14.10", "port": 6443}))
    );
    let held = world.objects.content(&key(), &Layer::Marks);
    assert!(held.is_some());
    // The Cluster goes, but a control-plane machine is left.
    world.write(&format!(
        "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {{name: m, namespace: {NS}, \
         labels: {{cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/control-plane: ''}}}}\n\
         spec: {{clusterName: c}}\n"
    ));
    world.delete(CAPI, "Cluster", "c");
    world.settle();
    assert!(world.objects.get(&key()).is_some());
    world.remove(CAPI, "Machine", "m");
    world.settle();
    assert_eq!(world.objects.content(&key(), &Layer::Marks), None, "let go");
}

#[test]
fn force_release_lets_go_at_once_by_the_object_or_its_cluster() {
    for (group, kind) in [("kedge.dev", "LoadBalancer"), (CAPI, "Cluster")] {
        let mut world = filled();
        world.delete("kedge.dev", "LoadBalancer", "c");
        let document = world.document(group, kind, "c");
        document["metadata"]["annotations"] = json!({"kedge.dev/force-release": ""});
        world.settle();
        assert_eq!(world.objects.content(&key(), &Layer::Marks), None, "{kind}");
    }
    // On an object that nobody deletes it changes nothing.
    let mut world = filled();
    let document = world.document("kedge.dev", "LoadBalancer", "c");
    document["metadata"]["annotations"] = json!({"kedge.dev/force-release": ""});
    assert_eq!(plan(&world.snapshot()).writes, []);
}

#[test]
fn the_work_of_somebody_elses_load_balancer_is_published() {
    let mut world = site().on_kubernetes();
    world.write(&cluster("c", "", ""));
    world.write(&lb(
        "infrastructureRef: {apiGroup: lb.example.org, kind: CloudLB, name: x}",
    ));
    settled(&mut world);
    let waiting = world.condition("c", "EndpointPublished");
    assert!(
        waiting.starts_with("False: WaitingForInfrastructure: CloudLB store-014/x"),
        "{waiting}"
    );
    world.write(&format!(
        "apiVersion: lb.example.org/v1\nkind: CloudLB\nmetadata: {{name: x, namespace: {NS}}}\n\
         spec: {{endpoint: {{host: lb.example.org, port: 443}}}}\n"
    ));
    settled(&mut world);
    assert_eq!(
        world.endpoints("c").0,
        Some(json!({"host": "lb.example.org", "port": 443}))
    );
    assert!(
        world
            .condition("c", "IsReachable")
            .starts_with("Unknown: NotReported")
    );
    let other = world.document("lb.example.org", "CloudLB", "x");
    other["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    world.settle();
    assert!(
        world
            .condition("c", "IsReachable")
            .starts_with("True: Reported")
    );
}

/// The demo's reserved host, under a policy.
fn reserved(policy: &str) -> World {
    let mut world = demo().on_kubernetes();
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\n\
         metadata: {{name: edge-host, namespace: {NS}}}\nspec: {{clusterName: edge-host, \
         mode: HostAddress, targetKind: {{apiGroup: kedge.dev, kind: EdgeHost}}, \
         selector: {{matchLabels: {{kedge.dev/site: {NS}}}}}, {policy}}}\n"
    ));
    world.enrol("edge-a");
    world.enrol("edge-b");
    settled(&mut world);
    world
}

fn evict(world: &mut World, host: &str) {
    let name = Name::new(NS, host);
    world.live.hosts.remove(&name);
    let key = ObjectKey::new("kedge.dev", "EdgeHost", name);
    assert!(world.objects.vanish(&key));
}

#[test]
fn an_endpoint_follows_its_host_only_where_that_is_wished_and_says_what_it_costs() {
    let at = |last: u8| Some(json!({"host": format!("10.20.14.{last}"), "port": 6443}));
    for (policy, moves) in [
        ("endpointPolicy: FollowTarget", true),
        ("endpointPolicy: Keep", false),
    ] {
        let mut world = reserved(policy);
        assert_eq!(world.endpoints("edge-host").0, at(11), "{policy}");
        // A host that is silent is not gone.
        world.hearing("edge-a", crate::snapshot::Hearing::Silent);
        world.settle();
        assert_eq!(world.endpoints("edge-host").0, at(11), "{policy}");
        evict(&mut world, "edge-a");
        world.settle();
        let (wanted, degraded) = match moves {
            true => (at(12), "True: EndpointMoved"),
            false => (at(11), "False"),
        };
        assert_eq!(world.endpoints("edge-host").0, wanted, "{policy}");
        let said = world.condition("edge-host", "Degraded");
        assert!(said.starts_with(degraded), "{policy}: {said}");
        if moves {
            let said = world.condition("edge-host", "MatchesConfig");
            assert!(said.starts_with("False: RolloutRequired"), "{said}");
            let key = ObjectKey::new(CAPI, "Cluster", Name::new(NS, "edge-host"));
            let moved = world.objects.owned(&key, "kedge-follow").unwrap();
            assert_eq!(moved["spec"]["controlPlaneEndpoint"], wanted.unwrap());
        }
    }
}

#[test]
fn what_a_vanished_load_balancer_had_is_free_in_the_plan_that_lets_it_go() {
    let mut world = demo().on_kubernetes();
    // An endpoint that a person set is the very address another cluster was given.
    world.write(&cluster(
        "c",
        VIP,
        "controlPlaneEndpoint: {host: 10.20.14.10, port: 6443}",
    ));
    world.settle();
    world.core();
    world.settle();
    let balancer = ObjectKey::new("kedge.dev", "LoadBalancer", Name::new(NS, "edge"));
    world.delete(CAPI, "Cluster", "edge");
    world.settle();
    world.delete("kedge.dev", "LoadBalancer", "edge");
    world.settle();
    assert!(world.objects.vanish(&balancer));
    // `settle` asserts that the claim, the pool's figures and its finalizer go together.
    world.settle();
}
