//! The kubeconfig Secrets that lead the management side to clusters off its network.
//!
//! Cluster API writes one for each cluster and keeps the `server` in it; where a plan wants it to
//! lead through a gateway it is read and that one field replaced. Nothing of it is kept but where
//! it leads, nothing is told of it, and only namespaces that the configuration lists are asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use serde_json::Value;
use tracing::{info, warn};

use crate::{
    snapshot::Kubeconfig,
    store::{Name, Store},
};

/// What is known of the Secrets, and whose they are.
#[derive(Debug, Default)]
pub struct Access {
    namespaces: OnceLock<BTreeSet<String>>,
    known: Mutex<BTreeMap<Name, (Kubeconfig, Instant)>>,
}

impl Access {
    /// The namespaces whose kubeconfigs are ours to read; said once.
    pub fn allow(&self, namespaces: &[String]) {
        _ = self.namespaces.set(namespaces.iter().cloned().collect());
    }

    /// What was found last, by cluster.
    #[must_use]
    pub fn known(&self) -> BTreeMap<Name, Kubeconfig> {
        let known = self.lock();
        let each = known
            .iter()
            .map(|(name, (found, _))| (name.clone(), found.clone()));
        each.collect()
    }

    /// Leads what is due where it shall lead; says of which clusters anything differs.
    pub async fn carry_out(
        &self,
        store: &Store,
        wanted: &BTreeMap<Name, String>,
    ) -> BTreeSet<Name> {
        let mut differ: BTreeSet<Name> = {
            let mut known = self.lock();
            let unwanted = known.keys().filter(|name| !wanted.contains_key(name));
            let unwanted = unwanted.cloned().collect();
            known.retain(|name, _| wanted.contains_key(name));
            unwanted
        };
        for (cluster, server) in wanted {
            if !self.is_due(cluster, server) {
                continue;
            }
            let listed = self.namespaces.get();
            let listed = listed.is_some_and(|all| all.contains(&cluster.namespace));
            let found = if listed {
                match store.lead(cluster, server).await {
                    Some(found) => found,
                    None => continue,
                }
            } else {
                Kubeconfig::Unlisted
            };
            if self.keep(cluster, found) {
                differ.insert(cluster.clone());
            }
        }
        differ
    }

    fn keep(&self, cluster: &Name, found: Kubeconfig) -> bool {
        let mut known = self.lock();
        let last = known.insert(cluster.clone(), (found.clone(), Instant::now()));
        let differs = last.is_none_or(|(last, _)| last != found);
        if differs {
            match &found {
                Kubeconfig::Leads(server) => {
                    info!(%cluster, server, "the kubeconfig of a cluster leads there");
                }
                Kubeconfig::Missing => {}
                other => {
                    let why = format!("{other:?}");
                    warn!(%cluster, why, "the kubeconfig of a cluster stays as it is");
                }
            }
        }
        differs
    }

    fn is_due(&self, cluster: &Name, server: &str) -> bool {
        let known = self.lock();
        let Some((found, at)) = known.get(cluster) else {
            return true;
        };
        let pause = match found {
            Kubeconfig::Leads(to) if to == server => SETTLED,
            Kubeconfig::Leads(_) => Duration::ZERO,
            Kubeconfig::Missing => OPEN,
            Kubeconfig::Unusable(_) | Kubeconfig::Forbidden(_) | Kubeconfig::Unlisted => SETTLED,
        };
        at.elapsed() >= pause
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, (Kubeconfig, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leads a kubeconfig to a server: the text with that one field replaced, or `None` where it leads
/// there already.
///
/// # Errors
///
/// It is not of the shape that Cluster API writes.
pub fn led(text: &str, server: &str) -> Result<Option<String>, &'static str> {
    let mut config: Value = serde_saphyr::from_str(text).map_err(|_| "it is no YAML")?;
    let current = config.get("current-context").and_then(Value::as_str);
    let context = named(&config, "contexts", current.unwrap_or_default());
    let cluster = context.and_then(|context| context.pointer("/context/cluster"));
    let cluster = cluster
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let clusters = config.get_mut("clusters").and_then(Value::as_array_mut);
    let clusters = clusters.ok_or("it names no clusters")?;
    let is_it = |entry: &&mut Value| entry.get("name").and_then(Value::as_str) == Some(&*cluster);
    let entry = clusters.iter_mut().find(is_it);
    let entry = entry.ok_or("its current context names no cluster")?;
    let field = entry.pointer_mut("/cluster/server");
    let field = field.ok_or("its cluster has no server")?;
    if field.as_str() == Some(server) {
        return Ok(None);
    }
    *field = Value::from(server);
    serde_saphyr::to_string(&config)
        .map(Some)
        .map_err(|_| "it cannot be written again")
}

fn named<'a>(config: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    let entries = config.get(list)?.as_array()?;
    let is_it = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some(name);
    entries.iter().find(is_it)
}

/// How often a Secret that leads where it shall is looked at again.
const SETTLED: Duration = Duration::from_secs(15);
/// How often one that is not there yet is.
const OPEN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
apiVersion: v1
kind: Config
current-context: edge-admin@edge
clusters:
- name: other
  cluster: {server: https://192.0.2.1:6443}
- name: edge
  cluster:
    certificate-authority-data: Q0E=
    server: https://10.20.14.10:6443
contexts:
- name: edge-admin@edge
  context: {cluster: edge, user: edge-admin}
users:
- name: edge-admin
  user: {client-key-data: S0VZ}
";

    #[test]
    fn one_field_of_the_current_cluster_is_replaced_and_nothing_else() {
        let server = "https://203.0.113.7:30000";
        let text = led(TEXT, server).unwrap().unwrap();
        let mut wanted: Value = serde_saphyr::from_str(TEXT).unwrap();
        wanted["clusters"][1]["cluster"]["server"] = Value::from(server);
        let written: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(written, wanted);
        assert_eq!(led(&text, server), Ok(None), "the second time nothing");
    }

    #[test]
    fn what_is_not_of_that_shape_stays_as_it_is() {
        for text in [
            "",
            "a: [",
            "clusters: []",
            "current-context: x\nclusters: []",
        ] {
            assert!(led(text, "https://192.0.2.9:1").is_err(), "{text}");
        }
        let without = TEXT.replace("server: https://10.20.14.10:6443", "proxy-url: x");
        assert!(led(&without, "https://192.0.2.9:1").is_err());
    }
}
