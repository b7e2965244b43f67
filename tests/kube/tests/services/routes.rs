//! Routes of a real API server with the definitions of the Gateway API, which come after the agent.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kedge_agent_cluster::{
    Place,
    gateway_api::{Class, Gateway, GrpcRoute, Object, Route, TlsRoute},
    survey,
};
use kedge_tests_kube::{assets::module_folder, eventually, manifests};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    agents::{Agent, patient},
    ingresses::node_port,
    world::{LIMIT, World},
};

#[tokio::test(flavor = "multi_thread")]
async fn routes_are_offered_told_and_taken_back() {
    let Some(world) = World::start().await else {
        return;
    };
    world.node("edge-a", true).await;
    let agent = Agent::start(&world, "one", patient()).await;
    world.service("web", node_port()).await;
    let module = module_folder("gateway-api", "sigs.k8s.io/gateway-api").unwrap();
    let mut definitions = Vec::new();
    for kinds in [
        "gatewayclasses",
        "gateways",
        "grpcroutes",
        "httproutes",
        "referencegrants",
        "tlsroutes",
    ] {
        let file = format!("config/crd/standard/gateway.networking.k8s.io_{kinds}.yaml");
        definitions.extend(manifests::read(&module.join(file)));
    }
    manifests::apply_definitions(&world.client, &definitions).await;
    let of = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": "shop"}, "spec": spec})
    };
    let mut class = of(
        "GatewayClass",
        "kedge",
        json!({"controllerName": "kedge.dev/agent"}),
    );
    class["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("namespace");
    let gateway = of(
        "Gateway",
        "gw",
        json!({"gatewayClassName": "kedge", "listeners": [
        {"name": "http", "port": 8088, "protocol": "HTTP", "hostname": "*.example.net"},
        {"name": "tls", "port": 8448, "protocol": "TLS", "hostname": "*.example.net",
            "tls": {"mode": "Passthrough"}}]}),
    );
    let route = of(
        "HTTPRoute",
        "shop",
        json!({"parentRefs": [{"name": "gw"}],
        "hostnames": ["shop.example.net"], "rules": [{
            "matches": [{"path": {"type": "PathPrefix", "value": "/a"}}],
            "filters": [{"type": "URLRewrite", "urlRewrite":
                {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}],
            "timeouts": {"request": "10s"},
            "backendRefs": [{"name": "web", "port": 80}]}]}),
    );
    let calls = of(
        "GRPCRoute",
        "calls",
        json!({"parentRefs": [{"name": "gw"}], "hostnames": ["calls.example.net"], "rules": [{
            "matches": [{"method": {"service": "shop.Basket", "method": "Add"}}],
            "backendRefs": [{"name": "web", "port": 80}]}]}),
    );
    let raw = of(
        "TLSRoute",
        "raw",
        json!({"parentRefs": [{"name": "gw"}], "hostnames": ["raw.example.net"], "rules": [{
            "backendRefs": [{"name": "web", "port": 80}]}]}),
    );
    // Whichever second each of them falls into, `calls` is not the younger one of the two that will want one name.
    manifests::apply(&world.client, &[class, gateway, calls, route, raw]).await;

    let offered = world.route_of("shop", |_| true).await;
    assert_eq!(offered["spec"]["source"]["kind"], "HTTPRoute");
    assert_eq!(offered["spec"]["hostnames"], json!(["shop.example.net"]));
    assert_eq!(offered["spec"]["rules"][0]["timeout"], "10s");
    let routes: Api<Route> = Api::namespaced(world.client.clone(), "shop");
    eventually("the route is accepted", LIMIT, async || {
        let status = routes.get("shop").await.unwrap().status;
        said(&status["parents"][0], "Accepted") == "True Accepted"
            && said(&status["parents"][0], "ResolvedRefs") == "True ResolvedRefs"
    })
    .await;
    let gateways: Api<Gateway> = Api::namespaced(world.client.clone(), "shop");
    eventually(
        "the Gateway has an address, a route and calls",
        LIMIT,
        async || {
            let status = gateways.get("gw").await.unwrap().status;
            said(&status, "Programmed") == "True Programmed"
                && status["addresses"][0]["value"] == "203.0.113.7"
                && status["listeners"][0]["attachedRoutes"] == 2
        },
    )
    .await;
    other_kinds_are_offered(&world).await;
    let classes: Api<Class> = Api::all(world.client.clone());
    let status = classes.get("kedge").await.unwrap().status;
    assert_eq!(said(&status, "Accepted"), "True Accepted");

    // A backend that is not there is told with the standard reason.
    let rules = json!({"spec": {"rules": [{"backendRefs": [{"name": "nobody", "port": 80}]}]}});
    let patch = Patch::Merge(&rules);
    routes
        .patch("shop", &PatchParams::default(), &patch)
        .await
        .unwrap();
    eventually("its backend is missed", LIMIT, async || {
        let status = routes.get("shop").await.unwrap().status;
        said(&status["parents"][0], "ResolvedRefs") == "False BackendNotFound"
    })
    .await;
    eventually("nothing leads to the old one", LIMIT, async || {
        world.routed().is_empty()
    })
    .await;

    // Deleted: nothing is left.
    routes
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    eventually("it is gone", LIMIT, async || {
        routes.get_opt("shop").await.unwrap().is_none() && world.route("shop").is_none()
    })
    .await;
    eventually("no route is attached", LIMIT, async || {
        let status = gateways.get("gw").await.unwrap().status;
        status["listeners"][0]["attachedRoutes"] == 0
    })
    .await;
    assert_eq!(agent.stop().await, Ok(()));
}

/// Calls by HTTP/2 and names that are passed through; a name of another kind's older route is refused.
async fn other_kinds_are_offered(world: &World) {
    let calls: Api<GrpcRoute> = Api::namespaced(world.client.clone(), "shop");
    let raw: Api<TlsRoute> = Api::namespaced(world.client.clone(), "shop");
    let offered = world.route_of("calls", |_| true).await;
    assert_eq!(offered["spec"]["source"]["kind"], "GRPCRoute");
    let rule = &offered["spec"]["rules"][0];
    assert_eq!(rule["grpc"], true);
    let path = json!({"path": "/shop.Basket/Add", "type": "Exact"});
    assert_eq!(rule["paths"], json!([path]));
    let led = rule["backends"][0]["name"].as_str().unwrap().to_owned();
    assert!(led.starts_with("web-80-grpc.shop."), "{led}");
    let offered = world.route_of("raw", |_| true).await;
    assert_eq!(offered["spec"]["source"]["kind"], "TLSRoute");
    let ends = json!([{"hosts": ["raw.example.net"], "passthrough": true}]);
    assert_eq!(offered["spec"]["tls"], ends);
    told(&calls, "calls", "True Accepted").await;
    told(&raw, "raw", "True Accepted").await;
    let held = calls.get("calls").await.unwrap().metadata.finalizers;
    assert_eq!(held, Some(vec!["kedge.dev/grpcroute".to_owned()]));
    let gateways: Api<Gateway> = Api::namespaced(world.client.clone(), "shop");
    eventually("each listener has its routes", LIMIT, async || {
        let status = gateways.get("gw").await.unwrap().status;
        let attached = |at: usize| status["listeners"][at]["attachedRoutes"].clone();
        (attached(0), attached(1)) == (json!(2), json!(1))
    })
    .await;
    let listed = survey::routes(&Place::Kubeconfig(world.kubeconfig().await))
        .await
        .unwrap()
        .items;
    let lines: Vec<_> = listed
        .iter()
        .map(|it| (&*it.kind, &*it.name, it.ready, it.addresses.len()))
        .collect();
    let line = |kind: &'static str, name: &'static str| (kind, name, true, 1);
    let expected = [
        line("GRPCRoute", "calls"),
        line("TLSRoute", "raw"),
        line("HTTPRoute", "shop"),
    ];
    assert_eq!(lines, expected);

    // Another kind's route does not get the name as well: of two that came at once the first by name has it.
    let routes: Api<Route> = Api::namespaced(world.client.clone(), "shop");
    for (name, expected) in [
        ("calls.example.net", "False HostnameConflict"),
        ("shop.example.net", "True Accepted"),
    ] {
        let names = json!({"spec": {"hostnames": [name]}});
        let patch = Patch::Merge(&names);
        let change = PatchParams::default();
        routes.patch("shop", &change, &patch).await.unwrap();
        told(&routes, "shop", expected).await;
    }
    let gone = DeleteParams::default();
    calls.delete("calls", &gone).await.unwrap();
    raw.delete("raw", &gone).await.unwrap();
    eventually("both are gone", LIMIT, async || {
        calls.get_opt("calls").await.unwrap().is_none()
            && raw.get_opt("raw").await.unwrap().is_none()
            && world.route("calls").is_none()
            && world.route("raw").is_none()
    })
    .await;
}

/// Waits until a route is told so at its first parent.
async fn told<S>(routes: &Api<Object<S>>, name: &str, expected: &str)
where
    Object<S>: kube::Resource<Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + serde::de::DeserializeOwned,
{
    eventually(expected, LIMIT, async || {
        let status = routes.get(name).await.unwrap().status;
        said(&status["parents"][0], "Accepted") == expected
    })
    .await;
}

fn said(of: &Value, kind: &str) -> String {
    let all = of["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|it| it["type"] == kind);
    found.map_or_else(String::new, |it| {
        let text = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("status"), text("reason"))
    })
}
