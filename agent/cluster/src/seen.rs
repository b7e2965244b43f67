//! The cluster as it is seen: watches of what a plan looks at, trimmed to that, so that a kubelet's
//! heartbeat is no event.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{StreamExt as _, future::join5};
use k8s_openapi::api::{
    core::v1::{Node, NodeSpec, NodeStatus, Service},
    discovery::v1::EndpointSlice,
    networking::v1::{Ingress, IngressClass},
};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt as _,
        watcher::{Config, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tracing::warn;

use crate::snapshot::{Ingresses, Key, Slice, Snapshot};

/// What is known of a cluster.
#[derive(Debug, Default)]
pub struct Seen {
    services: Kept<Key, Service>,
    nodes: Kept<String, Node>,
    slices: Kept<Key, Slice>,
    ingresses: Kept<Key, Ingress>,
    classes: Kept<String, IngressClass>,
    changed: Arc<Notify>,
}

/// The objects of one kind; `None` until all of them were seen once.
#[derive(Debug)]
struct Kept<K, V>(Mutex<State<K, V>>);

#[derive(Debug)]
struct State<K, V> {
    all: Option<BTreeMap<K, V>>,
    /// A list that is being read.
    news: BTreeMap<K, V>,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self(Mutex::new(State {
            all: None,
            news: BTreeMap::new(),
        }))
    }
}

impl<K: Ord + Clone, V: PartialEq + Clone> Kept<K, V> {
    fn all(&self) -> Option<BTreeMap<K, V>> {
        self.state().all.clone()
    }

    fn is_whole(&self) -> bool {
        self.state().all.is_some()
    }

    /// Takes an event in; says whether anything is different.
    fn take(&self, event: Event<Option<(K, V)>>) -> bool {
        let mut state = self.state();
        match event {
            Event::Init => {
                state.news.clear();
                false
            }
            Event::InitApply(Some((key, value))) => {
                state.news.insert(key, value);
                false
            }
            Event::InitDone => {
                let news = Some(std::mem::take(&mut state.news));
                let differs = news != state.all;
                state.all = news;
                differs
            }
            Event::Apply(Some((key, value))) => {
                let all = state.all.get_or_insert_default();
                let differs = all.get(&key) != Some(&value);
                all.insert(key, value);
                differs
            }
            Event::Delete(Some((key, _))) => {
                let all = state.all.as_mut();
                all.is_some_and(|all| all.remove(&key).is_some())
            }
            Event::InitApply(None) | Event::Apply(None) | Event::Delete(None) => false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Nothing is known; `changed` is told of whatever differs.
    #[must_use]
    pub fn new(changed: Arc<Notify>) -> Self {
        Self {
            changed,
            ..Self::default()
        }
    }

    /// Whether everything that Services need was seen once.
    pub fn is_whole(&self) -> bool {
        self.services.is_whole() && self.nodes.is_whole() && self.slices.is_whole()
    }

    /// Puts what is known into a snapshot; says whether everything was seen once.
    pub fn fill(&self, snapshot: &mut Snapshot) -> bool {
        let all = (self.services.all(), self.nodes.all(), self.slices.all());
        let (Some(services), Some(nodes), Some(slices)) = all else {
            return false;
        };
        snapshot.services = services;
        snapshot.nodes = nodes;
        snapshot.slices = slices;
        let all = (self.ingresses.all(), self.classes.all());
        snapshot.ingresses = match all {
            (Some(all), Some(classes)) => Some(Ingresses { all, classes }),
            _ => None,
        };
        true
    }

    /// Takes a Service in as an answer showed it: its watch may be behind.
    pub fn saw(&self, service: Service) {
        saw(&self.services, service);
    }

    /// The same of an Ingress.
    pub fn saw_ingress(&self, ingress: Ingress) {
        saw(&self.ingresses, ingress);
    }

    /// Watches for good.
    pub async fn watch(&self, client: &Client) {
        let services = follow(client, &self.services, &self.changed, |service: Service| {
            Some((Key::of(&service), service))
        });
        let nodes = follow(client, &self.nodes, &self.changed, |node: Node| {
            Some((node.metadata.name.clone()?, trimmed(node)))
        });
        let slices = follow(
            client,
            &self.slices,
            &self.changed,
            |slice: EndpointSlice| {
                let meta = &slice.metadata;
                let key = Key::new(meta.namespace.clone()?, meta.name.clone()?);
                Some((key, Slice::of(&slice)?))
            },
        );
        let ingresses = follow(client, &self.ingresses, &self.changed, |it: Ingress| {
            Some((Key::of(&it), it))
        });
        let classes = follow(client, &self.classes, &self.changed, |it: IngressClass| {
            Some((it.metadata.name.clone()?, it))
        });
        join5(services, nodes, slices, ingresses, classes).await;
    }
}

fn saw<R>(kept: &Kept<Key, R>, object: R)
where
    R: Resource<DynamicType = ()> + PartialEq + Clone,
{
    let key = Key::of(&object);
    let meta = object.meta();
    // A deleted one is not brought back by the answer to its last write.
    let leaves = meta.deletion_timestamp.is_some();
    let held = meta.finalizers.as_ref();
    if leaves && held.is_none_or(Vec::is_empty) {
        return;
    }
    let mut state = kept.state();
    let known = state.all.as_mut().and_then(|all| all.get_mut(&key));
    if let Some(known) = known
        && known.meta().uid == meta.uid
    {
        *known = object;
    }
}

async fn follow<R, K, V>(
    client: &Client,
    kept: &Kept<K, V>,
    changed: &Notify,
    seen: impl Fn(R) -> Option<(K, V)>,
) where
    R: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    K: Ord + Clone,
    V: PartialEq + Clone,
{
    let api: Api<R> = Api::all(client.clone());
    let stream = watcher(api, Config::default()).default_backoff();
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        let event = match event {
            Ok(Event::Apply(it)) => Event::Apply(seen(it)),
            Ok(Event::Delete(it)) => Event::Delete(seen(it)),
            Ok(Event::Init) => Event::Init,
            Ok(Event::InitApply(it)) => Event::InitApply(seen(it)),
            Ok(Event::InitDone) => Event::InitDone,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(error, kind = %R::kind(&()), "a watch broke; it is begun anew");
                continue;
            }
        };
        if kept.take(event) {
            changed.notify_one();
        }
    }
}

/// What of a Node a plan looks at.
fn trimmed(node: Node) -> Node {
    let conditions = node.status.and_then(|status| status.conditions);
    let ready = conditions
        .into_iter()
        .flatten()
        .filter(|it| it.type_ == "Ready");
    let ready = ready.map(|mut condition| {
        condition.last_heartbeat_time = None;
        condition.message = None;
        condition
    });
    let mut meta = node.metadata;
    meta.managed_fields = None;
    meta.resource_version = None;
    Node {
        metadata: meta,
        spec: Some(NodeSpec {
            taints: node.spec.and_then(|spec| spec.taints),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            conditions: Some(ready.collect()),
            ..NodeStatus::default()
        }),
    }
}
