//! The plans of all namespaces, each made again when something it looks at changed, and no other.
//!
//! ```text
//!                    ┌── share: ports, addresses, peers, listeners ──► commons ──┐
//! snapshot of a ─► plan                                                          ├─► due: gateways'
//! namespace          └── face of each gateway it has ──► whoever uses it ────────┘   and users'
//! ```
//!
//! A value like a plan: no store, no clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use jiff::Timestamp;
use kedge_crd::meta::GatewayRef;

use crate::{
    plan::{
        Plan, ledger, overlay, plan,
        share::{Commons, Face, Share},
        wake::Wake,
    },
    snapshot::Snapshot,
    store::Name,
};

/// What is known of all namespaces.
#[derive(Debug, Default)]
pub struct Fleet {
    spaces: BTreeMap<String, Known>,
    commons: Arc<Commons>,
    faces: BTreeMap<Name, Shown>,
    due: BTreeSet<String>,
    /// Those with gateways that wait for the first plans of all others.
    early: BTreeSet<String>,
}

/// What is known of a namespace that was planned.
#[derive(Debug, Default)]
struct Known {
    share: Share,
    wake: Wake,
    /// What it was shown of others' gateways.
    seen: BTreeMap<Name, u64>,
    is_planned: bool,
}

/// A gateway, and who waits for which of its generations.
#[derive(Debug, Default)]
struct Shown {
    face: Face,
    /// The namespaces whose part in its desired state changed since it was made.
    touched: BTreeSet<String>,
    /// The first generation with a namespace's latest part, by instance.
    needed: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Fleet {
    /// A namespace must be planned.
    pub fn touch(&mut self, space: &str) {
        if !self.due.contains(space) {
            self.due.insert(space.to_owned());
        }
    }

    /// Every namespace that is known must be planned.
    pub fn touch_all(&mut self) {
        self.due.extend(self.spaces.keys().cloned());
    }

    /// Whether nothing must be planned.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.due.is_empty()
    }

    /// How many namespaces must be planned.
    #[must_use]
    pub fn due(&self) -> usize {
        self.due.len()
    }

    /// Touches the namespaces whose moment has come; the time is asked for where one is awaited.
    pub fn wake(&mut self, clock: impl FnOnce() -> Timestamp) {
        let mut all = self.spaces.values().map(|known| &known.wake);
        if all.all(|wake| wake.earliest().is_none()) {
            return;
        }
        let now = clock();
        let is_due = |known: &Known| known.wake.earliest().is_some_and(|wake| wake <= now);
        let woken = self.spaces.iter().filter(|(_, known)| is_due(known));
        self.due.extend(woken.map(|(space, _)| space.clone()));
    }

    /// The next namespaces to plan: those with gateways last, with the parts of all others.
    pub fn next(&mut self, most: usize) -> Vec<String> {
        let has_gateways = |space: &&String| {
            let known = self.spaces.get(*space);
            known.is_some_and(|known| !known.share.gateways.is_empty())
        };
        let rest = self.due.iter().filter(|space| !has_gateways(space));
        let last = self.due.iter().filter(|space| has_gateways(space));
        let taken: Vec<String> = rest.chain(last).take(most).cloned().collect();
        for space in &taken {
            self.due.remove(space);
        }
        taken
    }

    /// The namespaces that are due and were never looked at.
    #[must_use]
    pub fn unknown(&self) -> Vec<String> {
        let unknown = self.due.iter().filter(|space| !self.knows(space));
        unknown.cloned().collect()
    }

    /// Whether the namespace was planned, or seeded, before.
    #[must_use]
    pub fn knows(&self, space: &str) -> bool {
        self.spaces.contains_key(space)
    }

    /// What a namespace has already is nobody else's: told before any other is planned.
    pub fn seed(&mut self, snapshot: &Snapshot) {
        let mut share = Share::observed(snapshot);
        share.show(snapshot);
        let gateways = share.gateways.clone();
        for (name, face) in gateways {
            self.faces.entry(name).or_default().face = face;
        }
        let commons = Arc::make_mut(&mut self.commons);
        commons.replace(&snapshot.space, &Share::default(), &share);
        let known = Known {
            share,
            ..Known::default()
        };
        self.spaces.insert(snapshot.space.clone(), known);
    }

    /// As [`Self::seed`] where there is no gateway to have anything of: it was never planned, that is
    /// all there is to know.
    pub fn meet(&mut self, space: &str) {
        self.spaces.entry(space.to_owned()).or_default();
    }

    /// Plans a namespace. Nothing comes of it while it has gateways and others were not planned
    /// yet: a gateway must not be told to drop whom nobody has looked at. It is due again then.
    pub fn plan(&mut self, snapshot: &mut Snapshot) -> Option<Plan> {
        let mut uses = named(snapshot);
        let planned = loop {
            snapshot.faces = self.faces_for(&snapshot.space, &uses);
            snapshot.commons = Arc::clone(&self.commons);
            let planned = plan(snapshot);
            snapshot.commons = Arc::default();
            if planned.share.uses.is_subset(&uses) {
                break planned;
            }
            uses.extend(planned.share.uses.iter().cloned());
        };
        let others = self.spaces.iter();
        let mut others = others.filter(|(space, _)| **space != snapshot.space);
        let known = self.spaces.get(&snapshot.space);
        // Nor whose certificate nobody has read yet, where the manager just started.
        let is_unread = planned.is_unread && known.is_none_or(|known| !known.is_planned);
        let has_gateways = !snapshot.gateways.is_empty();
        let is_early = has_gateways && (is_unread || others.any(|(_, known)| !known.is_planned));
        let mut share = planned.share.clone();
        if is_early {
            share.gateways = known.map_or_else(BTreeMap::new, |known| known.share.gateways.clone());
            self.early.insert(snapshot.space.clone());
        }
        self.adopt(snapshot, share, planned.wake.clone(), !is_unread);
        (!is_early).then_some(planned)
    }

    /// Forgets a namespace that holds nothing any more.
    pub fn forget(&mut self, space: &str) {
        let Some(known) = self.spaces.remove(space) else {
            return;
        };
        let commons = Arc::make_mut(&mut self.commons);
        commons.replace(space, &known.share, &Share::default());
    }

    fn adopt(&mut self, snapshot: &Snapshot, share: Share, wake: Wake, is_planned: bool) {
        let space = &snapshot.space;
        let seen = snapshot.faces.iter();
        let seen = seen.map(|(name, face)| (name.clone(), print(face)));
        let known = Known {
            wake,
            seen: seen.collect(),
            share,
            is_planned,
        };
        let last = self.spaces.remove(space).unwrap_or_default();
        let share = &known.share;
        Arc::make_mut(&mut self.commons).replace(space, &last.share, share);
        for gateway in last.share.uses.union(&share.uses) {
            let is_same = last.share.peers.get(gateway) == share.peers.get(gateway)
                && last.share.listeners.get(gateway) == share.listeners.get(gateway)
                && last.share.offers.get(gateway) == share.offers.get(gateway);
            if is_same {
                continue;
            }
            if let Some(shown) = self.faces.get_mut(gateway) {
                shown.touched.insert(space.clone());
                if gateway.namespace != *space {
                    self.due.insert(gateway.namespace.clone());
                }
            }
        }
        self.free(&last.share, share);
        for gone in last.share.gateways.keys() {
            if !share.gateways.contains_key(gone) {
                self.faces.remove(gone);
                self.look_again(gone, space);
            }
        }
        for (name, face) in &known.share.gateways {
            let is_new = !self.faces.contains_key(name);
            let shown = self.faces.entry(name.clone()).or_default();
            shown.take(face);
            if is_new || last.share.gateways.get(name) != Some(face) {
                self.look_again(name, space);
            }
        }
        self.spaces.insert(space.clone(), known);
        if !self.early.is_empty() && self.spaces.values().all(|known| known.is_planned) {
            self.due.append(&mut self.early);
        }
    }

    /// What was given back may be what somebody waits for.
    fn free(&mut self, last: &Share, share: &Share) {
        let ports = last.ports.iter().filter(|(gateway, ports)| {
            let now = share.ports.get(*gateway);
            ports
                .iter()
                .any(|port| now.is_none_or(|now| !now.contains(port)))
        });
        let mut freed: BTreeSet<&Name> = ports.map(|(gateway, _)| gateway).collect();
        let names = last.names.iter().filter(|(gateway, names)| {
            let now = share.names.get(*gateway);
            !now.is_some_and(|now| names.is_subset(now))
        });
        freed.extend(names.map(|(gateway, _)| gateway));
        if !last.addresses.is_subset(&share.addresses) {
            freed.extend(&last.uses);
        }
        for (space, known) in &self.spaces {
            if known
                .share
                .starved
                .iter()
                .any(|gateway| freed.contains(gateway))
            {
                self.due.insert(space.clone());
            }
        }
    }

    /// Touches whoever sees another gateway than before.
    fn look_again(&mut self, gateway: &Name, except: &str) {
        let mut due = Vec::new();
        for (space, known) in &self.spaces {
            if space == except || !known.share.uses.contains(gateway) {
                continue;
            }
            let now = self.face_for(space, gateway).map(|face| print(&face));
            if now.as_ref() != known.seen.get(gateway) {
                due.push(space.clone());
            }
        }
        self.due.extend(due);
    }

    fn faces_for(&self, space: &str, uses: &BTreeSet<Name>) -> BTreeMap<Name, Face> {
        let elsewhere = uses.iter().filter(|gateway| gateway.namespace != space);
        elsewhere
            .filter_map(|gateway| Some((gateway.clone(), self.face_for(space, gateway)?)))
            .collect()
    }

    fn face_for(&self, space: &str, gateway: &Name) -> Option<Face> {
        let shown = self.faces.get(gateway)?;
        let needed = shown.needed.iter().filter_map(|(instance, needed)| {
            let needed = needed.get(space)?;
            Some((instance.clone(), *needed))
        });
        Some(shown.face.seen_by(space, &needed.collect()))
    }
}

impl Shown {
    /// The gateway as it was just planned, with everybody's part.
    fn take(&mut self, face: &Face) {
        let touched = std::mem::take(&mut self.touched);
        for instance in &face.gateway.spec.instances {
            let Some(mark) = &instance.config else {
                continue;
            };
            let needed = self.needed.entry(instance.name.clone()).or_default();
            for space in &touched {
                needed.insert(space.clone(), mark.generation);
            }
        }
        self.face = face.clone();
        for instance in &mut self.face.gateway.status.instances {
            instance.peers_alive.sort();
        }
    }
}

/// The gateways that a namespace's objects name, as far as that is seen before it is planned.
fn named(snapshot: &Snapshot) -> BTreeSet<Name> {
    let of = |reference: &GatewayRef| Name::new(reference.namespace(), &reference.name);
    let tenants = snapshot.tenants.values();
    let tenants = tenants.filter_map(|tenant| tenant.spec.gateway_ref.as_ref().map(of));
    let hosts = snapshot.hosts.iter();
    let hosts = hosts.filter_map(|(name, host)| overlay::gateway_of(snapshot, name, host));
    let balancers = snapshot.balancers.iter().flat_map(|(name, layers)| {
        let all = [&layers.written, &layers.given, &layers.kept];
        let specs = all.into_iter().flatten();
        specs.filter_map(|spec| ledger::gateway_of(snapshot, name, spec))
    });
    tenants.chain(hosts).chain(balancers).collect()
}

/// What a face looks like, in little memory.
fn print(face: &Face) -> u64 {
    let mut hasher = DefaultHasher::new();
    let text = serde_json::to_vec(&face.gateway).unwrap_or_default();
    text.hash(&mut hasher);
    for (instance, hearing) in &face.hearing {
        instance.hash(&mut hasher);
        (*hearing as u8).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
