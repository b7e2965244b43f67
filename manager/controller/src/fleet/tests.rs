mod names;
mod scale;

use std::collections::BTreeMap;

use kedge_control::report::GatewayReport;
use kedge_crd::{EdgeGatewaySpec, EdgeHostSpec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    cases, managers,
    snapshot::{GatewayLive, Hearing, HostLive, Live, key},
    store::{Layer, ObjectKey, Objects, Write, document, stock::Stock},
};

/// Three sites behind one gateway, of which one has a gateway of its own as well.
#[derive(Default)]
struct World {
    objects: Objects,
    stock: Stock,
    fleet: Fleet,
    live: Live,
    planned: Vec<String>,
    hosts: BTreeMap<Name, kedge_control::agent::HostConfig>,
    gateways: BTreeMap<(Name, String), kedge_control::agent::GatewayConfig>,
}

impl World {
    fn write(&mut self, text: &str) {
        for read in document::read_all("test.yaml", text) {
            let (key, user) = read.unwrap_or_else(|problem| panic!("{problem:?}"));
            self.objects.by_key.entry(key.clone()).or_default().user = Some(user);
            self.sync(&key);
        }
    }

    fn owned(&mut self, key: ObjectKey, manager: &str, content: Value) {
        self.apply(&Write {
            key,
            layer: Layer::Owned(manager.to_owned()),
            content: Some(content),
        });
    }

    fn apply(&mut self, write: &Write) {
        self.objects.apply(write);
        self.sync(&write.key);
    }

    fn sync(&mut self, key: &ObjectKey) {
        match self.objects.get(key) {
            Some(layers) => {
                self.stock.put(key, layers);
            }
            None => self.stock.remove(key),
        }
    }

    fn gateway(&mut self, space: &str, range: (u16, u16)) {
        let (from, to) = range;
        self.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: EdgeGateway\n\
             metadata: {{name: gw, namespace: {space}}}\n\
             spec:\n  tunnel: {{publicEndpoints: [{{host: 198.51.100.7}}]}}\n  \
             service: {{addresses: [198.51.100.7]}}\n  ports: {{range: {{from: {from}, to: {to}}}}}\n"
        ));
        let content = json!({"metadata": {"name": "gw", "namespace": space}, "spec": {"instances": [
            {"name": "gw-0", "identity": {"uid": format!("uid-{space}"), "generation": 1},
             "publicKeys": [format!("key-{space}")]}]}});
        let name = Name::new(space, "gw");
        self.owned(key::<EdgeGatewaySpec>(&name), managers::ENROL, content);
        let live = GatewayLive {
            hearing: Hearing::Alive,
            report: Some(GatewayReport::default()),
        };
        self.live.gateways.insert((name, "gw-0".to_owned()), live);
    }

    fn site(&mut self, space: &str) {
        self.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {space}}}\n\
             spec: {{namespace: {space}, gatewayRef: {{name: gw, namespace: kedge-system}}}}\n"
        ));
    }

    fn host(&mut self, space: &str, name: &str) {
        let content = json!({"metadata": {"name": name, "namespace": space}, "spec": {
            "tenant": space, "tunnel": {"publicKeys": [format!("key-{space}-{name}")]},
            "identity": {"uid": format!("{space}-{name}"), "publicKey": "pem", "generation": 1}}});
        let name = Name::new(space, name);
        self.owned(key::<EdgeHostSpec>(&name), managers::ENROL, content);
        let live = HostLive {
            hearing: Hearing::Alive,
            ..HostLive::default()
        };
        self.live.hosts.insert(name, live);
    }

    fn balancer(&mut self, space: &str, name: &str, gateway: &str) {
        self.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\n\
             metadata: {{name: {name}, namespace: {space}}}\n\
             spec: {{clusterName: {name}, mode: Tunnel, targetKind: {{kind: EdgeHost, apiGroup: kedge.dev}}, \
             gatewayRef: {{name: gw, namespace: {gateway}}}}}\n---\n\
             apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n\
             metadata: {{name: {name}, namespace: {space}}}\n\
             spec: {{infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, \
             kind: ElementalCluster, name: {name}}}}}\n---\n\
             apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: ElementalCluster\n\
             metadata: {{name: {name}, namespace: {space}}}\nspec: {{}}\n"
        ));
    }

    fn drop_balancer(&mut self, space: &str, name: &str) {
        for (group, kind) in [
            ("kedge.dev", "LoadBalancer"),
            ("cluster.x-k8s.io", "Cluster"),
        ] {
            let key = ObjectKey::new(group, kind, Name::new(space, name));
            if let Some(layers) = self.objects.by_key.get_mut(&key) {
                layers.user = None;
                self.sync(&key);
            }
        }
    }

    fn snapshot(&self, space: &str) -> Snapshot {
        let mut live = self.live.clone();
        live.hosts.retain(|name, _| name.namespace == space);
        live.gateways.retain(|(name, _), _| name.namespace == space);
        let objects = Arc::new(self.stock.take(space).open());
        let mut snapshot = Snapshot::of(objects, live, "CA", NOW);
        snapshot.space = space.to_owned();
        snapshot
    }

    /// Plans what is due and carries it out, until nothing is.
    fn settle(&mut self) {
        self.planned.clear();
        for _ in 0..500 {
            for space in self.stock.changes().spaces {
                self.fleet.touch(&space);
            }
            let due = self.fleet.next(2);
            if due.is_empty() {
                return;
            }
            // As at a start: what is there already is known before anybody is planned.
            for space in self.stock.spaces() {
                if !self.fleet.knows(&space) {
                    let snapshot = self.snapshot(&space);
                    self.fleet.seed(&snapshot);
                }
            }
            for space in due {
                let mut snapshot = self.snapshot(&space);
                let Some(plan) = self.fleet.plan(&mut snapshot) else {
                    continue;
                };
                for write in &plan.writes {
                    self.apply(write);
                }
                self.hosts.retain(|name, _| name.namespace != space);
                self.gateways.retain(|(name, _), _| name.namespace != space);
                self.hosts.extend(plan.hosts);
                self.gateways.extend(plan.gateways);
                self.planned.push(space);
            }
        }
        panic!("the fleet does not come to rest: {:?}", self.planned);
    }

    /// A manager that starts now.
    fn restart(&mut self) {
        self.fleet = Fleet::default();
        self.hosts.clear();
        self.gateways.clear();
        for space in self.stock.spaces() {
            self.fleet.touch(&space);
        }
    }

    /// One plan of everything finds nothing to do, and hands out the same.
    fn agrees_with_one_plan(&self) {
        let snapshot = Snapshot::observe(&self.objects, self.live.clone(), "CA", NOW);
        let whole = plan(&snapshot);
        assert_eq!(whole.writes, []);
        assert_eq!(whole.hosts, self.hosts);
        assert_eq!(whole.gateways, self.gateways);
    }
}

fn world() -> World {
    let mut world = World::default();
    world.gateway("kedge-system", (20_000, 20_003));
    world.gateway("a", (30_000, 30_001));
    for space in ["a", "b", "c"] {
        world.site(space);
    }
    world
}

#[test]
fn what_changes_in_one_namespace_is_planned_there_and_at_its_gateway() {
    let mut world = world();
    world.host("b", "h");
    world.settle();
    world.host("c", "h");
    world.settle();
    world.agrees_with_one_plan();
    let first: Vec<&str> = world.planned.iter().map(String::as_str).collect();
    assert!(
        first.starts_with(&["c"]) && first.contains(&"kedge-system"),
        "{first:?}"
    );
    assert!(!first.contains(&"b") && !first.contains(&"a"), "{first:?}");

    world.settle();
    assert_eq!(world.planned, Vec::<String>::new(), "nothing is due");
}

#[test]
fn a_start_tells_no_gateway_to_drop_anybody() {
    let mut world = world();
    for space in ["a", "b", "c"] {
        world.host(space, "h");
        world.balancer(space, space, "kedge-system");
    }
    world.balancer("b", "b2", "a");
    world.settle();
    let before = world.gateways.clone();
    assert_eq!(before.len(), 2);
    let objects = world.objects.clone();
    world.restart();
    world.settle();
    assert_eq!(world.gateways, before);
    assert_eq!(world.objects, objects, "nothing was written");
}

#[test]
fn a_port_that_is_given_back_goes_to_who_waits_for_it() {
    let mut world = world();
    for (space, name) in [
        ("a", "a1"),
        ("b", "b1"),
        ("b", "b2"),
        ("c", "c1"),
        ("c", "c2"),
    ] {
        world.balancer(space, name, "kedge-system");
    }
    for space in ["a", "b", "c"] {
        world.host(space, "h");
    }
    world.settle();
    let ports = |world: &World| {
        let all = world.gateways.values().flat_map(|config| &config.listeners);
        let mut ports: Vec<u16> = all.map(|listener| listener.port).collect();
        ports.sort_unstable();
        ports
    };
    assert_eq!(ports(&world), [20_000, 20_001, 20_002, 20_003]);
    world.drop_balancer("a", "a1");
    world.settle();
    assert_eq!(
        ports(&world),
        [20_000, 20_001, 20_002, 20_003],
        "the fifth has it"
    );
}

#[test]
fn where_tenants_are_apart_each_has_the_first_addresses_that_no_gateway_has() {
    let mut world = world();
    world.write(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeGateway\n\
         metadata: {name: gw, namespace: kedge-system}\n\
         spec: {tunnel: {addressing: PerTenant, cidrs: [198.18.0.0/16], \
         publicEndpoints: [{host: 198.51.100.7}]}}\n",
    );
    world.settle();
    for (space, name) in [("b", "h"), ("c", "h"), ("b", "i"), ("c", "i")] {
        world.host(space, name);
        world.settle();
    }
    let address = |space: &str, name: &str| {
        let key = key::<EdgeHostSpec>(&Name::new(space, name));
        let host = world.objects.get(&key).unwrap().effective();
        host["spec"]["tunnel"]["addresses"].clone()
    };
    // The first two are those of the instances of both gateways.
    for space in ["b", "c"] {
        assert_eq!(address(space, "h"), json!(["198.18.0.3/32"]));
        assert_eq!(address(space, "i"), json!(["198.18.0.4/32"]));
    }
    world.agrees_with_one_plan();
    // Hosts of another gateway have what nobody has.
    world.write(
        "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {name: a}\n\
         spec: {namespace: a, gatewayRef: {name: gw, namespace: a}}\n",
    );
    world.host("a", "h");
    world.settle();
    let key = key::<EdgeHostSpec>(&Name::new("a", "h"));
    let host = world.objects.get(&key).unwrap().effective();
    assert_eq!(host["spec"]["tunnel"]["addresses"][1], "198.18.0.5/32");
    world.agrees_with_one_plan();
}

#[test]
fn who_changes_to_another_gateway_takes_nobodys_port_there() {
    let mut world = world();
    world.balancer("c", "c2", "a");
    world.balancer("a", "a1", "kedge-system");
    world.host("a", "h");
    world.host("c", "h");
    world.settle();
    let port = |world: &World, space: &str, name: &str| {
        let key = key::<kedge_crd::LoadBalancerSpec>(&Name::new(space, name));
        world.objects.get(&key).unwrap().effective()["spec"]["listeners"]["api"].as_u64()
    };
    let had = port(&world, "c", "c2");
    assert_eq!(had, Some(30_000));
    world.balancer("c", "c2", "kedge-system");
    world.settle();
    assert_eq!(port(&world, "c", "c2"), Some(30_000), "it is free there");
    world.agrees_with_one_plan();
    world.balancer("b", "b0", "a");
    world.settle();
    assert_eq!(port(&world, "b", "b0"), Some(30_000));
    world.balancer("c", "c2", "a");
    world.settle();
    assert_eq!(
        port(&world, "b", "b0"),
        Some(30_000),
        "who was there keeps it"
    );
    assert_eq!(port(&world, "c", "c2"), Some(30_001));
    world.agrees_with_one_plan();
}

proptest! {
    #![proptest_config(cases::usually(24))]

    #[test]
    fn the_plans_of_namespaces_together_are_the_plan_of_everything(
        events in prop::collection::vec((0_u8..6, 0_u8..3, 0_u8..3), 1..14)
    ) {
        let mut world = world();
        for (event, space, number) in events {
            let space = ["a", "b", "c"][usize::from(space)];
            let name = format!("{space}{number}");
            match event {
                0 | 1 => world.host(space, &name),
                2 => world.balancer(space, &name, "kedge-system"),
                3 => world.balancer(space, &name, "a"),
                4 => world.drop_balancer(space, &name),
                _ => world.restart(),
            }
            world.settle();
            world.agrees_with_one_plan();
        }
    }
}

const NOW: &str = "2026-01-01T00:00:00Z";
