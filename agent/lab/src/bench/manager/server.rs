//! The API server as a witness: what it counted, and which version each object has.

use std::{collections::BTreeMap, fmt::Display, time::Duration};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};

use super::listing;
use crate::{error::LabError, stage::Stage};

/// How many requests that write were answered, by whomever; leases left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted(f64);

impl Counted {
    pub(super) async fn now(client: &Client) -> Result<Self, LabError> {
        Ok(Self(count(&text(client, "/metrics").await?)))
    }

    pub(super) fn since(&self, before: &Self) -> u64 {
        // Whole numbers, and none of them is large.
        let more = (self.0 - before.0).max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count that is not negative"
        )]
        let more = more as u64;
        more
    }
}

fn count(text: &str) -> f64 {
    let counters = text.lines().filter(|line| {
        let has = |label: &str, value: &str| line.contains(&format!("{label}=\"{value}\""));
        line.starts_with("apiserver_request_total{")
            && WRITES.iter().any(|verb| has("verb", verb))
            && !has("resource", "leases")
    });
    let values = counters.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
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

const WRITES: [&str; 6] = [
    "POST",
    "PUT",
    "PATCH",
    "APPLY",
    "DELETE",
    "DELETECOLLECTION",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_and_leases_are_not() {
        let text = "\
# TYPE apiserver_request_total counter
apiserver_request_total{code=\"200\",resource=\"edgehosts\",verb=\"APPLY\"} 3
apiserver_request_total{code=\"201\",resource=\"events\",verb=\"POST\"} 2
apiserver_request_total{code=\"200\",resource=\"edgehosts\",verb=\"LIST\"} 50
apiserver_request_total{code=\"200\",resource=\"leases\",verb=\"PUT\"} 70
apiserver_request_duration_seconds_count{verb=\"PUT\"} 9
";
        assert!((count(text) - 5.0).abs() < f64::EPSILON);
        assert_eq!(Counted(7.0).since(&Counted(5.0)), 2);
    }

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
