//! VIPPools serve the claims of anybody, as the contract says a provider does.

use std::time::Duration;

use kedge_tests_kube::{
    edgetest, foreign,
    objects::{at, condition, label, text},
    stays,
};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::site::{POOL, PROTECT, RELEASE, Site, is_held};

#[tokio::test]
async fn a_claim_gets_the_lowest_address_that_is_nobodys_and_both_versions_tell() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.cluster("edge", false).await;
    // The LAN's first address, its router and the excluded one are nobody's.
    let excluded = json!({"excludedAddresses": ["192.0.2.2"]});
    site.pool("lan", &["192.0.2.0/29"], excluded).await;
    site.claim_of("edge", "one", "lan").await;
    assert_eq!(site.served("one").await, "192.0.2.3");
    site.claim("bare", "lan").await;
    assert_eq!(site.served("bare").await, "192.0.2.4");

    let claim = site.get(foreign::CLAIM, "one").await.unwrap();
    assert!(is_held(&claim, RELEASE));
    assert_eq!(condition(&claim, "Ready")["status"], "True");
    assert_eq!(condition(&claim, "Ready")["reason"], "Ready");
    let old = site.get(foreign::CLAIM_V1BETA1, "one").await.unwrap();
    let ready = condition(&old, "Ready");
    assert_eq!(ready["status"], "True");
    assert_eq!(ready.get("observedGeneration"), None, "the form of v1beta1");
    assert_eq!(text(&old, "/status/addressRef/name"), "one");

    let address = site.get(foreign::ADDRESS, "one").await.unwrap();
    assert!(is_held(&address, PROTECT));
    assert_eq!(label(&address, foreign::CLUSTER_NAME), "edge");
    assert_eq!(text(&address, "/spec/claimRef/name"), "one");
    assert_eq!(text(&address, "/spec/poolRef/kind"), "VIPPool");
    assert_eq!(text(&address, "/spec/gateway"), "192.0.2.1");
    assert_eq!(at(&address, "/spec/prefix"), &json!(24));
    let pool = site.get(POOL, "lan").await.unwrap();
    let owners = address.metadata.owner_references.unwrap();
    let owner = |kind: &str| owners.iter().find(|owner| owner.kind == kind).unwrap();
    assert_eq!(Some(&owner("VIPPool").uid), pool.metadata.uid.as_ref());
    assert_eq!(owner("VIPPool").controller, Some(false));
    assert_eq!(
        Some(&owner("IPAddressClaim").uid),
        claim.metadata.uid.as_ref()
    );
    assert_eq!(owner("IPAddressClaim").controller, Some(true));
    assert!(
        owners
            .iter()
            .all(|it| it.block_owner_deletion == Some(true))
    );
    site.until("the pool counts them", async || {
        site.counts(POOL, "lan").await == [5, 3, 2, 0]
    })
    .await;
}

#[tokio::test]
async fn a_claim_for_a_machine_by_its_own_controller_is_served_and_goes_with_the_machine() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.pool("lan", &["192.0.2.80-192.0.2.89"], json!({}))
        .await;
    site.cluster("edge", false).await;
    let part = edgetest::MACHINE;
    let labels = json!({foreign::CLUSTER_NAME: "edge"});
    let of_cluster = json!({"metadata": {"labels": labels}, "spec": {}});
    site.create(part, "worker", of_cluster).await;
    let machine = json!({"metadata": {"labels": labels}, "spec": {
        "clusterName": "edge", "bootstrap": {"dataSecretName": "none"},
        "infrastructureRef": {"apiGroup": part.group, "kind": part.kind, "name": "worker"},
    }});
    let machine = site.create(foreign::MACHINE, "worker", machine).await;
    // As providers of machines make them: one for each device, with what is theirs on it.
    let theirs = "example.com/nic";
    let pool = json!({"apiGroup": POOL.group, "kind": POOL.kind, "name": "lan"});
    for device in ["worker-0", "worker-1"] {
        let claim = json!({
            "metadata": {"labels": labels, "finalizers": [theirs], "ownerReferences": [{
                "apiVersion": foreign::MACHINE.api_version(), "kind": foreign::MACHINE.kind,
                "name": "worker", "uid": machine.metadata.uid, "controller": true,
                "blockOwnerDeletion": true}]},
            "spec": {"clusterName": "edge", "poolRef": pool},
        });
        site.create(foreign::CLAIM, device, claim).await;
    }
    let mut given = Vec::new();
    for device in ["worker-0", "worker-1"] {
        given.push(site.served(device).await);
        let claim = site.get(foreign::CLAIM, device).await.unwrap();
        assert_eq!(foreign::MACHINE.owner_of(&claim).as_deref(), Some("worker"));
        assert!(is_held(&claim, theirs) && is_held(&claim, RELEASE));
    }
    given.sort();
    assert_eq!(given, ["192.0.2.80", "192.0.2.81"]);
    site.delete(foreign::MACHINE, "worker").await;
    site.gone(foreign::MACHINE, "worker").await;
    for device in ["worker-0", "worker-1"] {
        site.until("the claim leaves", async || {
            let claim = site.get(foreign::CLAIM, device).await.unwrap();
            claim.metadata.deletion_timestamp.is_some() && !is_held(&claim, RELEASE)
        })
        .await;
        site.gone(foreign::ADDRESS, device).await;
        let let_go = json!({"metadata": {"finalizers": null}});
        site.merge(foreign::CLAIM, device, let_go).await;
        site.gone(foreign::CLAIM, device).await;
    }
    site.until("every address is free", async || {
        site.counts(POOL, "lan").await == [10, 10, 0, 0]
    })
    .await;
}

#[tokio::test]
async fn a_starved_claim_is_told_so_and_served_when_the_pool_grows_or_an_address_is_freed() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.pool("lan", &["192.0.2.10"], json!({})).await;
    site.claim("first", "lan").await;
    assert_eq!(site.served("first").await, "192.0.2.10");
    for name in ["starved", "hungry"] {
        site.claim(name, "lan").await;
        let begin = "False/PoolExhausted: the VIPPool has 0 of 1";
        site.says(foreign::CLAIM, name, "Ready", begin).await;
        // Times of creation are whole seconds: the next claim has another.
        let claim = site.get(foreign::CLAIM, name).await.unwrap();
        let made = claim.metadata.creation_timestamp.unwrap().0;
        let is_later = async || jiff::Timestamp::now().as_second() > made.as_second();
        site.until("the next second", is_later).await;
    }
    let old = site.get(foreign::CLAIM_V1BETA1, "starved").await.unwrap();
    assert_eq!(condition(&old, "Ready")["reason"], "PoolExhausted");
    assert_eq!(condition(&old, "Ready")["severity"], "Warning");
    site.says(POOL, "lan", "Exhausted", "True").await;
    // Who waits longest is first, whatever its name.
    site.delete(foreign::CLAIM, "first").await;
    let next = site.served("starved").await;
    assert_eq!(next, "192.0.2.10");
    site.gone(foreign::CLAIM, "first").await;
    assert!(site.address("hungry").await.is_empty());
    let grown = json!({"spec": {"addresses": ["192.0.2.10-192.0.2.11"]}});
    site.merge(POOL, "lan", grown).await;
    assert_eq!(site.served("hungry").await, "192.0.2.11");

    // A claim may come before its pool.
    site.claim("early", "later").await;
    site.says(foreign::CLAIM, "early", "Ready", "False/PoolNotReady")
        .await;
    let six = json!({"addresses": ["fd00::/64"], "prefix": 64, "gateway": "fd00::1"});
    site.create(POOL, "later", json!({ "spec": six })).await;
    assert_eq!(site.served("early").await, "fd00::2", "a pool of IPv6");
}

#[tokio::test]
async fn an_address_rests_for_the_grace_period_before_it_is_given_again() {
    let Some(site) = Site::new().await else {
        return;
    };
    let grace = 4;
    let rests = json!({"addressReuseGracePeriodSeconds": grace});
    site.pool("lan", &["192.0.2.20"], rests).await;
    site.claim("first", "lan").await;
    site.served("first").await;
    site.delete(foreign::CLAIM, "first").await;
    let claims = foreign::CLAIM.of(&site.client, &site.space);
    let going = claims.get("first").await.unwrap();
    let since = going.metadata.deletion_timestamp.unwrap().0;
    site.claim("second", "lan").await;
    assert_eq!(site.served("second").await, "192.0.2.20");
    let claim = claims.get("second").await.unwrap();
    let ready = condition(&claim, "Ready")["lastTransitionTime"].clone();
    let ready: jiff::Timestamp = ready.as_str().unwrap().parse().unwrap();
    let since: jiff::Timestamp = since.to_string().parse().unwrap();
    let rested = ready.duration_since(since).as_secs();
    assert!(rested >= grace, "it rested {rested} s");
    site.gone(foreign::CLAIM, "first").await;
}

#[tokio::test]
async fn a_cluster_that_is_paused_or_missing_is_left_alone_but_its_deletions_are_not() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.pool("lan", &["192.0.2.30-192.0.2.39"], json!({}))
        .await;
    site.claim_of("edge", "one", "lan").await;
    let paused = json!({"cluster.x-k8s.io/paused": ""});
    site.claim("still", "lan").await;
    site.served("still").await;
    let annotated = json!({"metadata": {"annotations": paused}});
    site.merge(foreign::CLAIM, "still", annotated).await;
    let waits = async || site.address("one").await.is_empty();
    stays("no cluster, no address", QUIET, waits).await;
    site.cluster("edge", true).await;
    stays("a paused cluster", QUIET, waits).await;
    let runs = json!({"spec": {"paused": false}});
    site.merge(foreign::CLUSTER, "edge", runs).await;
    site.served("one").await;

    // A deletion under a pause waits for its end; without the cluster it does not wait.
    site.delete(foreign::CLAIM, "still").await;
    stays("a paused claim", QUIET, async || {
        let claim = site.get(foreign::CLAIM, "still").await;
        claim.is_some_and(|claim| is_held(&claim, RELEASE))
    })
    .await;
    let runs = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
    site.merge(foreign::CLAIM, "still", runs).await;
    site.gone(foreign::CLAIM, "still").await;
    site.delete(foreign::CLUSTER, "edge").await;
    site.gone(foreign::CLUSTER, "edge").await;
    site.delete(foreign::CLAIM, "one").await;
    site.gone(foreign::CLAIM, "one").await;
    site.gone(foreign::ADDRESS, "one").await;

    // A pool that is paused gives nothing.
    let rests = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    site.merge(POOL, "lan", rests).await;
    site.says(POOL, "lan", "Paused", "True").await;
    site.claim("late", "lan").await;
    stays("a paused pool", QUIET, async || {
        site.address("late").await.is_empty()
    })
    .await;
    let runs = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
    site.merge(POOL, "lan", runs).await;
    site.served("late").await;
}

#[tokio::test]
async fn an_address_stays_under_its_claim_and_goes_with_it() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.pool("lan", &["192.0.2.40-192.0.2.49"], json!({}))
        .await;
    site.claim("low", "lan").await;
    site.served("low").await;
    site.claim("one", "lan").await;
    assert_eq!(site.served("one").await, "192.0.2.41");
    site.delete(foreign::CLAIM, "low").await;
    site.gone(foreign::ADDRESS, "low").await;
    // Deleted under its claim it is held, and by force it is made again as it was.
    site.delete(foreign::ADDRESS, "one").await;
    let first = site.get(foreign::ADDRESS, "one").await.unwrap();
    assert!(first.metadata.deletion_timestamp.is_some() && is_held(&first, PROTECT));
    let stripped = json!({"metadata": {"finalizers": null}});
    site.merge(foreign::ADDRESS, "one", stripped).await;
    site.until("the address is made again", async || {
        let again = site.get(foreign::ADDRESS, "one").await;
        again.is_some_and(|again| {
            again.metadata.uid != first.metadata.uid && is_held(&again, PROTECT)
        })
    })
    .await;
    assert_eq!(site.address("one").await, "192.0.2.41", "not the lowest");
    site.delete(foreign::CLAIM, "one").await;
    site.gone(foreign::CLAIM, "one").await;
    site.gone(foreign::ADDRESS, "one").await;
    site.until("every address is free", async || {
        site.counts(POOL, "lan").await == [10, 10, 0, 0]
    })
    .await;
}

#[tokio::test]
async fn a_pool_is_not_taken_away_from_those_who_have_its_addresses() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.pool("lan", &["192.0.2.50-192.0.2.51"], json!({}))
        .await;
    site.claim("one", "lan").await;
    site.served("one").await;
    let shrunk = json!({"spec": {"addresses": ["192.0.2.51-192.0.2.52"]}});
    site.merge(POOL, "lan", shrunk).await;
    let said = site
        .says(POOL, "lan", "AddressesInRange", "False/ShrunkBelowUse")
        .await;
    assert!(said.contains("192.0.2.50 is in use"), "{said}");
    assert_eq!(site.counts(POOL, "lan").await, [2, 2, 0, 1]);
    site.claim("two", "lan").await;
    assert_eq!(site.served("two").await, "192.0.2.51");
    assert_eq!(site.address("one").await, "192.0.2.50");

    site.delete(POOL, "lan").await;
    site.says(POOL, "lan", "Ready", "False/DeletionBlocked")
        .await;
    site.claim("late", "lan").await;
    site.says(foreign::CLAIM, "late", "Ready", "False/PoolNotReady")
        .await;
    for name in ["one", "two"] {
        assert!(site.get(POOL, "lan").await.is_some());
        site.delete(foreign::CLAIM, name).await;
    }
    site.gone(POOL, "lan").await;
}

#[tokio::test]
async fn what_was_moved_here_without_its_status_keeps_its_address() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.pool("lan", &["192.0.2.60-192.0.2.69"], json!({}))
        .await;
    let pool = site.get(POOL, "lan").await.unwrap().metadata.uid;
    site.cluster("edge", true).await;
    // As `clusterctl move` makes them: new uids, no status, the finalizers as they were.
    let how = PostParams {
        field_manager: Some("clusterctl".to_owned()),
        ..PostParams::default()
    };
    let pool_ref = json!({"apiGroup": POOL.group, "kind": POOL.kind, "name": "lan"});
    let labels = json!({foreign::CLUSTER_NAME: "edge"});
    let claim = json!({
        "metadata": {"labels": labels, "finalizers": [RELEASE]},
        "spec": {"clusterName": "edge", "poolRef": pool_ref},
    });
    let claim = foreign::CLAIM.object("moved", claim);
    let claims = foreign::CLAIM.of(&site.client, &site.space);
    let claim = claims.create(&how, &claim).await.unwrap();
    let address = json!({
        "metadata": {"labels": labels, "finalizers": [PROTECT], "ownerReferences": [
            {"apiVersion": foreign::CLAIM.api_version(), "kind": "IPAddressClaim",
                "name": "moved", "uid": claim.metadata.uid, "controller": true,
                "blockOwnerDeletion": true},
            {"apiVersion": POOL.api_version(), "kind": POOL.kind, "name": "lan", "uid": pool,
                "controller": false, "blockOwnerDeletion": true},
        ]},
        "spec": {"claimRef": {"name": "moved"}, "poolRef": pool_ref,
            "address": "192.0.2.65", "prefix": 24, "gateway": "192.0.2.1"},
    });
    let address = foreign::ADDRESS.object("moved", address);
    let addresses = foreign::ADDRESS.of(&site.client, &site.space);
    let address = addresses.create(&how, &address).await.unwrap();
    stays("the move is not over", QUIET, async || {
        let claim = claims.get("moved").await.unwrap();
        at(&claim, "/status").is_null()
    })
    .await;
    let runs = json!({"spec": {"paused": false}});
    site.merge(foreign::CLUSTER, "edge", runs).await;
    assert_eq!(site.served("moved").await, "192.0.2.65");
    let kept = addresses.get("moved").await.unwrap();
    assert_eq!(kept.metadata.uid, address.metadata.uid, "the same object");
    // A status that is lost is told again.
    let nothing = Patch::Merge(json!({"status": null}));
    claims
        .patch_status("moved", &PatchParams::default(), &nothing)
        .await
        .unwrap();
    assert_eq!(site.served("moved").await, "192.0.2.65");
    site.claim("new", "lan").await;
    assert_eq!(site.served("new").await, "192.0.2.60");
    site.delete(foreign::CLAIM, "moved").await;
    site.gone(foreign::CLAIM, "moved").await;
    site.gone(foreign::ADDRESS, "moved").await;
}

#[tokio::test]
async fn nothing_is_written_once_every_claim_is_served() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.pool("lan", &["192.0.2.70-192.0.2.79"], json!({}))
        .await;
    for name in ["a", "b", "c"] {
        site.claim(name, "lan").await;
    }
    for name in ["a", "b", "c"] {
        site.served(name).await;
    }
    site.until("the pool counts them", async || {
        site.counts(POOL, "lan").await == [10, 7, 3, 0]
    })
    .await;
    let versions = async || {
        let mut found = Vec::new();
        for kind in [POOL, foreign::CLAIM, foreign::ADDRESS] {
            let all = kind.of(&site.client, &site.space);
            let all = all.list(&ListParams::default()).await.unwrap();
            found.extend(all.into_iter().map(|one| one.metadata.resource_version));
        }
        found
    };
    let before = versions().await;
    stays("nothing is written", Duration::from_secs(2), async || {
        versions().await == before
    })
    .await;
}

const QUIET: Duration = Duration::from_millis(1500);
