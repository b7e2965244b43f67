//! A name whose TLS is passed through to several backends: each has its share of the connections.

use std::collections::BTreeMap;

use kedge_tests_netns::{
    browser::Browser, envoy::executable, eventually, manager::Manager, ready, sealed::Seal, secs,
};

use super::{BACKEND, SITE, Site, by_envoy, http::HTTP, load_balancer};

const NAME: &str = "raw.example.com";

#[test]
fn backends_of_a_name_that_is_passed_through_share_its_connections_by_their_weights() {
    let Some(envoy) = executable().filter(|_| ready()) else {
        return;
    };
    let (site, seal) = sealed();
    let (manager, _gateway, _agents) = site.start_with(&site_yaml(), &by_envoy(envoy));
    let asked = asking(&site, &seal);
    backends(&manager);

    manager.write("raw.yaml", &raw(3, 1));
    eventually("both hosts answer", secs(20), || {
        shares(8, &asked).len() == 2
    });
    most(&shares(CONNECTIONS, &asked), "edge-a");

    // Nothing goes to a weight of 0. Of three in four none of sixty would be a chance of 1 in 30 million.
    manager.write("raw.yaml", &raw(0, 1));
    eventually("the other one alone answers", secs(10), || {
        let heard = shares(60, &asked);
        heard.len() == 1 && heard.contains_key("edge-b")
    });
    assert_eq!(
        shares(CONNECTIONS, &asked),
        BTreeMap::from([("edge-b".to_owned(), CONNECTIONS)])
    );

    manager.write("raw.yaml", &raw(1, 3));
    eventually("both hosts answer again", secs(10), || {
        shares(8, &asked).len() == 2
    });
    most(&shares(CONNECTIONS, &asked), "edge-b");

    // With no weight at all the name is somebody's still, and its clients are sent away.
    manager.write("raw.yaml", &raw(0, 0));
    eventually("nobody answers", secs(10), || asked().is_none());
}

#[test]
fn the_built_in_proxy_shares_alike_and_says_that_it_knows_no_weights() {
    if !ready() {
        return;
    }
    let (site, seal) = sealed();
    let (manager, _gateway, _agents) = site.start_with(&site_yaml(), "");
    let asked = asking(&site, &seal);
    backends(&manager);
    manager.write("raw.yaml", &raw(2, 2));
    eventually("both hosts answer", secs(20), || {
        shares(8, &asked).len() == 2
    });
    manager.write("raw.yaml", &raw(3, 1));
    eventually("weights are refused", secs(10), || {
        manager.condition(HTTP, "shop/raw", "Programmed") == "False Unsupported"
    });
    // One alone is no share.
    manager.write("raw.yaml", &raw(3, 0));
    eventually("the first one alone answers", secs(10), || {
        let heard = shares(8, &asked);
        heard.len() == 1 && heard.contains_key("edge-a")
    });
}

/// Hosts that end TLS by themselves.
fn sealed() -> (Site, Seal) {
    let site = Site::new();
    let seal = Seal::of(NAME);
    for edge in &site.edges {
        seal.serve(edge, BACKEND, &edge.name);
    }
    (site, seal)
}

/// A gateway where names are served, and a tenant that may have this one.
fn site_yaml() -> String {
    let yaml = SITE.replace("  envoy:", "  http: {}\n  envoy:");
    let reference = "  gatewayRef: {name: gw}\n";
    let named = format!("{reference}  dns: {{allowedHostnames: [{NAME}]}}\n");
    yaml.replace(reference, &named)
}

/// A backend of each host.
fn backends(manager: &Manager<'_>) {
    for host in ["edge-a", "edge-b"] {
        let backend = load_balancer(host, "  exposure: Routed\n").replace(
            "matchLabels: {role: web}",
            &format!("matchLabels: {{kedge.dev/host: {host}}}"),
        );
        manager.write(&format!("{host}.yaml"), &backend);
    }
}

fn raw(first: u16, second: u16) -> String {
    format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: HTTPLoadBalancer\n\
         metadata: {{name: raw, namespace: shop}}\n\
         spec:\n  hostnames: [{NAME}]\n  \
         tls: [{{hosts: [{NAME}], passthrough: true}}]\n  rules:\n  \
         - backends:\n    \
         - {{name: edge-a, port: 80, weight: {first}}}\n    \
         - {{name: edge-b, port: 80, weight: {second}}}\n"
    )
}

/// Who answers a new connection over TLS.
fn asking<'a>(site: &'a Site, seal: &Seal) -> impl Fn() -> Option<String> + use<'a> {
    let mut browser = Browser::new(&site.client, site.gateway.address().into());
    browser.trust(seal.certificate.clone());
    move || {
        let answer = browser.tls(443, NAME, NAME, "GET /")?;
        Some(answer.name().to_owned())
    }
}

/// How many of new connections each host answers.
fn shares(connections: u16, asked: &dyn Fn() -> Option<String>) -> BTreeMap<String, u16> {
    let mut shares = BTreeMap::new();
    for name in (0..connections).filter_map(|_| asked()) {
        *shares.entry(name).or_default() += 1;
    }
    shares
}

/// Three in four are this host's. Were each of 400 connections led there by chance, it would have 300 with a
/// standard deviation of 8.7: 60 more or fewer are 1 in 100 billion, and equal shares are far outside.
fn most(shares: &BTreeMap<String, u16>, host: &str) {
    println!("{shares:?}");
    let own = shares.get(host).copied().unwrap_or_default();
    assert_eq!(
        shares.values().sum::<u16>(),
        CONNECTIONS,
        "some are not answered"
    );
    assert!((240..=360).contains(&own), "{shares:?}");
}

const CONNECTIONS: u16 = 400;
