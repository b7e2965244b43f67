//! What is written to the cluster: the finalizer, statuses and events, by server-side apply.

use std::{error::Error, time::Duration};

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kedge_api_lease::Leader;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::{
    apply,
    names::FIELD_MANAGER,
    plan::{Show, Target, status::Note},
    seen::Seen,
};

/// What writes to the cluster, as long as this agent leads.
pub struct Hands<'a> {
    client: Client,
    recorder: Recorder,
    leader: &'a Leader,
    seen: &'a Seen,
}

/// A write was not made.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    /// This agent does not lead any more.
    #[error("this agent does not lead any more")]
    NotLeading,
    /// The cluster did not answer in time.
    #[error("the cluster did not answer")]
    Silent,
    /// The cluster refused.
    #[error("the cluster refused a write to Service {name}")]
    Refused {
        /// The Service.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

impl NotWritten {
    /// Whether the cluster forbids it.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        let Self::Refused { source, .. } = self else {
            return false;
        };
        matches!(&**source, kube::Error::Api(status) if status.code == 403)
    }
}

impl<'a> Hands<'a> {
    /// Hands of this agent.
    #[must_use]
    pub fn new(client: Client, me: &str, leader: &'a Leader, seen: &'a Seen) -> Self {
        let reporter = Reporter {
            controller: FIELD_MANAGER.to_owned(),
            instance: Some(me.chars().take(128).collect()),
        };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            leader,
            seen,
        }
    }

    /// Holds a Service by the finalizer, or lets it go.
    ///
    /// # Errors
    ///
    /// It was not written.
    pub async fn guard(&self, target: &Target, holds: bool) -> Result<(), NotWritten> {
        let document = apply::guard(target, holds);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let services = self.services(target);
        let patch = Patch::Apply(&document);
        let written = services.patch(&target.key.name, &params, &patch);
        self.written(target, written).await
    }

    /// Writes a status, and tells what changed.
    ///
    /// # Errors
    ///
    /// It was not written.
    pub async fn show(&self, show: &Show) -> Result<(), NotWritten> {
        let target = &show.target;
        let document = apply::show(target, &show.shown, show.with_addresses);
        let params = PatchParams::apply(FIELD_MANAGER);
        // Addresses of a class of ours are ours; without a class another may have been faster.
        let params = match show.is_alone {
            true => params.force(),
            false => params,
        };
        let services = self.services(target);
        let patch = Patch::Apply(&document);
        let written = services.patch_status(&target.key.name, &params, &patch);
        self.written(target, written).await?;
        for note in &show.notes {
            self.tell(target, note).await;
        }
        Ok(())
    }

    async fn written(
        &self,
        target: &Target,
        write: impl Future<Output = Result<Service, kube::Error>>,
    ) -> Result<(), NotWritten> {
        let left = self.leader.remaining().ok_or(NotWritten::NotLeading)?;
        let written = timeout(left.min(ANSWER), write).await;
        match written.map_err(|_| NotWritten::Silent)? {
            Ok(service) => {
                self.seen.saw(service);
                Ok(())
            }
            // Gone, or another one of that name: its watch tells.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {
                let (service, said) = (&target.key, &status.message);
                debug!(%service, said, "a write is not for the Service that is there");
                Ok(())
            }
            Err(source) => Err(NotWritten::Refused {
                name: target.key.to_string(),
                source: Box::new(source),
            }),
        }
    }

    async fn tell(&self, target: &Target, note: &Note) {
        let event = Event {
            type_: match note.is_warning {
                true => EventType::Warning,
                false => EventType::Normal,
            },
            reason: note.reason.clone(),
            note: Some(note.text.chars().take(NOTE).collect()),
            action: "Offer".to_owned(),
            secondary: None,
        };
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace: Some(target.key.namespace.clone()),
            name: Some(target.key.name.clone()),
            uid: Some(target.uid.clone()),
            ..ObjectReference::default()
        };
        let told = timeout(ANSWER, self.recorder.publish(&event, &about)).await;
        if let Ok(Err(error)) = told {
            let error = &error as &dyn Error;
            warn!(error, "an event is not told");
        }
    }

    fn services(&self, target: &Target) -> Api<Service> {
        Api::namespaced(self.client.clone(), &target.key.namespace)
    }
}

/// How long a write may take.
const ANSWER: Duration = Duration::from_secs(5);
/// As many characters as an event's note may have bytes, at four each.
const NOTE: usize = 250;
