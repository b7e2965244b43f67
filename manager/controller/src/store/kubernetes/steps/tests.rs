use kedge_crd::{EdgeHostSpec, capi, elemental};

use super::*;
use crate::{
    snapshot,
    store::{Layers, Name, Server, UserDocument, kubernetes::layers::split},
};

fn infra() -> ObjectKey {
    ObjectKey::new(elemental::GROUP, "ElementalCluster", Name::new("edge", "c"))
}

fn host() -> ObjectKey {
    snapshot::key::<EdgeHostSpec>(&Name::new("edge", "h"))
}

fn owned(key: &ObjectKey, manager: &str, spec: Value) -> Write {
    let mut content = identity(key, "g/v1");
    fields::put(&mut content, json!({ "spec": spec }));
    Write {
        key: key.clone(),
        layer: Layer::Owned(manager.to_owned()),
        content: Some(content),
    }
}

fn seen(key: &ObjectKey, user: Option<Value>) -> Seen {
    let user = user.map(|spec| {
        let mut value = identity(key, "g/v1");
        fields::put(&mut value, json!({ "spec": spec }));
        UserDocument {
            value,
            origin: String::new(),
        }
    });
    Seen {
        is_ours: user.is_none(),
        layers: Layers {
            user,
            server: Some(Server {
                uid: "u".to_owned(),
                resource_version: "7".to_owned(),
                ..Server::default()
            }),
            ..Layers::default()
        },
        api_version: "g/v1".to_owned(),
    }
}

fn fill() -> Write {
    let endpoint = json!({"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}});
    owned(&infra(), managers::ENDPOINT, endpoint)
}

fn apply(step: Step) -> Apply {
    match step {
        Step::Apply(apply) => apply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_blank_shape_is_filled_and_a_value_never() {
    let table = [
        // what its user wrote, whether by force; `None`: refused
        (json!({}), Some(false)),
        (json!({"controlPlaneEndpoint": null}), Some(false)),
        (
            json!({"controlPlaneEndpoint": {"host": "", "port": 0}}),
            Some(true),
        ),
        (json!({"controlPlaneEndpoint": {"port": 6443}}), Some(true)),
        (
            json!({"controlPlaneEndpoint": {"host": "10.9.9.9", "port": 6443}}),
            None,
        ),
    ];
    for (written, force) in table {
        let step = step(&fill(), Some(&seen(&infra(), Some(written.clone()))));
        let Some(force) = force else {
            assert_eq!(step, Step::Refuse(Refusal::Taken));
            continue;
        };
        let apply = apply(step);
        assert_eq!(apply.force, force, "{written}");
        assert_eq!(apply.manager, managers::ENDPOINT);
        assert_eq!(
            apply.body,
            json!({"apiVersion": "g/v1", "kind": "ElementalCluster",
                "metadata": {"name": "c", "namespace": "edge", "uid": "u", "resourceVersion": "7"},
                "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}})
        );
    }
}

#[test]
fn an_object_of_others_is_never_made() {
    assert_eq!(step(&fill(), None), Step::Refuse(Refusal::Missing));
    let mut frozen = seen(&infra(), Some(json!({})));
    frozen.layers.server.as_mut().unwrap().vanished = true;
    assert_eq!(
        step(&fill(), Some(&frozen)),
        Step::Refuse(Refusal::Vanished)
    );
    let marks = Write {
        key: infra(),
        layer: Layer::Marks,
        content: Some(json!({"metadata": {"labels": {"a": "1"}}})),
    };
    assert_eq!(step(&marks, None), Step::Refuse(Refusal::Missing));
}

#[test]
fn what_is_so_already_is_not_written_again() {
    let mut as_wanted = seen(&infra(), Some(json!({})));
    let write = fill();
    as_wanted.layers.owned.insert(
        managers::ENDPOINT.to_owned(),
        write.content.clone().unwrap(),
    );
    assert_eq!(step(&write, Some(&as_wanted)), Step::Nothing);
    let status = Write {
        key: host(),
        layer: Layer::Status,
        content: Some(json!({"apiVersion": "g/v1", "status": {"count": 1, "none": null}})),
    };
    let mut known = seen(&host(), None);
    known.layers.status = Some(json!({"apiVersion": "g/v1", "status": {"count": 1.0}}));
    assert_eq!(step(&status, Some(&known)), Step::Nothing);
}

#[test]
fn objects_of_ours_are_made_and_go_with_their_last_layer() {
    let write = owned(&host(), managers::ENROL, json!({"tenant": "t"}));
    let made = apply(step(&write, None));
    assert!(made.force && !made.status);
    assert_eq!(made.body.pointer("/metadata/uid"), None, "it is made");

    let gone = Write {
        content: None,
        ..write.clone()
    };
    assert_eq!(step(&gone, None), Step::Nothing);
    let mut known = seen(&host(), None);
    known
        .layers
        .owned
        .insert(managers::ENROL.to_owned(), write.content.clone().unwrap());
    let delete = Step::Delete {
        uid: "u".to_owned(),
        resource_version: "7".to_owned(),
    };
    assert_eq!(step(&gone, Some(&known)), delete);

    // What only stands beside it goes with it, and does not make it.
    let mut beside = known.clone();
    let owned = &mut beside.layers.owned;
    owned.insert(managers::CONFIG.to_owned(), json!({}));
    owned.insert(managers::OVERLAY.to_owned(), json!({}));
    assert_eq!(step(&gone, Some(&beside)), delete);
    let layer = Layer::Owned(managers::CONFIG.to_owned());
    let mark = Write {
        layer,
        ..write.clone()
    };
    assert_eq!(step(&mark, None), Step::Refuse(Refusal::Missing));

    // Another layer, or a user, keeps it.
    let mut shared = known.clone();
    shared
        .layers
        .owned
        .insert(managers::GIVEN.to_owned(), json!({}));
    let mut users = known;
    users.is_ours = false;
    for keeps in [shared, users] {
        let release = apply(step(&gone, Some(&keeps)));
        assert_eq!(release.manager, managers::ENROL);
        assert_eq!(
            release.body,
            json!({"apiVersion": "g/v1", "kind": "EdgeHost",
                "metadata": {"name": "h", "namespace": "edge", "uid": "u"}})
        );
    }
}

#[test]
fn a_status_is_given_to_what_exists() {
    let mut write = Write {
        key: host(),
        layer: Layer::Status,
        content: Some(json!({"apiVersion": "x", "metadata": {}, "status": {"a": 1}})),
    };
    assert_eq!(step(&write, None), Step::Nothing);
    let mut known = seen(&host(), None);
    let put = apply(step(&write, Some(&known)));
    assert!(put.status && put.force);
    assert_eq!(put.manager, managers::STATUS);
    assert_eq!(
        put.body,
        json!({"apiVersion": "g/v1", "kind": "EdgeHost",
            "metadata": {"name": "h", "namespace": "edge", "uid": "u"}, "status": {"a": 1}})
    );
    write.content = None;
    assert_eq!(step(&write, Some(&known)), Step::Nothing);
    known.layers.status = Some(json!({"status": {"a": 1}}));
    assert_eq!(apply(step(&write, Some(&known))).body.get("status"), None);
}

#[test]
fn marks_change_our_keys_and_keep_those_of_others() {
    let machine = ObjectKey::new(capi::GROUP, "Machine", Name::new("edge", "m"));
    let mut known = seen(&machine, Some(json!({})));
    known.layers.user.as_mut().unwrap().value["metadata"]["finalizers"] = json!(["capi"]);
    known.layers.marks = Some(json!({"metadata": {"annotations": {"a": "1", "b": "2", "c": "3"}}}));
    let write = |metadata: Value| Write {
        key: machine.clone(),
        layer: Layer::Marks,
        content: Some(json!({ "metadata": metadata })),
    };
    let annotated = write(json!({"annotations": {"a": "1", "b": "9", "d": "4"}}));
    let body = json!({"metadata": {"uid": "u", "annotations": {"b": "9", "c": null, "d": "4"}}});
    assert_eq!(step(&annotated, Some(&known)), Step::Merge { body });
    let held = write(
        json!({"annotations": {"a": "1", "b": "2", "c": "3"}, "finalizers": ["kedge.dev/x"]}),
    );
    let body = json!({"metadata": {"uid": "u", "resourceVersion": "7",
        "finalizers": ["capi", "kedge.dev/x"]}});
    assert_eq!(step(&held, Some(&known)), Step::Merge { body });
    let same = write(json!({"annotations": {"a": "1", "b": "2", "c": "3"}}));
    assert_eq!(step(&same, Some(&known)), Step::Nothing);
}

#[test]
fn what_was_given_comes_back_from_the_annotation() {
    let key = snapshot::key::<LoadBalancerSpec>(&Name::new("edge", "c"));
    let mut write = owned(
        &key,
        managers::GIVEN,
        json!({"clusterName": "c", "mode": "VIP"}),
    );
    let labels = json!({"metadata": {"labels": {capi::CLUSTER_NAME_LABEL: "c"}}});
    fields::put(write.content.as_mut().unwrap(), labels);
    // Nobody else makes the object: it gets what it cannot be without.
    let made = apply(step(&write, None));
    assert_eq!(made.body["spec"], json!({"clusterName": "c"}));
    let beside = apply(step(&write, Some(&seen(&key, Some(json!({}))))));
    assert_eq!(beside.body.get("spec"), None);
    let read = split(&key, serde_json::from_value(beside.body).unwrap());
    assert_eq!(
        read.layers.owned.get(managers::GIVEN),
        write.content.as_ref()
    );
}

#[test]
fn a_secret_is_written_as_data() {
    let key = ObjectKey::new("", "Secret", Name::new("edge", "kedge-token-a"));
    let mut write = owned(&key, managers::TOKEN, json!(null));
    write.content =
        Some(json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"record": "{}"}}));
    let body = apply(step(&write, None)).body;
    assert_eq!(body["data"], json!({"record": "e30="}));
    assert_eq!(body.get("stringData"), None);
}

#[test]
fn an_object_of_ours_whose_last_layers_go_is_deleted_at_once() {
    let key = snapshot::key::<LoadBalancerSpec>(&Name::new("edge", "c"));
    let mut known = seen(&key, None);
    for manager in [managers::GIVEN, managers::ENDPOINT] {
        known.layers.owned.insert(manager.to_owned(), json!({}));
    }
    let goes = |manager: &str| Write {
        key: key.clone(),
        layer: Layer::Owned(manager.to_owned()),
        content: None,
    };
    let all = [goes(managers::ENDPOINT), goes(managers::GIVEN)];
    let delete = Step::Delete {
        uid: "u".to_owned(),
        resource_version: "7".to_owned(),
    };
    assert_eq!(removal(&all, Some(&known)), Some(delete));
    assert_eq!(removal(&all[..1], Some(&known)), None, "one layer stays");
    let again = owned(&key, managers::GIVEN, json!({"clusterName": "c"}));
    assert_eq!(
        removal(&[goes(managers::ENDPOINT), again], Some(&known)),
        None
    );
    assert_eq!(removal(&[], Some(&known)), None);
    known.is_ours = false;
    assert_eq!(removal(&all, Some(&known)), None, "somebody else made it");
    assert_eq!(removal(&all, None), None);
}

#[test]
fn what_we_make_is_owned_and_what_a_user_made_is_not_taken() {
    let key = snapshot::key::<LoadBalancerSpec>(&Name::new("edge", "c"));
    let mut write = owned(&key, managers::GIVEN, json!({"clusterName": "c"}));
    let owners = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "name": "c", "uid": "cu"}]);
    let metadata = json!({"metadata": {"ownerReferences": owners}});
    fields::put(write.content.as_mut().unwrap(), metadata);
    let made = apply(step(&write, None));
    assert_eq!(made.body["metadata"]["ownerReferences"], owners);
    let beside = apply(step(&write, Some(&seen(&key, Some(json!({}))))));
    assert_eq!(beside.body["metadata"].get("ownerReferences"), None);
}
