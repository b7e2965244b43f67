//! Writes over an object as it was just read: of two that read the same, one writes.

use std::time::Instant;

use kedge_core::Problem;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    cluster::{ANSWER, Cluster, LEASE},
    fields,
    layers::split,
    problems::{leaving, not_written, refused},
    send::{Answer, send},
    steps::{Step, step},
};
use crate::store::{Current, Leadership, ObjectKey, Write};

impl Cluster {
    /// Who of several managers writes now.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        if self.leads() && !self.is_closed() {
            Leadership::Me
        } else {
            Leadership::Other(self.inner.leader.elsewhere())
        }
    }

    /// The object as the API server holds it.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub async fn current(&self, key: &ObjectKey) -> Result<Current, Problem> {
        if self.is_closed() {
            return Err(leaving(self.name()));
        }
        let objects = self.api(key)?;
        let read = timeout(ANSWER, objects.get_opt(&key.name.name));
        let found = read
            .await
            .map_err(|_| not_written(key).evidence("the API server did not answer in time"))?
            .map_err(|error| refused(key, "get", &error))?;
        let Some(found) = found else {
            return Ok(Current::default());
        };
        let mut object = serde_json::to_value(found).unwrap_or(Value::Null);
        self.inner.name_kind(key, &mut object);
        let seen = split(key, object);
        Ok(Current {
            layers: seen.layers.clone(),
            seen: Some(seen),
        })
    }

    /// Carries out the write if the object is still as it was read.
    ///
    /// # Errors
    ///
    /// It is refused or not answered, or another manager leads.
    pub async fn write_over(&self, write: &Write, current: &Current) -> Result<bool, Problem> {
        let key = &write.key;
        let mut step = step(write, current.seen.as_ref());
        match &mut step {
            Step::Nothing => return Ok(true),
            Step::Refuse(refusal) => return Err(not_written(key).caused_by(refusal)),
            Step::Apply(apply) => {
                let server = current.layers.server.as_ref();
                if let Some(server) = server {
                    let version = &server.resource_version;
                    let guard = json!({"metadata": {"resourceVersion": version}});
                    fields::put(&mut apply.body, guard);
                }
            }
            Step::Merge { .. } | Step::Delete { .. } => {}
        }
        let api = self.api(key)?;
        let left = self.inner.leader.remaining();
        let left = left.filter(|_| !self.is_closed()).ok_or_else(|| {
            let holder = self.inner.leader.holder();
            not_written(key).evidence(format!("the lease {LEASE} is held by `{holder}`"))
        })?;
        self.cache().begin(key);
        let answered = timeout(left.min(ANSWER), send(&api, &key.name.name, step)).await;
        let now = Instant::now();
        match answered {
            Ok(Ok(Answer::Object(object))) => {
                let mut object = serde_json::to_value(object).unwrap_or(Value::Null);
                self.inner.name_kind(key, &mut object);
                self.cache().wrote(write, object, now);
                Ok(true)
            }
            Ok(Ok(Answer::Gone(uid))) => {
                self.cache().wrote_removal(key, &uid, now);
                Ok(true)
            }
            Ok(Err(error)) => {
                self.cache().gave_up(key);
                match &error {
                    // Somebody wrote meanwhile, or the object is gone.
                    kube::Error::Api(status) if status.code == 409 => Ok(false),
                    error => Err(refused(key, "patch", error)),
                }
            }
            Err(_) => {
                self.cache().gave_up(key);
                Err(not_written(key).evidence("the API server did not answer in time"))
            }
        }
    }
}
