//! Whatever happens: carried out, a plan leaves nothing to do, and nothing of ours stays where it
//! does not belong.

use kedge_crd::TcpLoadBalancerSpec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{World, node, served, service};
use crate::{
    plan::{
        claim::{Claim, claim, is_leaving},
        is_touched,
        wanted::exposure_name,
    },
    snapshot::Config,
};

/// Something that happens in a cluster.
#[derive(Clone, Debug)]
enum Event {
    Put(usize, Value),
    Patch(usize, Value),
    Delete(usize),
    Node(usize, bool),
    NoNode(usize),
    Slice(usize, Vec<usize>),
    ManagerAway,
    ManagerBack,
    /// Only a part of a plan is carried out.
    Step,
}

fn changes() -> impl Strategy<Value = Value> {
    let fixed = [
        json!({}),
        json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null}}),
        json!({"spec": {"type": "NodePort", "loadBalancerClass": null},
            "metadata": {"annotations": {"kedge.dev/expose": "true"}}}),
        json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": null}}),
        json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "kedge.dev/gateway"}}),
        json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}}),
        json!({"spec": {"loadBalancerSourceRanges": null}}),
        json!({"spec": {"externalTrafficPolicy": "Local"}}),
        json!({"spec": {"loadBalancerIP": "192.0.2.9"}}),
        json!({"spec": {"loadBalancerIP": "203.0.113.7"}}),
        json!({"metadata": {"annotations": null}}),
        json!({"spec": {"ports": [{"port": 53, "protocol": "UDP", "nodePort": 30053},
            {"name": "s", "port": 1, "protocol": "SCTP", "nodePort": 30001}]}}),
        json!({"spec": {"ports": [{"port": -7, "nodePort": 99_999}]}}),
        json!({"spec": {"ports": null}}),
        json!({"spec": null}),
    ];
    proptest::sample::select(fixed.to_vec())
}

fn event() -> impl Strategy<Value = Event> {
    let one = 0..SERVICES;
    prop_oneof![
        4 => (one.clone(), changes()).prop_map(|(at, changes)| Event::Put(at, changes)),
        4 => (one.clone(), changes()).prop_map(|(at, changes)| Event::Patch(at, changes)),
        2 => one.clone().prop_map(Event::Delete),
        2 => (0..NODES, any::<bool>()).prop_map(|(at, ready)| Event::Node(at, ready)),
        1 => (0..NODES).prop_map(Event::NoNode),
        2 => (one, proptest::collection::vec(0..NODES, 0..3)).prop_map(|(at, on)| Event::Slice(at, on)),
        1 => Just(Event::ManagerAway),
        1 => Just(Event::ManagerBack),
        3 => Just(Event::Step),
    ]
}

fn happens(world: &mut World, away: &mut Option<crate::snapshot::Offered>, event: Event) {
    let name = |at: usize| format!("s{at}");
    match event {
        Event::Put(at, changes) if !world.is_there(&name(at)) => {
            world.put(service(&name(at), changes));
        }
        Event::Patch(at, changes) if world.is_there(&name(at)) => world.patch(&name(at), changes),
        Event::Delete(at) if world.is_there(&name(at)) => world.delete(&name(at)),
        Event::Put(..) | Event::Patch(..) | Event::Delete(_) => {}
        Event::Node(at, ready) => world.node(node(&format!("n{at}"), ready)),
        Event::NoNode(at) => {
            world.snapshot.nodes.remove(&format!("n{at}"));
        }
        Event::Slice(at, on) => {
            let nodes: Vec<String> = on.iter().map(|at| format!("n{at}")).collect();
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            world.slice(&format!("slice-{at}"), &name(at), &nodes);
        }
        Event::ManagerAway if away.is_none() => *away = world.snapshot.offered.take(),
        Event::ManagerBack if away.is_some() => world.snapshot.offered = away.take(),
        Event::ManagerAway | Event::ManagerBack => {}
        Event::Step => {
            let plan = crate::plan::plan(&world.snapshot);
            world.carry_out(&plan);
        }
    }
}

/// A manager that refuses some ports, and has not got round to others.
fn some(spec: &TcpLoadBalancerSpec) -> Option<Value> {
    match spec.ports.len() {
        1 => served(spec),
        _ => None,
    }
}

proptest! {
    #[test]
    fn whatever_happens_plans_settle_and_nothing_stays_behind(
        unclassed in any::<bool>(),
        events in proptest::collection::vec(event(), 1..24),
    ) {
        let mut world = World::new();
        world.says = some;
        world.snapshot.config = Config { unclassed, ..Config::default() };
        let mut away = None;
        for event in events {
            happens(&mut world, &mut away, event);
        }
        happens(&mut world, &mut away, Event::ManagerBack);
        world.settle();
        prop_assert_eq!(world.settle(), 0);
        let config = &world.snapshot.config;
        let offered = world.offered();
        for service in world.snapshot.services.values() {
            prop_assert!(!is_leaving(service), "it was let go");
            if claim(config, service) == Claim::Foreign {
                prop_assert!(!is_touched(service), "{service:?}");
                prop_assert!(!offered.contains(&exposure_name(service)));
            } else {
                let name = Some(exposure_name(service)).filter(|name| offered.contains(name));
                let guarded = service.metadata.finalizers.is_some();
                prop_assert_eq!(name.is_some(), guarded, "guarded as long as it is offered");
            }
        }
        // Every offer is of a Service that is there.
        let all: Vec<String> = world.snapshot.services.values().map(exposure_name).collect();
        for name in offered {
            prop_assert!(all.contains(&name), "{name}");
        }
    }
}

const SERVICES: usize = 3;
const NODES: usize = 3;
