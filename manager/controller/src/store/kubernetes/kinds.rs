//! The kinds of a cluster: which are served, and by which version and contract.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject},
    discovery::{self, ApiCapabilities, ApiGroup},
};

use crate::{snapshot::Contract, store::IPAM_GROUP};

/// A kind as it is served.
#[derive(Clone, Debug)]
pub struct Kind {
    /// How it is asked for.
    pub resource: ApiResource,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The contract its CRD is labelled with.
    pub contract: Option<Contract>,
}

impl Kind {
    fn new(
        (resource, capabilities): (ApiResource, ApiCapabilities),
        labelled: Option<Contract>,
    ) -> Self {
        Self {
            namespaced: capabilities.scope == discovery::Scope::Namespaced,
            contract: labelled.or_else(|| own_contract(&resource)),
            resource,
        }
    }
}

/// Groups as the cluster serves them, without those it does not serve. All are asked for at once: an
/// API server may take long for each of its answers, and a manager's start waits for them.
pub async fn served(
    client: &Client,
    groups: BTreeSet<&str>,
) -> BTreeMap<String, Result<ApiGroup, kube::Error>> {
    let asked = groups.into_iter().map(async |group| {
        let found = match discovery::group(client, group).await {
            Err(kube::Error::Discovery(_)) => None,
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            found => Some(found),
        };
        found.map(|found| (group.to_owned(), found))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// The kind as its group prefers it; `None` where it has none.
#[must_use]
pub fn preferred(group: &ApiGroup, kind: &str) -> Option<Kind> {
    recommended(group, kind).map(|found| Kind::new(found, None))
}

/// The kind in the newest version of the newest contract its CRD is labelled with, or as its group
/// prefers it where there is no label to read.
///
/// # Errors
///
/// The cluster does not answer.
pub async fn by_contract(
    client: &Client,
    group: &ApiGroup,
    kind: &str,
) -> Result<Option<Kind>, kube::Error> {
    let Some((preferred, _)) = recommended(group, kind) else {
        return Ok(None);
    };
    let name = format!("{}.{}", preferred.plural, group.name());
    let labels = match definitions(client).get_metadata_opt(&name).await {
        Ok(definition) => definition.and_then(|definition| definition.metadata.labels),
        // Without the right to read it the preferred version must do.
        Err(kube::Error::Api(status)) if status.code == 403 => None,
        Err(error) => return Err(error),
    };
    let labels = labels.unwrap_or_default();
    let served: Vec<&str> = group.versions().collect();
    let chosen = labelled(&labels, &served);
    let version = chosen.map_or(preferred.version.as_str(), |(_, version)| version);
    let mut all = group.versioned_resources(version).into_iter();
    let found = all.find(|(resource, _)| resource.kind == kind);
    Ok(found.map(|found| Kind::new(found, chosen.map(|(contract, _)| contract))))
}

/// The kind as the group prefers it; where the version it prefers does not have the kind, as in a
/// group that several providers share, by the kind's own most stable version.
fn recommended(group: &ApiGroup, kind: &str) -> Option<(ApiResource, ApiCapabilities)> {
    group.recommended_kind(kind).or_else(|| {
        let mut all = group.resources_by_stability().into_iter();
        all.find(|(resource, _)| resource.kind == kind)
    })
}

/// The contract of Cluster API's own claims and addresses: they are its kinds, by that version.
fn own_contract(resource: &ApiResource) -> Option<Contract> {
    match resource.version.as_str() {
        _ if resource.group != IPAM_GROUP => None,
        "v1beta1" => Some(Contract::V1Beta1),
        "v1beta2" => Some(Contract::V1Beta2),
        _ => None,
    }
}

/// The newest contract in a CRD's labels, and its last version that is served.
fn labelled<'a>(
    labels: &BTreeMap<String, String>,
    served: &[&'a str],
) -> Option<(Contract, &'a str)> {
    let contracts = [
        ("cluster.x-k8s.io/v1beta2", Contract::V1Beta2),
        ("cluster.x-k8s.io/v1beta1", Contract::V1Beta1),
    ];
    contracts.into_iter().find_map(|(label, contract)| {
        let mut versions = labels.get(label)?.split('_').rev();
        let version = versions.find_map(|version| served.iter().find(|one| **one == version))?;
        Some((contract, *version))
    })
}

fn definitions(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    };
    Api::all_with(client.clone(), &resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_contract_and_its_newest_served_version_win() {
        let labels = |all: &[(&str, &str)]| {
            let label = |(contract, versions): &(&str, &str)| {
                let name = format!("cluster.x-k8s.io/{contract}");
                (name, (*versions).to_owned())
            };
            all.iter().map(label).collect::<BTreeMap<_, _>>()
        };
        let both = labels(&[("v1beta1", "v1beta1"), ("v1beta2", "v1beta2_v1beta3")]);
        let choose = |labels, served: &[&'static str]| labelled(labels, served);
        let newest = Some((Contract::V1Beta2, "v1beta3"));
        assert_eq!(choose(&both, &["v1beta1", "v1beta2", "v1beta3"]), newest);
        let older = Some((Contract::V1Beta2, "v1beta2"));
        assert_eq!(choose(&both, &["v1beta1", "v1beta2"]), older);
        let first = Some((Contract::V1Beta1, "v1beta1"));
        assert_eq!(choose(&both, &["v1beta1"]), first);
        assert_eq!(choose(&labels(&[]), &["v1"]), None);
    }
}
