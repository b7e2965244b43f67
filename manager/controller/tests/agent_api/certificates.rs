//! Certificates that a tenant's cluster hands over: written as Secrets of its own, and nobody else's.

use std::fs;

use hyper::Method;
use kedge_manager_controller::store::{Layers, Name, ObjectKey};
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::{
    exposures::{Host, PATH, may_speak},
    site::{NS, Site, eventually},
};

const HOST: &str = "front.store-014.lb.example.net";

/// A certificate as an agent hands it over.
fn certificate(name: &str) -> Value {
    let key = KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![HOST.to_owned()]).unwrap();
    let chain = params.self_signed(&key).unwrap().pem();
    json!({"name": name, "chain": chain, "key": key.serialize_pem()})
}

fn front(secret: &str) -> Value {
    json!({"kind": "HTTPLoadBalancer", "name": "front", "spec": {
        "source": {"kind": "Ingress", "namespace": "default", "name": "front"},
        "rules": [{"redirect": {"hostname": "example.net"}}],
        "tls": [{"secretRef": secret}]}})
}

fn set(epoch: u64, items: &[Value], certificates: &[Value]) -> Value {
    json!({"epoch": epoch, "kinds": ["HTTPLoadBalancer"], "items": items, "certificates": certificates,
        "confirm": true})
}

fn secret(site: &Site, name: &str) -> Option<Layers> {
    let key = ObjectKey::new("", "Secret", Name::new(NS, name));
    let store = &site.manager.as_ref().unwrap().world.store;
    store.get(&key)
}

/// A site whose gateway serves HTTP, and a host that may speak for its cluster.
async fn speaking() -> (Site, Host, u64) {
    let site = Site::start().await;
    let files = [
        (
            "http.yaml",
            "apiVersion: kedge.dev/v1alpha1\nkind: EdgeGateway\nmetadata: {name: gw, namespace: kedge-system}\n\
          spec: {tunnel: {publicEndpoints: [{host: 203.0.113.7}]}, http: {}}\n",
        ),
        (
            "tenant.yaml",
            "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {name: store-014}\nspec: {namespace: \
          store-014, gatewayRef: {name: gw}, dns: {domain: lb.example.net}}\n",
        ),
    ];
    for (name, text) in files {
        fs::write(site.objects().join(name), text).unwrap();
    }
    for old in ["gateway.yaml", "site.yaml"] {
        let path = site.objects().join(old);
        let text = fs::read_to_string(&path).unwrap();
        let rest = text
            .split("---\n")
            .filter(|part| !part.contains("kind: EdgeGateway") && !part.contains("kind: Tenant"));
        fs::write(&path, rest.collect::<Vec<_>>().join("---\n")).unwrap();
    }
    let host = Host::enrol(&site, "speaker").await;
    may_speak(&site, "speaker");
    eventually("it may speak", async || {
        (host.ask(&site, Method::GET, PATH, Value::Null).await.0 == 200).then_some(())
    })
    .await;
    let epoch = host.takes_over(&site, 0).await;
    (site, host, epoch)
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_come_and_go_with_the_set_and_their_keys_are_told_to_nobody() {
    let (site, host, epoch) = speaking().await;
    let put = async |items: &[Value], certificates: &[Value]| {
        let body = set(epoch, items, certificates);
        host.ask(&site, Method::PUT, PATH, body).await
    };
    let told = async || {
        let list = host.ask(&site, Method::GET, PATH, Value::Null).await.1;
        let conditions = list["items"][0]["status"]["conditions"].as_array()?.clone();
        let mut all = conditions.into_iter();
        let found = all.find(|one| one["type"] == "CertificateReady")?;
        Some(format!("{}: {}", found["status"], found["reason"]))
    };
    let first = certificate("kedge-tls-front");
    let answer = put(&[front("kedge-tls-front")], std::slice::from_ref(&first)).await;
    assert_eq!(answer.0, 200, "{}", answer.1);
    eventually("it is shown", async || {
        (told().await? == "\"True\": \"Valid\"").then_some(())
    })
    .await;
    let layers = secret(&site, "kedge-tls-front").unwrap();
    assert_eq!(layers.effective()["type"], "kubernetes.io/tls");
    // A renewed one is in the place of the last.
    let second = certificate("kedge-tls-front");
    assert_eq!(
        put(&[front("kedge-tls-front")], std::slice::from_ref(&second))
            .await
            .0,
        200
    );
    let layers = secret(&site, "kedge-tls-front").unwrap();
    assert_eq!(layers.effective()["stringData"]["tls.key"], second["key"]);
    // Nobody is told of a key: not the cluster, not people.
    let line = second["key"].as_str().unwrap().lines().nth(1).unwrap();
    let list = host.ask(&site, Method::GET, PATH, Value::Null).await.1;
    let people = site.get("/v1/fleet/loadbalancers").await;
    assert!(people.to_string().contains("HTTPLoadBalancer"), "{people}");
    for text in [list.to_string(), people.to_string()] {
        assert!(!text.contains(line) && !text.contains("BEGIN"), "{text}");
    }
    // Without it in the set it is gone.
    assert_eq!(put(&[front("kedge-tls-front")], &[]).await.0, 200);
    assert!(secret(&site, "kedge-tls-front").is_none_or(|it| it == Layers::default()));
    eventually("it is not shown", async || {
        (told().await? == "\"False\": \"SecretMissing\"").then_some(())
    })
    .await;
    assert_eq!(put(&[], &[second]).await.0, 200);
    assert_eq!(put(&[], &[]).await.0, 200);
    assert!(secret(&site, "kedge-tls-front").is_none_or(|it| it == Layers::default()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_somebody_else_is_neither_written_nor_led_to() {
    let (site, host, epoch) = speaking().await;
    let theirs = "apiVersion: v1\nkind: Secret\nmetadata: {name: kedge-tls-theirs, namespace: store-014}\n\
                  type: kubernetes.io/tls\nstringData: {tls.crt: a, tls.key: b}\n";
    fs::write(site.objects().join("theirs.yaml"), theirs).unwrap();
    eventually("it is there", async || secret(&site, "kedge-tls-theirs")).await;
    let own = || certificate("kedge-tls-own");
    let mut large = own();
    large["chain"] = Value::from("x".repeat(64 * 1024));
    let tcp = json!(["TCPLoadBalancer"]);
    for (items, certificates, kinds, status) in [
        (
            vec![],
            vec![own(), certificate("kedge-tls-theirs")],
            None,
            409,
        ),
        (
            vec![],
            vec![certificate("kedge-exposures-store-014")],
            None,
            400,
        ),
        (vec![], vec![certificate("kedge-tls-UPPER")], None, 400),
        (vec![], vec![own(), own()], None, 400),
        (vec![], vec![large], None, 413),
        (vec![], vec![own()], Some(tcp), 400),
        (vec![front("edge-ca")], vec![own()], None, 422),
    ] {
        let mut body = set(epoch, &items, &certificates);
        if let Some(kinds) = kinds {
            body["kinds"] = kinds;
        }
        let answer = host.ask(&site, Method::PUT, PATH, body).await;
        assert_eq!(answer.0, status, "{}", answer.1);
        let own = secret(&site, "kedge-tls-own");
        assert!(own.is_none(), "nothing is written: {}", answer.1);
    }
    let theirs = secret(&site, "kedge-tls-theirs").unwrap();
    assert_eq!(theirs.effective()["stringData"]["tls.crt"], "a");
}
