use serde_json::json;

use super::*;
use crate::store::Name;

fn directory(files: &[(&str, &str)]) -> (tempfile::TempDir, Directory) {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::create_dir_all(root.path().join(name).parent().unwrap()).unwrap();
        fs::write(root.path().join(name), text).unwrap();
    }
    let directory = Directory::open(root.path()).unwrap();
    (root, directory)
}

fn tenant(name: &str, more: &str) -> String {
    let more = if more.is_empty() { "spec: {}\n" } else { more };
    format!("apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\n{more}")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("kedge.dev", "Tenant", Name::new("", name))
}

#[test]
fn files_are_read_in_every_folder_but_ours() {
    let (_root, directory) = directory(&[
        ("a.yaml", &tenant("a", "")),
        ("deep/er/b.yml", &tenant("b", "")),
        (".hidden/c.yaml", &tenant("c", "")),
        ("notes.txt", "not: [yaml"),
    ]);
    let names: Vec<String> = directory
        .objects()
        .by_key
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(names, ["Tenant a", "Tenant b"]);
    assert_eq!(directory.objects().problems, []);
}

#[test]
fn a_spoilt_document_keeps_its_last_good_version_also_over_a_restart() {
    let good = format!(
        "{}---\n{}",
        tenant("a", "spec: {namespace: x}\n"),
        tenant("b", "")
    );
    let (root, mut directory) = directory(&[("f.yaml", &good)]);
    let spoilt = format!(
        "{}---\n{}",
        tenant("a", "spec: {namespce: y}\n"),
        tenant("b", "")
    );
    fs::write(root.path().join("f.yaml"), spoilt).unwrap();
    let holds = |directory: &Directory| {
        let objects = directory.objects();
        assert_eq!(objects.problems.len(), 1);
        assert!(
            objects.problems[0].what.starts_with("f.yaml:4:"),
            "{}",
            objects.problems[0].what
        );
        let user = objects.by_key[&key("a")].user.as_ref().unwrap();
        assert_eq!(user.value["spec"]["namespace"], "x");
        assert!(objects.by_key.contains_key(&key("b")));
        assert!(!objects.incomplete);
    };
    assert!(directory.rescan());
    holds(&directory);
    assert!(!directory.rescan());
    holds(&directory);
    drop(directory);
    holds(&Directory::open(root.path()).unwrap());
}

#[test]
fn a_document_that_was_never_good_makes_the_store_incomplete() {
    let (root, mut directory) = directory(&[("f.yaml", "a: [")]);
    assert!(directory.objects().incomplete);
    fs::write(root.path().join("f.yaml"), tenant("a", "")).unwrap();
    assert!(directory.rescan());
    assert!(!directory.objects().incomplete);
    assert_eq!(directory.objects().problems, []);
}

#[test]
fn of_two_documents_of_one_name_the_first_is_in_force() {
    let (_root, directory) = directory(&[
        ("a.yaml", &tenant("t", "spec: {namespace: first}\n")),
        ("b.yaml", &tenant("t", "spec: {namespace: second}\n")),
    ]);
    let problems = &directory.objects().problems;
    assert_eq!(problems.len(), 1);
    assert_eq!(
        problems[0].what,
        "b.yaml:1: Tenant t is already written at a.yaml:1"
    );
    let user = directory.objects().by_key[&key("t")].user.as_ref().unwrap();
    assert_eq!(user.value["spec"]["namespace"], "first");
}

#[test]
fn what_is_written_reads_back_the_same_and_a_removal_leaves_nothing() {
    let (root, mut directory) = directory(&[("a.yaml", &tenant("a", ""))]);
    let content = json!({"spec": {"n": 1, "f": 0.1, "text": "no", "pem": "-----BEGIN\na\nb\n-----END\n",
        "empty": [], "none": {}, "quoted": "1.10", "colon": "a: b", "multi": "  x\n\n y ", "t": true}});
    let write = |content: Option<Value>| Write {
        key: key("a"),
        layer: Layer::Owned("kedge-test".to_owned()),
        content,
    };
    directory.write(&[write(Some(content.clone()))]).unwrap();
    let objects = directory.objects().clone();
    assert!(!directory.rescan(), "our own write is no change");
    assert_eq!(directory.objects(), &objects);
    drop(directory);
    let mut directory = Directory::open(root.path()).unwrap();
    assert_eq!(
        directory.objects().owned(&key("a"), "kedge-test"),
        Some(&content)
    );
    directory.write(&[write(None)]).unwrap();
    assert!(!root.path().join("owned/kedge.dev").exists());
}

#[test]
fn a_corrupt_file_of_ours_is_told_and_its_last_content_stays() {
    let (root, mut directory) = directory(&[]);
    let write = Write {
        key: key("a"),
        layer: Layer::Status,
        content: Some(json!({"status": {}})),
    };
    directory.write(&[write]).unwrap();
    let path = root
        .path()
        .canonicalize()
        .unwrap()
        .join("status/kedge.dev/Tenant/_/a/kedge-manager.yaml");
    fs::write(&path, "{{{").unwrap();
    for _ in 0..2 {
        directory.rescan();
        assert_eq!(directory.objects().problems.len(), 1);
        assert_eq!(directory.objects().problems[0].code, Code::HostStateCorrupt);
    }
    assert_eq!(
        directory.objects().by_key[&key("a")].status,
        Some(json!({"status": {}}))
    );
}

#[test]
fn a_second_manager_is_refused_and_creation_happens_once() {
    let (root, mut directory) = directory(&[]);
    let problem = Directory::open(root.path()).unwrap_err();
    assert_eq!(problem.code, Code::HostSocketInUse);
    let secret = ObjectKey::new("", "Secret", Name::new("kedge-system", "ca"));
    let one = directory.create(&secret, "m", &json!({"a": 1})).unwrap();
    let two = directory.create(&secret, "m", &json!({"a": 2})).unwrap();
    assert_eq!(one, two);
}

#[test]
fn what_cannot_be_listed_is_not_gone() {
    let (root, mut directory) = directory(&[("a.yaml", &tenant("a", ""))]);
    let write = Write {
        key: key("a"),
        layer: Layer::Owned("kedge-enrol".to_owned()),
        content: Some(json!({"spec": {}})),
    };
    directory.write(&[write]).unwrap();
    let away = root.path().with_extension("away");
    fs::rename(root.path(), &away).unwrap();
    assert!(directory.rescan(), "it is told");
    assert!(!directory.rescan(), "once");
    let layers = directory.objects().get(&key("a")).unwrap();
    assert!(layers.user.is_some() && layers.owned.len() == 1);
    assert_eq!(directory.objects().problems.len(), 1);
    fs::rename(&away, root.path()).unwrap();
    assert!(directory.rescan());
    assert_eq!(directory.objects().problems, []);
}

#[test]
fn a_directory_that_lost_every_file_at_once_has_deleted_nothing() {
    let (root, mut directory) = directory(&[("a.yaml", &tenant("a", "")), ("b/b.yaml", "")]);
    fs::remove_file(root.path().join("a.yaml")).unwrap();
    fs::remove_file(root.path().join("b/b.yaml")).unwrap();
    let holds = |directory: &Directory| {
        let objects = directory.objects();
        assert!(objects.by_key[&key("a")].user.is_some());
        assert!(objects.incomplete);
        assert_eq!(objects.problems.len(), 1, "{:?}", objects.problems);
        let text = format!("{:?}", objects.problems[0]);
        assert!(text.contains("none.yaml"), "{text}");
    };
    assert!(directory.rescan(), "it is told");
    holds(&directory);
    assert!(!directory.rescan(), "once");
    holds(&directory);
    // A restart in between is no confirmation.
    drop(directory);
    let mut directory = Directory::open(root.path()).unwrap();
    holds(&directory);
    // One YAML file is, even an empty one; after it, none is needed.
    fs::write(root.path().join("none.yaml"), "").unwrap();
    assert!(directory.rescan());
    assert_eq!(directory.objects(), &Objects::default());
    fs::remove_file(root.path().join("none.yaml")).unwrap();
    directory.rescan();
    assert_eq!(directory.objects(), &Objects::default());
    drop(directory);
    let directory = Directory::open(root.path()).unwrap();
    assert_eq!(directory.objects(), &Objects::default());
}

#[test]
fn files_that_come_back_are_in_force_as_they_are_then() {
    let (root, mut directory) = directory(&[("a.yaml", &tenant("a", ""))]);
    let away = root.path().join("away");
    fs::rename(root.path().join("a.yaml"), &away).unwrap();
    assert!(directory.rescan());
    fs::rename(&away, root.path().join("b.yaml")).unwrap();
    assert!(directory.rescan());
    let user = directory.objects().by_key[&key("a")].user.as_ref();
    assert_eq!(user.unwrap().origin, "b.yaml:1");
    assert_eq!(directory.objects().problems, []);
    assert!(!directory.objects().incomplete);
}

#[test]
fn what_went_while_no_manager_looked_is_not_remembered() {
    let (root, directory) =
        directory(&[("a.yaml", &tenant("a", "")), ("b.yaml", &tenant("b", ""))]);
    drop(directory);
    fs::remove_file(root.path().join("a.yaml")).unwrap();
    drop(Directory::open(root.path()).unwrap());
    fs::remove_file(root.path().join("b.yaml")).unwrap();
    let directory = Directory::open(root.path()).unwrap();
    let keys: Vec<_> = directory.objects().by_key.keys().collect();
    assert_eq!(keys, [&key("b")]);
}

#[test]
fn another_folder_in_its_place_is_neither_read_nor_written() {
    let (root, mut directory) = directory(&[("a.yaml", &tenant("a", ""))]);
    let away = root.path().with_extension("mounted");
    fs::rename(root.path(), &away).unwrap();
    fs::create_dir(root.path()).unwrap();
    fs::write(root.path().join("x.yaml"), tenant("x", "")).unwrap();
    assert!(directory.rescan(), "it is told");
    assert!(!directory.rescan(), "once");
    let keys: Vec<_> = directory.objects().by_key.keys().collect();
    assert_eq!(keys, [&key("a")]);
    let text = format!("{:?}", directory.objects().problems);
    assert!(text.contains("unmounted"), "{text}");
    let write = Write {
        key: key("a"),
        layer: Layer::Status,
        content: Some(json!({"status": {}})),
    };
    let problem = directory.write(std::slice::from_ref(&write)).unwrap_err();
    assert_eq!(problem.code, Code::HostStateNotPersisted);
    assert!(!root.path().join("status").exists());
    fs::remove_file(root.path().join("x.yaml")).unwrap();
    fs::remove_dir(root.path()).unwrap();
    fs::rename(&away, root.path()).unwrap();
    assert!(directory.rescan());
    assert_eq!(directory.objects().problems, []);
    directory.write(&[write]).unwrap();
}

#[test]
fn a_pipe_is_no_file() {
    let (root, mut directory) = directory(&[]);
    let made = std::process::Command::new("mkfifo")
        .arg(root.path().join("p.yaml"))
        .status();
    assert!(made.unwrap().success());
    directory.rescan();
    let problems = &directory.objects().problems;
    assert_eq!(problems[0].what, "p.yaml is no file");
}

#[test]
fn what_an_api_server_would_refuse_is_refused_and_the_last_good_version_stays() {
    let balancer = |cluster: &str, more: &str| {
        format!(
            "# a load balancer\napiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\n\
             metadata: {{name: lb, namespace: ns}}\nspec: {{clusterName: {cluster}{more}}}\n"
        )
    };
    let (root, mut directory) = directory(&[("lb.yaml", &balancer("c", ""))]);
    assert_eq!(directory.objects().problems, []);
    let key = ObjectKey::new("kedge.dev", "LoadBalancer", Name::new("ns", "lb"));
    let holds = |directory: &Directory, place: &str| {
        let objects = directory.objects();
        let user = objects.by_key[&key].user.as_ref().unwrap();
        assert_eq!(user.value["spec"]["clusterName"], "c");
        let told: Vec<&str> = objects.problems.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("lb.yaml:2") && told[0].contains(place),
            "{told:?}"
        );
    };
    // A rule over what it was, also over a restart; and the schema.
    fs::write(root.path().join("lb.yaml"), balancer("other", "")).unwrap();
    directory.rescan();
    holds(&directory, "clusterName");
    drop(directory);
    let mut directory = Directory::open(root.path()).unwrap();
    holds(&directory, "clusterName");
    let wrong = balancer("c", ", vip: {vrid: 0}");
    fs::write(root.path().join("lb.yaml"), wrong).unwrap();
    directory.rescan();
    let objects = directory.objects();
    assert_eq!(objects.problems.len(), 1, "{:?}", objects.problems);
    fs::write(root.path().join("lb.yaml"), balancer("c", "")).unwrap();
    directory.rescan();
    assert_eq!(directory.objects().problems, []);
}
