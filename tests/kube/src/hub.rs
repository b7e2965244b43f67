//! Gateways of a test: enrolled with the real client over the real agent API, their reports written by
//! the test.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kedge_control::{
    agent::GatewayConfig,
    identity::Role,
    report::{Draining, GatewayReport},
};
use kedge_host::enrol::Client;
use tempfile::TempDir;
use tokio::task::AbortHandle;

use crate::{edge::enrolled, ours::Ours};

/// An enrolled instance of a gateway that applies what it is told and reports it, until it is dropped.
#[derive(Debug)]
pub struct Hub {
    told: Arc<Mutex<Told>>,
    task: AbortHandle,
    _folder: TempDir,
}

#[derive(Debug, Default)]
struct Told {
    config: Option<GatewayConfig>,
    /// What it says is open to each backend that it leaves.
    open: u32,
}

impl Hub {
    /// Enrols an instance of a gateway, `NAMESPACE/NAME`.
    ///
    /// # Panics
    ///
    /// When it is not let in.
    pub async fn enrol(ours: &Ours, gateway: &str, name: &str) -> Self {
        let token = ours.gateway_token(gateway).await;
        let (client, tunnel_key, folder) = enrolled(
            ours.port(),
            Role::Gateway,
            token,
            &format!("{gateway}/{name}"),
        )
        .await;
        let told = Arc::default();
        let living = live(client, Arc::clone(&told), tunnel_key);
        Self {
            told,
            task: ours.spawner().spawn(living).abort_handle(),
            _folder: folder,
        }
    }

    /// How much it says is open to each backend that it leaves, from now on.
    pub fn open(&self, count: u32) {
        lock(&self.told).open = count;
    }

    /// The backends it is told of, as `HOST:PORT`, and whether each is left.
    #[must_use]
    pub fn backends(&self) -> Vec<(String, bool)> {
        let told = lock(&self.told);
        let pools = told.config.iter().flat_map(|config| &config.offer.pools);
        let members = pools.flat_map(|pool| &pool.members);
        let shown = members.map(|one| (format!("{}:{}", one.host, one.port), one.draining));
        shown.collect()
    }

    /// It is heard no more.
    pub fn dies(&self) {
        self.task.abort();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn live(client: Client, told: Arc<Mutex<Told>>, tunnel_key: String) {
    loop {
        let have = lock(&told).config.as_ref().map(|config| config.generation);
        let asked = client.config::<GatewayConfig>(have, Duration::ZERO);
        if let Ok(Some(config)) = asked.await {
            lock(&told).config = Some(config);
        }
        let report = lock(&told).report(&tunnel_key);
        _ = client.report(&report).await;
        tokio::time::sleep(PAUSE).await;
    }
}

impl Told {
    fn report(&self, tunnel_key: &str) -> GatewayReport {
        let pools = self.config.iter().flat_map(|config| &config.offer.pools);
        let left = pools.flat_map(|pool| &pool.members);
        let left = left.filter(|member| member.draining);
        let left = left.map(|member| Draining {
            host: member.host.clone(),
            address: member.address,
            port: member.port.get(),
            open: Some(self.open),
        });
        GatewayReport {
            boot_id: "boot".to_owned(),
            version: "0.1.0".to_owned(),
            applied_generation: self.config.as_ref().map_or(0, |config| config.generation),
            public_key: tunnel_key.to_owned(),
            listen_port: 51820,
            unserved: Some(Vec::new()),
            draining: Some(left.collect()),
            tells_clients_apart: true,
            ..GatewayReport::default()
        }
    }
}

fn lock(told: &Mutex<Told>) -> MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

const PAUSE: Duration = Duration::from_millis(100);
