//! Cluster API's own managers: core, the kubeadm control plane and the kubeadm bootstrap provider.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use crate::{
    assets::{Program, module_folder, ready},
    manager::{self, Manager, Webhooks},
    manifests,
    process::Process,
    server::Server,
};

/// Cluster API's managers beside an API server.
///
/// Their definitions serve v1beta1 as well as v1beta2, converted by the managers themselves, and
/// their admission webhooks are registered.
#[derive(Debug)]
pub struct Capi {
    managers: Vec<Manager>,
}

impl Capi {
    /// Starts the managers, or says why they cannot be had.
    ///
    /// # Panics
    ///
    /// When one does not become ready.
    pub async fn start(server: &Server) -> Option<Self> {
        if !ready(&PARTS.map(|part| part.program)) {
            return None;
        }
        let begun = Instant::now();
        let module = module_folder("capi", "sigs.k8s.io/cluster-api").unwrap();
        let client = server.client().await;
        let mut started = Vec::new();
        for part in &PARTS {
            let folder = module.join(part.folder).join("config");
            let webhooks = Webhooks::new(part.program, server.folder());
            let mut definitions = manifests::read(&folder.join("crd/bases"));
            for definition in &mut definitions {
                manifests::label(definition, CONTRACTS);
                webhooks.convert(definition);
            }
            manifests::apply_definitions(&client, &definitions).await;
            started.push((folder, webhooks));
        }
        let mut managers = Vec::new();
        for (part, (_, webhooks)) in PARTS.iter().zip(&started) {
            let flags = [
                manager::health_flag("health-addr", webhooks),
                "--diagnostics-address=0".to_owned(),
                "--insecure-diagnostics".to_owned(),
                format!("--feature-gates={}", part.gates),
            ];
            managers.push(Manager::start(server, part.program, webhooks, &flags));
        }
        for (one, (folder, webhooks)) in managers.iter_mut().zip(&started) {
            one.ready().await;
            manager::register(&client, webhooks, &admission(folder)).await;
        }
        println!("Cluster API ready: {:.1} s", begun.elapsed().as_secs_f64());
        Some(Self { managers })
    }

    /// The processes: core, control plane, bootstrap.
    pub fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        self.managers.iter_mut().map(Manager::process)
    }
}

fn admission(folder: &Path) -> PathBuf {
    folder.join("webhook/manifests.yaml")
}

struct Part {
    program: Program,
    folder: &'static str,
    gates: &'static str,
}

const PARTS: [Part; 3] = [
    Part {
        program: Program::CapiCore,
        folder: "core",
        gates: "ClusterTopology=true",
    },
    Part {
        program: Program::CapiControlPlane,
        folder: "controlplane/kubeadm",
        gates: "ClusterTopology=true",
    },
    Part {
        program: Program::CapiBootstrap,
        folder: "bootstrap/kubeadm",
        gates: "MachinePool=true",
    },
];

/// Which version of a kind keeps which contract; the managers choose versions by it.
const CONTRACTS: &[(&str, &str)] = &[
    ("cluster.x-k8s.io/v1beta1", "v1beta1"),
    ("cluster.x-k8s.io/v1beta2", "v1beta2"),
];
