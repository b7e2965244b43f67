//! A host's record that an inventory makes before the host comes: made once, and its words stay.

use std::time::Duration;

use kedge_core::{Code, Coded as _};
use kedge_crd::{Tenant, TenantSpec};
use kedge_manager_controller::{Manager, snapshot::key, store::Name};
use kedge_tests_kube::{eventually, stays};
use serde_json::{Value, json};

use crate::{
    fleet::{Fleet, INFRA, LIMIT, NS},
    host::Host,
};

/// The record of a machine is made; whoever has a token for another, or for any, is not let in
/// under its name, and the machine itself is. What the inventory wrote is as it was.
pub async fn is_only_added_to(fleet: &Fleet, manager: &Manager) {
    fleet.tenant(json!({"namespace": NS})).await;
    eventually("nobody is asked any more", LIMIT, async || {
        let tenant = manager
            .world
            .store
            .get(&key::<TenantSpec>(&Name::new("", "t")));
        let tenant = tenant.and_then(|layers| layers.as_written::<Tenant>());
        tenant.is_some_and(|tenant| tenant.spec.enrollment.approval.is_none())
    })
    .await;
    let made = fleet.create(INVENTORY, record()).await;
    let word = made["metadata"]["managedFields"][0].clone();
    assert_eq!(word["manager"], INVENTORY, "{made}");
    let (any, other, own) = (None, Some("bay-8"), Some("bay-7"));
    for (bound, wanted) in [(any, false), (other, false), (own, true)] {
        let token = fleet.token_for(manager, bound).await;
        let host = Host::with_token(manager, "rack-7", &token);
        let said = host.client.ensure().await;
        match said {
            Ok(()) => assert!(wanted, "{bound:?}"),
            Err(error) => {
                assert!(!wanted, "{bound:?}: {error:?}");
                assert_eq!(error.problem().code, Code::EnrolTokenScope, "{bound:?}");
                let now = fleet.host("rack-7").await;
                assert!(now["spec"].get("identity").is_none(), "{now}");
                continue;
            }
        }
        host.report("10.20.14.77").await.unwrap();
        eventually("the manager adds to it", LIMIT, async || {
            let now = fleet.host("rack-7").await;
            now["status"]["addresses"][0]["address"] == "10.20.14.77"
                && now["spec"]["config"]["generation"].is_u64()
        })
        .await;
        stays(
            "the inventory's words stay",
            Duration::from_secs(1),
            async || {
                let now = fleet.host("rack-7").await;
                let is_its = |one: &&Value| one["manager"] == INVENTORY;
                let owners = now["metadata"]["managedFields"].as_array().unwrap();
                let mut of_it = owners.iter().filter(is_its);
                holds(&record(), &now) && of_it.next() == Some(&word) && of_it.next().is_none()
            },
        )
        .await;
        let now = fleet.host("rack-7").await;
        assert_eq!(now["spec"]["tenant"], "t");
        assert!(now["spec"]["identity"]["uid"].is_string(), "{now}");
    }
}

fn record() -> Value {
    json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "EdgeHost",
        "metadata": {"name": "rack-7", "namespace": NS,
            "labels": {"kedge.dev/site": "bern", "example.org/rack": "7"},
            "annotations": {"example.org/asset": "4711"}},
        "spec": {
            "hostRef": {"apiGroup": INFRA, "kind": "ElementalHost", "name": "bay-7"},
            "vrrp": {"priority": 120}}})
}

/// Whether all of `part` is in `whole`.
fn holds(part: &Value, whole: &Value) -> bool {
    match part {
        Value::Object(part) => part
            .iter()
            .all(|(name, part)| whole.get(name).is_some_and(|whole| holds(part, whole))),
        part => part == whole,
    }
}

const INVENTORY: &str = "inventory";
