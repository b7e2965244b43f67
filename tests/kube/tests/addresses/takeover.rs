//! Of two managers one gives addresses, and the other goes on where it stopped.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use kedge_tests_kube::{foreign, objects::text, ours::Ours, stack::Stack};
use kube::api::ListParams;
use serde_json::json;

use crate::site::{POOL, Site};

#[tokio::test]
async fn no_address_is_given_twice_while_one_manager_takes_over_from_another() {
    let Some(site) = Site::alone().await else {
        return;
    };
    let other = Ours::start(Stack::shared().await.unwrap()).await;
    site.pool(
        "lan",
        &["198.51.100.0/27"],
        json!({"gateway": "198.51.100.1"}),
    )
    .await;
    let claim = async |number: usize| site.claim(&format!("claim-{number:02}"), "lan").await;
    join_all((0..12).map(claim)).await;
    // In the middle of its work the first one leaves.
    let ((), _) = tokio::join!(site.ours.halt(), join_all((12..40).map(claim)));
    site.until("the pool is given away", async || {
        site.counts(POOL, "lan").await == [30, 0, 30, 0]
    })
    .await;
    let addresses = foreign::ADDRESS.of(&site.client, &site.space);
    let given = async || {
        let all = addresses.list(&ListParams::default()).await.unwrap();
        let all: Vec<String> = all
            .iter()
            .map(|one| text(one, "/spec/address").to_owned())
            .collect();
        let each: BTreeSet<String> = all.iter().cloned().collect();
        assert_eq!(all.len(), each.len(), "{all:?}");
        each
    };
    let first = given().await;
    assert_eq!(first.len(), 30);
    // Those who starve are served as others leave, by whoever leads.
    site.ours.boot().await;
    other.halt().await;
    let claims = foreign::CLAIM.of(&site.client, &site.space);
    let served = async || {
        let all = claims.list(&ListParams::default()).await.unwrap();
        let served = all.iter();
        let served = served.filter(|one| !text(one, "/status/addressRef/name").is_empty());
        let names = served.map(|one| one.metadata.name.clone().unwrap());
        names.collect::<BTreeSet<String>>()
    };
    let leaving: Vec<String> = served().await.into_iter().take(10).collect();
    for name in &leaving {
        site.delete(foreign::CLAIM, name).await;
    }
    site.until("every claim is served", async || {
        let now = served().await;
        now.len() == 30 && leaving.iter().all(|name| !now.contains(name))
    })
    .await;
    assert_eq!(given().await, first);
}
