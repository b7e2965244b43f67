//! Whatever happens while hosts leave: the plan is empty once it was carried out, no deletion is held longer
//! than it may be, and who is left for good gets no connections.

use kedge_control::report::Draining;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{NS, World, demo};
use crate::{
    cases,
    snapshot::Hearing,
    store::{Layer, Name, ObjectKey},
};

const CAPI: &str = "cluster.x-k8s.io";
const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/kedge-lb";
const TIMEOUT: i64 = 60;
const HOSTS: [(&str, &str); 3] = [
    ("edge-a", "edge-cp-a"),
    ("edge-b", "edge-cp-b"),
    ("edge-c", "edge-cp-c"),
];

#[derive(Clone, Debug)]
enum Event {
    Delete(u8),
    /// What the gateway says is open at each backend it leaves, if it can leave any.
    Open(Option<u8>),
    Gateway(Hearing),
    Host(u8, bool),
    Offer(bool),
    Leaves(u8, bool),
    Pause(bool),
    Applied,
    Later(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let hearing = prop_oneof![
        Just(Hearing::Alive),
        Just(Hearing::Silent),
        Just(Hearing::Unknown)
    ];
    let event = prop_oneof![
        3 => (0_u8..3).prop_map(Event::Delete),
        4 => proptest::option::weighted(0.9, 0_u8..3).prop_map(Event::Open),
        1 => hearing.prop_map(Event::Gateway),
        1 => (0_u8..3, any::<bool>()).prop_map(|(host, alive)| Event::Host(host, alive)),
        1 => any::<bool>().prop_map(Event::Offer),
        1 => (0_u8..3, any::<bool>()).prop_map(|(host, leaves)| Event::Leaves(host, leaves)),
        1 => any::<bool>().prop_map(Event::Pause),
        2 => Just(Event::Applied),
        2 => (1_u8..40).prop_map(Event::Later),
    ];
    prop::collection::vec(event, 1..20)
}

struct Run {
    world: World,
    open: Option<u8>,
    leaves: [bool; 3],
    offered: bool,
    deleted: [Option<i64>; 3],
    paused: bool,
    at: i64,
}

impl Run {
    fn offer(&mut self) {
        if !self.offered {
            return;
        }
        let leaves = HOSTS.iter().zip(self.leaves).filter(|(_, leaves)| *leaves);
        let leaves: Vec<&str> = leaves.map(|((host, _), _)| *host).collect();
        let spec = format!(
            "ports: [{{name: http, port: 80}}], endpoints: [{{hostSelector: {{}}, drainingHosts: [{}]}}]",
            leaves.join(", ")
        );
        self.world.offer("web", "", &spec);
    }

    fn happen(&mut self, event: &Event) {
        let world = &mut self.world;
        match event {
            Event::Delete(at) => {
                let at = usize::from(*at);
                if self.deleted[at].is_none() {
                    self.deleted[at] = Some(self.at);
                    world.delete(CAPI, "Machine", HOSTS[at].1);
                }
            }
            Event::Open(open) => self.open = *open,
            Event::Gateway(hearing) => {
                for live in world.live.gateways.values_mut() {
                    live.hearing = *hearing;
                }
            }
            Event::Host(at, alive) => {
                let hearing = match alive {
                    true => Hearing::Alive,
                    false => Hearing::Silent,
                };
                world.hearing(HOSTS[usize::from(*at)].0, hearing);
            }
            Event::Offer(offered) => {
                if self.offered && !offered {
                    world.remove("kedge.dev", "TCPLoadBalancer", "web");
                }
                self.offered = *offered;
                self.offer();
            }
            Event::Leaves(at, leaves) => {
                self.leaves[usize::from(*at)] = *leaves;
                self.offer();
            }
            Event::Pause(paused) => {
                world.document(CAPI, "Cluster", "edge")["spec"]["paused"] = json!(paused);
                self.paused = *paused;
            }
            Event::Applied => {
                let plan = crate::plan::plan(&world.snapshot());
                for (name, config) in &plan.hosts {
                    let generation = config.generation;
                    world.report(&name.name, |report| report.applied_generation = generation);
                }
            }
            Event::Later(seconds) => {
                world.later(i64::from(*seconds));
                self.at += i64::from(*seconds);
            }
        }
    }

    /// The gateway takes what it is told into use, and says what is open to what it leaves.
    fn tell(&mut self) {
        let plan = crate::plan::plan(&self.world.snapshot());
        let config = plan.gateways.values().next().unwrap();
        let members = config.offer.pools.iter().flat_map(|pool| &pool.members);
        let tenants = members.map(|one| (&one.host, one.address, one.port.get(), one.draining));
        let own = config.listeners.iter().flat_map(|one| &one.members);
        let own = own.map(|one| (&one.host, one.address, one.port, one.draining));
        let left = tenants.chain(own).filter(|(.., draining)| *draining);
        let open = self.open;
        let left = left.map(|(host, address, port, _)| Draining {
            host: host.clone(),
            address,
            port,
            open: open.map(u32::from),
        });
        let left: Vec<Draining> = left.collect();
        for live in self.world.live.gateways.values_mut() {
            let report = live.report.as_mut().unwrap();
            report.applied_generation = config.generation;
            report.draining = open.is_some().then(|| left.clone());
        }
    }

    fn holds(&mut self) {
        let plan = self.world.settle();
        let members = plan.gateways.values().flat_map(|config| {
            let pools = config.offer.pools.iter().flat_map(|pool| &pool.members);
            pools.map(|member| (member.host.clone(), member.draining))
        });
        let members: Vec<(String, bool)> = members.collect();
        for ((host, machine), deleted) in HOSTS.iter().zip(self.deleted) {
            let key = ObjectKey::new(CAPI, "Machine", Name::new(NS, *machine));
            let marks = self.world.objects.content(&key, &Layer::Marks);
            let hook = marks.map(|marks| marks["metadata"]["annotations"][PRE_DRAIN].clone());
            let is_held = hook.is_some_and(|hook| hook != Value::Null);
            let Some(deleted) = deleted.filter(|_| !self.paused) else {
                continue;
            };
            let host = format!("{NS}/{host}");
            let mut found = members.iter().filter(|(name, _)| *name == host);
            assert!(
                found.clone().all(|(_, draining)| *draining),
                "{host} takes nothing new"
            );
            assert!(is_held || found.next().is_none(), "{host} is left for good");
            assert!(
                !is_held || self.at - deleted < TIMEOUT,
                "{machine} is held for too long"
            );
        }
    }
}

proptest! {
    #![proptest_config(cases::usually(12))]

    #[test]
    fn no_deletion_is_held_for_long_and_nobody_is_led_to_who_leaves(events in events()) {
        let mut world = demo().on_kubernetes();
        world.enrol_gateway("gw-0");
        for (host, _) in HOSTS {
            world.enrol(host);
        }
        world.core();
        world.settle();
        world.core();
        let mut run = Run {
            world,
            open: Some(0),
            leaves: [false; 3],
            offered: true,
            deleted: [None; 3],
            paused: false,
            at: 0,
        };
        run.offer();
        run.tell();
        run.holds();
        for event in &events {
            run.happen(event);
            run.holds();
            run.tell();
            run.holds();
        }
    }
}
