//! What one kind of resource is about on a stream: what is wanted, what Envoy holds, what is under way.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
};

use super::message::{Name, Outcome, Revision, Version};

/// One kind on one stream.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// Whether the client has asked for this kind at all.
    open: bool,
    /// Whether its first question has no answer yet.
    unanswered: bool,
    /// Whether it asks for everything there is.
    everything: bool,
    /// What it asks for by name.
    names: BTreeSet<Name>,
    /// What there is.
    wanted: BTreeMap<Name, Revision>,
    /// What the client holds; `None` for a version of somebody else's.
    known: BTreeMap<Name, Option<Version>>,
    /// What it refuses, until it changes.
    refused: BTreeMap<Name, Version>,
    /// What it must be told whatever it holds.
    again: BTreeSet<Name>,
    /// What is to be told, and what is to be removed: what `wanted` and `known` differ in.
    fresh: BTreeSet<Name>,
    leaving: BTreeSet<Name>,
    /// Parts of a refused response, each to be told by itself.
    parts: VecDeque<Vec<Name>>,
    /// What waits for its ACK.
    flight: Option<Flight>,
}

/// A response that waits for its ACK.
#[derive(Debug)]
struct Flight {
    nonce: u64,
    load: Load,
}

/// What a response carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub told: Vec<(Name, Version)>,
    pub removed: Vec<Name>,
}

impl Channel {
    /// Takes what is wanted from here on under a name.
    pub fn want(&mut self, name: Name, revision: Option<Revision>) {
        match revision {
            Some(revision) => self.wanted.insert(name.clone(), revision),
            None => self.wanted.remove(&name),
        };
        self.look(&name);
    }

    /// Opens the channel with the client's first request.
    pub fn open(&mut self, everything: bool, holds: Vec<(Name, Option<Version>)>) {
        self.open = true;
        self.unanswered = true;
        self.everything = everything;
        self.known = holds.into_iter().collect();
        let names: Vec<Name> = self
            .known
            .keys()
            .chain(self.wanted.keys())
            .cloned()
            .collect();
        for name in names {
            self.look(&name);
        }
    }

    /// The client asks for a name, or once more.
    pub fn subscribe(&mut self, name: Name) {
        if &*name == EVERYTHING {
            self.everything = true;
            for name in self.wanted.keys().cloned().collect::<Vec<_>>() {
                self.look(&name);
            }
            return;
        }
        // Whoever asks again has forgotten; but for what it has just said that it holds.
        if !(self.unanswered && self.known.contains_key(&name)) {
            self.again.insert(name.clone());
        }
        self.names.insert(name.clone());
        self.look(&name);
    }

    /// The client does not ask for a name any more, and forgets what it held of it.
    pub fn unsubscribe(&mut self, name: &Name) {
        if &**name == EVERYTHING {
            self.everything = false;
            let kept = mem::take(&mut self.known);
            self.known = kept
                .into_iter()
                .filter(|(name, _)| self.names.contains(name))
                .collect();
            for name in self.wanted.keys().cloned().collect::<Vec<_>>() {
                self.look(&name);
            }
            return;
        }
        self.names.remove(name);
        if self.everything {
            // It cannot know that it goes on being told, until it is.
            self.again.insert(name.clone());
        } else {
            self.known.remove(name);
        }
        self.look(name);
    }

    /// Has the client told of a name once more, if it asks for it.
    pub fn repeat(&mut self, name: &Name) {
        if self.wanted.contains_key(name) {
            self.again.insert(name.clone());
            self.look(name);
        }
    }

    /// What to send next: at most one response is under way. `may_remove` says of each name whether its
    /// time has come; with `apart`, what is new and what goes are never in one response.
    pub fn next(&mut self, apart: bool, may_remove: impl Fn(&Name) -> bool) -> Option<Load> {
        if !self.open || self.flight.is_some() {
            return None;
        }
        let leaving = || self.leaving.iter().filter(|name| may_remove(name));
        let removed: Vec<Name> = leaving().cloned().collect();
        // What was refused may have wanted the room of what goes: that goes first, and alone.
        let told = match (self.parts.is_empty(), removed.is_empty()) {
            (false, false) => Vec::new(),
            (false, true) => self.part(),
            (true, _) => self.difference(),
        };
        let is_late = apart && !told.is_empty();
        let removed = if is_late { Vec::new() } else { removed };
        let load = Load { told, removed };
        (self.unanswered || !load.is_empty()).then_some(load)
    }

    /// Forgets parts of a refused response of which nothing is wanted any more.
    pub fn tidy(&mut self) {
        while self
            .parts
            .front()
            .is_some_and(|part| self.told(part).is_empty())
        {
            self.parts.pop_front();
        }
    }

    /// What goes next of a response that was refused.
    fn part(&mut self) -> Vec<(Name, Version)> {
        let part = self.parts.pop_front().unwrap_or_default();
        self.told(&part)
    }

    fn told(&self, names: &[Name]) -> Vec<(Name, Version)> {
        let asked_for = names.iter().filter(|name| self.is_asked_for(name));
        let told =
            asked_for.filter_map(|name| Some((name.clone(), self.wanted.get(name)?.version)));
        told.collect()
    }

    /// What is new, as much as goes into one response.
    fn difference(&self) -> Vec<(Name, Version)> {
        let mut told = Vec::new();
        let mut length = 0;
        for name in &self.fresh {
            let Some(revision) = self.wanted.get(name) else {
                continue;
            };
            length += revision.length;
            if length > MAX_LENGTH && !told.is_empty() {
                break;
            }
            told.push((name.clone(), revision.version));
        }
        told
    }

    /// The load was sent under a nonce.
    pub fn sent(&mut self, nonce: u64, load: Load) {
        self.unanswered = false;
        for name in load.names() {
            self.again.remove(name);
            self.fresh.remove(name);
            self.leaving.remove(name);
        }
        self.flight = Some(Flight { nonce, load });
    }

    /// The client took the response with this nonce, and holds what was in it. What it holds is returned.
    pub fn acknowledged(&mut self, nonce: u64) -> Vec<(Name, Outcome)> {
        let Some(load) = self.land(nonce) else {
            return Vec::new();
        };
        let freed = !load.removed.is_empty();
        let settled = self.took(load);
        if freed {
            // An address may have become free that one of these wanted.
            for name in mem::take(&mut self.refused).into_keys() {
                self.look(&name);
            }
        }
        settled
    }

    /// The client refused the response with this nonce. What is settled by that is returned.
    pub fn refused(&mut self, nonce: u64, detail: &Arc<str>) -> Vec<(Name, Outcome)> {
        let Some(load) = self.land(nonce) else {
            return Vec::new();
        };
        if load.told.is_empty() {
            // Nobody can insist on what is to be gone.
            return self.took(load);
        }
        let names = |told: &[(Name, Version)]| told.iter().map(|(name, _)| name.clone()).collect();
        if !load.removed.is_empty() {
            self.parts.push_front(names(&load.told));
            for name in &load.removed {
                self.look(name);
            }
            return Vec::new();
        }
        if let [(name, version)] = load.told.as_slice() {
            self.refused.insert(name.clone(), *version);
            self.look(name);
            let detail = Arc::clone(detail);
            let outcome = Outcome::Refused {
                version: *version,
                detail,
            };
            return vec![(name.clone(), outcome)];
        }
        let (first, second) = load.told.split_at(load.told.len() / 2);
        self.parts.push_front(names(second));
        self.parts.push_front(names(first));
        Vec::new()
    }

    /// What the client holds as it is wanted.
    pub fn held(&self) -> Vec<(Name, Outcome)> {
        let asked_for = self
            .wanted
            .iter()
            .filter(|(name, _)| self.is_asked_for(name));
        let held = asked_for.filter_map(|(name, revision)| {
            let known = self.known.get(name).copied().flatten()?;
            (known == revision.version).then(|| (name.clone(), Outcome::Applied(known)))
        });
        held.collect()
    }

    /// Whether something of what is new is still to be told.
    pub fn is_behind(&self) -> bool {
        self.open && !(self.fresh.is_empty() && self.parts.is_empty())
    }

    /// Whether the client holds what is wanted, all of it and nothing else.
    pub fn is_settled(&self) -> bool {
        let told = !self.is_behind() && self.leaving.is_empty() && self.flight.is_none();
        !self.open || (told && self.refused.is_empty() && !self.unanswered)
    }

    /// Whether the client holds something under this name.
    pub fn is_known(&self, name: &Name) -> bool {
        self.known.contains_key(name)
    }

    /// Whether something is wanted under this name.
    pub fn is_wanted(&self, name: &Name) -> bool {
        self.wanted.contains_key(name)
    }

    /// Whether what is wanted under this name is refused.
    pub fn is_refused(&self, name: &Name) -> bool {
        self.refused.contains_key(name)
    }

    /// Whether the client has asked for this kind.
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// How many names are asked for.
    pub fn names(&self) -> usize {
        self.names.len()
    }

    fn is_asked_for(&self, name: &Name) -> bool {
        self.everything || self.names.contains(name)
    }

    fn land(&mut self, nonce: u64) -> Option<Load> {
        let flight = self.flight.take_if(|flight| flight.nonce == nonce)?;
        Some(flight.load)
    }

    fn took(&mut self, load: Load) -> Vec<(Name, Outcome)> {
        let mut settled = Vec::with_capacity(load.told.len() + load.removed.len());
        for (name, version) in load.told {
            if self.is_asked_for(&name) {
                self.known.insert(name.clone(), Some(version));
            }
            self.look(&name);
            settled.push((name, Outcome::Applied(version)));
        }
        for name in load.removed {
            self.known.remove(&name);
            self.look(&name);
            settled.push((name, Outcome::Gone));
        }
        settled
    }

    /// Finds out whether a name is to be told, to be removed, or neither.
    fn look(&mut self, name: &Name) {
        self.fresh.remove(name);
        self.leaving.remove(name);
        if !(self.open && self.is_asked_for(name)) {
            self.again.remove(name);
            return;
        }
        let Some(revision) = self.wanted.get(name) else {
            self.refused.remove(name);
            if self.known.contains_key(name) || self.again.contains(name) {
                self.leaving.insert(name.clone());
            }
            return;
        };
        if self.refused.get(name) == Some(&revision.version) {
            return;
        }
        self.refused.remove(name);
        let held = self.known.get(name).copied().flatten();
        if held != Some(revision.version) || self.again.contains(name) {
            self.fresh.insert(name.clone());
        }
    }
}

impl Load {
    fn is_empty(&self) -> bool {
        self.told.is_empty() && self.removed.is_empty()
    }

    fn names(&self) -> impl Iterator<Item = &Name> {
        let told = self.told.iter().map(|(name, _)| name);
        told.chain(&self.removed)
    }
}

/// The name by which a client asks for everything.
pub(super) const EVERYTHING: &str = "*";

/// How much of what is new goes into one response, bytes: a quarter of what gRPC takes by default.
const MAX_LENGTH: usize = 1 << 20;
