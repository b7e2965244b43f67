//! A host that is removed is left first: what is open to it goes on, and the deletion of its Machine
//! waits for that, at most for a while.

use kedge_control::report::Draining;
use serde_json::{Value, json};

use super::world::{NS, World, demo};
use crate::{
    plan::Plan,
    snapshot::Hearing,
    store::{Layer, Name, ObjectKey},
};

const CAPI: &str = "cluster.x-k8s.io";
const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/kedge-lb";
const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kedge-lb";
const WEB: &str = "ports: [{name: http, port: 80}], endpoints: [{hostSelector: {matchLabels: \
                   {kedge.dev/site: store-014}}, ports: [{name: http, port: 30080}]}]";

/// A site on Kubernetes whose gateway can leave backends. `web` is served by every host.
fn served() -> World {
    let mut world = demo().on_kubernetes();
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b", "edge-c", "edge-d"] {
        world.enrol(host);
    }
    world.write(&format!(
        "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {{name: {MACHINE}, namespace: {NS}, \
         labels: {{cluster.x-k8s.io/cluster-name: {CLUSTER}}}}}\nspec: {{clusterName: {CLUSTER}, \
         infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: ElementalMachine, name: \
         {MACHINE}}}}}\n---\napiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: ElementalMachine\n\
         metadata: {{name: {MACHINE}, namespace: {NS}}}\nspec: {{hostRef: {{apiVersion: \
         infrastructure.cluster.x-k8s.io/v1beta1, kind: ElementalHost, name: edge-d, namespace: {NS}}}}}\n"
    ));
    world.offer("web", "", WEB);
    tell(&mut world, Some(&[]));
    world.core();
    settle(&mut world);
    world.core();
    settle(&mut world);
    world
}

/// The same, and the API of `edge-tunnel` is served by the Machines at the gateway.
fn with_api() -> World {
    let mut world = served();
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: edge-tunnel, namespace: \
         {NS}}}\nspec: {{clusterName: edge-tunnel, mode: Tunnel, gatewayRef: {{name: gw}}, selector: \
         {{matchLabels: {{cluster.x-k8s.io/cluster-name: edge}}}}}}\n"
    ));
    settle(&mut world);
    settle(&mut world);
    world
}

/// Everything is decided, and hosts do what follows from it.
fn settle(world: &mut World) -> Plan {
    let plan = world.settle();
    for (name, config) in &plan.hosts {
        let generation = config.generation;
        world.report(&name.name, |report| report.applied_generation = generation);
    }
    world.settle()
}

/// The gateway says what is open to what it leaves: host, port, count.
fn tell(world: &mut World, draining: Option<&[(&str, u16, Option<u32>)]>) {
    let told = draining.map(|all| {
        let told = all.iter().map(|(host, port, open)| Draining {
            host: format!("{NS}/{host}"),
            address: address(world, host),
            port: *port,
            open: *open,
        });
        told.collect::<Vec<_>>()
    });
    for live in world.live.gateways.values_mut() {
        live.report.as_mut().unwrap().draining.clone_from(&told);
    }
}

fn address(world: &World, host: &str) -> std::net::IpAddr {
    let host = &world.snapshot().hosts[&Name::new(NS, host)];
    host.spec.tunnel.addresses[0].addr()
}

/// The members of `web`, and of the API, as the gateway is told them; those that are left are marked.
fn members(plan: &Plan) -> Vec<String> {
    let gateway = plan.gateways.values().next().unwrap();
    let shown = |host: &str, port: u16, draining: bool| {
        let host = host.rsplit('/').next().unwrap();
        format!("{host}:{port}{}", if draining { " left" } else { "" })
    };
    let own = gateway.listeners.iter().flat_map(|one| &one.members);
    let own = own.map(|member| shown(&member.host, member.port, member.draining));
    let tenants = gateway.offer.pools.iter().flat_map(|pool| &pool.members);
    let tenants = tenants.map(|member| shown(&member.host, member.port.get(), member.draining));
    let mut all: Vec<String> = own.chain(tenants).collect();
    all.sort();
    all
}

fn annotation(world: &World, machine: &str, name: &str) -> Option<String> {
    let key = ObjectKey::new(CAPI, "Machine", Name::new(NS, machine));
    let marks = world.objects.content(&key, &Layer::Marks)?;
    let value = marks["metadata"]["annotations"].get(name)?;
    value.as_str().map(str::to_owned)
}

fn is_held(world: &World, machine: &str) -> bool {
    annotation(world, machine, PRE_DRAIN).is_some()
}

fn has(members: &[String], member: &str) -> bool {
    members.iter().any(|it| it == member)
}

fn tenant(world: &mut World, drain: &str) {
    let tenant = world
        .objects
        .by_key
        .iter_mut()
        .find(|(key, _)| key.kind == "Tenant" && key.name.name == NS);
    let user = tenant.unwrap().1.user.as_mut().unwrap();
    user.value["spec"]["drain"] = serde_json::from_str::<Value>(drain).unwrap();
}

#[test]
fn a_worker_is_left_until_nothing_is_open_to_it_and_its_machine_waits() {
    let mut world = served();
    assert!(is_held(&world, MACHINE));
    world.delete(CAPI, "Machine", MACHINE);
    let plan = settle(&mut world);
    assert!(
        has(&members(&plan), "edge-d:30080 left"),
        "{:?}",
        members(&plan)
    );
    assert!(has(&members(&plan), "edge-b:30080"));
    assert!(is_held(&world, MACHINE));
    assert_eq!(
        annotation(&world, MACHINE, "kedge.dev/draining-until").as_deref(),
        Some("2026-01-01T00:01:00Z")
    );
    assert_eq!(
        world.tcp("web").status.active_endpoints,
        3,
        "it is no backend to count on"
    );
    // The gateway was told; something is open, or it cannot say.
    for open in [Some(3), Some(1), None] {
        tell(
            &mut world,
            Some(&[("edge-d", 30080, open), ("edge-d", 6443, Some(0))]),
        );
        assert!(has(&members(&settle(&mut world)), "edge-d:30080 left"));
        assert!(is_held(&world, MACHINE));
    }
    tell(
        &mut world,
        Some(&[("edge-d", 30080, Some(0)), ("edge-d", 6443, Some(0))]),
    );
    let left = members(&settle(&mut world));
    assert!(
        !left.iter().any(|it| it.starts_with("edge-d:30080")),
        "{left:?}"
    );
    assert!(!is_held(&world, MACHINE));
    assert_eq!(
        annotation(&world, MACHINE, "kedge.dev/draining-until"),
        None
    );
    // It does not come back when the gateway has nothing to say of it any more.
    tell(&mut world, Some(&[]));
    let left = members(&settle(&mut world));
    assert!(
        !left.iter().any(|it| it.starts_with("edge-d:30080")),
        "{left:?}"
    );
}

#[test]
fn nobody_waits_longer_than_the_timeout_whatever_gateways_say() {
    let busy: &[(&str, u16, Option<u32>)] = &[("edge-d", 30080, Some(7))];
    // What the tenant says, the seconds it takes.
    for (drain, seconds) in [
        ("{}", 60),
        (r#"{"timeout": "5s"}"#, 5),
        (r#"{"timeout": "2h"}"#, 7200),
    ] {
        for hearing in [Hearing::Alive, Hearing::Silent, Hearing::Unknown] {
            let mut world = served();
            tenant(&mut world, drain);
            settle(&mut world);
            world.delete(CAPI, "Machine", MACHINE);
            settle(&mut world);
            tell(&mut world, Some(busy));
            for live in world.live.gateways.values_mut() {
                live.hearing = hearing;
            }
            let wake = settle(&mut world)
                .wake
                .earliest()
                .map(|due| due.to_string());
            assert!(is_held(&world, MACHINE), "{drain} {hearing:?}");
            world.later(seconds);
            assert_eq!(wake, Some(world.now.clone()), "{drain}");
            settle(&mut world);
            assert!(!is_held(&world, MACHINE), "{drain} {hearing:?}");
        }
    }
}

#[test]
fn a_dead_host_and_a_silent_instance_beside_another_are_not_waited_for() {
    let mut world = served();
    world.delete(CAPI, "Machine", MACHINE);
    settle(&mut world);
    world.hearing("edge-d", Hearing::Silent);
    settle(&mut world);
    assert!(!is_held(&world, MACHINE));
}

#[test]
fn a_gateway_that_cannot_leave_a_backend_is_told_of_none() {
    let mut world = served();
    tell(&mut world, None);
    settle(&mut world);
    world.delete(CAPI, "Machine", MACHINE);
    let left = members(&settle(&mut world));
    assert!(
        !left.iter().any(|it| it.starts_with("edge-d:30080")),
        "{left:?}"
    );
    assert!(!is_held(&world, MACHINE), "it would be waited for in vain");
}

#[test]
fn the_tenant_says_where_the_deletion_waits_or_that_it_does_not() {
    let mut world = served();
    tenant(&mut world, r#"{"hook": "PreTerminate"}"#);
    settle(&mut world);
    assert!(annotation(&world, MACHINE, PRE_TERMINATE).is_some());
    assert!(!is_held(&world, MACHINE));
    world.delete(CAPI, "Machine", MACHINE);
    assert!(has(&members(&settle(&mut world)), "edge-d:30080 left"));
    assert!(annotation(&world, MACHINE, PRE_TERMINATE).is_some());
    let mut world = served();
    tenant(&mut world, r#"{"hook": "None"}"#);
    settle(&mut world);
    world.delete(CAPI, "Machine", MACHINE);
    let left = members(&settle(&mut world));
    assert!(
        !left.iter().any(|it| it.starts_with("edge-d:30080")),
        "{left:?}"
    );
}

#[test]
fn a_machine_whose_host_serves_nothing_is_not_held() {
    let mut world = served();
    world.remove("kedge.dev", "TCPLoadBalancer", "web");
    settle(&mut world);
    assert!(!is_held(&world, MACHINE));
}

#[test]
fn a_cluster_that_goes_is_served_to_its_last_machine_and_a_paused_one_stays_as_it_is() {
    let mut world = served();
    world.delete(CAPI, "Cluster", CLUSTER);
    world.delete(CAPI, "Machine", MACHINE);
    assert!(has(&members(&settle(&mut world)), "edge-d:30080"));
    let mut world = served();
    world.document(CAPI, "Cluster", CLUSTER)["spec"]["paused"] = json!(true);
    world.delete(CAPI, "Machine", MACHINE);
    settle(&mut world);
    tell(
        &mut world,
        Some(&[("edge-d", 30080, Some(0)), ("edge-d", 6443, Some(0))]),
    );
    for _ in 0..2 {
        assert!(has(&members(&settle(&mut world)), "edge-d:30080 left"));
        assert!(is_held(&world, MACHINE));
    }
}

#[test]
fn a_control_plane_machine_waits_for_its_api_and_for_its_ports() {
    let mut world = with_api();
    let machine = API_MACHINE;
    assert!(is_held(&world, machine));
    world.delete(CAPI, "Machine", machine);
    let plan = settle(&mut world);
    for member in ["edge-b:6443 left", "edge-b:30080 left"] {
        assert!(has(&members(&plan), member), "{:?}", members(&plan));
    }
    let state = |world: &World| annotation(world, machine, "loadbalancer.cluster.x-k8s.io/status");
    assert_eq!(state(&world).as_deref(), Some("removing"));
    tell(
        &mut world,
        Some(&[("edge-b", 6443, Some(0)), ("edge-b", 30080, Some(1))]),
    );
    settle(&mut world);
    assert!(is_held(&world, machine));
    assert_eq!(state(&world).as_deref(), Some("removing"));
    tell(
        &mut world,
        Some(&[("edge-b", 6443, Some(0)), ("edge-b", 30080, Some(0))]),
    );
    let left = members(&settle(&mut world));
    assert!(!left.iter().any(|it| it.starts_with("edge-b:")), "{left:?}");
    assert!(!is_held(&world, machine));
    assert_eq!(state(&world).as_deref(), Some("removed"));
}

#[test]
fn hosts_that_a_cluster_leaves_are_left_and_nobody_waits_for_them() {
    let mut world = served();
    let spec = WEB.replace(
        "ports: [{name: http, port: 30080}]}]",
        "drainingHosts: [edge-d, edge-x], ports: [{name: http, port: 30080}]}]",
    );
    world.offer("web", "", &spec);
    let plan = settle(&mut world);
    assert!(
        has(&members(&plan), "edge-d:30080 left"),
        "{:?}",
        members(&plan)
    );
    assert_eq!(
        annotation(&world, MACHINE, "kedge.dev/draining-until"),
        None
    );
    // Its Machine goes while that is known already: what is open is waited for all the same.
    world.delete(CAPI, "Machine", MACHINE);
    tell(&mut world, Some(&[("edge-d", 30080, Some(2))]));
    assert!(has(&members(&settle(&mut world)), "edge-d:30080 left"));
    assert!(is_held(&world, MACHINE));
    let all =
        "drainingHosts: [edge-a, edge-b, edge-c, edge-d], ports: [{name: http, port: 30080}]}]";
    world.offer(
        "web",
        "",
        &WEB.replace("ports: [{name: http, port: 30080}]}]", all),
    );
    settle(&mut world);
    let said = world.said("web", "BackendsHealthy");
    assert!(said.starts_with("False: AllLeaving"), "{said}");
}

const MACHINE: &str = "worker-d";
const CLUSTER: &str = "edge";
const API_MACHINE: &str = "edge-cp-b";
