//! What a tenant's cluster offers: told by the hosts that may, fenced, and never lost by accident.

use std::{fs, time::Duration};

use hyper::{Method, StatusCode};
use kedge_manager_controller::store::{Name, ObjectKey};
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::{
    site::{NS, Site, eventually, host_token},
    wire::{Wire, identity_key},
};

pub const PATH: &str = "/kedge/v1/tenants/store-014/exposures";

pub struct Host {
    certificate: String,
    key: KeyPair,
}

impl Host {
    pub async fn enrol(site: &Site, name: &str) -> Self {
        let (token, key) = (site.token(host_token(None)).await, identity_key());
        let mut wire = Wire::open(site, None).await.unwrap();
        let answer = wire
            .post("/kedge/v1/enrol", &wire.enrolment(name, &key, &token))
            .await;
        let certificate = answer.1["certificate"].as_str().unwrap().to_owned();
        Self { certificate, key }
    }

    pub async fn ask(&self, site: &Site, method: Method, path: &str, body: Value) -> (u16, Value) {
        let identity = (self.certificate.as_str(), &self.key);
        let mut wire = Wire::open(site, Some(identity)).await.unwrap();
        let answer = wire.send(method, path, body.to_string().into_bytes()).await;
        (answer.0.as_u16(), answer.1)
    }

    pub async fn takes_over(&self, site: &Site, seen: u64) -> u64 {
        let path = format!("{PATH}/epoch");
        let answer = self
            .ask(site, Method::POST, &path, json!({"epoch": seen}))
            .await;
        assert_eq!(answer.0, 200, "{}", answer.1);
        answer.1["epoch"].as_u64().unwrap()
    }

    async fn names(&self, site: &Site) -> Vec<String> {
        let (status, list) = self.ask(site, Method::GET, PATH, Value::Null).await;
        assert_eq!(status, 200, "{list}");
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn tcp(name: &str, port: u16) -> Value {
    json!({"kind": "TCPLoadBalancer", "name": name, "spec": {
        "source": {"kind": "Service", "namespace": "default", "name": name},
        "ports": [{"name": "http", "port": port}],
        "endpoints": [{"hostSelector": {"matchLabels": {}}, "ports": [{"name": "http", "port": 30080}]}]}})
}

fn set(epoch: u64, names: &[&str]) -> Value {
    let items: Vec<Value> = names.iter().map(|name| tcp(name, 80)).collect();
    json!({"epoch": epoch, "kinds": ["TCPLoadBalancer"], "items": items})
}

pub fn may_speak(site: &Site, name: &str) {
    let text = format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\nmetadata: {{name: {name}, namespace: {NS}}}\nspec: {{exposures: true}}\n"
    );
    fs::write(site.objects().join(format!("{name}.yaml")), text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn exposures_are_written_for_those_who_may_speak_and_fenced() {
    let site = Site::start().await;
    let (a, b, mute) = (
        Host::enrol(&site, "speaker-a").await,
        Host::enrol(&site, "speaker-b").await,
        Host::enrol(&site, "mute").await,
    );
    for name in ["speaker-a", "speaker-b"] {
        may_speak(&site, name);
    }
    for host in [&a, &b] {
        eventually("it may speak", async || {
            (host.ask(&site, Method::GET, PATH, Value::Null).await.0 == 200).then_some(())
        })
        .await;
    }
    for (method, path) in [
        (Method::GET, PATH),
        (Method::GET, "/kedge/v1/tenants/other/exposures"),
    ] {
        assert_eq!(
            mute.ask(&site, method, path, Value::Null).await.0,
            403,
            "{path}"
        );
    }
    let refused = a.ask(&site, Method::PUT, PATH, set(0, &["web"])).await;
    assert_eq!(refused.0, 409, "without an epoch nobody speaks");

    let first = a.takes_over(&site, 0).await;
    let answer = a
        .ask(&site, Method::PUT, PATH, set(first, &["web", "db", "mail"]))
        .await;
    assert_eq!(
        (answer.0, &answer.1["written"]),
        (200, &json!(3)),
        "{}",
        answer.1
    );
    assert_eq!(a.names(&site).await, ["db", "mail", "web"]);
    let (_, list) = a.ask(&site, Method::GET, PATH, Value::Null).await;
    assert_eq!(
        list["addresses"],
        json!(["203.0.113.7"]),
        "where its gateway is"
    );
    let again = a
        .ask(&site, Method::PUT, PATH, set(first, &["web", "db", "mail"]))
        .await;
    assert_eq!(again.1["written"], 0, "what stands is not written again");
    // What is withdrawn is asked for again at once, while what was chosen for it is still there.
    for _ in 0..20 {
        let path = format!("{PATH}/TCPLoadBalancer/web?epoch={first}");
        let gone = a.ask(&site, Method::DELETE, &path, Value::Null).await;
        assert_eq!(gone.0, 200, "{}", gone.1);
        let back = set(first, &["web", "db", "mail"]);
        let back = a.ask(&site, Method::PUT, PATH, back).await;
        assert_eq!((back.0, &back.1["written"]), (200, &json!(1)), "{}", back.1);
    }
    let file = format!("owned/kedge.dev/TCPLoadBalancer/{NS}/web/kedge-exposures.yaml");
    assert!(site.objects().join(file).exists());

    // Another takes over: of two that saw the same epoch one does, and the first one's word is void.
    let second = b.takes_over(&site, first).await;
    let late = a
        .ask(
            &site,
            Method::POST,
            &format!("{PATH}/epoch"),
            json!({"epoch": first}),
        )
        .await;
    assert_eq!(late.0, 409);
    let frozen = a.ask(&site, Method::PUT, PATH, set(first, &[])).await;
    assert_eq!(
        (frozen.0, frozen.1["code"].as_str()),
        (409, Some("KEDGE-API-0005"))
    );

    // What is missing goes, but not more than half of it at once, and not of kinds unseen.
    let unseen = json!({"epoch": second, "kinds": [], "items": []});
    assert_eq!(
        b.ask(&site, Method::PUT, PATH, unseen).await.1["removed"],
        0
    );
    let most = b.ask(&site, Method::PUT, PATH, set(second, &["web"])).await;
    assert_eq!((most.0, &most.1["removed"]), (200, &json!(0)));
    assert_eq!(
        most.1["held"],
        json!(["TCPLoadBalancer/db", "TCPLoadBalancer/mail"])
    );
    assert_eq!(b.names(&site).await.len(), 3);
    let mut sure = set(second, &["web"]);
    sure["confirm"] = json!(true);
    assert_eq!(b.ask(&site, Method::PUT, PATH, sure).await.1["removed"], 2);
    assert_eq!(b.names(&site).await, ["web"]);

    // One at a time, and what must not be.
    let one = |name: &str| format!("{PATH}/TCPLoadBalancer/{name}");
    let spec = |port: u16| json!({"epoch": second, "spec": tcp("x", port)["spec"]});
    assert_eq!(b.ask(&site, Method::PUT, &one("x"), spec(81)).await.0, 200);
    let mut bad = spec(82);
    bad["spec"]["ports"][0]["listenerPort"] = json!(4000);
    assert_eq!(b.ask(&site, Method::PUT, &one("y"), bad).await.0, 422);
    let mut bad = spec(82);
    bad["spec"]["ports"] = json!([{"name": "a", "port": 1}, {"name": "a", "port": 2}]);
    assert_eq!(b.ask(&site, Method::PUT, &one("y"), bad).await.0, 422);
    let users = "apiVersion: kedge.dev/v1alpha1\nkind: TCPLoadBalancer\nmetadata: {name: theirs, \
                 namespace: store-014}\nspec: {ports: [{name: a, port: 1}]}\n";
    fs::write(site.objects().join("theirs.yaml"), users).unwrap();
    let theirs = ObjectKey::new("kedge.dev", "TCPLoadBalancer", Name::new(NS, "theirs"));
    let store = &site.manager.as_ref().unwrap().world.store;
    eventually("a user's object is read", async || {
        store.objects().get(&theirs).map(drop)
    })
    .await;
    let refused = b.ask(&site, Method::PUT, &one("theirs"), spec(83)).await;
    assert_eq!(refused.0, 409, "a user's object is not taken");
    let gone = format!("{}?epoch={second}", one("x"));
    assert_eq!(
        b.ask(&site, Method::DELETE, &gone, Value::Null).await.1["removed"],
        1
    );
    assert_eq!(b.names(&site).await, ["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_living_host_is_refused() {
    let mut site = Site::start().await;
    let host = Host::enrol(&site, "edge-a").await;
    let path = |machine: &str, wait: u32| {
        format!("/kedge/v1/tenants/{NS}/hosts/edge-a/config?wait={wait}&boot=b1&machine={machine}")
    };
    // The original asks again whenever it is answered.
    let identity = (
        host.certificate.clone(),
        KeyPair::from_pem(&host.key.serialize_pem()).unwrap(),
    );
    let mut wire = Wire::open(&site, Some((&identity.0, &identity.1)))
        .await
        .unwrap();
    let asked = path("m1", 0);
    assert_eq!(
        wire.send(Method::GET, &asked, Vec::new()).await.0,
        StatusCode::OK
    );
    let asked = path("m1", 1);
    let original = tokio::spawn(async move {
        loop {
            let answer = wire.send(Method::GET, &asked, Vec::new()).await;
            assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
        }
    });
    let copy = host
        .ask(&site, Method::GET, &path("m2", 0), Value::Null)
        .await;
    assert_eq!(
        (copy.0, copy.1["code"].as_str()),
        (409, Some("KEDGE-API-0005"))
    );
    eventually("the condition says so", async || {
        let hosts = site.get("/v1/fleet/hosts").await;
        let text = hosts["items"][0]["conditions"].to_string();
        text.contains("IdentityConflict").then_some(())
    })
    .await;
    // The original dies: whoever asks then has the identity.
    original.abort();
    let heir = host
        .ask(&site, Method::GET, &path("m2", 0), Value::Null)
        .await;
    assert_eq!(heir.0, 200, "{}", heir.1);
    // Who did not see it does not forget it: another manager, or the same after a restart.
    let told = async |site: &Site| {
        let hosts = site.get("/v1/fleet/hosts").await;
        let all = hosts["items"][0]["conditions"].as_array().unwrap().clone();
        let unique = all.into_iter().find(|one| one["type"] == "IdentityUnique");
        unique.unwrap()["status"].clone()
    };
    site.boot().await;
    assert_eq!(told(&site).await, "False");
    // For a certificate's life; what it is then is told without anything else happening.
    site.pass(Duration::from_secs(86_400));
    eventually("it is calm again", async || {
        (told(&site).await == "True").then_some(())
    })
    .await;
}
