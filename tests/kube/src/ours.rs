//! Our own manager beside Cluster API, on a thread of its own: it outlives the test that started
//! it, and tests that run at the same time share it.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use http::{Method, StatusCode};
use kedge_control::{
    enrol::HostRef,
    identity::Role,
    local::{BoundTo, TokenCreated, TokenRequest},
    token::Token,
};
use kedge_crd::kinds::{KINDS, Kind as OurKind};
use kedge_host::local::{MayChange, Serving, Socket, call};
use kedge_manager_controller::{Manager, ManagerOptions, Observed, Place};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::Mutex,
};

use crate::{manifests, server::free_ports, stack::Stack, until};

/// Our manager beside everything of a [`Stack`].
#[derive(Debug)]
pub struct Ours {
    running: Mutex<Option<Running>>,
    folder: TempDir,
    kubeconfig: PathBuf,
    port: u16,
    runtime: Option<Runtime>,
    stack: Arc<Stack>,
}

#[derive(Debug)]
struct Running {
    manager: Manager,
    _serving: Serving,
}

impl Ours {
    /// The manager that other tests use already, or one that starts now. It ends with its last
    /// user.
    pub async fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().await;
        if let Some(running) = shared.upgrade() {
            return Some(running);
        }
        let started = Arc::new(Self::start(Stack::shared().await?).await);
        *shared = Arc::downgrade(&started);
        Some(started)
    }

    /// Installs our kinds and starts a manager.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn start(stack: Arc<Stack>) -> Self {
        let client = stack.server().client().await;
        let definitions: Vec<Value> = KINDS.iter().map(OurKind::crd).collect();
        manifests::apply_definitions(&client, &definitions).await;
        let system = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "kedge-system"}});
        manifests::apply(&client, &[system]).await;
        let admin = stack.server().kubeconfig("admin");
        Self::start_as(stack, admin).await
    }

    /// From now on it is the one that tests share.
    pub async fn share(self) -> Arc<Self> {
        let shared = Arc::new(self);
        *SHARED.lock().await = Arc::downgrade(&shared);
        shared
    }

    /// Starts a manager as somebody; our kinds and its namespace are there.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn start_as(stack: Arc<Stack>, kubeconfig: PathBuf) -> Self {
        let [port] = free_ports();
        Self::start_on(stack, kubeconfig, port).await
    }

    /// Starts a manager as the admin where another one was, so that its hosts find it.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn start_at(stack: Arc<Stack>, port: u16) -> Self {
        let admin = stack.server().kubeconfig("admin");
        Self::start_on(stack, admin, port).await
    }

    async fn start_on(stack: Arc<Stack>, kubeconfig: PathBuf, port: u16) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let ours = Self {
            running: Mutex::default(),
            folder: tempfile::tempdir().unwrap(),
            kubeconfig,
            port,
            runtime: Some(runtime.unwrap()),
            stack,
        };
        ours.boot().await;
        ours
    }

    /// Starts the manager, which must not be running.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn boot(&self) {
        let mut running = self.running.lock().await;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut options = ManagerOptions::new(Path::new("/nonexistent"), address);
        options.place = Place::Kubeconfig(self.kubeconfig.clone());
        options.observed = Some(Observed {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            required: true,
        });
        // Those that the stack gives to tests.
        options.kubeconfig_namespaces = (0..100).map(|space| format!("edge-{space}")).collect();
        let socket = self.socket();
        let started = self.spawner().spawn(async move {
            let manager = Manager::start(&options).await;
            let manager = manager.unwrap_or_else(|problem| panic!("{problem:?}"));
            let socket = Socket::bind(&socket).unwrap();
            let serving = socket.serve(manager.routes::<MayChange>());
            Running {
                manager,
                _serving: serving,
            }
        });
        *running = Some(started.await.unwrap());
    }

    /// Ends the manager; its lease is free afterwards.
    ///
    /// # Panics
    ///
    /// When it cannot be ended.
    pub async fn halt(&self) {
        if let Some(running) = self.running.lock().await.take() {
            let ended = self.spawner().spawn(async move {
                drop(running._serving);
                running.manager.stop().await;
            });
            ended.await.unwrap();
        }
    }

    /// The manager is gone at once, and nothing is given back.
    pub async fn kill(&self) {
        drop(self.running.lock().await.take());
    }

    /// Where it serves health and metrics.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub async fn observed(&self) -> SocketAddr {
        let running = self.running.lock().await;
        running.as_ref().unwrap().manager.observed.unwrap()
    }

    /// What it runs beside.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Where hosts reach it, on loopback.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Where things run that outlive the test that started them.
    ///
    /// # Panics
    ///
    /// Never, while it lives.
    #[must_use]
    pub fn spawner(&self) -> Handle {
        self.runtime.as_ref().unwrap().handle().clone()
    }

    /// A token for the host of an inventory's record.
    ///
    /// # Panics
    ///
    /// When the manager gives none.
    pub async fn token(&self, tenant: &str, record: Option<HostRef>) -> Token {
        self.token_for(TokenRequest {
            tenant: Some(tenant.to_owned()),
            host_ref: record,
            ..request(Role::Host)
        })
        .await
    }

    /// A token for an instance of a gateway, `NAMESPACE/NAME`.
    ///
    /// # Panics
    ///
    /// When the manager gives none.
    pub async fn gateway_token(&self, gateway: &str) -> Token {
        self.token_for(TokenRequest {
            gateway: Some(gateway.to_owned()),
            ..request(Role::Gateway)
        })
        .await
    }

    async fn token_for(&self, request: TokenRequest) -> Token {
        let body = serde_json::to_vec(&request).unwrap();
        // It may not have heard of the tenant yet.
        let limit = Duration::from_secs(30);
        let made = async || {
            let reply = call(&self.socket(), Method::POST, "/v1/tokens", body.clone()).await;
            let reply = reply.unwrap();
            let answer: Value = reply.json().unwrap();
            match reply.status {
                StatusCode::CREATED => Ok(answer),
                _ => Err(answer),
            }
        };
        let answer = until("a token is made", limit, made, |answer| answer.to_string()).await;
        let created: TokenCreated = serde_json::from_value(answer).unwrap();
        created.token.parse().unwrap()
    }

    /// What the manager says is wrong; for a test that fails.
    pub async fn problems(&self) -> Vec<String> {
        let running = self.running.lock().await;
        let Some(running) = running.as_ref() else {
            return vec!["the manager does not run".to_owned()];
        };
        let state = running.manager.world.state().await;
        let problems = state.problems();
        problems
            .iter()
            .map(|problem| format!("{problem}: {:?}", problem.evidence))
            .collect()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("manager.sock")
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

static SHARED: Mutex<Weak<Ours>> = Mutex::const_new(Weak::new());

/// What a token is asked for with, and nothing else said.
fn request(role: Role) -> TokenRequest {
    TokenRequest {
        role,
        tenant: None,
        gateway: None,
        host_ref: None,
        bound_to: BoundTo::default(),
        labels: BTreeMap::new(),
        approval: None,
        ttl_seconds: None,
        max_uses: None,
    }
}
