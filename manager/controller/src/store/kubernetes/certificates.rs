//! The Secrets of certificates, of an API server: each asked for by its name. They are in no watch, and
//! in no memory of objects.

use std::{collections::BTreeMap, error::Error};

use kedge_core::Problem;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::DynamicObject,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::debug;

use super::{
    cluster::{ANSWER, Cluster, secrets},
    over::LATE,
    problems::{not_written, refused},
};
use crate::{
    certificates::{Found, Pair},
    managers,
    store::{
        Name, ObjectKey,
        certificates::{Put, content, is_of, selector},
    },
};

impl Cluster {
    /// What a Secret holds; `None` where the API server does not answer.
    pub async fn certificate(&self, secret: &Name) -> Option<Found> {
        let all = self.secrets_of(&secret.namespace);
        match timeout(ANSWER, all.get_opt(&secret.name)).await.ok()? {
            Ok(Some(found)) => Some(Found::of(&found.data)),
            Ok(None) => Some(Found::Missing),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let Name { namespace, name } = secret;
                Some(Found::Forbidden(format!(
                    "{{apiGroups: [\"\"], resources: [\"secrets\"], resourceNames: [\"{name}\"], verbs: \
                     [\"get\"]}} in namespace {namespace}"
                )))
            }
            Err(error) => {
                let error = &error as &dyn Error;
                debug!(error, %secret, "a certificate was not read; it is tried again");
                None
            }
        }
    }

    /// The certificates that were written for a tenant.
    pub async fn certificates(
        &self,
        space: &str,
        tenant: &str,
    ) -> Result<BTreeMap<String, Found>, Problem> {
        let key = key(&Name::new(space, "*"));
        let params = ListParams::default().labels(&selector(tenant));
        let all = self.secrets_of(space);
        let listed = self.answer(&key, "list", all.list(&params)).await?;
        let each = listed.items.into_iter().filter_map(|secret| {
            let found = Found::of(&secret.data);
            Some((secret.metadata.name?, found))
        });
        Ok(each.collect())
    }

    /// Whether the name of a Secret is free for a tenant's certificate, or has one.
    pub async fn is_free_for(&self, secret: &Name, tenant: &str) -> Result<bool, Problem> {
        let all = self.secrets_of(&secret.namespace);
        let found = all.get_opt(&secret.name);
        let found = self.answer(&key(secret), "get", found).await?;
        Ok(found.is_none_or(|found| is_ours(&found, tenant)))
    }

    /// Writes a tenant's certificate, unless the Secret of that name is somebody else's.
    pub async fn put_certificate(
        &self,
        secret: &Name,
        tenant: &str,
        pair: &Pair,
    ) -> Result<Put, Problem> {
        let key = key(secret);
        let all = self.secrets_of(&secret.namespace);
        let content = content(secret, tenant, pair);
        for _ in 0..TRIES {
            let found = self.answer(&key, "get", all.get_opt(&secret.name)).await?;
            let written = match found {
                Some(found) if !is_ours(&found, tenant) => return Ok(Put::Taken),
                Some(found) if Found::of(&found.data) == Found::Pair(pair.clone()) => {
                    return Ok(Put::Same);
                }
                Some(found) => {
                    let meta = &found.metadata;
                    let body = json!({
                        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
                        "stringData": content.get("stringData"),
                    });
                    let how = PatchParams {
                        field_manager: Some(managers::EXPOSED.to_owned()),
                        ..PatchParams::default()
                    };
                    let body = Patch::Merge(body);
                    let patched = all.patch(&secret.name, &how, &body);
                    self.once(&key, "patch", patched).await?
                }
                None => {
                    let object = serde_json::from_value(content.clone());
                    let object: DynamicObject =
                        object.map_err(|error| not_written(&key).caused_by(&error))?;
                    let how = PostParams {
                        field_manager: Some(managers::EXPOSED.to_owned()),
                        ..PostParams::default()
                    };
                    let created = all.create(&how, &object);
                    self.once(&key, "create", created).await?
                }
            };
            // Somebody wrote meanwhile: it is looked at again.
            if written {
                return Ok(Put::Written);
            }
        }
        Err(not_written(&key).evidence("somebody else writes it again and again"))
    }

    /// Removes a tenant's certificate, if it still is one.
    pub async fn remove_certificate(&self, secret: &Name, tenant: &str) -> Result<(), Problem> {
        let key = key(secret);
        let all = self.secrets_of(&secret.namespace);
        let found = self.answer(&key, "get", all.get_opt(&secret.name)).await?;
        let Some(found) = found.filter(|found| is_ours(found, tenant)) else {
            return Ok(());
        };
        let how = DeleteParams {
            preconditions: Some(Preconditions {
                uid: found.metadata.uid,
                resource_version: found.metadata.resource_version,
            }),
            ..DeleteParams::default()
        };
        // Who wrote it meanwhile wants it; what is left is looked at with the next set.
        let deleted = all.delete(&secret.name, &how);
        self.once(&key, "delete", deleted).await.map(|_| ())
    }

    fn secrets_of(&self, space: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), space, &secrets())
    }

    /// Makes a change as whoever leads; says whether the object was still as it was read.
    async fn once<T>(
        &self,
        key: &ObjectKey,
        verb: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<bool, Problem> {
        let Some(left) = self.left() else {
            return Err(not_written(key).evidence("another manager leads"));
        };
        match timeout(left.min(ANSWER), request).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Ok(false),
            Ok(Err(error)) => Err(refused(key, verb, &error)),
            Err(_) => Err(not_written(key).evidence(LATE)),
        }
    }
}

fn is_ours(secret: &DynamicObject, tenant: &str) -> bool {
    let labels = &secret.metadata.labels;
    is_of(&json!({"metadata": {"labels": labels}}), tenant)
        && secret.data.get("type").and_then(Value::as_str) == Some(crate::certificates::TYPE)
}

fn key(secret: &Name) -> ObjectKey {
    ObjectKey::new("", "Secret", secret.clone())
}

/// How often a Secret that others write as well is tried.
const TRIES: usize = 4;
