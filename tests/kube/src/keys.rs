//! What API servers and their clients know each other by.

use std::{fs, path::Path};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Writes what every server of a cluster shares: the identities, and what signs their tokens.
pub(crate) fn write(folder: &Path) {
    fs::create_dir_all(folder.join("certs")).unwrap();
    let lines: String = IDENTITIES
        .iter()
        .map(|(name, groups)| format!("{name},{name},{name},\"{groups}\"\n"))
        .collect();
    fs::write(folder.join("tokens.csv"), lines).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(folder.join("sa.key"), key.serialize_pem()).unwrap();
    fs::write(folder.join("sa.pub"), key.public_key_pem()).unwrap();
}

/// The flags of a server that uses what [`write`] wrote.
pub(crate) fn flags(folder: &Path) -> Vec<String> {
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

/// A kubeconfig of somebody with a token.
pub(crate) fn kubeconfig(url: &str, ca: &Path, token: &str) -> String {
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
pub(crate) async fn connect(kubeconfig: &str) -> Result<Client, String> {
    let told = |err: &dyn std::fmt::Display| err.to_string();
    let config = Kubeconfig::from_yaml(kubeconfig).map_err(|err| told(&err))?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
        .await
        .map_err(|err| told(&err))?;
    Client::try_from(config).map_err(|err| told(&err))
}

/// Whether a server says that it is ready.
pub(crate) async fn is_ready(client: &Client) -> bool {
    let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
    let answer = client.request_text(request).await;
    answer.is_ok_and(|text| text == "ok")
}

/// Whom servers know: token, user and groups.
const IDENTITIES: &[(&str, &str)] = &[("admin", "system:masters")];
