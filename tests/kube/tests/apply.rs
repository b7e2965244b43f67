//! Facts about server-side apply that filling an endpoint is built on.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use kedge_tests_kube::{
    clusters::{FIELD_MANAGER, endpoint},
    elemental::kinds,
    manifests,
    objects::at,
    server::Server,
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

#[tokio::test]
async fn an_endpoint_left_out_is_applied_without_force_and_outlives_the_users_applies() {
    let Some(lab) = Lab::new().await else {
        return;
    };
    let user = json!({"metadata": {"name": "edge"}, "spec": {}});
    lab.apply("user", true, user.clone()).await.unwrap();
    lab.fill(json!({}), false).await.unwrap();
    let before = lab.get().await;
    assert!(endpoint(&before).is_some());
    lab.fill(json!({}), false).await.unwrap();
    lab.apply("user", true, user).await.unwrap();
    let after = lab.get().await;
    // Neither of them changed anything.
    assert_eq!(
        after.metadata.resource_version,
        before.metadata.resource_version
    );
}

#[tokio::test]
async fn a_host_without_a_port_is_refused() {
    let Some(lab) = Lab::new().await else {
        return;
    };
    lab.create(json!({})).await;
    let half = json!({
        "metadata": {"name": "edge"},
        "spec": {"controlPlaneEndpoint": {"host": "192.0.2.10"}},
    });
    assert_eq!(code(lab.apply(FIELD_MANAGER, false, half).await), 422);
}

#[tokio::test]
async fn an_empty_host_of_a_user_is_filled_by_force_at_the_version_that_was_seen() {
    let Some(lab) = Lab::new().await else {
        return;
    };
    lab.create(json!({"controlPlaneEndpoint": {"host": "", "port": 6443}}))
        .await;
    assert_eq!(code(lab.fill(json!({}), false).await), 409);
    // A value that appears between the look and the write wins.
    let seen = lab.get().await.metadata.resource_version;
    lab.merge(json!({"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1"}}}))
        .await;
    let at_seen = json!({"resourceVersion": seen});
    assert_eq!(code(lab.fill(at_seen, true).await), 409);
    let theirs = lab.get().await;
    assert_eq!(endpoint(&theirs), Some(("10.0.0.1".to_owned(), 6443)));
    lab.merge(json!({"spec": {"controlPlaneEndpoint": {"host": ""}}}))
        .await;
    let at_seen = json!({"resourceVersion": lab.get().await.metadata.resource_version});
    lab.fill(at_seen, true).await.unwrap();
    let filled = lab.get().await;
    assert_eq!(endpoint(&filled), Some(("192.0.2.10".to_owned(), 6443)));
}

#[tokio::test]
async fn a_forced_apply_of_a_blank_takes_the_endpoint_away_again() {
    let Some(lab) = Lab::new().await else {
        return;
    };
    let blank = json!({
        "metadata": {"name": "edge"},
        "spec": {"controlPlaneEndpoint": {"host": "", "port": 6443}},
    });
    lab.apply("argocd", true, blank.clone()).await.unwrap();
    lab.fill(json!({}), true).await.unwrap();
    lab.apply("argocd", true, blank).await.unwrap();
    let blanked = lab.get().await;
    assert_eq!(endpoint(&blanked), None);
    // Who did it can be read.
    let owners = blanked.metadata.managed_fields.unwrap();
    let owner = owners.iter().find(|entry| {
        let fields = json!(entry.fields_v1);
        !fields["f:spec"]["f:controlPlaneEndpoint"]["f:host"].is_null()
    });
    assert_eq!(owner.unwrap().manager.as_deref(), Some("argocd"));
}

#[tokio::test]
async fn an_apply_to_an_object_that_is_gone_creates_a_ghost_unless_it_names_the_uid() {
    let Some(lab) = Lab::new().await else {
        return;
    };
    lab.create(json!({})).await;
    let seen = lab.get().await.metadata;
    lab.delete().await;
    let uid = json!({"uid": seen.uid});
    assert_eq!(code(lab.fill(uid.clone(), false).await), 409);
    assert!(lab.get_opt().await.is_none());
    // Another object of that name is not meant either.
    lab.create(json!({})).await;
    assert_eq!(code(lab.fill(uid, false).await), 422);
    lab.delete().await;
    // The version that was seen does not help.
    let version = json!({"resourceVersion": seen.resource_version});
    lab.fill(version, false).await.unwrap();
    let ghost = lab.get().await;
    assert!(ghost.metadata.owner_references.is_none());
    assert_ne!(ghost.metadata.uid, seen.uid);
}

/// An API server with Elemental's kinds, and nobody who acts on them.
struct Lab {
    clusters: Api<DynamicObject>,
    _server: Server,
}

impl Lab {
    async fn new() -> Option<Self> {
        let server = Server::start().await?;
        let client = server.client().await;
        manifests::apply_definitions(&client, &kinds::definitions()).await;
        Some(Self {
            clusters: kinds::CLUSTER.of(&client, "default"),
            _server: server,
        })
    }

    async fn create(&self, spec: Value) {
        let object = kinds::CLUSTER.object("edge", json!({"spec": spec}));
        let how = PostParams::default();
        self.clusters.create(&how, &object).await.unwrap();
    }

    /// Applies an endpoint as Kedge does.
    async fn fill(&self, preconditions: Value, force: bool) -> kube::Result<DynamicObject> {
        let mut metadata = preconditions;
        metadata["name"] = json!("edge");
        let endpoint = json!({"host": "192.0.2.10", "port": 6443});
        let object = json!({
            "metadata": metadata, "spec": {"controlPlaneEndpoint": endpoint},
        });
        self.apply(FIELD_MANAGER, force, object).await
    }

    async fn apply(&self, who: &str, force: bool, object: Value) -> kube::Result<DynamicObject> {
        let mut object = object;
        object["apiVersion"] = json!(kinds::CLUSTER.api_version());
        object["kind"] = json!(kinds::CLUSTER.kind);
        let mut how = PatchParams::apply(who);
        how.force = force;
        self.clusters
            .patch("edge", &how, &Patch::Apply(object))
            .await
    }

    async fn merge(&self, patch: Value) {
        let how = PatchParams::default();
        let patch = Patch::Merge(patch);
        self.clusters.patch("edge", &how, &patch).await.unwrap();
    }

    async fn delete(&self) {
        let how = DeleteParams::default();
        self.clusters.delete("edge", &how).await.unwrap();
    }

    async fn get(&self) -> DynamicObject {
        self.clusters.get("edge").await.unwrap()
    }

    async fn get_opt(&self) -> Option<DynamicObject> {
        self.clusters.get_opt("edge").await.unwrap()
    }
}

fn code(result: kube::Result<DynamicObject>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{other}"),
        Ok(object) => panic!("accepted: {}", at(&object, "/spec")),
    }
}
