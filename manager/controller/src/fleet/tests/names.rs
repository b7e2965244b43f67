//! Names of sites that tenants of several namespaces ask for.

use std::collections::BTreeSet;

use kedge_crd::{HttpLoadBalancer, HttpLoadBalancerSpec};

use super::*;
use crate::{certificates::Found, snapshot::Environment};

const HOST: &str = "shop.example.com";

impl World {
    fn ask(&mut self, space: &str, name: &str, spec: &str) {
        self.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: HTTPLoadBalancer\nmetadata: {{name: {name}, namespace: {space}}}\n\
             spec: {{hostnames: ['{HOST}'], rules: [{{redirect: {{}}}}], {spec}}}\n"
        ));
    }

    fn http(&self, space: &str, name: &str) -> HttpLoadBalancer {
        let key = key::<HttpLoadBalancerSpec>(&Name::new(space, name));
        self.objects.get(&key).unwrap().in_force().unwrap()
    }

    /// Whether it has the name; else why it is not served.
    fn has(&self, space: &str, name: &str) -> Result<(), String> {
        let status = self.http(space, name).status;
        if status.hostnames.iter().any(|it| it.hostname == HOST) {
            return Ok(());
        }
        let accepted = kedge_crd::condition::find(&status.conditions, "Accepted");
        Err(accepted.unwrap().reason.clone())
    }

    fn sites(&self) -> Vec<String> {
        let sites = self
            .gateways
            .values()
            .flat_map(|config| &config.offer.sites);
        sites.map(|site| site.name.clone()).collect()
    }
}

fn named() -> World {
    let mut world = World::default();
    world.gateway("kedge-system", (20_000, 20_003));
    world.write(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeGateway\nmetadata: {name: gw, namespace: kedge-system}\nspec: \
         {tunnel: {publicEndpoints: [{host: 198.51.100.7}]}, http: {}}\n",
    );
    for space in ["a", "b"] {
        world.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {space}}}\nspec: {{namespace: {space}, \
             gatewayRef: {{name: gw, namespace: kedge-system}}, dns: {{allowedHostnames: ['{HOST}']}}}}\n"
        ));
    }
    world
}

#[test]
fn a_name_stays_with_its_namespace_and_goes_to_who_waits_for_it() {
    let mut world = named();
    world.ask("b", "web", "");
    world.settle();
    world.ask("a", "web", "");
    world.settle();
    let taken = Err("HostnameTaken".to_owned());
    assert_eq!(
        (world.has("a", "web"), world.has("b", "web")),
        (taken.clone(), Ok(()))
    );
    assert_eq!(world.sites(), ["b/web"]);
    world.agrees_with_one_plan();
    // Whoever is planned first after a start takes nothing.
    world.restart();
    world.settle();
    assert_eq!(
        (world.has("a", "web"), world.has("b", "web")),
        (taken, Ok(()))
    );
    let key = key::<HttpLoadBalancerSpec>(&Name::new("b", "web"));
    world.objects.by_key.get_mut(&key).unwrap().user = None;
    world.sync(&key);
    world.settle();
    assert_eq!(world.has("a", "web"), Ok(()));
    assert_eq!(world.sites(), ["a/web"]);
    world.agrees_with_one_plan();
}

#[test]
fn an_address_of_two_namespaces_pools_is_served_for_one_of_them() {
    let mut world = named();
    for space in ["a", "b"] {
        world.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: VIPPool\nmetadata: {{name: public, namespace: {space}}}\nspec: \
             {{addresses: [198.51.100.20-198.51.100.21], prefix: 24}}\n"
        ));
    }
    let own = "address: {pool: public, sharedBy: shop/inner}";
    world.ask("b", "web", own);
    world.settle();
    // Another name is its own, but no place at that address is.
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: a}}\nspec: {{namespace: a, gatewayRef: \
         {{name: gw, namespace: kedge-system}}, dns: {{allowedHostnames: ['{HOST}', other.example]}}}}\n"
    ));
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: HTTPLoadBalancer\nmetadata: {{name: web, namespace: a}}\nspec: \
         {{hostnames: [other.example], rules: [{{redirect: {{}}}}], {own}}}\n"
    ));
    world.settle();
    let taken = Err("PortInUse".to_owned());
    for _ in 0..2 {
        assert_eq!(
            (world.has("a", "web"), world.has("b", "web")),
            (taken.clone(), Ok(()))
        );
        assert_eq!(world.sites(), ["b/web"]);
        world.agrees_with_one_plan();
        // Whoever is planned first after a start takes nothing.
        world.restart();
        world.settle();
    }
    let key = key::<HttpLoadBalancerSpec>(&Name::new("b", "web"));
    world.objects.by_key.get_mut(&key).unwrap().user = None;
    world.sync(&key);
    world.settle();
    assert_eq!(world.sites(), ["a/web"]);
    world.agrees_with_one_plan();
}

#[test]
fn a_start_takes_no_certificate_from_a_gateway() {
    let mut world = named();
    let tls = "tls: [{secretRef: cert}]";
    world.ask("a", "web", tls);
    world.settle();
    world.restart();
    for space in ["a", "b", "kedge-system"] {
        let snapshot = world.snapshot(space);
        world.fleet.seed(&snapshot);
    }
    let plan = |world: &mut World, space: &str, found: Option<Found>| {
        let environment = Environment::Kubernetes {
            contracts: BTreeMap::new(),
            served: BTreeSet::new(),
        };
        let mut snapshot = world.snapshot(space).within(environment);
        snapshot.certificates = found
            .map(|it| (Name::new(space, "cert"), it))
            .into_iter()
            .collect();
        world.fleet.plan(&mut snapshot)
    };
    assert!(plan(&mut world, "b", None).is_some());
    let first = plan(&mut world, "a", None).unwrap();
    assert!(first.is_unread);
    assert!(
        plan(&mut world, "kedge-system", None).is_none(),
        "the gateway waits"
    );
    assert!(plan(&mut world, "a", Some(Found::Missing)).is_some());
    assert!(plan(&mut world, "kedge-system", None).is_some());
    // One that is asked for later holds nobody up.
    world.ask("b", "web", tls);
    assert!(plan(&mut world, "b", None).is_some());
    assert!(plan(&mut world, "kedge-system", None).is_some());
}
