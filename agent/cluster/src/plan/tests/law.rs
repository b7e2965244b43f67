//! Whatever happens: carried out, a plan leaves nothing to do, and nothing of ours stays where it
//! does not belong.

use kedge_crd::TcpLoadBalancerSpec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    ingresses::{ingress as made, rule},
    world::{World, node, served, service},
};
use crate::{
    plan::{
        claim::{Claim, claim, is_leaving},
        ingress, is_touched,
        owner::Owner,
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
    PutIngress(usize, Value),
    PatchIngress(usize, Value),
    DeleteIngress(usize),
    /// Ingresses are not seen, or again.
    Blind,
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
        json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/33"]}}),
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

fn ingress_changes() -> impl Strategy<Value = Value> {
    let to = |rules: Value| json!({"spec": {"rules": rules}});
    let fixed = [
        json!({}),
        to(json!([
            rule("a.example.net", "/", "s0"),
            rule("a.example.net", "/x", "s1")
        ])),
        to(json!([rule("b.example.net", "/", "s2")])),
        to(json!(null)),
        json!({"spec": {"ingressClassName": "other"}}),
        json!({"spec": {"ingressClassName": "kedge"}}),
        json!({"metadata": {"annotations": {"kedge.dev/unknown": "1"}}}),
        json!({"metadata": {"annotations": null}}),
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
        2 => (one.clone(), proptest::collection::vec(0..NODES, 0..3)).prop_map(|(at, on)| Event::Slice(at, on)),
        4 => (one.clone(), ingress_changes()).prop_map(|(at, it)| Event::PutIngress(at, it)),
        4 => (one.clone(), ingress_changes()).prop_map(|(at, it)| Event::PatchIngress(at, it)),
        2 => one.clone().prop_map(Event::DeleteIngress),
        1 => Just(Event::Blind),
        1 => Just(Event::ManagerAway),
        1 => Just(Event::ManagerBack),
        3 => Just(Event::Step),
    ]
}

/// What is away for a while.
#[derive(Default)]
struct Away {
    manager: Option<crate::snapshot::Offered>,
    ingresses: Option<crate::snapshot::Ingresses>,
}

fn happens(world: &mut World, away: &mut Away, event: Event) {
    if matches!(
        &event,
        Event::PutIngress(..) | Event::PatchIngress(..) | Event::DeleteIngress(_)
    ) {
        // They change while nobody looks.
        let seen = away.ingresses.take();
        let is_blind = seen.is_some();
        if is_blind {
            world.snapshot.ingresses = seen;
        }
        happens_to_ingresses(world, event);
        if is_blind {
            away.ingresses = world.snapshot.ingresses.take();
        }
        return;
    }
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
        Event::Blind if away.ingresses.is_none() => {
            away.ingresses = world.snapshot.ingresses.take()
        }
        Event::Blind => world.snapshot.ingresses = away.ingresses.take(),
        Event::ManagerAway if away.manager.is_none() => {
            away.manager = world.snapshot.offered.take()
        }
        Event::ManagerBack if away.manager.is_some() => {
            world.snapshot.offered = away.manager.take();
        }
        Event::ManagerAway | Event::ManagerBack => {}
        Event::PutIngress(..) | Event::PatchIngress(..) | Event::DeleteIngress(_) => {}
        Event::Step => {
            let plan = crate::plan::plan(&world.snapshot);
            world.carry_out(&plan);
        }
    }
}

fn happens_to_ingresses(world: &mut World, event: Event) {
    let name = |at: usize| format!("i{at}");
    match event {
        Event::PutIngress(at, changes) if !world.has_ingress(&name(at)) => {
            world.put_ingress(made(&name(at), changes));
        }
        Event::PatchIngress(at, changes) if world.has_ingress(&name(at)) => {
            world.patch_ingress(&name(at), changes);
        }
        Event::DeleteIngress(at) if world.has_ingress(&name(at)) => world.delete_ingress(&name(at)),
        _ => {}
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
        let mut away = Away::default();
        for event in events {
            happens(&mut world, &mut away, event);
        }
        happens(&mut world, &mut away, Event::ManagerBack);
        if away.ingresses.is_some() {
            // What is offered of them stays while nobody sees them.
            let before = world.routed();
            world.settle();
            prop_assert_eq!(before, world.routed());
            happens(&mut world, &mut away, Event::Blind);
        }
        world.settle();
        prop_assert_eq!(world.settle(), 0);
        let config = &world.snapshot.config;
        let offered = world.offered();
        for service in world.snapshot.services.values() {
            prop_assert!(!is_leaving(service), "it was let go");
            if claim(config, service) == Claim::Foreign {
                prop_assert!(!is_touched(service), "{service:?}");
                prop_assert!(!offered.contains(&Owner::from(service).exposure()));
            } else {
                let name = Some(Owner::from(service).exposure()).filter(|name| offered.contains(name));
                let guarded = service.metadata.finalizers.is_some();
                prop_assert_eq!(name.is_some(), guarded, "guarded as long as it is offered");
            }
        }
        let routed = world.routed();
        let ingresses = world.snapshot.ingresses.clone().unwrap();
        for ingress in ingresses.all.values() {
            prop_assert!(ingress.metadata.deletion_timestamp.is_none(), "it was let go");
            let is_offered = routed.contains(&Owner::from(ingress).exposure());
            prop_assert_eq!(is_offered, Owner::from(ingress).is_guarded());
            if ingress::claim::claim(&ingresses, ingress) == ingress::claim::Claim::Foreign {
                prop_assert!(!ingress::is_touched(ingress), "{ingress:?}");
            }
        }
        let all: Vec<String> = ingresses.all.values().map(|it| Owner::from(it).exposure()).collect();
        prop_assert!(routed.iter().all(|name| all.contains(name)), "{routed:?}");
        // Every offer is of a Service that is there, or led to.
        let offers = world.snapshot.offered.clone().unwrap();
        let rules = offers.http.values().flat_map(|it| it.spec.clone().unwrap().rules);
        let led: Vec<String> = rules.flat_map(|it| it.backends).map(|it| it.name).collect();
        let all: Vec<String> = world.snapshot.services.values().map(|it| Owner::from(it).exposure()).collect();
        for name in &offered {
            prop_assert!(all.contains(name) || led.contains(name), "{name}");
        }
        prop_assert!(led.iter().all(|name| offered.contains(name)), "{led:?} {offered:?}");
    }
}

const SERVICES: usize = 3;
const NODES: usize = 3;
