//! What survives a move to another cluster: status is stripped, every object gets another uid, the
//! manager there has heard of nobody, and yet nothing changes for hosts and clients.

use kedge_core::vip::RouterState;
use serde_json::{Value, json};

use super::world::{NS, World, demo};
use crate::{
    plan::{Plan, plan},
    snapshot::Live,
    store::Name,
};

/// A site whose three clusters have endpoints, and whose hosts are in their VIP.
fn served() -> World {
    let mut world = demo().on_kubernetes();
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b", "edge-c"] {
        world.enrol(host);
    }
    for _ in 0..2 {
        world.core();
        world.settle();
    }
    let since = world.now.clone();
    world.vip_state("edge-a", "edge", RouterState::Active, &since);
    world.settle();
    world
}

/// What `clusterctl move` makes of every object: managers of fields stay, status goes, uids are new
/// and references to owners follow them.
fn moves(world: &mut World) {
    let another = |uid: &Value| json!(format!("moved-{}", uid.as_str().unwrap_or_default()));
    let renew = |value: &mut Value| {
        let owners = value.pointer_mut("/metadata/ownerReferences");
        for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
            owner["uid"] = another(&owner["uid"]);
        }
    };
    for layers in world.objects.by_key.values_mut() {
        layers.status = None;
        if let Some(server) = &mut layers.server {
            server.uid = format!("moved-{}", server.uid);
            server.generation = Some(1);
        }
        layers.owned.values_mut().for_each(renew);
        if let Some(user) = &mut layers.user {
            renew(&mut user.value);
            if let Some(uid) = user.value.pointer_mut("/metadata/uid") {
                *uid = another(uid);
            }
            // Cluster API's own are written again by its managers; ours by us.
            user.value.as_object_mut().unwrap().remove("status");
        }
    }
    world.live = Live::default();
    world.later(600);
}

fn seen_by_hosts(plan: &Plan) -> Vec<(&Name, Value)> {
    let each = plan.hosts.iter();
    each.map(|(name, config)| (name, serde_json::to_value(config).unwrap()))
        .collect()
}

#[test]
fn a_move_changes_nothing_that_a_host_or_a_client_sees() {
    let mut world = served();
    let before = world.settle();
    let clusters = ["edge", "edge-tunnel", "edge-host"];
    let endpoints = clusters.map(|cluster| world.endpoints(cluster));
    let (spec, _) = world.balancer("edge");
    let (tunnel, _) = world.balancer("edge-tunnel");
    assert!(spec.vip.as_ref().unwrap().vrid.is_some() && !tunnel.listeners.is_empty());
    moves(&mut world);
    let first = plan(&world.snapshot());
    assert_eq!(seen_by_hosts(&first), seen_by_hosts(&before));
    world.settle();
    assert_eq!(clusters.map(|cluster| world.endpoints(cluster)), endpoints);
    let (moved, _) = world.balancer("edge");
    assert_eq!(moved.vip, spec.vip, "address, router id and slots");
    assert_eq!(world.balancer("edge-tunnel").0.listeners, tunnel.listeners);
    for host in ["edge-a", "edge-b", "edge-c"] {
        let name = Name::new(NS, host);
        let snapshot = world.snapshot();
        let identity = snapshot.hosts[&name].spec.identity.as_ref().unwrap();
        assert_eq!(identity.uid, format!("uid-{host}"));
    }
    // They report again, and find what they have.
    for host in ["edge-a", "edge-b", "edge-c"] {
        world.report(host, |_| {});
    }
    let after = world.settle();
    assert_eq!(seen_by_hosts(&after), seen_by_hosts(&before));
}

#[test]
fn while_a_cluster_is_paused_for_a_move_nothing_of_it_is_written() {
    let mut world = served();
    for cluster in ["edge", "edge-tunnel", "edge-host"] {
        let document = world.document("cluster.x-k8s.io", "Cluster", cluster);
        document["spec"]["paused"] = json!(true);
    }
    world.settle();
    // The copies that came first have no status; only that is written to them.
    moves(&mut world);
    let written = plan(&world.snapshot()).writes;
    let status = |write: &crate::store::Write| write.layer == crate::store::Layer::Status;
    let more: Vec<_> = written.iter().filter(|write| !status(write)).collect();
    assert!(more.is_empty(), "{more:?}");
}
