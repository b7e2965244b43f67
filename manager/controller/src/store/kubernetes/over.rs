//! Writes over an object as it was just read: of two that read the same, one writes.

use kedge_core::Problem;
use serde_json::json;
use tokio::time::timeout;

use super::{
    cluster::{ANSWER, Cluster},
    fields,
    problems::{leaving, not_written, refused},
    send::Failure,
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
            Leadership::Other(self.elsewhere())
        }
    }

    /// The object as the API server holds it.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub async fn current(&self, key: &ObjectKey) -> Result<Current, Problem> {
        let objects = self.api(key)?;
        let found = objects.get_opt(&key.name.name);
        let found = self.answer(key, "get", found).await?;
        let Some(found) = found else {
            return Ok(Current::default());
        };
        let seen = self.inner.seen(key, found);
        Ok(Current {
            layers: seen.layers.clone(),
            seen: Some(seen),
        })
    }

    /// What a request is answered with, unless this manager is leaving.
    ///
    /// # Errors
    ///
    /// It is refused or not answered.
    pub(super) async fn answer<T>(
        &self,
        key: &ObjectKey,
        verb: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Problem> {
        if self.is_closed() {
            return Err(leaving(self.name()));
        }
        let answered = timeout(ANSWER, request).await;
        let answered = answered.map_err(|_| not_written(key).evidence(LATE))?;
        answered.map_err(|error| refused(key, verb, &error))
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
        match self.send(write, step, self.reign_now()).await {
            Ok(()) => Ok(true),
            // Somebody wrote meanwhile, or the object is gone.
            Err(Failure::Refused(_, kube::Error::Api(status))) if status.code == 409 => Ok(false),
            Err(failure) => Err(failure.problem(key)),
        }
    }
}

/// Why nothing is known of a request.
pub(super) const LATE: &str = "the API server did not answer in time";
