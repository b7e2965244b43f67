//! What is written on Elemental's records of hosts.

use serde_json::{Value, json};

use super::world::{NS, World, cluster, demo, site};
use crate::{
    plan::plan,
    store::{Layer, Name, ObjectKey, Objects},
};

const INFRA: &str = "infrastructure.cluster.x-k8s.io";
const PREFIX: &str = "elementalhost.infrastructure.cluster.x-k8s.io";

fn record(name: &str, labels: &str) -> String {
    format!(
        "apiVersion: {INFRA}/v1beta1\nkind: ElementalHost\nmetadata: {{name: {name}, namespace: {NS}, \
         labels: {{{PREFIX}/installed: 'true', {labels}}}}}\nspec: {{}}\n"
    )
}

/// Three free hosts that fit, one that does not, and a cluster that asks for a host's address.
fn free() -> World {
    let mut world = site().on_kubernetes();
    for name in ["edge-a", "edge-b", "edge-c"] {
        world.write(&record(name, "role: cp"));
        world.enrol(name);
    }
    world.write(&record("edge-0", "role: worker"));
    world.enrol("edge-0");
    world.write(&cluster("c", "kedge.dev/endpoint-mode: HostAddress", ""));
    world.write(&format!(
        "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: RKE2ControlPlane\n\
         metadata: {{name: c, namespace: {NS}}}\nspec: {{machineTemplate: {{spec: {{infrastructureRef: \
         {{apiGroup: {INFRA}, kind: ElementalMachineTemplate, name: c}}}}}}}}\n---\n\
         apiVersion: {INFRA}/v1beta1\nkind: ElementalMachineTemplate\nmetadata: {{name: c, namespace: \
         {NS}}}\nspec: {{template: {{spec: {{selector: {{matchLabels: {{role: cp}}}}}}}}}}\n"
    ));
    let document = world.document("cluster.x-k8s.io", "Cluster", "c");
    document["spec"]["controlPlaneRef"] = json!({"apiGroup": "controlplane.cluster.x-k8s.io",
        "kind": "RKE2ControlPlane", "name": "c"});
    world.core();
    world
}

fn labels(objects: &Objects, name: &str) -> Value {
    let key = ObjectKey::new(INFRA, "ElementalHost", Name::new(NS, name));
    let marks = objects.content(&key, &Layer::Marks);
    marks.map_or(Value::Null, |marks| marks["metadata"]["labels"].clone())
}

fn reserved() -> Value {
    json!({format!("{PREFIX}/machine-name"): "kedge-reserved"})
}

#[test]
fn the_choice_is_kept_then_the_hosts_are_reserved_then_the_address_is_published() {
    let world = free();
    let writes = plan(&world.snapshot()).writes;
    let kinds: Vec<&str> = writes.iter().map(|write| write.key.kind.as_str()).collect();
    let first = |kind: &str| kinds.iter().position(|other| *other == kind).unwrap();
    let last = |kind: &str| kinds.iter().rposition(|other| *other == kind).unwrap();
    assert!(first("LoadBalancer") < first("ElementalHost"));
    assert!(last("ElementalHost") < first("ElementalCluster"));
}

#[test]
fn every_free_host_that_fits_is_reserved_until_the_control_plane_is_initialized() {
    let mut world = free();
    world.settle();
    let mut chosen = reserved();
    chosen["kedge.dev/endpoint-for"] = json!("c");
    assert_eq!(
        labels(&world.objects, "edge-a"),
        chosen,
        "the first of those that fit"
    );
    assert_eq!(labels(&world.objects, "edge-b"), reserved());
    assert_eq!(labels(&world.objects, "edge-c"), reserved());
    assert_eq!(
        labels(&world.objects, "edge-0"),
        Value::Null,
        "of another selector"
    );
    assert_eq!(world.endpoints("c").0.unwrap()["host"], "10.20.14.11");
    // The first machine appears: the chosen host is linked to it, the others stay out.
    world.write(&format!(
        "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {{name: m, namespace: {NS}, labels: \
         {{cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/control-plane: ''}}}}\nspec: {{clusterName: c, \
         infrastructureRef: {{apiGroup: {INFRA}, kind: ElementalMachine, name: em}}}}\n---\n\
         apiVersion: {INFRA}/v1beta1\nkind: ElementalMachine\nmetadata: {{name: em, namespace: {NS}}}\n\
         spec: {{}}\n"
    ));
    world.settle();
    let linked = json!({"kedge.dev/endpoint-for": "c",
        format!("{PREFIX}/elemental-machine-name"): "em"});
    assert_eq!(labels(&world.objects, "edge-a"), linked);
    assert_eq!(labels(&world.objects, "edge-b"), reserved());
    for status in [
        json!({"conditions": [{"type": "ControlPlaneInitialized", "status": "True"}]}),
        json!({"initialization": {"controlPlaneInitialized": true}}),
    ] {
        let mut world = World {
            objects: world.objects.clone(),
            ..free()
        };
        world.document("cluster.x-k8s.io", "Cluster", "c")["status"] = status;
        world.settle();
        assert_eq!(labels(&world.objects, "edge-a"), linked);
        assert_eq!(labels(&world.objects, "edge-b"), Value::Null);
    }
}

#[test]
fn a_host_that_labels_itself_is_repaired_and_a_paused_cluster_is_not_touched() {
    let mut world = free();
    world.settle();
    let key = ObjectKey::new(INFRA, "ElementalHost", Name::new(NS, "edge-b"));
    world.objects.by_key.get_mut(&key).unwrap().marks = None;
    world.settle();
    assert_eq!(labels(&world.objects, "edge-b"), reserved());
    world.document("cluster.x-k8s.io", "Cluster", "c")["spec"]["paused"] = json!(true);
    world.write(&record("edge-d", "role: cp"));
    world.settle();
    assert_eq!(labels(&world.objects, "edge-b"), reserved());
    assert_eq!(labels(&world.objects, "edge-d"), Value::Null);
}

#[test]
fn a_records_annotation_shows_the_addresses_its_host_reports() {
    let mut world = demo().on_kubernetes();
    world.enrol("edge-a");
    world.settle();
    let key = ObjectKey::new(INFRA, "ElementalHost", Name::new(NS, "edge-a"));
    let shown = |world: &World| {
        let marks = world.objects.content(&key, &Layer::Marks).unwrap();
        let text = marks["metadata"]["annotations"]["kedge.dev/addresses"]
            .as_str()
            .unwrap();
        serde_json::from_str::<Value>(text).unwrap()
    };
    assert_eq!(
        shown(&world),
        json!([{"type": "InternalIP", "address": "10.20.14.11"}])
    );
    world.report("edge-a", |report| {
        report.addresses[0].address = "10.20.14.77".to_owned()
    });
    world.settle();
    assert_eq!(shown(&world)[0]["address"], "10.20.14.77");
}

#[test]
fn a_host_goes_with_the_record_it_was_enrolled_for_and_not_with_another_of_its_name() {
    let mut world = free();
    world.settle();
    let host = crate::snapshot::key::<kedge_crd::EdgeHostSpec>(&Name::new(NS, "edge-a"));
    let owner = |world: &World| {
        let layer = world.objects.owned(&host, crate::managers::CONFIG).unwrap();
        layer["metadata"]["ownerReferences"].clone()
    };
    let first = owner(&world);
    assert_eq!(first[0]["kind"], "ElementalHost");
    assert_eq!(first[0]["uid"], "uid-ElementalHost-edge-a");
    let record = ObjectKey::new(INFRA, "ElementalHost", Name::new(NS, "edge-a"));
    let server = world
        .objects
        .by_key
        .get_mut(&record)
        .unwrap()
        .server
        .as_mut();
    server.unwrap().uid = "another".to_owned();
    world.settle();
    assert_eq!(owner(&world), first);
    world.objects.by_key.remove(&record);
    world.settle();
    assert_eq!(owner(&world), first);
}
