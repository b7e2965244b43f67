//! What Envoy does with what it is told, as far as the order of things depends on it: measured on Envoy
//! 1.40 where the protocol leaves a choice.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    sync::Arc,
};

use crate::{
    Kind,
    delta::{Name, Request, Response, Version},
};

/// A client of the stream.
#[derive(Debug, Default)]
pub struct Envoy {
    pub held: BTreeMap<Kind, BTreeMap<Name, Version>>,
    /// What it refuses, with everything that comes in the same response.
    pub bad: BTreeSet<(Kind, Name, Version)>,
    /// Clusters that wait for their members.
    pub warming: BTreeSet<Name>,
    /// Clusters that have had members since they are there.
    served: BTreeSet<Name>,
    asked: BTreeSet<Kind>,
    nonces: BTreeSet<u64>,
    /// What it says of clusters once none of them waits any more: until then it says nothing of them.
    paused: Vec<Request>,
}

impl Envoy {
    /// What it says first on a stream.
    pub fn connect(&mut self) -> Vec<Request> {
        self.asked.clear();
        self.nonces.clear();
        self.paused.clear();
        let mut requests = vec![self.first(Kind::Cluster)];
        if self.of(Kind::Cluster).next().is_some() {
            requests.push(self.first(Kind::Endpoint));
        }
        requests
    }

    /// Takes a response, and answers.
    ///
    /// # Panics
    ///
    /// The response breaks a rule.
    pub fn hear(&mut self, response: &Response) -> Vec<Request> {
        let Response {
            kind, nonce, told, ..
        } = response;
        assert!(self.asked.contains(kind), "{kind:?} was never asked for");
        assert!(self.nonces.insert(*nonce), "a nonce came twice");
        let mut answer = Request::new(*kind);
        answer.nonce = Some(*nonce);
        if self.refuses(response) {
            answer.refused = Some(Arc::from("no"));
            let listeners = self.listeners(*kind);
            return iter::once(answer).chain(listeners).collect();
        }
        let mut more = Vec::new();
        let names: BTreeSet<&Name> = told.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), told.len(), "a name stands twice in a response");
        for name in &response.removed {
            assert!(!names.contains(name), "{name} is told and removed at once");
            self.held.entry(*kind).or_default().remove(name);
            if *kind == Kind::Endpoint {
                // It keeps what it has, and waits for nothing else.
                self.warming.remove(name);
            }
            if *kind == Kind::Cluster {
                self.warming.remove(name);
                self.served.remove(name);
                self.held.entry(Kind::Endpoint).or_default().remove(name);
                let mut leave = Request::new(Kind::Endpoint);
                leave.unsubscribe.push(name.clone());
                more.push(leave);
                self.is_used(name);
            }
        }
        let is_watched = |name: &Name, held: &BTreeMap<Kind, BTreeMap<Name, Version>>| {
            let clusters = held.get(&Kind::Cluster);
            *kind != Kind::Endpoint || clusters.is_some_and(|held| held.contains_key(name))
        };
        for (name, version) in told {
            if !is_watched(name, &self.held) {
                continue;
            }
            let before = self
                .held
                .entry(*kind)
                .or_default()
                .insert(name.clone(), *version);
            match kind {
                Kind::Cluster => {
                    self.warming.insert(name.clone());
                    if before.is_none() {
                        let mut ask = Request::new(Kind::Endpoint);
                        ask.subscribe.push(name.clone());
                        more.push(ask);
                    }
                }
                Kind::Endpoint => {
                    self.warming.remove(name);
                    self.served.insert(name.clone());
                }
                Kind::Listener => self.is_served(name, *version),
                Kind::Secret | Kind::Route => {}
            }
        }
        self.asked.extend(more.iter().map(|request| request.kind));
        let mut answers = if *kind == Kind::Cluster {
            self.paused.push(answer);
            Vec::new()
        } else {
            vec![answer]
        };
        answers.append(&mut more);
        if self.warming.is_empty() {
            answers.append(&mut self.paused);
        }
        answers.extend(self.listeners(*kind));
        answers
    }

    /// What it holds of a kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = (&Name, &Version)> {
        self.held.get(&kind).into_iter().flatten()
    }

    /// Listeners are asked for once clusters were answered.
    fn listeners(&mut self, answered: Kind) -> Option<Request> {
        let is_time = answered == Kind::Cluster && !self.asked.contains(&Kind::Listener);
        is_time.then(|| self.first(Kind::Listener))
    }

    fn first(&mut self, kind: Kind) -> Request {
        self.asked.insert(kind);
        let mut request = Request::new(kind);
        request.holds = self
            .of(kind)
            .map(|(name, version)| (name.clone(), Some(*version)))
            .collect();
        if kind == Kind::Endpoint {
            request.subscribe = self
                .of(Kind::Cluster)
                .map(|(name, _)| name.clone())
                .collect();
        }
        request
    }

    fn refuses(&self, response: &Response) -> bool {
        let kind = response.kind;
        let is_bad =
            |(name, version): &(Name, Version)| self.bad.contains(&(kind, name.clone(), *version));
        if response.told.iter().any(is_bad) {
            return true;
        }
        // Two listeners of one address: the older one must go in the same response or before.
        let stays = |name: &Name| !response.removed.contains(name);
        let mut addresses: BTreeMap<u64, Name> = BTreeMap::new();
        if kind != Kind::Listener {
            return false;
        }
        for (name, version) in self.of(kind).filter(|(name, _)| stays(name)) {
            addresses.insert(address(*version), name.clone());
        }
        response.told.iter().any(|(name, version)| {
            let before = addresses.insert(address(*version), name.clone());
            before.is_some_and(|before| before != *name)
        })
    }

    /// A listener that is told leads somewhere.
    fn is_served(&self, listener: &Name, version: Version) {
        let cluster = cluster(version);
        let is_refused = |kind| {
            let mut bad = self.bad.iter();
            bad.any(|(of, name, _)| *of == kind && *name == cluster)
        };
        if is_refused(Kind::Cluster) || is_refused(Kind::Endpoint) {
            return;
        }
        let is_there = self.of(Kind::Cluster).any(|(name, _)| *name == cluster);
        assert!(
            is_there,
            "{listener} leads to {cluster}, which is not there"
        );
        let is_served = self.served.contains(&cluster);
        assert!(
            is_served,
            "{listener} leads to {cluster}, which has no members"
        );
    }

    /// A cluster that goes was of no use any more.
    fn is_used(&self, name: &Name) {
        for (listener, version) in self.of(Kind::Listener) {
            assert_ne!(cluster(*version), *name, "{listener} leads to it");
        }
    }
}

/// A version of a listener: where it listens, where it leads, and a number.
pub fn listener(address: u64, cluster: u64, number: u64) -> u64 {
    number << 16 | address << 8 | cluster
}

/// Where a listener of this version leads.
pub fn cluster(version: Version) -> Name {
    Name::from(format!("c{}", version.0 & 0xff))
}

fn address(version: Version) -> u64 {
    version.0 >> 8 & 0xff
}
