//! What one task at a time may change: who is enrolled, and what is handed out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use jiff::Timestamp;
use kedge_control::{
    agent::{GatewayConfig, HostConfig},
    local::{FleetEndpoint, FleetLoadBalancer},
};
use kedge_core::Problem;
use tokio::sync::watch;
use tracing::warn;

use super::{
    Part,
    member::{Kept, Member, Members},
    tell::tell,
};
use crate::{
    live::Tracker,
    plan::Plan,
    store::{
        Name, ObjectKey, Store,
        outcome::{Outcome, pause},
    },
};

/// What one task at a time may change.
#[derive(Debug)]
pub struct State {
    /// The store, to read.
    pub store: Store,
    /// Who is heard of.
    pub tracker: Tracker,
    /// What is handed out, by namespace.
    parts: BTreeMap<String, Part>,
    /// The enrolled, by uid.
    members: Members,
    /// Who came or went since the last snapshot of its namespace.
    fresh: BTreeMap<Arc<str>, (String, Option<Arc<Kept>>)>,
    /// When the newest certificate of a member was issued.
    pub(super) newest: Option<Timestamp>,
    /// What could not be written, by object.
    refused: BTreeMap<ObjectKey, Refused>,
    /// Why nothing can be written at all.
    broken: Option<Problem>,
    led: Option<bool>,
    pub(super) tokens_looked_at: Option<Timestamp>,
    /// The namespaces that are planned again: nothing of them could be written, or what they look
    /// at beyond the store changed.
    pub(super) again: BTreeSet<String>,
    /// Whether something that every plan looks at changed outside of the store.
    pub(super) is_all_due: bool,
}

#[derive(Debug)]
struct Refused {
    problem: Problem,
    times: u32,
    until: Instant,
}

impl State {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            tracker: Tracker::new(Instant::now()),
            parts: BTreeMap::new(),
            members: BTreeMap::new(),
            fresh: BTreeMap::new(),
            newest: None,
            refused: BTreeMap::new(),
            broken: None,
            led: None,
            tokens_looked_at: None,
            again: BTreeSet::new(),
            is_all_due: false,
        }
    }

    /// Every problem there is.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let of_parts = self.parts.values().flat_map(|part| {
            let endpoints = part.endpoints().iter();
            let of_endpoints = endpoints.flat_map(|item| &item.problems);
            part.problems().iter().chain(of_endpoints)
        });
        let refused = self.refused.values().map(|refused| &refused.problem);
        let all = self.broken.iter().chain(refused).chain(of_parts);
        all.cloned().chain(self.store.problems()).collect()
    }

    /// Why something cannot be written, if so.
    #[must_use]
    pub fn stuck(&self) -> Option<&Problem> {
        let mut refused = self.refused.values().map(|refused| &refused.problem);
        self.broken.as_ref().or_else(|| refused.next())
    }

    /// Every cluster's endpoint, for people.
    pub fn endpoints(&self) -> impl Iterator<Item = &FleetEndpoint> {
        self.parts.values().flat_map(Part::endpoints)
    }

    /// Every TCPLoadBalancer and HTTPLoadBalancer, for people.
    pub fn load_balancers(&self) -> impl Iterator<Item = &FleetLoadBalancer> {
        self.parts.values().flat_map(Part::load_balancers)
    }

    /// Where the kubeconfig Secrets of clusters shall lead.
    #[must_use]
    pub fn kubeconfigs(&self) -> BTreeMap<Name, String> {
        let all = self.parts.values().flat_map(Part::kubeconfigs);
        all.map(|(name, to)| (name.clone(), to.clone())).collect()
    }

    /// The Secrets that HTTPLoadBalancers name.
    #[must_use]
    pub fn certificates(&self) -> BTreeSet<Name> {
        let all = self.parts.values().flat_map(Part::certificates);
        all.cloned().collect()
    }

    /// The names of endpoints, and the namespaces that want them.
    #[must_use]
    pub fn names(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (space, part) in &self.parts {
            for name in part.names() {
                names.entry(name.clone()).or_default().insert(space.clone());
            }
        }
        names
    }

    /// What is handed out, by namespace.
    pub fn parts(&self) -> impl Iterator<Item = (&String, &Part)> {
        self.parts.iter()
    }

    /// The generation of a host's desired state.
    #[must_use]
    pub fn host_generation(&self, host: &Name) -> Option<u64> {
        self.parts.get(&host.namespace)?.host_generation(&host.name)
    }

    /// A host's desired state.
    #[must_use]
    pub fn host_config(&self, host: &Name, ca_bundle: &str) -> Option<HostConfig> {
        self.parts.get(&host.namespace)?.host(&host.name, ca_bundle)
    }

    /// The desired state of a gateway instance.
    #[must_use]
    pub fn gateway_config(&self, key: &(Name, String)) -> Option<&GatewayConfig> {
        self.parts.get(&key.0.namespace)?.gateway(key)
    }

    /// Follows what is handed out in a namespace.
    pub fn follow(&mut self, namespace: &str) -> watch::Receiver<u64> {
        let part = self.parts.entry(namespace.to_owned()).or_default();
        part.follow()
    }

    /// Wakes the waiting requests of a namespace to look again.
    pub fn nudge(&self, namespace: &str) {
        if let Some(part) = self.parts.get(namespace) {
            part.nudge();
        }
    }

    /// Wakes the waiting requests of hosts that must speak up.
    pub fn nudge_doubted(&mut self) {
        for namespace in self.tracker.doubts() {
            self.nudge(&namespace);
        }
    }

    /// Everybody who is enrolled, as they are kept.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &Kept> {
        self.members.values().map(|kept| &**kept)
    }

    /// Somebody enrolled, by its uid.
    #[must_use]
    pub fn member(&self, uid: &str) -> Option<Member> {
        self.members.get(uid)?.open(uid)
    }

    /// Somebody enrolled, or its identity changed.
    pub fn admit(&mut self, member: Member) {
        let uid: Arc<str> = member.identity.uid.as_str().into();
        let kept = Arc::new(Kept::new(member));
        self.newest = self.newest.max(kept.issued());
        let space = kept.party().namespace().to_owned();
        // The next snapshot may be without it already: it goes then like any other.
        let part = self.parts.entry(space.clone()).or_default();
        part.members.push(Arc::clone(&uid));
        self.fresh
            .insert(Arc::clone(&uid), (space, Some(Arc::clone(&kept))));
        self.members.insert(uid, kept);
    }

    /// Somebody left.
    pub fn dismiss(&mut self, uid: &str) {
        if let Some((uid, member)) = self.members.remove_entry(uid) {
            let space = member.party().namespace().to_owned();
            self.fresh.insert(uid, (space, None));
        }
    }

    /// A snapshot of the namespace is taken now.
    pub(super) fn forget_fresh(&mut self, space: &str) {
        self.fresh.retain(|_, (of, _)| of != space);
    }

    /// The enrolled as a snapshot of their namespace has them, and those who came or went since.
    pub(super) fn know(&mut self, space: &str, members: Members) {
        let newest = members.values().filter_map(|member| member.issued()).max();
        self.newest = self.newest.max(newest);
        let part = self.parts.entry(space.to_owned()).or_default();
        let last = std::mem::replace(&mut part.members, members.keys().cloned().collect());
        for uid in last {
            let is_here = |member: &Arc<Kept>| member.party().namespace() == space;
            if self.members.get(&uid).is_some_and(is_here) {
                self.members.remove(&uid);
            }
        }
        self.members.extend(members);
        for (uid, (_, member)) in self.fresh.iter().filter(|(_, (of, _))| of == space) {
            match member {
                Some(member) => {
                    self.members.insert(Arc::clone(uid), Arc::clone(member));
                    part.members.push(Arc::clone(uid));
                }
                None => {
                    self.members.remove(uid);
                }
            }
        }
    }

    /// Whether this manager leads where it did not before, or the other way round.
    pub(super) fn follows_now(&mut self, leads: bool) -> bool {
        self.led.replace(leads).is_some_and(|led| led != leads)
    }

    /// Plans were left to another although this manager may seem to have led all the time: a lease
    /// that ran out and came back between two looks. What they wanted is planned again once it
    /// leads.
    pub(super) const fn followed(&mut self) {
        self.led = Some(false);
    }

    /// The namespaces of what was refused and may be tried again.
    pub(super) fn retries(&self, now: Instant) -> BTreeSet<String> {
        let due = self.refused.iter();
        let due = due.filter(|(_, refused)| refused.until <= now);
        due.map(|(key, _)| self.space_of(key)).collect()
    }

    /// What is not to be tried now.
    pub(super) fn waiting(&self, now: Instant) -> BTreeSet<ObjectKey> {
        let waiting = self.refused.iter();
        let waiting = waiting.filter(|(_, refused)| refused.until > now);
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// What of a namespace was refused and is not to be tried now, and why.
    pub(super) fn refused_in(&self, space: &str, now: Instant) -> BTreeMap<ObjectKey, Problem> {
        let here = self
            .refused
            .iter()
            .filter(|(key, refused)| key.name.namespace == space && refused.until > now);
        here.map(|(key, refused)| (key.clone(), refused.problem.clone()))
            .collect()
    }

    /// Takes note of what became of writes to the namespaces that were just planned.
    pub(super) fn took(
        &mut self,
        planned: &BTreeSet<String>,
        outcome: &Outcome,
        leads: bool,
        now: Instant,
    ) {
        if outcome.broken != self.broken {
            if let Some(problem) = &outcome.broken {
                warn!(KEDGE_CODE = %problem.code, %problem, "nothing can be written");
            }
            self.broken.clone_from(&outcome.broken);
        }
        if outcome.broken.is_some() {
            self.again.extend(planned.iter().cloned());
            return;
        }
        if !leads {
            // Another manager tries, and tells.
            self.refused.clear();
            return;
        }
        // What is not held any more was written, or is not wanted any more.
        self.refused.retain(|key, _| {
            outcome.held.contains(key)
                || !(planned.contains(&key.name.namespace) || key.name.namespace.is_empty())
        });
        for (key, problem) in &outcome.refused {
            let last = self.refused.get(key);
            let times = last.map_or(0, |last| last.times) + 1;
            if last.is_none_or(|last| last.problem != *problem) {
                let evidence = problem.evidence.join("; ");
                warn!(
                    KEDGE_CODE = %problem.code, object = %key, %problem, evidence,
                    "an object cannot be written"
                );
            }
            let refused = Refused {
                problem: problem.clone(),
                times,
                until: now + pause(times),
            };
            self.refused.insert(key.clone(), refused);
        }
    }

    /// Hands out what was planned of a namespace.
    pub(super) fn publish(
        &mut self,
        space: &str,
        mut plan: Plan,
        outcome: &Outcome,
        is_empty: bool,
    ) {
        let part = self.parts.entry(space.to_owned()).or_default();
        part.hold_back(&mut plan, outcome);
        tell(part, &plan);
        part.take(space, plan, outcome);
        if is_empty && part.members.is_empty() {
            self.parts.remove(space);
        }
    }

    fn space_of(&self, key: &ObjectKey) -> String {
        // Of cluster-scoped objects Tenants alone are written.
        if key.name.namespace.is_empty() {
            let tenant = self.store.get(key);
            let tenant = tenant.and_then(|layers| layers.as_written());
            return tenant.map_or_else(String::new, |tenant| kedge_crd::tenant::namespace(&tenant));
        }
        key.name.namespace.clone()
    }
}
