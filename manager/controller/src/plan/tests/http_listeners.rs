//! By which protocols names of HTTPLoadBalancers are asked for, and what is carried of rules beside that.

use std::collections::BTreeMap;

use kedge_control::{frontend::Protocol, site::Site};
use serde_json::json;

use super::http::*;
use crate::plan::Plan;

const SHOP: &str = "shop.example.com";
const WWW: &str = "www.example.org";

/// The ports of a site, whether plain requests are sent on, and its names.
type Told = (Option<u16>, Option<u16>, bool, Vec<String>);

/// Each site of `front` by its name's end.
fn sites(plan: &Plan) -> BTreeMap<String, Told> {
    let of = |site: Site| {
        let end = site.name.strip_prefix("store-014/front")?.to_owned();
        let port = |port: Option<std::num::NonZeroU16>| port.map(std::num::NonZeroU16::get);
        let shown = site.certificates.iter().flat_map(|it| &it.hosts);
        assert!(shown.into_iter().all(|host| site.hosts.contains(host)));
        Some((
            end,
            (port(site.http), port(site.https), site.redirect, site.hosts),
        ))
    };
    served(plan).sites.into_iter().filter_map(of).collect()
}

#[test]
fn names_are_served_where_they_are_asked_for() {
    let own = "front.store-014.lb.example.net";
    let (http, https) = (Some(80), Some(443));
    let all = [own, SHOP, WWW];
    let cases = [
        ("", vec![("", http, https, &all[..])]),
        (
            "{protocol: HTTP}, {protocol: HTTPS}",
            vec![("", http, https, &all[..])],
        ),
        ("{protocol: HTTP}", vec![("/http", http, None, &all[..])]),
        ("{protocol: HTTPS}", vec![("/https", None, https, &all[..])]),
        (
            "{protocol: HTTPS, hosts: [shop.example.com]}",
            vec![("/https", None, https, &[SHOP][..])],
        ),
        (
            "{protocol: HTTP, hosts: [www.example.org, shop.example.com]}, {protocol: HTTPS, hosts: \
             [shop.example.com]}",
            vec![
                ("", http, https, &[SHOP][..]),
                ("/http", http, None, &[WWW][..]),
            ],
        ),
        (
            "{protocol: HTTP, hosts: [www.example.org]}, {protocol: HTTPS, hosts: [shop.example.com]}",
            vec![
                ("/http", http, None, &[WWW][..]),
                ("/https", None, https, &[SHOP][..]),
            ],
        ),
    ];
    let mut world = ready();
    world.certify("cert", &pair(&[SHOP, WWW]));
    for redirect in [false, true] {
        for (listeners, expected) in &cases {
            world.ask(
                "front",
                &format!(
                    "hostnames: [{SHOP}, {WWW}], tls: [{{secretRef: cert}}], httpsRedirect: {redirect}, \
                     listeners: [{listeners}], {RULE}"
                ),
            );
            let found = sites(&world.settle());
            let expected: BTreeMap<_, _> = expected
                .iter()
                .map(|(end, http, https, hosts)| {
                    let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
                    let is_sent = redirect && http.is_some() && https.is_some();
                    ((*end).to_owned(), (*http, *https, is_sent, hosts))
                })
                .collect();
            assert_eq!(found, expected, "{listeners}");
            assert!(
                world.told("front", "Accepted").starts_with("True: "),
                "{listeners}"
            );
            // Clients are told the ports that are asked for.
            let ingress = &world.http("front").status.ingress[0];
            let told: Vec<u16> = ingress.ports.iter().map(|it| it.port.get()).collect();
            let ports = expected
                .values()
                .flat_map(|(http, https, ..)| [*http, *https]);
            let mut ports: Vec<u16> = ports.flatten().collect();
            ports.sort_unstable();
            ports.dedup();
            assert_eq!(told, ports, "{listeners}");
        }
    }
}

#[test]
fn a_name_below_a_wildcard_is_passed_through_without_the_generated_one() {
    let mut world = ready();
    world.ask(
        "front",
        "hostnames: ['*.example.org'], tls: [{hosts: ['*.example.org'], passthrough: true}], listeners: \
         [{protocol: HTTPS, hosts: ['*.example.org']}], rules: [{hosts: ['*.example.org'], backends: [{name: web, \
         port: 80}]}]",
    );
    let plan = world.settle();
    let offer = served(&plan);
    let server_names = vec!["*.example.org".to_owned()];
    let frontend = &offer.frontends[0];
    assert_eq!(frontend.protocol, Protocol::TlsPassthrough { server_names });
    assert!(offer.sites.is_empty(), "{:?}", offer.sites);
    let said = world.told("front", "Accepted");
    assert!(said.starts_with("True: "), "{said}");
}

#[test]
fn what_is_passed_through_is_served_where_it_is_asked_for() {
    let mut world = ready();
    let mut ask = |protocol: &str| {
        world.ask(
            "front",
            &format!(
                "hostnames: [{SHOP}], httpsRedirect: true, tls: [{{hosts: [{SHOP}], passthrough: true}}], listeners: \
                 [{{protocol: {protocol}, hosts: [{SHOP}]}}], rules: [{{hosts: [{SHOP}], backends: [{{name: web, port: \
                 80}}]}}]"
            ),
        );
        let plan = world.settle();
        let offer = served(&plan);
        (offer.frontends.len(), offer.sites.len())
    };
    assert_eq!(ask("HTTPS"), (1, 0), "plain requests are not sent on");
    assert_eq!(ask("HTTP"), (0, 0), "TLS is not asked for");
}

#[test]
fn calls_copies_expressions_and_changes_for_one_backend_are_carried() {
    let mut world = ready();
    world.ask(
        "front",
        "hostnames: [shop.example.com], rules: [{grpc: true, paths: [{path: /a.B/C, type: Exact}], \
         headerExpressions: {X-One: 'a|b'}, queryExpressions: {q: '[0-9]'}, backends: [{name: web, port: 81, \
         requestHeaders: {set: {X-To: web}}}], mirrors: [{name: web, port: 80, millionths: 10}, {name: gone, port: \
         80}]}]",
    );
    let plan = world.settle();
    let route = &site_of(&plan, "front").unwrap().routes[0];
    let route = serde_json::to_value(route).unwrap();
    let matches = json!({"path": {"type": "exact", "value": "/a.B/C"}, "grpc": true,
        "headers": {"x-one": {"type": "regex", "value": "a|b"}},
        "query": {"q": {"type": "regex", "value": "[0-9]"}}});
    assert_eq!(route["matches"], matches);
    let backend = json!({"pool": "store-014/web/grpc", "weight": 1,
        "requestHeaders": {"set": {"x-to": "web"}}});
    assert_eq!(route["action"]["backends"], json!([backend]));
    let mirror = json!({"pool": "store-014/web/http", "millionths": 10});
    assert_eq!(route["action"]["mirrors"], json!([mirror]));
    let said = world.told("front", "ResolvedRefs");
    assert!(said.starts_with("False: BackendNotFound: "), "{said}");
}

#[test]
fn what_of_it_cannot_be_served_is_told_by_its_field() {
    let mut world = ready();
    let cases = [
        (
            "listeners: [{protocol: HTTP, hosts: [b.example]}]",
            "spec.listeners[0].hosts[0]",
        ),
        (
            "listeners: [{protocol: HTTP}, {protocol: HTTP}]",
            "spec.listeners[1]",
        ),
        (
            "address: {pool: edge-lan}, listeners: [{protocol: HTTP, port: 80}, {protocol: HTTPS, port: 80}]",
            "spec.listeners[1].port",
        ),
        (
            "listeners: [{protocol: HTTP, port: 8080}]",
            "spec.listeners[0].port",
        ),
        ("rules: [{grpc: true, method: GET}]", "spec.rules[0].method"),
        (
            "rules: [{headerExpressions: {a: '('}}]",
            "spec.rules[0].headerExpressions[a]",
        ),
        (
            "rules: [{headers: {a: b}, headerExpressions: {A: b}}]",
            "spec.rules[0].headerExpressions[A]",
        ),
        (
            "rules: [{query: {a: b}, queryExpressions: {a: b}}]",
            "spec.rules[0].queryExpressions[a]",
        ),
        (
            "rules: [{backends: [{name: web, port: 80, requestHeaders: {remove: [host]}}]}]",
            "spec.rules[0].backends[0].requestHeaders.remove[0]",
        ),
        (
            "rules: [{redirect: {}, mirrors: [{name: web, port: 80}]}]",
            "spec.rules[0].redirect",
        ),
    ];
    for (spec, field) in cases {
        world.ask("front", spec);
        world.settle();
        let said = world.told("front", "Accepted");
        assert!(
            said.starts_with(&format!("False: Invalid: {field}: ")),
            "{spec}: {said}"
        );
    }
}
