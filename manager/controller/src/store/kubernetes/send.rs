//! One request to an API server, made by whoever leads and remembered as it was answered.

use std::time::Instant;

use kedge_core::Problem;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    cluster::{ANSWER, Cluster, LEASE},
    problems::{not_written, refused},
    raw::Raw,
    steps::{Apply, Step},
};
use crate::{
    managers,
    store::{ObjectKey, Reign, Write},
};

/// Why a request came to nothing.
pub(super) enum Failure {
    /// The API server refused it.
    Refused(&'static str, kube::Error),
    /// It was not made or not answered.
    Unsent(Problem),
}

/// What a request was answered with.
enum Answer {
    /// The object as it is since then.
    Object(Box<Raw>),
    /// It is gone, with this uid.
    Gone(String),
}

impl Failure {
    /// The same for people.
    pub fn problem(self, key: &ObjectKey) -> Problem {
        match self {
            Self::Refused(verb, error) => refused(key, verb, &error),
            Self::Unsent(problem) => problem,
        }
    }
}

impl Cluster {
    /// Sends what a step asks for, and keeps what it is answered with. A frozen cluster may hold us
    /// for long: no write begins, or is waited for, without the lease, or under a lease that was
    /// another's since the write was decided.
    pub(super) async fn send(
        &self,
        write: &Write,
        step: Step,
        reign: Reign,
    ) -> Result<(), Failure> {
        let key = &write.key;
        let verb = verb(&step);
        let api = self.api(key).map_err(Failure::Unsent)?;
        let left = self.left().filter(|_| self.reign_now() == reign);
        let left = left.ok_or_else(|| {
            let holder = self.inner.leader.holder();
            let held = format!("the lease {LEASE} is held by `{holder}`");
            Failure::Unsent(not_written(key).evidence(held))
        })?;
        self.cache().begin(key);
        let answered = timeout(left.min(ANSWER), send(&api, &key.name.name, step)).await;
        let now = Instant::now();
        match answered {
            Ok(Ok(Answer::Object(object))) => {
                let seen = self.inner.seen(key, *object);
                self.cache().wrote(write, seen, now);
                Ok(())
            }
            Ok(Ok(Answer::Gone(uid))) => {
                self.cache().wrote_removal(key, &uid, now);
                Ok(())
            }
            Ok(Err(error)) => {
                self.cache().gave_up(key);
                Err(Failure::Refused(verb, error))
            }
            Err(_) => {
                self.cache().gave_up(key);
                let late = "the API server did not answer in time";
                Err(Failure::Unsent(not_written(key).evidence(late)))
            }
        }
    }
}

async fn send(api: &Api<Raw>, name: &str, step: Step) -> Result<Answer, kube::Error> {
    let object = match step {
        Step::Apply(Apply {
            manager,
            force,
            status,
            body,
        }) => {
            let mut params = PatchParams::apply(&manager);
            params.force = force;
            let patch = Patch::Apply(body);
            if status {
                api.patch_status(name, &params, &patch).await?
            } else {
                api.patch(name, &params, &patch).await?
            }
        }
        Step::Merge { body } => {
            let params = PatchParams {
                field_manager: Some(managers::MARKS.to_owned()),
                ..PatchParams::default()
            };
            api.patch(name, &params, &Patch::Merge(body)).await?
        }
        Step::Delete {
            uid,
            resource_version,
        } => {
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: Some(resource_version),
                }),
                ..DeleteParams::default()
            };
            match api.delete(name, &params).await {
                Ok(answer) => match answer.left() {
                    // A finalizer holds it.
                    Some(object) if object.text(DELETED).is_some() => object,
                    _ => return Ok(Answer::Gone(uid)),
                },
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    return Ok(Answer::Gone(uid));
                }
                Err(error) => return Err(error),
            }
        }
        Step::Nothing | Step::Refuse(_) => return Ok(Answer::Gone(String::new())),
    };
    let finalizers = object.object.pointer("/metadata/finalizers");
    let held = finalizers.and_then(Value::as_array);
    let is_held = held.is_some_and(|all| !all.is_empty());
    Ok(match object.text("/metadata/uid") {
        // It was held by nothing else: this was its end.
        Some(uid) if object.text(DELETED).is_some() && !is_held => Answer::Gone(uid.to_owned()),
        _ => Answer::Object(Box::new(object)),
    })
}

/// What permission a step needs.
fn verb(step: &Step) -> &'static str {
    match step {
        Step::Delete { .. } => "delete",
        _ => "patch",
    }
}

const DELETED: &str = "/metadata/deletionTimestamp";
