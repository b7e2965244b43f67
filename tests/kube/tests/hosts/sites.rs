//! HTTPLoadBalancers on a real API server: their names, and certificates that come, are renewed and go.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kedge_control::agent::GatewayConfig;
use kedge_tests_kube::eventually;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::{
    exposures::{PATH, speaks},
    fleet::{Fleet, LIMIT, NS},
    host::Host,
};

/// A certificate and its key, PEM.
fn pair(name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn secret(name: &str, (chain, key): &(String, String)) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": NS}, "stringData": {"tls.crt": chain, "tls.key": key}})
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_reach_the_gateway_are_renewed_and_go() {
    let Some(fleet) = Fleet::start().await else {
        return;
    };
    fleet.gateway().await;
    let merge = Patch::Merge(json!({"spec": {"http": {}}}));
    let of_system = Api::<kube::core::DynamicObject>::namespaced_with(
        fleet.client.clone(),
        "kedge-system",
        &kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
            "kedge.dev",
            "v1alpha1",
            "EdgeGateway",
        )),
    );
    let params = PatchParams::default();
    of_system.patch("gw", &params, &merge).await.unwrap();
    fleet
        .tenant(
            json!({"namespace": NS, "gatewayRef": {"name": "gw", "namespace": "kedge-system"},
            "dns": {"domain": "lb.example.net", "allowedHostnames": ["shop.example.com"]}}),
        )
        .await;
    let manager = fleet.manager("one").await;
    fleet.leads(&manager).await;
    let console = fleet.console(&manager);
    let wanted = json!({"role": "Gateway", "gateway": "gw"});
    let gateway = Host::gateway(&manager, "gw-0", &console.token(wanted).await);
    gateway.client.ensure().await.unwrap();
    let host = Host::with_token(&manager, "speaker", &fleet.token(&manager, 1).await);
    host.client.ensure().await.unwrap();
    let epoch = speaks(&fleet, &manager, &host, "speaker").await;

    // The key of a site's certificate as the gateway has it.
    let key_of = async |site: &str| {
        let config = gateway.client.config::<GatewayConfig>(None, Duration::ZERO);
        let offer = config.await.ok()??.offer;
        let site = offer
            .sites
            .into_iter()
            .find(|it| it.name == format!("{NS}/{site}"))?;
        Some(
            site.certificates
                .first()
                .map(|it| it.key.clone())
                .unwrap_or_default(),
        )
    };
    let front = json!({"kind": "HTTPLoadBalancer", "name": "front", "spec": {
        "source": {"kind": "Ingress", "namespace": "default", "name": "front"},
        "rules": [{"redirect": {"hostname": "example.net"}}],
        "tls": [{"secretRef": "kedge-tls-front"}]}});
    let say = async |certificates: Value| {
        let set = json!({"epoch": epoch, "kinds": ["HTTPLoadBalancer"], "items": [front],
            "certificates": certificates});
        host.ask(&manager, (Method::PUT, PATH), set).await
    };
    let secrets = Api::<Secret>::namespaced(fleet.client.clone(), NS);
    let own = |(chain, key): &(String, String)| json!([{"name": "kedge-tls-front", "chain": chain, "key": key}]);
    for _ in 0..2 {
        let pair = pair("front.t.lb.example.net");
        let (status, answer) = say(own(&pair)).await;
        assert_eq!(status, 200, "{answer}");
        eventually("the gateway has it", LIMIT, async || {
            key_of("front").await.as_ref() == Some(&pair.1)
        })
        .await;
    }
    let written = secrets.get("kedge-tls-front").await.unwrap();
    assert_eq!(written.type_.as_deref(), Some("kubernetes.io/tls"));
    let labels = written.metadata.labels.unwrap();
    assert_eq!(labels["kedge.dev/certificate"], "exposed");
    assert_eq!(labels["kedge.dev/tenant"], "t");
    let balancers = fleet.api("kedge.dev", "v1alpha1", "HTTPLoadBalancer");
    eventually("it is told", LIMIT, async || {
        let object = balancers.get("front").await.unwrap();
        let status = &object.data["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions
            .iter()
            .find(|it| it["type"] == "CertificateReady");
        let is_valid = ready.is_some_and(|it| it["reason"] == "Valid");
        is_valid && status["generatedHostname"] == "front.t.lb.example.net"
    })
    .await;

    // A person's own Secret, which a person renews.
    let params = PostParams::default();
    let first = pair("shop.example.com");
    let theirs = serde_json::from_value(secret("kedge-tls-theirs", &first)).unwrap();
    secrets.create(&params, &theirs).await.unwrap();
    let shop = json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "HTTPLoadBalancer",
        "metadata": {"name": "shop", "namespace": NS}, "spec": {"hostnames": ["shop.example.com"],
            "rules": [{"redirect": {}}], "tls": [{"secretRef": "kedge-tls-theirs"}]}});
    let shop = serde_json::from_value(shop).unwrap();
    balancers.create(&params, &shop).await.unwrap();
    eventually("the gateway has theirs", LIMIT, async || {
        key_of("shop").await.as_ref() == Some(&first.1)
    })
    .await;
    let second = pair("shop.example.com");
    let renewed = json!({"stringData": {"tls.crt": second.0, "tls.key": second.1}});
    let merge = Patch::Merge(renewed);
    let params = PatchParams::default();
    secrets
        .patch("kedge-tls-theirs", &params, &merge)
        .await
        .unwrap();
    eventually(
        "it is renewed without a word",
        Duration::from_secs(40),
        async || key_of("shop").await.as_ref() == Some(&second.1),
    )
    .await;
    // An agent does not write it.
    let stolen = json!([{"name": "kedge-tls-theirs", "chain": first.0, "key": first.1}]);
    let (status, answer) = say(stolen).await;
    assert_eq!(status, 409, "{answer}");
    assert!(answer.to_string().contains("kedge-tls-theirs"), "{answer}");
    assert!(
        secrets
            .get("kedge-tls-theirs")
            .await
            .unwrap()
            .metadata
            .labels
            .is_none()
    );

    // What a set lacks is gone, and nothing else.
    let (status, answer) = say(json!([])).await;
    assert_eq!(status, 200, "{answer}");
    assert!(secrets.get_opt("kedge-tls-front").await.unwrap().is_none());
    assert!(secrets.get_opt("kedge-tls-theirs").await.unwrap().is_some());
    eventually("the gateway has it no more", LIMIT, async || {
        key_of("front").await.is_some_and(|key| key.is_empty())
    })
    .await;
}
