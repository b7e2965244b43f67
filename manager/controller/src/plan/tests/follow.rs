//! Endpoints that move with their target, whatever comes between what is decided and what is told.

use kedge_core::{Code, Problem};
use serde_json::{Value, json};

use super::world::{NS, World, demo};
use crate::{
    managers,
    plan::{Plan, plan},
    snapshot::key,
    store::{Layer, Name, ObjectKey, Write},
};

/// A Cluster whose endpoint is its host's address, which every object has.
fn follows() -> World {
    let mut world = demo().on_kubernetes();
    for host in ["edge-a", "edge-b"] {
        world.enrol(host);
    }
    let balancer = world.document("kedge.dev", "LoadBalancer", "edge-host");
    balancer["spec"]["endpointPolicy"] = json!("FollowTarget");
    for _ in 0..2 {
        world.core();
        world.settle();
    }
    let endpoints = world.endpoints("edge-host");
    assert_eq!(endpoints.0, endpoints.1);
    world
}

/// Its host is gone; what follows from that, nothing of which is written.
fn moves(world: &mut World) -> Plan {
    let gone = key::<kedge_crd::EdgeHostSpec>(&Name::new(NS, "edge-a"));
    world.objects.by_key.remove(&gone);
    plan(&world.snapshot())
}

/// From here on all is written, and an API server takes the field from who wrote it before.
fn settles_elsewhere(world: &mut World, before: Option<Value>) {
    world.settle();
    assert!(world.objects.owned(&cluster(), managers::FOLLOW).is_some());
    let document = world.document("cluster.x-k8s.io", "Cluster", "edge-host");
    let spec = document["spec"].as_object_mut().unwrap();
    spec.remove("controlPlaneEndpoint");
    world.settle();
    let after = world.endpoints("edge-host");
    assert_ne!(after.0, before);
    assert_eq!(after.0, after.1, "the Cluster has it as well");
    let published = world.condition("edge-host", "EndpointPublished");
    assert!(published.starts_with("True"), "{published}");
}

fn cluster() -> ObjectKey {
    ObjectKey::new("cluster.x-k8s.io", "Cluster", Name::new(NS, "edge-host"))
}

#[test]
fn an_endpoint_follows_to_the_end_although_the_manager_ended_half_way() {
    let mut world = follows();
    let before = world.endpoints("edge-host").0;
    let cut_off = moves(&mut world);
    let decision =
        |write: &&Write| write.key.kind == "LoadBalancer" && matches!(write.layer, Layer::Owned(_));
    let decided: Vec<_> = cut_off.writes.iter().filter(decision).cloned().collect();
    assert!(!decided.is_empty());
    for write in &decided {
        world.objects.apply(write);
    }
    settles_elsewhere(&mut world, before);
    // It stays there, also when nobody asks any more: nobody else has a word in it.
    let after = world.endpoints("edge-host");
    world.remove("kedge.dev", "LoadBalancer", "edge-host");
    world.settle();
    assert_eq!(world.endpoints("edge-host").1, after.1);
}

#[test]
fn an_endpoint_follows_to_the_end_although_the_cluster_was_not_to_be_written_for_a_moment() {
    let mut world = follows();
    let before = world.endpoints("edge-host").0;
    // Cluster API wrote to it meanwhile: it is left alone while everything else goes on.
    let conflict = Problem::new(Code::HostStateNotPersisted, "somebody wrote meanwhile");
    let refused = moves(&mut world);
    let untold = |write: &&Write| write.layer != Layer::Status;
    for write in refused.writes.iter().filter(untold) {
        if write.key != cluster() {
            world.objects.apply(write);
        }
    }
    world.refused.insert(cluster(), conflict);
    for _ in 0..2 {
        for write in plan(&world.snapshot()).writes {
            if write.key != cluster() {
                world.objects.apply(&write);
            }
        }
    }
    let published = world.condition("edge-host", "EndpointPublished");
    assert!(published.starts_with("False: WriteRefused"), "{published}");
    world.refused.clear();
    settles_elsewhere(&mut world, before);
}
