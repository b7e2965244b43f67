//! What a token asks of a host, what it gives it, and a person's word.

use std::fs;

use hyper::{Method, StatusCode};
use kedge_control::{
    local::{Approval, BoundTo, TokenRequest},
    token::Token,
};
use serde_json::{Value, json};

use crate::{
    site::{NS, Site, eventually, host_token},
    wire::{Wire, identity_key},
};

const ENROL: &str = "/kedge/v1/enrol";

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

async fn created(site: &Site, request: &TokenRequest) -> (StatusCode, Value) {
    let body = serde_json::to_value(request).unwrap();
    site.ask(Method::POST, "/v1/tokens", body).await
}

/// A token, once its tenant is read.
async fn token(site: &Site, request: &TokenRequest) -> Token {
    eventually("its tenant is read", async || {
        let (status, answer) = created(site, request).await;
        let token = || answer["token"].as_str().unwrap().parse().unwrap();
        (status == StatusCode::CREATED).then(token)
    })
    .await
}

async fn approve(site: &Site, request: Value) -> (u16, Value) {
    let (status, answer) = site.ask(Method::POST, "/v1/fleet/approvals", request).await;
    (status.as_u16(), answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_token_admits_only_hosts_that_say_what_it_wants_to_hear() {
    let site = Site::start().await;
    let tenant = "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {name: wide}\nspec: {}\n";
    fs::write(site.objects().join("wide.yaml"), tenant).unwrap();
    let bound = |bound_to| TokenRequest {
        tenant: some("wide"),
        bound_to,
        ..host_token(None)
    };
    let rules = [
        BoundTo {
            machine_id: some("4d"),
            ..BoundTo::default()
        },
        BoundTo {
            serial: some("XK-1"),
            ..BoundTo::default()
        },
        BoundTo {
            mac: some("52-54-00-AA-BB-CC"),
            ..BoundTo::default()
        },
        BoundTo {
            hostname_regex: some("shop-[0-9]+"),
            ..BoundTo::default()
        },
    ];
    let mut wire = Wire::open(&site, None).await.unwrap();
    for (number, rule) in rules.into_iter().enumerate() {
        let what = format!("{rule:?}");
        let token = token(&site, &bound(rule)).await;
        let mut wish = wire.enrolment(&format!("shop-{number}"), &identity_key(), &token);
        wish.facts.hostname = "kiosk-1".to_owned();
        let refused = wire.post(ENROL, &wish).await;
        assert_eq!(refused.0, StatusCode::FORBIDDEN, "{what}");
        assert_eq!(refused.1["code"], "KEDGE-ENR-0006", "{what}");
        let told = refused.1.to_string();
        let secrets = ["4d", "XK-1", "52:54:00:aa:bb:cc", "shop-["];
        assert!(
            !secrets.iter().any(|secret| told.contains(secret)),
            "{told}"
        );
        wish.facts.hostname = "shop-1".to_owned();
        wish.facts.machine_id = "4d".to_owned();
        wish.facts.serial = "XK-1".to_owned();
        wish.facts.macs = vec![
            "52:54:00:00:00:01".to_owned(),
            "52:54:00:aa:bb:cc".to_owned(),
        ];
        let admitted = wire.post(ENROL, &wish).await;
        assert_eq!(admitted.0, StatusCode::CREATED, "{what}: {}", admitted.1);
    }
    let list = site.get("/v1/tokens").await;
    let uses = list["items"].as_array().unwrap().iter();
    assert!(
        uses.clone().all(|token| token["uses"] == 1),
        "a refusal is no use: {list}"
    );
    assert_eq!(
        uses.filter(|token| token.get("boundTo").is_some()).count(),
        4
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_cannot_be_meant_is_not_made() {
    let site = Site::start().await;
    let bound = |bound_to| TokenRequest {
        bound_to,
        ..host_token(None)
    };
    let gateway = TokenRequest {
        role: kedge_control::identity::Role::Gateway,
        tenant: None,
        gateway: some("gw"),
        ..host_token(None)
    };
    for request in [
        bound(BoundTo {
            mac: some("nonsense"),
            ..BoundTo::default()
        }),
        bound(BoundTo {
            hostname_regex: some("("),
            ..BoundTo::default()
        }),
        TokenRequest {
            labels: [("a b".to_owned(), "c".to_owned())].into(),
            ..host_token(None)
        },
        TokenRequest {
            approval: Some(Approval::Manual),
            ..gateway.clone()
        },
        TokenRequest {
            bound_to: BoundTo {
                serial: some("x"),
                ..BoundTo::default()
            },
            ..gateway
        },
    ] {
        let (status, answer) = created(&site, &request).await;
        assert_eq!(
            status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{request:?} {answer}"
        );
        assert_eq!(answer["code"], "KEDGE-CFG-0009");
    }
    assert_eq!(site.get("/v1/tokens").await["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_gives_labels_and_says_whether_a_person_is_asked() {
    let site = Site::start().await;
    let tenant = format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: careful}}\nspec:\n  namespace: {NS}\n  enrollment: {{approval: Manual, hostLabels: {{site: any, level: low}}}}\n"
    );
    fs::write(site.objects().join("careful.yaml"), tenant).unwrap();
    let request = |approval| TokenRequest {
        tenant: some("careful"),
        labels: [("site".to_owned(), "store-014".to_owned())].into(),
        approval,
        ..host_token(None)
    };
    // As the tenant says, and as the token says above it.
    for (name, approval, wanted) in [
        ("by-rule", None, StatusCode::ACCEPTED),
        ("trusted", Some(Approval::Auto), StatusCode::CREATED),
        ("asked", Some(Approval::Manual), StatusCode::ACCEPTED),
    ] {
        let token = token(&site, &request(approval)).await;
        let mut wire = Wire::open(&site, None).await.unwrap();
        let wish = wire.enrolment(name, &identity_key(), &token);
        let answer = wire.post(ENROL, &wish).await;
        assert_eq!(answer.0, wanted, "{name}: {}", answer.1);
        let record = site.objects().join(format!(
            "owned/kedge.dev/EdgeHost/{NS}/{name}/kedge-enrol.yaml"
        ));
        let record = fs::read_to_string(record).unwrap();
        assert!(
            record.contains("site: store-014") && record.contains("level: low"),
            "{record}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_word_lets_in_the_key_that_was_meant_and_no_other() {
    let site = Site::start().await;
    let token = site
        .token(TokenRequest {
            approval: Some(Approval::Manual),
            ..host_token(None)
        })
        .await;
    let mut wire = Wire::open(&site, None).await.unwrap();
    let key = identity_key();
    let wish = wire.enrolment("shy", &key, &token);
    let waits = wire.post(ENROL, &wish).await;
    assert_eq!(waits.0, StatusCode::ACCEPTED, "{}", waits.1);
    let hash = waits.1["keyHash"].clone();

    // Only looked at: nothing is said yet.
    let (status, shown) = approve(&site, json!({"name": "shy"})).await;
    assert_eq!(
        (status, &shown["keyHash"], &shown["approved"]),
        (200, &hash, &json!(false))
    );
    let request = json!({"name": "shy", "keyHash": hash, "dryRun": true});
    assert_eq!(approve(&site, request).await.1["approved"], false);
    let (status, refused) = approve(&site, json!({"name": "nobody"})).await;
    assert_eq!((status, &refused["code"]), (404, &json!("KEDGE-API-0004")));
    let other = "A".repeat(43);
    let (status, refused) = approve(&site, json!({"name": "shy", "keyHash": other})).await;
    assert_eq!(
        (status, &refused["code"]),
        (409, &json!("KEDGE-API-0005")),
        "{refused}"
    );
    assert!(refused.to_string().contains(hash.as_str().unwrap()));
    assert_eq!(
        wire.post(ENROL, &wish).await.0,
        StatusCode::ACCEPTED,
        "none of these was a word"
    );

    let word = json!({"name": "shy", "namespace": NS, "keyHash": hash});
    let (status, said) = approve(&site, word.clone()).await;
    assert_eq!((status, &said["approved"]), (200, &json!(true)), "{said}");
    assert_eq!(
        approve(&site, word.clone()).await.1["approved"],
        true,
        "twice says the same"
    );
    eventually("it is let in", async || {
        (wire.post(ENROL, &wish).await.0 == StatusCode::CREATED).then_some(())
    })
    .await;
    let (status, _) = approve(&site, word).await;
    assert_eq!(status, 404, "it waits no more");
}
