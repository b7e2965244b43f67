//! Apply the plan and the next plan is empty, whatever happened before.

use kedge_core::vip::RouterState;
use proptest::prelude::*;

use super::world::{NS, VIP, World, cluster, demo};
use crate::snapshot::Hearing;

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
    ];
    prop::collection::vec(event, 1..20)
}

fn happen(world: &mut World, event: &Event) {
    let host = |number: &u8| ["edge-a", "edge-b", "edge-c", "edge-d"][usize::from(*number)];
    let named =
        |number: &u8| ["c0", "c1", "c2", "edge", "edge-tunnel", "edge-host"][usize::from(*number)];
    let key = |group: &str, kind: &str, name: &str| {
        crate::store::ObjectKey::new(group, kind, crate::store::Name::new(NS, name))
    };
    match event {
        Event::Enrol(number) => world.enrol(host(number)),
        Event::EnrolGateway => world.enrol_gateway("gw-0"),
        Event::Hear(number, alive) => {
            let name = crate::store::Name::new(NS, host(number));
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
        Event::LoseKept(number) => {
            let key = key("kedge.dev", "LoadBalancer", named(number));
            if let Some(layers) = world.objects.by_key.get_mut(&key) {
                layers.owned.remove(crate::managers::ENDPOINT);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn apply_the_plan_and_the_next_plan_is_empty(events in events()) {
        let mut world = demo();
        for (second, event) in events.iter().enumerate() {
            world.now = format!("2026-01-01T00:00:{second:02}Z");
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
}
