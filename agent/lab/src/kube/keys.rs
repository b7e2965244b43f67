//! What API servers and their clients know each other by.

use std::{fs, path::Path};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use tracing::{instrument::WithSubscriber as _, subscriber::NoSubscriber};

use crate::error::LabError;

/// Writes what every server of a cluster shares: the identities, and what signs their tokens.
///
/// # Errors
/// They cannot be written.
pub fn write(folder: &Path) -> Result<(), LabError> {
    let certs = folder.join("certs");
    fs::create_dir_all(&certs).map_err(LabError::file(&certs))?;
    let lines: String = IDENTITIES
        .iter()
        .map(|(name, groups)| format!("{name},{name},{name},\"{groups}\"\n"))
        .collect();
    let key = rcgen::KeyPair::generate()
        .map_err(|err| LabError::Certificate("the API server".to_owned(), err))?;
    let files = [
        ("tokens.csv", lines),
        ("sa.key", key.serialize_pem()),
        ("sa.pub", key.public_key_pem()),
    ];
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).map_err(LabError::file(&path))?;
    }
    Ok(())
}

/// The flags of a server that uses what [`write()`] wrote.
#[must_use]
pub fn flags(folder: &Path) -> Vec<String> {
    let files = [
        ("service-account-key-file", "sa.pub"),
        ("service-account-signing-key-file", "sa.key"),
        ("token-auth-file", "tokens.csv"),
    ];
    let files = files.map(|(flag, name)| format!("--{flag}={}", folder.join(name).display()));
    let fixed = [
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--disable-admission-plugins=ServiceAccount",
        "--enable-priority-and-fairness=false",
    ];
    files.into_iter().chain(fixed.map(String::from)).collect()
}

/// The same beside flags of somebody's own: what he says himself is left to him.
#[must_use]
pub fn flags_beside(folder: &Path, own: &[String]) -> Vec<String> {
    let name = |flag: &str| flag.split('=').next().map(ToOwned::to_owned);
    let mut all = flags(folder);
    all.retain(|flag| !own.iter().any(|it| name(it) == name(flag)));
    all
}

/// A kubeconfig of somebody with a token.
#[must_use]
pub fn kubeconfig(url: &str, ca: &Path, token: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": url, "certificate-authority": ca,
        }}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })
    .to_string()
}

/// A client by a kubeconfig.
///
/// # Errors
/// Why it cannot be made.
pub async fn connect(kubeconfig: &str) -> Result<Client, String> {
    let told = |err: &dyn std::fmt::Display| err.to_string();
    let config = Kubeconfig::from_yaml(kubeconfig).map_err(|err| told(&err))?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
        .await
        .map_err(|err| told(&err))?;
    Client::try_from(config).map_err(|err| told(&err))
}

/// Whether a server says that it is ready.
pub async fn is_ready(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else {
        return false;
    };
    // One that is not ready yet is no news.
    let answer = client.request_text(request);
    let answer = answer.with_subscriber(NoSubscriber::default()).await;
    answer.is_ok_and(|text| text == "ok")
}

/// Whom servers know: token, user and groups.
const IDENTITIES: &[(&str, &str)] = &[("admin", "system:masters")];
