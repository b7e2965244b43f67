//! A tenant's HTTPLoadBalancer from the file to the bytes: names, certificates and what becomes of them.

use std::collections::BTreeSet;

use kedge_tests_netns::{
    asked::Asked as _,
    browser::{Answer, Browser},
    envoy::executable,
    eventually,
    manager::Manager,
    ready, secs, throughout, web,
};
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;

use super::{BACKEND, LEFT, SITE, Site, busy, by_envoy, load_balancer};

pub const HTTP: &str = "HTTPLoadBalancer";
pub const NAME: &str = "shop.example.com";
const GENERATED: &str = "front.shop.lb.example.net";

fn front(name: &str, space: &str, more: &str) -> String {
    format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: HTTPLoadBalancer\n\
         metadata: {{name: {name}, namespace: {space}}}\n\
         spec:\n  hostnames: [{NAME}]\n  rules:\n    \
         - backends: [{{name: web, port: 80}}]\n{more}"
    )
}

const MORE: &str = "    \
    - paths: [{path: /old, type: Exact}]\n      \
      redirect: {path: {full: /new}, statusCode: 301}\n  \
    httpsRedirect: true\n  \
    tls: [{secretRef: shop-tls}]\n";

/// A gateway that serves HTTP, a tenant with names, and another one that wants the same.
fn site_yaml() -> String {
    let mut yaml = SITE.replace("  envoy:", "  http: {}\n  envoy:").replace(
        "  gatewayRef: {name: gw}\n",
        &format!(
            "  gatewayRef: {{name: gw}}\n  dns: {{domain: lb.example.net, \
             allowedHostnames: [{NAME}]}}\n"
        ),
    );
    yaml.push_str(&format!(
        "---\napiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: rival}}\n\
         spec:\n  namespace: rival\n  gatewayRef: {{name: gw}}\n  \
         dns: {{allowedHostnames: [{NAME}]}}\n"
    ));
    yaml
}

/// A Secret with a new certificate of an authority.
pub fn secret(authority: &CertifiedIssuer<'_, KeyPair>) -> String {
    let key = KeyPair::generate().unwrap();
    let names = vec![NAME.to_owned()];
    let certified = CertificateParams::new(names).unwrap();
    let certified = certified.signed_by(&key, authority).unwrap();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "shop-tls", "namespace": "shop"},
        "stringData": {"tls.crt": certified.pem(), "tls.key": key.serialize_pem()},
    })
    .to_string()
}

pub fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn heard_both(what: &str, ask: &dyn Fn() -> Option<Answer>) {
    let mut heard = BTreeSet::new();
    eventually(what, secs(20), || {
        let answer = ask().filter(|answer| answer.status == 200);
        heard.extend(answer.map(|answer| answer.name().to_owned()));
        heard.len() == 2
    });
}

fn says(manager: &Manager<'_>, of: &str, kind: &str, what: &str) {
    eventually(&format!("{of} says {kind} {what}"), secs(30), || {
        manager.condition(HTTP, of, kind) == what
    });
}

#[test]
fn of_a_gateway_that_serves_no_http_a_name_is_said_to_be_unserved() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let (manager, _gateway, _agents) = site.start_with(&site_yaml(), "");
    manager.write("web.yaml", &load_balancer("web", "  exposure: Routed\n"));
    manager.write("front.yaml", &front("front", "shop", ""));
    says(&manager, "shop/front", "Programmed", "False Unsupported");
    says(&manager, "shop/front", "Ready", "False Unsupported");
    let why = "the built-in proxy does not do that: HTTP";
    eventually("it is explained", secs(10), || {
        manager.kedge("lb explain front").out.contains(why)
    });
}

#[test]
fn requests_for_a_name_flow_to_hosts_behind_nat_and_nobody_else_gets_them() {
    let Some(envoy) = executable().filter(|_| ready()) else {
        return;
    };
    let site = Site::new();
    for (edge, name) in site.edges.iter().zip(["edge-a", "edge-b"]) {
        web::serve(edge, BACKEND, name, false);
    }
    let (manager, gateway, _agents) = site.start_with(&site_yaml(), &by_envoy(envoy));
    let routed = load_balancer("web", "  exposure: Routed\n");
    manager.write("web.yaml", &routed);
    manager.write("front.yaml", &front("front", "shop", MORE));
    says(
        &manager,
        "shop/front",
        "CertificateReady",
        "False SecretMissing",
    );
    let gateway_at = site.gateway.address().into();
    let mut browser = Browser::new(&site.client, gateway_at);
    heard_both("both hosts answer by the generated name", &|| {
        browser.plain(80, GENERATED, "GET /", "")
    });
    heard_both(
        "and by the name that was asked for, without TLS yet",
        &|| browser.plain(80, NAME, "GET /", ""),
    );
    let moved = browser.plain(80, NAME, "GET /old", "").unwrap();
    assert_eq!(
        (moved.status, moved.location()),
        (301, "http://shop.example.com/new")
    );
    let nobody = browser
        .plain(80, "nobody.example.com", "GET /", "")
        .unwrap();
    assert_eq!(nobody.status, 404);

    // The certificate comes.
    let first = authority();
    browser.trust(first.as_ref().der().clone());
    manager.write("secret.yaml", &secret(&first));
    heard_both("both hosts answer over TLS", &|| {
        browser.tls(443, NAME, NAME, "GET /")
    });
    says(&manager, "shop/front", "CertificateReady", "True Valid");
    says(&manager, "shop/front", "Ready", "True Ready");
    let sent = browser.plain(80, NAME, "GET /a?b=c", "").unwrap();
    assert_eq!(
        (sent.status, sent.location()),
        (308, "https://shop.example.com/a?b=c")
    );
    let status = manager.status(HTTP, "shop/front");
    assert_eq!(status["generatedHostname"], GENERATED);
    assert_eq!(status["ingress"][0]["ip"], "203.0.113.7");
    assert_eq!(
        manager.condition("TCPLoadBalancer", "shop/web", "Accepted"),
        "True Accepted"
    );

    // Another tenant wants the name.
    manager.write("rival.yaml", &front("front", "rival", ""));
    says(&manager, "rival/front", "Accepted", "False HostnameTaken");
    throughout("the first one serves", secs(1), || {
        browser
            .tls(443, NAME, NAME, "GET /")
            .is_some_and(|answer| answer.status == 200)
    });

    // The certificate is renewed, by an authority that alone is trusted from then on.
    let second = authority();
    let mut renewed = Browser::new(&site.client, gateway_at);
    renewed.trust(second.as_ref().der().clone());
    assert!(renewed.tls(443, NAME, NAME, "GET /").is_none());
    manager.write("secret.yaml", &secret(&second));
    eventually("the new certificate is shown", secs(40), || {
        renewed
            .tls(443, NAME, NAME, "GET /")
            .is_some_and(|answer| answer.status == 200)
    });

    // A host that is gone without a word is left out.
    site.lan.unplug(&site.edges[1]);
    let mut answers = 0;
    eventually("a hundred answers of the other one", secs(30), || {
        answers = match renewed.tls(443, NAME, NAME, "GET /") {
            Some(answer) if answer.name() == "edge-a" => answers + 1,
            _ => 0,
        };
        answers == 100
    });
    site.lan.plug(&site.edges[1]);

    // One that is left answers nothing new, and connections to it that carry no request are closed.
    let asks = || renewed.tls(443, NAME, NAME, "GET /");
    heard_both("both hosts answer again", &asks);
    let left = format!("{LEFT}  exposure: Routed\n");
    manager.write("web.yaml", &load_balancer("web", &left));
    eventually("nothing is open to it", secs(15), || {
        busy(&manager) == Some(false)
    });
    for _ in 0..50 {
        let answer = asks().expect("nothing fails");
        assert_eq!((answer.status, answer.name()), (200, "edge-a"));
    }
    manager.write("web.yaml", &routed);
    heard_both("it is one of them again", &asks);

    // Its name is free as soon as it is gone.
    manager.remove("front.yaml");
    says(&manager, "rival/front", "Accepted", "True Accepted");
    eventually("nobody of the first tenant answers", secs(10), || {
        renewed.tls(443, NAME, NAME, "GET /").is_none()
            && browser
                .plain(80, NAME, "GET /", "")
                .is_some_and(|answer| answer.status != 200)
    });
    manager.remove("rival.yaml");
    eventually("the gateway serves no HTTP", secs(10), || {
        browser.plain(80, NAME, "GET /", "").is_none()
    });
    assert!(!gateway.log().contains("PRIVATE KEY"));
    for kind in ["owned", "status"] {
        eventually("nothing is left behind", secs(15), || {
            manager.documents(kind, HTTP, "shop/front").is_empty()
        });
    }
}
