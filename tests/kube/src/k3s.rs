//! The kinds of Cluster API's provider for k3s, with its own definitions. Nobody serves them: they show
//! that our templates are such as the API server takes.

use serde_json::Value;

use crate::{assets::module_folder, manifests, objects::Kind};

/// The control plane.
pub const CONTROL_PLANE: Kind = Kind::new(
    "controlplane.cluster.x-k8s.io",
    "v1beta2",
    "KThreesControlPlane",
);

/// Their definitions, as the provider's release labels them.
///
/// # Panics
///
/// When its sources cannot be had.
#[must_use]
pub fn definitions() -> Vec<Value> {
    let module = module_folder("k3s", "github.com/k3s-io/cluster-api-k3s").unwrap();
    let mut all = Vec::new();
    for (part, kinds) in [
        (
            "controlplane",
            &["kthreescontrolplanes", "kthreescontrolplanetemplates"],
        ),
        ("bootstrap", &["kthreesconfigs", "kthreesconfigtemplates"]),
    ] {
        for kind in kinds {
            let file = format!("{part}/config/crd/bases/{part}.cluster.x-k8s.io_{kind}.yaml");
            all.extend(manifests::read(&module.join(file)));
        }
    }
    for definition in &mut all {
        manifests::label(definition, &[CONTRACT]);
    }
    all
}

const CONTRACT: (&str, &str) = ("cluster.x-k8s.io/v1beta1", "v1beta1_v1beta2");
