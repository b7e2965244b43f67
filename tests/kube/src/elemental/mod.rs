//! Elemental, as Cluster API sees it: its kinds, and controllers that do what its own ones do.
//!
//! Its provider cannot be installed from a module, so these stand in for it. They follow version
//! 0.7: association, readiness, the endpoint gate, reset and deletion. What its registration server
//! and its agents do is done by the tests: they write [`kinds::HOST`] objects and their labels.

pub mod kinds;

mod cluster;
mod host;
mod machine;
mod workload;

use kube::Client;

use crate::{background::Background, capi::Capi, manifests, server::Server};

/// The finalizer of hosts and machines.
pub const FINALIZER: &str = "elementalmachine.infrastructure.cluster.x-k8s.io";
/// The label of a host that can be associated.
pub const INSTALLED: &str = "elementalhost.infrastructure.cluster.x-k8s.io/installed";
/// The label of a host whose bootstrap is done.
pub const BOOTSTRAPPED: &str = "elementalhost.infrastructure.cluster.x-k8s.io/bootstrapped";
/// The label of a host that has to be reset.
pub const NEEDS_RESET: &str = "elementalhost.infrastructure.cluster.x-k8s.io/needs-reset";
/// The label of a host that was reset.
pub const RESET: &str = "elementalhost.infrastructure.cluster.x-k8s.io/reset";
/// The label that names a host's Machine.
pub const MACHINE_NAME: &str = "elementalhost.infrastructure.cluster.x-k8s.io/machine-name";
/// The label that names a host's ElementalMachine.
pub const ELEMENTAL_MACHINE_NAME: &str =
    "elementalhost.infrastructure.cluster.x-k8s.io/elemental-machine-name";

/// The running controllers. They end with it.
#[derive(Debug)]
pub struct Elemental {
    _controllers: Background,
}

impl Elemental {
    /// Applies the definitions and starts the controllers beside Cluster API.
    pub async fn start(server: &Server, _capi: &Capi) -> Self {
        manifests::apply_definitions(&server.client().await, &kinds::definitions()).await;
        Self {
            _controllers: Background::start(server, run),
        }
    }
}

async fn run(client: Client) {
    tokio::join!(
        cluster::run(client.clone()),
        host::run(client.clone()),
        machine::run(client),
    );
}
