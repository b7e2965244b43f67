//! What a Service's status says.

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::world::{NOW, World, served, service, status};
use crate::{
    plan::{
        claim::Claim,
        status::{Shown, notes, offered},
    },
    snapshot::Config,
};

fn shown(service: &Service, said: Value) -> Shown {
    let config = Config::default();
    offered(&config, (service, &Claim::Balancer), &status(said), NOW)
}

fn ingress(shown: &Shown) -> Value {
    serde_json::to_value(&shown.ingress).unwrap()
}

fn condition(kind: &str, holds: &str, reason: &str) -> Value {
    json!({"type": kind, "status": holds, "reason": reason, "message": "a word",
        "lastTransitionTime": NOW})
}

#[test]
fn a_port_that_is_not_served_says_why() {
    let service = service(
        "web",
        json!({"spec": {"ports": [
            {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080},
            {"name": "https", "port": 443, "protocol": "TCP", "nodePort": 30443},
            {"name": "stream", "port": 80, "protocol": "SCTP", "nodePort": 30081},
        ]}}),
    );
    let said = json!({
        "ingress": [{"ip": "203.0.113.7", "ports": [{"port": 80, "protocol": "TCP"}]},
            {"hostname": "gw.example.net", "ports": [{"port": 80, "protocol": "TCP"}]}],
        "conditions": [condition("Accepted", "False", "PortInUse"), condition("Ready", "False", "PortInUse")],
    });
    let shown = shown(&service, said);
    let ports = json!([{"port": 80, "protocol": "TCP"},
        {"port": 443, "protocol": "TCP", "error": "kedge.dev/PortInUse"},
        {"port": 80, "protocol": "SCTP", "error": "kedge.dev/ProtocolNotSupported"}]);
    assert_eq!(
        ingress(&shown),
        json!([{"ip": "203.0.113.7", "ipMode": "VIP", "ports": ports},
            {"hostname": "gw.example.net", "ports": ports}])
    );
    let kinds: Vec<&str> = shown.conditions.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["kedge.dev/Accepted", "kedge.dev/Ready"]);
    assert_eq!(shown.conditions[1].message, "a word");
}

#[test]
fn the_mode_is_that_of_the_protocol_and_only_where_servers_keep_it() {
    let with_header = service(
        "web",
        json!({"metadata": {"annotations": {"kedge.dev/proxy-protocol": "v1"}}}),
    );
    let spec = World::with([with_header.clone()]);
    let said = served(&crate::plan::wanted::wanted(&spec.snapshot, &with_header).unwrap()).unwrap();
    assert_eq!(
        ingress(&shown(&with_header, said.clone()))[0]["ipMode"],
        "Proxy"
    );
    let config = Config {
        ip_mode: false,
        ..Config::default()
    };
    let old = offered(
        &config,
        (&with_header, &Claim::Balancer),
        &status(said),
        NOW,
    );
    assert!(ingress(&old)[0].get("ipMode").is_none());
}

#[test]
fn of_the_gateways_addresses_those_are_told_that_were_asked_for() {
    let service = service("web", json!({"spec": {"loadBalancerIP": "2001:db8:0::7"}}));
    let said = json!({"conditions": [condition("Ready", "True", "Ready")],
        "ingress": [{"ip": "203.0.113.7"}, {"ip": "2001:db8::7"}]});
    let told = ingress(&shown(&service, said));
    assert_eq!(told[0]["ip"], "2001:db8::7");
    assert_eq!(told.as_array().unwrap().len(), 1);
}

#[test]
fn a_node_port_has_conditions_and_no_addresses() {
    let service = service(
        "web",
        json!({"spec": {"type": "NodePort", "loadBalancerClass": null},
        "metadata": {"annotations": {"kedge.dev/expose": "true"}}}),
    );
    let mut world = World::with([service]);
    world.settle();
    let status = world.service("web").status.clone().unwrap();
    assert!(status.load_balancer.is_none());
    let said = world.said("web", "Ready");
    assert_eq!(said, "True Ready served at 203.0.113.7 80/TCP");
}

#[test]
fn a_condition_keeps_its_time_and_an_event_tells_a_change_once() {
    let mut world = World::with([service("web", json!({}))]);
    world.settle();
    let before = super::super::standing(world.service("web"));
    assert!(notes(&before, &before).is_empty());
    world.snapshot.now = "2027-01-01T00:00:00Z".to_owned();
    assert_eq!(world.settle(), 0);
    world.patch(
        "web",
        json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/33"]}}),
    );
    let next = super::super::plan(&world.snapshot);
    let show = &next.show[0];
    assert!(show.notes[0].is_warning);
    assert_eq!(show.notes[0].reason, "SourceRangeInvalid");
    let ready = &show.shown.conditions[1];
    assert_eq!(ready.last_transition_time, world.snapshot.now);
}
