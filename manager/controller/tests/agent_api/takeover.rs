//! What belongs to one member cannot be taken by another.

use hyper::{Method, StatusCode};
use kedge_control::{enrol::EnrolRequest, identity::Role, local::TokenRequest};
use kedge_manager_controller::store::Name;
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::{
    site::{Site, eventually, host_token, wireguard_key},
    wire::{Wire, identity_key, signing_request},
};

const ENROL: &str = "/kedge/v1/enrol";

fn code(answer: &(StatusCode, Value)) -> (u16, &str) {
    (
        answer.0.as_u16(),
        answer.1["code"].as_str().unwrap_or_default(),
    )
}

async fn enrol(site: &Site, token: TokenRequest, name: &str) -> (String, KeyPair) {
    let (token, key) = (site.token(token).await, identity_key());
    let mut wire = Wire::open(site, None).await.unwrap();
    let request = wire.enrolment(name, &key, &token);
    let answer = wire.post(ENROL, &request).await;
    assert_eq!(answer.0, StatusCode::CREATED, "{}", answer.1);
    let certificate = answer.1["certificate"].as_str().unwrap().to_owned();
    (certificate, key)
}

fn gateway_token() -> TokenRequest {
    TokenRequest {
        role: Role::Gateway,
        tenant: None,
        gateway: Some("gw".to_owned()),
        ..host_token(None)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_the_tunnel_key_of_another() {
    let site = Site::start().await;
    enrol(&site, host_token(None), "victim").await;
    enrol(&site, gateway_token(), "gw-0").await;
    let (certificate, key) = enrol(&site, host_token(None), "attacker").await;
    let mut wire = Wire::open(&site, Some((&certificate, &key))).await.unwrap();
    let own = "/kedge/v1/tenants/store-014/hosts/attacker";
    let report = |key: &str| {
        let report = json!({"bootID": "b", "machineID": "m", "version": "v",
            "appliedGeneration": 0, "tunnel": {"publicKey": wireguard_key(key)}});
        report.to_string().into_bytes()
    };
    for theirs in ["victim", "gw-0"] {
        let answer = wire.send(Method::PATCH, own, report(theirs)).await;
        assert_eq!(code(&answer), (409, "KEDGE-API-0005"), "{theirs}");
    }
    let goes_over = |key: &str, next: &str| {
        let report = json!({"bootID": "b", "machineID": "m", "version": "v",
            "appliedGeneration": 0, "tunnel": {"publicKey": wireguard_key(key),
            "nextPublicKey": wireguard_key(next)}});
        report.to_string().into_bytes()
    };
    let answer = wire
        .send(Method::PATCH, own, goes_over("attacker", "gw-0"))
        .await;
    assert_eq!(code(&answer), (409, "KEDGE-API-0005"), "as the next one");
    let answer = wire
        .send(Method::PATCH, own, goes_over("attacker", "rotated"))
        .await;
    assert_eq!(answer.0, StatusCode::OK);
    let record = site.objects().join("owned/kedge.dev/EdgeHost/store-014");
    let record = std::fs::read_dir(record.join("attacker")).unwrap();
    let record: String = record
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let at = |key: &str| record.find(&wireguard_key(key)).unwrap();
    assert!(at("attacker") < at("rotated"), "{record}");
    for mine in ["attacker", "rotated", "attacker"] {
        let answer = wire.send(Method::PATCH, own, report(mine)).await;
        assert_eq!(answer.0, StatusCode::OK, "{mine}");
    }

    let mut stranger = Wire::open(&site, None).await.unwrap();
    for token in [host_token(None), gateway_token()] {
        let token = site.token(token).await;
        for theirs in ["victim", "gw-0"] {
            let request = EnrolRequest {
                tunnel_key: wireguard_key(theirs),
                ..stranger.enrolment("newcomer", &identity_key(), &token)
            };
            let answer = stranger.post(ENROL, &request).await;
            assert_eq!(code(&answer), (409, "KEDGE-API-0005"), "{theirs}");
        }
        let list = site.get("/v1/tokens").await;
        let mut items = list["items"].as_array().unwrap().iter();
        let item = items.find(|item| item["id"] == token.id()).unwrap();
        assert_eq!(item["uses"], 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_use_is_not_lost_when_the_record_cannot_be_written() {
    let site = Site::start().await;
    let token = site.token(host_token(None)).await;
    let blocked = site
        .objects()
        .join("owned/kedge.dev/EdgeHost/store-014/edge-a");
    std::fs::create_dir_all(blocked.parent().unwrap()).unwrap();
    std::fs::write(&blocked, "in the way").unwrap();
    let mut wire = Wire::open(&site, None).await.unwrap();
    let request = wire.enrolment("edge-a", &identity_key(), &token);
    let answer = wire.post(ENROL, &request).await;
    assert_eq!(answer.0, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.1);
    std::fs::remove_file(&blocked).unwrap();
    let answer = wire.post(ENROL, &request).await;
    assert_eq!(answer.0, StatusCode::CREATED, "{}", answer.1);
    assert_eq!(site.get("/v1/tokens").await["items"][0]["uses"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_keeps_the_machine_it_is_bound_to() {
    let site = Site::start().await;
    let bound = host_token(Some("edge-a"));
    let (first, key) = (site.token(bound.clone()).await, identity_key());
    let mut wire = Wire::open(&site, None).await.unwrap();
    let answer = wire
        .post(ENROL, &wire.enrolment("edge-a", &key, &first))
        .await;
    assert_eq!(answer.0, StatusCode::CREATED, "{}", answer.1);
    let machine = async || {
        let hosts = site.get("/v1/fleet/hosts").await;
        let mut items = hosts["items"].as_array().unwrap().iter();
        let host = items.find(|item| item["name"] == "edge-a").unwrap();
        host["hostRef"].as_str().unwrap().to_owned()
    };
    assert_eq!(machine().await, "ElementalHost/edge-a");
    // Another machine's token does not move it, and one that names none does not free it.
    let other = site.token(host_token(Some("edge-b"))).await;
    let answer = wire
        .post(ENROL, &wire.enrolment("edge-a", &key, &other))
        .await;
    assert_eq!(code(&answer), (403, "KEDGE-ENR-0006"));
    let unbound = site.token(host_token(None)).await;
    let answer = wire
        .post(ENROL, &wire.enrolment("edge-a", &key, &unbound))
        .await;
    assert_eq!(answer.0, StatusCode::CREATED, "{}", answer.1);
    assert_eq!(machine().await, "ElementalHost/edge-a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_made_for_a_machine_wants_a_token_for_that_machine() {
    let site = Site::start().await;
    let record = "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\nmetadata: {name: edge-a, \
        namespace: store-014}\nspec:\n  tenant: store-014\n  hostRef: {apiGroup: \
        infrastructure.cluster.x-k8s.io, kind: ElementalHost, name: edge-a}\n";
    std::fs::write(site.objects().join("edge-a.yaml"), record).unwrap();
    eventually("the record is read", async || {
        let hosts = site.get("/v1/fleet/hosts").await;
        (!hosts["items"].as_array().unwrap().is_empty()).then_some(())
    })
    .await;
    let mut wire = Wire::open(&site, None).await.unwrap();
    let key = identity_key();
    for (token, status) in [
        (host_token(None), StatusCode::FORBIDDEN),
        (host_token(Some("edge-b")), StatusCode::FORBIDDEN),
        (host_token(Some("edge-a")), StatusCode::CREATED),
    ] {
        let token = site.token(token).await;
        let answer = wire
            .post(ENROL, &wire.enrolment("edge-a", &key, &token))
            .await;
        assert_eq!(answer.0, status, "{}", answer.1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_speaks_for_its_own_hosts_only() {
    let site = Site::start().await;
    let (certificate, key) = enrol(&site, host_token(Some("edge-a")), "edge-a").await;
    let mut host = Wire::open(&site, Some((&certificate, &key))).await.unwrap();
    let words = json!({"bootID": "b", "machineID": "m", "version": "v", "appliedGeneration": 0});
    let path = "/kedge/v1/tenants/store-014/hosts/edge-a";
    let answer = host
        .send(Method::PATCH, path, words.to_string().into_bytes())
        .await;
    assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
    let foreign = "apiVersion: kedge.dev/v1alpha1\nkind: EdgeGateway\n\
        metadata: {name: other, namespace: kedge-system}\nspec: {}\n";
    std::fs::write(site.objects().join("other.yaml"), foreign).unwrap();
    let token = eventually("the gateway is read", async || {
        let request = TokenRequest {
            gateway: Some("other".to_owned()),
            ..gateway_token()
        };
        let body = serde_json::to_value(request).unwrap();
        let (status, _) = site.ask(Method::POST, "/v1/tokens", body).await;
        (status == StatusCode::CREATED).then(|| TokenRequest {
            gateway: Some("other".to_owned()),
            ..gateway_token()
        })
    })
    .await;
    for (token, doubts) in [(token, false), (gateway_token(), true)] {
        let gateway = token.gateway.clone().unwrap();
        let (certificate, key) = enrol(&site, token, &format!("{gateway}-0")).await;
        let mut wire = Wire::open(&site, Some((&certificate, &key))).await.unwrap();
        let path = format!("/kedge/v1/gateways/kedge-system.{gateway}/instances/{gateway}-0");
        // Planned, so that its peers are known.
        let config = format!("{path}/config");
        let planned = wire.send(Method::GET, &config, Vec::new()).await;
        assert_eq!(planned.0, StatusCode::OK, "{}", planned.1);
        for alive in [true, false] {
            let report = json!({"bootID": "b", "version": "v", "appliedGeneration": 0,
                "publicKey": wireguard_key(&format!("{gateway}-0")), "listenPort": 1,
                "peers": [{"name": "store-014/edge-a", "alive": alive, "since": ""}]});
            let answer = wire
                .send(Method::PATCH, &path, report.to_string().into_bytes())
                .await;
            assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
        }
        let world = &site.manager.as_ref().unwrap().world;
        let doubted = world
            .state()
            .await
            .tracker
            .is_doubted(&Name::new("store-014", "edge-a"));
        assert_eq!(doubted, doubts, "{gateway}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_token_puts_no_living_host_out_of_its_identity() {
    let site = Site::start().await;
    let (token, key) = (site.token(host_token(None)).await, identity_key());
    let mut copy = Wire::open(&site, None).await.unwrap();
    let again = copy.enrolment("edge-a", &key, &token);
    let answer = copy.post(ENROL, &again).await;
    let certificate = answer.1["certificate"].as_str().unwrap().to_owned();
    let mut holder = Wire::open(&site, Some((&certificate, &key))).await.unwrap();
    let path = "/kedge/v1/tenants/store-014/hosts/edge-a";
    let renewal = |generation: u64, id: &str| json!({"csr": signing_request(&key).0, "generation": generation, "renewalID": id});
    let renew = format!("{path}/certificate");
    let answer = holder.post(&renew, &renewal(1, "one")).await;
    assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
    let second = answer.1["certificate"].as_str().unwrap().to_owned();
    let words = json!({"bootID": "b", "machineID": "m", "version": "v", "appliedGeneration": 0});
    let words = words.to_string().into_bytes();
    assert_eq!(
        holder.send(Method::PATCH, path, words).await.0,
        StatusCode::OK
    );
    // Key and token were copied, and the host is there.
    let answer = copy.post(ENROL, &again).await;
    assert_eq!(code(&answer), (409, "KEDGE-API-0005"));
    let mut holder = Wire::open(&site, Some((&second, &key))).await.unwrap();
    let answer = holder.post(&renew, &renewal(2, "two")).await;
    assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
}
