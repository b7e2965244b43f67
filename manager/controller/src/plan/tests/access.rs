//! The kubeconfig that leads through the gateway, hosts of any infrastructure, endpoints that
//! follow, and owners that are gone.

use std::collections::BTreeMap;

use serde_json::json;

use super::world::{NS, World, cluster, demo, site};
use crate::{
    managers,
    snapshot::{Kubeconfig, key},
    store::{Name, ObjectKey},
};

const PLANE: &str = "controlplane.cluster.x-k8s.io";

/// A cluster with a VIP whose management side goes through the gateway.
fn off_the_lan() -> World {
    let mut world = site().on_kubernetes();
    world.enrol_gateway("gw-0");
    world.write(&cluster("c", "", ""));
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: c, namespace: {NS}}}\n\
         spec: {{clusterName: c, mode: VIP, vip: {{poolRef: {{name: edge-lan}}}}, gatewayRef: {{name: gw}}, \
         managementAccess: Gateway}}\n"
    ));
    let document = world.document("cluster.x-k8s.io", "Cluster", "c");
    document["spec"]["controlPlaneRef"] =
        json!({"kind": "KubeadmControlPlane", "name": "cp", "apiGroup": PLANE});
    world
}

fn write_plane(world: &mut World, names: &str) {
    world.write(&format!(
        "apiVersion: {PLANE}/v1beta2\nkind: KubeadmControlPlane\n\
         metadata: {{name: cp, namespace: {NS}}}\nspec:\n  kubeadmConfigSpec: \
         {{clusterConfiguration: {{apiServer: {{certSANs: [{names}]}}}}}}\n"
    ));
    world.core();
}

#[test]
fn a_kubeconfig_leads_through_the_gateway_once_the_certificate_carries_its_address() {
    let mut world = off_the_lan();
    world.core();
    // The control plane is not there yet, then it carries another name, then this one.
    let plan = world.settle();
    assert_eq!(plan.kubeconfigs, BTreeMap::new());
    let waiting = world.condition("c", "EndpointPublished");
    assert!(
        waiting.starts_with("False: WaitingForOwner: there is no Kubeadm"),
        "{waiting}"
    );
    write_plane(&mut world, "api.example.org");
    assert_eq!(world.settle().kubeconfigs, BTreeMap::new());
    let waiting = world.condition("c", "EndpointPublished");
    assert!(waiting.starts_with("False: SANMissing"), "{waiting}");
    assert_eq!(world.endpoints("c").0, None);
    write_plane(&mut world, "api.example.org, 203.0.113.7");
    let plan = world.settle();
    let server = "https://203.0.113.7:30000".to_owned();
    let name = Name::new(NS, "c");
    assert_eq!(
        plan.kubeconfigs,
        BTreeMap::from([(name.clone(), server.clone())])
    );
    assert!(world.endpoints("c").0.is_some());
    let table = [
        (Kubeconfig::Missing, "False: WaitingForSecret"),
        (
            Kubeconfig::Unlisted,
            "False: Forbidden: Secrets of namespace store-014",
        ),
        (
            Kubeconfig::Forbidden("{rule}".to_owned()),
            "False: Forbidden: give the manager's role this rule: {rule}",
        ),
        (
            Kubeconfig::Unusable("it is no YAML".to_owned()),
            "False: Unusable",
        ),
        (
            Kubeconfig::Leads("https://10.20.14.10:6443".to_owned()),
            "False: Pending",
        ),
        (Kubeconfig::Leads(server), "True: Rewritten"),
    ];
    for (found, said) in table {
        world.kubeconfigs = BTreeMap::from([(name.clone(), found)]);
        world.settle();
        let condition = world.condition("c", "ManagementReady");
        assert!(condition.starts_with(said), "{condition}");
    }
    // A manager that starts anew has not looked yet, and says what was said.
    world.kubeconfigs.clear();
    assert_eq!(world.settle().writes, []);
    // A name that goes leads nobody anywhere: it would lock the management side out.
    write_plane(&mut world, "api.example.org");
    assert_eq!(world.settle().kubeconfigs, BTreeMap::new());
    assert!(
        world
            .condition("c", "EndpointPublished")
            .starts_with("True")
    );
}

#[test]
fn a_kubeconfig_is_led_back_when_the_management_side_uses_the_endpoint_again() {
    let mut world = off_the_lan();
    write_plane(&mut world, "203.0.113.7");
    world.settle();
    world.core();
    let name = Name::new(NS, "c");
    let through = || Kubeconfig::Leads("https://203.0.113.7:30000".to_owned());
    world.kubeconfigs = BTreeMap::from([(name.clone(), through())]);
    world.settle();
    assert!(world.condition("c", "ManagementReady").starts_with("True"));
    let has_condition = |world: &World| {
        let (_, status) = world.balancer("c");
        kedge_crd::condition::find(&status.conditions, "ManagementReady").is_some()
    };
    let asked = world.document("kedge.dev", "LoadBalancer", "c");
    asked["spec"]["managementAccess"] = json!("Endpoint");
    let server = "https://10.20.14.10:6443".to_owned();
    let wanted = BTreeMap::from([(name.clone(), server.clone())]);
    // Seen as it was left, by a manager that starts anew, and by one that may not.
    let rule = || Kubeconfig::Forbidden("{rule}".to_owned());
    for (seen, said) in [
        (
            Some(through()),
            "False: Pending: Secret store-014/c-kubeconfig is led back",
        ),
        (None, "False: Pending"),
        (
            Some(rule()),
            "False: Forbidden: give the manager's role this rule: {rule}",
        ),
    ] {
        world.kubeconfigs = seen.map(|seen| (name.clone(), seen)).into_iter().collect();
        assert_eq!(world.settle().kubeconfigs, wanted);
        let condition = world.condition("c", "ManagementReady");
        assert!(condition.starts_with(said), "{condition}");
    }
    world.kubeconfigs = BTreeMap::from([(name.clone(), Kubeconfig::Leads(server))]);
    assert_eq!(world.settle().kubeconfigs, BTreeMap::new(), "it is there");
    assert!(!has_condition(&world));
    world.kubeconfigs.clear();
    assert_eq!(
        world.settle().kubeconfigs,
        BTreeMap::new(),
        "and left alone"
    );
}

#[test]
fn nobody_leads_a_kubeconfig_of_a_cluster_at_rest() {
    let mut world = off_the_lan();
    write_plane(&mut world, "203.0.113.7");
    assert_eq!(world.settle().kubeconfigs.len(), 1);
    world.document("cluster.x-k8s.io", "Cluster", "c")["spec"]["paused"] = json!(true);
    assert_eq!(world.settle().kubeconfigs.len(), 0);
    world.document("cluster.x-k8s.io", "Cluster", "c")["spec"]["paused"] = json!(false);
    world.delete("cluster.x-k8s.io", "Cluster", "c");
    assert_eq!(world.settle().kubeconfigs.len(), 0);
}

#[test]
fn a_host_is_found_by_its_inventory_by_its_machines_part_or_by_the_machine() {
    for (group, kind) in [
        ("infrastructure.cluster.x-k8s.io", "ElementalMachine"),
        ("cluster.x-k8s.io", "Machine"),
    ] {
        let mut world = demo().on_kubernetes();
        world.enrol("edge-a");
        let host = key::<kedge_crd::EdgeHostSpec>(&Name::new(NS, "edge-a"));
        let layers = world.objects.by_key.get_mut(&host).unwrap();
        let owned = layers.owned.get_mut(managers::ENROL).unwrap();
        owned["spec"]["hostRef"] = json!({"apiGroup": group, "kind": kind, "name": "edge-cp-a"});
        world.core();
        world.settle();
        let (_, status) = world.balancer("edge");
        let found = status
            .targets
            .iter()
            .find(|target| target.name == "edge-cp-a");
        assert_eq!(found.unwrap().host, "edge-a", "{kind}");
    }
}

#[test]
fn a_cluster_that_is_gone_stays_the_owner_so_that_the_rest_goes_with_it() {
    let mut world = demo().on_kubernetes();
    world.core();
    world.settle();
    world.settle();
    let balancer = key::<kedge_crd::LoadBalancerSpec>(&Name::new(NS, "edge-tunnel"));
    let owners = |world: &World| {
        let layer = world.objects.owned(&balancer, managers::ENDPOINT);
        layer.map(|layer| layer["metadata"]["ownerReferences"].clone())
    };
    let before = owners(&world);
    assert!(before.as_ref().is_some_and(|owners| owners.is_array()));
    let cluster = ObjectKey::new("cluster.x-k8s.io", "Cluster", Name::new(NS, "edge-tunnel"));
    world.objects.by_key.remove(&cluster);
    world.settle();
    assert_eq!(owners(&world), before);
}

#[test]
fn a_gateways_back_ends_are_counted_and_ready_waits_for_one_alone() {
    let mut world = demo();
    world.enrol_gateway("gw-0");
    world.settle();
    let said = |world: &World| world.condition("edge-tunnel", "BackendsHealthy");
    assert!(said(&world).starts_with("False: NoBackends"));
    for host in ["edge-a", "edge-b"] {
        world.enrol(host);
    }
    world.settle();
    assert!(
        said(&world).starts_with("True: AllHealthy"),
        "{}",
        said(&world)
    );
    world.hearing("edge-a", crate::snapshot::Hearing::Silent);
    world.settle();
    let some = said(&world);
    assert_eq!(
        some,
        "False: SomeUnhealthy: edge-a takes no traffic: 1 of 2 do"
    );
    assert!(
        world
            .condition("edge-tunnel", "IsReachable")
            .starts_with("True")
    );
    world.hearing("edge-b", crate::snapshot::Hearing::Silent);
    world.settle();
    let none = said(&world);
    assert_eq!(none, "False: NoneHealthy: none of 2 hosts takes traffic");
    // Without a gateway there are no back ends.
    let (_, status) = world.balancer("edge-host");
    let has = kedge_crd::condition::find(&status.conditions, "BackendsHealthy");
    assert!(has.is_none());
}
