//! The definitions the manager needs: ours, and Cluster API's by group, kind and version.

use std::time::{Duration, Instant};

use kedge_crd::{
    capi, elemental,
    kinds::{KINDS, Kind},
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::server::{kind, said};
use crate::{error::LabError, kube::kinds};

/// Installs them and waits until they are served.
pub(super) async fn install(client: &Client) -> Result<(), LabError> {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &definitions());
    let theirs = FOREIGN.map(open);
    let wanted: Vec<Value> = KINDS.iter().map(Kind::crd).chain(theirs).collect();
    let how = PatchParams::apply(super::site::MANAGER).force();
    for definition in &wanted {
        let name = name_of(definition);
        let applied = all.patch(name, &how, &Patch::Apply(definition)).await;
        applied.map_err(said)?;
    }
    let begun = Instant::now();
    for definition in &wanted {
        let name = name_of(definition);
        while !is_served(&all.get(name).await.map_err(said)?) {
            if begun.elapsed() > LIMIT {
                return Err(LabError::Late {
                    what: format!("the kind {name}"),
                    limit: LIMIT,
                    seen: "it is not served".to_owned(),
                });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

fn name_of(definition: &Value) -> &str {
    let name = definition.pointer("/metadata/name");
    name.and_then(Value::as_str).unwrap_or_default()
}

fn is_served(definition: &DynamicObject) -> bool {
    let conditions = definition.data.pointer("/status/conditions");
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let is = |condition: &Value, field: &str, value: &str| {
        condition.get(field).and_then(Value::as_str) == Some(value)
    };
    conditions.any(|one| is(one, "type", "Established") && is(one, "status", "True"))
}

/// A kind of others, with the label of the contract its version keeps.
fn open((group, version, kind, plural): (&str, &str, &str, &str)) -> Value {
    let mut definition = kinds::open(group, version, kind, plural);
    let metadata = definition.pointer_mut("/metadata");
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        let label = json!({format!("cluster.x-k8s.io/{version}"): version});
        metadata.insert("labels".to_owned(), label);
    }
    definition
}

fn definitions() -> ApiResource {
    kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
}

/// Of others: group, version, kind, plural.
pub(super) const FOREIGN: [(&str, &str, &str, &str); 7] = [
    (capi::GROUP, "v1beta2", "Cluster", "clusters"),
    (capi::GROUP, "v1beta2", "Machine", "machines"),
    (IPAM, "v1beta2", "IPAddressClaim", "ipaddressclaims"),
    (IPAM, "v1beta2", "IPAddress", "ipaddresses"),
    (
        elemental::GROUP,
        "v1beta1",
        "ElementalCluster",
        "elementalclusters",
    ),
    (
        elemental::GROUP,
        "v1beta1",
        "ElementalHost",
        "elementalhosts",
    ),
    (
        elemental::GROUP,
        "v1beta1",
        "ElementalMachine",
        "elementalmachines",
    ),
];
const IPAM: &str = "ipam.cluster.x-k8s.io";
const LIMIT: Duration = Duration::from_secs(30);
