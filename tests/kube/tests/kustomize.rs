//! The bases for kustomize: what the chart makes, and what an overlay makes of it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use kedge_tests_kube::{
    assets::{Program, ready},
    chart, manifests,
};
use serde_json::{Value, json};

/// `KEDGE_WRITE=kustomize` writes the base instead of comparing it.
#[test]
fn the_base_is_what_the_chart_makes_and_overlays_change_it() {
    if !ready(&[Program::Helm, Program::Kustomize]) {
        return;
    }
    // As for clusterctl: with a namespace, and without hooks that nobody but helm runs.
    let text = chart::template_text(&json!({"clusterctl": true}), &["--no-hooks"]);
    let manager: String = text
        .split("---\n")
        .filter(|it| !it.trim().is_empty() && !it.contains("\nkind: CustomResourceDefinition\n"))
        .map(|it| format!("---\n{it}"))
        .collect();
    let manager = format!("{HEAD}{manager}");
    let base = folder().join("kustomize/manager/manager.yaml");
    if std::env::var("KEDGE_WRITE").is_ok_and(|it| it == "kustomize") {
        fs::write(&base, &manager).unwrap();
    }
    let written = fs::read_to_string(&base).unwrap_or_default();
    assert!(
        written == manager,
        "{} is not what the chart makes: {HEAD}",
        base.display()
    );

    let of_chart = chart::template(&json!({"clusterctl": true}), &["--no-hooks"]);
    assert_eq!(sorted(build(&folder())), sorted(of_chart));

    // An overlay, as the guide has it.
    let overlay = tempfile::tempdir().unwrap();
    fs::write(
        overlay.path().join("kustomization.yaml"),
        overlaid(overlay.path()),
    )
    .unwrap();
    let built = build(overlay.path());
    let mut deployments = built.iter().filter(|it| it["kind"] == "Deployment");
    let pod = &deployments.next().unwrap()["spec"];
    assert_eq!(pod["replicas"], 3);
    let image = &pod["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "registry.example.org/kedge/manager:0.1.0");
    let count = built
        .iter()
        .filter(|it| it["kind"] == "CustomResourceDefinition")
        .count();
    assert_eq!(count, kedge_crd::kinds::KINDS.len());
}

fn overlaid(from: &Path) -> String {
    let ups = "../".repeat(from.components().count() - 1);
    let base = folder().canonicalize().unwrap();
    let base = base.strip_prefix("/").unwrap().display();
    format!(
        "resources: [{ups}{base}]\nimages: [{{name: kedge/manager, newName: \
         registry.example.org/kedge/manager}}]\nreplicas: [{{name: kedge-manager, count: 3}}]\n"
    )
}

fn build(folder: &Path) -> Vec<Value> {
    let built = Command::new(Program::Kustomize.path().unwrap())
        .arg(folder)
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    manifests::parse(&String::from_utf8(built.stdout).unwrap(), "kustomize")
}

fn sorted(mut all: Vec<Value>) -> Vec<Value> {
    all.sort_by_key(|it| format!("{} {}", it["kind"], it["metadata"]["name"]));
    all
}

fn folder() -> PathBuf {
    chart::folder().join("..")
}

const HEAD: &str = "# Written from the chart: KEDGE_WRITE=kustomize cargo test -p kedge-tests-kube --test kustomize\n";
