//! Our kinds on a real API server: their definitions, their rules, their tables.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kedge_crd::{
    Condition,
    kinds::{KINDS, Kind},
    testing::{CASES, elemental_crds, good},
    validate::validate,
};
use kedge_tests_kube::{eventually, server::Server};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

#[tokio::test]
async fn every_kind_is_established_and_a_good_object_is_taken_as_it_is() {
    let Some(server) = Server::start().await else {
        return;
    };
    let client = server.client().await;
    install(&client, KINDS.iter().map(Kind::crd).collect()).await;
    for kind in KINDS {
        let document = good(kind.kind);
        let taken = apply(&client, &kind, "good", &document).await.unwrap();
        // Nothing was pruned, nothing was added.
        assert_eq!(taken.data["spec"], document["spec"], "{}", kind.kind);
        assert_eq!(validate(&document, None), Ok(()), "{}", kind.kind);
    }
}

#[tokio::test]
async fn the_server_and_we_accept_and_refuse_the_same() {
    let Some(server) = Server::start().await else {
        return;
    };
    let client = server.client().await;
    install(&client, KINDS.iter().map(Kind::crd).collect()).await;
    for (number, case) in CASES.iter().enumerate() {
        let kind = Kind::of(case.kind).unwrap();
        let name = format!("case-{number}");
        if let Some(old) = case.was() {
            let made = apply(&client, kind, &name, &old).await;
            assert!(made.is_ok(), "{case:?}: {made:?}");
            if let Some(status) = old.get("status") {
                let patch = Patch::Merge(json!({"status": status}));
                let objects = api(&client, kind);
                let params = PatchParams::default();
                objects.patch_status(&name, &params, &patch).await.unwrap();
            }
        }
        match (
            case.refused,
            apply(&client, kind, &name, &case.becomes()).await,
        ) {
            (None, verdict) => assert!(verdict.is_ok(), "{case:?}: {verdict:?}"),
            (Some(message), Err(kube::Error::Api(told))) => {
                assert_eq!(told.code, 422, "{case:?}: {told}");
                let worded_alike = !SCHEMA.contains(&message);
                assert!(
                    !worded_alike || told.message.contains(message),
                    "{case:?}: {told}"
                );
            }
            (Some(_), verdict) => panic!("{case:?}: {verdict:?}"),
        }
    }
}

/// Messages of the schema, which a server words in its own way.
const SCHEMA: &[&str] = &["multiple of", "at least 1"];

#[tokio::test]
async fn tables_have_the_columns_people_look_for() {
    let Some(server) = Server::start().await else {
        return;
    };
    let client = server.client().await;
    install(&client, KINDS.iter().map(Kind::crd).collect()).await;
    for (kind, status, columns, cells) in TABLES {
        let kind = Kind::of(kind).unwrap();
        apply(&client, kind, "good", &good(kind.kind))
            .await
            .unwrap();
        let status: Value = serde_json::from_str(status).unwrap();
        let patch = Patch::Merge(json!({"status": status}));
        let objects = api(&client, kind);
        let labels = Patch::Merge(json!({"metadata": {"labels": {
            "cluster.x-k8s.io/cluster-name": "a",
        }}}));
        let params = PatchParams::default();
        objects.patch("good", &params, &labels).await.unwrap();
        objects.patch_status("good", &params, &patch).await.unwrap();
        let table = table(&client, kind).await;
        let names: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        let shown: Vec<String> = table["rows"][0]["cells"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| cell.as_str().map_or(cell.to_string(), str::to_owned))
            .collect();
        println!("{names:?}\n{shown:?}");
        assert_eq!(names[0], "Name");
        assert_eq!(&names[1..], *columns, "{}", kind.kind);
        // All but the name and the age.
        assert_eq!(&shown[1..shown.len() - 1], *cells, "{}", kind.kind);
    }
}

type Table = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const TABLES: &[Table] = &[
    (
        "Tenant",
        r#"{"namespace": "tenant-good", "hosts": 3, "loadBalancers": 1, "usage": {"hosts": 3, "loadBalancers": 1, "ports": 4, "names": 2, "addresses": 5}, "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]}"#,
        &[
            "Namespace",
            "Hosts",
            "LBs",
            "Ports",
            "Addresses",
            "Ready",
            "Age",
        ],
        &["tenant-good", "3", "1", "4", "5", "True"],
    ),
    (
        "EdgeHost",
        r#"{"addresses": [{"type": "InternalIP", "address": "10.0.0.1", "primary": true, "family": "IPv4", "because": "x"}], "node": {"name": "n", "ready": true}, "tunnel": {"gateway": "gw-0", "lastTransition": "2026-01-01T00:00:00Z"}, "vips": [{"lb": "a", "address": "10.0.0.9", "state": "Active"}]}"#,
        &[
            "Tenant", "Address", "Cluster", "Tunnel", "VIPs", "Ready", "Age",
        ],
        &["a", "10.0.0.1", "a", "gw-0", "10.0.0.9", "null"],
    ),
    (
        "EdgeGateway",
        r#"{"instances": [{"name": "a", "peersAlive": ["h"], "publicKeys": [{"key": "k"}], "dataPlane": "Userspace"}], "peers": 1, "envoysReady": 2, "envoys": [{"id": "e", "ackedVersion": "1", "nacks": 0}]}"#,
        &["Endpoint", "Peers", "Envoys", "Ready", "Age"],
        &["gw.example.net", "1", "2", "null"],
    ),
    (
        "LoadBalancer",
        r#"{"endpoint": {"host": "10.0.0.9", "port": 6443}, "targets": [{"name": "m", "state": "active"}], "targetCount": 1, "activeCount": 1}"#,
        &[
            "Cluster", "Mode", "Endpoint", "Targets", "Active", "Ready", "Age",
        ],
        &["a", "VIP", "10.0.0.9", "1", "1", "null"],
    ),
    (
        "TCPLoadBalancer",
        r#"{"ingress": [{"ip": "192.0.2.1", "ports": [{"port": 53, "protocol": "UDP"}]}], "activeEndpoints": 2}"#,
        &["Source", "Ports", "Ingress", "Active", "Ready", "Age"],
        &["shop", "53", "192.0.2.1", "2", "null"],
    ),
    (
        "HTTPLoadBalancer",
        r#"{"ingress": [{"ip": "192.0.2.1"}], "hostnames": [{"hostname": "a", "dns": "True", "tls": "False"}]}"#,
        &["Hosts", "Ingress", "Ready", "Age"],
        &[
            r#"["shop.example.net","*.shop.example.net","*"]"#,
            "192.0.2.1",
            "null",
        ],
    ),
    (
        "VIPPool",
        r#"{"ipAddresses": {"total": 10, "free": 7, "used": 3, "outOfRange": 0}}"#,
        &["Total", "Free", "Used", "Age"],
        &["10", "7", "3"],
    ),
];

#[tokio::test]
async fn fields_select_and_unknown_fields_are_pruned_or_refused() {
    let Some(server) = Server::start().await else {
        return;
    };
    let client = server.client().await;
    install(&client, KINDS.iter().map(Kind::crd).collect()).await;
    let balancer = Kind::of("LoadBalancer").unwrap();
    for (name, cluster) in [("one", "a"), ("two", "b")] {
        let mut document = good("LoadBalancer");
        document["spec"]["clusterName"] = json!(cluster);
        apply(&client, balancer, name, &document).await.unwrap();
    }
    let found = async |selector: &str| -> Vec<String> {
        let params = ListParams::default().fields(selector);
        let list = api(&client, balancer).list(&params).await.unwrap();
        list.into_iter()
            .filter_map(|one| one.metadata.name)
            .collect()
    };
    assert_eq!(found("spec.clusterName=b").await, ["two"]);
    assert_eq!(found("spec.mode=VIP,spec.clusterName=a").await, ["one"]);
    assert!(found("spec.mode=Tunnel").await.is_empty());

    // A client that asks for strictness is told; any other loses the field.
    let mut typo = good("VIPPool");
    typo["spec"]["adresses"] = json!(["10.0.0.1"]);
    let send = async |validation: &str| {
        let path = format!(
            "/apis/{}/namespaces/default/vippools?fieldValidation={validation}",
            Kind::api_version()
        );
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(typo.to_string().into_bytes())
            .unwrap();
        client.request::<Value>(request).await
    };
    let refused = send("Strict").await.unwrap_err().to_string();
    assert!(
        refused.contains("unknown field \"spec.adresses\""),
        "{refused}"
    );
    let taken = send("Ignore").await.unwrap();
    assert_eq!(taken["spec"].get("adresses"), None);
    // The server-side apply of a manager is refused as well.
    let pool = Kind::of("VIPPool").unwrap();
    assert!(apply(&client, pool, "other", &typo).await.is_err());

    let gone = api(&client, balancer);
    gone.delete("one", &DeleteParams::default()).await.unwrap();
    assert_eq!(found("").await, ["two"]);
}

#[tokio::test]
async fn two_writers_share_an_instance_and_a_condition_keeps_its_generation() {
    let Some(server) = Server::start().await else {
        return;
    };
    let client = server.client().await;
    install(&client, KINDS.iter().map(Kind::crd).collect()).await;
    let kind = Kind::of("EdgeGateway").unwrap();
    let gateways = api(&client, kind);
    let write = async |manager: &str, instance: Value| {
        let document = json!({
            "apiVersion": Kind::api_version(), "kind": kind.kind, "metadata": {"name": "gw"},
            "spec": {"instances": [instance]},
        });
        let params = PatchParams::apply(manager);
        gateways.patch("gw", &params, &Patch::Apply(document)).await
    };
    let enrolled = json!({"name": "a", "publicKeys": ["k"], "identity": {"uid": "u"}});
    let placed = json!({"name": "a", "addresses": ["198.18.0.2/32"]});
    write("enrol", enrolled).await.unwrap();
    let both = write("overlay", placed).await.unwrap();
    let instance = &both.data["spec"]["instances"][0];
    assert_eq!(instance["identity"]["uid"], "u");
    assert_eq!(instance["addresses"][0], "198.18.0.2/32");

    let mut ready = Condition::new("Ready", true, "Ready", "it serves");
    ready.last_transition_time = "2026-01-01T00:00:00Z".to_owned();
    ready.observed_generation = both.metadata.generation;
    let document = json!({
        "apiVersion": Kind::api_version(), "kind": kind.kind, "metadata": {"name": "gw"},
        "status": {"conditions": [ready]},
    });
    let params = PatchParams::apply("status");
    let patch = Patch::Apply(&document);
    let first = gateways.patch_status("gw", &params, &patch).await.unwrap();
    let kept: Condition =
        serde_json::from_value(first.data["status"]["conditions"][0].clone()).unwrap();
    assert_eq!(kept, ready);
    assert_eq!(kept.observed_generation, first.metadata.generation);
    // The same again changes nothing.
    let second = gateways.patch_status("gw", &params, &patch).await.unwrap();
    let version = |one: &DynamicObject| one.metadata.resource_version.clone();
    assert_eq!(version(&first), version(&second));
}

#[tokio::test]
async fn elementals_definitions_hold_its_schema() {
    let Some(server) = Server::start().await else {
        return;
    };
    let client = server.client().await;
    install(&client, elemental_crds()).await;
    let clusters = elemental(&client, "ElementalCluster");
    let apply = async |spec: Value| {
        let document = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "ElementalCluster",
            "metadata": {"name": "a"}, "spec": spec,
        });
        let params = PatchParams::apply("user").force();
        clusters.patch("a", &params, &Patch::Apply(document)).await
    };
    // Both keys or neither; an empty host passes.
    assert!(apply(json!({})).await.is_ok());
    assert!(
        apply(json!({"controlPlaneEndpoint": {"port": 6443}}))
            .await
            .is_err()
    );
    assert!(
        apply(json!({"controlPlaneEndpoint": {"host": "", "port": 6443}}))
            .await
            .is_ok()
    );
    // A machine has no addresses to report.
    let machines = elemental(&client, "ElementalMachine");
    let machine = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "ElementalMachine",
        "metadata": {"name": "m"}, "spec": {"selector": {"matchLabels": {"a": "b"}}},
    });
    let params = PatchParams::apply("user");
    machines
        .patch("m", &params, &Patch::Apply(machine))
        .await
        .unwrap();
    let status = Patch::Merge(json!({"status": {"addresses": [{"address": "10.0.0.1"}]}}));
    let kept = machines
        .patch_status("m", &PatchParams::default(), &status)
        .await
        .unwrap();
    assert_eq!(kept.data["status"].get("addresses"), None);
}

async fn install(client: &Client, definitions: Vec<Value>) {
    let all: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut names = Vec::new();
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        let params = PatchParams::apply("install").force();
        let made = all.patch(&name, &params, &Patch::Apply(definition)).await;
        made.unwrap_or_else(|error| panic!("{name}: {error}"));
        names.push(name);
    }
    eventually(
        "definitions established",
        Duration::from_secs(20),
        async || {
            let known = all.list(&ListParams::default()).await.unwrap();
            names.iter().all(|name| {
                known.iter().any(|one| {
                    let conditions = one.status.iter().flat_map(|status| &status.conditions);
                    let mut conditions = conditions.flatten();
                    one.metadata.name.as_ref() == Some(name)
                        && conditions.any(|it| it.type_ == "Established" && it.status == "True")
                })
            })
        },
    )
    .await;
}

async fn apply(
    client: &Client,
    kind: &Kind,
    name: &str,
    document: &Value,
) -> Result<DynamicObject, kube::Error> {
    let mut document = document.clone();
    document["metadata"]["name"] = json!(name);
    if let Some(fields) = document.as_object_mut() {
        fields.remove("status");
    }
    let params = PatchParams::apply("user").force();
    let patch = Patch::Apply(document);
    api(client, kind).patch(name, &params, &patch).await
}

fn api(client: &Client, kind: &Kind) -> Api<DynamicObject> {
    let (group, version) = ("kedge.dev", "v1alpha1");
    let known = GroupVersionKind::gvk(group, version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&known, kind.plural);
    if kind.namespaced {
        Api::namespaced_with(client.clone(), "default", &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    }
}

fn elemental(client: &Client, kind: &str) -> Api<DynamicObject> {
    let known = GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", "v1beta1", kind);
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&known))
}

async fn table(client: &Client, kind: &Kind) -> Value {
    let space = if kind.namespaced {
        "/namespaces/default"
    } else {
        ""
    };
    let path = format!("/apis/{}{space}/{}", Kind::api_version(), kind.plural);
    let request = http::Request::get(path)
        .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
        .body(Vec::new())
        .unwrap();
    client.request(request).await.unwrap()
}
