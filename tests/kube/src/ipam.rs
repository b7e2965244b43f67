//! The in-cluster IPAM provider. Its claims are Cluster API's kinds, so [`Capi`] runs first.

use std::time::Instant;

use crate::{
    assets::{Program, module_folder, ready},
    capi::Capi,
    manager::{self, Manager, Webhooks},
    manifests,
    process::Process,
    server::Server,
};

/// The in-cluster IPAM provider beside Cluster API.
#[derive(Debug)]
pub struct InCluster {
    manager: Manager,
}

impl InCluster {
    /// Starts the provider, or says why it cannot be had.
    ///
    /// It speaks v1beta1 of Cluster API's kinds: Cluster API's core converts for it.
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub async fn start(server: &Server, _capi: &Capi) -> Option<Self> {
        if !ready(&[Program::IpamInCluster]) {
            return None;
        }
        let begun = Instant::now();
        let module =
            module_folder("ipam", "sigs.k8s.io/cluster-api-ipam-provider-in-cluster").unwrap();
        let config = module.join("config");
        let client = server.client().await;
        let webhooks = Webhooks::new(Program::IpamInCluster, server.folder());
        let mut definitions = manifests::read(&config.join("crd/bases"));
        for definition in &mut definitions {
            manifests::label(definition, &[(MOVE, "")]);
            webhooks.convert(definition);
        }
        manifests::apply_definitions(&client, &definitions).await;
        let flags = [
            manager::health_flag("health-probe-bind-address", &webhooks),
            "--metrics-bind-address=0".to_owned(),
        ];
        let mut manager = Manager::start(server, Program::IpamInCluster, &webhooks, &flags);
        manager.ready().await;
        manager::register(&client, &webhooks, &config.join("webhook/manifests.yaml")).await;
        println!("IPAM ready: {:.1} s", begun.elapsed().as_secs_f64());
        Some(Self { manager })
    }

    /// Its process.
    pub const fn process(&mut self) -> &mut Process {
        self.manager.process()
    }
}

/// What makes `clusterctl move` take the pools along.
const MOVE: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
