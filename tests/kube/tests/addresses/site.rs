//! A namespace of a test, with pools and claims.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kedge_tests_kube::{
    edgetest, foreign,
    objects::{Kind, at, condition, text},
    ours::Ours,
};
use kube::{
    Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Long: the machine may stand still for a while.
pub const LIMIT: Duration = Duration::from_secs(60);

pub const BALANCER: Kind = Kind::new("kedge.dev", "v1alpha1", "LoadBalancer");
pub const TENANT: Kind = Kind::new("kedge.dev", "v1alpha1", "Tenant");
pub const POOL: Kind = Kind::new("kedge.dev", "v1alpha1", "VIPPool");
pub const RELEASE: &str = "ipam.cluster.x-k8s.io/ReleaseAddress";
pub const PROTECT: &str = "ipam.cluster.x-k8s.io/ProtectAddress";
pub const HOLD: &str = "kedge.dev/vip";

pub struct Site {
    pub ours: Arc<Ours>,
    pub client: Client,
    pub space: String,
    _together: Option<RwLockReadGuard<'static, ()>>,
    _alone: Option<RwLockWriteGuard<'static, ()>>,
}

impl Site {
    pub async fn new() -> Option<Self> {
        // Before it is our turn, so that what runs goes on running.
        let ours = Ours::shared().await?;
        let together = TURNS.read().await;
        let mut site = Self::of(ours).await;
        site._together = Some(together);
        Some(site)
    }

    /// One for a test that stops the manager of all.
    pub async fn alone() -> Option<Self> {
        let ours = Ours::shared().await?;
        let alone = TURNS.write().await;
        let mut site = Self::of(ours).await;
        site._alone = Some(alone);
        Some(site)
    }

    async fn of(ours: Arc<Ours>) -> Self {
        let (client, space) = ours.stack().space().await;
        Self {
            ours,
            client,
            space,
            _together: None,
            _alone: None,
        }
    }

    pub async fn create(&self, kind: Kind, name: &str, rest: Value) -> DynamicObject {
        let all = kind.of(&self.client, &self.space);
        let object = kind.object(name, rest);
        let made = all.create(&PostParams::default(), &object).await;
        made.unwrap_or_else(|err| panic!("{} {name}: {err}", kind.kind))
    }

    pub async fn get(&self, kind: Kind, name: &str) -> Option<DynamicObject> {
        let all = kind.of(&self.client, &self.space);
        all.get_opt(name).await.unwrap()
    }

    pub async fn merge(&self, kind: Kind, name: &str, patch: Value) {
        let all = kind.of(&self.client, &self.space);
        let merged = all
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        merged.unwrap_or_else(|err| panic!("{} {name}: {err}", kind.kind));
    }

    pub async fn delete(&self, kind: Kind, name: &str) {
        let all = kind.of(&self.client, &self.space);
        all.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn gone(&self, kind: Kind, name: &str) {
        self.until(&format!("{} {name} is gone", kind.kind), async || {
            self.get(kind, name).await.is_none()
        })
        .await;
    }

    /// Waits; when it is in vain, tells what there is.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, mut holds: impl FnMut() -> F) {
        let begun = Instant::now();
        while !holds().await {
            if begun.elapsed() > LIMIT {
                for kind in [BALANCER, POOL, foreign::CLAIM, foreign::ADDRESS] {
                    let all = kind.of(&self.client, &self.space);
                    for mut one in all.list(&ListParams::default()).await.unwrap() {
                        one.metadata.managed_fields = None;
                        println!("{}", serde_json::to_string(&one).unwrap());
                    }
                }
                panic!(
                    "{what}: not within {LIMIT:?}; {:#?}",
                    self.ours.problems().await
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("{what}: {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    }

    /// A pool of ours of a LAN whose router is `192.0.2.1`.
    pub async fn pool(&self, name: &str, addresses: &[&str], more: Value) {
        let mut spec = json!({"addresses": addresses, "prefix": 24, "gateway": "192.0.2.1"});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        self.create(POOL, name, json!({ "spec": spec })).await;
    }

    /// A claim of nobody in particular on a pool of ours.
    pub async fn claim(&self, name: &str, pool: &str) {
        let spec = json!({"poolRef": {"apiGroup": POOL.group, "kind": POOL.kind, "name": pool}});
        self.create(foreign::CLAIM, name, json!({ "spec": spec }))
            .await;
    }

    /// A claim as Cluster API's providers of machines make them.
    pub async fn claim_of(&self, cluster: &str, name: &str, pool: &str) {
        let claim = json!({
            "metadata": {"labels": {foreign::CLUSTER_NAME: cluster}},
            "spec": {"clusterName": cluster, "poolRef": {
                "apiGroup": POOL.group, "kind": POOL.kind, "name": pool,
            }},
        });
        self.create(foreign::CLAIM, name, claim).await;
    }

    /// A Cluster whose parts nobody made.
    pub async fn cluster(&self, name: &str, paused: bool) -> DynamicObject {
        let infra = edgetest::CLUSTER;
        let cluster = json!({"spec": {"paused": paused, "infrastructureRef": {
            "apiGroup": infra.group, "kind": infra.kind, "name": name,
        }}});
        self.create(foreign::CLUSTER, name, cluster).await
    }

    /// The address of a claim, empty while it has none.
    pub async fn address(&self, claim: &str) -> String {
        let Some(claim) = self.get(foreign::CLAIM, claim).await else {
            return String::new();
        };
        let name = text(&claim, "/status/addressRef/name");
        if name.is_empty() {
            return String::new();
        }
        let address = self.get(foreign::ADDRESS, name).await;
        address.map_or_else(String::new, |address| {
            text(&address, "/spec/address").to_owned()
        })
    }

    /// Waits for the address of a claim.
    pub async fn served(&self, claim: &str) -> String {
        self.until(&format!("claim {claim} is served"), async || {
            !self.address(claim).await.is_empty()
        })
        .await;
        self.address(claim).await
    }

    /// The status, reason and message of a condition.
    pub async fn said(&self, kind: Kind, name: &str, condition_kind: &str) -> String {
        let Some(object) = self.get(kind, name).await else {
            return String::new();
        };
        let said = condition(&object, condition_kind);
        let word = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}: {}", word("status"), word("reason"), word("message"))
    }

    /// Waits until a condition begins so.
    pub async fn says(&self, kind: Kind, name: &str, condition: &str, begin: &str) -> String {
        self.until(&format!("{name} {condition} {begin}"), async || {
            self.said(kind, name, condition).await.starts_with(begin)
        })
        .await;
        self.said(kind, name, condition).await
    }

    /// The counts of a pool: total, free, used, out of range.
    pub async fn counts(&self, kind: Kind, name: &str) -> [u64; 4] {
        let pool = self.get(kind, name).await.unwrap();
        ["total", "free", "used", "outOfRange"].map(|count| {
            let count = at(&pool, &format!("/status/ipAddresses/{count}")).as_u64();
            count.unwrap_or_default()
        })
    }
}

/// Whether a finalizer is on an object.
pub fn is_held(object: &DynamicObject, finalizer: &str) -> bool {
    let all = object.metadata.finalizers.as_ref();
    all.is_some_and(|all| all.iter().any(|one| one == finalizer))
}

static TURNS: RwLock<()> = RwLock::const_new(());
