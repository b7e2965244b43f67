//! What the names of endpoints resolve to: asked of the system, now and then, in the background.
//!
//! A plan only reads what is known ([`Snapshot::names`](crate::snapshot::Snapshot::names)); a name
//! that was never asked for is in no answer, and whoever needs it waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use kedge_crd::{LoadBalancerSpec, Resource as _, meta};
use serde_json::Value;
use tokio::time::timeout;
use tracing::info;

use crate::store::Objects;

/// The names that LoadBalancers ask for, and what they resolve to.
#[derive(Debug, Default)]
pub struct Resolver {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    answers: Arc<BTreeMap<String, BTreeSet<IpAddr>>>,
    asked: BTreeMap<String, Instant>,
}

impl Resolver {
    /// What was answered last.
    #[must_use]
    pub fn answers(&self) -> Arc<BTreeMap<String, BTreeSet<IpAddr>>> {
        Arc::clone(&self.known().answers)
    }

    /// Asks for every name whose answer is due; says whether one differs.
    pub async fn look(&self, objects: &Objects) -> bool {
        let wanted = wanted(objects);
        let due = self.due(&wanted);
        let asked: Vec<(String, BTreeSet<IpAddr>)> = stream::iter(due)
            .map(|name| async move {
                let found = ask(&name).await;
                (name, found)
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut known = self.known();
        let before = Arc::clone(&known.answers);
        let mut answers = BTreeMap::clone(&before);
        answers.retain(|name, _| wanted.contains(name));
        known.asked.retain(|name, _| wanted.contains(name));
        for (name, found) in asked {
            let last = before.get(&name).is_some_and(|found| !found.is_empty());
            if last == found.is_empty() {
                let resolves = !found.is_empty();
                info!(name, resolves, "the name of an endpoint was looked up");
            }
            known.asked.insert(name.clone(), Instant::now());
            answers.insert(name, found);
        }
        let differs = answers != *before;
        if differs {
            known.answers = Arc::new(answers);
        }
        differs
    }

    fn due(&self, wanted: &BTreeSet<String>) -> Vec<String> {
        let known = self.known();
        let is_due = |name: &&String| {
            let resolves = known
                .answers
                .get(*name)
                .is_some_and(|found| !found.is_empty());
            let pause = if resolves { SETTLED } else { OPEN };
            let last = known.asked.get(*name);
            last.is_none_or(|last| last.elapsed() >= pause)
        };
        wanted.iter().filter(is_due).cloned().collect()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wanted(objects: &Objects) -> BTreeSet<String> {
    let balancers = objects.of_kind(meta::GROUP, LoadBalancerSpec::KIND);
    let names = balancers.filter_map(|(_, layers)| {
        let user = layers.user.as_ref()?;
        user.value
            .pointer("/spec/dns/hostname")
            .and_then(Value::as_str)
    });
    names.map(str::to_owned).collect()
}

/// What the system says; nothing where it does not answer in time.
async fn ask(name: &str) -> BTreeSet<IpAddr> {
    let answer = timeout(PATIENCE, tokio::net::lookup_host((name, 0))).await;
    match answer {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        Ok(Err(_)) | Err(_) => BTreeSet::new(),
    }
}

const AT_ONCE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a name that does not resolve is asked for again.
const OPEN: Duration = Duration::from_secs(5);
/// How often one that does.
const SETTLED: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Name, ObjectKey, UserDocument};

    fn asking(names: &[&str]) -> Objects {
        let mut objects = Objects::default();
        for name in names {
            let key = ObjectKey::new(meta::GROUP, "LoadBalancer", Name::new("ns", *name));
            let value = json!({"spec": {"dns": {"hostname": name}}});
            let origin = String::new();
            let user = Some(UserDocument { value, origin });
            objects.by_key.entry(key).or_default().user = user;
        }
        objects
    }

    #[tokio::test]
    async fn names_are_asked_for_once_and_forgotten_with_who_wants_them() {
        let resolver = Resolver::default();
        // Reserved names: the first is this machine, the second never resolves.
        let objects = asking(&["localhost", "kedge.invalid"]);
        assert!(resolver.look(&objects).await);
        let answers = resolver.answers();
        assert!(answers["localhost"].iter().all(IpAddr::is_loopback));
        assert!(!answers["localhost"].is_empty());
        assert!(answers["kedge.invalid"].is_empty());
        assert_eq!(resolver.due(&wanted(&objects)), [""; 0]);
        assert!(resolver.look(&asking(&["localhost"])).await);
        assert!(!resolver.answers().contains_key("kedge.invalid"));
    }
}
