//! One request to an API server.

use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::DynamicObject,
};

use super::steps::{Apply, Step};
use crate::managers;

/// What a request was answered with.
pub(super) enum Answer {
    /// The object as it is since then.
    Object(Box<DynamicObject>),
    /// It is gone, with this uid.
    Gone(String),
}

/// Sends what a step asks for.
pub(super) async fn send(
    api: &Api<DynamicObject>,
    name: &str,
    step: Step,
) -> Result<Answer, kube::Error> {
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
                    Some(object) if object.metadata.deletion_timestamp.is_some() => object,
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
    let meta = &object.metadata;
    let is_held = meta.finalizers.as_ref().is_some_and(|all| !all.is_empty());
    Ok(match &meta.uid {
        // It was held by nothing else: this was its end.
        Some(uid) if meta.deletion_timestamp.is_some() && !is_held => Answer::Gone(uid.clone()),
        _ => Answer::Object(Box::new(object)),
    })
}

/// What permission a step needs.
pub(super) fn verb(step: &Step) -> &'static str {
    match step {
        Step::Delete { .. } => "delete",
        _ => "patch",
    }
}
