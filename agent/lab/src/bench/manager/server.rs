//! The API server as a witness: what it counted, and which version each object has.

use std::{collections::BTreeMap, fmt::Display, time::Duration};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};

use super::listing;
use crate::{error::LabError, kube::witness, stage::Stage};

/// How many requests that write were answered, by whomever; leases left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted(u64);

impl Counted {
    pub(super) async fn now(client: &Client) -> Result<Self, LabError> {
        let metrics = text(client, "/metrics").await?;
        Ok(Self(witness::writes(&metrics, |_| true)))
    }

    pub(super) const fn since(&self, before: &Self) -> u64 {
        self.0.saturating_sub(before.0)
    }
}

/// The version of every object the manager reads or writes.
#[derive(Debug)]
pub(super) struct Versions(BTreeMap<String, String>);

impl Versions {
    pub(super) async fn now(client: &Client) -> Result<Self, LabError> {
        let mut found = BTreeMap::new();
        for resource in listing::kinds() {
            let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let all = all.list_metadata(&ListParams::default()).await;
            for object in all.map_err(said)? {
                let meta = object.metadata;
                let (space, name) = (meta.namespace.unwrap_or_default(), meta.name);
                let name = format!("{} {space}/{}", resource.kind, name.unwrap_or_default());
                found.insert(name, meta.resource_version.unwrap_or_default());
            }
        }
        Ok(Self(found))
    }

    /// How many objects came, went or changed.
    pub(super) fn moved(&self, now: &Self) -> usize {
        let other = |(name, version): &(&String, &String)| self.0.get(*name) != Some(*version);
        let changed = now.0.iter().filter(other).count();
        let gone = self.0.keys().filter(|name| !now.0.contains_key(*name));
        changed + gone.count()
    }
}

/// What the server calls itself.
pub(super) async fn version(client: &Client) -> Result<String, LabError> {
    let version = client.apiserver_version().await.map_err(said)?;
    Ok(format!("kube-apiserver {}", version.git_version))
}

/// What a request answers, as text.
pub(super) async fn text(client: &Client, path: &str) -> Result<String, LabError> {
    let request = http::Request::get(path).body(Vec::new()).map_err(said)?;
    client.request_text(request).await.map_err(said)
}

/// A kind by its names.
pub(super) fn kind(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = match group {
        "" => version.to_owned(),
        _ => format!("{group}/{version}"),
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Lets time pass, unless the run is to end.
pub(super) async fn pass(span: Duration, stage: &Stage) -> Result<(), LabError> {
    let until = tokio::time::Instant::now() + span;
    while tokio::time::Instant::now() < until {
        if stage.is_stopped() {
            return Err(LabError::Interrupted);
        }
        let left = until - tokio::time::Instant::now();
        tokio::time::sleep(left.min(Duration::from_millis(200))).await;
    }
    Ok(())
}

/// The API server said something else than what was asked for.
pub(super) fn said(what: impl Display) -> LabError {
    LabError::Unexpected {
        who: "the API server".to_owned(),
        said: format!("answered: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_what_went_and_what_changed_moved() {
        let versions = |all: &[(&str, &str)]| {
            let all = all
                .iter()
                .map(|(name, at)| ((*name).to_owned(), (*at).to_owned()));
            Versions(all.collect())
        };
        let before = versions(&[("a", "1"), ("b", "1"), ("c", "1")]);
        assert_eq!(before.moved(&before), 0);
        let after = versions(&[("a", "1"), ("b", "2"), ("d", "1")]);
        assert_eq!(before.moved(&after), 3);
    }
}
