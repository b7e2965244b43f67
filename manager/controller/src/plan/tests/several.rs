//! Several ports, several LoadBalancers of one cluster, names in the place of addresses, and what
//! the conditions say of all that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::world::{NS, World, cluster, demo, site};
use crate::store::Name;

fn lb(name: &str, of: &str, spec: &str) -> String {
    format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: {name}, namespace: {NS}}}\n\
         spec: {{clusterName: {of}, {spec}}}\n"
    )
}

const FROM_POOL: &str = "mode: VIP, vip: {poolRef: {name: edge-lan}}";

#[test]
fn a_second_load_balancer_stands_beside_the_one_that_fills_the_endpoint() {
    let mut world = site();
    world.write(&cluster("c", "", ""));
    world.write(&lb("c", "c", FROM_POOL));
    world.settle();
    // An earlier name does not take over what is published.
    world.write(&lb("b", "c", FROM_POOL));
    world.settle();
    let filled = Some(json!({"host": "10.20.14.10", "port": 6443}));
    assert_eq!(world.endpoints("c"), (filled.clone(), filled.clone()));
    let (spec, status) = world.balancer("b");
    assert_eq!(spec.endpoint.unwrap().host, "10.20.14.14");
    assert_eq!(
        status.target_selector,
        "cluster.x-k8s.io/cluster-name=c,loadbalancer.cluster.x-k8s.io/name=b"
    );
    let published = world.condition("b", "EndpointPublished");
    assert!(
        published.starts_with("True: Beside: LoadBalancer store-014/c fills"),
        "{published}"
    );
    let conditions = status
        .conditions
        .iter()
        .map(|condition| condition.kind.as_str());
    assert!(
        !conditions
            .collect::<Vec<_>>()
            .contains(&"ControlPlaneUnblocked")
    );
    assert!(
        world
            .condition("c", "EndpointPublished")
            .starts_with("True: Published")
    );
    // It keeps its address, and takes the place of the first when that goes.
    world.remove("kedge.dev", "LoadBalancer", "b");
    world.settle();
    assert_eq!(world.endpoints("c").0, filled);
}

#[test]
fn machines_with_the_name_of_a_second_load_balancer_are_its_targets() {
    let mut world = demo();
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b", "edge-c"] {
        world.enrol(host);
    }
    world.settle();
    world.write(&lb(
        "outside",
        "edge",
        "mode: Tunnel, gatewayRef: {name: gw}",
    ));
    world.settle();
    assert_eq!(world.balancer("outside").1.targets, []);
    let machine = world.document("cluster.x-k8s.io", "Machine", "edge-cp-b");
    machine["metadata"]["labels"]["loadbalancer.cluster.x-k8s.io/name"] = json!("outside");
    let plan = world.settle();
    let targets = world.balancer("outside").1.targets;
    assert_eq!(targets.len(), 1);
    assert_eq!(targets[0].name, "edge-cp-b");
    let gateway = plan.gateways.values().next().unwrap();
    let listener = gateway
        .listeners
        .iter()
        .find(|of| of.name == "store-014/outside/api");
    assert_eq!(listener.unwrap().members[0].host, "store-014/edge-b");
    assert_eq!(
        plan.hosts[&Name::new(NS, "edge-b")].vips.len(),
        1,
        "the VIP stays its own"
    );
}

#[test]
fn the_rke2_preset_adds_the_port_where_nodes_join() {
    let table = [
        ("preset: rke2", vec![("api", 6443), ("join", 9345)]),
        (
            "preset: rke2, ports: [{name: one, port: 8443, targetPort: 6443}]",
            vec![("join", 9345), ("one", 6443)],
        ),
        (
            "preset: rke2, ports: [{name: one, port: 9345}]",
            vec![("one", 9345)],
        ),
        (
            "ports: [{name: one, port: 1}, {name: two, port: 2}]",
            vec![("one", 1), ("two", 2)],
        ),
    ];
    for (spec, wanted) in table {
        let mut world = demo();
        world.enrol_gateway("gw-0");
        world.enrol("edge-a");
        world.remove("kedge.dev", "LoadBalancer", "edge-tunnel");
        let given = format!(
            "mode: Tunnel, gatewayRef: {{name: gw}}, targetKind: {{apiGroup: kedge.dev, \
             kind: EdgeHost}}, selector: {{matchLabels: {{kedge.dev/site: {NS}}}}}, {spec}"
        );
        world.write(&lb("edge-tunnel", "edge-tunnel", &given));
        let plan = world.settle();
        let gateway = plan.gateways.values().next().unwrap();
        let listeners = gateway.listeners.iter().filter_map(|listener| {
            let name = listener.name.strip_prefix("store-014/edge-tunnel/")?;
            Some((name, listener.members[0].port))
        });
        let mut listeners: Vec<_> = listeners.collect();
        listeners.sort_unstable();
        assert_eq!(listeners, wanted, "{spec}");
        let ports: BTreeSet<u16> = gateway.listeners.iter().map(|of| of.port).collect();
        assert_eq!(
            ports.len(),
            gateway.listeners.len(),
            "every listener has its own port"
        );
    }
}

#[test]
fn a_name_is_published_in_the_place_of_the_address_once_it_resolves() {
    let mut world = site().on_kubernetes();
    world.write(&cluster("c", "", ""));
    world.write(&lb(
        "c",
        "c",
        &format!("{FROM_POOL}, dns: {{hostname: api.c.example.org}}"),
    ));
    world.core();
    // Nobody has looked yet: that is waited for, and nothing is said of it.
    world.names = Some(BTreeMap::new());
    world.settle();
    assert_eq!(world.endpoints("c").0, None);
    assert!(
        world
            .condition("c", "DNSReady")
            .starts_with("Unknown: NotLookedUp")
    );
    let nowhere = BTreeMap::from([("api.c.example.org".to_owned(), BTreeSet::new())]);
    world.names = Some(nowhere.clone());
    world.settle();
    assert_eq!(world.endpoints("c").0, None);
    let waiting = world.condition("c", "EndpointPublished");
    assert!(
        waiting.starts_with("False: WaitingForDNS: api.c.example.org"),
        "{waiting}"
    );
    assert!(
        world
            .condition("c", "DNSReady")
            .starts_with("False: DNSNotResolvable")
    );
    assert!(
        world
            .condition("c", "IsReachable")
            .starts_with("False: DNSNotResolvable")
    );
    assert!(
        world.condition("c", "Exists").starts_with("True"),
        "the address is kept meanwhile"
    );
    let found = BTreeSet::from(["10.20.14.10".parse().unwrap()]);
    world.names = Some(BTreeMap::from([("api.c.example.org".to_owned(), found)]));
    world.settle();
    let endpoint = Some(json!({"host": "api.c.example.org", "port": 6443}));
    assert_eq!(world.endpoints("c").0, endpoint);
    assert!(
        world
            .condition("c", "DNSReady")
            .starts_with("True: Resolved")
    );
    // A manager that starts anew knows no names, and says what was said.
    world.names = Some(BTreeMap::new());
    let starts = world.settle();
    assert_eq!(starts.writes, []);
    assert!(
        world
            .condition("c", "DNSReady")
            .starts_with("True: Resolved")
    );
    // A name that stops resolving takes nothing back.
    world.names = Some(nowhere);
    world.settle();
    assert_eq!(world.endpoints("c").0, endpoint);
    assert!(
        world
            .condition("c", "EndpointPublished")
            .starts_with("True")
    );
    assert_eq!(
        world.balancer("c").0.vip.unwrap().address,
        Some("10.20.14.10".parse().unwrap())
    );
    // Where nobody looks names up, nobody waits for them.
    let mut world = site();
    world.write(&cluster("c", "", ""));
    world.write(&lb(
        "c",
        "c",
        &format!("{FROM_POOL}, dns: {{hostname: api.c.example.org}}"),
    ));
    world.settle();
    assert_eq!(world.endpoints("c").0, endpoint);
    assert!(world.condition("c", "DNSReady").starts_with("Unknown"));
}

#[test]
fn an_endpoint_waits_until_the_certificate_will_carry_the_gateways_name() {
    let kinds = [
        (
            "KubeadmControlPlane",
            json!({"kubeadmConfigSpec": {"clusterConfiguration": {"apiServer":
            {"certSANs": ["203.0.113.7"]}}}}),
        ),
        (
            "RKE2ControlPlane",
            json!({"serverConfig": {"tlsSan": ["203.0.113.7"]}}),
        ),
        (
            "KThreesControlPlane",
            json!({"kthreesConfigSpec": {"serverConfig":
            {"tlsSan": ["a", "203.0.113.7"]}}}),
        ),
    ];
    for (kind, spec) in kinds {
        let mut world = site();
        world.write(&cluster("c", "", ""));
        let given = "managementAccess: Gateway, gatewayRef: {name: gw}";
        world.write(&lb("c", "c", &format!("{FROM_POOL}, {given}")));
        world.write(&format!(
            "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: {kind}\n\
             metadata: {{name: cp, namespace: {NS}}}\nspec: {{}}\n"
        ));
        let document = world.document("cluster.x-k8s.io", "Cluster", "c");
        document["spec"]["controlPlaneRef"] = json!({"kind": kind, "name": "cp",
            "apiGroup": "controlplane.cluster.x-k8s.io"});
        world.settle();
        assert_eq!(world.endpoints("c").0, None, "{kind}");
        let waiting = world.condition("c", "EndpointPublished");
        assert!(waiting.starts_with("False: SANMissing"), "{waiting}");
        assert!(
            waiting.contains(kind) && waiting.contains("203.0.113.7"),
            "{waiting}"
        );
        let document = world.document("controlplane.cluster.x-k8s.io", kind, "cp");
        document["spec"] = spec;
        world.settle();
        assert!(world.endpoints("c").0.is_some(), "{kind}");
    }
}

#[test]
fn conditions_say_which_generation_they_saw_and_when_core_has_copied() {
    let mut world: World = site().on_kubernetes();
    world.write(&cluster("c", "", ""));
    world.write(&lb("c", "c", FROM_POOL));
    world.core();
    world.settle();
    let unblocked = world.condition("c", "ControlPlaneUnblocked");
    assert!(
        unblocked.starts_with("False: WaitingForCopy"),
        "{unblocked}"
    );
    world.core();
    world.settle();
    assert!(
        world
            .condition("c", "ControlPlaneUnblocked")
            .starts_with("True: EndpointSet")
    );
    let (_, status) = world.balancer("c");
    for condition in &status.conditions {
        assert_eq!(condition.observed_generation, Some(1), "{}", condition.kind);
    }
    for kind in [
        "Exists",
        "IsReachable",
        "MatchesConfig",
        "EndpointPublished",
        "Degraded",
        "Ready",
        "Paused",
    ] {
        assert_ne!(world.condition("c", kind), "", "{kind}");
    }
}

#[test]
fn a_cluster_speaks_for_the_part_its_class_makes_and_that_part_for_itself() {
    let mut world = site();
    world.write(&cluster("c", "", ""));
    let document = world.document("cluster.x-k8s.io", "Cluster", "c");
    let asked = json!({"kedge.dev/endpoint-mode": "VIP", "kedge.dev/vip-pool": "edge-lan"});
    document["metadata"]["annotations"] = asked.clone();
    world.settle();
    let filled = Some(json!({"host": "10.20.14.10", "port": 6443}));
    assert_eq!(world.endpoints("c").0, filled);
    let mut world = site();
    world.write(&cluster("c", "kedge.dev/endpoint-mode: Nonsense", ""));
    let document = world.document("cluster.x-k8s.io", "Cluster", "c");
    document["metadata"]["annotations"] = asked;
    world.settle();
    assert_eq!(world.endpoints("c").0, None);
}

#[test]
fn a_pool_gives_nobody_what_a_host_has() {
    let mut world = site();
    world.write(&cluster("c", "", ""));
    world.write(&lb("c", "c", FROM_POOL));
    world.settle();
    assert_eq!(world.balancer("c").0.endpoint.unwrap().host, "10.20.14.10");
    // Its address is the next of the pool.
    world.enrol("edge-d");
    world.write(&lb("b", "c", FROM_POOL));
    world.settle();
    assert_eq!(world.balancer("b").0.endpoint.unwrap().host, "10.20.14.15");
    // Whoever asks for it by name is believed: the host may be about to give it up.
    world.write(&lb("a", "c", "mode: VIP, vip: {address: 10.20.14.14}"));
    world.settle();
    assert_eq!(world.balancer("a").0.endpoint.unwrap().host, "10.20.14.14");
}
