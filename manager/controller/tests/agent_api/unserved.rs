//! What a gateway says that it does not serve: heard of what it was given, and of nothing else.

use std::{fs, time::Duration};

use kedge_control::{
    agent::GatewayConfig,
    report::{GatewayReport, ReportedPeer, Unserved, UnservedReason},
};

use crate::site::{Site, eventually};

const OBJECTS: &str = "\
apiVersion: kedge.dev/v1alpha1
kind: TCPLoadBalancer
metadata: {name: open, namespace: store-014}
spec:
  ports: [{name: http, port: 8080}]
  endpoints: [{hostSelector: {}, ports: [{name: http, port: 30080}]}]
---
apiVersion: kedge.dev/v1alpha1
kind: TCPLoadBalancer
metadata: {name: some, namespace: store-014}
spec:
  ports: [{name: http, port: 8081}]
  endpoints: [{hostSelector: {}, ports: [{name: http, port: 30080}]}]
  sourceRanges: [192.0.2.0/24]
---
apiVersion: kedge.dev/v1alpha1
kind: HTTPLoadBalancer
metadata: {name: front, namespace: store-014}
spec:
  hostnames: [shop.example.com]
  rules: [{backends: [{name: open, port: 8080}]}]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_heard_of_every_kind_of_thing_it_was_given_and_of_nothing_else() {
    let site = Site::start().await;
    let gateway = site.gateway("gw-0").await.enrolled().await;
    rewrite(&site, "gateway.yaml", "spec:\n", "spec:\n  http: {}\n");
    let names = "spec:\n  dns: {allowedHostnames: [shop.example.com]}\n  namespace: store-014 ";
    rewrite(&site, "site.yaml", "spec:\n  namespace: store-014 ", names);
    fs::write(site.objects().join("lbs.yaml"), OBJECTS).unwrap();

    let given: Vec<String> = eventually("the gateway is given all three", async || {
        let config = gateway.client.config::<GatewayConfig>(None, Duration::ZERO);
        let offer = config.await.unwrap()?.offer;
        let parts = (&offer.frontends, &offer.restricted, &offer.sites);
        let is_whole = !parts.0.is_empty() && parts.1.len() == 1 && parts.2.len() == 1;
        is_whole.then(|| offer.names().map(str::to_owned).collect())
    })
    .await;
    for name in [
        "store-014/open/http",
        "store-014/some/http",
        "store-014/front",
    ] {
        assert!(given.iter().any(|one| one == name), "{name} of {given:?}");
    }

    let says = |name: &str| Unserved {
        frontend: name.to_owned(),
        reason: UnservedReason::Unsupported,
        message: format!("not {name}"),
    };
    let invented = ["store-014/other", "rival/front", ""];
    let all = given.iter().map(String::as_str).chain(invented);
    let report = GatewayReport {
        peers: Vec::<ReportedPeer>::new(),
        unserved: Some(all.map(says).collect()),
        ..GatewayReport::default()
    };
    gateway.client.report(&report).await.unwrap();
    let mut expected = given;
    expected.sort();
    eventually("it is heard", async || {
        let mut heard = heard(&site)?;
        heard.sort();
        (heard == expected).then_some(())
    })
    .await;
}

/// The names that the status of the gateway has.
fn heard(site: &Site) -> Option<Vec<String>> {
    let status =
        site.document("status/kedge.dev/EdgeGateway/kedge-system/gw/kedge-manager.yaml")?;
    let unserved = status.pointer("/status/instances/0/unserved")?;
    let names = unserved.as_array()?.iter().map(|one| &one["name"]);
    Some(
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .collect(),
    )
}

fn rewrite(site: &Site, file: &str, from: &str, to: &str) {
    let path = site.objects().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}
