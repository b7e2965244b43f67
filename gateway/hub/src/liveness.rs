//! Which hosts are alive, from the age of their last authenticated data and from BFD. No I/O.
//!
//! A host asks its gateway through the tunnel every second, so that silence means something. BFD is quicker, where
//! a host speaks it.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use kedge_core::Instant;

/// The hosts of this gateway.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    known: BTreeMap<String, Host>,
}

/// What the tunnel knows of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub name: String,
    /// When authenticated data came last.
    pub last: Option<Instant>,
    /// Since when BFD has lost it, if it has.
    pub lost: Option<Instant>,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Whether authenticated data arrived within [`BOUND`], and since BFD lost it.
    pub alive: bool,
    /// Whether it ever did.
    pub seen: bool,
    /// Since when that is so, for people.
    pub since: SystemTime,
    /// Why, as a sentence.
    pub because: String,
}

/// A change that the data plane and the manager must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A host came to life, or died, or is new.
    Host {
        name: String,
        alive: bool,
        because: String,
    },
    /// A host is no peer any more.
    Gone { name: String },
}

impl Hosts {
    /// Takes what the tunnel knows of every host. `wall` is `now` for people.
    pub fn observe(
        &mut self,
        now: Instant,
        wall: SystemTime,
        heard: impl IntoIterator<Item = Heard>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut before = std::mem::take(&mut self.known);
        for Heard { name, last, lost } in heard {
            let age = last.map(|last| now.since(last));
            let alive = is_alive(now, last, lost);
            let old = before.remove(&name);
            let since = match &old {
                Some(old) if old.alive == alive => old.since,
                _ => wall,
            };
            let host = Host {
                alive,
                seen: last.is_some(),
                since,
                because: because(alive, is_lost(last, lost), age),
            };
            if old.is_none_or(|old| old.alive != alive) {
                changes.push(Change::Host {
                    name: name.clone(),
                    alive,
                    because: host.because.clone(),
                });
            }
            self.known.insert(name, host);
        }
        changes.extend(before.into_keys().map(|name| Change::Gone { name }));
        changes
    }

    /// The host of that name.
    pub fn get(&self, name: &str) -> Option<&Host> {
        self.known.get(name)
    }

    /// Every host, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Host)> {
        self.known.iter()
    }
}

/// Whether a host is there that was heard `last`, and that BFD lost then.
pub(crate) fn is_alive(now: Instant, last: Option<Instant>, lost: Option<Instant>) -> bool {
    !is_lost(last, lost) && last.is_some_and(|last| now.since(last) < BOUND)
}

/// Whoever is heard since BFD lost it is there, and only BFD is not.
fn is_lost(last: Option<Instant>, lost: Option<Instant>) -> bool {
    lost.is_some_and(|lost| last.is_none_or(|last| last <= lost))
}

fn because(alive: bool, is_lost: bool, age: Option<Duration>) -> String {
    match (alive, age) {
        (false, Some(_)) if is_lost => "BFD lost it, and nothing has come since".to_owned(),
        (true, _) => "authenticated data arrives through the tunnel".to_owned(),
        (false, None) => "no authenticated data has come through the tunnel yet".to_owned(),
        (false, Some(_)) => {
            format!("no authenticated data for {} s", BOUND.as_secs())
        }
    }
}

/// After this much silence a host gets no connections.
const BOUND: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
