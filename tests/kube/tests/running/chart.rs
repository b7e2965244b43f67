//! The chart's values, its words, and an upgrade to itself.

use std::collections::BTreeMap;

use kedge_tests_kube::{
    assets::{Program, ready},
    chart, manifests,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::installed::{installed, values};

#[test]
fn every_value_is_described_has_a_type_and_changes_what_is_installed() {
    if !ready(&[Program::Helm]) {
        return;
    }
    let file = chart::folder().join("values.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut before = "";
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let field = line.trim().split_once(':');
        // A section is described by its fields, and a field in the line before it.
        if let Some((name, value)) = field.filter(|_| !line.trim().starts_with('#'))
            && !value.trim().is_empty()
            && !["requests", "limits"].contains(&name)
        {
            assert!(
                before.trim().starts_with('#'),
                "`{line}` says nothing of itself"
            );
        }
        before = line;
    }
    let defaults = manifests::read(&file).remove(0);
    let schema = std::fs::read_to_string(chart::folder().join("values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let (mut fields, mut typed) = (Vec::new(), Vec::new());
    leaves(&defaults, "", &mut fields);
    declared(&schema, "", &mut typed);
    typed.retain(|path| path != "/global");
    for all in [&mut fields, &mut typed] {
        all.sort();
    }
    assert_eq!(fields, typed, "values.yaml and its schema name the same");
    let usual = render(&json!({}));
    for (path, value) in OTHERWISE {
        let value: Value = serde_json::from_str(value).unwrap();
        let mut changed = json!({});
        let mut at = &mut changed;
        for part in path.split('/').skip(1) {
            at = &mut at[part];
        }
        *at = value;
        // What only counts beside something else has that.
        if path.starts_with("/service/loadBalancer") {
            changed["service"]["type"] = json!("LoadBalancer");
        }
        let mut before = None;
        if path.starts_with("/gateway/") {
            let mut alone = json!({});
            for values in [&mut alone, &mut changed] {
                values["gateway"]["enabled"] = json!(true);
                values["gateway"]["nodeSelector"]["edge"] = json!("yes");
            }
            if path.starts_with("/gateway/envoy/") && *path != "/gateway/envoy/enabled" {
                for values in [&mut alone, &mut changed] {
                    values["gateway"]["envoy"]["enabled"] = json!(true);
                }
            }
            before = (*path != "/gateway/enabled").then(|| render(&alone));
        }
        let before = before.as_ref().unwrap_or(&usual);
        assert_ne!(&render(&changed), before, "{path} changes nothing");
    }
    let others: Vec<&str> = OTHERWISE.iter().map(|(path, _)| *path).collect();
    assert_eq!(fields, others, "each has another value here");
}

#[tokio::test]
async fn an_upgrade_to_the_same_chart_changes_nothing_and_says_what_to_do_next() {
    let Some(ours) = installed().await else {
        return;
    };
    let server = ours.stack().server();
    let client = server.client().await;
    let before = versions(&client).await;
    assert!(before.len() > 30, "{before:#?}");
    let said = chart::install(server, &values());
    println!("{said}");
    assert_eq!(versions(&client).await, before);
    for words in [
        "is installed in kedge-system",
        "kubectl -n kedge-system get deployment,service",
        "port 9443 of the Service kedge-manager (type ClusterIP)",
        "kedge.dev/endpoint-mode=VIP",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("No tenant has a namespace"), "{said}");
}

/// The versions of everything the chart installs.
async fn versions(client: &Client) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for object in chart::template(&values(), &["--no-hooks"]) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        let resource = match kind.kind.as_str() {
            "ValidatingAdmissionPolicy" => {
                ApiResource::from_gvk_with_plural(&kind, "validatingadmissionpolicies")
            }
            _ => ApiResource::from_gvk(&kind),
        };
        let name = object.metadata.name.as_deref().unwrap();
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(space) => Api::namespaced_with(client.clone(), space, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let there = api.get(name).await;
        let there = there.unwrap_or_else(|err| panic!("{} {name}: {err}", kind.kind));
        let space = object.metadata.namespace.clone().unwrap_or_default();
        let name = format!("{} {space}/{name}", kind.kind);
        all.insert(name, there.metadata.resource_version.unwrap());
    }
    all
}

fn render(values: &Value) -> String {
    chart::template_text(values, &[])
}

/// The places of the values that are set one by one.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    for (name, value) in value.as_object().unwrap() {
        let path = format!("{at}/{name}");
        match value {
            Value::Object(fields) if !fields.is_empty() && !path.ends_with("/resources") => {
                leaves(value, &path, found);
            }
            _ => found.push(path),
        }
    }
}

fn declared(schema: &Value, at: &str, found: &mut Vec<String>) {
    for (name, inner) in schema["properties"].as_object().unwrap() {
        let path = format!("{at}/{name}");
        if inner["properties"].is_object() {
            declared(inner, &path, found);
        } else {
            found.push(path);
        }
    }
}

/// Each value, and another one than its default.
const OTHERWISE: &[(&str, &str)] = &[
    ("/certManager/enabled", "true"),
    ("/clusterctl", "true"),
    ("/elemental/enabled", "false"),
    ("/elemental/external", "true"),
    ("/externalDNS/enabled", "true"),
    ("/gateway/config", r#"{"tunnel": {"tls_port": 443}}"#),
    ("/gateway/enabled", "true"),
    ("/gateway/envoy/enabled", "true"),
    ("/gateway/envoy/image/repository", r#""r.example.org/e""#),
    ("/gateway/envoy/image/tag", r#""9""#),
    (
        "/gateway/envoy/resources",
        r#"{"limits": {"memory": "2Gi"}}"#,
    ),
    ("/gateway/image/repository", r#""r.example.org/g""#),
    ("/gateway/image/tag", r#""9""#),
    ("/gateway/metrics/listenAddress", r#""0.0.0.0""#),
    ("/gateway/metrics/port", "9999"),
    ("/gateway/namespace", r#""n""#),
    ("/gateway/nodeSelector", r#"{"a": "b"}"#),
    ("/gateway/podAnnotations", r#"{"a": "b"}"#),
    ("/gateway/priorityClassName", r#""p""#),
    ("/gateway/resources", r#"{"limits": {"memory": "2Gi"}}"#),
    ("/gateway/stateDirectory", r#""/srv/kedge""#),
    ("/gateway/tokenSecret", r#""t""#),
    ("/gateway/tolerations", r#"[{"operator": "Exists"}]"#),
    ("/image/pullPolicy", r#""Always""#),
    ("/image/pullSecrets", r#"["a"]"#),
    ("/image/repository", r#""r.example.org/k""#),
    ("/image/tag", r#""9""#),
    (
        "/infraKinds",
        r#"[{"group": "g.example.org", "resources": ["as"], "external": true}]"#,
    ),
    ("/kubeconfigNamespaces", r#"["a"]"#),
    ("/manager/affinity", r#"{"nodeAffinity": {}}"#),
    ("/manager/config", r#"{"advertise": "10.0.0.1:9443"}"#),
    ("/manager/listenAddress", r#""10.0.0.1""#),
    ("/manager/nodeSelector", r#"{"a": "b"}"#),
    ("/manager/podAnnotations", r#"{"a": "b"}"#),
    ("/manager/priorityClassName", r#""p""#),
    ("/manager/resources", r#"{"limits": {"memory": "1Gi"}}"#),
    ("/manager/tolerations", r#"[{"operator": "Exists"}]"#),
    ("/manager/trustDomain", r#""t.example.org""#),
    ("/metrics/annotations", r#"{"a": "b"}"#),
    ("/metrics/port", "9999"),
    ("/podDisruptionBudget/enabled", "false"),
    ("/policies/actions", r#"["Warn"]"#),
    ("/policies/enabled", "false"),
    ("/policies/hostnameSuffixes", r#"[".a.example.org"]"#),
    (
        "/readKinds",
        r#"[{"group": "g.example.org", "resources": ["as"]}]"#,
    ),
    ("/replicas", "3"),
    ("/service/annotations", r#"{"a": "b"}"#),
    ("/service/externalTrafficPolicy", r#""Local""#),
    ("/service/loadBalancerClass", r#""c""#),
    ("/service/loadBalancerIP", r#""10.0.0.1""#),
    ("/service/port", "443"),
    ("/service/type", r#""NodePort""#),
    ("/tenantNamespaces", r#"["a"]"#),
    ("/uninstall/timeoutSeconds", "60"),
];
