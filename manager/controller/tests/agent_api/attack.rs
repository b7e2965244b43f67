//! What must be refused, and how.

use std::time::Duration;

use hyper::{Method, StatusCode};
use kedge_control::{enrol::ProofKind, identity::Role, local::TokenRequest};
use kedge_core::{Code, Coded as _};
use kedge_host::enrol::ClientError;
use serde_json::{Value, json};

use crate::{
    site::{Host, Site, eventually, host_token},
    wire::{Wire, identity_key, prove, signing_request},
};

const ENROL: &str = "/kedge/v1/enrol";

fn code(answer: &(StatusCode, Value)) -> (u16, &str) {
    (
        answer.0.as_u16(),
        answer.1["code"].as_str().unwrap_or_default(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_used_as_often_as_it_may_be_and_no_longer_than_it_lives() {
    let site = Site::start().await;
    let token = site.token(host_token(None)).await;
    let mut wire = Wire::open(&site, None).await.unwrap();
    let key = identity_key();
    let first = wire
        .post(ENROL, &wire.enrolment("edge-a", &key, &token))
        .await;
    assert_eq!(first.0, StatusCode::CREATED, "{}", first.1);
    // The same key again: the answer was lost. The same identity, and the use counts once.
    let again = wire
        .post(ENROL, &wire.enrolment("edge-a", &key, &token))
        .await;
    assert_eq!(again.0, StatusCode::CREATED);
    assert_eq!(first.1["uid"], again.1["uid"]);
    assert_eq!(again.1["generation"], 1);
    let other = wire
        .post(ENROL, &wire.enrolment("edge-b", &identity_key(), &token))
        .await;
    assert_eq!(code(&other), (403, "KEDGE-ENR-0003"));
    let list = site.get("/v1/tokens").await;
    assert_eq!(list["items"][0]["uses"], 1);
    assert_eq!(list["items"][0]["state"], "used-up");

    let short = site
        .token(TokenRequest {
            ttl_seconds: Some(60),
            ..host_token(None)
        })
        .await;
    site.pass(Duration::from_secs(61));
    let late = wire
        .post(ENROL, &wire.enrolment("edge-b", &identity_key(), &short))
        .await;
    assert_eq!(code(&late), (403, "KEDGE-ENR-0002"));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_racers_for_the_last_use_exactly_one_wins() {
    let site = Site::start().await;
    let token = site
        .token(TokenRequest {
            max_uses: Some(2),
            ..host_token(None)
        })
        .await;
    let mut racers = tokio::task::JoinSet::new();
    for number in 0..12 {
        let mut wire = Wire::open(&site, None).await.unwrap();
        let request = wire.enrolment(&format!("host-{number}"), &identity_key(), &token);
        racers.spawn(async move { wire.post(ENROL, &request).await.0 });
    }
    let answers = racers.join_all().await;
    let won = answers
        .iter()
        .filter(|status| **status == StatusCode::CREATED)
        .count();
    assert_eq!(won, 2, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_holds_on_its_own_connection_for_its_own_request_only() {
    let site = Site::start().await;
    let token = site.token(host_token(None)).await;
    let key = identity_key();
    let one = Wire::open(&site, None).await.unwrap();
    let mut other = Wire::open(&site, None).await.unwrap();
    let captured = one.enrolment("edge-a", &key, &token);
    assert_eq!(
        code(&other.post(ENROL, &captured).await),
        (401, "KEDGE-ENR-0005")
    );

    let mut foreign_csr = other.enrolment("edge-a", &key, &token);
    foreign_csr.csr = signing_request(&identity_key()).0;
    assert_eq!(
        code(&other.post(ENROL, &foreign_csr).await),
        (401, "KEDGE-ENR-0005")
    );

    let mut wrong_kind = other.enrolment("edge-a", &key, &token);
    wrong_kind.proof.kind = ProofKind::BoundKey;
    assert_eq!(
        code(&other.post(ENROL, &wrong_kind).await),
        (401, "KEDGE-ENR-0005")
    );

    let mut unknown = other.enrolment("edge-a", &key, &token);
    unknown.proof.id = "aaaaaaaaaa".to_owned();
    assert_eq!(
        code(&other.post(ENROL, &unknown).await),
        (401, "KEDGE-ENR-0005")
    );

    let mut zero = other.enrolment("edge-a", &key, &token);
    zero.proof = prove(&token, &[0; 32], &signing_request(&key).1);
    assert_eq!(
        code(&other.post(ENROL, &zero).await),
        (401, "KEDGE-ENR-0005")
    );

    let good = other.enrolment("edge-a", &key, &token);
    assert_eq!(
        other.post(ENROL, &good).await.0,
        StatusCode::CREATED,
        "none of these used the token"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_admits_to_its_own_scope_only() {
    let site = Site::start().await;
    let token = site.token(host_token(Some("edge-a"))).await;
    let mut wire = Wire::open(&site, None).await.unwrap();
    let key = identity_key();
    for path in [
        "/kedge/v1/tenants/other/hosts",
        "/kedge/v1/gateways/gw/instances",
    ] {
        let answer = wire
            .post(path, &wire.enrolment("edge-a", &key, &token))
            .await;
        assert_eq!(code(&answer), (403, "KEDGE-ENR-0006"), "{path}");
    }
    let mut as_another = wire.enrolment("edge-a", &key, &token);
    as_another.host_ref = host_token(Some("edge-b")).host_ref;
    assert_eq!(
        code(&wire.post(ENROL, &as_another).await),
        (403, "KEDGE-ENR-0006")
    );
    let path = "/kedge/v1/tenants/store-014/hosts";
    let good = wire
        .post(path, &wire.enrolment("edge-a", &key, &token))
        .await;
    assert_eq!(good.0, StatusCode::CREATED, "{}", good.1);

    // Neither its name nor its machine can be taken by another key.
    let second = site.token(host_token(None)).await;
    let taken = wire
        .post(ENROL, &wire.enrolment("edge-a", &identity_key(), &second))
        .await;
    assert_eq!(code(&taken), (409, "KEDGE-ENR-0008"));
    let third = site.token(host_token(Some("edge-a"))).await;
    let bound = wire
        .post(ENROL, &wire.enrolment("edge-z", &identity_key(), &third))
        .await;
    assert_eq!(code(&bound), (409, "KEDGE-ENR-0008"));
    // A token that names no machine binds none, whatever the host says.
    let fourth = site.token(host_token(None)).await;
    let mut claims = wire.enrolment("edge-y", &identity_key(), &fourth);
    claims.host_ref = host_token(Some("edge-b")).host_ref;
    assert_eq!(wire.post(ENROL, &claims).await.0, StatusCode::CREATED);
    let hosts = site.get("/v1/fleet/hosts").await;
    let unbound = hosts["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["name"] == "edge-y");
    assert_eq!(unbound.unwrap()["hostRef"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_admits_as_many_hosts_as_it_may() {
    let site = Site::start().await;
    let token = site
        .token(TokenRequest {
            max_uses: Some(9),
            ..host_token(None)
        })
        .await;
    let mut wire = Wire::open(&site, None).await.unwrap();
    for name in ["a", "b", "c"] {
        let answer = wire
            .post(ENROL, &wire.enrolment(name, &identity_key(), &token))
            .await;
        assert_eq!(answer.0, StatusCode::CREATED);
    }
    let fourth = wire
        .post(ENROL, &wire.enrolment("d", &identity_key(), &token))
        .await;
    assert_eq!(code(&fourth), (403, "KEDGE-API-0003"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_with_another_ca_is_told_from_the_tokens_pin() {
    let site = Site::start().await;
    let other = Site::start().await;
    let token = other.token(host_token(None)).await;
    let host = Host::new(&site, "edge-a", Role::Host, &token);
    let error = host.client.ensure().await.unwrap_err();
    assert!(
        matches!(error, ClientError::PinMismatch { .. }),
        "{error:?}"
    );
    assert_eq!(error.problem().code, Code::EnrolPinMismatch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_its_owners_alone() {
    let site = Site::start().await;
    let token = site
        .token(TokenRequest {
            max_uses: Some(2),
            ..host_token(None)
        })
        .await;
    let mut stranger = Wire::open(&site, None).await.unwrap();
    let (a, b) = (identity_key(), identity_key());
    let mut certificates = Vec::new();
    for (name, key) in [("edge-a", &a), ("edge-b", &b)] {
        let answer = stranger
            .post(ENROL, &stranger.enrolment(name, key, &token))
            .await;
        certificates.push(answer.1["certificate"].as_str().unwrap().to_owned());
    }
    let own = "/kedge/v1/tenants/store-014/hosts/edge-a";
    let report = json!({"bootID": "b", "machineID": "m", "version": "v", "appliedGeneration": 0})
        .to_string();
    let report = || report.clone().into_bytes();
    let mut wire = Wire::open(&site, Some((&certificates[0], &a)))
        .await
        .unwrap();
    assert_eq!(
        wire.send(Method::PATCH, own, report()).await.0,
        StatusCode::OK
    );
    for path in [
        "/kedge/v1/tenants/store-014/hosts/edge-b",
        "/kedge/v1/tenants/store-014/hosts/nobody",
        "/kedge/v1/tenants/other/hosts/edge-a",
        "/kedge/v1/gateways/gw/instances/edge-a",
    ] {
        for (method, path) in [
            (Method::PATCH, path.to_owned()),
            (Method::DELETE, path.to_owned()),
            (Method::GET, format!("{path}/config")),
        ] {
            let answer = wire.send(method.clone(), &path, report()).await;
            assert_eq!(code(&answer), (403, "KEDGE-API-0003"), "{method} {path}");
            let answer = stranger.send(method, &path, report()).await;
            assert_eq!(code(&answer), (401, "KEDGE-API-0002"), "{path}");
        }
    }
    let unknown = wire
        .send(Method::GET, "/kedge/v1/secrets", Vec::new())
        .await;
    assert_eq!(code(&unknown), (404, "KEDGE-API-0004"));
    let method = wire.send(Method::PUT, own, Vec::new()).await;
    assert_eq!(code(&method), (404, "KEDGE-API-0004"));
    // What the request asked for beyond its key was not given.
    let (_, certificate) = x509_parser::pem::parse_x509_pem(certificates[0].as_bytes()).unwrap();
    let certificate = certificate.parse_x509().unwrap();
    assert!(!certificate.is_ca());
    let names = certificate
        .subject_alternative_name()
        .unwrap()
        .unwrap()
        .value
        .general_names
        .clone();
    assert_eq!(names.len(), 1);
    assert!(
        names[0]
            .to_string()
            .contains("spiffe://kedge.local/ns/store-014/edgehost/")
    );
    let usage = certificate
        .extended_key_usage()
        .unwrap()
        .unwrap()
        .value
        .clone();
    assert!(usage.client_auth && !usage.server_auth);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_bounded_in_size_and_depth() {
    let site = Site::start().await;
    let open = async || Wire::open(&site, None).await.unwrap();
    let large = vec![b' '; 65 * 1024];
    let answer = open().await.try_send(Method::POST, ENROL, large).await;
    // The answer may meet a client that is still sending; what counts is that nothing was read.
    if let Ok(answer) = answer {
        assert_eq!(code(&answer), (413, "KEDGE-API-0007"));
    }
    let deep = format!("{}{}", "[".repeat(17), "]".repeat(17)).into_bytes();
    let answer = open().await.send(Method::POST, ENROL, deep).await;
    assert_eq!(code(&answer), (413, "KEDGE-API-0007"));
    for bad in [&b""[..], b"{", b"null", b"{\"name\": 1}", b"\xff"] {
        let answer = open().await.send(Method::POST, ENROL, bad.to_vec()).await;
        assert_eq!(code(&answer), (400, "KEDGE-API-0001"), "{bad:?}");
    }
    let token = site.token(host_token(None)).await;
    let mut wire = open().await;
    let good = serde_json::to_value(wire.enrolment("edge-a", &identity_key(), &token)).unwrap();
    for (field, value) in [
        ("name", json!("../b")),
        ("name", json!("")),
        ("csr", json!("x")),
        ("tunnelKey", json!("short")),
        (
            "tunnelKey",
            json!("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        ),
        ("surprise", json!(1)),
    ] {
        let mut bad = good.clone();
        bad[field] = value.clone();
        let answer = wire.post(ENROL, &bad).await;
        assert_eq!(code(&answer), (400, "KEDGE-API-0001"), "{field} {value}");
    }
    assert_eq!(wire.post(ENROL, &good).await.0, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_asked_for_within_bounds() {
    let site = Site::start().await;
    let ask = async |body: Value| {
        let answer = site.ask(Method::POST, "/v1/tokens", body).await;
        (
            answer.0.as_u16(),
            answer.1["code"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let cases = [
        (
            json!({"role": "Host", "tenant": "nobody"}),
            (404, "KEDGE-API-0004"),
        ),
        (
            json!({"role": "Gateway", "gateway": "a/b"}),
            (404, "KEDGE-API-0004"),
        ),
        (json!({"role": "Host"}), (422, "KEDGE-CFG-0009")),
        (
            json!({"role": "Gateway", "gateway": "gw", "tenant": "store-014"}),
            (422, "KEDGE-CFG-0009"),
        ),
        (
            json!({"role": "Host", "tenant": "store-014", "ttlSeconds": 0}),
            (422, "KEDGE-CFG-0003"),
        ),
        (
            json!({"role": "Host", "tenant": "store-014", "ttlSeconds": 2_592_001}),
            (422, "KEDGE-CFG-0003"),
        ),
        (
            json!({"role": "Host", "tenant": "store-014", "maxUses": 0}),
            (422, "KEDGE-CFG-0003"),
        ),
        (
            json!({"role": "Host", "tenant": "store-014", "surprise": 1}),
            (422, "KEDGE-API-0001"),
        ),
    ];
    for (body, (status, code)) in cases {
        assert_eq!(ask(body.clone()).await, (status, code.to_owned()), "{body}");
    }
    assert_eq!(site.get("/v1/tokens").await["items"], json!([]));
    let unknown = site.ask(Method::GET, "/v1/nothing", Value::Null).await;
    assert_eq!(code(&unknown), (404, "KEDGE-API-0004"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_guesses_is_told_when_to_come_again_and_others_wait_with_it() {
    let site = Site::start().await;
    let tenant = "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {name: wide}\nspec: {}\n";
    std::fs::write(site.objects().join("wide.yaml"), tenant).unwrap();
    let wanted = TokenRequest {
        tenant: Some("wide".to_owned()),
        max_uses: Some(1000),
        ..host_token(None)
    };
    let wanted = serde_json::to_value(wanted).unwrap();
    let token = eventually("its tenant is read", async || {
        let (status, made) = site.ask(Method::POST, "/v1/tokens", wanted.clone()).await;
        (status == StatusCode::CREATED).then(|| made["token"].as_str().unwrap().parse().unwrap())
    })
    .await;
    let mut wire = Wire::open(&site, None).await.unwrap();
    let good = wire.enrolment("edge-a", &identity_key(), &token);
    let mut guess = good.clone();
    guess.proof.id = "aaaaaaaaaa".to_owned();
    let mut refusals = 0;
    let busy = loop {
        let answer = wire.answer(Method::POST, ENROL, serde_json::to_vec(&guess).unwrap());
        let answer = answer.await.unwrap();
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            break answer;
        }
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        drain(answer).await;
        refusals += 1;
        assert!(refusals < 200, "guessing has no end");
    };
    assert!(refusals >= 20, "a mistake or two are forgiven: {refusals}");
    let after = busy.headers()["retry-after"].to_str().unwrap();
    let after: u32 = after.parse().unwrap();
    assert!((1..=2).contains(&after), "{after}");
    let told = drain(busy).await;
    assert_eq!(told["code"], "KEDGE-API-0009");
    // The same for every way in without a certificate, also for who has a proof: it is not looked
    // at. A drop comes back each second, so it is taken again right before.
    let host = "/kedge/v1/tenants/store-014/hosts";
    for path in [
        ENROL.to_owned(),
        host.to_owned(),
        format!("{host}/edge-a/recover"),
    ] {
        let body = if path.ends_with("recover") {
            json!({"csr": "", "certificate": "", "generation": 1, "renewalID": "r",
                "proof": guess.proof})
        } else {
            serde_json::to_value(&guess).unwrap()
        };
        eventually("it has to wait", async || {
            wire.post(ENROL, &guess).await;
            let said = wire.post(&path, &body).await;
            (code(&said) == (429, "KEDGE-API-0009")).then_some(())
        })
        .await;
    }
    // The real client hears it.
    let mut number = 0;
    let host = eventually("a host has to wait", async || {
        wire.post(ENROL, &guess).await;
        number += 1;
        let host = Host::new(&site, &format!("edge-{number}"), Role::Host, &token);
        match host.client.ensure().await {
            Err(error @ ClientError::Refused { status: 429, .. }) => {
                assert!(error.retry_after().is_some(), "{error:?}");
                assert_eq!(error.problem().code, Code::ApiTooMany);
                Some(host)
            }
            Ok(()) => None,
            Err(error) => panic!("{error:?}"),
        }
    })
    .await;
    // And once it has waited, all is well.
    eventually("it is let in", async || host.client.ensure().await.ok()).await;
}

async fn drain(answer: hyper::Response<hyper::body::Incoming>) -> Value {
    let body = http_body_util::BodyExt::collect(answer.into_body())
        .await
        .unwrap();
    serde_json::from_slice(&body.to_bytes()).unwrap()
}
