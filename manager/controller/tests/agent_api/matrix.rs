//! Who may do what: every kind of caller on every way into the agent API, as the router itself
//! tells them. What passes stands in `matrix.golden`; everything else is refused.

use std::{collections::BTreeMap, fmt::Write as _, fs, net::Ipv4Addr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hyper::{Method, StatusCode};
use kedge_control::{
    enrol::{ProofKind, proof_message},
    identity::Role,
    local::TokenRequest,
    token::Token,
};
use kedge_manager_controller::api::paths;
use rcgen::{
    CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, PublicKeyData as _, SanType,
    SerialNumber, SigningKey as _,
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};
use tokio::time::timeout;

use crate::{
    site::{Site, eventually, host_token, wireguard_key},
    wire::{Wire, identity_key, signing_request},
};

/// The tenant of most callers, and its namespace.
const TENANT: &str = "site-a";
const SPACE: &str = "tenant-site-a";

/// How long an answer may take on a busy machine.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// The host that may speak for its cluster.
const SPEAKER: &str = "host-b";

struct Caller {
    name: &'static str,
    identity: Option<(String, KeyPair)>,
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_the_allow_list_passes() {
    let site = Site::start().await;
    for name in [TENANT, "other"] {
        let tenant = format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\nspec: {{}}\n"
        );
        fs::write(site.objects().join(format!("tenant-{name}.yaml")), tenant).unwrap();
    }
    let tenant = |name: &str| TokenRequest {
        tenant: Some(name.to_owned()),
        ..host_token(None)
    };
    let gateway = TokenRequest {
        role: Role::Gateway,
        tenant: None,
        gateway: Some("gw".to_owned()),
        ..host_token(None)
    };
    let mut enrolled = BTreeMap::new();
    for (name, token) in [
        ("host-a", tenant(TENANT)),
        ("host-b", tenant(TENANT)),
        ("suspended", tenant(TENANT)),
        ("banned", tenant(TENANT)),
        ("evicted", tenant(TENANT)),
        ("stranger", tenant("other")),
        ("gw-0", gateway),
    ] {
        enrolled.insert(name, enrol(&site, token, name).await);
    }
    let speaker = format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\nmetadata: {{name: {SPEAKER}, namespace: {SPACE}}}\nspec: {{exposures: true}}\n"
    );
    fs::write(site.objects().join("speaker.yaml"), speaker).unwrap();
    for (name, access) in [("suspended", "Suspended"), ("banned", "Banned")] {
        let text = format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\nmetadata: {{name: {name}, namespace: {SPACE}}}\nspec: {{access: {access}}}\n"
        );
        fs::write(site.objects().join(format!("{name}.yaml")), text).unwrap();
    }
    let record = site.objects().join(format!(
        "owned/kedge.dev/EdgeHost/{SPACE}/evicted/kedge-enrol.yaml"
    ));
    fs::remove_file(record).unwrap();

    let uid = uid_of(&enrolled["host-a"].0);
    let forged = forged(&site, &uid);
    let mut callers: Vec<Caller> = vec![Caller {
        name: "nobody",
        identity: None,
    }];
    callers.extend(enrolled.into_iter().map(|(name, identity)| Caller {
        name,
        identity: Some(identity),
    }));
    callers.extend(forged.into_iter().map(|(name, identity)| Caller {
        name,
        identity: Some(identity),
    }));
    let of = |name: &str| callers.iter().find(|caller| caller.name == name).unwrap();
    for (name, status) in [("suspended", 403), ("banned", 403), ("evicted", 401)] {
        eventually(&format!("{name} is told {status}"), async || {
            let path = format!("/kedge/v1/tenants/{TENANT}/hosts/{name}/config");
            let said = ask(&site, of(name), Method::GET, &path, Ipv4Addr::LOCALHOST).await;
            (said == status.to_string()).then_some(())
        })
        .await;
    }
    eventually("the speaker is known", async || {
        let path = format!("/kedge/v1/tenants/{TENANT}/exposures");
        let said = ask(&site, of(SPEAKER), Method::GET, &path, Ipv4Addr::LOCALHOST).await;
        (said == "200").then_some(())
    })
    .await;

    let host = |tenant: &'static str, name: &'static str| (tenant, name);
    let hosts = [
        host(TENANT, "host-a"),
        host(TENANT, "suspended"),
        host(TENANT, "evicted"),
        host(TENANT, "nowhere"),
        host("other", "stranger"),
        host("other", "host-a"),
    ];
    let requests = requests(&hosts);
    let mut table = String::new();
    let mut passed = Vec::new();
    let mut number = 0_u16;
    for caller in &callers {
        for (method, path) in &requests {
            // What would change an identity is asked on everybody's path but its own.
            let is_own = path.contains(&format!("/{}", caller.name));
            let changes = method == Method::DELETE
                || ["/certificate", "/recover"]
                    .iter()
                    .any(|end| path.ends_with(end));
            if is_own && changes {
                continue;
            }
            // Each from an address of its own: whoever guesses often has to wait.
            number += 1;
            let [high, low] = number.to_be_bytes();
            let source = Ipv4Addr::new(127, 1, high, low);
            let said = ask(&site, caller, method.clone(), path, source).await;
            writeln!(table, "{:<14} {method:<6} {path:<66} {said}", caller.name).unwrap();
            if said.starts_with('2') {
                passed.push((caller.name, method.to_string(), path.clone()));
            }
        }
    }
    // What a caller may is its own, whatever the file says.
    let exposures = format!("/kedge/v1/tenants/{TENANT}/exposures");
    for (name, method, path) in &passed {
        let speaks = *name == SPEAKER && path.starts_with(&exposures);
        assert!(
            speaks || path.contains(&format!("/{name}")),
            "{name} passed on {method} {path}"
        );
    }
    assert!(
        passed.iter().any(|(name, ..)| *name == SPEAKER),
        "the speaker is heard"
    );
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent_api/matrix.golden");
    if std::env::var_os("KEDGE_UPDATE_GOLDEN").is_some() {
        fs::write(golden, &table).unwrap();
    }
    assert_eq!(table, fs::read_to_string(golden).unwrap_or_default());
    // Nobody's record was touched.
    let hosts = site.get("/v1/fleet/hosts").await;
    let names: Vec<&str> = hosts["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| host["name"].as_str().unwrap())
        .collect();
    assert!(
        ["banned", "host-a", "host-b", "suspended", "stranger"]
            .iter()
            .all(|name| names.contains(name)),
        "{names:?}"
    );
}

async fn enrol(site: &Site, token: TokenRequest, name: &str) -> (String, KeyPair) {
    let token = eventually("its tenant is read", async || {
        let body = serde_json::to_value(token.clone()).unwrap();
        let (status, answer) = site.ask(Method::POST, "/v1/tokens", body).await;
        (status == StatusCode::CREATED).then(|| answer["token"].as_str().unwrap().parse().unwrap())
    })
    .await;
    let key = identity_key();
    let mut wire = Wire::open(site, None).await.unwrap();
    let answer = wire
        .post("/kedge/v1/enrol", &wire.enrolment(name, &key, &token))
        .await;
    assert_eq!(answer.0, StatusCode::CREATED, "{}", answer.1);
    (answer.1["certificate"].as_str().unwrap().to_owned(), key)
}

/// Every way there is into the agent API, on these hosts, and some that are none.
fn requests(hosts: &[(&str, &str)]) -> Vec<(Method, String)> {
    let mut all: Vec<(Method, String)> = Vec::new();
    for (method, path) in paths() {
        let of_hosts = path.contains("/hosts/{name}");
        let scopes: Vec<(&str, &str)> = if of_hosts {
            hosts.to_vec()
        } else if path.contains("/gateways/") {
            vec![("kedge-system.gw", "gw-0"), ("kedge-system.gw", "gw-9")]
        } else {
            vec![(TENANT, "web"), ("other", "web")]
        };
        for (scope, name) in scopes {
            let path = path.replace("{scope}", scope).replace("{name}", name);
            let path = path.replace("{kind}", "TCPLoadBalancer");
            assert!(!path.contains('{'), "what stands for {path}?");
            let is_fenced = method == Method::DELETE && path.contains("/exposures/");
            let path = path + if is_fenced { "?epoch=1" } else { "" };
            if !all.contains(&(method.clone(), path.clone())) {
                all.push((method.clone(), path));
            }
        }
    }
    all.extend([
        (Method::GET, "/kedge/v1/tenants".to_owned()),
        (
            Method::PUT,
            format!("/kedge/v1/tenants/{TENANT}/hosts/host-a"),
        ),
        (
            Method::GET,
            format!("/kedge/v1/tenants/{TENANT}/hosts/host-a"),
        ),
        (
            Method::GET,
            "/kedge/v1/gateways/kedge-system.gw/instances".to_owned(),
        ),
    ]);
    all
}

/// The status, or why there was none. One that does not come is told by what was asked.
async fn ask(site: &Site, caller: &Caller, method: Method, path: &str, source: Ipv4Addr) -> String {
    let what = format!("{} asks {method} {path}", caller.name);
    let answer = timeout(LIMIT, answer(site, caller, method, path, source));
    answer
        .await
        .unwrap_or_else(|_| panic!("{what}, and there is no answer"))
}

async fn answer(
    site: &Site,
    caller: &Caller,
    method: Method,
    path: &str,
    source: Ipv4Addr,
) -> String {
    let identity = caller
        .identity
        .as_ref()
        .map(|(certificate, key)| (certificate.as_str(), key));
    let Ok(mut wire) = Wire::open_from(site, identity, source).await else {
        return "no connection".to_owned();
    };
    let body = body(&wire, caller, &method, path);
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    match wire.try_send(method, path, body.into_bytes()).await {
        Ok((status, _)) => status.as_u16().to_string(),
        Err(_) => "no connection".to_owned(),
    }
}

/// A body that makes sense on the path: what refuses it is not its shape.
fn body(wire: &Wire, caller: &Caller, method: &Method, path: &str) -> Option<Value> {
    let nobodys = identity_key();
    let (certificate, key) = caller
        .identity
        .as_ref()
        .map_or(("", &nobodys), |(certificate, key)| {
            (certificate.as_str(), key)
        });
    let end = path.rsplit('/').next().unwrap_or_default();
    let spec = json!({"source": {"kind": "Service", "namespace": "default", "name": "web"},
        "ports": [{"name": "http", "port": 80}],
        "endpoints": [{"addresses": [], "ports": [{"name": "http", "port": 30080}]}]});
    Some(match (method, end) {
        (&Method::POST, "enrol" | "hosts" | "instances") => {
            // Of a token that nobody made.
            let pin = "A".repeat(43);
            let token = Token::new("aaaaaaaaaa", &"B".repeat(43), &pin).ok();
            let token = token.or_else(|| Token::new("aaaaaaaaaa", &"A".repeat(43), &pin).ok())?;
            let wish = wire.enrolment("newcomer", key, &token);
            serde_json::to_value(wish).unwrap()
        }
        (&Method::POST, "certificate") => {
            json!({"csr": signing_request(key).0, "generation": 1, "renewalID": "r"})
        }
        (&Method::POST, "recover") => {
            let (csr, digest) = signing_request(key);
            let message = proof_message(ProofKind::BoundKey, &wire.exporter, &digest);
            let signature = URL_SAFE_NO_PAD.encode(key.sign(&message).unwrap());
            json!({"csr": csr, "certificate": certificate, "generation": 1, "renewalID": "r",
                "proof": {"kind": "BoundKey", "id": caller.name, "signature": signature}})
        }
        (&Method::POST, "epoch") => json!({"epoch": 0}),
        (&Method::PUT, "exposures") => json!({"epoch": 1, "kinds": [], "items": []}),
        (&Method::PUT, "web") => json!({"epoch": 1, "spec": spec}),
        (&Method::PATCH, _) => json!({"bootID": "b", "machineID": "m", "version": "v",
            "appliedGeneration": 0, "publicKey": wireguard_key(caller.name), "listenPort": 1}),
        _ => return None,
    })
}

/// Certificates that were not issued as we issue them, for the identity of host a.
fn forged(site: &Site, uid: &str) -> Vec<(&'static str, (String, KeyPair))> {
    let secret = site
        .objects()
        .join("owned/core/Secret/kedge-system/kedge-manager-ca/kedge-ca.yaml");
    let secret: Value = serde_saphyr::from_str(&fs::read_to_string(secret).unwrap()).unwrap();
    let text = |name: &str| secret["stringData"][name].as_str().unwrap().to_owned();
    let ours = Issuer::from_ca_cert_pem(
        &text("tls.crt"),
        KeyPair::from_pem(&text("tls.key")).unwrap(),
    )
    .unwrap();
    let theirs_key = KeyPair::generate().unwrap();
    let mut theirs = CertificateParams::default();
    theirs.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    let theirs = Issuer::new(theirs, theirs_key);
    let uri = |text: String| vec![SanType::URI(text.try_into().unwrap())];
    let good = uri(format!("spiffe://kedge.local/ns/{SPACE}/edgehost/{uid}"));
    let client = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let now = OffsetDateTime::now_utc();
    let make = |names: Vec<SanType>,
                usages: Vec<ExtendedKeyUsagePurpose>,
                ends: OffsetDateTime,
                issuer: &Issuer<'_, KeyPair>| {
        let key = identity_key();
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        params.extended_key_usages = usages;
        params.not_before = now - Duration::days(2);
        params.not_after = ends;
        params.is_ca = rcgen::IsCa::ExplicitNoCa;
        params.serial_number = Some(SerialNumber::from_slice(
            &((1_u128 << 64) | 7).to_be_bytes(),
        ));
        assert_eq!(key.der_bytes().len(), 32);
        (params.signed_by(&key, issuer).unwrap().pem(), key)
    };
    let day = now + Duration::days(1);
    let mut both = good.clone();
    both.push(SanType::DnsName("edge-a".try_into().unwrap()));
    let any = vec![
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    ];
    vec![
        ("other-key", make(good.clone(), client.clone(), day, &ours)),
        (
            "other-issuer",
            make(good.clone(), client.clone(), day, &theirs),
        ),
        (
            "expired",
            make(good.clone(), client.clone(), now - Duration::days(1), &ours),
        ),
        (
            "server-usage",
            make(
                good.clone(),
                vec![ExtendedKeyUsagePurpose::ServerAuth],
                day,
                &ours,
            ),
        ),
        ("both-usages", make(good.clone(), any, day, &ours)),
        ("two-names", make(both, client.clone(), day, &ours)),
        ("no-name", make(Vec::new(), client.clone(), day, &ours)),
        (
            "other-domain",
            make(
                uri(format!("spiffe://evil.local/ns/{SPACE}/edgehost/{uid}")),
                client.clone(),
                day,
                &ours,
            ),
        ),
        (
            "other-space",
            make(
                uri(format!(
                    "spiffe://kedge.local/ns/tenant-other/edgehost/{uid}"
                )),
                client.clone(),
                day,
                &ours,
            ),
        ),
        (
            "longer-path",
            make(
                uri(format!("spiffe://kedge.local/ns/{SPACE}/edgehost/{uid}/x")),
                client,
                day,
                &ours,
            ),
        ),
    ]
}

fn uid_of(certificate: &str) -> String {
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).unwrap();
    let parsed = pem.parse_x509().unwrap();
    let names = parsed.subject_alternative_name().unwrap().unwrap();
    let name = names.value.general_names[0].to_string();
    name.trim_end_matches(')')
        .rsplit('/')
        .next()
        .unwrap()
        .to_owned()
}
