//! One stream: what comes from Envoy and from whoever decides goes into the machine, what comes out of
//! it to Envoy.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource as Told,
};
use kedge_core::{Instant, Machine as _};
use tokio::{
    sync::mpsc::Sender,
    time::{Instant as Clock, sleep_until},
};
use tonic::{Status, Streaming};
use tracing::{debug, warn};

use crate::{
    Kind,
    delta::{Change, Input, Name, Outcome, Output, Request, Response, Settled, Stream, Version},
    resource::Shared,
    wanted::{Key, Reader},
};

/// What a stream sends.
pub(crate) type Answer = Result<DeltaDiscoveryResponse, Status>;

/// A stream that is open.
pub(crate) struct Session {
    reader: Reader,
    stream: Stream,
    /// What the machine knows of, to be sent.
    bodies: BTreeMap<Key, Shared>,
    start: Clock,
}

impl Session {
    pub fn new(reader: Reader, resources: Vec<Shared>) -> Self {
        let stream = Stream::new(resources.iter().map(there).collect());
        let key = |resource: Shared| ((resource.kind, resource.name.clone()), resource);
        Self {
            reader,
            stream,
            bodies: resources.into_iter().map(key).collect(),
            start: Clock::now(),
        }
    }

    /// Serves until Envoy leaves.
    pub async fn run(
        mut self,
        mut requests: Streaming<DeltaDiscoveryRequest>,
        answers: Sender<Answer>,
    ) {
        loop {
            let deadline = self.stream.poll_timeout();
            let input = tokio::select! {
                message = requests.message() => match message {
                    Ok(Some(message)) => read(message).map(Input::Request),
                    Ok(None) => break,
                    Err(status) => {
                        debug!(code = ?status.code(), "a stream of Envoy ended");
                        break;
                    }
                },
                changes = self.reader.changed() => Some(Input::Changed(self.take(changes))),
                () = sleep_until(self.at(deadline)), if deadline.is_some() => None,
            };
            let now = self.now();
            match input {
                Some(input) => {
                    if let Err(reject) = self.stream.handle_input(now, input) {
                        warn!(reason = %reject, "a request of Envoy is ignored");
                    }
                }
                None => self.stream.handle_timeout(now),
            }
            while let Some(output) = self.stream.poll_output() {
                match output {
                    Output::Send(response) => {
                        if answers.send(Ok(self.write(&response))).await.is_err() {
                            return;
                        }
                    }
                    Output::Settled(settled) => {
                        log(&settled);
                        self.reader.settled(settled);
                    }
                }
            }
        }
    }

    fn take(&mut self, changes: BTreeMap<Key, Option<Shared>>) -> Vec<Change> {
        let mut taken = Vec::with_capacity(changes.len());
        for ((kind, name), resource) in changes {
            taken.push(Change {
                kind,
                name: name.clone(),
                revision: resource.as_ref().map(|resource| resource.revision),
            });
            match resource {
                Some(resource) => self.bodies.insert((kind, name), resource),
                None => self.bodies.remove(&(kind, name)),
            };
        }
        taken
    }

    fn write(&self, response: &Response) -> DeltaDiscoveryResponse {
        let told = |(name, version): &(Name, Version)| {
            let resource = self.bodies.get(&(response.kind, name.clone()))?;
            Some(Told {
                name: name.to_string(),
                version: version.to_string(),
                resource: Some(resource.body.clone()),
                ..Told::default()
            })
        };
        DeltaDiscoveryResponse {
            type_url: response.kind.type_url().to_owned(),
            nonce: response.nonce.to_string(),
            resources: response.told.iter().filter_map(told).collect(),
            removed_resources: response.removed.iter().map(ToString::to_string).collect(),
            ..DeltaDiscoveryResponse::default()
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    fn at(&self, deadline: Option<Instant>) -> Clock {
        let after = deadline.map_or(Duration::ZERO, |deadline| deadline.since(Instant::ZERO));
        self.start + after
    }
}

fn there(resource: &Shared) -> Change {
    Change {
        kind: resource.kind,
        name: resource.name.clone(),
        revision: Some(resource.revision),
    }
}

/// What Envoy says; `None` for a kind nobody tells.
fn read(message: DeltaDiscoveryRequest) -> Option<Request> {
    let Some(kind) = Kind::from_type_url(&message.type_url) else {
        debug!(
            type_url = message.type_url,
            "Envoy asks for what nobody tells"
        );
        return None;
    };
    let names = |names: Vec<String>| names.into_iter().map(Name::from).collect();
    let holds = message.initial_resource_versions.into_iter();
    let holds = holds.map(|(name, version)| (Name::from(name), Version::parse(&version)));
    Some(Request {
        kind,
        subscribe: names(message.resource_names_subscribe),
        unsubscribe: names(message.resource_names_unsubscribe),
        holds: holds.collect(),
        nonce: message.response_nonce.parse().ok(),
        refused: message.error_detail.map(|detail| Arc::from(detail.message)),
    })
}

fn log(settled: &Settled) {
    let (kind, name) = (settled.kind.as_str(), &*settled.name);
    match &settled.outcome {
        Outcome::Refused { detail, .. } => {
            warn!(kind, name, detail = &**detail, "Envoy refuses a resource")
        }
        Outcome::Applied(version) => debug!(kind, name, %version, "Envoy took a resource"),
        Outcome::Gone => debug!(kind, name, "Envoy let go of a resource"),
    }
}
