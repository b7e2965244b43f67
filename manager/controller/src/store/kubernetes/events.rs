//! Tells what there is to tell, beside the writes and never in their way.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    time::timeout,
};
use tracing::debug;

use super::cluster::Cluster;
use crate::{
    events::Notice,
    metrics::{Lost, Metrics},
};

/// Where what is to be told waits.
#[derive(Debug)]
pub(super) struct Teller {
    waiting: Sender<Notice>,
    metrics: Metrics,
}

impl Teller {
    /// A place, and what is taken from it.
    pub fn new(metrics: Metrics) -> (Self, Receiver<Notice>) {
        let (waiting, taken) = mpsc::channel(AT_MOST);
        (Self { waiting, metrics }, taken)
    }

    /// Tells, unless too much waits already: a journal has it anyway.
    pub fn tell(&self, notices: Vec<Notice>) {
        for notice in notices {
            if let Err(error) = self.waiting.try_send(notice) {
                let error = &error as &dyn std::error::Error;
                debug!(error, "an event is not told");
                self.metrics.lost(Lost::Full);
            }
        }
    }
}

/// Publishes for good. Repeats within six minutes are folded into one object.
pub(super) async fn publish(
    cluster: Cluster,
    client: Client,
    me: String,
    mut taken: Receiver<Notice>,
) {
    let reporter = Reporter {
        controller: "kedge-manager".to_owned(),
        instance: Some(me.chars().take(128).collect()),
    };
    let recorder = Recorder::new(client, reporter);
    while let Some(notice) = taken.recv().await {
        let Some(reference) = reference(&cluster, &notice) else {
            debug!(object = %notice.key, reason = notice.reason, "there is nobody to tell it about");
            continue;
        };
        let event = Event {
            type_: if notice.is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: notice.reason.chars().take(128).collect(),
            note: Some(notice.note.chars().take(1000).collect()),
            action: notice.action.to_owned(),
            secondary: None,
        };
        match timeout(super::cluster::ANSWER, recorder.publish(&event, &reference)).await {
            Ok(Ok(())) => cluster.metrics().told(),
            Ok(Err(error)) => {
                cluster.metrics().lost(Lost::Refused);
                let error = &error as &dyn std::error::Error;
                debug!(error, object = %notice.key, reason = notice.reason, "an event is not told");
            }
            Err(_) => {
                cluster.metrics().lost(Lost::Unanswered);
                debug!(object = %notice.key, "an event is not answered");
            }
        }
    }
}

/// The object a notice is about. What strangers ask for may name objects that were never there.
fn reference(cluster: &Cluster, notice: &Notice) -> Option<ObjectReference> {
    let key = &notice.key;
    let mut uid = notice.uid.clone();
    if uid.is_empty() {
        let known = cluster.look(|stock| Some(stock.packed(key)?.uid.to_string()));
        uid = known.unwrap_or_default();
    }
    if uid.is_empty() {
        return None;
    }
    Some(ObjectReference {
        api_version: Some(cluster.api_version(key)),
        kind: Some(key.kind.clone()),
        namespace: (!key.name.namespace.is_empty()).then(|| key.name.namespace.clone()),
        name: Some(key.name.name.clone()),
        uid: Some(uid),
        ..ObjectReference::default()
    })
}

const AT_MOST: usize = 512;
