//! The fleet: sites of hosts and clusters, each a tenant with a namespace of its own.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kedge_crd::{capi, elemental, meta};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};

use super::server::{kind, said};
use crate::{error::LabError, stage::Stage};

/// What stands at the API server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fleet {
    pub(super) hosts: usize,
    pub(super) clusters: usize,
    sites: usize,
}

/// What it took to fill a blank endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// From the answer to the last request that told a fact.
    pub(super) after: f64,
    /// From that request.
    pub(super) asked: f64,
}

/// One object, and who applies it.
struct Wanted {
    resource: ApiResource,
    manager: &'static str,
    object: Value,
}

impl Fleet {
    pub(super) fn new(hosts: u32, clusters: u32) -> Self {
        let (hosts, clusters) = (hosts as usize, clusters as usize);
        Self {
            hosts,
            clusters,
            sites: clusters.div_ceil(AT_A_SITE).max(1),
        }
    }

    /// Makes everything; how many objects that are. Clusters have their endpoint from a LoadBalancer
    /// that takes a VIP from the site's pool and has the cluster's hosts as targets.
    pub(super) async fn seed(&self, client: &Client, stage: &Stage) -> Result<usize, LabError> {
        let mut first = vec![Self::namespace(meta::SYSTEM_NAMESPACE)];
        for site in 0..self.sites {
            first.push(Self::namespace(&site_name(site)));
        }
        let mut made = self.make(client, first, stage).await?;
        let mut all = Vec::new();
        for site in 0..self.sites {
            all.extend(Self::site(&site_name(site), site));
        }
        for host in 0..self.hosts {
            all.push(self.host(host));
        }
        for cluster in 0..self.clusters {
            all.push(balancer(&site_name(cluster / AT_A_SITE), cluster));
        }
        made += self.make(client, all, stage).await?;
        let clusters = (0..self.clusters).map(|cluster| async move {
            if stage.is_stopped() {
                return Err(LabError::Interrupted);
            }
            let (space, name) = (site_name(cluster / AT_A_SITE), cluster_name(cluster));
            let uid = cluster_object(client, &space, &name).await?;
            infra(client, &space, &name, &uid, None).await.map(|_| 2)
        });
        let clusters = stream::iter(clusters).buffer_unordered(AT_ONCE);
        let clusters: Vec<usize> = clusters.try_collect().await?;
        Ok(made + clusters.into_iter().sum::<usize>())
    }

    /// A site without hosts.
    pub(super) async fn another_site(
        &self,
        client: &Client,
        index: usize,
        stage: &Stage,
    ) -> Result<String, LabError> {
        let name = format!("new-{index:03}");
        let namespace = vec![Self::namespace(&name)];
        self.make(client, namespace, stage).await?;
        let site = Self::site(&name, self.sites + index);
        self.make(client, site.into(), stage).await?;
        Ok(name)
    }

    /// Has a Cluster of every site say something that nobody cares about; how many objects are
    /// looked at for it at least.
    pub(super) async fn touch(&self, client: &Client, round: u32) -> Result<f64, LabError> {
        let patch = json!({"metadata": {"labels": {"somebody": format!("said-{round}")}}});
        let (how, patch) = (PatchParams::default(), Patch::Merge(patch));
        let (how, patch) = (&how, &patch);
        let all = (0..self.clusters)
            .step_by(AT_A_SITE)
            .map(|cluster| async move {
                let space = site_name(cluster / AT_A_SITE);
                let clusters = api(client, &space, &cluster_kind());
                let patched = clusters.patch(&cluster_name(cluster), how, patch).await;
                patched.map(|_| ()).map_err(said)
            });
        let all = stream::iter(all).buffer_unordered(AT_ONCE);
        all.try_collect::<Vec<()>>().await?;
        let objects = self.hosts + self.clusters * 3;
        Ok(f64::from(u32::try_from(objects).unwrap_or(u32::MAX)))
    }

    /// Makes a blank cluster that asks for a VIP by annotations, and waits until it has one.
    pub(super) async fn fill(
        &self,
        client: &Client,
        run: u32,
        stage: &Stage,
    ) -> Result<Fill, LabError> {
        let space = site_name(run as usize % self.sites);
        let name = format!("fill-{run}");
        let uid = cluster_object(client, &space, &name).await?;
        // What follows from that alone is over when the last fact comes.
        super::server::pass(Duration::from_millis(300), stage).await?;
        let all = api(client, &space, &infra_kind());
        let one = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut events = std::pin::pin!(all.watch(&one, "0").await.map_err(said)?);
        let asked = Instant::now();
        let ask = json!({"kedge.dev/endpoint-mode": "VIP", "kedge.dev/vip-pool": POOL});
        infra(client, &space, &name, &uid, Some(ask)).await?;
        let answered = Instant::now();
        let filled = async {
            while let Some(event) = events.next().await {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) =
                    event.map_err(said)?
                    && has_endpoint(&object)
                {
                    return Ok(());
                }
            }
            Err(said("the watch ended"))
        };
        match tokio::time::timeout(FILLED, filled).await {
            Ok(filled) => filled?,
            Err(_) => {
                return Err(LabError::Late {
                    what: format!("an endpoint of {space}/{name}"),
                    limit: FILLED,
                    seen: "it is blank".to_owned(),
                });
            }
        }
        let now = Instant::now();
        Ok(Fill {
            after: now.saturating_duration_since(answered).as_secs_f64(),
            asked: now.saturating_duration_since(asked).as_secs_f64(),
        })
    }

    async fn make(
        &self,
        client: &Client,
        all: Vec<Wanted>,
        stage: &Stage,
    ) -> Result<usize, LabError> {
        let made = all.len();
        let all = all.into_iter().map(|wanted| async move {
            if stage.is_stopped() {
                return Err(LabError::Interrupted);
            }
            wanted.apply(client).await
        });
        let all = stream::iter(all).buffer_unordered(AT_ONCE);
        all.try_collect::<Vec<()>>().await?;
        Ok(made)
    }

    fn namespace(name: &str) -> Wanted {
        Wanted {
            resource: kind("", "v1", "Namespace", "namespaces"),
            manager: MANAGER,
            object: json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        }
    }

    fn site(name: &str, index: usize) -> [Wanted; 2] {
        let (high, low) = (index / 256, index % 256);
        let range = format!("10.{high}.{low}.10-10.{high}.{low}.250");
        let tenant = json!({"apiVersion": OURS, "kind": "Tenant",
            "metadata": {"name": name}, "spec": {"namespace": name}});
        let pool = json!({"apiVersion": OURS, "kind": "VIPPool",
            "metadata": {"name": POOL, "namespace": name},
            "spec": {"addresses": [range], "prefix": 24}});
        [
            ours("Tenant", "tenants", MANAGER, tenant),
            ours("VIPPool", "vippools", MANAGER, pool),
        ]
    }

    /// A host that enrolled some time ago.
    fn host(&self, index: usize) -> Wanted {
        let cluster = index % self.clusters;
        let space = site_name(cluster / AT_A_SITE);
        let key = tunnel_key("H", index);
        let pem = format!(
            "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA{key}\n-----END PUBLIC KEY-----\n"
        );
        let host = json!({"apiVersion": OURS, "kind": "EdgeHost",
            "metadata": {"name": format!("edge-{index:05}"), "namespace": space,
                "labels": {CLUSTER_LABEL: cluster_name(cluster)}},
            "spec": {"tenant": space, "tunnel": {"publicKeys": [key]},
                "identity": {"uid": format!("{index:08x}-0c3e-4b44-9d53-{index:012x}"),
                    "publicKey": pem, "serial": format!("{index:032x}"), "generation": 1,
                    "issued": "2026-01-01T00:00:00Z"}}});
        ours("EdgeHost", "edgehosts", ENROL, host)
    }
}

impl Wanted {
    async fn apply(&self, client: &Client) -> Result<(), LabError> {
        let text = |pointer: &str| self.object.pointer(pointer).and_then(Value::as_str);
        let name = text("/metadata/name").unwrap_or_default();
        let api: Api<DynamicObject> = match text("/metadata/namespace") {
            Some(space) => Api::namespaced_with(client.clone(), space, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        };
        let how = PatchParams::apply(self.manager).force();
        let applied = api.patch(name, &how, &Patch::Apply(&self.object)).await;
        applied.map(|_| ()).map_err(said)
    }
}

fn balancer(space: &str, cluster: usize) -> Wanted {
    let name = cluster_name(cluster);
    let balancer = json!({"apiVersion": OURS, "kind": "LoadBalancer",
        "metadata": {"name": name, "namespace": space},
        "spec": {"clusterName": name, "mode": "VIP", "vip": {"poolRef": {"name": POOL}},
            "targetKind": {"apiGroup": meta::GROUP, "kind": "EdgeHost"},
            "selector": {"matchLabels": {CLUSTER_LABEL: name}}}});
    ours("LoadBalancer", "loadbalancers", MANAGER, balancer)
}

/// What looks like a WireGuard key: 32 bytes in base64. Nobody speaks WireGuard here.
pub(super) fn tunnel_key(of: &str, index: usize) -> String {
    let named = format!("{of}{index}");
    format!("{named:A>42}0=")
}

/// Makes a Cluster; its uid.
async fn cluster_object(client: &Client, space: &str, name: &str) -> Result<String, LabError> {
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name, "namespace": space},
        "spec": {"infrastructureRef": {
            "apiGroup": elemental::GROUP, "kind": elemental::CLUSTER_KIND, "name": name}}});
    let made = create(client, space, &cluster_kind(), cluster).await?;
    Ok(made.metadata.uid.unwrap_or_default())
}

/// Makes the cluster's infrastructure, whose endpoint is blank.
async fn infra(
    client: &Client,
    space: &str,
    name: &str,
    uid: &str,
    annotations: Option<Value>,
) -> Result<DynamicObject, LabError> {
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "name": name, "uid": uid});
    let infra = json!({"apiVersion": format!("{}/v1beta1", elemental::GROUP),
        "kind": elemental::CLUSTER_KIND,
        "metadata": {"name": name, "namespace": space, "annotations": annotations,
            "ownerReferences": [owner]},
        "spec": {}});
    create(client, space, &infra_kind(), infra).await
}

async fn create(
    client: &Client,
    space: &str,
    resource: &ApiResource,
    object: Value,
) -> Result<DynamicObject, LabError> {
    let object: DynamicObject = serde_json::from_value(object).map_err(said)?;
    let how = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = api(client, space, resource).create(&how, &object).await;
    made.map_err(said)
}

fn has_endpoint(object: &DynamicObject) -> bool {
    let host = object.data.pointer("/spec/controlPlaneEndpoint/host");
    host.and_then(Value::as_str)
        .is_some_and(|host| !host.is_empty())
}

fn api(client: &Client, space: &str, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), space, resource)
}

fn ours(name: &str, plural: &str, manager: &'static str, object: Value) -> Wanted {
    Wanted {
        resource: kind(meta::GROUP, meta::VERSION, name, plural),
        manager,
        object,
    }
}

fn cluster_kind() -> ApiResource {
    kind(capi::GROUP, "v1beta2", "Cluster", "clusters")
}

fn infra_kind() -> ApiResource {
    let (kind_name, plural) = (elemental::CLUSTER_KIND, "elementalclusters");
    kind(elemental::GROUP, "v1beta1", kind_name, plural)
}

fn site_name(site: usize) -> String {
    format!("site-{site:03}")
}

fn cluster_name(cluster: usize) -> String {
    format!("c-{cluster:04}")
}

/// Who makes what users and other managers make.
pub(super) const MANAGER: &str = "kedge-lab";
/// Who the manager's agent API writes identities as.
const ENROL: &str = "kedge-enrol";
const OURS: &str = "kedge.dev/v1alpha1";
const POOL: &str = "lan";
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// How many clusters a site has.
const AT_A_SITE: usize = 10;
/// How many requests are under way at once.
const AT_ONCE: usize = 32;
const FILLED: Duration = Duration::from_secs(30);
