//! Manifests of others, applied to the API server of a test.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};

/// The documents of every YAML file of a folder, or of one file.
///
/// # Panics
///
/// When one cannot be read.
#[must_use]
pub fn read(path: &Path) -> Vec<Value> {
    let mut files: Vec<PathBuf> = if path.is_dir() {
        let entries = fs::read_dir(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        entries.map(|entry| entry.unwrap().path()).collect()
    } else {
        vec![path.to_owned()]
    };
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    files.iter().flat_map(|file| documents(file)).collect()
}

/// The documents of a text, and whose it is.
///
/// # Panics
///
/// When it is no YAML.
#[must_use]
pub fn parse(text: &str, whose: &str) -> Vec<Value> {
    let all: Vec<Value> =
        serde_saphyr::from_multiple(text).unwrap_or_else(|err| panic!("{whose}: {err}"));
    all.into_iter().filter(Value::is_object).collect()
}

/// Adds labels to a manifest.
pub fn label(manifest: &mut Value, labels: &[(&str, &str)]) {
    for (key, value) in labels {
        manifest["metadata"]["labels"][key] = json!(value);
    }
}

/// Applies manifests, each to the namespace it names.
///
/// # Panics
///
/// When the server refuses one.
pub async fn apply(client: &Client, manifests: &[Value]) {
    for manifest in manifests {
        if let Err(said) = try_apply(client, manifest).await {
            panic!("{said}");
        }
    }
}

/// Applies manifests of objects of a namespace.
///
/// # Panics
///
/// When the server refuses one.
pub async fn apply_in(client: &Client, space: &str, manifests: &[Value]) {
    apply_by(manifests, |resource| {
        Api::namespaced_with(client.clone(), space, resource)
    })
    .await;
}

async fn apply_by(manifests: &[Value], of: impl Fn(&ApiResource) -> Api<DynamicObject>) {
    for manifest in manifests {
        if let Err(said) = try_apply_by(manifest, &of).await {
            panic!("{said}");
        }
    }
}

/// Applies a manifest, of whatever namespace it names.
///
/// # Errors
///
/// What the server says against it.
///
/// # Panics
///
/// When it is no object.
pub async fn try_apply(client: &Client, manifest: &Value) -> Result<(), String> {
    let space = manifest["metadata"]["namespace"].as_str();
    try_apply_by(manifest, |kind| match space {
        Some(space) => Api::namespaced_with(client.clone(), space, kind),
        None => Api::all_with(client.clone(), kind),
    })
    .await
}

async fn try_apply_by(
    manifest: &Value,
    of: impl Fn(&ApiResource) -> Api<DynamicObject>,
) -> Result<(), String> {
    let object: DynamicObject = serde_json::from_value(manifest.clone()).unwrap();
    let types = object.types.clone().unwrap();
    let kind = GroupVersionKind::try_from(&types).unwrap();
    let api = of(&ApiResource::from_gvk(&kind));
    let name = object.metadata.name.clone().unwrap();
    let how = PatchParams::apply("test").force();
    let applied = api.patch(&name, &how, &Patch::Apply(&object)).await;
    let told = |err| format!("{} {name}: {err}", types.kind);
    applied.map(|_| ()).map_err(told)
}

/// Applies definitions and waits until their kinds are served.
///
/// # Panics
///
/// When one is refused or not served in time.
pub async fn apply_definitions(client: &Client, manifests: &[Value]) {
    apply(client, manifests).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let begun = Instant::now();
    for manifest in manifests {
        let name = manifest["metadata"]["name"].as_str().unwrap();
        while !is_served(&definitions.get(name).await.unwrap()) {
            assert!(begun.elapsed() < LIMIT, "{name} is not served");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn is_served(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.iter().flat_map(|s| s.conditions.iter());
    conditions
        .flatten()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}

fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_else(|err| panic!("{}: {err}", file.display()));
    parse(&text, &file.display().to_string())
}

const LIMIT: Duration = Duration::from_secs(30);
