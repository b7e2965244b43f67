//! GRPCRoutes and TLSRoutes, what routes of several kinds share, and where they are served.

use serde_json::{Value, json};

use super::{
    ingresses::certificate,
    routes::{gateway, read, route, said, settled, world},
    world::{World, merge},
};
use crate::{
    gateway_api::{Gateway, GrpcRoute, Route, TlsRoute},
    plan::plan,
    snapshot::Key,
};

fn grpc(name: &str, changes: Value) -> Route {
    let mut whole = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("{name}8888-1"),
            "generation": 1},
        "spec": {"parentRefs": [{"name": "gw"}], "hostnames": ["shop.example.net"], "rules": [{
            "matches": [{"method": {"service": "shop.Basket", "method": "Add"}}],
            "backendRefs": [{"name": "web", "port": 80}]}]}});
    merge(&mut whole, changes);
    Route::from(read::<GrpcRoute>(whole))
}

fn tls(name: &str, changes: Value) -> Route {
    let mut whole = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("{name}9999-1"),
            "generation": 1},
        "spec": {"parentRefs": [{"name": "gw"}], "hostnames": ["raw.example.net"],
            "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]}});
    merge(&mut whole, changes);
    Route::from(read::<TlsRoute>(whole))
}

fn with(gateway: Gateway, http: Vec<Route>, grpc: Vec<Route>, tls: Vec<Route>) -> World {
    let mut world = world(gateway, http);
    let keyed = |all: Vec<Route>| all.into_iter().map(|it| (Key::of(&it), it)).collect();
    world.api().grpc = Some(keyed(grpc));
    world.api().tls = Some(keyed(tls));
    world
}

/// A GRPCRoute alone, which leads to port 80 of `web`.
pub fn calls() -> World {
    let calls = vec![grpc("calls", json!({}))];
    with(gateway(json!({})), vec![], calls, vec![])
}

fn listeners(all: Value) -> Gateway {
    gateway(json!({"spec": {"listeners": all}}))
}

fn born(at: &str) -> Value {
    json!({"metadata": {"creationTimestamp": format!("2026-01-0{at}T00:00:00Z")}})
}

/// `STATUS REASON` of a condition of the first parent of whatever route has that name.
fn told(world: &World, name: &str, kind: &str) -> String {
    let api = world.snapshot.gateway.as_ref().unwrap();
    let mut all = api.all_routes();
    let route = all.find(|it| it.metadata.name.as_deref() == Some(name));
    said(&route.unwrap().status["parents"][0], kind)
}

#[test]
fn calls_go_to_what_speaks_http_2_whether_it_says_so_or_not() {
    let mut world = with(
        gateway(json!({})),
        vec![],
        vec![grpc("calls", json!({}))],
        vec![],
    );
    world.settle();
    let spec = world.route("calls");
    assert_eq!(spec["source"]["kind"], "GRPCRoute");
    let backend = json!({"name": "web-80-grpc.shop.web00001", "port": 80});
    let path = json!({"path": "/shop.Basket/Add", "type": "Exact"});
    let rule = json!({"grpc": true, "paths": [path], "backends": [backend]});
    assert_eq!(spec["rules"], json!([rule]));
    let offered = world.snapshot.offered.as_ref().unwrap();
    let led = offered.items["web-80-grpc.shop.web00001"].spec.clone();
    let led = serde_json::to_value(led.unwrap()).unwrap();
    assert_eq!(led["ports"][0]["appProtocol"], "H2C");
    assert_eq!(told(&world, "calls", "Accepted"), "True Accepted");
    let listener = &world.gateway()["listeners"][0];
    assert_eq!(listener["attachedRoutes"], 1);
    let kinds = listener["supportedKinds"].as_array().unwrap();
    let kinds: Vec<&str> = kinds
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["HTTPRoute", "GRPCRoute"]);
    let all = world.api().grpc.as_mut().unwrap();
    let calls = all.get_mut(&Key::new("shop", "calls")).unwrap();
    let finalizers = calls.metadata.finalizers.clone();
    assert_eq!(finalizers, Some(vec!["kedge.dev/grpcroute".to_owned()]));
    // It goes, and with it what it led to.
    calls.metadata.deletion_timestamp = Some(read(json!("2026-01-02T03:04:05Z")));
    world.settle();
    assert!(world.routed().is_empty() && world.offered().is_empty());
    assert!(world.api().grpc.as_ref().unwrap().is_empty());
}

#[test]
fn a_listener_says_which_kinds_it_takes() {
    let only = |kind: &str| json!({"allowedRoutes": {"kinds": [{"kind": kind}]}});
    let cases = [
        (json!({}), "True Accepted", "True ResolvedRefs"),
        (only("GRPCRoute"), "True Accepted", "True ResolvedRefs"),
        (
            only("HTTPRoute"),
            "False NotAllowedByListeners",
            "True ResolvedRefs",
        ),
        (
            only("TLSRoute"),
            "False NotAllowedByListeners",
            "False InvalidRouteKinds",
        ),
    ];
    for (changes, accepted, resolved) in cases {
        let mut listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
        merge(&mut listener, changes.clone());
        let calls = vec![grpc("calls", json!({}))];
        let mut world = with(listeners(json!([listener])), vec![], calls, vec![]);
        world.settle();
        assert_eq!(told(&world, "calls", "Accepted"), accepted, "{changes}");
        let listener = &world.gateway()["listeners"][0];
        assert_eq!(said(listener, "ResolvedRefs"), resolved, "{changes}");
    }
}

#[test]
fn of_two_kinds_the_older_route_has_a_name() {
    let two = json!([
        {"name": "one", "port": 80, "protocol": "HTTP", "hostname": "*.example.net"},
        {"name": "two", "port": 80, "protocol": "HTTP", "hostname": "*.example.com"},
    ]);
    let hosts = |all: Value| json!({"spec": {"hostnames": all}});
    let cases = [
        (
            "1",
            "2",
            json!({}),
            "True Accepted",
            "False HostnameConflict",
        ),
        (
            "2",
            "1",
            json!({}),
            "False HostnameConflict",
            "True Accepted",
        ),
        // By name where both came at once: "calls" is before "requests".
        (
            "1",
            "1",
            json!({}),
            "False HostnameConflict",
            "True Accepted",
        ),
        (
            "1",
            "2",
            hosts(json!(["*.example.net"])),
            "True Accepted",
            "False HostnameConflict",
        ),
        (
            "1",
            "2",
            hosts(json!(["b.example.net"])),
            "True Accepted",
            "True Accepted",
        ),
        // It keeps the names it has at another listener.
        (
            "1",
            "2",
            hosts(json!(["shop.example.net", "shop.example.com"])),
            "True Accepted",
            "True Accepted",
        ),
    ];
    for (requests, calls, changes, of_requests, of_calls) in cases {
        let mut changes_of_calls = changes.clone();
        merge(&mut changes_of_calls, born(calls));
        let mut world = with(
            listeners(two.clone()),
            vec![route("requests", born(requests))],
            vec![grpc("calls", changes_of_calls)],
            vec![],
        );
        world.settle();
        assert_eq!(
            told(&world, "requests", "Accepted"),
            of_requests,
            "{changes}"
        );
        assert_eq!(told(&world, "calls", "Accepted"), of_calls, "{changes}");
        let offered = [of_requests, of_calls]
            .into_iter()
            .filter(|it| it.starts_with("True"));
        assert_eq!(world.routed().len(), offered.count(), "{changes}");
        // Once the other is gone the name is free.
        world.api().routes.clear();
        world.settle();
        assert_eq!(
            told(&world, "calls", "Accepted"),
            "True Accepted",
            "{changes}"
        );
    }
}

#[test]
fn a_tls_route_has_its_names_passed_through() {
    let passed = json!([{"name": "tls", "port": 443, "protocol": "TLS",
        "hostname": "*.example.net", "tls": {"mode": "Passthrough"}}]);
    let mut world = with(
        listeners(passed),
        vec![],
        vec![],
        vec![tls("raw", json!({}))],
    );
    world.settle();
    let spec = world.route("raw");
    assert_eq!(spec["source"]["kind"], "TLSRoute");
    assert_eq!(spec["hostnames"], json!(["raw.example.net"]));
    let ends = json!([{"hosts": ["raw.example.net"], "passthrough": true}]);
    assert_eq!(spec["tls"], ends);
    assert_eq!(spec["listeners"], json!([{"protocol": "HTTPS"}]));
    let backend = json!({"name": "web-80.shop.web00001", "port": 80});
    let rule = json!({"hosts": ["raw.example.net"], "backends": [backend]});
    assert_eq!(spec["rules"], json!([rule]));
    assert_eq!(told(&world, "raw", "Accepted"), "True Accepted");
    let listener = &world.gateway()["listeners"][0];
    assert_eq!(listener["supportedKinds"][0]["kind"], "TLSRoute");
    assert_eq!(said(listener, "Programmed"), "True Programmed");
}

#[test]
fn backends_share_the_connections_of_a_tls_route_by_their_weights() {
    let passed =
        json!([{"name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}}]);
    let references = json!([{"name": "web", "port": 80, "weight": 9}, {"name": "gone", "port": 80},
        {"name": "web", "port": 80, "weight": 0}, {"name": "web", "port": 80}]);
    let rules = json!({"spec": {"rules": [{"backendRefs": references}]}});
    let mut world = with(listeners(passed), vec![], vec![], vec![tls("raw", rules)]);
    world.settle();
    let backends = world.route("raw")["rules"][0]["backends"].clone();
    let name = "web-80.shop.web00001";
    assert_eq!(
        backends,
        json!([{"name": name, "port": 80, "weight": 9}, {"name": name, "port": 80}])
    );
    assert_eq!(told(&world, "raw", "ResolvedRefs"), "False BackendNotFound");
}

#[test]
fn what_of_tls_cannot_be_passed_through_is_told() {
    let of =
        |mode: &str| json!({"name": mode, "port": 443, "protocol": "TLS", "tls": {"mode": mode}});
    let passed = || listeners(json!([of("Passthrough")]));
    let plain = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let rule = |rule: Value| json!({"spec": {"rules": [rule]}});
    let none = json!({"backendRefs": [{"name": "web", "port": 80, "weight": 0}]});
    let cases = [
        (
            listeners(json!([of("Terminate")])),
            json!({}),
            "False NotAllowedByListeners",
        ),
        (listeners(plain), json!({}), "False NotAllowedByListeners"),
        (passed(), rule(none), "False UnsupportedValue"),
        (
            passed(),
            json!({"spec": {"hostnames": []}}),
            "False UnsupportedValue",
        ),
        (
            passed(),
            rule(json!({"backendRefs": [{"name": "gone", "port": 80}]})),
            "True Accepted",
        ),
    ];
    for (gateway, changes, expected) in cases {
        let mut world = with(gateway, vec![], vec![], vec![tls("raw", changes.clone())]);
        world.settle();
        assert_eq!(told(&world, "raw", "Accepted"), expected, "{changes}");
    }
    // Listeners that do not go together.
    let https = json!({"name": "https", "port": 443, "protocol": "HTTPS",
        "tls": {"certificateRefs": [{"name": "cert"}]}});
    let with_name = |mut it: Value| {
        it["hostname"] = json!("a.example.net");
        it
    };
    let cases = [
        (json!([of("Terminate")]), "False UnsupportedValue"),
        (
            json!([of("Passthrough"), of("Terminate")]),
            "False ProtocolConflict",
        ),
        (json!([of("Passthrough"), https]), "False HostnameConflict"),
        (
            json!([with_name(of("Passthrough")), https]),
            "True Accepted",
        ),
    ];
    for (all, expected) in cases {
        let mut world = with(listeners(all.clone()), vec![], vec![], vec![]);
        world.secret("cert", certificate("cert"));
        world.settle();
        for listener in world.gateway()["listeners"].as_array().unwrap() {
            assert_eq!(said(listener, "Accepted"), expected, "{all}");
            let is_unserved = expected.ends_with("UnsupportedValue");
            let kinds = listener["supportedKinds"].as_array().unwrap();
            assert_eq!(kinds.is_empty(), is_unserved, "{all}");
        }
    }
}

#[test]
fn a_route_is_served_where_its_listeners_are() {
    let both = || {
        listeners(json!([
            {"name": "plain", "port": 80, "protocol": "HTTP", "hostname": "*.example.net"},
            {"name": "secure", "port": 443, "protocol": "HTTPS", "hostname": "shop.example.net",
                "tls": {"certificateRefs": [{"name": "cert"}]}},
        ]))
    };
    let at = |parent: Value| json!({"spec": {"parentRefs": [parent]}});
    let names = json!(["shop.example.net", "www.example.net"]);
    let two = json!({"spec": {"parentRefs": [{"name": "gw"}], "hostnames": names}});
    let cases = [
        (
            at(json!({"name": "gw", "sectionName": "plain"})),
            json!([{"protocol": "HTTP"}]),
        ),
        (
            at(json!({"name": "gw", "port": 443})),
            json!([{"protocol": "HTTPS"}]),
        ),
        (
            at(json!({"name": "gw"})),
            json!([{"protocol": "HTTP"}, {"protocol": "HTTPS"}]),
        ),
        (
            two,
            json!([{"protocol": "HTTP"}, {"protocol": "HTTPS", "hosts": ["shop.example.net"]}]),
        ),
    ];
    for (changes, expected) in cases {
        let mut world = with(both(), vec![route("shop", changes.clone())], vec![], vec![]);
        world.secret("cert", certificate("cert"));
        world.settle();
        assert_eq!(world.route("shop")["listeners"], expected, "{changes}");
    }
}

#[test]
fn whose_pages_may_read_answers_is_carried() {
    let cors = |cors: Value| json!([{"filters": [{"type": "CORS", "cors": cors}], "backendRefs": [{"name": "web", "port": 80}]}]);
    let all = json!({"allowOrigins": ["https://*.example.net"], "allowMethods": ["PUT"], "allowHeaders": ["X-A"],
        "exposeHeaders": ["X-B"], "allowCredentials": true, "maxAge": 600});
    let carried = json!({"allowOrigins": ["https://*.example.net"], "allowMethods": ["PUT"], "allowHeaders": ["X-A"],
        "exposeHeaders": ["X-B"], "allowCredentials": true, "maxAge": "10m"});
    for (said, expected) in [(all, carried), (json!({}), json!({}))] {
        let changes = json!({"spec": {"rules": cors(said)}});
        let world = settled(gateway(json!({})), [route("shop", changes)]);
        assert_eq!(world.route("shop")["rules"][0]["cors"], expected);
    }
}

#[test]
fn copies_expressions_and_changes_for_one_backend_are_carried() {
    let rules = json!([{
        "matches": [{
            "headers": [{"type": "RegularExpression", "name": "X-Build", "value": "[0-9]+"},
                {"name": "x-build", "value": "later ones do not count"}],
            "queryParams": [{"type": "RegularExpression", "name": "page", "value": "1|2"}]}],
        "filters": [
            {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "api", "port": 80},
                "fraction": {"numerator": 1, "denominator": 8}}},
            {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "gone", "port": 80}}}],
        "backendRefs": [{"name": "web", "port": 80, "filters": [
            {"type": "RequestHeaderModifier", "requestHeaderModifier":
                {"set": [{"name": "X-To", "value": "web"}]}}]}]}]);
    let changes = json!({"spec": {"rules": rules}});
    let mut world = with(
        gateway(json!({})),
        vec![route("shop", changes)],
        vec![],
        vec![],
    );
    world.settle();
    let rule = &world.route("shop")["rules"][0];
    assert_eq!(rule["headerExpressions"], json!({"x-build": "[0-9]+"}));
    assert!(rule.get("headers").is_none());
    assert_eq!(rule["queryExpressions"], json!({"page": "1|2"}));
    let mirror = json!({"name": "api-80.shop.api00001", "port": 80, "millionths": 125_000});
    assert_eq!(rule["mirrors"], json!([mirror]));
    let to = json!({"set": {"x-to": "web"}});
    assert_eq!(rule["backends"][0]["requestHeaders"], to);
    let refs = told(&world, "shop", "ResolvedRefs");
    assert_eq!(refs, "False BackendNotFound");
    // What copies go to is there as long as they do.
    assert_eq!(world.offered().len(), 2);
    world.api().routes.clear();
    world.settle();
    assert!(world.offered().is_empty());
}

#[test]
fn while_a_kind_is_not_seen_everything_stays() {
    let mut world = calls();
    world.settle();
    let grpc = world.api().grpc.take();
    let next = plan(&world.snapshot);
    assert!(next.routes.is_none() && next.is_empty());
    world.api().grpc = grpc;
    assert!(plan(&world.snapshot).is_empty());
}
