//! Records and certificates that others make, by their own definitions: external-dns and cert-manager are
//! played by the test.

use k8s_openapi::api::core::v1::Secret;
use kedge_tests_kube::{
    assets::module_folder,
    hub::Hub,
    manifests,
    objects::{Kind, at, condition, text},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use crate::site::{GATEWAY, Site, TCP, TENANT};

const RECORDS: Kind = Kind::new("externaldns.k8s.io", "v1alpha1", "DNSEndpoint");
const CERTIFICATE: Kind = Kind::new("cert-manager.io", "v1", "Certificate");
const HTTP: Kind = Kind::new("kedge.dev", "v1alpha1", "HTTPLoadBalancer");
const NAME: &str = "shop.example.com";

/// What somebody says in the status of an object of a kind.
async fn says(site: &Site, kind: Kind, name: &str, status: Value) {
    let all = kind.of(&site.client, &site.space);
    let patch = Patch::Merge(json!({ "status": status }));
    let how = PatchParams::default();
    all.patch_status(name, &how, &patch).await.unwrap();
}

/// `STATUS REASON: MESSAGE` of a condition.
fn said(object: &DynamicObject, kind: &str) -> String {
    let condition = condition(object, kind);
    let word = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    format!("{} {}: {}", word("status"), word("reason"), word("message"))
}

#[tokio::test]
async fn records_and_certificates_are_asked_for_by_their_own_definitions() {
    let Some(site) = Site::new().await else {
        return;
    };
    let (client, space) = (&site.client, &site.space);
    let gateway =
        json!({"spec": {"http": {}, "service": {"addresses": ["203.0.113.7", "2001:db8::7"]}}});
    site.merge(GATEWAY, "gw", gateway).await;
    let dns =
        json!({"domain": "lb.example.net", "provider": "DNSEndpoint", "allowedHostnames": [NAME]});
    let issuers = json!([{"name": "corporate", "kind": "Issuer"}]);
    let reference = json!({"name": "gw", "namespace": space});
    site.tenant(json!({"dns": dns, "issuers": issuers, "gatewayRef": reference}))
        .await;
    let _hub = Hub::enrol(&site.ours, &format!("{space}/gw"), "gw-0").await;
    let web = json!({"spec": {"exposure": "Routed", "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"hostSelector": {}}]}});
    site.create(TCP, "web", web).await;
    let shop = json!({"spec": {"hostnames": [NAME], "tls": [{"issuer": "corporate"}],
        "rules": [{"backends": [{"name": "web", "port": 8080}]}]}});
    site.create(HTTP, "shop", shop).await;
    let shows = async |kind: &str, wanted: &str| {
        site.until(&format!("{kind}: {wanted}"), async || {
            let object = site.get(HTTP, "shop").await.unwrap();
            said(&object, kind).starts_with(wanted)
        })
        .await;
    };
    // The kinds come later; other tests of this server never ask for them.
    shows("DNSReady", "False KindMissing").await;
    shows("CertificateReady", "False KindMissing").await;
    for (module, file) in [
        (
            "sigs.k8s.io/external-dns",
            "config/crd/standard/dnsendpoints.externaldns.k8s.io.yaml",
        ),
        (
            "github.com/cert-manager/cert-manager",
            "deploy/crds/cert-manager.io_certificates.yaml",
        ),
    ] {
        let folder = module_folder("neighbours", module).unwrap();
        let definitions = manifests::read(&folder.join(file));
        manifests::apply_definitions(client, &definitions).await;
    }
    shows("DNSReady", "Unknown Published").await;
    let records = format!("kedge-{space}");
    let object = site.get(RECORDS, &records).await.unwrap();
    let record = |name: &str, kind: &str, target: &str| json!({"dnsName": name, "recordType": kind, "recordTTL": 300, "targets": [target]});
    let zone = format!("*.{space}.lb.example.net");
    let wanted = json!([
        record(&zone, "A", "203.0.113.7"),
        record(&zone, "AAAA", "2001:db8::7"),
        record(NAME, "A", "203.0.113.7"),
        record(NAME, "AAAA", "2001:db8::7"),
    ]);
    assert_eq!(at(&object, "/spec/endpoints"), &wanted);
    assert_eq!(TENANT.owner_of(&object).as_deref(), Some(space.as_str()));
    let generation = object.metadata.generation.unwrap();
    says(
        &site,
        RECORDS,
        &records,
        json!({"observedGeneration": generation}),
    )
    .await;
    shows("DNSReady", "True Observed").await;

    // cert-manager is at it, and done.
    let name = "kedge-issued-shop-0";
    site.until("the certificate is asked for", async || {
        site.get(CERTIFICATE, name).await.is_some()
    })
    .await;
    let object = site.get(CERTIFICATE, name).await.unwrap();
    assert_eq!(at(&object, "/spec/dnsNames"), &json!([NAME]));
    assert_eq!(text(&object, "/spec/secretName"), name);
    let issuer = json!({"name": "corporate", "kind": "Issuer", "group": "cert-manager.io"});
    assert_eq!(at(&object, "/spec/issuerRef"), &issuer);
    assert_eq!(HTTP.owner_of(&object).as_deref(), Some("shop"));
    let waits = json!({"conditions": [{"type": "Issuing", "status": "True", "reason": "DoesNotExist",
        "message": "waits for the corporate CA"}]});
    says(&site, CERTIFICATE, name, waits).await;
    let pending = format!("False Issuing: Certificate {name}: waits for the corporate CA");
    shows("CertificateReady", &pending).await;
    let key = KeyPair::generate().unwrap();
    let certified = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    let certified = certified.self_signed(&key).unwrap();
    let secret = json!({"metadata": {"name": name}, "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": certified.pem(), "tls.key": key.serialize_pem()}});
    let secrets: Api<Secret> = Api::namespaced(client.clone(), space);
    let secret = serde_json::from_value(secret).unwrap();
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    shows("CertificateReady", "True Valid").await;

    // Nobody asks any more.
    site.delete(HTTP, "shop").await;
    site.gone(HTTP, "shop").await;
    site.until("the name has no record any more", async || {
        let object = site.get(RECORDS, &records).await;
        object.is_some_and(|object| {
            at(&object, "/spec/endpoints").as_array().map(Vec::len) == Some(2)
        })
    })
    .await;
    site.tenant(json!({"dns": {"provider": null}})).await;
    site.gone(RECORDS, &records).await;
    site.until("nor is a certificate asked for", async || {
        let asked = site.get(CERTIFICATE, name).await;
        asked.is_none_or(|asked| asked.metadata.deletion_timestamp.is_some())
    })
    .await;
}
