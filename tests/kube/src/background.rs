//! Controllers of the tests, on a thread of their own: they outlive the test that started them.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use futures_util::StreamExt as _;
use kube::{
    Client, Config,
    api::DynamicObject,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        Controller,
        controller::{Action, Error as ControllerError},
    },
};
use tokio::sync::oneshot;

use crate::{
    objects::{Kind, text},
    server::Server,
};

/// Something that runs until it is dropped.
#[derive(Debug)]
pub struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs something as the admin of a server.
    pub fn start<F>(server: &Server, work: fn(Client) -> F) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        let path = server.kubeconfig("admin");
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let config = Kubeconfig::read_from(path).unwrap();
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(config, &options).await;
                let client = Client::try_from(config.unwrap()).unwrap();
                tokio::select! {
                    () = work(client) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// Runs a controller, one object at a time, and prints what fails.
pub async fn drive<F>(
    name: &'static str,
    controller: Controller<DynamicObject>,
    client: Client,
    reconcile: fn(Arc<DynamicObject>, Arc<Client>) -> F,
) where
    F: Future<Output = kube::Result<Action>> + Send + 'static,
{
    let config = kube::runtime::Config::default().concurrency(1);
    let again = |_, _: &kube::Error, _| Action::requeue(Duration::from_secs(1));
    let results = controller
        .with_config(config)
        .run(reconcile, again, Arc::new(client));
    results
        .for_each(|result| async move {
            if let Err(ControllerError::ReconcilerFailed(err, object)) = result {
                eprintln!("{name} {}: {err}", object.name);
            }
        })
        .await;
}

/// The infrastructure object that a Cluster or Machine (v1beta1) names, if it is of a kind.
#[must_use]
pub fn infrastructure_of(object: &DynamicObject, kind: Kind) -> Option<(String, String)> {
    let at = "/spec/infrastructureRef";
    let field = |name: &str| text(object, &format!("{at}/{name}")).to_owned();
    (field("kind") == kind.kind).then(|| {
        let space = object.metadata.namespace.clone().unwrap_or_default();
        (space, field("name"))
    })
}
