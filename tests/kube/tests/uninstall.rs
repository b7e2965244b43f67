//! The end of Kedge on a cluster: whatever becomes of the manager, nothing is left that anybody
//! waits for.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    dead_code,
    reason = "test code, parts of it shared with other suites"
)]

#[path = "endpoint/fleet.rs"]
mod fleet;
#[path = "running/installed.rs"]
mod installed;
#[path = "uninstall/pods.rs"]
mod pods;
#[path = "endpoint/site.rs"]
mod site;

use std::time::Duration;

use k8s_openapi::{
    api::{apps::v1::Deployment, coordination::v1::Lease},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kedge_crd::kinds::KINDS;
use kedge_manager_controller::{
    Place,
    store::kubernetes::lease::Terms,
    uninstall::{Request, Taken, left, uninstall},
};
use kedge_tests_kube::{chart, foreign};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::json;

use crate::{
    fleet::Fleet,
    installed::{installed, values},
    site::{BALANCER, POOL},
};

#[tokio::test]
async fn removing_the_chart_with_the_manager_dead_leaves_no_hook_no_finalizer_and_no_stuck_machine()
{
    let Some(ours) = installed().await else {
        return;
    };
    let drain = json!({"drain": {"timeout": "1h"}});
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], drain).await else {
        return;
    };
    let (site, server) = (&fleet.site, ours.stack().server());
    fleet.shows("cp-a", "active", true).await;
    let place = Place::Kubeconfig(
        server
            .kubeconfig_of_account("kedge-system", "kedge-uninstall")
            .await,
    );
    let request = |dry_run: bool, terms: Terms| Request {
        place: place.clone(),
        stop: Some("kedge-manager".to_owned()),
        dry_run,
        terms,
    };

    // A manager that lives would put everything back: as long as it writes, nothing is taken.
    let short = Terms {
        duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(800),
        retry: Duration::from_millis(200),
    };
    let refused = uninstall(&request(false, short)).await.unwrap_err();
    assert!(refused.what.contains("a manager still writes"), "{refused}");
    let looked = uninstall(&request(true, Terms::default())).await.unwrap();
    let hook = "annotation pre-drain.delete.hook.machine.cluster.x-k8s.io/kedge-lb";
    for name in ["cp-a", "cp-b"] {
        let of_it = |taken: &&Taken| taken.kind == "Machine" && taken.name == name;
        let mut what = looked.iter().filter(of_it).flat_map(|taken| &taken.what);
        assert!(what.any(|what| what == hook), "{looked:#?}");
    }
    fleet.shows("cp-a", "active", true).await;

    // It dies without a word: its lease runs out.
    ours.kill().await;
    let before = site.get(BALANCER, "edge").await.unwrap();
    let taken = uninstall(&request(false, Terms::default())).await.unwrap();
    println!("{taken:#?}");
    assert_eq!(taken, looked, "what was shown is what was done");
    let deployments: Api<Deployment> = Api::namespaced(site.client.clone(), "kedge-system");
    let deployment = deployments.get("kedge-manager").await.unwrap();
    assert_eq!(deployment.spec.unwrap().replicas, Some(0));
    let leases: Api<Lease> = Api::namespaced(site.client.clone(), "kedge-system");
    let lease = leases.get("kedge-manager").await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.unwrap_or_default(), "");
    chart::remove(server);
    assert_eq!(traces(&site.client).await, [] as [String; 0]);
    let again = uninstall(&request_of_admin(server.kubeconfig("admin"))).await;
    assert_eq!(again.unwrap(), [], "it may be repeated");

    // The definitions and the user's objects outlive the chart, and the endpoint stays filled.
    let definitions: Api<CustomResourceDefinition> = Api::all(site.client.clone());
    for kind in KINDS {
        assert!(
            definitions
                .get_opt(&kind.crd_name())
                .await
                .unwrap()
                .is_some()
        );
    }
    let after = site.get(BALANCER, "edge").await.unwrap();
    assert_eq!(after.data["spec"], before.data["spec"]);
    assert!(fleet.cluster.is_provisioned().await);

    for name in ["cp-a", "cp-b"] {
        site.delete(foreign::MACHINE, name).await;
    }
    for name in ["cp-a", "cp-b"] {
        site.gone(foreign::MACHINE, name).await;
    }
    site.delete(foreign::CLUSTER, "edge").await;
    site.gone(foreign::CLUSTER, "edge").await;
    site.delete(POOL, "lan").await;
    site.gone(POOL, "lan").await;

    // And it can come back, over its own definitions.
    _ = chart::install(server, &values());
    let deployment = deployments.get("kedge-manager").await.unwrap();
    assert_eq!(deployment.spec.unwrap().replicas, Some(2));
}

fn request_of_admin(kubeconfig: std::path::PathBuf) -> Request {
    Request {
        place: Place::Kubeconfig(kubeconfig),
        stop: None,
        dry_run: true,
        terms: Terms::default(),
    }
}

/// The objects of every kind that is served which still carry something of ours.
async fn traces(client: &Client) -> Vec<String> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut found = Vec::new();
    for definition in definitions.list(&ListParams::default()).await.unwrap() {
        let spec = definition.spec;
        let mut served = spec.versions.iter().filter(|version| version.storage);
        let version = served.next().unwrap();
        let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for object in api.list(&ListParams::default()).await.unwrap() {
            let name = object.metadata.name.clone().unwrap();
            let text = json!([object.metadata.annotations, object.metadata.finalizers]).to_string();
            let is_held = text.contains("hook.machine.cluster.x-k8s.io/kedge")
                || text.contains("kedge.dev/loadbalancer")
                || text.contains("kedge.dev/vip\"");
            if is_held || left(&object).is_some() {
                found.push(format!("{} {name}: {text}", spec.names.kind));
            }
        }
    }
    found
}
