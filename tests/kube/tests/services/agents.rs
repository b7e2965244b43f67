//! Agents on threads of their own, so that they can die at any moment.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use kedge_agent_cluster::{Options, Place, Poll, identity::Identity, run, snapshot::Config};
use kedge_control::enrol::Facts;
use kedge_core::{Problem, lease::Terms};
use kedge_host::{
    enrol::{Client, Settings},
    identity::IdentityKey,
    state::Store,
};
use tempfile::TempDir;
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
    task::JoinHandle,
};

use crate::world::World;

/// An agent with the rights of its manifests.
pub struct Agent {
    options: Options,
    runtime: Option<Runtime>,
    running: JoinHandle<Result<(), Problem>>,
    stop: Option<oneshot::Sender<()>>,
    _folder: TempDir,
}

/// A Lease that outlasts the moments a busy machine stands still.
pub const fn patient() -> Terms {
    Terms {
        duration: Duration::from_secs(30),
        renew_deadline: Duration::from_secs(20),
        retry: Duration::from_millis(200),
    }
}

/// One that does not last long: for whoever waits until it runs out.
pub const fn impatient() -> Terms {
    Terms {
        duration: Duration::from_secs(4),
        renew_deadline: Duration::from_secs(3),
        retry: Duration::from_millis(200),
    }
}

impl Agent {
    pub async fn start(world: &World, name: &str, terms: Terms) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        fs::write(&token, world.token.expose()).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let options = Options {
            place: Place::Kubeconfig(world.kubeconfig().await),
            namespace: Some("kedge-system".to_owned()),
            me: format!("{name}_1"),
            identity: Identity {
                url: world.url(),
                token_file: Some(token),
                name: "kedge-services".to_owned(),
                dir: folder.path().join("state"),
                secret: Some("kedge-services-identity".to_owned()),
            },
            config: Config::default(),
            terms,
            poll: Poll {
                idle: Duration::from_secs(1),
                busy: Duration::from_millis(100),
                certificates: Duration::from_secs(1),
            },
            confirm: false,
            health: None,
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (stop, stopped) = oneshot::channel();
        let running = runtime.spawn({
            let options = options.clone();
            async move { run(&options, async { _ = stopped.await }).await }
        });
        Self {
            options,
            runtime: Some(runtime),
            running,
            stop: Some(stop),
            _folder: folder,
        }
    }

    /// It leaves in order.
    pub async fn stop(mut self) -> Result<(), Problem> {
        self.stop.take().unwrap().send(()).unwrap();
        let ended = (&mut self.running).await.unwrap();
        self.runtime.take().unwrap().shutdown_background();
        ended
    }

    /// It stands still for good; what is left is the client it asked the manager with.
    pub fn dies(mut self) -> Client {
        self.runtime.take().unwrap().shutdown_background();
        client(&self.options.identity, &self.options.identity.dir)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn client(identity: &Identity, dir: &Path) -> Client {
    let settings = Settings {
        url: identity.url.clone(),
        token_file: None,
        name: identity.name.clone(),
        role: kedge_control::identity::Role::Host,
        host_ref: None,
        facts: Facts::default(),
        tunnel_key: String::new(),
    };
    let key = IdentityKey::load_or_create_in(dir).unwrap();
    let (client, problems) = Client::open(settings, key, Store::new(dir));
    assert_eq!(problems, []);
    client
}
