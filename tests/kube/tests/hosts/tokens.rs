//! Tokens at managers that have not heard of them.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use kedge_control::identity::Role;
use kedge_crd::TenantSpec;
use kedge_host::enrol::ClientError;
use kedge_manager_controller::{Manager, snapshot::key, store::Name, token::Record};
use kedge_tests_kube::eventually;
use serde_json::json;

use crate::{
    fleet::{Fleet, LIMIT, NS},
    host::Host,
};

/// One made at the manager that does not lead is good at once, although nobody watches the Secrets
/// of a tenant that was just made; and whoever guesses makes nobody look each time.
pub async fn are_good_at_once(fleet: &Fleet, leader: &Manager, other: &Manager) {
    let console = fleet.console(other);
    for number in 0..5 {
        let name = format!("fresh-{number}");
        fleet.new_tenant(&name).await;
        eventually("the leader knows the tenant", LIMIT, async || {
            let tenant = key::<TenantSpec>(&Name::new("", &name));
            leader.world.store.get(&tenant).is_some()
        })
        .await;
        let token = console.token(json!({"role": "Host", "tenant": name})).await;
        let host = Host::with_token(other, "edge", &token);
        let said = host.client.ensure().await;
        assert!(said.is_ok(), "{name}: {said:?}");
    }
    let (begun, before) = (Instant::now(), fleet.reads_of_secrets().await);
    let pin = leader.world.authority.pin();
    for _ in 0..15 {
        // As if it were of the tenant, and never written down.
        let expires = Timestamp::now() + SignedDuration::from_hours(1);
        let made = Record::create(Role::Host, (NS, "t"), None, (expires, 1), &pin);
        let host = Host::with_token(other, "guess", &made.unwrap().0);
        let said = host.client.ensure().await;
        let is_refused = matches!(said, Err(ClientError::Refused { status: 401, .. }));
        assert!(is_refused, "{said:?}");
    }
    let reads = fleet.reads_of_secrets().await - before;
    // Eight at once, then one each second; managers read their authority's now and then.
    let most = 8 + 2 * begun.elapsed().as_secs() + 2;
    assert!(reads >= 1, "nobody looked");
    assert!(
        reads <= most,
        "{reads} reads for 15 guesses, more than {most}"
    );
    // What is heard of needs no look.
    let host = Host::with_token(other, "heard", &fleet.token(leader, 1).await);
    host.client.ensure().await.unwrap();
    fleet.delete_host("heard").await;
}

/// An API server takes so many requests at a time on one connection and lets others wait without a
/// word: the watches of many tenants share a few, and every one of them hears.
pub async fn are_heard_of_in_every_tenant(fleet: &Fleet, leader: &Manager, other: &Manager) {
    let spaces: Vec<String> = (0..TENANTS)
        .map(|number| format!("many-{number:03}"))
        .collect();
    for space in &spaces {
        fleet.new_tenant(space).await;
    }
    let pin = leader.world.authority.pin();
    let mut secrets = Vec::new();
    for space in &spaces {
        let expires = Timestamp::now() + SignedDuration::from_hours(1);
        let made = Record::create(Role::Host, (space, space), None, (expires, 1), &pin);
        let record = made.unwrap().1;
        leader
            .world
            .store
            .write(vec![record.write()])
            .await
            .unwrap();
        secrets.push(record.key());
    }
    eventually("every tenant's token is heard of", LIMIT, async || {
        let heard = |key| other.world.store.get(key).is_some();
        secrets.iter().all(heard)
    })
    .await;
    let connections = fleet.connections();
    assert!(
        connections < TENANTS,
        "{connections} connections of two managers for {TENANTS} tenants"
    );
}

/// More than twice as many as requests on one connection.
const TENANTS: usize = 210;
