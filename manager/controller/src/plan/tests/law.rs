//! Apply the plan and the next plan is empty, whatever happened before.

use kedge_control::local::FleetEndpoint;
use kedge_core::vip::RouterState;
use proptest::prelude::*;

use super::world::{NS, VIP, World, cluster, demo};
use crate::{
    cases,
    plan::Plan,
    snapshot::Hearing,
    store::{Name, ObjectKey},
};

/// Something that happens to a site.
#[derive(Clone, Debug)]
enum Event {
    Enrol(u8),
    EnrolGateway,
    Hear(u8, bool),
    Vip(u8, bool),
    Address(u8, u8),
    Problems(bool),
    AddCluster(u8, u8),
    Pause(u8),
    RemoveCluster(u8),
    RemovePool,
    UserEndpoint(u8, u8),
    LoseKept(u8),
    Core,
    Blank(u8),
    Disable(u8, bool),
    DeleteMachine(u8),
    DeleteBalancer(u8),
    DeleteCluster(u8),
    Vanish(u8),
    Beside(u8, u8),
    Later(u8),
    Apply,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0_u8..4).prop_map(Event::Enrol),
        Just(Event::EnrolGateway),
        (0_u8..4, any::<bool>()).prop_map(|(host, alive)| Event::Hear(host, alive)),
        (0_u8..4, any::<bool>()).prop_map(|(host, active)| Event::Vip(host, active)),
        (0_u8..4, 0_u8..4).prop_map(|(host, last)| Event::Address(host, last)),
        any::<bool>().prop_map(Event::Problems),
        (0_u8..6, 0_u8..4).prop_map(|(name, mode)| Event::AddCluster(name, mode)),
        (0_u8..6).prop_map(Event::Pause),
        (0_u8..6).prop_map(Event::RemoveCluster),
        Just(Event::RemovePool),
        (0_u8..6, 0_u8..3).prop_map(|(name, host)| Event::UserEndpoint(name, host)),
        (0_u8..6).prop_map(Event::LoseKept),
        Just(Event::Core),
        (0_u8..6).prop_map(Event::Blank),
        (0_u8..3, any::<bool>()).prop_map(|(machine, off)| Event::Disable(machine, off)),
        (0_u8..3).prop_map(Event::DeleteMachine),
        (0_u8..6).prop_map(Event::DeleteBalancer),
        (0_u8..6).prop_map(Event::DeleteCluster),
        (0_u8..6).prop_map(Event::Vanish),
        (0_u8..6, 0_u8..4).prop_map(|(of, kind)| Event::Beside(of, kind)),
        (0_u8..120).prop_map(Event::Later),
        Just(Event::Apply),
    ];
    prop::collection::vec(event, 1..20)
}

fn happen(world: &mut World, event: &Event) {
    let host = |number: &u8| ["edge-a", "edge-b", "edge-c", "edge-d"][usize::from(*number)];
    let named =
        |number: &u8| ["c0", "c1", "c2", "edge", "edge-tunnel", "edge-host"][usize::from(*number)];
    let key =
        |group: &str, kind: &str, name: &str| ObjectKey::new(group, kind, Name::new(NS, name));
    match event {
        Event::Enrol(number) => world.enrol(host(number)),
        Event::EnrolGateway => world.enrol_gateway("gw-0"),
        Event::Hear(number, alive) => {
            let name = Name::new(NS, host(number));
            if let Some(live) = world.live.hosts.get_mut(&name) {
                live.hearing = if *alive {
                    Hearing::Alive
                } else {
                    Hearing::Silent
                };
            }
        }
        Event::Vip(number, active) => {
            let state = if *active {
                RouterState::Active
            } else {
                RouterState::Backup
            };
            world.vip_state(host(number), "edge", state, &world.now.clone());
        }
        Event::Address(number, last) => {
            world.report(host(number), |report| {
                report.addresses[0].address = format!("10.20.14.{last}");
            });
        }
        Event::Problems(incomplete) => world.objects.incomplete = *incomplete,
        Event::AddCluster(number, mode) => {
            let mode = match mode {
                0 => VIP,
                1 => "kedge.dev/endpoint-mode: Tunnel, kedge.dev/gateway: gw",
                2 => "kedge.dev/endpoint-mode: HostAddress",
                _ => "",
            };
            world.write(&cluster(named(number), mode, ""));
        }
        Event::Pause(number) => {
            let text = cluster(named(number), VIP, "");
            world.write(&text.replacen("spec:\n", "spec:\n  paused: true\n", 1));
        }
        Event::RemoveCluster(number) => {
            let key = key("cluster.x-k8s.io", "Cluster", named(number));
            if let Some(layers) = world.objects.by_key.get_mut(&key) {
                layers.user = None;
            }
        }
        Event::RemovePool => {
            world
                .objects
                .by_key
                .remove(&key("kedge.dev", "VIPPool", "edge-lan"));
        }
        Event::UserEndpoint(number, last) => {
            let endpoint = format!(
                "controlPlaneEndpoint: {{host: 10.20.14.{}, port: 6443}}",
                10 + last
            );
            world.write(&cluster(named(number), VIP, &endpoint));
        }
        Event::Core => world.core(),
        Event::Blank(number) => {
            let key = key(INFRA, "ElementalCluster", named(number));
            if let Some(layers) = world.objects.by_key.get_mut(&key) {
                layers.owned.clear();
            }
        }
        Event::Disable(number, off) => {
            let key = key("cluster.x-k8s.io", "Machine", machine(number));
            let layers = world.objects.by_key.get_mut(&key);
            if let Some(user) = layers.and_then(|layers| layers.user.as_mut()) {
                user.value["metadata"]["annotations"] = match off {
                    true => serde_json::json!({"kedge.dev/lb-disabled": ""}),
                    false => serde_json::json!({}),
                };
            }
        }
        Event::DeleteMachine(number) => {
            delete(world, &key("cluster.x-k8s.io", "Machine", machine(number)));
        }
        Event::DeleteBalancer(number) => {
            delete(world, &key("kedge.dev", "LoadBalancer", named(number)));
        }
        Event::DeleteCluster(number) => {
            delete(world, &key("cluster.x-k8s.io", "Cluster", named(number)));
        }
        Event::Vanish(number) => {
            world
                .objects
                .vanish(&key("kedge.dev", "LoadBalancer", named(number)));
        }
        Event::Beside(number, kind) => {
            let of = named(number);
            let spec = match kind {
                0 => "mode: VIP, vip: {poolRef: {name: edge-lan}}",
                1 => "mode: Tunnel, gatewayRef: {name: gw}, preset: rke2",
                2 => "mode: HostAddress, endpointPolicy: FollowTarget",
                _ => "infrastructureRef: {apiGroup: x.example, kind: Lb, name: x}",
            };
            world.write(&format!(
                "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\n\
                 metadata: {{name: beside-{of}, namespace: {NS}}}\n\
                 spec: {{clusterName: {of}, {spec}}}\n"
            ));
        }
        Event::Later(seconds) => world.later(i64::from(*seconds)),
        Event::Apply => {
            let plan = crate::plan::plan(&world.snapshot());
            for (name, config) in &plan.hosts {
                if let Some(live) = world.live.hosts.get_mut(name) {
                    live.report.as_mut().unwrap().applied_generation = config.generation;
                }
            }
        }
        Event::LoseKept(number) => {
            let key = key("kedge.dev", "LoadBalancer", named(number));
            if let Some(layers) = world.objects.by_key.get_mut(&key) {
                layers.owned.remove(crate::managers::ENDPOINT);
            }
        }
    }
}

const INFRA: &str = "infrastructure.cluster.x-k8s.io";

fn machine(number: &u8) -> &'static str {
    ["edge-cp-a", "edge-cp-b", "edge-cp-c"][usize::from(*number)]
}

fn delete(world: &mut World, key: &ObjectKey) {
    // Only an API server shows what is being deleted.
    if world.environment.has_finalizers() && world.objects.get(key).is_some() {
        world.delete(&key.group, &key.kind, &key.name.name);
    }
}

proptest! {
    #![proptest_config(cases::usually(32))]

    #[test]
    fn apply_the_plan_and_the_next_plan_is_empty(events in events(), kubernetes in any::<bool>()) {
        let mut world = if kubernetes { demo().on_kubernetes() } else { demo() };
        for event in &events {
            world.later(1);
            happen(&mut world, event);
            // `settle` asserts the law.
            let plan = world.settle();
            let mut vips = std::collections::BTreeMap::new();
            for item in plan.endpoints.iter().filter(|item| item.mode == "VIP") {
                if let Some(endpoint) = &item.endpoint {
                    let other = vips.insert(endpoint.clone(), item.cluster.clone());
                    prop_assert!(other.is_none_or(|other| other == item.cluster), "{endpoint} twice");
                }
            }
        }
    }

    /// A write that is refused for a moment comes late, and that is all.
    #[test]
    fn an_object_that_was_not_to_be_written_for_a_moment_ends_as_if_it_had_been(
        events in events(),
        kubernetes in any::<bool>(),
        refused in (0_usize..4, 0_u8..6, 0_usize..20, 0_usize..4),
    ) {
        let (kind, number, at, rounds) = refused;
        let key = written_by_others(kind, number);
        let site = || if kubernetes { demo().on_kubernetes() } else { demo() };
        let (mut world, mut other) = (site(), site());
        for (place, event) in events.iter().enumerate() {
            for world in [&mut world, &mut other] {
                world.later(1);
                happen(world, event);
            }
            if place == at % events.len() {
                other.settle_without(&key, rounds);
            }
            prop_assert_eq!(published(&world.settle()), published(&other.settle()));
        }
    }
}

/// Every endpoint, where it comes from, and whether it is published.
fn published(plan: &Plan) -> Vec<[String; 5]> {
    let told = |one: &FleetEndpoint| {
        let mut all = one.conditions.iter();
        let published = all.find(|condition| condition.kind == "EndpointPublished");
        let published = published.map(|found| format!("{} {}", found.status, found.reason));
        [
            one.cluster.clone(),
            one.mode.clone(),
            one.endpoint.clone().unwrap_or_default(),
            one.from.clone(),
            published.unwrap_or_default(),
        ]
    };
    plan.endpoints.iter().map(told).collect()
}

/// An object that somebody else writes to as well, so that a write of ours may be refused.
fn written_by_others(kind: usize, number: u8) -> ObjectKey {
    let clusters = ["c0", "c1", "c2", "edge", "edge-tunnel", "edge-host"];
    let name = clusters[usize::from(number)];
    match kind {
        0 => ObjectKey::new("cluster.x-k8s.io", "Cluster", Name::new(NS, name)),
        1 => ObjectKey::new(INFRA, "ElementalCluster", Name::new(NS, name)),
        2 => ObjectKey::new("kedge.dev", "LoadBalancer", Name::new(NS, name)),
        _ => {
            let name = machine(&(number % 3));
            ObjectKey::new("cluster.x-k8s.io", "Machine", Name::new(NS, name))
        }
    }
}

#[test]
fn a_cluster_that_is_made_anew_has_nothing_of_what_vanished_with_the_last_one() {
    for is_another in [false, true] {
        let mut world = demo();
        for event in [Event::UserEndpoint(1, 0), Event::Core, Event::Vanish(1)] {
            world.later(1);
            happen(&mut world, &event);
            world.settle();
        }
        let key = ObjectKey::new("cluster.x-k8s.io", "Cluster", Name::new(NS, "c1"));
        if is_another {
            let cluster = world.objects.by_key.get_mut(&key).unwrap();
            "another".clone_into(&mut cluster.server.as_mut().unwrap().uid);
        }
        happen(&mut world, &Event::AddCluster(1, 1));
        let plan = world.settle();
        let mut all = plan.endpoints.iter();
        let found = all.find(|found| found.cluster == "c1").unwrap();
        let endpoint = is_another.then_some("203.0.113.7:30002");
        assert_eq!(found.endpoint.as_deref(), endpoint);
        assert_eq!(found.mode, "Tunnel", "{}", found.because);
    }
}

#[test]
fn an_address_that_the_endpoint_tells_is_not_taken_from_the_pool_as_well() {
    let mut world = demo().on_kubernetes();
    for event in [Event::UserEndpoint(1, 1), Event::Core, Event::LoseKept(1)] {
        world.later(1);
        happen(&mut world, &event);
        world.settle();
    }
}
