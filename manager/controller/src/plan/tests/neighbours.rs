//! What others are asked for: records of external-dns, certificates of cert-manager.

use std::collections::BTreeSet;

use kedge_crd::{Resource as _, TenantSpec};
use serde_json::{Value, json};

use super::world::*;
use crate::{
    certificates::Found,
    managers,
    plan::{dns, issued},
    snapshot::{Environment, key},
    store::{Layer, Name, ObjectKey},
};

const FRONT: &str = "rules: [{backends: [{name: web, port: 8080}]}]";

/// A site on Kubernetes whose tenant has names, records and an issuer.
fn asked() -> World {
    let mut world = demo().on_kubernetes();
    tenant(
        &mut world,
        "dns",
        json!({"domain": "lb.example.net", "provider": "DNSEndpoint",
        "allowedHostnames": ["shop.example.com", "api.example.com"]}),
    );
    tenant(&mut world, "issuers", json!([{"name": "letsencrypt"}]));
    world.write(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeGateway\nmetadata: {name: gw, namespace: kedge-system}\n\
         spec:\n  http: {}\n  service: {addresses: [203.0.113.7, '2001:db8::7']}\n  tunnel: {cidrs: \
         ['198.18.0.0/16', 'fd6b:6564:6765::/48'], publicEndpoints: [{host: 203.0.113.7, port: 51820}]}\n",
    );
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b"] {
        world.enrol(host);
    }
    world.offer(
        "web",
        "",
        "ports: [{name: http, port: 8080}], endpoints: [{hostSelector: {}}]",
    );
    world.core();
    world.settle();
    world
}

fn tenant(world: &mut World, field: &str, value: Value) {
    let key = key::<TenantSpec>(&Name::new("", NS));
    let layers = world.objects.by_key.get_mut(&key).unwrap();
    layers.user.as_mut().unwrap().value["spec"][field] = value;
}

fn front(world: &mut World, spec: &str) {
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: HTTPLoadBalancer\nmetadata: {{name: front, namespace: {NS}}}\n\
         spec: {{{spec}, {FRONT}}}\n"
    ));
    let key = ObjectKey::new("kedge.dev", "HTTPLoadBalancer", Name::new(NS, "front"));
    let server = world
        .objects
        .by_key
        .get_mut(&key)
        .unwrap()
        .server
        .get_or_insert_default();
    server.uid = "uid-front".to_owned();
}

fn written(world: &World, key: &ObjectKey, manager: &str) -> Value {
    let layer = Layer::Owned(manager.to_owned());
    world
        .objects
        .content(key, &layer)
        .cloned()
        .unwrap_or_default()
}

/// The records, as `NAME KIND TARGETS TTL`.
fn records(world: &World) -> Vec<String> {
    let key = ObjectKey::new(
        dns::KIND.0,
        dns::KIND.1,
        Name::new(NS, format!("kedge-{NS}")),
    );
    let object = written(world, &key, managers::DNS);
    let shown = |one: &Value| {
        let targets: Vec<&str> = one["targets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap())
            .collect();
        format!(
            "{} {} {} {}",
            one["dnsName"].as_str().unwrap(),
            one["recordType"].as_str().unwrap(),
            targets.join(","),
            one["recordTTL"]
        )
    };
    object["spec"]["endpoints"]
        .as_array()
        .into_iter()
        .flatten()
        .map(shown)
        .collect()
}

fn said(world: &World, kind: &str) -> String {
    let key = ObjectKey::new("kedge.dev", "HTTPLoadBalancer", Name::new(NS, "front"));
    let object: kedge_crd::HttpLoadBalancer = world.objects.by_key[&key].in_force().unwrap();
    let condition = kedge_crd::condition::find(&object.status.conditions, kind).unwrap();
    format!(
        "{} {}: {}",
        condition.status.as_str(),
        condition.reason,
        condition.message
    )
}

#[test]
fn a_tenants_wildcard_leads_to_its_gateway_and_its_other_names_too() {
    let mut world = asked();
    let zone = format!("*.{NS}.lb.example.net");
    let wildcard = [
        format!("{zone} A 203.0.113.7 300"),
        format!("{zone} AAAA 2001:db8::7 300"),
    ];
    assert_eq!(records(&world), wildcard);
    let key = ObjectKey::new(
        dns::KIND.0,
        dns::KIND.1,
        Name::new(NS, format!("kedge-{NS}")),
    );
    let object = written(&world, &key, managers::DNS);
    assert_eq!(object["apiVersion"], "externaldns.k8s.io/v1alpha1");
    assert_eq!(object["metadata"]["labels"]["kedge.dev/tenant"], NS);
    let owner = &object["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("Tenant"), &json!(format!("uid-Tenant-{NS}")))
    );
    // One below the zone needs none of its own.
    front(
        &mut world,
        &format!("hostnames: [shop.example.com, a.{NS}.lb.example.net]"),
    );
    world.settle();
    let all = records(&world);
    assert_eq!(all.len(), 4, "{all:?}");
    assert_eq!(
        all[2..],
        [
            "shop.example.com A 203.0.113.7 300",
            "shop.example.com AAAA 2001:db8::7 300"
        ]
    );
    let told = said(&world, "DNSReady");
    assert!(
        told.starts_with("Unknown Published: external-dns was not heard"),
        "{told}"
    );
    world.remove("kedge.dev", "HTTPLoadBalancer", "front");
    world.settle();
    assert_eq!(records(&world), wildcard);
    tenant(&mut world, "dns", json!({"domain": "lb.example.net"}));
    world.settle();
    assert!(records(&world).is_empty(), "nothing is left");
}

#[test]
fn names_at_another_address_have_records_of_their_own_and_who_came_first_says_where() {
    let mut world = asked();
    let at = |name: &str, rest: &str| {
        format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: HTTPLoadBalancer\nmetadata: {{name: {name}, namespace: {NS}}}\nspec: \
             {{{rest}, rules: [{{backends: [{{name: web, port: 80}}]}}]}}\n"
        )
    };
    let inner = "address: {pool: edge-lan, sharedBy: shop/inner}, hostnames";
    world.write(&at("front", &format!("hostnames: [a.{NS}.lb.example.net]")));
    world.settle();
    world.write(&at(
        "inner",
        &format!("{inner}: [shop.example.com, a.{NS}.lb.example.net]"),
    ));
    world.settle();
    world.write(&at("late", "hostnames: [shop.example.com]"));
    world.settle();
    let all = records(&world);
    let own = format!("inner.{NS}.lb.example.net A 10.20.14.14 300");
    assert!(all.contains(&own), "{all:?}");
    let shop: Vec<_> = all.iter().filter(|it| it.starts_with("shop.")).collect();
    assert_eq!(shop, ["shop.example.com A 10.20.14.14 300"]);
    // The first one's is below the wildcard.
    let below = format!("a.{NS}.");
    assert!(!all.iter().any(|it| it.starts_with(&below)), "{all:?}");
}

#[test]
fn a_control_planes_name_has_its_record_before_there_is_a_control_plane() {
    let mut world = asked();
    let asks = |name: &str| {
        format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: edge, namespace: {NS}}}\nspec: \
         {{clusterName: edge, mode: VIP, vip: {{poolRef: {{name: edge-lan}}}}, dns: {{hostname: {name}, ttl: 30s}}}}\n"
        )
    };
    world.write(&asks("api.example.com"));
    world.names = Some(std::collections::BTreeMap::new());
    world.settle();
    let (spec, _) = world.balancer("edge");
    let address = spec.vip.unwrap().address.unwrap();
    assert!(
        records(&world).contains(&format!("api.example.com A {address} 30")),
        "{:?}",
        records(&world)
    );
    // A name that is not the tenant's gets none.
    world.write(&asks("api.example.org"));
    world.settle();
    assert!(
        !records(&world)
            .iter()
            .any(|one| one.contains("example.org"))
    );
}

#[test]
fn without_the_kinds_it_is_told_and_nothing_is_written() {
    let mut world = asked();
    front(
        &mut world,
        "hostnames: [shop.example.com], tls: [{issuer: letsencrypt}]",
    );
    let Environment::Kubernetes { contracts, .. } = world.environment.clone() else {
        panic!("on Kubernetes");
    };
    world.environment = Environment::Kubernetes {
        contracts,
        served: BTreeSet::new(),
    };
    world.settle();
    let told = said(&world, "DNSReady");
    assert!(
        told.starts_with("False KindMissing: no DNSEndpoint"),
        "{told}"
    );
    let told = said(&world, "CertificateReady");
    assert!(
        told.starts_with("False KindMissing: no Certificate"),
        "{told}"
    );
    assert!(records(&world).is_empty());
}

/// The Certificates.
fn certificates(world: &World) -> Vec<(ObjectKey, Value)> {
    let all = world.objects.of_kind(issued::KIND.0, issued::KIND.1);
    let all = all.filter_map(|(key, layers)| {
        Some((key.clone(), layers.owned.get(managers::ISSUED)?.clone()))
    });
    all.collect()
}

#[test]
fn an_issuer_is_asked_for_the_names_and_its_certificate_is_shown() {
    let mut world = asked();
    front(
        &mut world,
        "hostnames: [shop.example.com], tls: [{issuer: letsencrypt}]",
    );
    world.settle();
    let all = certificates(&world);
    assert_eq!(all.len(), 1);
    let (key, object) = &all[0];
    assert!(key.name.name == "kedge-issued-front-0", "{key}");
    assert_eq!(object["spec"]["secretName"], key.name.name);
    assert_eq!(object["spec"]["dnsNames"], json!(["shop.example.com"]));
    let issuer =
        json!({"name": "letsencrypt", "kind": "ClusterIssuer", "group": "cert-manager.io"});
    assert_eq!(object["spec"]["issuerRef"], issuer);
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid-front");
    let secret = Name::new(NS, &key.name.name);
    world.certificates.insert(secret.clone(), Found::Missing);
    let key = key.clone();
    world.settle();
    let waits = "False Issuing: Certificate ";
    assert!(
        said(&world, "CertificateReady").starts_with(waits),
        "{}",
        said(&world, "CertificateReady")
    );
    let layers = world.objects.by_key.get_mut(&key).unwrap();
    layers.user = Some(crate::store::UserDocument {
        value: json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "waits\u{1b}"},
            {"type": "Issuing", "status": "True", "message": "waits for the DNS-01 challenge"}]}}),
        origin: String::new(),
    });
    world.settle();
    assert!(said(&world, "CertificateReady").ends_with("waits for the DNS-01 challenge"));
    // With other names it stays the same, so that what it carries is shown on.
    front(
        &mut world,
        "hostnames: [shop.example.com, api.example.com], tls: [{issuer: letsencrypt}]",
    );
    world.settle();
    let after = certificates(&world);
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].0, key);
    assert_eq!(
        after[0].1["spec"]["dnsNames"],
        json!(["api.example.com", "shop.example.com"])
    );
    front(
        &mut world,
        "hostnames: [shop.example.com], tls: [{issuer: other}]",
    );
    world.settle();
    assert!(said(&world, "CertificateReady").starts_with("False IssuerNotAllowed"));
    assert!(certificates(&world).is_empty());
    assert_eq!(kedge_crd::HttpLoadBalancerSpec::KIND, "HTTPLoadBalancer");
}

#[test]
fn every_name_is_none_that_a_record_or_a_certificate_is_for() {
    let mut world = asked();
    tenant(
        &mut world,
        "dns",
        json!({"domain": "lb.example.net", "provider": "DNSEndpoint", "allowedHostnames": ["*"]}),
    );
    front(
        &mut world,
        "hostnames: [shop.example.com, '*'], tls: [{issuer: letsencrypt}]",
    );
    world.settle();
    let names = &certificates(&world)[0].1["spec"]["dnsNames"];
    assert_eq!(*names, json!(["shop.example.com"]));
    let all = records(&world);
    assert!(all.iter().any(|one| one.contains("shop.example.com")));
    assert!(!all.iter().any(|one| one.starts_with("* ")), "{all:?}");
    front(&mut world, "hostnames: ['*'], tls: [{issuer: letsencrypt}]");
    world.settle();
    let told = said(&world, "CertificateReady");
    assert!(told.starts_with("False Unsupported: "), "{told}");
    assert!(certificates(&world).is_empty());
}
