//! Everything at once, shared by the tests of a program that run at the same time.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tokio::sync::Mutex;

use crate::{
    capi::Capi, controllers::Controllers, edgetest::EdgeTest, elemental::Elemental,
    ipam::InCluster, server::Server,
};

/// An API server with Cluster API, the in-cluster IPAM provider, Elemental and a provider of the
/// v1beta2 contract. Tests that share it keep to namespaces of their own.
#[derive(Debug)]
pub struct Stack {
    // In the order in which they end: the server last.
    _controllers: Controllers,
    _elemental: Elemental,
    _edge: EdgeTest,
    _ipam: InCluster,
    _capi: Capi,
    server: Server,
    spaces: AtomicU32,
}

impl Stack {
    /// The stack that other tests use already, or one that starts now. It ends with its last user.
    pub async fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().await;
        if let Some(running) = shared.upgrade() {
            return Some(running);
        }
        let started = Arc::new(Self::start().await?);
        *shared = Arc::downgrade(&started);
        Some(started)
    }

    /// One that nobody else uses: for tests that stop parts of it.
    pub async fn start() -> Option<Self> {
        Self::around(Server::start().await?).await
    }

    /// Everything around a server.
    ///
    /// # Panics
    ///
    /// When a part of it does not start.
    pub async fn around(server: Server) -> Option<Self> {
        let begun = Instant::now();
        let capi = Capi::start(&server).await?;
        let ipam = InCluster::start(&server, &capi).await?;
        let elemental = Elemental::start(&server, &capi).await;
        let edge = EdgeTest::start(&server, &capi).await;
        let controllers = Controllers::start(&server)?;
        println!("stack ready: {:.1} s", begun.elapsed().as_secs_f64());
        Some(Self {
            _controllers: controllers,
            _elemental: elemental,
            _edge: edge,
            _ipam: ipam,
            _capi: capi,
            server,
            spaces: AtomicU32::new(0),
        })
    }

    /// From now on it is the one that tests share.
    pub async fn share(self) -> Arc<Self> {
        let shared = Arc::new(self);
        *SHARED.lock().await = Arc::downgrade(&shared);
        shared
    }

    /// The API server.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// A client of the admin, and a namespace that nobody else uses.
    ///
    /// # Panics
    ///
    /// When the namespace cannot be made.
    pub async fn space(&self) -> (Client, String) {
        let client = self.server.client().await;
        let name = format!("edge-{}", self.spaces.fetch_add(1, Ordering::Relaxed));
        let space = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let spaces: Api<Namespace> = Api::all(client.clone());
        match spaces.create(&PostParams::default(), &space).await {
            Ok(_) => {}
            // Made before, for rights in it.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(err) => panic!("{name}: {err}"),
        }
        (client, name)
    }
}

static SHARED: Mutex<Weak<Stack>> = Mutex::const_new(Weak::new());
