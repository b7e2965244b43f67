//! HTTPRoutes of a real API server with the definitions of the Gateway API, which come after the agent.

use kedge_agent_cluster::gateway_api::{Class, Gateway, Route};
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
        "httproutes",
        "referencegrants",
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
        {"name": "http", "port": 8088, "protocol": "HTTP", "hostname": "*.example.net"}]}),
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
    manifests::apply(&world.client, &[class, gateway, route]).await;

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
        "the Gateway has an address and a route",
        LIMIT,
        async || {
            let status = gateways.get("gw").await.unwrap().status;
            said(&status, "Programmed") == "True Programmed"
                && status["addresses"][0]["value"] == "203.0.113.7"
                && status["listeners"][0]["attachedRoutes"] == 1
        },
    )
    .await;
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

fn said(of: &Value, kind: &str) -> String {
    let all = of["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|it| it["type"] == kind);
    found.map_or_else(String::new, |it| {
        let text = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("status"), text("reason"))
    })
}
