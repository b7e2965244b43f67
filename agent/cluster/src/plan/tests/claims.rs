//! Whose a Service is, and which nodes serve.

use serde_json::{Value, json};

use super::world::{World, node, service, written_by};
use crate::{
    plan::{
        claim::{Claim, claim},
        nodes::{Out, every, local, out},
    },
    snapshot::{Config, Key},
};
use kedge_crd::host::Family;

fn of(unclassed: bool, changes: Value) -> Claim {
    let config = Config {
        unclassed,
        ..Config::default()
    };
    claim(&config, &service("web", changes))
}

#[test]
fn a_service_is_ours_by_its_class_or_by_a_wish() {
    let no_class = json!({"spec": {"loadBalancerClass": null}});
    assert_eq!(of(false, json!({})), Claim::Balancer);
    assert_eq!(
        of(true, json!({"spec": {"loadBalancerClass": "cloud/x"}})),
        Claim::Foreign
    );
    assert_eq!(of(false, no_class.clone()), Claim::Foreign);
    assert_eq!(of(true, no_class), Claim::Balancer);
    let wished = |kind: &str, value: &str| {
        json!({"spec": {"type": kind, "loadBalancerClass": null},
            "metadata": {"annotations": {"kedge.dev/expose": value}}})
    };
    assert_eq!(of(false, wished("NodePort", "true")), Claim::NodePort);
    assert_eq!(of(true, wished("NodePort", "false")), Claim::Foreign);
    assert_eq!(
        of(false, wished("ClusterIP", "true")),
        Claim::WithoutNodePorts {
            kind: "ClusterIP".to_owned()
        }
    );
    let plain = json!({"spec": {"type": "NodePort", "loadBalancerClass": null}});
    assert_eq!(of(true, plain), Claim::Foreign);
}

#[test]
fn what_another_answered_is_not_answered_twice() {
    let answered = |manager: Option<&str>| {
        let record: Vec<Value> = manager.map(written_by).into_iter().collect();
        json!({"spec": {"loadBalancerClass": null}, "metadata": {"managedFields": record},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
    };
    let by = |name: &str| Claim::Answered {
        by: vec![name.to_owned()],
    };
    assert_eq!(of(true, answered(Some("k3s"))), by("k3s"));
    assert_eq!(of(true, answered(None)), by("an unnamed writer"));
    assert_eq!(of(true, answered(Some("kedge-services"))), Claim::Balancer);
    // Our own class is nobody else's, whatever is written there.
    let mut ours = answered(Some("k3s"));
    ours["spec"]["loadBalancerClass"] = json!("kedge.dev/gateway");
    assert_eq!(of(true, ours), Claim::Balancer);
}

#[test]
fn nodes_serve_unless_they_are_kept_out_or_leave() {
    let said = |changes: Value| {
        let mut whole = serde_json::to_value(node("a", true)).unwrap();
        super::world::merge(&mut whole, changes);
        out(&serde_json::from_value(whole).unwrap())
    };
    let tainted = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}});
    assert_eq!(said(json!({})), None);
    assert_eq!(said(json!({"spec": {"unschedulable": true}})), None);
    assert_eq!(said(tainted("example.com/other")), None);
    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    assert_eq!(
        said(json!({"metadata": {"labels": {label: ""}}})),
        Some(Out::Excluded)
    );
    let emptied = json!({"metadata": {"labels": {label: ""}}, "spec": {"unschedulable": true}});
    assert_eq!(said(emptied), Some(Out::Leaving));
    assert_eq!(
        said(json!({"metadata": {"deletionTimestamp": super::world::NOW}})),
        Some(Out::Leaving)
    );
    assert_eq!(
        said(tainted("ToBeDeletedByClusterAutoscaler")),
        Some(Out::Leaving)
    );
    assert_eq!(
        said(tainted("node.kubernetes.io/out-of-service")),
        Some(Out::OutOfService)
    );
    for status in ["False", "Unknown"] {
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert_eq!(said(unready), Some(Out::NotReady));
    }
    assert_eq!(said(json!({"status": null})), Some(Out::NotReady));
}

#[test]
fn hosts_are_those_of_ready_nodes_and_all_where_none_is() {
    let mut world = World::new();
    assert_eq!(every(&world.snapshot).taking, ["a", "b"]);
    world.node(node("b", false));
    assert_eq!(every(&world.snapshot).taking, ["a"]);
    world.node(node("a", false));
    assert_eq!(
        every(&world.snapshot).taking,
        ["a", "b"],
        "nobody is to be believed"
    );
    let mut named = node("a", true);
    named.metadata.annotations = Some([("kedge.dev/host".to_owned(), "edge-7".to_owned())].into());
    world.node(named);
    assert_eq!(every(&world.snapshot).taking, ["edge-7"]);
    for number in 0..200 {
        world.node(node(&format!("n{number:03}"), true));
    }
    assert_eq!(
        every(&world.snapshot).taking.len(),
        100,
        "any of them will do"
    );
}

#[test]
fn a_node_that_leaves_keeps_its_connections_and_gets_no_new_ones() {
    let mut world = World::with([service("web", json!({}))]);
    let mut leaves = node("b", true);
    leaves.metadata.deletion_timestamp = serde_json::from_value(json!(super::world::NOW)).unwrap();
    world.node(leaves);
    let hosts = every(&world.snapshot);
    assert_eq!(
        (hosts.taking, hosts.leaving),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    world.slice("web-1", "web", &["a"]);
    let local = local(&world.snapshot, &Key::new("shop", "web"), Family::IPv4);
    assert_eq!(local.leaving, Vec::<String>::new(), "it has no endpoint");
    let mut wanted = crate::plan::wanted::wanted(&world.snapshot, world.service("web")).unwrap();
    let backend = wanted.endpoints.remove(0);
    assert_eq!(backend.draining_hosts, ["b"]);
    let selector = backend.host_selector.unwrap();
    assert_eq!(selector.match_expressions[0].values, ["a", "b"]);
}

#[test]
fn local_traffic_goes_to_nodes_with_a_ready_endpoint_of_the_family() {
    let mut world = World::new();
    world.slice("web-1", "web", &["a"]);
    world.slice("web-2", "web", &["c"]);
    world.slice("other-1", "other", &["b"]);
    let web = Key::new("shop", "web");
    let hosts = |world: &World, family| local(&world.snapshot, &web, family).taking;
    assert_eq!(hosts(&world, Family::IPv4), ["a"], "c is no node");
    assert!(hosts(&world, Family::IPv6).is_empty());
    world.node(node("a", false));
    assert_eq!(hosts(&world, Family::IPv4), ["a"], "nobody else has it");
}
