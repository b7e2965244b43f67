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
use tokio::time::timeout;
use tracing::info;

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

    /// Asks for every name whose answer is due; says which differ.
    pub async fn look(&self, wanted: &BTreeSet<String>) -> BTreeSet<String> {
        let due = self.due(wanted);
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
        let all = answers.keys().chain(before.keys());
        let differ = all.filter(|name| answers.get(*name) != before.get(*name));
        let differ: BTreeSet<String> = differ.cloned().collect();
        if !differ.is_empty() {
            known.answers = Arc::new(answers);
        }
        differ
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
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn names_are_asked_for_once_and_forgotten_with_who_wants_them() {
        let resolver = Resolver::default();
        // Reserved names: the first is this machine, the second never resolves.
        let both = names(&["localhost", "kedge.invalid"]);
        assert_eq!(resolver.look(&both).await, both);
        let answers = resolver.answers();
        assert!(answers["localhost"].iter().all(IpAddr::is_loopback));
        assert!(!answers["localhost"].is_empty());
        assert!(answers["kedge.invalid"].is_empty());
        assert_eq!(resolver.due(&both), [""; 0]);
        assert!(resolver.look(&both).await.is_empty());
        let left = resolver.look(&names(&["localhost"])).await;
        assert_eq!(left, names(&["kedge.invalid"]));
        assert!(!resolver.answers().contains_key("kedge.invalid"));
    }
}
