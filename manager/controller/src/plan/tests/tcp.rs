//! TCPLoadBalancers: who is accepted, at which port, behind which condition.

use kedge_control::{
    frontend::{Offer, Protocol},
    report::{Unserved, UnservedReason},
};
use serde_json::json;

use super::world::*;
use crate::{
    managers,
    plan::Plan,
    snapshot::Hearing,
    store::{Name, ObjectKey},
};

/// A site with a gateway and hosts whose tunnels are up.
pub fn ready() -> World {
    populated(site())
}

fn populated(mut world: World) -> World {
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b"] {
        world.enrol(host);
    }
    world.settle();
    world
}

pub fn served(plan: &Plan) -> Offer {
    plan.gateways.values().next().unwrap().offer.clone()
}

/// The places of an offer, as `NAME PROTOCOL PORT`.
pub fn places(plan: &Plan) -> Vec<String> {
    let offer = served(plan);
    let place = |frontend: &kedge_control::frontend::Frontend| {
        let protocol = match frontend.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::TlsPassthrough { .. } => "TLS",
        };
        format!("{} {protocol} {}", frontend.name, frontend.port)
    };
    offer.frontends.iter().map(place).collect()
}

pub fn reason(world: &World, name: &str, kind: &str) -> String {
    let said = world.said(name, kind);
    let mut parts = said.split(": ");
    format!(
        "{}: {}",
        parts.next().unwrap(),
        parts.next().unwrap_or_default()
    )
}

pub const WEB: &str = "ports: [{name: http, port: 80}], endpoints: [{hostSelector: {matchLabels: \
                   {kedge.dev/site: store-014}}, ports: [{name: http, port: 30080}]}]";

pub fn port(number: u16) -> String {
    format!("ports: [{{name: p, port: {number}}}], endpoints: [{{hostSelector: {{}}}}]")
}

#[test]
fn a_port_is_kept_before_it_is_served_and_its_hosts_stand_behind_it() {
    let mut world = ready();
    world.offer("web", "", WEB);
    let plan = world.settle();
    let object = world.tcp("web");
    assert_eq!(object.spec.ports[0].listener_port.unwrap().get(), 80);
    assert_eq!(places(&plan), ["store-014/web/http TCP 80"]);
    let offer = served(&plan);
    assert_eq!(offer.frontends[0].tenant, NS);
    assert_eq!(offer.frontends[0].address.to_string(), "203.0.113.7");
    let pool = &offer.pools[0];
    assert_eq!(pool.name, offer.frontends[0].pool);
    let members = pool.members.iter();
    let members: Vec<String> = members
        .map(|member| format!("{} {} {}", member.host, member.address, member.port))
        .collect();
    assert_eq!(
        members,
        [
            "store-014/edge-a fd6b:6564:6765::2 30080",
            "store-014/edge-b fd6b:6564:6765::3 30080"
        ]
    );
    let ingress = serde_json::to_value(&object.status.ingress).unwrap();
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    assert_eq!(ingress, json!([{"ip": "203.0.113.7", "ports": ports}]));
    assert_eq!(object.status.active_endpoints, 2);
    assert_eq!(reason(&world, "web", "Accepted"), "True: Accepted");
    assert_eq!(reason(&world, "web", "BackendsHealthy"), "True: AllHealthy");
    assert_eq!(reason(&world, "web", "Programmed"), "False: Pending");
    assert_eq!(reason(&world, "web", "Ready"), "False: Pending");
}

#[test]
fn hosts_are_selected_by_their_names_and_reached_by_the_family_that_is_asked_for() {
    let mut world = ready();
    let members = |world: &mut World, selector: &str| {
        let hosts = format!("endpoints: [{{{selector}}}]");
        world.offer(
            "web",
            "",
            &format!("ports: [{{name: p, port: 80}}], {hosts}"),
        );
        let offer = served(&world.settle());
        let members = offer.pools[0].members.iter();
        let members = members.map(|member| format!("{} {}", member.host, member.address));
        members.collect::<Vec<String>>()
    };
    let named = "hostSelector: {matchExpressions: [{key: kedge.dev/host, operator: In, \
                 values: [edge-b, elsewhere]}]}";
    assert_eq!(
        members(&mut world, named),
        ["store-014/edge-b fd6b:6564:6765::3"]
    );
    assert_eq!(
        members(&mut world, &format!("addressFamily: IPv4, {named}")),
        ["store-014/edge-b 198.18.0.3"]
    );
    let nobody = "hostSelector: {matchExpressions: [{key: kedge.dev/host, operator: In}]}";
    assert!(members(&mut world, nobody).is_empty());
}

#[test]
fn what_was_chosen_is_written_before_anything_that_follows_from_it() {
    let mut world = ready();
    world.offer("web", "", WEB);
    let plan = crate::plan::plan(&world.snapshot());
    let written = |manager: &str| {
        let layer = crate::store::Layer::Owned(manager.to_owned());
        plan.writes
            .iter()
            .position(|write| write.layer == layer)
            .unwrap()
    };
    assert!(written(managers::PORTS) < written(managers::CONFIG));
}

#[test]
fn instances_are_told_of_the_load_balancer_before_them() {
    let mut world = ready();
    let plan = world.settle();
    assert_eq!(served(&plan).proxy_protocol, None);
    let generation = plan.gateways.values().next().unwrap().generation;
    let gateway = include_str!("../../../tests/fixtures/demo/gateway.yaml");
    // A prefix is what it is, however it is written.
    let behind = "spec:\n  proxyProtocol: {from: [192.0.2.9/28, 'fd00::1/128']}\n";
    world.write(&gateway.replacen("spec:\n", behind, 1));
    let plan = world.settle();
    let from = served(&plan).proxy_protocol.unwrap().from;
    let from: Vec<String> = from.iter().map(ToString::to_string).collect();
    assert_eq!(from, ["192.0.2.0/28", "fd00::1/128"]);
    let told = plan.gateways.values().next().unwrap();
    assert!(told.generation > generation, "it is another state");
}

#[test]
fn the_gateway_says_whether_it_serves_it() {
    let mut world = ready();
    world.offer("web", "", WEB);
    let generation = world.settle().gateways.values().next().unwrap().generation;
    let unserved = |reason| {
        Some(vec![Unserved {
            frontend: "store-014/web/http".to_owned(),
            reason,
            message: "it says so".to_owned(),
        }])
    };
    let table = [
        (generation - 1, Some(vec![]), "False: Pending"),
        (generation, None, "False: Unsupported"),
        (
            generation,
            unserved(UnservedReason::Pending),
            "False: Pending",
        ),
        (
            generation,
            unserved(UnservedReason::PortInUse),
            "False: PortInUse",
        ),
        (
            generation,
            unserved(UnservedReason::EnvoyRefused),
            "False: EnvoyRefused",
        ),
        (generation, Some(vec![]), "True: Programmed"),
    ];
    for (applied, unserved, wanted) in table {
        world.gateway_applies(applied, unserved.clone());
        world.settle();
        assert_eq!(reason(&world, "web", "Programmed"), wanted, "{unserved:?}");
        assert_eq!(
            reason(&world, "web", "Ready").starts_with("True"),
            wanted.starts_with("True")
        );
    }
    world.gateway_applies(generation, unserved(UnservedReason::EnvoyRefused));
    world.settle();
    assert!(
        world
            .said("web", "Programmed")
            .contains("port http: it says so")
    );
}

#[test]
fn the_clients_of_a_balancer_are_told_to_gateways_that_know_of_them_alone() {
    let mut world = ready();
    world.offer("web", "", WEB);
    let open = served(&world.settle());
    assert_eq!((open.frontends.len(), open.restricted.len()), (1, 0));
    let ranges = "sourceRanges: [192.0.2.9/24, '2001:db8::/32', 192.0.2.0/24]";
    world.offer("web", "", &format!("{WEB}, {ranges}"));
    let plan = world.settle();
    let offer = served(&plan);
    assert_eq!(
        offer.frontends,
        [],
        "an older gateway would let in everybody"
    );
    let told = offer.restricted[0].source_ranges.iter();
    let told: Vec<String> = told.map(ToString::to_string).collect();
    assert_eq!(told, ["192.0.2.0/24", "2001:db8::/32"]);
    assert_eq!(offer.restricted[0].name, "store-014/web/http");
    assert_eq!(offer.pools, open.pools);
    let generation = plan.gateways.values().next().unwrap().generation;
    for (knows, wanted) in [(false, "False: Unsupported"), (true, "True: Programmed")] {
        world.gateway_applies(generation, Some(vec![]));
        world.gateway_reports(|report| report.tells_clients_apart = knows);
        world.settle();
        assert_eq!(reason(&world, "web", "Programmed"), wanted);
    }
    // Another one is none of it.
    world.offer("web", "", WEB);
    let offer = served(&world.settle());
    assert_eq!(
        (offer.frontends, offer.restricted),
        (open.frontends, vec![])
    );
    let routed = format!("{WEB}, exposure: Routed, sourceRanges: [192.0.2.0/24]");
    world.offer("routed", "", &routed);
    world.settle();
    assert_eq!(reason(&world, "routed", "Accepted"), "False: Unsupported");
}

#[test]
fn hosts_whose_tunnel_is_down_are_counted_out_and_stay_members() {
    let mut world = ready();
    world.offer("web", "", WEB);
    let generation = world.settle().gateways.values().next().unwrap().generation;
    world.gateway_applies(generation, Some(vec![]));
    world.hearing("edge-b", Hearing::Silent);
    let plan = world.settle();
    assert_eq!(served(&plan).pools[0].members.len(), 2);
    assert_eq!(world.tcp("web").status.active_endpoints, 1);
    assert_eq!(
        reason(&world, "web", "BackendsHealthy"),
        "False: SomeUnhealthy"
    );
    assert_eq!(
        reason(&world, "web", "Ready"),
        "True: Ready",
        "one is enough"
    );
    world.hearing("edge-a", Hearing::Silent);
    world.settle();
    assert_eq!(world.tcp("web").status.active_endpoints, 0);
    assert_eq!(
        reason(&world, "web", "BackendsHealthy"),
        "False: NoneHealthy"
    );
    assert_eq!(reason(&world, "web", "Ready"), "False: NoneHealthy");
    // A host that is out is no backend any more.
    world.access("edge-b", "Banned");
    let plan = world.settle();
    assert_eq!(served(&plan).pools[0].members.len(), 1);
}

#[test]
fn what_cannot_be_served_is_refused_with_a_reason() {
    let hosts = "endpoints: [{hostSelector: {}}]";
    let one = "ports: [{name: p, port: 80}]";
    let table = [
        ("", "", "NoPorts"),
        (
            "",
            &*format!("{one}, {hosts}, exposure: Internal"),
            "Unsupported",
        ),
        (
            "",
            &*format!("{one}, {hosts}, externalTrafficPolicy: Local"),
            "Unsupported",
        ),
        (
            "kedge.dev/listener-ports: Any",
            &*format!("{one}, {hosts}"),
            "Unsupported",
        ),
        (
            "",
            "ports: [{name: p, port: 80}, {name: q, port: 53, protocol: UDP}], proxyProtocol: V2",
            "Unsupported",
        ),
        (
            "",
            "ports: [{name: q, port: 53, protocol: UDP}], healthCheck: {interval: 1s}",
            "Unsupported",
        ),
        (
            "",
            &*format!("{one}, endpoints: [{{addresses: [10.0.0.9]}}]"),
            "UnknownHost",
        ),
        (
            "",
            &*format!("{one}, endpoints: [{{hostSelector: {{}}, ports: [{{name: x, port: 1}}]}}]"),
            "UnknownPort",
        ),
        (
            "",
            &*format!("ports: [{{name: p, listenerPort: 80}}], {hosts}"),
            "Invalid",
        ),
        (
            "kedge.dev/vip-pool: other",
            &*format!("{one}, {hosts}"),
            "WaitingForPool",
        ),
    ];
    for (annotations, spec, wanted) in table {
        let mut world = ready();
        world.offer("web", annotations, spec);
        let plan = world.settle();
        assert_eq!(
            reason(&world, "web", "Accepted"),
            format!("False: {wanted}"),
            "{spec}"
        );
        assert_eq!(served(&plan), Offer::default(), "{spec}");
        assert_eq!(world.tcp("web").status.ingress, [], "{spec}");
        assert_eq!(reason(&world, "web", "Ready"), format!("False: {wanted}"));
    }
}

#[test]
fn an_address_is_a_backend_where_a_host_has_it() {
    let mut world = ready();
    world.offer(
        "web",
        "",
        "ports: [{name: p, port: 80}], endpoints: [{addresses: [198.18.0.3]}]",
    );
    let plan = world.settle();
    let pool = &served(&plan).pools[0];
    assert_eq!(pool.members.len(), 1);
    assert_eq!(pool.members[0].host, "store-014/edge-b");
    assert_eq!(pool.members[0].port.get(), 80);
}

#[test]
fn of_two_that_want_one_port_the_later_one_waits_until_it_is_free() {
    let mut world = ready();
    world.offer("web", "", WEB);
    world.settle();
    // Its name comes first, and it came later.
    world.offer("alb", "", &port(80));
    let plan = world.settle();
    assert_eq!(places(&plan), ["store-014/web/http TCP 80"]);
    assert_eq!(reason(&world, "alb", "Accepted"), "False: PortInUse");
    let said = world.said("alb", "Accepted");
    assert!(
        said.contains("TCP port 80: TCPLoadBalancer store-014/web has it"),
        "{said}"
    );
    // UDP is another place.
    world.offer(
        "dns",
        "",
        "ports: [{name: p, port: 80, protocol: UDP}], endpoints: []",
    );
    assert_eq!(places(&world.settle()).len(), 2);
    world.remove("kedge.dev", "TCPLoadBalancer", "web");
    let plan = world.settle();
    assert!(
        places(&plan).contains(&"store-014/alb/p TCP 80".to_owned()),
        "{:?}",
        places(&plan)
    );
    assert_eq!(reason(&world, "alb", "Accepted"), "True: Accepted");
}

#[test]
fn a_port_of_a_control_plane_is_nobody_elses() {
    let mut world = demo();
    world.enrol_gateway("gw-0");
    world.settle();
    let taken = world.balancer("edge-tunnel").0.listeners["api"].get();
    world.offer("web", "", &port(taken));
    world.settle();
    let said = world.said("web", "Accepted");
    assert!(
        said.contains("LoadBalancer store-014/edge-tunnel has it"),
        "{said}"
    );
}

#[test]
fn by_annotation_a_port_of_the_range_is_chosen_once() {
    let mut world = ready();
    world.offer("web", "kedge.dev/listener-ports: Hashed", WEB);
    world.settle();
    let chosen = world.tcp("web").spec.ports[0].listener_port.unwrap().get();
    assert!((30_000..=30_099).contains(&chosen), "{chosen}");
    let ingress = &world.tcp("web").status.ingress[0];
    assert_eq!(ingress.ports[0].port.get(), chosen, "clients come there");
    // The same name finds the same port in another world, and the next one where that is taken.
    let mut other = ready();
    other.offer("squatter", "", &port(chosen));
    other.settle();
    other.offer("web", "kedge.dev/listener-ports: Hashed", WEB);
    other.settle();
    let next = other.tcp("web").spec.ports[0].listener_port.unwrap().get();
    assert_eq!(next, if chosen == 30_099 { 30_000 } else { chosen + 1 });
    // It stays there when the first one is free again.
    other.remove("kedge.dev", "TCPLoadBalancer", "squatter");
    other.settle();
    assert_eq!(
        other.tcp("web").spec.ports[0].listener_port.unwrap().get(),
        next
    );
}

#[test]
fn a_tenant_has_as_many_as_its_limits_say_and_keeps_what_it_has() {
    let mut world = ready();
    let limit = |world: &mut World, limits: &str| {
        world.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {NS}}}\n\
             spec: {{namespace: {NS}, gatewayRef: {{name: gw}}, limits: {{{limits}}}}}\n"
        ));
    };
    limit(&mut world, "loadBalancers: 2");
    for (name, number) in [("a", 81), ("b", 82), ("c", 83)] {
        world.offer(name, "", &port(number));
        world.settle();
    }
    assert_eq!(reason(&world, "b", "Accepted"), "True: Accepted");
    assert_eq!(reason(&world, "c", "Accepted"), "False: QuotaExceeded");
    limit(&mut world, "loadBalancers: 1, ports: 1");
    world.settle();
    assert_eq!(
        reason(&world, "b", "Accepted"),
        "True: Accepted",
        "nothing is taken back"
    );
    limit(&mut world, "ports: 2");
    world.settle();
    let said = world.said("c", "Accepted");
    assert!(said.contains("its tenant may have 2 ports"), "{said}");
    limit(&mut world, "ports: 3");
    world.settle();
    assert_eq!(reason(&world, "c", "Accepted"), "True: Accepted");
}

#[test]
fn without_a_tenant_or_its_gateway_nobody_is_served() {
    let mut world = world(&[]);
    world.offer("web", "", WEB);
    world.settle();
    assert_eq!(reason(&world, "web", "Accepted"), "False: NoTenant");
    let tenant = |more: &str| {
        format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {NS}}}\n\
             spec: {{namespace: {NS}{more}}}\n"
        )
    };
    world.write(&tenant(""));
    world.settle();
    assert_eq!(reason(&world, "web", "Accepted"), "False: GatewayUnset");
    world.write(&tenant(", gatewayRef: {name: gw}"));
    world.settle();
    assert_eq!(reason(&world, "web", "Accepted"), "False: GatewayMissing");
    world.write(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeGateway\nmetadata: {name: gw, namespace: kedge-system}\n",
    );
    world.settle();
    assert_eq!(reason(&world, "web", "Accepted"), "False: GatewayNoAddress");
    world.write(include_str!("../../../tests/fixtures/demo/gateway.yaml"));
    world.settle();
    assert_eq!(reason(&world, "web", "Accepted"), "True: Accepted");
    assert_eq!(
        reason(&world, "web", "BackendsHealthy"),
        "False: NoBackends"
    );
}

#[test]
fn a_port_that_is_given_back_rests_and_then_nothing_is_left() {
    let mut world = ready();
    let two = WEB.replace("port: 80}]", "port: 80}, {name: alt, port: 8080}]");
    world.offer("web", "", &two);
    world.settle();
    let key = ObjectKey::new("kedge.dev", "TCPLoadBalancer", Name::new(NS, "web"));
    world.remove("kedge.dev", "TCPLoadBalancer", "web");
    let plan = world.settle();
    assert_eq!(served(&plan), Offer::default());
    let rests = |world: &World| {
        let layer = world.objects.owned(&key, managers::PORTS)?;
        let notes = layer.pointer("/metadata/annotations")?;
        Some(notes["kedge.dev/resting-ports"].as_str()?.to_owned())
    };
    assert!(
        rests(&world).unwrap().contains("\"ports\":[80,8080]"),
        "{:?}",
        rests(&world)
    );
    let ports = &plan.share.ports[&Name::new("kedge-system", "gw")];
    assert!(
        ports.iter().any(|(seat, _)| seat.port.get() == 80),
        "{ports:?}"
    );
    assert!(plan.wake.earliest().is_some());
    world.later(59);
    world.settle();
    assert!(rests(&world).is_some());
    world.later(1);
    world.settle();
    assert_eq!(world.objects.get(&key), None, "nothing is left behind");
}

#[test]
fn a_port_that_changes_moves_and_the_old_one_rests() {
    let mut world = ready();
    world.offer("web", "", &port(80));
    world.offer("other", "", &port(81));
    world.settle();
    world.offer("web", "", &port(8080));
    let plan = world.settle();
    let moved = ["store-014/other/p TCP 81", "store-014/web/p TCP 8080"];
    assert_eq!(places(&plan), moved);
    assert_eq!(
        world.tcp("web").spec.ports[0].listener_port.unwrap().get(),
        8080
    );
    let rests = world.tcp("web").metadata.annotations["kedge.dev/resting-ports"].clone();
    assert!(rests.contains("\"ports\":[80]"), "{rests}");
    // Its own tenant may have it at once.
    world.offer("third", "", &port(80));
    let plan = world.settle();
    assert!(places(&plan).contains(&"store-014/third/p TCP 80".to_owned()));
    world.later(60);
    world.settle();
    let notes = world.tcp("web").metadata.annotations;
    assert!(!notes.contains_key("kedge.dev/resting-ports"), "{notes:?}");
}

#[test]
fn an_api_server_holds_what_is_deleted_until_its_ports_have_rested() {
    let mut world = ready().on_kubernetes();
    world.offer("web", "", WEB);
    world.settle();
    let key = ObjectKey::new("kedge.dev", "TCPLoadBalancer", Name::new(NS, "web"));
    let held = |world: &World| {
        let marks = world
            .objects
            .get(&key)
            .and_then(|layers| layers.marks.clone());
        marks.is_some_and(|marks| {
            marks.pointer("/metadata/finalizers") == Some(&json!(["kedge.dev/loadbalancer"]))
        })
    };
    assert!(held(&world));
    world.later(10);
    world.delete("kedge.dev", "TCPLoadBalancer", "web");
    let plan = world.settle();
    assert_eq!(served(&plan), Offer::default());
    assert!(held(&world));
    let ports = &plan.share.ports[&Name::new("kedge-system", "gw")];
    assert!(
        ports.iter().any(|(seat, _)| seat.port.get() == 80),
        "{ports:?}"
    );
    world.later(60);
    world.settle();
    assert!(!held(&world));
}

#[test]
fn what_a_host_exposed_goes_when_the_host_is_out_and_its_port_rests() {
    let mut world = ready();
    world.expose("edge-a", "web");
    world.settle();
    assert_eq!(reason(&world, "web", "Accepted"), "False: NoPorts");
    world.access("edge-a", "Banned");
    world.settle();
    let key = ObjectKey::new("kedge.dev", "TCPLoadBalancer", Name::new(NS, "web"));
    assert_eq!(world.objects.get(&key), None);
}

#[test]
fn a_port_that_was_given_back_twice_rests_from_the_second_time_on() {
    let mut world = ready();
    let gateway = Name::new("kedge-system", "gw");
    for number in [80, 81, 80, 81] {
        world.offer("web", "", &port(number));
        world.settle();
        world.later(20);
    }
    // It was given back after 20 s, and again after 60.
    world.later(39);
    let plan = world.settle();
    let rests = |plan: &Plan| {
        let mut ports = plan.share.ports[&gateway].iter();
        ports.any(|(seat, _)| seat.port.get() == 80)
    };
    assert!(rests(&plan), "after 119 s");
    world.later(1);
    world.settle();
    assert!(!rests(&world.settle()), "after 120 s");
}

/// Thirty-two ports from a number on.
fn many(from: u16) -> String {
    let ports: Vec<String> = (0..32)
        .map(|port| format!("{{name: p{port}, port: {}}}", from + port))
        .collect();
    let ports = ports.join(", ");
    format!("ports: [{ports}], endpoints: [{{hostSelector: {{}}}}]")
}

/// The note of what rests stays as short as an API server wants it, and nothing comes back too early.
fn churns(mut world: World) {
    let note = |world: &World| {
        let key = ObjectKey::new("kedge.dev", "TCPLoadBalancer", Name::new(NS, "web"));
        let layer = world.objects.owned(&key, managers::PORTS)?;
        let notes = layer.pointer("/metadata/annotations")?;
        Some(notes.get("kedge.dev/resting-ports")?.as_str()?.to_owned())
    };
    let gateway = Name::new("kedge-system", "gw");
    let mut last_served = std::collections::BTreeMap::new();
    let mut waited = false;
    for round in 0..26_u16 {
        world.offer("web", "", &many(1_000 + round * 100));
        let plan = world.settle();
        let has = &plan.share.ports[&gateway];
        for frontend in served(&plan).frontends {
            last_served.insert(frontend.port.get(), round);
        }
        for (port, last) in &last_served {
            let is_held = has.iter().any(|(seat, _)| seat.port.get() == *port);
            assert!(is_held || round >= last + 20, "{port} is free in {round}");
        }
        let length = note(&world).map_or(0, |note| note.len());
        assert!(length <= 4096, "{length}");
        if reason(&world, "web", "Accepted") == "False: PortsResting" {
            waited = true;
            assert!(plan.wake.earliest().is_some());
        }
        world.later(3);
    }
    assert!(waited, "the note was never full");
    world.later(60);
    world.settle();
    let plan = world.settle();
    assert_eq!(reason(&world, "web", "Accepted"), "True: Accepted");
    assert_eq!(places(&plan).len(), 32, "and it has what it asks for");
    world.later(60);
    world.settle();
    assert_eq!(note(&world), None);
}

#[test]
fn a_load_balancer_that_changes_all_the_time_waits_when_its_note_is_full() {
    churns(ready());
    churns(populated(site().on_kubernetes()));
}

#[test]
fn one_that_goes_while_its_note_is_full_gives_its_ports_back_later() {
    let mut world = ready();
    let gateway = Name::new("kedge-system", "gw");
    for round in 0..30 {
        world.offer("web", "", &many(1_000 + round * 100));
        world.settle();
        world.later(1);
    }
    assert_eq!(reason(&world, "web", "Accepted"), "False: PortsResting");
    world.remove("kedge.dev", "TCPLoadBalancer", "web");
    let mut plan = world.settle();
    assert_eq!(served(&plan), Offer::default());
    let key = ObjectKey::new("kedge.dev", "TCPLoadBalancer", Name::new(NS, "web"));
    let since = world.now.clone();
    let mut seconds = 0;
    while world.objects.get(&key).is_some() {
        if seconds < 60 {
            assert!(!plan.share.ports[&gateway].is_empty(), "{since} {seconds}");
        }
        assert!(plan.wake.earliest().is_some(), "{seconds}");
        assert!(seconds < 180, "nothing is left behind");
        world.later(1);
        plan = world.settle();
        seconds += 1;
    }
    assert!(seconds >= 60, "{seconds}");
}

#[test]
fn what_may_only_be_unreadable_keeps_its_port() {
    let mut world = ready();
    world.offer("dns", "", &port(53));
    world.settle();
    world.objects.incomplete = true;
    world.remove("kedge.dev", "TCPLoadBalancer", "dns");
    world.offer("mail", "", &port(53));
    world.settle();
    assert_eq!(reason(&world, "mail", "Accepted"), "False: PortInUse");
    world.offer("dns", "", &port(53));
    let plan = world.settle();
    assert_eq!(places(&plan), ["store-014/dns/p TCP 53"]);
    // Once it is known to be gone, the port is free for those who share the namespace.
    world.remove("kedge.dev", "TCPLoadBalancer", "dns");
    world.objects.incomplete = false;
    let plan = world.settle();
    assert_eq!(places(&plan), ["store-014/mail/p TCP 53"]);
}
