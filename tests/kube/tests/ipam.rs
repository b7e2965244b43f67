//! Facts about a real IPAM provider that the manager is built on.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::time::Duration;

use kedge_tests_kube::{
    edgetest, eventually, foreign,
    objects::{at, condition, label, text},
    stack::Stack,
    stays,
};
use kube::{
    Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_claim_is_served_with_an_address_and_no_condition_says_so() {
    let Some(pool) = Pool::of("192.0.2.10-192.0.2.12").await else {
        return;
    };
    pool.claim("vip").await;
    let address = pool.served("vip").await;
    assert_eq!(text(&address, "/spec/address"), "192.0.2.10");
    assert_eq!(at(&address, "/spec/prefix"), &json!(24));
    assert_eq!(text(&address, "/spec/gateway"), "192.0.2.1");
    assert_eq!(text(&address, "/spec/claimRef/name"), "vip");
    assert_eq!(label(&address, foreign::CLUSTER_NAME), "edge");
    // Waiting for Ready would be waiting for ever.
    let claim = pool.get_claim("vip").await;
    assert_eq!(condition(&claim, "Ready"), &Value::Null);
    // Clients of both versions see the same address.
    let old = foreign::CLAIM_V1BETA1.of(&pool.client, &pool.space);
    let old = old.get("vip").await.unwrap();
    assert_eq!(
        text(&old, "/status/addressRef/name"),
        text(&claim, "/status/addressRef/name")
    );
}

#[tokio::test]
async fn a_claim_on_an_empty_pool_says_nothing_and_is_served_when_an_address_is_freed() {
    let Some(pool) = Pool::of("192.0.2.20").await else {
        return;
    };
    pool.claim("first").await;
    pool.served("first").await;
    pool.claim("starved").await;
    pool.counts_none_free().await;
    stays(
        "the starved claim says nothing",
        Duration::from_secs(3),
        async || at(&pool.get_claim("starved").await, "/status").is_null(),
    )
    .await;
    pool.delete_claim("first").await;
    let address = pool.served("starved").await;
    assert_eq!(text(&address, "/spec/address"), "192.0.2.20");
}

#[tokio::test]
async fn a_finalizer_on_the_address_holds_it_back_from_others() {
    let Some(pool) = Pool::of("192.0.2.30-192.0.2.31").await else {
        return;
    };
    pool.claim("first").await;
    let address = pool.served("first").await;
    let name = address.metadata.name.unwrap();
    pool.merge_address(&name, finalizers(&address.metadata.finalizers, true))
        .await;
    // The provider takes its own finalizer off by writing the whole list as it last saw it. It has seen ours once it
    // counts an address that is younger.
    pool.claim("witness").await;
    pool.served("witness").await;
    pool.counts_none_free().await;
    pool.delete_claim("first").await;
    pool.claim("second").await;
    stays(
        "the address is not given away",
        Duration::from_secs(5),
        async || text(&pool.get_claim("second").await, "/status/addressRef/name").is_empty(),
    )
    .await;
    let held = foreign::ADDRESS.of(&pool.client, &pool.space);
    let held = held.get(&name).await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    pool.merge_address(&name, finalizers(&held.metadata.finalizers, false))
        .await;
    let address = pool.served("second").await;
    assert_eq!(text(&address, "/spec/address"), "192.0.2.30");
}

#[tokio::test]
async fn a_finalizer_on_the_claim_holds_nothing() {
    let Some(pool) = Pool::of("192.0.2.40").await else {
        return;
    };
    pool.claim("first").await;
    pool.served("first").await;
    let claims = foreign::CLAIM.of(&pool.client, &pool.space);
    let claim = pool.get_claim("first").await;
    let patch = Patch::Merge(finalizers(&claim.metadata.finalizers, true));
    claims
        .patch("first", &PatchParams::default(), &patch)
        .await
        .unwrap();
    pool.delete_claim("first").await;
    pool.claim("second").await;
    let address = pool.served("second").await;
    assert_eq!(text(&address, "/spec/address"), "192.0.2.40");
    // It still stands there, and still names an address that is another's.
    let claim = pool.get_claim("first").await;
    assert!(claim.metadata.deletion_timestamp.is_some());
    let patch = Patch::Merge(finalizers(&claim.metadata.finalizers, false));
    claims
        .patch("first", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// A pool of a test, in a namespace of its own.
struct Pool {
    client: Client,
    space: String,
    _stack: std::sync::Arc<Stack>,
}

impl Pool {
    async fn of(addresses: &str) -> Option<Self> {
        let stack = Stack::shared().await?;
        let (client, space) = stack.space().await;
        let spec = json!({"spec": {
            "addresses": [addresses], "prefix": 24, "gateway": "192.0.2.1",
        }});
        let pools = foreign::POOL.of(&client, &space);
        let pool = foreign::POOL.object("vips", spec);
        pools.create(&PostParams::default(), &pool).await.unwrap();
        // The provider serves claims of clusters that exist.
        let infra = edgetest::CLUSTER;
        let cluster = json!({"spec": {"infrastructureRef": {
            "apiGroup": infra.group, "kind": infra.kind, "name": "edge",
        }}});
        let cluster = foreign::CLUSTER.object("edge", cluster);
        let clusters = foreign::CLUSTER.of(&client, &space);
        clusters
            .create(&PostParams::default(), &cluster)
            .await
            .unwrap();
        Some(Self {
            client,
            space,
            _stack: stack,
        })
    }

    async fn claim(&self, name: &str) {
        let claim = json!({
            "metadata": {"labels": {foreign::CLUSTER_NAME: "edge"}},
            "spec": {"clusterName": "edge", "poolRef": {
                "apiGroup": foreign::POOL.group, "kind": foreign::POOL.kind, "name": "vips",
            }},
        });
        let claims = foreign::CLAIM.of(&self.client, &self.space);
        let claim = foreign::CLAIM.object(name, claim);
        claims.create(&PostParams::default(), &claim).await.unwrap();
    }

    async fn get_claim(&self, name: &str) -> DynamicObject {
        let claims = foreign::CLAIM.of(&self.client, &self.space);
        claims.get(name).await.unwrap()
    }

    async fn delete_claim(&self, name: &str) {
        let claims = foreign::CLAIM.of(&self.client, &self.space);
        claims.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// The address of a claim, as soon as it has one.
    async fn served(&self, claim: &str) -> DynamicObject {
        let name = async || {
            let claim = self.get_claim(claim).await;
            text(&claim, "/status/addressRef/name").to_owned()
        };
        eventually(&format!("claim {claim} is served"), LIMIT, async || {
            !name().await.is_empty()
        })
        .await;
        let addresses = foreign::ADDRESS.of(&self.client, &self.space);
        addresses.get(&name().await).await.unwrap()
    }

    async fn counts_none_free(&self) {
        eventually("the pool counts no free address", LIMIT, async || {
            let pools = foreign::POOL.of(&self.client, &self.space);
            let pool = pools.get("vips").await.unwrap();
            at(&pool, "/status/ipAddresses/free").as_i64() == Some(0)
        })
        .await;
    }

    async fn merge_address(&self, name: &str, patch: Value) {
        let addresses = foreign::ADDRESS.of(&self.client, &self.space);
        addresses
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
}

/// The finalizers an object has, with ours or without it.
fn finalizers(before: &Option<Vec<String>>, ours: bool) -> Value {
    let mut all = before.clone().unwrap_or_default();
    all.retain(|one| one != OURS);
    if ours {
        all.push(OURS.to_owned());
    }
    json!({"metadata": {"finalizers": all}})
}

const OURS: &str = "kedge.dev/vip-in-use";
