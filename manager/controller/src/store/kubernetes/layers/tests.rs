use kedge_crd::{LoadBalancerSpec, capi, elemental};

use super::*;
use crate::snapshot;

fn infra() -> ObjectKey {
    ObjectKey::new(elemental::GROUP, "ElementalCluster", Name::new("edge", "c"))
}

fn balancer() -> ObjectKey {
    snapshot::key::<LoadBalancerSpec>(&Name::new("edge", "c"))
}

fn entry(manager: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields})
}

fn object(key: &ObjectKey, managed: Vec<Value>, body: Value) -> Value {
    let mut object = identity(key, "g/v1");
    fields::put(
        &mut object,
        json!({"metadata": {"uid": "u", "resourceVersion": "7", "generation": 2,
            "managedFields": managed}}),
    );
    fields::put(&mut object, body);
    object
}

fn split(key: &ObjectKey, object: Value) -> Seen {
    super::split(key, serde_json::from_value(object).unwrap())
}

#[test]
fn the_fill_is_ours_and_the_rest_is_the_users() {
    let endpoint = json!({"host": "10.0.0.1", "port": 6443});
    let seen = split(
        &infra(),
        object(
            &infra(),
            vec![
                entry("kubectl", json!({"f:spec": {"f:other": {}}})),
                entry(
                    managers::ENDPOINT,
                    json!({"f:spec": {"f:controlPlaneEndpoint": {"f:host": {}, "f:port": {}}}}),
                ),
            ],
            json!({"spec": {"controlPlaneEndpoint": endpoint, "other": 1}, "status": {"ready": true}}),
        ),
    );
    let document = &seen.layers.owned[managers::ENDPOINT];
    let wanted = json!({"apiVersion": "g/v1", "kind": "ElementalCluster",
        "metadata": {"name": "c", "namespace": "edge"}, "spec": {"controlPlaneEndpoint": endpoint}});
    assert_eq!(*document, wanted);
    let user = &seen.layers.user.as_ref().unwrap().value;
    assert_eq!(user["spec"], json!({"other": 1}));
    assert_eq!(
        user["status"],
        json!({"ready": true}),
        "of others' kinds it is read"
    );
    assert_eq!(user["metadata"]["uid"], "u");
    assert_eq!(user["metadata"].get("resourceVersion"), None);
    assert_eq!(seen.layers.status, None);
    assert!(!seen.is_ours);
    let server = seen.layers.server.unwrap();
    assert_eq!(
        (server.uid.as_str(), server.resource_version.as_str()),
        ("u", "7")
    );
    assert_eq!(server.generation, Some(2));
}

#[test]
fn a_blank_host_stays_the_users_until_it_is_taken() {
    let theirs = json!({"f:spec": {"f:controlPlaneEndpoint": {"f:host": {}, "f:port": {}}}});
    let blank = json!({"spec": {"controlPlaneEndpoint": {"host": "", "port": 0}}});
    let seen = split(
        &infra(),
        object(&infra(), vec![entry("argocd", theirs)], blank.clone()),
    );
    let server = seen.layers.server.as_ref();
    assert_eq!(server.unwrap().endpoint_owners, ["argocd"]);
    assert_eq!(seen.layers.user.unwrap().value["spec"], blank["spec"]);
    assert!(seen.layers.owned.is_empty());
}

#[test]
fn a_value_that_a_user_applied_too_is_the_users() {
    let host = json!({"f:spec": {"f:controlPlaneEndpoint": {"f:host": {}, "f:port": {}}}});
    let body = json!({"spec": {"controlPlaneEndpoint": {"host": "a", "port": 1}}});
    let managed = vec![
        entry("kubectl", host.clone()),
        entry(managers::ENDPOINT, host),
    ];
    let seen = split(&infra(), object(&infra(), managed, body.clone()));
    assert_eq!(seen.layers.user.unwrap().value["spec"], body["spec"]);
    assert_eq!(seen.layers.owned[managers::ENDPOINT]["spec"], body["spec"]);
}

#[test]
fn an_object_wholly_made_by_us_has_no_user() {
    let ours = |spec: Value| json!({"f:metadata": {"f:labels": {"f:l": {}}}, "f:spec": spec});
    let status = json!({"manager": managers::STATUS, "operation": "Apply",
        "subresource": "status", "fieldsV1": {"f:status": {"f:x": {}}}});
    let body = json!({"metadata": {"labels": {"l": "1"}},
        "spec": {"clusterName": "c", "defaulted": 1}, "status": {"x": 1}});
    let managed = vec![
        entry(managers::ENDPOINT, ours(json!({"f:clusterName": {}}))),
        status.clone(),
    ];
    let seen = split(
        &balancer(),
        object(&balancer(), managed.clone(), body.clone()),
    );
    assert!(seen.is_ours);
    assert_eq!(seen.layers.user, None);
    assert_eq!(
        seen.layers.owned[managers::ENDPOINT],
        json!({"apiVersion": "g/v1", "kind": "LoadBalancer", "metadata": {"name": "c",
            "namespace": "edge", "labels": {"l": "1"}}, "spec": {"clusterName": "c"}})
    );
    assert_eq!(seen.layers.status.unwrap()["status"], json!({"x": 1}));

    // An admin's label is seen, and does not make the object the admin's.
    let mut labelled = managed.clone();
    labelled.push(entry(
        "kubectl-label",
        json!({"f:metadata": {"f:labels": {"f:mine": {}}}}),
    ));
    let mut with_label = body.clone();
    with_label["metadata"]["labels"]["mine"] = json!("x");
    let seen = split(&balancer(), object(&balancer(), labelled, with_label));
    assert!(seen.is_ours);
    let user = seen.layers.user.unwrap().value;
    assert_eq!(user["metadata"]["labels"], json!({"mine": "x"}));
    assert_eq!(user.get("spec"), None);

    // A user who says something of the spec makes it the user's.
    let mut taken = managed;
    taken.push(entry("kubectl", json!({"f:spec": {"f:clusterName": {}}})));
    let seen = split(&balancer(), object(&balancer(), taken, body));
    assert!(!seen.is_ours);
    let user = seen.layers.user.unwrap().value;
    assert_eq!(user["spec"], json!({"clusterName": "c", "defaulted": 1}));
}

#[test]
fn an_object_that_a_user_created_empty_is_the_users() {
    let seen = split(&balancer(), object(&balancer(), Vec::new(), json!({})));
    assert!(!seen.is_ours && seen.layers.user.is_some());
}

#[test]
fn what_was_given_is_read_from_its_annotation() {
    let given =
        json!({"metadata": {"labels": {capi::CLUSTER_NAME_LABEL: "c"}}, "spec": {"mode": "VIP"}});
    let body = json!({"metadata": {"annotations": {GIVEN_ANNOTATION: given.to_string()}},
        "spec": {"clusterName": "c"}});
    let annotation = json!({"f:metadata": {"f:annotations": {"f:kedge.dev/given": {}}}});
    let managed = vec![
        entry(managers::GIVEN, annotation),
        entry("kubectl", json!({"f:spec": {"f:clusterName": {}}})),
    ];
    let seen = split(&balancer(), object(&balancer(), managed, body));
    let mut wanted = identity(&balancer(), "g/v1");
    fields::put(&mut wanted, given);
    assert_eq!(seen.layers.owned[managers::GIVEN], wanted);
    let user = seen.layers.user.unwrap().value;
    assert_eq!(user["metadata"].get("annotations"), None);
    assert_eq!(user["spec"], json!({"clusterName": "c"}));
}

#[test]
fn marks_are_ours_on_objects_of_others() {
    let key = ObjectKey::new(capi::GROUP, "Machine", Name::new("edge", "m"));
    let marks = json!({"f:metadata": {"f:annotations": {"f:a": {}},
        "f:finalizers": {"v:\"kedge.dev/x\"": {}}}});
    let theirs = json!({"f:metadata": {"f:annotations": {".": {}, "f:b": {}},
        "f:finalizers": {".": {}, "v:\"capi\"": {}}}, "f:spec": {"f:clusterName": {}}});
    let body = json!({"metadata": {"annotations": {"a": "1", "b": "2"},
        "finalizers": ["capi", "kedge.dev/x"]}, "spec": {"clusterName": "c"}});
    let managed = vec![entry("capi", theirs), entry(managers::MARKS, marks)];
    let seen = split(&key, object(&key, managed, body));
    assert_eq!(
        seen.layers.marks,
        Some(json!({"metadata": {"annotations": {"a": "1"}, "finalizers": ["kedge.dev/x"]}}))
    );
    let user = seen.layers.user.unwrap().value;
    assert_eq!(user["metadata"]["annotations"], json!({"b": "2"}));
    assert_eq!(user["metadata"]["finalizers"], json!(["capi"]));
}

#[test]
fn of_a_foreign_status_only_our_fields_are_ours() {
    let status = json!({"manager": managers::STATUS, "operation": "Apply",
        "subresource": "status", "fieldsV1": {"f:status": {"f:ready": {}}}});
    let body = json!({"spec": {"x": 1}, "status": {"ready": true, "phase": "p"}});
    let seen = split(&infra(), object(&infra(), vec![status], body));
    assert_eq!(
        seen.layers.status.unwrap()["status"],
        json!({"ready": true})
    );
    assert_eq!(
        seen.layers.user.unwrap().value["status"],
        json!({"phase": "p"})
    );
}

#[test]
fn a_secrets_data_is_read_as_it_was_written() {
    let key = ObjectKey::new("", "Secret", Name::new("edge", "kedge-token-a"));
    let own = json!({"f:data": {"f:record": {}}, "f:type": {}});
    let body =
        json!({"type": "kedge.dev/enrollment-token", "data": {"record": STANDARD.encode("{}")}});
    let seen = split(&key, object(&key, vec![entry(managers::TOKEN, own)], body));
    let document = &seen.layers.owned[managers::TOKEN];
    assert_eq!(document["stringData"], json!({"record": "{}"}));
    assert_eq!(document["type"], "kedge.dev/enrollment-token");
    assert_eq!(document.get("data"), None);
    assert!(seen.is_ours);
}

#[test]
fn an_item_that_several_of_us_fill_is_no_users_and_comes_back_whole() {
    let object = json!({
        "apiVersion": "kedge.dev/v1alpha1", "kind": "EdgeGateway",
        "metadata": {"name": "gw", "namespace": "kedge-system", "managedFields": [
            entry("user", json!({"f:spec": {"f:tunnel": {"f:mtu": {}}}})),
            entry(managers::CONFIG, instance(&json!({"f:config": {"f:generation": {}}}))),
            entry(managers::ENROL, instance(&json!({"f:identity": {"f:uid": {}}}))),
            entry(managers::OVERLAY, instance(&json!({"f:addresses": {}}))),
        ]},
        "spec": {"tunnel": {"mtu": 1420}, "instances": [{"name": "gw-0",
            "config": {"generation": 1}, "identity": {"uid": "u"}, "addresses": ["10.0.0.1/32"]}]},
    });
    let whole = object["spec"].clone();
    let key = ObjectKey::new("kedge.dev", "EdgeGateway", Name::new("kedge-system", "gw"));
    let layers = split(&key, object).layers;
    let user = layers.user.clone().unwrap().value;
    assert_eq!(user["spec"], json!({"tunnel": {"mtu": 1420}}));
    assert_eq!(layers.effective()["spec"], whole);
}

fn instance(fields: &Value) -> Value {
    let mut item = json!({".": {}, "f:name": {}});
    fields::put(&mut item, fields.clone());
    json!({"f:spec": {"f:instances": {"k:{\"name\":\"gw-0\"}": item}}})
}

#[test]
fn a_hook_that_a_backup_brought_back_is_ours_to_take_away() {
    let machine = ObjectKey::new(capi::GROUP, "Machine", Name::new("edge", "m"));
    let hook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/kedge-lb";
    let theirs = json!({"f:metadata": {"f:annotations": {"f:a": {}, format!("f:{hook}"): {}},
        "f:finalizers": {"v:\"capi\"": {}}}, "f:spec": {"f:x": {}}});
    let of = |owner: &str| {
        let annotations = json!({"a": "1", hook: owner});
        let body = json!({"metadata": {"annotations": annotations, "finalizers": ["capi"]},
            "spec": {"x": 1}});
        split(
            &machine,
            object(&machine, vec![entry("velero", theirs.clone())], body),
        )
        .layers
    };
    let ours = of("kedge-manager");
    let marks = json!({"metadata": {"annotations": {hook: "kedge-manager"}}});
    assert_eq!(ours.marks, Some(marks));
    let user = ours.user.unwrap().value;
    assert_eq!(user["metadata"]["annotations"], json!({"a": "1"}));
    assert_eq!(user["metadata"]["finalizers"], json!(["capi"]));
    assert_eq!(of("somebody").marks, None, "it only has our name");
    let finalizers = json!({"f:metadata": {"f:finalizers": {"v:\"kedge.dev/loadbalancer\"": {}}},
        "f:spec": {"f:clusterName": {}}});
    let body = json!({"metadata": {"finalizers": ["kedge.dev/loadbalancer"]},
        "spec": {"clusterName": "c"}});
    let made = object(&balancer(), vec![entry("velero", finalizers)], body);
    let layers = split(&balancer(), made).layers;
    let marks = json!({"metadata": {"finalizers": ["kedge.dev/loadbalancer"]}});
    assert_eq!(layers.marks, Some(marks));
}
