//! Addresses from the pools of other providers.

use kedge_core::vip::RouterState;
use serde_json::json;

use super::world::{NS, World, demo};
use crate::store::{Layer, Name, ObjectKey, UserDocument};

const IPAM: &str = "ipam.cluster.x-k8s.io";
const PRE: &str = "edge-vip-ipv4";

fn asked() -> World {
    let mut world = demo().on_kubernetes();
    world.enrol("edge-a");
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: edge, namespace: {NS}}}\n\
         spec: {{clusterName: edge, mode: VIP, vip: {{poolRef: {{apiGroup: {IPAM}, \
         kind: InClusterIPPool, name: p}}}}}}\n"
    ));
    world.core();
    world.settle();
    world
}

fn ipam(kind: &str) -> ObjectKey {
    ObjectKey::new(IPAM, kind, Name::new(NS, PRE))
}

/// The provider answers the claim.
fn give(world: &mut World) {
    let owned = world
        .objects
        .owned(&ipam("IPAddressClaim"), "kedge-endpoint")
        .unwrap();
    let mut claim = owned.clone();
    claim["status"] = json!({"addressRef": {"name": PRE}});
    let address = json!({"metadata": {"name": PRE}, "spec": {"address": "10.20.14.50",
        "prefix": 24, "claimRef": {"name": PRE}}});
    for (kind, value) in [("IPAddressClaim", claim), ("IPAddress", address)] {
        let layers = world.objects.by_key.entry(ipam(kind)).or_default();
        let origin = "provider".to_owned();
        layers.user = Some(UserDocument { value, origin });
    }
}

#[test]
fn a_claim_is_made_for_a_foreign_pool_and_its_address_published_and_held() {
    let mut world = asked();
    let claim = world
        .objects
        .owned(&ipam("IPAddressClaim"), "kedge-endpoint")
        .unwrap();
    assert_eq!(
        claim["spec"],
        json!({"clusterName": "edge", "poolRef": {"apiGroup": IPAM, "kind": "InClusterIPPool",
            "name": "p"}})
    );
    let owner = &claim["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], "uid-LoadBalancer-edge");
    assert_eq!(
        (&owner["controller"], &owner["blockOwnerDeletion"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        claim["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"],
        "edge"
    );
    let waiting = world.condition("edge", "EndpointPublished");
    assert!(
        waiting.starts_with("False: WaitingForPool: InClusterIPPool p"),
        "{waiting}"
    );
    give(&mut world);
    world.settle();
    assert_eq!(
        world.endpoints("edge").0,
        Some(json!({"host": "10.20.14.50", "port": 6443}))
    );
    let held = world.objects.content(&ipam("IPAddress"), &Layer::Marks);
    assert_eq!(
        held,
        Some(&json!({"metadata": {"finalizers": ["kedge.dev/vip"]}}))
    );
}

#[test]
fn an_exhausted_pool_is_told_by_the_pool_and_an_address_is_taken_from_our_claim_only() {
    let mut world = asked();
    world.write(&format!(
        "apiVersion: {IPAM}/v1alpha2\nkind: InClusterIPPool\nmetadata: {{name: p, namespace: {NS}}}\n\
         status: {{ipAddresses: {{total: 3, free: 0, used: 3}}}}\n"
    ));
    world.settle();
    let waiting = world.condition("edge", "EndpointPublished");
    assert!(waiting.starts_with("False: PoolExhausted"), "{waiting}");
    for wrong in [
        ("/metadata/ownerReferences/0/uid", json!("another")),
        ("/metadata/ownerReferences/0/controller", json!(false)),
    ] {
        let mut world = asked();
        give(&mut world);
        let claim = world.document(IPAM, "IPAddressClaim", PRE);
        *claim.pointer_mut(wrong.0).unwrap() = wrong.1;
        world.settle();
        assert_eq!(world.endpoints("edge").0, None, "{}", wrong.0);
    }
    let mut world = asked();
    give(&mut world);
    world.delete(IPAM, "IPAddressClaim", PRE);
    world.settle();
    assert_eq!(world.endpoints("edge").0, None, "being deleted");
}

#[test]
fn an_address_is_released_once_no_host_has_it_or_after_the_bounded_wait() {
    for waits in [true, false] {
        let mut world = asked();
        give(&mut world);
        world.settle();
        let since = world.now.clone();
        world.vip_state("edge-a", "edge", RouterState::Active, &since);
        world.settle();
        for machine in ["edge-cp-a", "edge-cp-b", "edge-cp-c"] {
            world.remove("cluster.x-k8s.io", "Machine", machine);
        }
        world.delete("cluster.x-k8s.io", "Cluster", "edge");
        world.delete("kedge.dev", "LoadBalancer", "edge");
        let plan = world.settle();
        assert_eq!(
            plan.hosts[&Name::new(NS, "edge-a")].vips,
            [],
            "withdrawn at once"
        );
        let held = |world: &World| {
            let claim = world
                .objects
                .owned(&ipam("IPAddressClaim"), "kedge-endpoint");
            let address = world.objects.content(&ipam("IPAddress"), &Layer::Marks);
            (claim.is_some(), address.is_some())
        };
        assert_eq!(held(&world), (true, true));
        if waits {
            world.later(64);
            assert_eq!(plan.wake.earliest().unwrap().to_string(), world.now);
        } else {
            world.report("edge-a", |report| report.vips.clear());
            world.settle();
            assert_eq!(held(&world), (true, true), "it may not know it yet");
            let latest = plan.hosts[&Name::new(NS, "edge-a")].generation;
            world.report("edge-a", |report| report.applied_generation = latest);
        }
        world.settle();
        assert_eq!(held(&world), (false, false));
    }
}
