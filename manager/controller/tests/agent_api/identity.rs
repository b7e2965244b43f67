//! The life of an identity: renewal, lost answers, clones, recovery, suspension, eviction.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hyper::{Method, StatusCode};
use kedge_control::{
    agent::HostConfig,
    enrol::{Proof, ProofKind, RecoverRequest, RenewRequest, proof_message},
};
use rcgen::{KeyPair, SigningKey as _};
use serde_json::Value;

use crate::{
    site::{NS, Site, eventually, host_token},
    wire::{Wire, identity_key, signing_request},
};

const OWN: &str = "/kedge/v1/tenants/store-014/hosts/edge-a";

async fn enrolled(site: &Site) -> (KeyPair, String) {
    let token = site.token(host_token(None)).await;
    let key = identity_key();
    let mut wire = Wire::open(site, None).await.unwrap();
    let answer = wire
        .post("/kedge/v1/enrol", &wire.enrolment("edge-a", &key, &token))
        .await;
    assert_eq!(answer.0, StatusCode::CREATED, "{}", answer.1);
    (key, certificate(&answer.1))
}

fn certificate(answer: &Value) -> String {
    answer["certificate"].as_str().unwrap().to_owned()
}

fn serial(certificate: &str) -> String {
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).unwrap();
    pem.parse_x509().unwrap().raw_serial_as_string()
}

async fn renew(
    site: &Site,
    (key, certificate): (&KeyPair, &str),
    generation: u64,
    id: &str,
) -> (StatusCode, Value) {
    let mut wire = Wire::open(site, Some((certificate, key))).await.unwrap();
    let request = RenewRequest {
        csr: signing_request(key).0,
        generation,
        renewal_id: id.to_owned(),
    };
    wire.post(&format!("{OWN}/certificate"), &request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_repeated_and_a_clone_is_refused() {
    let site = Site::start().await;
    let (key, first) = enrolled(&site).await;
    let answer = renew(&site, (&key, &first), 1, "r1").await;
    assert_eq!(
        (answer.0, &answer.1["generation"]),
        (StatusCode::OK, &2.into())
    );
    let second = certificate(&answer.1);
    let again = renew(&site, (&key, &first), 1, "r1").await;
    assert_eq!(again.0, StatusCode::OK);
    assert_eq!(
        serial(&certificate(&again.1)),
        serial(&second),
        "the same certificate"
    );
    // The copy of the state directory asks with an id of its own.
    let clone = renew(&site, (&key, &first), 1, "other").await;
    assert_eq!(
        (clone.0, &clone.1["code"]),
        (StatusCode::CONFLICT, &"KEDGE-API-0005".into())
    );
    let holder = renew(&site, (&key, &second), 2, "r2").await;
    assert_eq!(
        (holder.0, &holder.1["generation"]),
        (StatusCode::OK, &3.into())
    );
    // The generation is proven by the certificate; what the body says of it must agree.
    let lies = renew(&site, (&key, &second), 3, "r3").await;
    assert_eq!(lies.0, StatusCode::BAD_REQUEST);
    let other_key = {
        let mut wire = Wire::open(&site, Some((&certificate(&holder.1), &key)))
            .await
            .unwrap();
        let request = RenewRequest {
            csr: signing_request(&identity_key()).0,
            generation: 3,
            renewal_id: "r3".to_owned(),
        };
        wire.post(&format!("{OWN}/certificate"), &request).await
    };
    assert_eq!(other_key.0, StatusCode::CONFLICT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_restored_from_a_backup_locks_nobody_out() {
    let mut site = Site::start().await;
    let (key, first) = enrolled(&site).await;
    site.halt().await;
    let path = site.objects().join(format!(
        "owned/kedge.dev/EdgeHost/{NS}/edge-a/kedge-enrol.yaml"
    ));
    let backup = fs::read(&path).unwrap();
    site.boot().await;
    let second = certificate(&renew(&site, (&key, &first), 1, "r1").await.1);
    let third = certificate(&renew(&site, (&key, &second), 2, "r2").await.1);
    site.halt().await;
    fs::write(&path, backup).unwrap();
    site.boot().await;
    let answer = renew(&site, (&key, &third), 3, "r3").await;
    assert_eq!(
        (answer.0, &answer.1["generation"]),
        (StatusCode::OK, &4.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_identity_is_recovered_by_its_key_and_no_other_way() {
    let site = Site::start().await;
    let (key, first) = enrolled(&site).await;
    site.pass(Duration::from_secs(25 * 3600));
    let shut = Wire::open(&site, Some((&first, &key))).await;
    let shut = match shut {
        Ok(mut wire) => wire
            .try_send(Method::GET, &format!("{OWN}/config"), Vec::new())
            .await
            .is_err(),
        Err(_) => true,
    };
    assert!(shut, "an expired certificate fails the handshake");
    let recover =
        async |id: &str, signer: &KeyPair, kind: ProofKind, exporter: Option<[u8; 32]>| {
            let mut wire = Wire::open(&site, None).await.unwrap();
            let (csr, digest) = signing_request(&key);
            let message = proof_message(kind, &exporter.unwrap_or(wire.exporter), &digest);
            let request = RecoverRequest {
                csr,
                certificate: first.clone(),
                generation: 1,
                renewal_id: id.to_owned(),
                proof: Proof {
                    kind,
                    id: "edge-a".to_owned(),
                    signature: URL_SAFE_NO_PAD.encode(signer.sign(&message).unwrap()),
                },
            };
            wire.post(&format!("{OWN}/recover"), &request).await
        };
    let other = identity_key();
    for refused in [
        recover("r", &other, ProofKind::BoundKey, None).await,
        recover("r", &key, ProofKind::Token, None).await,
        recover("r", &key, ProofKind::BoundKey, Some([0; 32])).await,
    ] {
        assert_eq!(refused.0, StatusCode::UNAUTHORIZED, "{}", refused.1);
    }
    let good = recover("r1", &key, ProofKind::BoundKey, None).await;
    assert_eq!(
        (good.0, &good.1["generation"]),
        (StatusCode::OK, &2.into()),
        "{}",
        good.1
    );
    let lost = recover("r1", &key, ProofKind::BoundKey, None).await;
    assert_eq!(lost.0, StatusCode::OK, "a lost answer is repeated");
    let soon = recover("r2", &key, ProofKind::BoundKey, None).await;
    assert_eq!(soon.0, StatusCode::FORBIDDEN, "once an hour");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_host_is_refused_at_once_and_an_evicted_one_is_unknown() {
    let site = Site::start().await;
    let host = site.host("edge-a").await.enrolled().await;
    host.client
        .report(&host.report("10.20.14.11"))
        .await
        .unwrap();
    let known = eventually("the first state is there", async || {
        host.client
            .config::<HostConfig>(None, Duration::ZERO)
            .await
            .ok()
            .flatten()
    })
    .await;
    let waiting = host.client.clone();
    let poll = tokio::spawn(async move {
        let mut known = known.generation;
        loop {
            match waiting
                .config::<HostConfig>(Some(known), Duration::from_secs(30))
                .await
            {
                Ok(config) => known = config.map_or(known, |config| config.generation),
                Err(error) => return error,
            }
        }
    });
    let suspend = |access: &str| {
        let text = format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\nmetadata: {{name: edge-a, namespace: {NS}}}\nspec: {{access: {access}}}\n"
        );
        fs::write(site.objects().join("host.yaml"), text).unwrap();
    };
    suspend("Suspended");
    let error = tokio::time::timeout(Duration::from_secs(30), poll)
        .await
        .unwrap()
        .unwrap();
    assert!(error.to_string().contains("403"), "{error}");
    assert!(!error.voids_identity(), "the identity is kept");
    suspend("Active");
    eventually("back without enrolment", async || {
        host.client.report(&host.report("10.20.14.11")).await.ok()
    })
    .await;
    fs::remove_file(site.objects().join("host.yaml")).unwrap();
    let record = site.objects().join(format!(
        "owned/kedge.dev/EdgeHost/{NS}/edge-a/kedge-enrol.yaml"
    ));
    fs::remove_file(record).unwrap();
    let error = eventually("evicted", async || {
        host.client.report(&host.report("10.20.14.11")).await.err()
    })
    .await;
    assert!(error.voids_identity(), "{error}");
    let left = site
        .objects()
        .join(format!("owned/kedge.dev/EdgeHost/{NS}/edge-a"));
    eventually("nothing of it is left", async || {
        (!left.exists()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_evicted_before_anybody_planned_for_it_is_unknown() {
    let site = Site::start().await;
    // Whether a plan comes between the two is chance: it is tried until it surely did not.
    for number in 0..20 {
        let name = format!("short-{number}");
        let host = site.host(&name).await.enrolled().await;
        let record = format!("owned/kedge.dev/EdgeHost/{NS}/{name}/kedge-enrol.yaml");
        fs::remove_file(site.objects().join(record)).unwrap();
        let error = eventually(&format!("{name} is evicted"), async || {
            host.client.report(&host.report("10.20.14.11")).await.err()
        })
        .await;
        assert!(error.voids_identity(), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_is_forgotten_and_its_name_is_free() {
    let site = Site::start().await;
    let (key, first) = enrolled(&site).await;
    let mut wire = Wire::open(&site, Some((&first, &key))).await.unwrap();
    assert_eq!(
        wire.send(Method::DELETE, OWN, Vec::new()).await.0,
        StatusCode::ACCEPTED
    );
    let gone = wire
        .send(Method::GET, &format!("{OWN}/config"), Vec::new())
        .await;
    assert_eq!(
        (gone.0, &gone.1["code"]),
        (StatusCode::UNAUTHORIZED, &"KEDGE-API-0002".into())
    );
    let (_, _) = enrolled(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_for_root_alone_and_hold_no_tokens_secret() {
    let site = Site::start().await;
    let token = site.token(host_token(None)).await;
    let secrets = site.objects().join("owned/core/Secret");
    let mut open = vec![secrets];
    let mut seen = 0;
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            seen += 1;
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
            assert!(!fs::read_to_string(&path).unwrap().contains(token.secret()));
        }
    }
    assert_eq!(seen, 2, "the CA and the token");
}
