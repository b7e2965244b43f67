//! Tokens, made where the guides say and put where they say.

use std::fs;

use kedge_tests_kube::until;

use crate::{cluster::Cluster, pods::LIMIT};

/// A token, made in a manager's Pod.
pub async fn made(cluster: &Cluster, whose: [&str; 2]) -> String {
    let asked = [
        "--namespace=kedge-system",
        "exec",
        "deploy/kedge-manager",
        "--",
        "kedge",
        "token",
        "create",
    ];
    let asked = [&asked[..], &whose].concat();
    // A manager hears of what was made a moment after it was made.
    let made = async || cluster.try_kubectl(&asked);
    until("a token is made", LIMIT, made, |said| said).await
}

/// A token in a Secret of a namespace.
pub async fn put(cluster: &Cluster, whose: [&str; 2], namespace: &str, secret: &str) {
    let file = cluster.folder("token");
    fs::write(&file, made(cluster, whose).await).unwrap();
    cluster.kubectl(&[
        "create",
        "secret",
        "generic",
        secret,
        &format!("--namespace={namespace}"),
        &format!("--from-file=token={}", file.display()),
    ]);
}
