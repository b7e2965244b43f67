//! Endpoints at a gateway that hosts answer for themselves.

use kedge_control::agent::ShortcutConfig;
use serde_json::json;

use super::world::{NS, World, cluster, site};
use crate::store::Name;

/// A cluster with three control planes and a worker, reached through the tunnel.
fn served(shortcut: &str) -> World {
    let mut world = site();
    world.write(&cluster(
        "edge",
        "",
        "controlPlaneEndpoint: {host: \"\", port: 0}",
    ));
    world.write(include_str!("../../../tests/fixtures/demo/machines.yaml"));
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: edge, namespace: {NS}}}\n\
         spec: {{clusterName: edge, mode: Tunnel, gatewayRef: {{name: gw}}, {shortcut}\n  \
         ports: [{{name: api, port: 6443}}, {{name: join, port: 9345, targetPort: 9346}}]}}\n"
    ));
    world.write(&format!(
        "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\n\
         metadata:\n  name: edge-worker-d\n  namespace: {NS}\n  labels: {{cluster.x-k8s.io/cluster-name: edge}}\n\
         spec:\n  clusterName: edge\n  infrastructureRef:\n    \
         {{apiGroup: infrastructure.cluster.x-k8s.io, kind: ElementalHost, name: edge-d}}\n"
    ));
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b", "edge-c", "edge-d", "edge-e"] {
        world.enrol(host);
    }
    world
}

fn told(world: &mut World, host: &str) -> Vec<ShortcutConfig> {
    let plan = world.settle();
    plan.hosts[&Name::new(NS, host)].shortcuts.clone()
}

fn targets(world: &mut World, host: &str) -> String {
    let told = told(world, host);
    let mut names = String::new();
    for target in &told[0].targets {
        names.extend(target.host.chars().last());
    }
    names
}

#[test]
fn every_host_of_the_cluster_is_told_of_its_endpoint_and_of_the_control_planes() {
    let mut world = served("shortcut: LAN,");
    let target = |host: &str| {
        let last = 11 + host.bytes().last().unwrap() % 16 - 1;
        json!({"host": format!("{NS}/{host}"), "address": format!("10.20.14.{last}")})
    };
    let wanted = json!([{
        "name": format!("{NS}/edge"),
        "addresses": ["203.0.113.7"],
        "ports": [{"port": 30000, "targetPort": 6443}, {"port": 30001, "targetPort": 9346}],
        "targets": [target("edge-a"), target("edge-b"), target("edge-c")],
    }]);
    for host in ["edge-a", "edge-d"] {
        let told = serde_json::to_value(told(&mut world, host)).unwrap();
        assert_eq!(told, wanted, "{host}");
    }
    assert_eq!(told(&mut world, "edge-e"), [], "no host of the cluster");
}

#[test]
fn nobody_is_told_where_it_is_not_asked_for() {
    for shortcut in ["", "shortcut: None,"] {
        assert_eq!(told(&mut served(shortcut), "edge-d"), []);
    }
}

#[test]
fn a_host_that_is_no_target_any_more_or_is_elsewhere_is_not_led_to() {
    let mut world = served("shortcut: LAN,");
    assert_eq!(targets(&mut world, "edge-d"), "abc");
    // Its private address is somebody else's at another site.
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\n\
         metadata: {{name: edge-b, namespace: {NS}, labels: {{kedge.dev/site: elsewhere}}}}\nspec: {{}}\n"
    ));
    assert_eq!(targets(&mut world, "edge-d"), "ac");
    assert_eq!(targets(&mut world, "edge-b"), "b");
    world.document("cluster.x-k8s.io", "Machine", "edge-cp-a")["metadata"]["annotations"] =
        json!({"kedge.dev/lb-disabled": ""});
    assert_eq!(targets(&mut world, "edge-d"), "c");
    // An address that nobody else reaches is none.
    world.report("edge-c", |report| {
        report.addresses[0].address = "169.254.0.9".to_owned();
    });
    assert_eq!(targets(&mut world, "edge-d"), "");
}

#[test]
fn an_endpoint_with_a_name_is_at_its_gateways_address() {
    let mut world = served("shortcut: LAN, dns: {hostname: api.edge.example},");
    let told = told(&mut world, "edge-d");
    assert_eq!(
        told[0].addresses,
        ["203.0.113.7".parse::<std::net::IpAddr>().unwrap()]
    );
}
