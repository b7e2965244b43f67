//! The chart, installed and removed by the real helm.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{assets::Program, manifests, server::Server};

/// The chart's folder.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/chart")
}

/// What the chart makes of values, in the order in which helm prints it.
///
/// # Panics
///
/// When helm refuses.
#[must_use]
pub fn template(values: &Value, more: &[&str]) -> Vec<Value> {
    manifests::parse(&template_text(values, more), "helm")
}

/// The same as text.
///
/// # Panics
///
/// When helm refuses.
#[must_use]
pub fn template_text(values: &Value, more: &[&str]) -> String {
    let place = tempfile::tempdir().unwrap();
    let file = write(place.path(), values);
    let chart = folder();
    let mut args = vec!["template", "kedge", chart.to_str().unwrap()];
    args.extend(["--namespace", "kedge-system", "--values", &file]);
    args.extend(more);
    helm(place.path(), None, &args).unwrap_or_else(|said| panic!("{said}"))
}

/// Checks the chart as helm does.
///
/// # Panics
///
/// When helm refuses.
pub fn lint(values: &Value) {
    let place = tempfile::tempdir().unwrap();
    let file = write(place.path(), values);
    let chart = folder();
    let mut args = vec!["lint", "--strict", chart.to_str().unwrap()];
    args.extend(["--namespace", "kedge-system", "--values", &file]);
    let said = helm(place.path(), None, &args);
    said.unwrap_or_else(|said| panic!("{said}"));
}

/// Installs the chart, or upgrades it; answers with what helm says then.
///
/// # Panics
///
/// When helm refuses.
pub fn install(server: &Server, values: &Value) -> String {
    let file = write(server.folder(), values);
    let chart = folder();
    let mut args = vec!["upgrade", "--install", "kedge", chart.to_str().unwrap()];
    args.extend(["--namespace", "kedge-system", "--create-namespace"]);
    args.extend(["--values", &file]);
    run(server, &args)
}

/// Removes the chart. Its Job is left out: nothing runs Pods here.
///
/// # Panics
///
/// When helm refuses.
pub fn remove(server: &Server) {
    let of_kedge = ["uninstall", "kedge", "--namespace", "kedge-system"];
    _ = run(server, &[&of_kedge[..], &["--no-hooks"]].concat());
}

/// Removes the chart as anybody does, where Pods run: its Job cleans up first.
///
/// # Panics
///
/// When helm refuses, or the Job fails.
pub fn remove_by_job(server: &Server) -> String {
    let of_kedge = ["uninstall", "kedge", "--namespace", "kedge-system"];
    run(
        server,
        &[&of_kedge[..], &["--wait", "--timeout", "60s"]].concat(),
    )
}

fn run(server: &Server, args: &[&str]) -> String {
    let said = helm(server.folder(), Some(server), args);
    said.unwrap_or_else(|said| panic!("helm {args:?}: {said}"))
}

fn write(place: &Path, values: &Value) -> String {
    let file = place.join("values.json");
    fs::write(&file, values.to_string()).unwrap();
    file.display().to_string()
}

/// Runs helm with folders of its own, or says what it said.
fn helm(place: &Path, server: Option<&Server>, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(Program::Helm.path()?);
    command
        .args(args)
        .env("HELM_CACHE_HOME", place.join("helm/cache"))
        .env("HELM_CONFIG_HOME", place.join("helm/config"))
        .env("HELM_DATA_HOME", place.join("helm/data"))
        .env_remove("KUBECONFIG");
    if let Some(server) = server {
        command.env("KUBECONFIG", server.kubeconfig("admin"));
    }
    let output = command.output().map_err(|err| err.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr) + &text(&output.stdout))
    }
}
