//! What is to be done about the Ingresses of a cluster, in the way of Services: guarded, put, shown;
//! withdrawn, taken back, released. What they lead to comes before them and goes after them.

pub mod claim;
mod refusal;
pub mod status;
mod tls;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::networking::v1::{Ingress, IngressLoadBalancerIngress};
use kedge_control::exposure::ExposedCertificate;
use kedge_crd::{HttpLoadBalancerSpec, TcpLoadBalancerSpec};

use self::{
    claim::{Claim, claim, is_guarded},
    refusal::Refusal,
    status::{standing, wrote_addresses},
    wanted::{Wanted, source, wanted},
};
use super::{Target, status::Note};
use crate::{
    names,
    snapshot::{Ingresses, Key, Snapshot},
};

/// What is to be done about Ingresses, in the order of its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// Every HTTPLoadBalancer that is asked of the manager, by name.
    pub exposures: BTreeMap<String, HttpLoadBalancerSpec>,
    /// The certificates they name, by name.
    pub certificates: BTreeMap<String, ExposedCertificate>,
    /// Ingresses that get the finalizer.
    pub guard: Vec<Target>,
    /// Exposures the manager has otherwise or not at all.
    pub put: Vec<String>,
    /// Exposures of Ingresses that are known not to want them.
    pub withdraw: Vec<String>,
    /// Exposures of Ingresses that nobody knows of.
    pub orphans: Vec<String>,
    /// What is written to statuses.
    pub show: Vec<ShowIngress>,
    /// What is told of Ingresses.
    pub tell: Vec<Tell>,
    /// Ingresses that lose the finalizer.
    pub release: Vec<Target>,
}

/// A status to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct ShowIngress {
    /// Of which Ingress.
    pub target: Target,
    /// Where clients reach it.
    pub ingress: Vec<IngressLoadBalancerIngress>,
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
            && self.tell.is_empty()
            && self.release.is_empty()
    }
}

/// The Secrets that Ingresses of ours name.
#[must_use]
pub fn secrets(ingresses: &Ingresses) -> BTreeSet<Key> {
    let ours = ingresses.all.values().filter(|ingress| {
        claim(ingresses, ingress) == Claim::Ours && ingress.metadata.deletion_timestamp.is_none()
    });
    ours.flat_map(tls::secrets).collect()
}

/// What is to be done about the Ingresses, and what they lead to; `None` while not everything they say
/// is known.
#[must_use]
pub fn plan(snapshot: &Snapshot) -> Option<(Routes, BTreeMap<String, TcpLoadBalancerSpec>)> {
    let ingresses = snapshot.ingresses.as_ref()?;
    let asked = secrets(ingresses);
    let is_known = |key: &Key| snapshot.certificates.contains_key(key);
    if !asked.iter().all(is_known) {
        return None;
    }
    let mut planner = Planner {
        snapshot,
        routes: Routes::default(),
        backends: BTreeMap::new(),
        unwanted: BTreeSet::new(),
    };
    for ingress in ingresses.all.values() {
        planner.take(ingress, verdict(snapshot, ingresses, ingress));
    }
    planner.compare(ingresses);
    Some((planner.routes, planner.backends))
}

/// What becomes of an Ingress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It is offered.
    Offer(Box<Wanted>),
    /// It would be, and cannot be.
    Refuse(Refusal),
    /// It is being deleted: nothing more is written to it.
    Leave,
    /// It is not ours, or not any more.
    TakeBack,
}

/// What becomes of an Ingress.
#[must_use]
pub(crate) fn verdict(snapshot: &Snapshot, ingresses: &Ingresses, ingress: &Ingress) -> Verdict {
    if ingress.metadata.deletion_timestamp.is_some() {
        return Verdict::Leave;
    }
    match claim(ingresses, ingress) {
        Claim::Foreign => Verdict::TakeBack,
        Claim::Parameters => Verdict::Refuse(Refusal::Parameters),
        Claim::Ours => match wanted(snapshot, ingress) {
            Ok(wanted) => Verdict::Offer(Box::new(wanted)),
            Err(refusal) => Verdict::Refuse(refusal),
        },
    }
}

/// The name of an Ingress's exposure.
#[must_use]
pub fn exposure_name(ingress: &Ingress) -> String {
    let name = ingress.metadata.name.as_deref().unwrap_or_default();
    names::exposed(name, &ingress.metadata)
}

struct Planner<'a> {
    snapshot: &'a Snapshot,
    routes: Routes,
    backends: BTreeMap<String, TcpLoadBalancerSpec>,
    unwanted: BTreeSet<String>,
}

impl Planner<'_> {
    fn take(&mut self, ingress: &Ingress, verdict: Verdict) {
        match verdict {
            Verdict::Offer(wanted) => return self.offer(ingress, *wanted),
            Verdict::Refuse(refusal) => {
                self.show(ingress, Vec::new());
                self.tell(ingress, vec![Note::warning(refusal.reason(), &refusal)]);
            }
            Verdict::Leave => {}
            Verdict::TakeBack => {
                if wrote_addresses(ingress) {
                    self.show(ingress, Vec::new());
                }
            }
        }
        self.unwanted.insert(exposure_name(ingress));
        self.release(ingress);
    }

    fn offer(&mut self, ingress: &Ingress, wanted: Wanted) {
        let snapshot = self.snapshot;
        let name = exposure_name(ingress);
        let refused = snapshot.refused_http.get(&name);
        let refused = refused.filter(|refused| refused.spec == wanted.spec);
        let offered = snapshot.offered.as_ref();
        let known = offered.and_then(|offered| offered.http.get(&name));
        let is_same = known.is_some_and(|it| it.spec.as_ref() == Some(&wanted.spec));
        let said = known.and_then(|it| it.status.as_ref());
        let mut notes: Vec<Note> = wanted
            .troubles
            .iter()
            .map(|trouble| Note::warning(trouble.reason(), trouble))
            .collect();
        for (name, spec) in &wanted.backends {
            let refused = snapshot.refused.get(name);
            if let Some(refused) = refused.filter(|refused| refused.spec == *spec) {
                let text = format!("{name}: {}", refused.because);
                notes.push(Note::warning(REFUSED, &text));
            }
        }
        if let Some(because) = &snapshot.refused_certificates
            && !wanted.certificates.is_empty()
        {
            notes.push(Note::warning("CertificateRefused", because));
        }
        match (refused, said) {
            (Some(refused), _) => {
                self.show(ingress, Vec::new());
                notes.push(Note::warning(REFUSED, &refused.because));
            }
            (None, Some(said)) if is_same => {
                let shown = status::offered(&wanted.spec, said);
                notes.extend(status::notes(said, &shown));
                self.show(ingress, shown);
            }
            // What was told before may hold still.
            (None, _) => {
                let uid = ingress.metadata.uid.as_deref().unwrap_or_default();
                let told = snapshot.told.get(uid).into_iter().flatten();
                let told: Vec<Note> = told.filter(|it| !notes.contains(it)).cloned().collect();
                notes.extend(told);
            }
        }
        if offered.is_some() {
            self.tell(ingress, notes);
        }
        // The rest of what it asks for is as it was until the manager takes the new.
        let spec = match refused {
            Some(_) => known.and_then(|it| it.spec.clone()),
            None => Some(wanted.spec),
        };
        if offered.is_none() {
            // What is asked for may depend on what the manager says.
        } else if !is_guarded(ingress) {
            self.routes.guard.push(target(ingress));
        } else if !is_same && refused.is_none() {
            self.routes.put.push(name.clone());
        }
        let certificates = wanted.certificates.into_iter();
        let named = certificates.map(|certificate| (certificate.name.clone(), certificate));
        self.routes.certificates.extend(named);
        self.backends.extend(wanted.backends);
        if let Some(spec) = spec {
            self.routes.exposures.insert(name, spec);
        }
    }

    fn show(&mut self, ingress: &Ingress, shown: Vec<IngressLoadBalancerIngress>) {
        if standing(ingress) != shown {
            self.routes.show.push(ShowIngress {
                target: target(ingress),
                ingress: shown,
            });
        }
    }

    fn tell(&mut self, ingress: &Ingress, all: Vec<Note>) {
        let target = target(ingress);
        let told = self.snapshot.told.get(&target.uid);
        let told = told.map(Vec::as_slice).unwrap_or_default();
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

    /// Lets an Ingress go of which nothing is offered.
    fn release(&mut self, ingress: &Ingress) {
        let Some(offered) = &self.snapshot.offered else {
            return;
        };
        let is_offered = offered.http.contains_key(&exposure_name(ingress));
        if is_guarded(ingress) && !is_offered {
            self.routes.release.push(target(ingress));
        }
    }

    /// What of the manager's does not belong there.
    fn compare(&mut self, ingresses: &Ingresses) {
        let Some(offered) = &self.snapshot.offered else {
            return;
        };
        for (name, item) in &offered.http {
            if self.routes.exposures.contains_key(name) {
                continue;
            }
            let from = item.spec.as_ref().and_then(|spec| spec.source.as_ref());
            // Another Ingress of that name is there, so that the one of this exposure is gone.
            let is_replaced = from.is_some_and(|from| {
                let key = Key::new(&from.namespace, &from.name);
                let other = ingresses.all.get(&key);
                other.is_some_and(|other| source(other) != *from)
            });
            if self.unwanted.contains(name) || is_replaced {
                self.routes.withdraw.push(name.clone());
            } else {
                self.routes.orphans.push(name.clone());
            }
        }
    }
}

fn target(ingress: &Ingress) -> Target {
    Target {
        key: Key::of(ingress),
        uid: ingress.metadata.uid.clone().unwrap_or_default(),
    }
}

const REFUSED: &str = "RefusedByManager";

/// Whether anything of ours is on an Ingress.
#[must_use]
pub fn is_touched(ingress: &Ingress) -> bool {
    is_guarded(ingress) || wrote_addresses(ingress)
}
