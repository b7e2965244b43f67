//! The Secrets of certificates: read where HTTPLoadBalancers name them, written for tenants' clusters.

use std::collections::BTreeMap;

use kedge_core::Problem;
use serde_json::{Value, json};

use super::{Layer, Layers, Name, ObjectKey, Write, keep::Store, work::finish};
use crate::{
    certificates::{Found, Pair, TYPE},
    managers,
};

/// What became of a certificate that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there.
    Written,
    /// It was there.
    Same,
    /// The Secret of that name is somebody else's.
    Taken,
}

impl Store {
    /// What an API server's Secret holds; `None` where nothing was learnt. On a directory Secrets are
    /// documents like others, and there is nothing to ask.
    pub async fn certificate(&self, secret: &Name) -> Option<Found> {
        match self {
            Self::Directory(_) => None,
            Self::Kubernetes(cluster) => cluster.certificate(secret).await,
        }
    }

    /// The certificates that were written for a tenant, by the names of their Secrets.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub async fn certificates(
        &self,
        space: &str,
        tenant: &str,
    ) -> Result<BTreeMap<String, Found>, Problem> {
        match self {
            Self::Directory(_) => {
                let all = self.of_kind("", "Secret", Some(space));
                let own = all.by_key.iter().filter_map(|(key, layers)| {
                    let ours = layers.owned.get(managers::EXPOSED)?;
                    let is_ours = is_of(ours, tenant);
                    is_ours.then(|| (key.name.name.clone(), Found::of(ours)))
                });
                Ok(own.collect())
            }
            Self::Kubernetes(cluster) => cluster.certificates(space, tenant).await,
        }
    }

    /// Whether the name of a Secret is free for a tenant's certificate, or has one.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub async fn is_free_for(&self, secret: &Name, tenant: &str) -> Result<bool, Problem> {
        match self {
            Self::Directory(_) => Ok(is_free(self.get(&key(secret)).as_ref(), tenant)),
            Self::Kubernetes(cluster) => cluster.is_free_for(secret, tenant).await,
        }
    }

    /// Writes a tenant's certificate, unless the Secret of that name is somebody else's.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub async fn put_certificate(
        &self,
        secret: &Name,
        tenant: &str,
        pair: &Pair,
    ) -> Result<Put, Problem> {
        match self {
            Self::Directory(_) => {
                let layers = self.get(&key(secret));
                if !is_free(layers.as_ref(), tenant) {
                    return Ok(Put::Taken);
                }
                let content = content(secret, tenant, pair);
                let last = layers
                    .as_ref()
                    .and_then(|it| it.owned.get(managers::EXPOSED));
                if last == Some(&content) {
                    return Ok(Put::Same);
                }
                let write = Write {
                    key: key(secret),
                    layer: Layer::Owned(managers::EXPOSED.to_owned()),
                    content: Some(content),
                };
                self.write(vec![write]).await.map(|()| Put::Written)
            }
            Self::Kubernetes(cluster) => {
                let (cluster, secret, pair) = (cluster.clone(), secret.clone(), pair.clone());
                let tenant = tenant.to_owned();
                finish(async move { cluster.put_certificate(&secret, &tenant, &pair).await })
                    .await?
            }
        }
    }

    /// Removes a tenant's certificate.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub async fn remove_certificate(&self, secret: &Name, tenant: &str) -> Result<(), Problem> {
        match self {
            Self::Directory(_) => {
                let write = Write {
                    key: key(secret),
                    layer: Layer::Owned(managers::EXPOSED.to_owned()),
                    content: None,
                };
                self.write(vec![write]).await
            }
            Self::Kubernetes(cluster) => {
                let (cluster, secret) = (cluster.clone(), secret.clone());
                let tenant = tenant.to_owned();
                finish(async move { cluster.remove_certificate(&secret, &tenant).await }).await?
            }
        }
    }
}

/// A tenant's certificate as a Secret.
pub fn content(secret: &Name, tenant: &str, pair: &Pair) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": TYPE,
        "metadata": {
            "name": secret.name,
            "namespace": secret.namespace,
            "labels": {
                TENANT_LABEL: tenant,
                CERTIFICATE_LABEL: EXPOSED,
                // It goes where its load balancers go.
                "clusterctl.cluster.x-k8s.io/move": "",
            },
        },
        "stringData": {"tls.crt": pair.chain, "tls.key": pair.key},
    })
}

/// Whether a Secret is a certificate that was written for the tenant.
pub fn is_of(secret: &Value, tenant: &str) -> bool {
    let labels = secret.pointer("/metadata/labels");
    let label = |name: &str| labels?.get(name)?.as_str();
    label(TENANT_LABEL) == Some(tenant) && label(CERTIFICATE_LABEL) == Some(EXPOSED)
}

/// The labels of a tenant's certificates, as a selector.
pub fn selector(tenant: &str) -> String {
    format!("{TENANT_LABEL}={tenant},{CERTIFICATE_LABEL}={EXPOSED}")
}

fn is_free(layers: Option<&Layers>, tenant: &str) -> bool {
    let Some(layers) = layers else { return true };
    let ours = layers.owned.get(managers::EXPOSED);
    let is_others = ours.is_none() && !layers.owned.is_empty();
    layers.user.is_none() && !is_others && ours.is_none_or(|ours| is_of(ours, tenant))
}

fn key(secret: &Name) -> ObjectKey {
    ObjectKey::new("", "Secret", secret.clone())
}

const TENANT_LABEL: &str = "kedge.dev/tenant";
const CERTIFICATE_LABEL: &str = "kedge.dev/certificate";
const EXPOSED: &str = "exposed";
