//! The store of a cluster on a real API server: what is written is read again as it was wanted,
//! nothing that somebody else said is overwritten, and one of two managers writes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::{collections::BTreeSet, path::Path, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kedge_crd::{
    LoadBalancerSpec,
    kinds::{KINDS, Kind},
    testing::elemental_crds,
};
use kedge_manager_controller::{
    Manager, ManagerOptions, Place, managers,
    plan::plan,
    snapshot::{Live, Snapshot, key},
    store::{
        Layer, Name, ObjectKey, Store, Write,
        kubernetes::{Access, Cluster, LEASE, lease::Terms},
    },
};
use kedge_tests_kube::{at_rest, eventually, manifests, server::Server};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

const NS: &str = "edge";
const INFRA: &str = "infrastructure.cluster.x-k8s.io";
const CAPI: &str = "cluster.x-k8s.io";

#[tokio::test]
async fn a_plan_is_carried_out_once_and_the_next_one_writes_nothing() {
    let Some(site) = Site::start().await else {
        return;
    };
    site.ask().await;
    let store = site.leader("a").await;
    eventually("the plan writes nothing more", LIMIT, async || {
        store.refresh().await;
        let planned = plan(&look(&store));
        let written = store.write(planned.writes.clone()).await;
        if let Err(problem) = written {
            println!("{problem}: {:?}", problem.evidence);
        }
        planned.writes.is_empty()
    })
    .await;
    let endpoint = site.read("ElementalCluster", "c").await["spec"]["controlPlaneEndpoint"].clone();
    assert_eq!(endpoint, json!({"host": "10.20.14.10", "port": 6443}));

    // What is wanted again is found to be so, by us and by one who starts anew.
    let before = site.versions().await;
    let planned = plan(&look(&store));
    assert_eq!(planned.writes, []);
    store.close().await;
    let store = site.leader("b").await;
    let planned = plan(&look(&store));
    assert_eq!(
        planned.writes,
        [],
        "the layers come back from managedFields"
    );
    store.write(planned.writes).await.unwrap();
    assert_eq!(site.versions().await, before, "no object was touched");
}

#[tokio::test]
async fn every_blank_is_filled_and_a_users_value_is_never_overwritten() {
    let Some(site) = Site::start().await else {
        return;
    };
    let blank = json!({"spec": {"controlPlaneEndpoint": {"host": "", "port": 0}}});
    let set = json!({"spec": {"controlPlaneEndpoint": {"host": "10.9.9.9", "port": 6443}}});
    site.cluster("c", json!({})).await;
    site.apply("user", infra("c", json!({}))).await;
    site.apply("user", infra("left-out", json!({}))).await;
    site.apply("user", infra("empty", blank.clone())).await;
    site.apply("user", infra("late", blank.clone())).await;
    site.apply("user", infra("set", set.clone())).await;
    let store = site.leader("a").await;
    let endpoint = |object: Value| object["spec"]["controlPlaneEndpoint"].clone();
    let ours = json!({"host": "10.20.14.10", "port": 6443});
    let users = endpoint(set.clone());

    for name in ["left-out", "empty"] {
        store.write(vec![fill(name, &ours)]).await.unwrap();
        assert_eq!(endpoint(site.read("ElementalCluster", name).await), ours);
        let layers = store.objects().get(&infra_key(name)).cloned().unwrap();
        assert_eq!(
            layers.owned.get(managers::ENDPOINT),
            fill(name, &ours).content.as_ref()
        );
    }
    // By force it is blank again: so it is filled again.
    site.apply("argocd", infra("left-out", blank)).await;
    let key = infra_key("left-out");
    eventually("the blank is seen", LIMIT, async || {
        let objects = store.objects();
        let layers = objects.get(&key).unwrap();
        !layers.owned.contains_key(managers::ENDPOINT)
    })
    .await;
    store.write(vec![fill("left-out", &ours)]).await.unwrap();
    assert_eq!(
        endpoint(site.read("ElementalCluster", "left-out").await),
        ours
    );

    let refused = store.write(vec![fill("set", &ours)]).await;
    assert!(refused.is_err(), "somebody set it");
    assert_eq!(endpoint(site.read("ElementalCluster", "set").await), users);

    // The value appears between the look and the write, whoever of the two is first to see it.
    site.apply("user", infra("late", set)).await;
    let refused = store.write(vec![fill("late", &ours)]).await;
    assert!(refused.is_err(), "a value appeared meanwhile");
    assert_eq!(endpoint(site.read("ElementalCluster", "late").await), users);
}

#[tokio::test]
async fn a_deleted_object_leaves_no_ghost() {
    let Some(site) = Site::start().await else {
        return;
    };
    site.cluster("c", json!({})).await;
    site.apply("user", infra("c", json!({}))).await;
    let store = site.leader("a").await;
    let api = site.api(INFRA, "v1beta1", "ElementalCluster");
    api.delete("c", &DeleteParams::default()).await.unwrap();
    let ours = json!({"host": "10.20.14.10", "port": 6443});
    let refused = store.write(vec![fill("c", &ours)]).await;
    assert!(refused.is_err(), "it is gone");
    assert!(api.get_opt("c").await.unwrap().is_none(), "and stays so");

    // Another one of the same name is not the one that was decided about.
    site.apply("user", infra("c", json!({}))).await;
    assert!(api.get_opt("c").await.unwrap().is_some());
}

#[tokio::test]
async fn an_object_of_ours_lives_as_long_as_its_last_layer() {
    let Some(site) = Site::start().await else {
        return;
    };
    let store = site.leader("a").await;
    let key = ObjectKey::new("kedge.dev", "EdgeHost", Name::new(NS, "h"));
    let layer = |manager: &str, spec: Option<Value>| Write {
        key: key.clone(),
        layer: Layer::Owned(manager.to_owned()),
        content: spec.map(|spec| {
            json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "EdgeHost",
                "metadata": {"name": "h", "namespace": NS}, "spec": spec})
        }),
    };
    let enrolled = layer(managers::ENROL, Some(json!({"tenant": "t"})));
    let mark = json!({"config": {"generation": 1, "digest": "d"}});
    let marked = layer(managers::CONFIG, Some(mark));
    store
        .write(vec![enrolled.clone(), marked.clone()])
        .await
        .unwrap();
    let layers = store.objects().get(&key).cloned().unwrap();
    assert_eq!(layers.user, None);
    assert_eq!(layers.owned[managers::ENROL], enrolled.content.unwrap());
    assert_eq!(layers.owned[managers::CONFIG], marked.content.unwrap());
    let mut unmarked = layer(managers::CONFIG, None);
    store.write(vec![unmarked.clone()]).await.unwrap();
    let host = site.read("EdgeHost", "h").await;
    assert_eq!(
        host["spec"],
        json!({"tenant": "t"}),
        "its fields are given up"
    );
    unmarked.layer = Layer::Owned(managers::ENROL.to_owned());
    store.write(vec![unmarked]).await.unwrap();
    let hosts = site.api("kedge.dev", "v1alpha1", "EdgeHost");
    assert!(hosts.get_opt("h").await.unwrap().is_none());
    assert!(store.objects().get(&key).is_none());
}

#[tokio::test]
async fn of_two_managers_one_writes_and_the_other_takes_over() {
    let Some(site) = Site::start().await else {
        return;
    };
    site.apply("user", infra("x", json!({}))).await;
    let one = site.connect("one").await;
    eventually("one leads", LIMIT, async || one.leads()).await;
    let two = site.connect("two").await;
    let (first, second) = (Store::from(one.clone()), Store::from(two.clone()));
    let write = balancer();
    assert!(second.write(vec![write.clone()]).await.is_err());
    let balancers = site.api("kedge.dev", "v1alpha1", "LoadBalancer");
    assert!(balancers.get_opt("lb").await.unwrap().is_none());
    first.write(vec![write.clone()]).await.unwrap();
    assert!(!two.leads());
    first.close().await;
    assert!(first.write(vec![write.clone()]).await.is_err(), "it left");
    eventually("the other leads", LIMIT, async || two.leads()).await;
    second.write(vec![write]).await.unwrap();
}

#[tokio::test]
async fn a_lease_that_was_renewed_as_its_holder_stopped_is_given_back_all_the_same() {
    let Some(site) = Site::start().await else {
        return;
    };
    let store = site.leader("a").await;
    // As a renewal whose answer did not come any more.
    let renewed = json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}});
    let leases: Api<Lease> = Api::namespaced(site.client.clone(), "kedge-system");
    let (how, renewed) = (PatchParams::default(), Patch::Merge(renewed));
    leases.patch(LEASE, &how, &renewed).await.unwrap();
    store.close().await;
    let lease = leases.get(LEASE).await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.unwrap_or_default(), "");
}

#[tokio::test]
async fn what_was_decided_before_somebody_else_led_is_not_carried_out() {
    let Some(site) = Site::start().await else {
        return;
    };
    let store = site.leader("a").await;
    let balancers = site.api("kedge.dev", "v1alpha1", "LoadBalancer");
    let write = balancer();
    let carry = async |reign| {
        let writes = vec![write.clone()];
        store.carry_out(writes, &BTreeSet::new(), reign).await
    };
    let before = store.reign().await.unwrap().unwrap();
    let other = json!({"spec": {"holderIdentity": "b", "leaseDurationSeconds": 1}});
    let leases: Api<Lease> = Api::namespaced(site.client.clone(), "kedge-system");
    let (how, taken) = (PatchParams::default(), Patch::Merge(other));
    leases.patch(LEASE, &how, &taken).await.unwrap();
    eventually("another leads", LIMIT, async || !store.leads()).await;
    assert_eq!(store.reign().await.unwrap(), None);
    eventually("it leads again", LIMIT, async || store.leads()).await;
    let outcome = carry(before).await;
    assert!(outcome.broken.is_some(), "{outcome:?}");
    assert!(balancers.get_opt("lb").await.unwrap().is_none());
    let now = store.reign().await.unwrap().unwrap();
    let outcome = carry(now).await;
    assert!(
        outcome.broken.is_none() && outcome.held.is_empty(),
        "{outcome:?}"
    );
    assert!(balancers.get_opt("lb").await.unwrap().is_some());
}

#[tokio::test]
async fn two_managers_share_an_authority_and_one_of_them_fills() {
    let Some(site) = Site::start().await else {
        return;
    };
    site.ask().await;
    let any = ([127, 0, 0, 1], 0).into();
    let options = || {
        let mut options = ManagerOptions::new(Path::new("/nonexistent"), any);
        options.place = Place::Kubeconfig(site.server.kubeconfig("admin"));
        options
    };
    let (first, second) = (options(), options());
    let (one, two) = tokio::join!(Manager::start(&first), Manager::start(&second));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.world.authority.pin(), two.world.authority.pin());
    for manager in [&one, &two] {
        eventually("a manager shows the endpoint", LIMIT, async || {
            let state = manager.world.state().await;
            let endpoint = state.endpoints().next();
            endpoint.is_some_and(|it| it.endpoint.as_deref() == Some("10.20.14.10:6443"))
        })
        .await;
    }
    let filled = site.read("ElementalCluster", "c").await;
    assert_eq!(
        filled["spec"]["controlPlaneEndpoint"],
        json!({"host": "10.20.14.10", "port": 6443})
    );
    // What follows from the endpoint is written after it is shown; then nothing more is.
    let versions = async || site.versions().await;
    at_rest("what is written", Duration::from_secs(2), LIMIT, versions).await;

    // A blank that comes later is filled within moments.
    let owner = site.cluster("d", json!({})).await.metadata.uid.unwrap();
    let mut asked = infra("d", json!({"metadata": {"annotations": asking()}}));
    asked["metadata"]["ownerReferences"][0]["uid"] = json!(owner);
    site.apply("user", asked).await;
    eventually("the next blank is filled", LIMIT, async || {
        let object = site.read("ElementalCluster", "d").await;
        object["spec"]["controlPlaneEndpoint"]["host"] == "10.20.14.11"
    })
    .await;
    one.stop().await;
    two.stop().await;
}

struct Site {
    server: Server,
    client: Client,
}

impl Site {
    async fn start() -> Option<Self> {
        let server = Server::start().await?;
        let client = server.client().await;
        let mut definitions: Vec<Value> = KINDS.iter().map(Kind::crd).collect();
        definitions.extend(elemental_crds());
        definitions.extend([open("Cluster", "clusters"), open("Machine", "machines")]);
        manifests::apply_definitions(&client, &definitions).await;
        let site = Self { server, client };
        for space in [NS, "kedge-system"] {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}});
            manifests::apply(&site.client, &[namespace]).await;
        }
        Some(site)
    }

    /// A Cluster with a blank endpoint that asks for a VIP.
    async fn ask(&self) {
        let owner = self.cluster("c", json!({})).await.metadata.uid.unwrap();
        let mut asked = infra("c", json!({"metadata": {"annotations": asking()}}));
        asked["metadata"]["ownerReferences"][0]["uid"] = json!(owner);
        self.apply("user", asked).await;
        self.apply(
            "user",
            json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "VIPPool",
                "metadata": {"name": "lan", "namespace": NS},
                "spec": {"addresses": ["10.20.14.10-10.20.14.12"], "prefix": 24}}),
        )
        .await;
    }

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(group, version, kind);
        Api::namespaced_with(self.client.clone(), NS, &ApiResource::from_gvk(&kind))
    }

    async fn apply(&self, manager: &str, object: Value) -> DynamicObject {
        let (group, version) = object["apiVersion"]
            .as_str()
            .unwrap()
            .split_once('/')
            .unwrap();
        let kind = object["kind"].as_str().unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        let mut api = self.api(group, version, kind);
        if kind == "VIPPool" {
            let resource = ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk(group, version, kind),
                "vippools",
            );
            api = Api::namespaced_with(self.client.clone(), NS, &resource);
        }
        let params = PatchParams::apply(manager).force();
        api.patch(name, &params, &Patch::Apply(&object))
            .await
            .unwrap()
    }

    /// A Cluster whose infrastructure is the ElementalCluster of its name.
    async fn cluster(&self, name: &str, spec: Value) -> DynamicObject {
        let mut object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": NS}, "spec": {"infrastructureRef":
                {"apiGroup": INFRA, "kind": "ElementalCluster", "name": name}}});
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        self.apply("user", object).await
    }

    async fn read(&self, kind: &str, name: &str) -> Value {
        let api = match kind {
            "ElementalCluster" => self.api(INFRA, "v1beta1", kind),
            _ => self.api("kedge.dev", "v1alpha1", kind),
        };
        serde_json::to_value(api.get(name).await.unwrap()).unwrap()
    }

    /// The version of every object that is there.
    async fn versions(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (group, version, kind) in [
            (INFRA, "v1beta1", "ElementalCluster"),
            (CAPI, "v1beta2", "Cluster"),
            ("kedge.dev", "v1alpha1", "LoadBalancer"),
        ] {
            let api = self.api(group, version, kind);
            for object in api.list(&Default::default()).await.unwrap() {
                let meta = object.metadata;
                found.push((
                    format!("{kind} {}", meta.name.unwrap()),
                    meta.resource_version.unwrap(),
                ));
            }
        }
        found
    }

    async fn connect(&self, me: &str) -> Cluster {
        let access = Access {
            me: me.to_owned(),
            terms: Terms {
                duration: Duration::from_secs(3),
                renew_deadline: Duration::from_secs(2),
                retry: Duration::from_millis(500),
            },
            name: "the test's cluster".to_owned(),
            config: None,
        };
        Cluster::connect(self.client.clone(), access).await.unwrap()
    }

    async fn leader(&self, me: &str) -> Store {
        let cluster = self.connect(me).await;
        eventually("it leads", LIMIT, async || cluster.leads()).await;
        Store::from(cluster)
    }
}

fn asking() -> Value {
    json!({"kedge.dev/endpoint-mode": "VIP", "kedge.dev/vip-pool": "lan"})
}

fn look(store: &Store) -> Snapshot {
    let objects = store.objects();
    Snapshot::observe(&objects, Live::default(), "", "2026-01-01T00:00:00Z")
        .within(store.environment())
}

fn infra_key(name: &str) -> ObjectKey {
    ObjectKey::new(INFRA, "ElementalCluster", Name::new(NS, name))
}

fn infra(name: &str, with: Value) -> Value {
    let mut object = json!({"apiVersion": format!("{INFRA}/v1beta1"), "kind": "ElementalCluster",
        "metadata": {"name": name, "namespace": NS, "ownerReferences": [{
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name,
            "uid": "6f1b1a52-1f0c-4b0c-8a8a-1c1f5d3f0a11"}]}});
    for (field, value) in with.as_object().unwrap() {
        match (field.as_str(), value.as_object()) {
            ("metadata", Some(metadata)) => {
                for (field, value) in metadata {
                    object["metadata"][field] = value.clone();
                }
            }
            _ => object[field] = value.clone(),
        }
    }
    object
}

fn fill(name: &str, endpoint: &Value) -> Write {
    Write {
        key: infra_key(name),
        layer: Layer::Owned(managers::ENDPOINT.to_owned()),
        content: Some(
            json!({"apiVersion": format!("{INFRA}/v1beta1"), "kind": "ElementalCluster",
                "metadata": {"name": name, "namespace": NS},
                "spec": {"controlPlaneEndpoint": endpoint}}),
        ),
    }
}

/// Makes a LoadBalancer.
fn balancer() -> Write {
    Write {
        key: key::<LoadBalancerSpec>(&Name::new(NS, "lb")),
        layer: Layer::Owned(managers::ENDPOINT.to_owned()),
        content: Some(
            json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "LoadBalancer",
                "metadata": {"name": "lb", "namespace": NS}, "spec": {"clusterName": "c"}}),
        ),
    }
}

/// A kind of Cluster API's whose schema says nothing.
fn open(kind: &str, plural: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{CAPI}")},
        "spec": {"group": CAPI, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1beta2", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// Long: the machine may stand still for a while.
const LIMIT: Duration = Duration::from_secs(60);
