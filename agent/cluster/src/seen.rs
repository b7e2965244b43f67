//! The cluster as it is seen: watches of what a plan looks at, trimmed to that, so that a kubelet's
//! heartbeat is no event.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{
    StreamExt as _,
    future::{join, join3, join5},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{Namespace, Node, NodeSpec, NodeStatus, Service},
        discovery::v1::EndpointSlice,
        networking::v1::{Ingress, IngressClass},
    },
};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt as _,
        watcher::{Config, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::{sync::Notify, time::sleep};
use tracing::warn;

use crate::{
    gateway_api::{Class, GROUP, Gateway, Grant, GrpcSpec, Kind, Object, Route, Routed, TlsSpec},
    snapshot::{GatewayApi, Ingresses, Key, Slice, Snapshot},
};

/// What is known of a cluster.
#[derive(Debug, Default)]
pub struct Seen {
    services: Kept<Key, Service>,
    nodes: Kept<String, Node>,
    slices: Kept<Key, Slice>,
    ingresses: Kept<Key, Ingress>,
    classes: Kept<String, IngressClass>,
    gateway: Gateways,
    changed: Arc<Notify>,
}

/// The Gateway API, where it is there.
#[derive(Debug, Default)]
struct Gateways {
    classes: Kept<String, Class>,
    gateways: Kept<Key, Gateway>,
    routes: Kept<Key, Route>,
    grpc: Extra,
    tls: Extra,
    grants: Kept<Key, Grant>,
    namespaces: Kept<String, BTreeMap<String, String>>,
}

impl Gateways {
    fn all(&self) -> Option<GatewayApi> {
        Some(GatewayApi {
            classes: self.classes.all()?,
            gateways: self.gateways.all()?,
            routes: self.routes.all()?,
            grpc: self.grpc.all()?,
            tls: self.tls.all()?,
            grants: self.grants.all()?,
            namespaces: self.namespaces.all()?,
        })
    }

    /// Waits until the API is there, and watches it from then on.
    async fn watch(&self, client: &Client, changed: &Notify) {
        while !is_served(client).await {
            sleep(ASKED_AGAIN).await;
        }
        // What is there from the start is waited for.
        self.grpc.look(client, GrpcSpec::PLURAL).await;
        self.tls.look(client, TlsSpec::PLURAL).await;
        let grpc = self.grpc.watch::<GrpcSpec>(client, changed);
        let tls = self.tls.watch::<TlsSpec>(client, changed);
        let classes = follow(client, &self.classes, changed, |it: Class| {
            Some((it.metadata.name.clone()?, it))
        });
        let gateways = follow(client, &self.gateways, changed, |it: Gateway| {
            Some((Key::of(&it), it))
        });
        let routes = follow(client, &self.routes, changed, |it: Route| {
            Some((Key::of(&it), it))
        });
        let grants = follow(client, &self.grants, changed, |it: Grant| {
            Some((Key::of(&it), it))
        });
        let namespaces = follow(client, &self.namespaces, changed, |it: Namespace| {
            Some((it.metadata.name?, it.metadata.labels.unwrap_or_default()))
        });
        let always = join5(classes, gateways, routes, grants, namespaces);
        join3(always, grpc, tls).await;
    }
}

/// Routes of a kind that not every cluster has.
#[derive(Debug, Default)]
struct Extra {
    kept: Kept<Key, Route>,
    is_there: AtomicBool,
}

impl Extra {
    /// Those that were seen, or `Some(None)` where there is no such kind.
    #[expect(
        clippy::option_option,
        reason = "a kind that is not there is not one that was not seen yet"
    )]
    fn all(&self) -> Option<Option<BTreeMap<Key, Route>>> {
        match self.is_there.load(Ordering::Relaxed) {
            true => self.kept.all().map(Some),
            false => Some(None),
        }
    }

    /// Looks whether the kind is there.
    async fn look(&self, client: &Client, plural: &str) {
        let version = format!("{GROUP}/v1");
        let found = client.list_api_group_resources(&version).await;
        let mut all = found.iter().flat_map(|found| &found.resources);
        if all.any(|it| it.name == plural) {
            self.is_there.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until the kind is there, and watches it from then on.
    async fn watch<S>(&self, client: &Client, changed: &Notify)
    where
        S: Kind<Scope = NamespaceResourceScope>,
        Object<S>: Into<Route> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        while !self.is_there.load(Ordering::Relaxed) {
            sleep(ASKED_AGAIN).await;
            self.look(client, S::PLURAL).await;
        }
        follow(client, &self.kept, changed, |it: Object<S>| {
            let it: Route = it.into();
            Some((Key::of(&it), it))
        })
        .await;
    }
}

/// Whether the Gateway API is there, with every kind of it that is looked at.
async fn is_served(client: &Client) -> bool {
    for version in VERSIONS {
        let version = format!("{GROUP}/{version}");
        let Ok(found) = client.list_api_group_resources(&version).await else {
            return false;
        };
        let names: Vec<&str> = found.resources.iter().map(|it| it.name.as_str()).collect();
        let needed = KINDS
            .iter()
            .filter(|(at, _)| version.ends_with(&format!("/{at}")));
        let mut needed = needed.map(|(_, name)| name);
        if !needed.all(|name| names.contains(name)) {
            return false;
        }
    }
    true
}

/// The versions of the Gateway API that are looked at, and the kinds of each.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const KINDS: [(&str, &str); 4] = [
    ("v1", "gatewayclasses"),
    ("v1", "gateways"),
    ("v1", "httproutes"),
    ("v1beta1", "referencegrants"),
];
/// How often the Gateway API is looked for while it is not there.
const ASKED_AGAIN: Duration = Duration::from_secs(15);

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
        snapshot.gateway = self.gateway.all();
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

    /// The same of a route.
    pub fn saw_route(&self, route: Route) {
        let kept = match route.spec.of {
            Routed::Http => &self.gateway.routes,
            Routed::Grpc => &self.gateway.grpc.kept,
            Routed::Tls => &self.gateway.tls.kept,
        };
        saw(kept, route);
    }

    /// The same of a Gateway.
    pub fn saw_gateway(&self, gateway: Gateway) {
        saw(&self.gateway.gateways, gateway);
    }

    /// The same of a GatewayClass.
    pub fn saw_class(&self, class: Class) {
        let name = class.metadata.name.clone().unwrap_or_default();
        saw_at(&self.gateway.classes, &name, class);
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
        let gateway = self.gateway.watch(client, &self.changed);
        join(join5(services, nodes, slices, ingresses, classes), gateway).await;
    }
}

fn saw<R>(kept: &Kept<Key, R>, object: R)
where
    R: Resource<DynamicType = ()> + PartialEq + Clone,
{
    saw_at(kept, &Key::of(&object), object);
}

fn saw_at<K, R>(kept: &Kept<K, R>, key: &K, object: R)
where
    K: Ord + Clone,
    R: Resource<DynamicType = ()> + PartialEq + Clone,
{
    let meta = object.meta();
    // A deleted one is not brought back by the answer to its last write.
    let leaves = meta.deletion_timestamp.is_some();
    let held = meta.finalizers.as_ref();
    if leaves && held.is_none_or(Vec::is_empty) {
        return;
    }
    let mut state = kept.state();
    let known = state.all.as_mut().and_then(|all| all.get_mut(key));
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
    let spec = node.spec.unwrap_or_default();
    Node {
        metadata: meta,
        spec: Some(NodeSpec {
            taints: spec.taints,
            unschedulable: spec.unschedulable,
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            conditions: Some(ready.collect()),
            ..NodeStatus::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::trimmed;
    use crate::plan::nodes::{Out, out};

    #[test]
    fn what_is_left_of_a_node_tells_the_same_of_it() {
        let emptied = json!({
            "metadata": {"name": "a",
                "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let node = trimmed(serde_json::from_value(emptied).unwrap());
        assert_eq!(out(&node), Some(Out::Leaving));
    }
}
