//! Another certificate authority, and a clock that is wrong: nobody is locked out by either.

use std::{fs, sync::atomic::Ordering, time::Duration};

use hyper::{Method, StatusCode};
use kedge_control::{agent::HostConfig, enrol::RenewRequest, identity::Role, local::TokenRequest};
use kedge_core::{Code, Coded as _};
use rcgen::KeyPair;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};

use crate::{
    site::{Host, Site, eventually, host_token, open},
    wire::{Wire, identity_key, signing_request},
};

const OWN: &str = "/kedge/v1/tenants/store-014/hosts/edge-a";
const HOUR: Duration = Duration::from_secs(3600);

async fn rotate(site: &Site, overlap: Duration) -> (u16, Value) {
    let request = json!({"overlapSeconds": overlap.as_secs()});
    let (status, answer) = site.ask(Method::POST, "/v1/fleet/authority", request).await;
    (status.as_u16(), answer)
}

fn bundle(site: &Site) -> String {
    site.manager.as_ref().unwrap().world.authority.bundle()
}

fn authorities(bundle: &str) -> usize {
    CertificateDer::pem_slice_iter(bundle.as_bytes()).count()
}

/// Whether the certificate was signed by the first authority of a bundle.
fn is_signed_by(certificate: &str, bundle: &str) -> bool {
    let (_, leaf) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).unwrap();
    let (_, root) = x509_parser::pem::parse_x509_pem(bundle.as_bytes()).unwrap();
    let root = root.parse_x509().unwrap();
    let leaf = leaf.parse_x509().unwrap();
    leaf.verify_signature(Some(root.public_key())).is_ok()
}

async fn enrolled(site: &Site) -> (KeyPair, String) {
    let token = site.token(host_token(None)).await;
    let key = identity_key();
    let mut wire = Wire::open(site, None).await.unwrap();
    let wish = wire.enrolment("edge-a", &key, &token);
    let answer = wire.post("/kedge/v1/enrol", &wish).await;
    assert_eq!(answer.0, StatusCode::CREATED, "{}", answer.1);
    (key, answer.1["certificate"].as_str().unwrap().to_owned())
}

async fn renewed(wire: &mut Wire, key: &KeyPair, generation: u64) -> Value {
    let request = RenewRequest {
        csr: signing_request(key).0,
        generation,
        renewal_id: format!("r{generation}"),
    };
    let answer = wire.post(&format!("{OWN}/certificate"), &request).await;
    assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
    answer.1
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_is_replaced_without_a_host_or_a_token_being_locked_out() {
    let mut site = Site::start().await;
    let old = bundle(&site);
    let (key, first) = enrolled(&site).await;
    let early = site
        .token(TokenRequest {
            max_uses: Some(2),
            ..host_token(None)
        })
        .await;
    let dry = json!({"dryRun": true});
    let (_, would) = site.ask(Method::POST, "/v1/fleet/authority", dry).await;
    assert!(would.get("to").is_none() && bundle(&site) == old, "{would}");

    let (status, done) = rotate(&site, HOUR).await;
    assert_eq!(status, 200, "{done}");
    assert_eq!(done["from"], json!(early.pin()));
    let both = bundle(&site);
    assert_eq!(authorities(&both), 2);
    assert!(
        both.ends_with(&old) && !both.starts_with(&old),
        "the new one is first"
    );
    let (status, refused) = rotate(&site, HOUR).await;
    assert_eq!(
        (status, &refused["code"]),
        (409, &json!("KEDGE-API-0005")),
        "one at a time"
    );

    // It is kept, not remembered.
    for is_restarted in [false, true] {
        if is_restarted {
            site.boot().await;
            assert_eq!(bundle(&site), both);
        }
        // Whoever knows only the last one reaches the manager, with a certificate of the last one.
        let mut wire = Wire::open_trusting(&site, Some((&first, &key)), &old)
            .await
            .unwrap();
        let config = wire
            .send(Method::GET, &format!("{OWN}/config"), Vec::new())
            .await;
        assert_eq!(config.0, StatusCode::OK, "{}", config.1);
        assert_eq!(
            config.1["caBundle"],
            json!(both),
            "and hears of the new one"
        );
        // So does whoever knows the new one alone.
        let (new, _) = both.split_at(both.len() - old.len());
        let wire = Wire::open_trusting(&site, Some((&first, &key)), new).await;
        assert!(wire.is_ok());
        // Tokens of before and of after pin different authorities: both are found.
        let name = if is_restarted { "edge-c" } else { "edge-b" };
        Host::new(&site, name, Role::Host, &early).enrolled().await;
    }
    let late = site.token(host_token(None)).await;
    assert_eq!(json!(late.pin()), done["to"]);
    assert_ne!(late.pin(), early.pin());

    // Renewal leads onto the new one.
    let mut wire = Wire::open_trusting(&site, Some((&first, &key)), &old)
        .await
        .unwrap();
    let second = renewed(&mut wire, &key, 1).await;
    assert_eq!(second["caBundle"], json!(both));
    let second = second["certificate"].as_str().unwrap().to_owned();
    assert!(is_signed_by(&second, &both) && !is_signed_by(&second, &old));
    assert!(is_signed_by(&first, &old));

    // The overlap is over: only the new one counts, for clients and for the manager.
    site.pass(HOUR + Duration::from_secs(1));
    let alone = bundle(&site);
    assert_eq!(authorities(&alone), 1);
    assert!(
        Wire::open_trusting(&site, None, &old).await.is_err(),
        "the last one leads nowhere"
    );
    let refused = async {
        let mut wire = Wire::open(&site, Some((&first, &key))).await.ok()?;
        let path = format!("{OWN}/config");
        wire.try_send(Method::GET, &path, Vec::new()).await.ok()
    };
    assert!(
        refused.await.is_none(),
        "what the last one signed is void, though its date is not"
    );
    let mut wire = Wire::open_trusting(&site, Some((&second, &key)), &alone)
        .await
        .unwrap();
    eventually("hosts are told to forget it", async || {
        let config = wire
            .send(Method::GET, &format!("{OWN}/config"), Vec::new())
            .await;
        (config.1["caBundle"] == json!(alone)).then_some(())
    })
    .await;
    let third = renewed(&mut wire, &key, 2).await;
    assert_eq!(third["caBundle"], json!(alone));
    // A token that pins the last one finds no manager.
    let stale = Host::new(&site, "edge-d", Role::Host, &early);
    let error = stale.client.ensure().await.unwrap_err();
    assert_eq!(error.problem().code, Code::EnrolPinMismatch);
    assert_eq!(rotate(&site, HOUR).await.0, 200, "and the next may come");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_client_follows_an_authority_to_the_next() {
    let site = Site::start().await;
    let host = site.host("edge-a").await.enrolled().await;
    let old = bundle(&site);
    rotate(&site, HOUR).await;
    // The planner marks what changed for the host; until then it has the last word.
    let told: HostConfig = eventually("it is told of both", async || {
        let told: HostConfig = host.client.config(None, Duration::ZERO).await.unwrap()?;
        (authorities(&told.ca_bundle) == 2).then_some(told)
    })
    .await;
    host.client.adopt_ca(&told.ca_bundle);
    // A process of its own knows both from its disk, and needs no more than that after the overlap:
    // a certificate of the new one, and the new one's word.
    let again = open(
        host.dir.path(),
        site.port(),
        "edge-a",
        Role::Host,
        &host.tunnel_key,
    );
    again.report(&host.report("10.20.14.11")).await.unwrap();
    assert!(told.ca_bundle.ends_with(&old));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_grows_old_is_replaced_in_time() {
    let mut site = Site::start().await;
    let old = bundle(&site);
    site.halt().await;
    // It lives ten years.
    site.pass(Duration::from_secs(3300 * 86_400));
    site.boot().await;
    eventually("the next is in force beside it", async || {
        let now = bundle(&site);
        (authorities(&now) == 2 && now.ends_with(&old)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_whose_clock_fell_back_accepts_and_issues_by_the_newest_certificate() {
    let mut site = Site::start().await;
    // Enrolled three days after the authority was made.
    site.pass(Duration::from_secs(3 * 86_400));
    let (key, first) = enrolled(&site).await;
    let (from, _) = dates(&first);
    site.halt().await;
    // What says nothing of the time hides no other's word.
    fs::write(site.objects().join("odd.yaml"), ODD).unwrap();
    // No battery: 1970, more or less.
    site.behind.store(50 * 365 * 86_400, Ordering::SeqCst);
    site.boot().await;
    let mut wire = Wire::open(&site, Some((&first, &key))).await.unwrap();
    let second = renewed(&mut wire, &key, 1).await;
    let (renewed_from, until) = dates(second["certificate"].as_str().unwrap());
    assert!(renewed_from >= from, "{renewed_from} {from}");
    assert!(until - renewed_from >= 86_400, "it holds for a day");
    // And what is issued by that time is accepted by it.
    let second = second["certificate"].as_str().unwrap();
    let mut wire = Wire::open(&site, Some((second, &key))).await.unwrap();
    let config = wire
        .send(Method::GET, &format!("{OWN}/config"), Vec::new())
        .await;
    assert_eq!(config.0, StatusCode::OK, "{}", config.1);
    // Nor does a token live longer because the clock went back.
    let token = site.token(host_token(None)).await;
    let list = site.get("/v1/tokens").await;
    let expires = list["items"].as_array().unwrap().iter();
    let expires = expires
        .filter(|one| one["id"] == token.id())
        .map(|one| one["expires"].clone());
    let expires: Vec<Value> = expires.collect();
    assert!(expires[0].as_str().unwrap() > "2026", "{expires:?}");
}

/// The first and last second of a certificate.
fn dates(certificate: &str) -> (i64, i64) {
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).unwrap();
    let parsed = pem.parse_x509().unwrap();
    let validity = parsed.validity();
    (
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    )
}

/// A record that somebody wrote by hand.
const ODD: &str = "
apiVersion: kedge.dev/v1alpha1
kind: EdgeHost
metadata: {name: odd, namespace: store-014}
spec:
  tenant: store-014
  identity:
    uid: 5b1d0000-0c3e-4b44-9d53-000000000000
    publicKey: |
      -----BEGIN PUBLIC KEY-----
      MCowBQYDK2VwAyEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
      -----END PUBLIC KEY-----
    serial: '00000000000000010000000000000000'
    generation: 1
    issued: unknown
";
