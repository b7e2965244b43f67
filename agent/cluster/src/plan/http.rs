//! What is to be done about everything that becomes an HTTPLoadBalancer, in the way of Services: guarded, put,
//! shown; withdrawn, taken back, released. What it leads to comes before it and goes after it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::networking::v1::IngressLoadBalancerIngress;
use kedge_control::exposure::ExposedCertificate;
use kedge_crd::{HttpLoadBalancerSpec, HttpLoadBalancerStatus, TcpLoadBalancerSpec};
use serde_json::Value;

use super::{
    Target,
    ask::{Ask, ask},
    companion::Door,
    gateway, ingress,
    owner::Owner,
    status::Note,
};
use crate::{
    apply::Kind,
    gateway_api::Routed,
    snapshot::{HttpOffer, Key, Snapshot},
};

/// What is to be done, in the order of its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// Every HTTPLoadBalancer that is asked of the manager, by name.
    pub exposures: BTreeMap<String, HttpLoadBalancerSpec>,
    /// The certificates they name, by name.
    pub certificates: BTreeMap<String, ExposedCertificate>,
    /// Objects that get the finalizer.
    pub guard: Vec<(Kind, Target)>,
    /// Exposures the manager has otherwise or not at all.
    pub put: Vec<String>,
    /// Exposures of objects that are known not to want them.
    pub withdraw: Vec<String>,
    /// Exposures of objects that nobody knows of.
    pub orphans: Vec<String>,
    /// What is written to statuses of Ingresses.
    pub show: Vec<ShowIngress>,
    /// What is written to statuses of the Gateway API.
    pub say: Vec<Say>,
    /// What is told in events.
    pub tell: Vec<Tell>,
    /// Objects that lose the finalizer.
    pub release: Vec<(Kind, Target)>,
}

/// The status of an Ingress, to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct ShowIngress {
    /// Of which Ingress.
    pub target: Target,
    /// Where clients reach it.
    pub ingress: Vec<IngressLoadBalancerIngress>,
}

/// A status, to be written over the one that was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Say {
    /// Of what.
    pub kind: Kind,
    /// Of which.
    pub target: Target,
    /// The version that was seen.
    pub version: String,
    /// The fields of the status that are ours.
    pub status: Value,
}

/// What is told of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tell {
    /// Of which.
    pub target: Target,
    /// What is to be told anew.
    pub fresh: Vec<Note>,
    /// All there is to tell.
    pub all: Vec<Note>,
}

impl Routes {
    /// Whether nothing is to be done.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.put.is_empty()
            && self.withdraw.is_empty()
            && self.orphans.is_empty()
            && self.is_settled()
    }

    /// Whether nothing is to be done in the cluster.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.guard.is_empty()
            && self.show.is_empty()
            && self.say.is_empty()
            && self.tell.is_empty()
            && self.release.is_empty()
    }
}

/// What is asked of the manager for one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The Gateway whose own address it is served at, by the start of its uid; empty for the shared ones.
    pub at: String,
    /// The HTTPLoadBalancer.
    pub spec: HttpLoadBalancerSpec,
    /// What it leads to, by name.
    pub backends: BTreeMap<String, TcpLoadBalancerSpec>,
    /// The certificates it names.
    pub certificates: Vec<ExposedCertificate>,
    /// The ports of Services that are reached by companions, whether those are there or not.
    pub doors: BTreeSet<Door>,
}

/// How an exposure stands at the manager.
pub enum Standing<'a> {
    /// It is refused, with these words.
    Refused(Vec<String>),
    /// It is as it is asked for, and the manager says this of it.
    Said(&'a HttpLoadBalancerStatus),
    /// It waits.
    Waiting,
}

/// The Secrets that are named by what is ours.
#[must_use]
pub fn secrets(snapshot: &Snapshot) -> BTreeSet<Key> {
    let mut all = BTreeSet::new();
    if let Some(ingresses) = &snapshot.ingresses {
        all.extend(ingress::secrets(ingresses));
    }
    if let Some(api) = &snapshot.gateway {
        all.extend(gateway::secrets(api));
    }
    all
}

/// What is to be done, and what is led to.
#[derive(Debug)]
pub struct Found {
    /// What is to be done.
    pub routes: Routes,
    /// What is led to, by name.
    pub backends: BTreeMap<String, TcpLoadBalancerSpec>,
    /// The ports of Services that are led to by companions.
    pub doors: BTreeSet<Door>,
}

/// What is to be done, and what is led to; `None` while not everything that matters is known.
#[must_use]
pub fn plan(snapshot: &Snapshot) -> Option<Found> {
    let ingresses = snapshot.ingresses.as_ref()?;
    // What nobody sees stays as it is.
    let gateways = snapshot.gateway.is_some();
    if ROUTED.iter().any(|of| is_hidden(snapshot, *of)) || is_away(snapshot, GATEWAY, gateways) {
        return None;
    }
    let is_known = |key: &Key| snapshot.certificates.contains_key(key);
    if !secrets(snapshot).iter().all(is_known) {
        return None;
    }
    let mut http = Http {
        snapshot,
        routes: Routes::default(),
        backends: BTreeMap::new(),
        doors: BTreeSet::new(),
        unwanted: BTreeSet::new(),
        sources: BTreeSet::new(),
    };
    ingress::take(&mut http, ingresses);
    if let Some(api) = &snapshot.gateway {
        gateway::take(&mut http, api);
    }
    http.compare();
    Some(Found {
        routes: http.routes,
        backends: http.backends,
        doors: http.doors,
    })
}

/// Whether the manager has anything of routes of a kind that is not seen.
fn is_hidden(snapshot: &Snapshot, of: Routed) -> bool {
    let is_known = snapshot.gateway.as_ref().is_some_and(|it| it.knows(of));
    is_away(snapshot, of.kind(), is_known)
}

/// Whether the manager has anything of a kind that is not known.
fn is_away(snapshot: &Snapshot, kind: &str, is_known: bool) -> bool {
    let offered = snapshot.offered.iter().flat_map(|it| it.http.values());
    let mut sources = offered.filter_map(|it| it.spec.as_ref()?.source.as_ref());
    !is_known && sources.any(|source| source.kind == kind)
}

const GATEWAY: &str = Kind::Gateway.names().1;

/// The kinds of routes.
const ROUTED: [Routed; 3] = [Routed::Http, Routed::Grpc, Routed::Tls];

/// The plan while it is made.
pub struct Http<'a> {
    /// What it is made of.
    pub snapshot: &'a Snapshot,
    /// What is to be done.
    pub routes: Routes,
    backends: BTreeMap<String, TcpLoadBalancerSpec>,
    doors: BTreeSet<Door>,
    unwanted: BTreeSet<String>,
    /// Each object that was seen, by kind and key.
    sources: BTreeSet<(&'static str, Key)>,
}

impl<'a> Http<'a> {
    /// How the exposure of an object stands.
    pub fn standing(&self, owner: Owner<'_>, asked: &Asked) -> Standing<'a> {
        let snapshot = self.snapshot;
        let name = owner.exposure_at(&asked.at);
        let mut because = Vec::new();
        for (name, spec) in &asked.backends {
            let refused = snapshot.refused.get(name);
            if let Some(refused) = refused.filter(|refused| refused.spec == *spec) {
                because.push(format!("{name}: {}", refused.because));
            }
        }
        let refused = snapshot.refused_http.get(&name);
        if let Some(refused) = refused.filter(|refused| refused.spec == asked.spec) {
            because.push(refused.because.clone());
        }
        if !because.is_empty() {
            return Standing::Refused(because);
        }
        let offered = snapshot.offered.as_ref();
        let known = offered.and_then(|offered| offered.http.get(&name));
        let same = known.filter(|it| it.spec.as_ref() == Some(&asked.spec));
        match same.and_then(|it| it.status.as_ref()) {
            Some(said) => Standing::Said(said),
            None => Standing::Waiting,
        }
    }

    /// Asks for an exposure.
    pub fn want(&mut self, owner: Owner<'_>, asked: Asked) {
        self.saw(owner);
        let name = owner.exposure_at(&asked.at);
        let offered = self.snapshot.offered.as_ref();
        let known = offered.and_then(|offered| offered.http.get(&name)?.spec.clone());
        let refused = self.snapshot.refused_http.get(&name);
        let Ask { is_new, spec } = ask(refused, known, asked.spec);
        if offered.is_none() {
            // What is asked for may depend on what the manager says.
        } else if owner.kind != Kind::Gateway && !owner.is_guarded() {
            let guarded = (owner.kind, owner.target());
            if !self.routes.guard.contains(&guarded) {
                self.routes.guard.push(guarded);
            }
        } else if is_new {
            self.routes.put.push(name.clone());
        }
        let certificates = asked.certificates.into_iter();
        let named = certificates.map(|certificate| (certificate.name.clone(), certificate));
        self.routes.certificates.extend(named);
        self.backends.extend(asked.backends);
        self.doors.extend(asked.doors);
        if let Some(spec) = spec {
            self.routes.exposures.insert(name, spec);
        }
    }

    /// Has a port of a Service reached by its companion, before anything is asked for.
    pub fn open(&mut self, door: Door) {
        self.doors.insert(door);
    }

    /// Asks for nothing; once nothing is offered the object is let go.
    pub fn unwant(&mut self, owner: Owner<'_>) {
        self.saw(owner);
        let name = owner.exposure();
        let source = owner.source();
        let is_of_it = |(of, item): (&String, &HttpOffer)| {
            let from = item.spec.as_ref().and_then(|spec| spec.source.as_ref());
            *of == name || from == Some(&source)
        };
        if let Some(offered) = &self.snapshot.offered
            && owner.is_guarded()
            && !offered.http.iter().any(is_of_it)
        {
            self.routes.release.push((owner.kind, owner.target()));
        }
        self.unwanted.insert(name);
    }

    /// Tells what was not told before.
    pub fn tell(&mut self, owner: Owner<'_>, all: Vec<Note>) {
        let target = owner.target();
        let told = self.told(owner);
        if told == all {
            return;
        }
        let fresh = all.iter().filter(|note| !told.contains(note));
        self.routes.tell.push(Tell {
            target,
            fresh: fresh.cloned().collect(),
            all,
        });
    }

    /// What was told of an object.
    #[must_use]
    pub fn told(&self, owner: Owner<'_>) -> &'a [Note] {
        let uid = owner.meta.uid.as_deref().unwrap_or_default();
        let told = self.snapshot.told.get(uid);
        told.map(Vec::as_slice).unwrap_or_default()
    }

    fn saw(&mut self, owner: Owner<'_>) {
        let target = owner.target();
        self.sources.insert((owner.kind.names().1, target.key));
    }

    /// What of the manager's does not belong there.
    fn compare(&mut self) {
        let Some(offered) = &self.snapshot.offered else {
            return;
        };
        for (name, item) in &offered.http {
            if self.routes.exposures.contains_key(name) {
                continue;
            }
            let from = item.spec.as_ref().and_then(|spec| spec.source.as_ref());
            // Its object is there and does not want it, or another one of that name is, so that its own is gone.
            let is_seen = from.is_some_and(|from| {
                let key = Key::new(&from.namespace, &from.name);
                let kinds = ROUTED.into_iter().map(Kind::from);
                let kinds = kinds.chain([Kind::Ingress]);
                let mut kinds = kinds.map(|kind| kind.names().1);
                let kind = kinds.find(|kind| *kind == from.kind);
                kind.is_some_and(|kind| self.sources.contains(&(kind, key)))
            });
            // What holds an address for a Gateway serves nothing, and routes there hold it as well: it needs nobody
            // to have seen that the Gateway went.
            let is_held = from.is_some_and(|from| from.kind == GATEWAY);
            if self.unwanted.contains(name) || is_seen || is_held {
                self.routes.withdraw.push(name.clone());
            } else {
                self.routes.orphans.push(name.clone());
            }
        }
    }
}
