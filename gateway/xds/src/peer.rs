//! The state-of-the-world variant of ADS, as control planes with one snapshot speak it: at each change
//! everything of every kind goes out again, under one version. The lab measures the gateway against it; no
//! gateway serves it (docs/adr/0095).

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    aggregated_discovery_service_server::AggregatedDiscoveryService,
};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, transport::Server};
use tracing::warn;

use crate::{
    Kind,
    resource::Resource,
    server::Answers,
    socket::{Error, Socket},
};

/// Everything an Envoy is to hold. Clones are the same.
#[derive(Clone, Debug)]
pub struct Everything {
    snapshot: Arc<watch::Sender<Snapshot>>,
    /// The version of each kind that was answered last.
    answered: Arc<Mutex<BTreeMap<Kind, u64>>>,
}

#[derive(Debug, Default)]
struct Snapshot {
    version: u64,
    by_kind: BTreeMap<Kind, Vec<Resource>>,
}

/// The service, bound to its socket.
#[derive(Debug)]
pub struct Whole {
    socket: Socket,
    everything: Everything,
}

/// How a kind stands on a stream.
#[derive(Debug, Default)]
struct Standing {
    /// The names that were asked for; none is all of them.
    names: BTreeSet<String>,
    /// Which version was told last.
    told: u64,
    /// Whether that was answered, so that it may be told another one.
    is_open: bool,
}

impl Default for Everything {
    fn default() -> Self {
        Self {
            snapshot: Arc::new(watch::channel(Snapshot::default()).0),
            answered: Arc::default(),
        }
    }
}

impl Everything {
    /// Makes `resources` everything there is, and tells open streams all of it.
    pub fn declare(&self, resources: impl IntoIterator<Item = Resource>) {
        let mut by_kind: BTreeMap<Kind, Vec<Resource>> = BTreeMap::new();
        for resource in resources {
            by_kind.entry(resource.kind).or_default().push(resource);
        }
        self.snapshot.send_modify(|snapshot| {
            snapshot.version += 1;
            snapshot.by_kind = by_kind;
        });
    }

    /// Changes some resources, or adds them. Everything is told all the same.
    pub fn change(&self, resources: impl IntoIterator<Item = Resource>) {
        self.snapshot.send_modify(|snapshot| {
            snapshot.version += 1;
            for resource in resources {
                let all = snapshot.by_kind.entry(resource.kind).or_default();
                match all.iter_mut().find(|one| one.name == resource.name) {
                    Some(same) => *same = resource,
                    None => all.push(resource),
                }
            }
        });
    }

    /// Whether an Envoy has answered the newest version of everything.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let snapshot = self.snapshot.borrow();
        let answered = self.answered();
        let is_answered = |kind| answered.get(kind) == Some(&snapshot.version);
        snapshot.by_kind.keys().all(is_answered)
    }

    fn answered(&self) -> MutexGuard<'_, BTreeMap<Kind, u64>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Whole {
    /// Binds the socket. What lies there of an earlier process is removed.
    ///
    /// # Errors
    ///
    /// [`Error::Socket`].
    pub fn bind(path: &Path, everything: Everything) -> Result<Self, Error> {
        Ok(Self {
            socket: Socket::bind(path)?,
            everything,
        })
    }

    /// Serves until dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`].
    pub async fn serve(self) -> Result<(), Error> {
        let service = Service(self.everything);
        self.socket.serve(Server::builder(), service).await
    }
}

struct Service(Everything);

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = Answers<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Answers<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let (answers, queue) = mpsc::channel(Kind::ALL.len());
        tokio::spawn(serve(request.into_inner(), self.0.clone(), answers));
        Ok(Response::new(Box::pin(ReceiverStream::new(queue))))
    }

    async fn delta_aggregated_resources(
        &self,
        _: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented("ask with api_type: GRPC"))
    }
}

async fn serve(
    mut requests: Streaming<DiscoveryRequest>,
    everything: Everything,
    answers: mpsc::Sender<Result<DiscoveryResponse, Status>>,
) {
    let mut standings: BTreeMap<Kind, Standing> = BTreeMap::new();
    let mut news = everything.snapshot.subscribe();
    loop {
        tokio::select! {
            message = requests.message() => match message {
                Ok(Some(message)) => hear(&mut standings, message),
                Ok(None) | Err(_) => return,
            },
            changed = news.changed() => if changed.is_err() {
                return;
            },
        }
        for (kind, standing) in &mut standings {
            if standing.is_open {
                everything.answered().insert(*kind, standing.told);
            }
            let answer = {
                let snapshot = news.borrow_and_update();
                if !standing.is_open || standing.told == snapshot.version || snapshot.version == 0 {
                    continue;
                }
                standing.told = snapshot.version;
                standing.is_open = false;
                snapshot.of(*kind, &standing.names)
            };
            if answers.send(Ok(answer)).await.is_err() {
                return;
            }
        }
    }
}

/// Takes what Envoy asks, and what it says of the last answer.
fn hear(standings: &mut BTreeMap<Kind, Standing>, message: DiscoveryRequest) {
    let Some(kind) = Kind::from_type_url(&message.type_url) else {
        return;
    };
    if let Some(detail) = &message.error_detail {
        warn!(kind = kind.as_str(), detail = detail.message, "refused");
    }
    let standing = standings.entry(kind).or_default();
    let is_current =
        message.response_nonce.is_empty() || message.response_nonce.parse() == Ok(standing.told);
    // What it says of an older answer it says of the newest one as well, in a moment.
    if !is_current {
        return;
    }
    let names: BTreeSet<String> = message.resource_names.into_iter().collect();
    if names != standing.names {
        standing.names = names;
        standing.told = 0;
    }
    standing.is_open = true;
}

impl Snapshot {
    fn of(&self, kind: Kind, names: &BTreeSet<String>) -> DiscoveryResponse {
        let all = self.by_kind.get(&kind).into_iter().flatten();
        let asked = all.filter(|one| names.is_empty() || names.contains(&*one.name));
        let version = self.version.to_string();
        DiscoveryResponse {
            version_info: version.clone(),
            resources: asked.map(|one| one.body.clone()).collect(),
            type_url: kind.type_url().to_owned(),
            nonce: version,
            ..DiscoveryResponse::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;

    use super::*;

    fn members(name: &str, of: u32) -> Resource {
        let body = ClusterLoadAssignment {
            cluster_name: name.to_owned(),
            ..ClusterLoadAssignment::default()
        };
        Resource::new(Kind::Endpoint, name, &of, &body)
    }

    fn asked(nonce: &str, names: &[&str]) -> DiscoveryRequest {
        DiscoveryRequest {
            type_url: Kind::Endpoint.type_url().to_owned(),
            response_nonce: nonce.to_owned(),
            resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..DiscoveryRequest::default()
        }
    }

    #[test]
    fn one_change_makes_everything_new() {
        let everything = Everything::default();
        everything.declare([members("a", 1), members("b", 1)]);
        everything.change([members("b", 2), members("c", 1)]);
        let snapshot = everything.snapshot.borrow();
        let all = snapshot.of(Kind::Endpoint, &BTreeSet::new());
        assert_eq!((all.resources.len(), &*all.version_info), (3, "2"));
        let some = snapshot.of(Kind::Endpoint, &["b".to_owned()].into());
        assert_eq!(some.resources.len(), 1);
        assert!(
            snapshot
                .of(Kind::Cluster, &BTreeSet::new())
                .resources
                .is_empty()
        );
    }

    #[test]
    fn a_kind_is_told_again_when_its_answer_is_there_or_other_names_are_asked_for() {
        let mut standings = BTreeMap::new();
        hear(&mut standings, asked("", &["a"]));
        let told = |standings: &mut BTreeMap<Kind, Standing>, version| {
            let standing = standings.get_mut(&Kind::Endpoint).unwrap();
            let was_open = std::mem::take(&mut standing.is_open);
            let before = std::mem::replace(&mut standing.told, version);
            (was_open, before)
        };
        assert_eq!(told(&mut standings, 5), (true, 0));
        // An answer to an older one.
        hear(&mut standings, asked("4", &["a"]));
        assert_eq!(told(&mut standings, 5), (false, 5));
        hear(&mut standings, asked("5", &["a"]));
        assert_eq!(told(&mut standings, 5), (true, 5));
        hear(&mut standings, asked("5", &["a", "b"]));
        assert_eq!(told(&mut standings, 6), (true, 0));
    }
}
