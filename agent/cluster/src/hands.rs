//! What is written to the cluster: the finalizer, statuses and events, by server-side apply.

use std::{error::Error, fmt::Debug, time::Duration};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::ObjectReference};
use kedge_api_lease::Leader;
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::{
    apply::{self, Kind},
    gateway_api::{Class, Gateway, Route},
    names::FIELD_MANAGER,
    plan::{
        Show, Target,
        http::{Say, ShowIngress},
        status::Note,
    },
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
    #[error("the cluster refused a write to {name}")]
    Refused {
        /// Of what kind and name.
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

    /// Holds an object by the finalizer, or lets it go.
    ///
    /// # Errors
    ///
    /// It was not written.
    pub async fn guard(&self, kind: Kind, target: &Target, holds: bool) -> Result<(), NotWritten> {
        let document = apply::guard(kind, target, holds);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        match kind {
            Kind::Service => {
                let patched = self.patch(target, &params, &document, Part::Whole);
                self.written(kind, target, patched, |it| self.seen.saw(it))
                    .await
            }
            Kind::Ingress => {
                let patched = self.patch(target, &params, &document, Part::Whole);
                self.written(kind, target, patched, |it| self.seen.saw_ingress(it))
                    .await
            }
            // Of the Gateway API routes alone are held.
            Kind::HttpRoute | Kind::Gateway | Kind::GatewayClass => {
                let patched = self.patch(target, &params, &document, Part::Whole);
                self.written(kind, target, patched, |it| self.seen.saw_route(it))
                    .await
            }
        }
    }

    /// Writes a status of the Gateway API over the one that was seen.
    ///
    /// # Errors
    ///
    /// It was not written.
    pub async fn say(&self, say: &Say) -> Result<(), NotWritten> {
        let (kind, target) = (say.kind, &say.target);
        let document = apply::say(say);
        let patch = Patch::Merge(&document);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let (name, space) = (&target.key.name, &target.key.namespace);
        let client = self.client.clone();
        match kind {
            Kind::GatewayClass => {
                let api: Api<Class> = Api::all(client);
                let patched = api.patch_status(name, &params, &patch);
                self.written(kind, target, patched, |it| self.seen.saw_class(it))
                    .await
            }
            Kind::Gateway => {
                let api: Api<Gateway> = Api::namespaced(client, space);
                let patched = api.patch_status(name, &params, &patch);
                self.written(kind, target, patched, |it| self.seen.saw_gateway(it))
                    .await
            }
            Kind::HttpRoute => {
                let api: Api<Route> = Api::namespaced(client, space);
                let patched = api.patch_status(name, &params, &patch);
                self.written(kind, target, patched, |it| self.seen.saw_route(it))
                    .await
            }
            Kind::Service | Kind::Ingress => Ok(()),
        }
    }

    /// Writes a Service's status, and tells what changed.
    ///
    /// # Errors
    ///
    /// It was not written.
    pub async fn show(&self, show: &Show) -> Result<(), NotWritten> {
        let (kind, target) = (Kind::Service, &show.target);
        let document = apply::show(target, &show.shown, show.with_addresses);
        let params = PatchParams::apply(FIELD_MANAGER);
        // Addresses of a class of ours are ours; without a class another may have been faster.
        let params = match show.is_alone {
            true => params.force(),
            false => params,
        };
        let patched = self.patch(target, &params, &document, Part::Status);
        self.written(kind, target, patched, |it| self.seen.saw(it))
            .await?;
        self.tell(kind, target, &show.notes).await;
        Ok(())
    }

    /// Writes an Ingress's status.
    ///
    /// # Errors
    ///
    /// It was not written.
    pub async fn show_ingress(&self, show: &ShowIngress) -> Result<(), NotWritten> {
        let document = apply::show_ingress(show);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patched = self.patch(&show.target, &params, &document, Part::Status);
        let saw = |it| self.seen.saw_ingress(it);
        self.written(Kind::Ingress, &show.target, patched, saw)
            .await
    }

    async fn patch<R>(
        &self,
        target: &Target,
        params: &PatchParams,
        document: &Value,
        part: Part,
    ) -> Result<R, kube::Error>
    where
        R: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api: Api<R> = Api::namespaced(self.client.clone(), &target.key.namespace);
        let patch = Patch::Apply(document);
        match part {
            Part::Whole => api.patch(&target.key.name, params, &patch).await,
            Part::Status => api.patch_status(&target.key.name, params, &patch).await,
        }
    }

    async fn written<R>(
        &self,
        kind: Kind,
        target: &Target,
        write: impl Future<Output = Result<R, kube::Error>>,
        saw: impl FnOnce(R),
    ) -> Result<(), NotWritten> {
        let left = self.leader.remaining().ok_or(NotWritten::NotLeading)?;
        let written = timeout(left.min(ANSWER), write).await;
        match written.map_err(|_| NotWritten::Silent)? {
            Ok(object) => {
                saw(object);
                Ok(())
            }
            // Gone, or another one of that name: its watch tells.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {
                let (object, said) = (&target.key, &status.message);
                debug!(%object, said, "a write is not for the object that is there");
                Ok(())
            }
            Err(source) => Err(NotWritten::Refused {
                name: format!("{} {}", kind.names().1, target.key),
                source: Box::new(source),
            }),
        }
    }

    /// Tells of an object, in events.
    pub async fn tell(&self, kind: Kind, target: &Target, notes: &[Note]) {
        for note in notes {
            self.tell_one(kind, target, note).await;
        }
    }

    async fn tell_one(&self, kind: Kind, target: &Target, note: &Note) {
        let (version, kind) = kind.names();
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
            api_version: Some(version.to_owned()),
            kind: Some(kind.to_owned()),
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
}

/// What of an object is written.
#[derive(Clone, Copy, Debug)]
enum Part {
    Whole,
    Status,
}

/// How long a write may take.
const ANSWER: Duration = Duration::from_secs(5);
/// As many characters as an event's note may have bytes, at four each.
const NOTE: usize = 250;
