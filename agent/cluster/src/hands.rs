//! What is written to the cluster: the finalizer, statuses and events, by server-side apply.

use std::{error::Error, fmt::Debug, time::Duration};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::ObjectReference};
use kedge_api_lease::Leader;
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::{
    apply::{self, Kind},
    gateway_api::{Class, GrpcRoute, Route, TlsRoute},
    names::FIELD_MANAGER,
    plan::{
        Show, Target,
        http::{Say, ShowIngress},
        status::Note,
    },
    seen::Seen,
    snapshot::Key,
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
        self.code() == Some(403)
    }

    /// The code of an answer that refuses.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
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
        let how = (&params, &Patch::Apply(&document), Part::Whole);
        let seen = self.seen;
        match kind {
            Kind::Service => self.write(kind, target, how, |it| seen.saw(it)).await,
            Kind::Ingress => {
                self.write(kind, target, how, |it| seen.saw_ingress(it))
                    .await
            }
            // Of the Gateway API routes alone are held.
            Kind::HttpRoute | Kind::Gateway | Kind::GatewayClass => {
                self.write_route::<Route>(kind, target, how).await
            }
            Kind::GrpcRoute => self.write_route::<GrpcRoute>(kind, target, how).await,
            Kind::TlsRoute => self.write_route::<TlsRoute>(kind, target, how).await,
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
        let how = (&params, &patch, Part::Status);
        let seen = self.seen;
        match kind {
            Kind::GatewayClass => {
                let api: Api<Class> = Api::all(self.client.clone());
                let patched = api.patch_status(&target.key.name, &params, &patch);
                self.written(kind, target, patched, |it| seen.saw_class(it))
                    .await
            }
            Kind::Gateway => {
                self.write(kind, target, how, |it| seen.saw_gateway(it))
                    .await
            }
            Kind::HttpRoute => self.write_route::<Route>(kind, target, how).await,
            Kind::GrpcRoute => self.write_route::<GrpcRoute>(kind, target, how).await,
            Kind::TlsRoute => self.write_route::<TlsRoute>(kind, target, how).await,
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
        let how = (&params, &Patch::Apply(&document), Part::Status);
        self.write(kind, target, how, |it| self.seen.saw(it))
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
        let how = (&params, &Patch::Apply(&document), Part::Status);
        let saw = |it| self.seen.saw_ingress(it);
        self.write(Kind::Ingress, &show.target, how, saw).await
    }

    /// Makes what stands beside a Service, or changes it.
    ///
    /// # Errors
    ///
    /// It was not written.
    pub async fn put<R>(&self, object: &R) -> Result<(), NotWritten>
    where
        R: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let key = Key::of(object);
        let api: Api<R> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(object);
        self.answered::<R, _>(&key, api.patch(&key.name, &params, &patch))
            .await
    }

    /// Removes what stood beside a Service.
    ///
    /// # Errors
    ///
    /// It is still there.
    pub async fn remove<R>(&self, target: &Target) -> Result<(), NotWritten>
    where
        R: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let (key, uid) = (&target.key, target.uid.clone());
        let api: Api<R> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid),
            resource_version: None,
        });
        match self
            .answered::<R, _>(key, api.delete(&key.name, &params))
            .await
        {
            // Gone, or another one of that name.
            Err(error) if error.code().is_some_and(|code| matches!(code, 404 | 409)) => Ok(()),
            other => other,
        }
    }

    async fn answered<R, T>(
        &self,
        key: &Key,
        write: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<(), NotWritten>
    where
        R: Resource<DynamicType = ()>,
    {
        let written = self.answer(write).await?;
        written.map(drop).map_err(|source| NotWritten::Refused {
            name: format!("{} {key}", R::kind(&())),
            source: Box::new(source),
        })
    }

    /// Writes to a route, and takes in what the answer shows.
    async fn write_route<R>(
        &self,
        kind: Kind,
        target: &Target,
        how: How<'_>,
    ) -> Result<(), NotWritten>
    where
        R: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Into<Route>,
    {
        let saw = |it: R| self.seen.saw_route(it.into());
        self.write(kind, target, how, saw).await
    }

    /// Writes to an object of a namespace, and takes in what the answer shows.
    async fn write<R>(
        &self,
        kind: Kind,
        target: &Target,
        (params, patch, part): How<'_>,
        saw: impl FnOnce(R),
    ) -> Result<(), NotWritten>
    where
        R: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api: Api<R> = Api::namespaced(self.client.clone(), &target.key.namespace);
        let name = &target.key.name;
        let patched = async {
            match part {
                Part::Whole => api.patch(name, params, patch).await,
                Part::Status => api.patch_status(name, params, patch).await,
            }
        };
        self.written(kind, target, patched, saw).await
    }

    /// Waits for an answer as long as this agent leads.
    async fn answer<T>(&self, write: impl Future<Output = T>) -> Result<T, NotWritten> {
        let left = self.leader.remaining().ok_or(NotWritten::NotLeading)?;
        let answer = timeout(left.min(ANSWER), write).await;
        answer.map_err(|_| NotWritten::Silent)
    }

    async fn written<R>(
        &self,
        kind: Kind,
        target: &Target,
        write: impl Future<Output = Result<R, kube::Error>>,
        saw: impl FnOnce(R),
    ) -> Result<(), NotWritten> {
        match self.answer(write).await? {
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

/// How an object is written.
type How<'a> = (&'a PatchParams, &'a Patch<&'a Value>, Part);

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
