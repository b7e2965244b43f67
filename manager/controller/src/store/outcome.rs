//! What became of a batch of writes: one that is refused holds back what depends on it, and
//! nothing else.
//!
//! ```text
//! 0 choose    LoadBalancer: spec, marks ──┐ refused: what is published in its namespace waits
//! 1 reserve   marks on others' objects  ──┤ refused: a LoadBalancer's status would tell of it
//! 2 publish   infrastructure, hosts, …  ──┤ the same
//! 3 tell      every status              ──┘
//! ```
//!
//! An object that was refused is left alone for a while ([`pause`]); meanwhile the rest goes on,
//! and plans know of it ([`crate::snapshot::Snapshot::refused`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kedge_core::Problem;
use kedge_crd::{LoadBalancerSpec, Resource as _, meta};

use super::{Ground, Layer, ObjectKey, Write};

/// What became of a batch of writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The objects that were refused, and why.
    pub refused: BTreeMap<ObjectKey, Problem>,
    /// The objects that are not as they were wanted: refused, or waiting for one that was.
    pub held: BTreeSet<ObjectKey>,
    /// Why nothing could be written at all.
    pub broken: Option<Problem>,
    waiting: BTreeSet<ObjectKey>,
    /// The namespaces of which nothing is written.
    stopped: BTreeSet<String>,
    /// The namespaces where a choice is not written, and where something published is not.
    unchosen: BTreeSet<String>,
    unpublished: BTreeSet<String>,
}

impl Outcome {
    /// Nothing was written yet; these objects are left alone.
    #[must_use]
    pub fn new(waiting: &BTreeSet<ObjectKey>) -> Self {
        Self {
            waiting: waiting.clone(),
            ..Self::default()
        }
    }

    /// Nothing could be written at all.
    #[must_use]
    pub fn broken_by(problem: Problem) -> Self {
        Self {
            broken: Some(problem),
            ..Self::default()
        }
    }

    /// Another manager writes it: until then it is not there.
    #[must_use]
    pub fn left_to_another(writes: &[Write]) -> Self {
        let held = writes.iter().map(|write| write.key.clone()).collect();
        let choices = writes.iter().filter(|write| wave(write) == 0);
        let unchosen = choices.map(|write| write.key.name.namespace.clone());
        Self {
            held,
            unchosen: unchosen.collect(),
            ..Self::default()
        }
    }

    /// Nothing of the namespace is written: what was decided of it was decided without seeing all.
    pub fn stop(&mut self, space: &str) {
        self.stopped.insert(space.to_owned());
        self.unchosen.insert(space.to_owned());
    }

    /// Whether the write must wait.
    pub fn holds(&mut self, write: &Write) -> bool {
        let key = &write.key;
        let wave = wave(write);
        if self.waiting.contains(key) {
            if wave == 0 {
                self.unchosen.insert(key.name.namespace.clone());
                // What waits for it is not there either, and nobody may say it is.
                self.unpublished.insert(key.name.namespace.clone());
            }
            self.held.insert(key.clone());
            return true;
        }
        let space = &key.name.namespace;
        let waits = self.refused.contains_key(key)
            || self.stopped.contains(space)
            || match wave {
                0 => false,
                1 | 2 => self.unchosen.contains(space),
                _ => is_balancer(key) && self.unpublished.contains(space),
            };
        if waits {
            self.held.insert(key.clone());
        }
        waits
    }

    /// A write was refused.
    pub fn refuse(&mut self, write: &Write, problem: Problem) {
        let key = &write.key;
        let space = key.name.namespace.clone();
        match wave(write) {
            0 => {
                self.unpublished.insert(space.clone());
                self.unchosen.insert(space);
            }
            1 | 2 => {
                self.unpublished.insert(space);
            }
            _ => {}
        }
        self.held.insert(key.clone());
        self.refused.insert(key.clone(), problem);
    }

    /// Whether what a plan decided for a namespace may be handed out, but for the objects held.
    #[must_use]
    pub fn is_chosen(&self, space: &str) -> bool {
        self.broken.is_none() && !self.unchosen.contains(space)
    }
}

/// How long an object that was refused so many times in a row is left alone.
#[must_use]
pub fn pause(times: u32) -> Duration {
    let factor = 4_u32.saturating_pow(times.saturating_sub(1).min(8));
    FIRST.saturating_mul(factor).min(LONGEST)
}

/// The order of writes: what was chosen is there before what is published from it, a host is
/// reserved before its address is, the status comes last.
#[must_use]
pub fn wave(write: &Write) -> u8 {
    match write.layer {
        Layer::Owned(_) | Layer::Marks if is_balancer(&write.key) => 0,
        Layer::Marks if write.key.ground() == Ground::Theirs => 1,
        Layer::Owned(_) | Layer::Marks => 2,
        Layer::Status => 3,
    }
}

fn is_balancer(key: &ObjectKey) -> bool {
    key.group == meta::GROUP && key.kind == LoadBalancerSpec::KIND
}

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use kedge_core::Code;

    use super::*;
    use crate::store::Name;

    fn write(space: &str, group: &str, kind: &str, layer: Layer) -> Write {
        Write {
            key: ObjectKey::new(group, kind, Name::new(space, "x")),
            layer,
            content: None,
        }
    }

    fn problem() -> Problem {
        Problem::new(Code::HostStateNotPersisted, "no")
    }

    #[test]
    fn one_refusal_holds_back_what_depends_on_it_and_nothing_else() {
        let own = || Layer::Owned("m".to_owned());
        let lb = |space, layer| write(space, meta::GROUP, "LoadBalancer", layer);
        let host = |space, layer| write(space, meta::GROUP, "EdgeHost", layer);
        let infra = |space, layer| write(space, "infra", "Cluster", layer);
        let mut outcome = Outcome::default();
        outcome.refuse(&lb("a", own()), problem());
        assert!(outcome.holds(&infra("a", own())), "nothing is published");
        assert!(outcome.holds(&host("a", own())));
        assert!(!outcome.holds(&host("a", Layer::Status)), "facts are told");
        assert!(outcome.holds(&lb("a", Layer::Status)));
        assert!(!outcome.is_chosen("a") && outcome.is_chosen("b"));
        assert!(!outcome.holds(&infra("b", own())), "elsewhere all goes on");

        let mut outcome = Outcome::default();
        outcome.refuse(&infra("a", own()), problem());
        assert!(!outcome.holds(&host("a", own())));
        assert!(
            outcome.holds(&infra("a", Layer::Status)),
            "its own later writes"
        );
        assert!(
            outcome.holds(&lb("a", Layer::Status)),
            "it would say it is published"
        );
        assert!(outcome.is_chosen("a"));

        // Left alone for a while: now its LoadBalancer tells.
        let waiting = BTreeSet::from([infra("a", own()).key]);
        let mut outcome = Outcome::new(&waiting);
        assert!(outcome.holds(&infra("a", own())));
        assert!(!outcome.holds(&lb("a", Layer::Status)));
        assert!(outcome.refused.is_empty());

        // What was not chosen is not published by the others of its namespace either.
        let waiting = BTreeSet::from([lb("a", own()).key]);
        let other = Write {
            key: ObjectKey::new(meta::GROUP, "LoadBalancer", Name::new("a", "other")),
            ..lb("a", Layer::Status)
        };
        let mut outcome = Outcome::new(&waiting);
        assert!(outcome.holds(&lb("a", own())));
        assert!(outcome.holds(&infra("a", own())));
        assert!(outcome.holds(&other), "it would say it is published");
    }

    #[test]
    fn pauses_grow_to_a_minute() {
        let pauses: Vec<u128> = (1..8).map(|times| pause(times).as_millis()).collect();
        assert_eq!(pauses, [100, 400, 1600, 6400, 25600, 60000, 60000]);
    }
}
