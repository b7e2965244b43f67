//! Who may be worked on: ownership, external management, deletion, `clusterctl move`, forced blanks.

use kedge_core::{Code, Fix, Problem};
use kedge_crd::balancer::Refill;
use serde_json::json;

use super::world::{NS, VIP, World, cluster, demo, site};
use crate::{
    managers,
    plan::{Plan, plan},
    store::{Layer, Name, ObjectKey, Write},
};

const INFRA: &str = "infrastructure.cluster.x-k8s.io";
const CAPI: &str = "cluster.x-k8s.io";

/// A site on Kubernetes with one cluster that asks for a VIP.
fn asked() -> World {
    let mut world = site().on_kubernetes();
    world.write(&cluster("c", VIP, ""));
    world
}

/// The same, filled and copied.
fn filled() -> World {
    let mut world = asked();
    world.core();
    world.settle();
    world.core();
    world.settle();
    world
}

fn published(world: &World) -> String {
    world.condition("c", "EndpointPublished")
}

/// The plan as it is, and the status of the infrastructure cluster by it.
fn infra_status(world: &World, kind: &str) -> Option<serde_json::Value> {
    let key = ObjectKey::new(INFRA, kind, Name::new(NS, "c"));
    let status = world.objects.content(&key, &Layer::Status)?;
    Some(status["status"].clone())
}

#[test]
fn an_infrastructure_cluster_is_filled_once_its_cluster_owns_it_and_core_copies() {
    let mut world = asked();
    world.settle();
    assert_eq!(world.endpoints("c"), (None, None));
    let waiting = published(&world);
    assert!(waiting.starts_with("False: WaitingForOwner"), "{waiting}");
    assert!(
        waiting.contains("is not owned by Cluster store-014/c yet"),
        "{waiting}"
    );
    world.core();
    world.settle();
    let filled = Some(json!({"host": "10.20.14.10", "port": 6443}));
    assert_eq!(
        world.endpoints("c"),
        (filled.clone(), None),
        "the Cluster is core's"
    );
    world.core();
    assert_eq!(world.endpoints("c").1, filled);
    world.settle();
    assert!(published(&world).starts_with("True: Published"));
    assert_eq!(plan(&world.snapshot()).writes, []);
}

#[test]
fn an_owner_of_another_uid_or_group_is_no_owner() {
    for (pointer, wrong) in [
        ("uid", json!("another")),
        ("kind", json!("Other")),
        ("name", json!("d")),
        ("apiVersion", json!("cluster.example.org/v1")),
    ] {
        let mut world = asked();
        world.core();
        let document = world.document(INFRA, "ElementalCluster", "c");
        document["metadata"]["ownerReferences"][0][pointer] = wrong;
        world.settle();
        assert_eq!(world.endpoints("c").0, None, "{pointer}");
    }
}

#[test]
fn an_infrastructure_cluster_managed_by_kedge_is_made_ready_in_its_contract() {
    for (kind, flag) in [
        ("ElementalCluster", "/ready"),
        ("NewCluster", "/initialization/provisioned"),
    ] {
        let mut world = site().on_kubernetes();
        let annotations = format!("{VIP}, cluster.x-k8s.io/managed-by: kedge");
        let text = cluster("c", &annotations, "").replace("ElementalCluster", kind);
        world.write(&text);
        world.settle();
        assert_eq!(infra_status(&world, kind), None, "{kind}: not owned yet");
        world.core();
        world.settle();
        let status = infra_status(&world, kind).unwrap();
        assert_eq!(status.pointer(flag), Some(&json!(true)), "{kind}: {status}");
        assert_eq!(status["conditions"][0]["type"], "Ready");
        assert_eq!(status["conditions"][0]["status"], "True");
        // Nothing is taken back, and nothing is written twice.
        world.later(100);
        world.settle();
        assert_eq!(infra_status(&world, kind), Some(status.clone()));
        let document = world.document(CAPI, "Cluster", "c");
        document["spec"]["paused"] = json!(true);
        world.settle();
        assert_eq!(infra_status(&world, kind), Some(status));
    }
}

#[test]
fn an_infrastructure_cluster_managed_by_kedge_says_what_is_waited_for() {
    for (kind, ready) in [
        ("ElementalCluster", Some(&json!(false))),
        ("NewCluster", None),
    ] {
        let mut world = site().on_kubernetes();
        let annotations = VIP.replace("edge-lan", "nowhere");
        let annotations = format!("{annotations}, cluster.x-k8s.io/managed-by: kedge");
        world.write(&cluster("c", &annotations, "").replace("ElementalCluster", kind));
        world.settle();
        assert_eq!(infra_status(&world, kind), None, "{kind}: not owned yet");
        world.core();
        world.settle();
        let status = infra_status(&world, kind).unwrap();
        let condition = |status: &serde_json::Value, field: &str| {
            status["conditions"][0][field].as_str().unwrap().to_owned()
        };
        assert_eq!(condition(&status, "status"), "False");
        assert_eq!(condition(&status, "reason"), "WaitingForPool");
        assert!(
            condition(&status, "message").contains("nowhere"),
            "{status}"
        );
        assert_eq!(status.get("ready"), ready, "{kind}");
        assert_eq!(status.get("initialization"), None);
        // Nothing is written twice, and what is said since when is kept.
        world.later(100);
        world.settle();
        assert_eq!(infra_status(&world, kind), Some(status.clone()));
        let pool = world.document("kedge.dev", "VIPPool", "edge-lan").clone();
        let text = pool.to_string().replace("\"edge-lan\"", "\"nowhere\"");
        world.write(&text);
        world.settle();
        let served = infra_status(&world, kind).unwrap();
        assert_eq!(condition(&served, "status"), "True");
        let since = |status: &serde_json::Value| condition(status, "lastTransitionTime");
        assert_ne!(since(&served), since(&status));
    }
}

#[test]
fn a_provider_that_is_there_keeps_its_status_and_another_manager_keeps_everything() {
    let world = filled();
    assert_eq!(
        infra_status(&world, "ElementalCluster"),
        None,
        "cooperative mode"
    );
    let mut world = site().on_kubernetes();
    let annotations = format!("{VIP}, cluster.x-k8s.io/managed-by: others");
    world.write(&cluster("c", &annotations, ""));
    world.core();
    world.settle();
    assert_eq!(world.endpoints("c"), (None, None));
    assert_eq!(infra_status(&world, "ElementalCluster"), None);
    assert!(published(&world).starts_with("False: Forbidden"));
    let key = ObjectKey::new(INFRA, "ElementalCluster", Name::new(NS, "c"));
    let layers = world.objects.get(&key).unwrap();
    assert!(layers.owned.is_empty() && layers.marks.is_none());
}

#[test]
fn nothing_is_filled_for_what_is_being_deleted_and_what_was_filled_stays() {
    for (group, kind) in [(CAPI, "Cluster"), (INFRA, "ElementalCluster")] {
        let mut world = asked();
        world.settle();
        world.core();
        world.delete(group, kind, "c");
        world.settle();
        assert_eq!(world.endpoints("c").0, None, "{kind}");
        assert!(published(&world).starts_with("False: Deleting"), "{kind}");
        let mut world = filled();
        let before = world.endpoints("c");
        world.delete(group, kind, "c");
        world.settle();
        assert_eq!(world.endpoints("c"), before, "{kind}");
        assert!(published(&world).starts_with("True: Deleting"), "{kind}");
        assert!(world.condition("c", "Paused").starts_with("False"));
    }
}

#[test]
fn a_topology_cluster_without_its_infrastructure_names_the_cause() {
    let mut world = asked();
    world.remove(INFRA, "ElementalCluster", "c");
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: c, namespace: {NS}}}\n\
         spec: {{clusterName: c, mode: VIP, vip: {{poolRef: {{name: edge-lan}}}}}}\n"
    ));
    for (class, with_ref) in [("classRef", true), ("class", true), ("class", false)] {
        let document = world.document(CAPI, "Cluster", "c");
        let name = json!("edge-class");
        document["spec"]["topology"] = match class {
            "classRef" => json!({"classRef": {"name": name}}),
            _ => json!({"class": name}),
        };
        if !with_ref {
            document["spec"]
                .as_object_mut()
                .unwrap()
                .remove("infrastructureRef");
        }
        world.settle();
        let waiting = published(&world);
        assert!(
            waiting.starts_with("False: WaitingForOwner: ClusterClass `edge-class`"),
            "{waiting}"
        );
        assert!(
            waiting.contains("leave controlPlaneEndpoint out of the class's template"),
            "{waiting}"
        );
    }
}

/// Somebody applies `host: ""` by force: our field is taken away.
fn blank_by_force(world: &mut World) {
    let key = ObjectKey::new(INFRA, "ElementalCluster", Name::new(NS, "c"));
    let layers = world.objects.by_key.get_mut(&key).unwrap();
    layers.owned.remove(managers::ENDPOINT);
    let server = layers.server.get_or_insert_default();
    server.endpoint_owners = vec!["argocd-controller".to_owned()];
    let document = world.document(INFRA, "ElementalCluster", "c");
    document["spec"] = json!({"controlPlaneEndpoint": {"host": "", "port": 0}});
}

#[test]
fn a_fill_that_met_a_conflict_counts_once() {
    let mut world = filled();
    blank_by_force(&mut world);
    world.settle();
    blank_by_force(&mut world);
    world.later(1);
    // It was tried and refused, and is left alone for a moment.
    let infra = ObjectKey::new(INFRA, "ElementalCluster", Name::new(NS, "c"));
    let conflict = Problem::new(Code::HostStateNotPersisted, "somebody wrote meanwhile");
    world.refused.insert(infra.clone(), conflict);
    let waiting = plan(&world.snapshot());
    let is_fill = |write: &Write| write.key == infra && matches!(write.layer, Layer::Owned(_));
    assert!(waiting.writes.iter().any(is_fill), "it is still wanted");
    for write in waiting.writes.iter().filter(|write| !is_fill(write)) {
        world.objects.apply(write);
    }
    assert_eq!(world.balancer("c").1.refill.unwrap().count, 1);
    let text = published(&world);
    let said = "False: Conflict: somebody wrote meanwhile: argocd-controller writes";
    assert!(text.starts_with(said), "{text}");
    world.refused.clear();
    world.settle();
    assert_eq!(world.balancer("c").1.refill.unwrap().count, 2);
    assert!(published(&world).starts_with("True"));
}

#[test]
fn an_endpoint_that_the_server_refuses_is_not_said_to_be_published() {
    let infra = ObjectKey::new(INFRA, "ElementalCluster", Name::new(NS, "c"));
    let problem = || Problem::new(Code::HostStateNotPersisted, "it cannot be written");
    let rule = "give the manager's role this rule: {…}";
    let table = [
        (problem().fix(Fix::text(rule)), "False: Forbidden", rule),
        (problem(), "False: WriteRefused", "it is tried again"),
        (
            problem().evidence("policy p denied it").evidence("more"),
            "False: WriteRefused",
            "policy p denied it; it is tried again",
        ),
    ];
    for (problem, reason, why) in table {
        let mut world = site();
        world.write(&cluster("c", VIP, ""));
        world.refused.insert(infra.clone(), problem);
        let refused = |write: &Write| write.key == infra;
        // The moment it is tried, and while it is left alone.
        for _ in 0..2 {
            let waiting = plan(&world.snapshot());
            assert!(waiting.writes.iter().any(refused), "it is still wanted");
            for write in waiting.writes.iter().filter(|write| !refused(write)) {
                world.objects.apply(write);
            }
        }
        let said = format!("{reason}: it cannot be written: {why}");
        assert!(
            published(&world).starts_with(&said),
            "{}",
            published(&world)
        );
        world.refused.clear();
        world.settle();
        assert!(published(&world).starts_with("True: Published"));
        // Something else of the same object says nothing of the endpoint.
        world.refused.insert(infra.clone(), problem_of_its_status());
        assert!(published(&world).starts_with("True: Published"));
        assert_eq!(world.settle().writes, []);
    }
}

fn problem_of_its_status() -> Problem {
    Problem::new(Code::HostStateNotPersisted, "its status cannot be written")
}

#[test]
fn a_forced_blank_is_filled_again_after_growing_pauses_and_explained() {
    let mut world = filled();
    let endpoint = json!({"host": "10.20.14.10", "port": 6443});
    let mut pause = 0;
    for count in 1..=12 {
        blank_by_force(&mut world);
        if pause > 0 {
            let waiting = world.settle();
            assert!(published(&world).starts_with("False: Conflict: argocd-controller writes"));
            assert_ne!(world.endpoints("c").0, Some(endpoint.clone()));
            let wake = waiting.wake.earliest().unwrap().to_string();
            world.later(pause);
            assert_eq!(wake, world.now, "{count}");
        }
        world.settle();
        assert_eq!(world.endpoints("c").0, Some(endpoint.clone()), "{count}");
        let text = published(&world);
        assert!(
            text.starts_with("True: Published: 10.20.14.10:6443: argocd-controller"),
            "{text}"
        );
        assert!(text.contains("leave controlPlaneEndpoint out"), "{text}");
        let refill = world.balancer("c").1.refill;
        let at = world.now.clone();
        let by = "argocd-controller".to_owned();
        assert_eq!(refill, Some(Refill { count, at, by }));
        pause = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300][count as usize - 1];
    }
    // Quiet for an hour: forgotten, and the next one is filled at once.
    let quiet = world.settle().wake.earliest().unwrap().to_string();
    world.later(3600);
    assert_eq!(quiet, world.now);
    world.settle();
    assert_eq!(world.balancer("c").1.refill, None);
    blank_by_force(&mut world);
    world.settle();
    assert_eq!(world.endpoints("c").0, Some(endpoint));
}

/// A served site on Kubernetes.
fn served() -> (World, Plan) {
    let mut world = demo().on_kubernetes();
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b", "edge-c"] {
        world.enrol(host);
    }
    world.core();
    world.settle();
    world.core();
    let plan = world.settle();
    (world, plan)
}

#[test]
fn a_move_away_freezes_the_hosts_and_writes_nothing() {
    let (mut world, before) = served();
    assert_eq!(before.hosts[&Name::new(NS, "edge-a")].vips.len(), 1);
    world.document(CAPI, "Cluster", "edge")["spec"]["paused"] = json!(true);
    world.settle();
    let moved = |key: &&ObjectKey| key.name.namespace == NS && key.kind != "VIPPool";
    let keys: Vec<ObjectKey> = world.objects.by_key.keys().filter(moved).cloned().collect();
    for key in keys {
        // `clusterctl move` replaces the annotations, deletes, and empties the finalizers.
        let layers = world.objects.by_key.get_mut(&key).unwrap();
        layers.server.get_or_insert_default().deletion_timestamp = Some(world.now.clone());
        layers.marks = Some(json!({"metadata": {"annotations":
            {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}}));
        assert!(!world.objects.vanish(&key), "{key}");
        let plan = plan(&world.snapshot());
        assert_eq!(plan.hosts, before.hosts, "after {key}");
        let written = plan.writes.iter().find(|write| write.key == key);
        assert_eq!(written, None, "after {key}");
    }
    let gateways = plan(&world.snapshot()).gateways;
    let listeners = |plans: &std::collections::BTreeMap<_, kedge_control::agent::GatewayConfig>| {
        let all = plans.values().map(|config| config.listeners.clone());
        all.collect::<Vec<_>>()
    };
    assert_eq!(listeners(&gateways), listeners(&before.gateways));
}

#[test]
fn what_was_moved_here_without_its_status_keeps_vip_router_id_and_slots() {
    let (mut world, before) = served();
    for layers in world.objects.by_key.values_mut() {
        layers.status = None;
        let value = layers.effective();
        if let Some(user) = &mut layers.user {
            user.value = value;
        } else {
            let origin = "moved".to_owned();
            layers.user = Some(crate::store::UserDocument { value, origin });
        }
        layers.owned.clear();
        layers.marks = None;
        layers.server.get_or_insert_default().uid.push_str("-new");
    }
    world.core();
    let after = world.settle();
    let name = Name::new(NS, "edge-a");
    assert_eq!(after.hosts[&name].vips, before.hosts[&name].vips);
    assert_eq!(after.hosts[&name].tunnel, before.hosts[&name].tunnel);
    assert_eq!(
        after.hosts[&name].generation,
        before.hosts[&name].generation
    );
    assert!(published_of(&world, "edge").starts_with("True"));
}

fn published_of(world: &World, name: &str) -> String {
    world.condition(name, "EndpointPublished")
}
