//! Gateways and HTTPRoutes.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::world::{World, merge};
use crate::{
    apply::Kind,
    certificates::Certificate,
    gateway_api::{Gateway, Route},
    names::CONTROLLER,
    plan::{gateway::is_touched, http::Routes},
    snapshot::{GatewayApi, Key, Snapshot},
};

pub fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub fn gateway(changes: Value) -> Gateway {
    let mut whole = json!({
        "metadata": {"name": "gw", "namespace": "shop", "uid": "gw-1", "generation": 1},
        "spec": {"gatewayClassName": "kedge", "listeners": [
            {"name": "http", "port": 80, "protocol": "HTTP"}]}});
    merge(&mut whole, changes);
    read(whole)
}

pub fn route(name: &str, changes: Value) -> Route {
    let mut whole = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("{name}7777-1"),
            "generation": 1},
        "spec": {"parentRefs": [{"name": "gw"}], "hostnames": ["shop.example.net"],
            "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]}});
    merge(&mut whole, changes);
    read(whole)
}

pub fn world(gateway: Gateway, routes: impl IntoIterator<Item = Route>) -> World {
    let mut world = World::with_ingresses([]);
    let class = read(json!({"metadata": {"name": "kedge", "uid": "c"},
        "spec": {"controllerName": CONTROLLER}}));
    let routes = routes.into_iter().map(|it| (Key::of(&it), it));
    world.snapshot.gateway = Some(GatewayApi {
        classes: [("kedge".to_owned(), class)].into(),
        gateways: [(Key::of(&gateway), gateway)].into(),
        routes: routes.collect(),
        namespaces: [(
            "shop".to_owned(),
            [("team".to_owned(), "a".to_owned())].into(),
        )]
        .into(),
        ..GatewayApi::default()
    });
    world
}

pub fn settled(gateway: Gateway, routes: impl IntoIterator<Item = Route>) -> World {
    let mut world = world(gateway, routes);
    world.settle();
    world
}

/// As the cluster does it.
pub fn carry_out(snapshot: &mut Snapshot, routes: &Routes) {
    let Some(api) = &mut snapshot.gateway else {
        return;
    };
    for say in &routes.say {
        let key = &say.target.key;
        let status = match say.kind {
            Kind::GatewayClass => &mut api.classes.get_mut(&key.name).unwrap().status,
            Kind::Gateway => &mut api.gateways.get_mut(key).unwrap().status,
            Kind::HttpRoute => &mut api.routes.get_mut(key).unwrap().status,
            Kind::GrpcRoute => &mut api.grpc.as_mut().unwrap().get_mut(key).unwrap().status,
            Kind::TlsRoute => &mut api.tls.as_mut().unwrap().get_mut(key).unwrap().status,
            Kind::Service | Kind::Ingress => panic!("{say:?}"),
        };
        assert_ne!(*status, say.status, "it is said once");
        if status.is_null() {
            *status = json!({});
        }
        merge(status, say.status.clone());
    }
    for (kind, target) in &routes.guard {
        if let Some(all) = of(api, *kind) {
            let route = all.get_mut(&target.key).unwrap();
            route.metadata.finalizers = Some(vec![kind.finalizer().to_owned()]);
        }
    }
    for (kind, target) in &routes.release {
        if let Some(all) = of(api, *kind) {
            let route = all.get_mut(&target.key).unwrap();
            route.metadata.finalizers = None;
            if route.metadata.deletion_timestamp.is_some() {
                all.remove(&target.key);
            }
        }
    }
}

fn of(api: &mut GatewayApi, kind: Kind) -> Option<&mut BTreeMap<Key, Route>> {
    match kind {
        Kind::HttpRoute => Some(&mut api.routes),
        Kind::GrpcRoute => api.grpc.as_mut(),
        Kind::TlsRoute => api.tls.as_mut(),
        _ => None,
    }
}

impl World {
    pub fn api(&mut self) -> &mut GatewayApi {
        self.snapshot.gateway.as_mut().unwrap()
    }

    /// `STATUS REASON` of a condition of a route's first parent.
    fn accepted(&self, name: &str, kind: &str) -> String {
        let api = self.snapshot.gateway.as_ref().unwrap();
        said(
            &api.routes[&Key::new("shop", name)].status["parents"][0],
            kind,
        )
    }

    pub fn gateway(&self) -> &Value {
        let api = self.snapshot.gateway.as_ref().unwrap();
        &api.gateways[&Key::new("shop", "gw")].status
    }
}

pub fn said(of: &Value, kind: &str) -> String {
    let all = of["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|it| it["type"] == kind);
    found.map_or_else(String::new, |it| {
        let text = |field: &str| it[field].as_str().unwrap().to_owned();
        format!("{} {}", text("status"), text("reason"))
    })
}

#[test]
fn a_route_is_offered_and_everybody_is_told() {
    let world = settled(gateway(json!({})), [route("shop", json!({}))]);
    let spec = world.route("shop");
    assert_eq!(spec["source"]["kind"], "HTTPRoute");
    assert_eq!(spec["hostnames"], json!(["shop.example.net"]));
    let backend = json!({"name": "web-80.shop.web00001", "port": 80});
    assert_eq!(spec["rules"], json!([{"backends": [backend]}]));
    assert_eq!(world.accepted("shop", "Accepted"), "True Accepted");
    assert_eq!(world.accepted("shop", "ResolvedRefs"), "True ResolvedRefs");
    let gateway = world.gateway();
    assert_eq!(said(gateway, "Accepted"), "True Accepted");
    assert_eq!(said(gateway, "Programmed"), "True Programmed");
    assert_eq!(
        gateway["addresses"],
        json!([{"type": "IPAddress", "value": "203.0.113.7"}])
    );
    let listener = &gateway["listeners"][0];
    assert_eq!(listener["attachedRoutes"], 1);
    assert_eq!(listener["supportedKinds"][0]["kind"], "HTTPRoute");
    assert_eq!(said(listener, "Conflicted"), "False NoConflicts");
    let class = &world.snapshot.gateway.as_ref().unwrap().classes["kedge"].status;
    assert_eq!(said(class, "Accepted"), "True Accepted");
    let features = class["supportedFeatures"].as_array().unwrap();
    assert!(features.is_sorted_by_key(|it| it["name"].as_str().unwrap().to_owned()));
}

#[test]
fn rules_are_as_the_route_has_them() {
    let rules = json!([
        {"matches": [
            {"path": {"type": "PathPrefix", "value": "/a/"}},
            {"path": {"type": "Exact", "value": "/b"}},
            {"path": {"type": "PathPrefix", "value": "/c"}, "method": "GET",
                "headers": [{"name": "X-Beta", "value": "1"}],
                "queryParams": [{"name": "lang", "value": "de"}]}],
         "filters": [
            {"type": "RequestHeaderModifier", "requestHeaderModifier":
                {"set": [{"name": "X-From", "value": "edge"}], "remove": ["X-Secret"]}},
            {"type": "URLRewrite", "urlRewrite": {"hostname": "inner.example",
                "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}],
         "timeouts": {"request": "1m30s"},
         "backendRefs": [{"name": "web", "port": 80, "weight": 9}, {"name": "api", "port": 80,
            "weight": 1}]},
        {"filters": [{"type": "RequestRedirect", "requestRedirect":
            {"scheme": "https", "statusCode": 301}}]},
    ]);
    let changes = json!({"spec": {"rules": rules}});
    let world = settled(gateway(json!({})), [route("shop", changes)]);
    let rules = world.route("shop")["rules"].clone();
    assert_eq!(rules[0]["paths"], json!([{"path": "/c"}]));
    assert_eq!(rules[0]["headers"], json!({"x-beta": "1"}));
    assert_eq!(rules[0]["query"], json!({"lang": "de"}));
    assert_eq!(
        rules[1]["paths"],
        json!([{"path": "/a"}, {"path": "/b", "type": "Exact"}])
    );
    let headers = json!({"set": {"x-from": "edge"}, "remove": ["x-secret"]});
    for rule in [&rules[0], &rules[1]] {
        assert_eq!(rule["requestHeaders"], headers);
        assert_eq!(
            rule["rewrite"],
            json!({"hostname": "inner.example", "path": {"prefix": "/"}})
        );
        assert_eq!(rule["timeout"], "90s");
        assert_eq!(rule["backends"][0]["weight"], 9);
    }
    assert_eq!(
        rules[2],
        json!({"redirect": {"scheme": "https", "statusCode": 301}})
    );
}

#[test]
fn what_is_not_allowed_or_understood_is_told_with_the_standard_reason() {
    let listener = |changes: Value| {
        let mut listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
        merge(&mut listener, changes);
        gateway(json!({"spec": {"listeners": [listener]}}))
    };
    let namespaces = |value: Value| listener(json!({"allowedRoutes": {"namespaces": value}}));
    let select = |team: &str| {
        namespaces(json!({"from": "Selector", "selector": {"matchLabels": {"team": team}}}))
    };
    let rule = |rule: Value| json!({"spec": {"rules": [rule]}});
    let named = |name: &str| listener(json!({"hostname": name}));
    let section = json!({"spec": {"parentRefs": [{"name": "gw", "sectionName": "nope"}]}});
    let unknown = json!({"matches": [
        {"headers": [{"type": "Newer", "name": "x", "value": ".*"}]}]});
    let empty = json!({"filters": [{"type": "CORS"}]});
    let other = json!({"filters": [{"type": "ExternalAuth"}]});
    let sent = json!({"filters": [{"type": "CORS", "cors": {}},
        {"type": "RequestRedirect", "requestRedirect": {"hostname": "www.example.net"}}]});
    let cases = [
        (
            namespaces(json!({"from": "None"})),
            json!({}),
            "False NotAllowedByListeners",
        ),
        (select("b"), json!({}), "False NotAllowedByListeners"),
        (select("a"), json!({}), "True Accepted"),
        (
            named("*.other.net"),
            json!({}),
            "False NoMatchingListenerHostname",
        ),
        (named("*.example.net"), json!({}), "True Accepted"),
        (
            listener(json!({"protocol": "TCP"})),
            json!({}),
            "False NotAllowedByListeners",
        ),
        (gateway(json!({})), section, "False NoMatchingParent"),
        (gateway(json!({})), rule(unknown), "False UnsupportedValue"),
        (gateway(json!({})), rule(empty), "False UnsupportedValue"),
        (gateway(json!({})), rule(sent), "False UnsupportedValue"),
        (gateway(json!({})), rule(other), "False UnsupportedValue"),
    ];
    for (gateway, changes, expected) in cases {
        let world = settled(gateway, [route("shop", changes.clone())]);
        assert_eq!(world.accepted("shop", "Accepted"), expected, "{changes}");
        let is_offered = expected.starts_with("True");
        assert_eq!(world.routed().len(), usize::from(is_offered), "{changes}");
        assert_eq!(
            world.gateway()["listeners"][0]["attachedRoutes"],
            u32::from(is_offered)
        );
    }
}

#[test]
fn a_backend_that_is_not_there_is_answered_with_500() {
    let to = |backend: Value| json!({"spec": {"rules": [{"backendRefs": [backend]}]}});
    let cases = [
        (
            json!({"name": "nobody", "port": 80}),
            "False BackendNotFound",
        ),
        (json!({"name": "web", "port": 81}), "False BackendNotFound"),
        (
            json!({"name": "x", "kind": "Bucket", "group": "b"}),
            "False InvalidKind",
        ),
        (
            json!({"name": "web", "namespace": "other", "port": 80}),
            "False RefNotPermitted",
        ),
    ];
    for (backend, expected) in cases {
        let world = settled(gateway(json!({})), [route("shop", to(backend.clone()))]);
        assert_eq!(
            world.accepted("shop", "Accepted"),
            "True Accepted",
            "{backend}"
        );
        assert_eq!(
            world.accepted("shop", "ResolvedRefs"),
            expected,
            "{backend}"
        );
        assert_eq!(world.route("shop")["rules"], json!([{}]));
    }
    // Beside others it is its share.
    let mixed = json!({"spec": {"rules": [{"backendRefs": [
        {"name": "web", "port": 80, "weight": 3}, {"name": "nobody", "port": 80, "weight": 1}]}]}});
    let world = settled(gateway(json!({})), [route("shop", mixed)]);
    let refs = world.accepted("shop", "ResolvedRefs");
    assert_eq!(refs, "False BackendNotFound");
    let backends = &world.route("shop")["rules"][0]["backends"];
    assert_eq!(
        (&backends[0]["weight"], &backends[1]["weight"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(backends[1]["name"], "not-found");
}

#[test]
fn a_grant_lets_a_route_refer_to_another_namespace() {
    let far = json!({"spec": {"rules": [{"backendRefs": [
        {"name": "far", "namespace": "other", "port": 80}]}]}});
    let mut world = world(gateway(json!({})), [route("shop", far)]);
    world.put(super::ingresses::backend(
        "far",
        json!({"metadata": {"namespace": "other"}}),
    ));
    let grant = |kind: &str| {
        read(
            json!({"metadata": {"name": "g", "namespace": "other"}, "spec": {
            "from": [{"group": "gateway.networking.k8s.io", "kind": kind, "namespace": "shop"}],
            "to": [{"group": "", "kind": "Service", "name": "far"}]}}),
        )
    };
    world
        .api()
        .grants
        .insert(Key::new("other", "g"), grant("TLSRoute"));
    world.settle();
    assert_eq!(
        world.accepted("shop", "ResolvedRefs"),
        "False RefNotPermitted"
    );
    world
        .api()
        .grants
        .insert(Key::new("other", "g"), grant("HTTPRoute"));
    world.settle();
    assert_eq!(world.accepted("shop", "ResolvedRefs"), "True ResolvedRefs");
}

#[test]
fn a_listener_with_a_certificate_ends_tls() {
    let listeners = json!({"spec": {"listeners": [{"name": "https", "port": 443,
        "protocol": "HTTPS", "hostname": "*.example.net",
        "tls": {"certificateRefs": [{"name": "cert"}]}}]}});
    let mut world = world(gateway(listeners), [route("shop", json!({}))]);
    world.secret("cert", Certificate::Missing);
    world.settle();
    assert!(world.routed().is_empty());
    let listener = world.gateway()["listeners"][0].clone();
    assert_eq!(
        said(&listener, "ResolvedRefs"),
        "False InvalidCertificateRef"
    );
    assert_eq!(said(world.gateway(), "Accepted"), "False ListenersNotValid");
    world.secret("cert", super::ingresses::certificate("cert"));
    world.settle();
    let spec = world.route("shop");
    let tls = json!([{"hosts": ["shop.example.net"], "secretRef": "tls-cert.shop.00000000"}]);
    assert_eq!(spec["tls"], tls);
    let listeners = json!([{"protocol": "HTTPS"}]);
    assert_eq!(spec["listeners"], listeners, "nobody is served without TLS");
    assert!(spec.get("httpsRedirect").is_none());

    // A listener without a name ends TLS for whoever comes.
    let key = Key::new("shop", "gw");
    let gateway = world.api().gateways.get_mut(&key).unwrap();
    gateway.spec.listeners[0].hostname = None;
    world.settle();
    let tls = &world.route("shop")["tls"];
    assert_eq!(tls[0]["hosts"], json!(["shop.example.net", "*"]));
}

#[test]
fn a_route_that_goes_leaves_nothing_and_others_entries_stay() {
    let theirs = json!({"parentRef": {"name": "x"}, "controllerName": "other/x", "conditions": []});
    let first = route("shop", json!({"status": {"parents": [theirs]}}));
    let mut world = world(gateway(json!({})), [first, route("two", json!({}))]);
    world.settle();
    assert_eq!(world.routed().len(), 2);
    let key = Key::new("shop", "shop");
    let first = world.api().routes.get_mut(&key).unwrap();
    first.spec.parent_refs.clear();
    world.settle();
    let left = world.api().routes[&key].clone();
    assert!(!is_touched(&left));
    assert_eq!(left.status["parents"], json!([theirs]));
    let two = world
        .api()
        .routes
        .get_mut(&Key::new("shop", "two"))
        .unwrap();
    two.metadata.deletion_timestamp = Some(read(json!("2026-01-02T03:04:05Z")));
    world.settle();
    assert!(world.routed().is_empty() && world.offered().is_empty());
    assert!(!world.api().routes.contains_key(&Key::new("shop", "two")));
}

#[test]
fn while_the_api_is_not_seen_everything_of_it_stays() {
    let mut world = settled(gateway(json!({})), [route("shop", json!({}))]);
    let api = world.snapshot.gateway.take();
    let next = crate::plan::plan(&world.snapshot);
    assert!(next.routes.is_none() && next.is_empty());
    world.snapshot.gateway = api;
    assert!(crate::plan::plan(&world.snapshot).is_empty());
}
