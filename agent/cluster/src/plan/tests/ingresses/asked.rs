//! What is asked of the manager for an Ingress: each field is honoured, or refused with a reason.

use serde_json::{Value, json};

use super::{super::world::World, backend, certificate, ingress, rule};
use crate::{
    certificates::Certificate,
    names::{HTTPS_REDIRECT, TLS_PASSTHROUGH},
};

fn world(changes: Value) -> World {
    let mut world = World::with_ingresses([ingress("shop", changes)]);
    for name in ["cert", "two"] {
        world.secret(name, certificate(name));
    }
    world.secret("none", Certificate::Missing);
    world.secret("closed", Certificate::Forbidden);
    world.secret("bad", Certificate::Unfit("it is none"));
    world.put(backend(
        "tls",
        json!({"spec": {"ports": [{"name": "https", "port": 80,
        "nodePort": 30443, "appProtocol": "https"}]}}),
    ));
    world.put(backend(
        "udp",
        json!({"spec": {"ports": [{"port": 80, "nodePort": 30053,
        "protocol": "UDP"}]}}),
    ));
    world.put(backend(
        "inner",
        json!({"spec": {"type": "ExternalName", "ports": [
        {"port": 80, "nodePort": null}]}}),
    ));
    world.settle();
    world
}

fn asked(changes: Value) -> Value {
    world(changes).route("shop")
}

fn path(path: &str, kind: &str, service: &str, port: Value) -> Value {
    json!({"path": path, "pathType": kind, "backend": {"service": {"name": service, "port": port}}})
}

fn annotated(all: Value) -> Value {
    json!({"metadata": {"annotations": all}})
}

#[test]
fn rules_and_paths_are_led_to_ports_of_services() {
    let http = json!({"number": 80});
    let named = json!({"name": "http"});
    let rules = json!([
        {"http": {"paths": [path("/all/", "Prefix", "web", http.clone())]}},
        {"host": "*.example.net", "http": {"paths": [
            path("/exact/", "Exact", "web", named.clone()),
            path("/one", "Prefix", "web", http.clone()),
            path("/api", "ImplementationSpecific", "api", http.clone()),
            json!({"pathType": "ImplementationSpecific", "backend":
                {"service": {"name": "web", "port": http}}}),
        ]}},
        {"host": "empty.example.net"},
    ]);
    let spec = asked(json!({"spec": {"rules": rules, "defaultBackend":
        {"service": {"name": "api", "port": named}}}}));
    let web = json!([{"name": "web-80.shop.web00001", "port": 80}]);
    let api = json!([{"name": "api-80.shop.api00001", "port": 80}]);
    assert_eq!(
        spec["hostnames"],
        json!(["*.example.net", "empty.example.net"])
    );
    assert_eq!(
        spec["rules"],
        json!([
            {"hosts": ["*.example.net"], "backends": web, "paths": [
                {"path": "/exact/", "type": "Exact"}, {"path": "/one"}, {"path": "/"}]},
            {"hosts": ["*.example.net"], "backends": api, "paths": [{"path": "/api"}]},
            {"backends": web, "paths": [{"path": "/all"}]},
            {"backends": api},
        ])
    );
    assert_eq!(spec["source"]["kind"], "Ingress");
    assert_eq!(spec["source"]["uid"], "shop9999-1111");
    assert!(spec.get("httpsRedirect").is_none() && spec.get("tls").is_none());
}

#[test]
fn a_backend_is_a_load_balancer_that_only_routes_lead_to() {
    let world = world(json!({}));
    let offered = world.snapshot.offered.as_ref().unwrap();
    let spec = serde_json::to_value(&offered.items["web-80.shop.web00001"].spec).unwrap();
    let hosts = json!({"matchExpressions": [
        {"key": "kedge.dev/host", "operator": "In", "values": ["a", "b"]}]});
    assert_eq!(
        spec,
        json!({"source": {"kind": "Service", "namespace": "shop", "name": "web",
                "uid": "web0000-1111"},
            "exposure": "Routed",
            "ports": [{"name": "http", "port": 80}],
            "endpoints": [{"hostSelector": hosts, "addressFamily": "IPv4",
                "ports": [{"name": "http", "port": 30080}]}]})
    );
}

#[test]
fn what_a_port_speaks_is_told() {
    for (said, spoken) in [
        (json!("kubernetes.io/h2c"), json!("H2C")),
        (json!("grpc"), json!("H2C")),
        (json!("kubernetes.io/ws"), Value::Null),
        (json!("http"), Value::Null),
        (Value::Null, Value::Null),
    ] {
        let mut world = World::with_ingresses([ingress("shop", json!({}))]);
        world.put(backend(
            "web",
            json!({"spec": {"ports": [{"name": "http", "port": 80,
            "nodePort": 30080, "appProtocol": said}]}}),
        ));
        world.settle();
        let offered = world.snapshot.offered.as_ref().unwrap();
        let spec = serde_json::to_value(&offered.items["web-80.shop.web00001"].spec).unwrap();
        let port = &spec["ports"][0];
        assert_eq!(
            port.get("appProtocol").cloned().unwrap_or_default(),
            spoken,
            "{said}"
        );
    }
}

#[test]
fn certificates_end_tls_for_the_names_of_rules() {
    let rules = json!([
        rule("a.example.net", "/", "web"),
        rule("b.example.net", "/", "web"),
        rule("deep.b.example.net", "/", "web")
    ]);
    let tls = json!([
        {"hosts": ["a.example.net", "unknown.example.com"], "secretName": "cert"},
        {"hosts": ["*.example.net"], "secretName": "two"},
    ]);
    let world = world(json!({"spec": {"rules": rules, "tls": tls}}));
    assert_eq!(
        world.route("shop")["tls"],
        json!([
            {"hosts": ["a.example.net"], "secretRef": "tls-cert.shop.00000000"},
            {"hosts": ["b.example.net"], "secretRef": "tls-two.shop.00000000"},
        ])
    );
    assert_eq!(world.shown("shop")[0]["ports"][1]["port"], 443);
    let all = asked(
        json!({"spec": {"tls": [{"secretName": "cert"}]}, "metadata":
        {"annotations": {HTTPS_REDIRECT: "true"}}}),
    );
    assert_eq!(all["tls"], json!([{"secretRef": "tls-cert.shop.00000000"}]));
    assert_eq!(all["httpsRedirect"], true);
}

#[test]
fn tls_is_passed_through_by_name() {
    let spec = json!({"spec": {"rules": [rule("a.example.net", "/", "tls"),
        rule("b.example.net", "/", "web")]}});
    let mut changes = annotated(json!({TLS_PASSTHROUGH: "true"}));
    changes["spec"] = spec["spec"].clone();
    let spec = asked(changes);
    assert_eq!(
        spec["tls"],
        json!([{"hosts": ["a.example.net", "b.example.net"], "passthrough": true}])
    );
    assert_eq!(
        spec["rules"][0],
        json!({"hosts": ["a.example.net"], "backends":
            [{"name": "tls-80.shop.tls00001", "port": 80}]})
    );
}

#[test]
fn a_part_that_cannot_be_served_is_told_and_the_rest_is_served() {
    let to = |service: &str| {
        json!({"spec": {"rules": [rule("a.example.net", "/", service),
        rule("b.example.net", "/", "web")]}})
    };
    let with = |tls: Value| json!({"spec": {"tls": [tls]}});
    let resource =
        json!({"spec": {"defaultBackend": {"resource": {"kind": "Bucket", "name": "b"}}}});
    let port = json!({"spec": {"rules": [{"http": {"paths": [
        path("/", "Prefix", "web", json!({"name": "nope"}))]}}]}});
    let cases = [
        (
            to("inner"),
            "NodePortRequired Service shop/inner: port 80 has no nodePort (type ExternalName)",
        ),
        (
            to("nobody"),
            "ServiceNotFound Service shop/nobody is not there",
        ),
        (to("udp"), "ProtocolNotSupported Service shop/udp"),
        (to("tls"), "BackendTlsNotSupported Service shop/tls"),
        (port, "PortNotFound Service shop/web has no port nope"),
        (
            resource,
            "ResourceBackendNotSupported the backend Bucket b is no Service",
        ),
        (
            with(json!({"secretName": "none"})),
            "CertificateNotFound Secret shop/none",
        ),
        (
            with(json!({"secretName": "closed"})),
            "CertificateForbidden Secret shop/closed",
        ),
        (
            with(json!({"secretName": "bad"})),
            "CertificateNotUsable Secret shop/bad",
        ),
        (
            with(json!({"hosts": ["shop.example.net"]})),
            "CertificateNotNamed",
        ),
        (
            with(json!({"hosts": ["x.example.com"], "secretName": "cert"})),
            "TlsWithoutRule",
        ),
    ];
    for (changes, expected) in cases {
        let world = world(changes.clone());
        let told = world.told("shop");
        assert!(told[0].starts_with(expected), "{expected}: {told:?}");
        assert!(told.last().unwrap().starts_with("Ready"), "{told:?}");
        let spec = world.route("shop");
        assert!(spec.get("tls").is_none(), "{spec}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason() {
    let with = |annotations: Value, spec: Value| json!({"metadata": {"annotations": annotations}, "spec": spec});
    let one = |path: Value| {
        json!({"spec": {"rules": [{"host": "a.example.net",
        "http": {"paths": [path]}}]}})
    };
    let pass = |spec: Value| with(json!({TLS_PASSTHROUGH: "true"}), spec);
    let many: Vec<Value> = (0..33)
        .map(|at| rule(&format!("a{at}.example.net"), "/", "web"))
        .collect();
    let number = json!({"number": 80});
    let cases = [
        (
            annotated(json!({"kedge.dev/limit": "1"})),
            "AnnotationNotSupported",
        ),
        (
            annotated(json!({HTTPS_REDIRECT: "yes"})),
            "AnnotationNotSupported",
        ),
        (
            annotated(json!({HTTPS_REDIRECT: "true"})),
            "RedirectWithoutTls",
        ),
        (
            with(
                json!({HTTPS_REDIRECT: "true"}),
                json!({"tls": [{"secretName": "none"}]}),
            ),
            "CertificateNotFound",
        ),
        (json!({"spec": {"rules": null}}), "NoRules"),
        (
            json!({"spec": {"rules": [{"host": "a.example.net"}]}}),
            "NoRules",
        ),
        (
            one(path(
                "/a(/|$)(.*)",
                "ImplementationSpecific",
                "web",
                number.clone(),
            )),
            "PathNotSupported",
        ),
        (
            one(path(
                "/a/*",
                "ImplementationSpecific",
                "web",
                number.clone(),
            )),
            "PathNotSupported",
        ),
        (
            one(path("/a", "Regex", "web", number.clone())),
            "UnknownValue",
        ),
        (json!({"spec": {"rules": many}}), "TooMany"),
        (
            pass(json!({"rules": [rule("*.example.net", "/", "web")]})),
            "PassthroughNotPossible",
        ),
        (
            pass(json!({"rules": [rule("a.example.net", "/a", "web")]})),
            "PassthroughNotPossible",
        ),
        (
            pass(json!({"tls": [{"secretName": "cert"}]})),
            "PassthroughNotPossible",
        ),
        (
            pass(json!({"defaultBackend": {"service": {"name": "web", "port": number}}})),
            "PassthroughNotPossible",
        ),
        (
            pass(json!({"rules": [rule("a.example.net", "/", "inner")]})),
            "NodePortRequired",
        ),
        (
            pass(
                json!({"rules": [rule("a.example.net", "/", "web"), rule("a.example.net", "/", "api")]}),
            ),
            "PassthroughNotPossible",
        ),
    ];
    for (changes, expected) in cases {
        let world = world(changes.clone());
        let told = world.told("shop");
        assert!(
            told[0].starts_with(expected),
            "{expected}: {changes} {told:?}"
        );
        assert!(world.routed().is_empty(), "{changes}");
        assert!(world.offered().is_empty(), "{changes}");
        assert!(world.ingress("shop").metadata.finalizers.is_none());
    }
}

#[test]
fn an_ingress_without_names_is_shown_at_the_generated_one() {
    let changes = json!({"spec": {"rules": [{"http": {"paths": [
        path("/", "Prefix", "web", json!({"number": 80}))]}}]}});
    let world = world(changes);
    assert!(world.route("shop").get("hostnames").is_none());
    assert_eq!(world.shown("shop")[0]["hostname"], "shop.t.example.com");
    assert_eq!(world.shown("shop")[1]["ip"], "203.0.113.7");
}
