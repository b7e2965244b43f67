//! What is to be done about the Services of a cluster, decided without a cluster.
//!
//! ```text
//!  Service ── ours? ──► guard (finalizer) ──► put (exposure) ──► status, as the manager says it
//!     │ refused, deleted, no longer ours
//!     └──► withdraw (exposure) ──► status taken back ──► release (finalizer)
//! ```
//!
//! An exposure is asked for once its Service is guarded, and a Service is released once nothing of it
//! is offered: whatever is interrupted between two steps is found by the next plan.

mod addresses;
mod ask;
mod backend;
pub mod claim;
pub mod companion;
pub mod gateway;
pub mod http;
pub mod ingress;
pub mod nodes;
pub mod owner;
mod refusal;
mod routed;
mod sources;
pub mod status;
mod trouble;
pub mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Service;
use kedge_crd::TcpLoadBalancerSpec;

use self::{
    ask::{Ask, ask},
    claim::{Claim, claim, has_addresses, has_conditions, is_leaving, wrote_addresses},
    companion::Companions,
    http::Routes,
    owner::Owner,
    refusal::Refusal,
    status::{Note, Shown, notes, standing},
    wanted::wanted,
};
use crate::snapshot::{Key, Offered, Snapshot};

/// What is to be done, in the order of its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What stands beside Services without node ports.
    pub companions: Companions,
    /// Everything that is asked of the manager, by name: the whole set.
    pub exposures: BTreeMap<String, TcpLoadBalancerSpec>,
    /// Services that get the finalizer.
    pub guard: Vec<Target>,
    /// Exposures the manager has otherwise or not at all.
    pub put: Vec<String>,
    /// Exposures of Services that are known not to want them.
    pub withdraw: Vec<String>,
    /// Exposures of Services that nobody knows of: the manager may ask whether that is meant.
    pub orphans: Vec<String>,
    /// What is written to statuses.
    pub show: Vec<Show>,
    /// Services that lose the finalizer.
    pub release: Vec<Target>,
    /// What is to be done about Ingresses and routes; `None` while nobody knows.
    pub routes: Option<Routes>,
}

/// A Service or an Ingress, and no other of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its key.
    pub key: Key,
    /// Its uid.
    pub uid: String,
}

/// A status to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Show {
    /// Of which Service.
    pub target: Target,
    /// What of it is ours from here on.
    pub shown: Shown,
    /// What is told about it.
    pub notes: Vec<Note>,
    /// Whether the addresses are ours to write.
    pub with_addresses: bool,
    /// Whether nobody else may write them: the class is ours.
    pub is_alone: bool,
}

impl Plan {
    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.put.is_empty()
            && self.withdraw.is_empty()
            && self.orphans.is_empty()
            && self.routes.as_ref().is_none_or(Routes::is_empty)
            && self.is_settled()
    }

    /// Whether nothing is to be done in the cluster.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.companions.is_settled()
            && self.guard.is_empty()
            && self.show.is_empty()
            && self.release.is_empty()
            && self.routes.as_ref().is_none_or(Routes::is_settled)
    }
}

/// What is to be done about the Services of a cluster.
#[must_use]
pub fn plan(snapshot: &Snapshot) -> Plan {
    let mut plan = Plan::default();
    let mut unwanted: BTreeSet<String> = BTreeSet::new();
    for service in snapshot.services.values() {
        match verdict(snapshot, service) {
            Verdict::Offer { claim, spec } => offer(snapshot, &mut plan, (service, &claim), *spec),
            Verdict::Refuse(refusal) => {
                unwanted.insert(Owner::from(service).exposure());
                let shown = status::refused(service, &refusal, &snapshot.now);
                let is_theirs = matches!(refusal, Refusal::Answered { .. });
                show(&mut plan, service, shown, !is_theirs);
                release(snapshot, &mut plan, service);
            }
            Verdict::Leave => {
                unwanted.insert(Owner::from(service).exposure());
                release(snapshot, &mut plan, service);
            }
            Verdict::TakeBack => {
                unwanted.insert(Owner::from(service).exposure());
                let ours = wrote_addresses(service);
                show(&mut plan, service, Shown::default(), ours);
                release(snapshot, &mut plan, service);
            }
        }
    }
    let mut doors = None;
    if let Some(found) = http::plan(snapshot) {
        plan.routes = Some(found.routes);
        routed::ask_all(snapshot, &mut plan, found.backends);
        doors = Some(found.doors);
    }
    if let Some(offered) = &snapshot.offered {
        routed::compare(offered, &mut plan);
        if let Some(doors) = doors {
            plan.companions = companion::plan(snapshot, offered, &plan.exposures, &doors);
        }
        compare(snapshot, offered, &unwanted, &mut plan);
    }
    plan
}

/// What becomes of a Service.
enum Verdict {
    /// It is offered.
    Offer {
        claim: Claim,
        spec: Box<TcpLoadBalancerSpec>,
    },
    /// It would be, and cannot be.
    Refuse(Refusal),
    /// It is being deleted: nothing more is written to it.
    Leave,
    /// It is not ours, or not any more.
    TakeBack,
}

fn verdict(snapshot: &Snapshot, service: &Service) -> Verdict {
    if is_leaving(service) {
        return Verdict::Leave;
    }
    let claim = claim(&snapshot.config, service);
    match claim {
        Claim::Foreign => Verdict::TakeBack,
        Claim::WithoutNodePorts { kind } => Verdict::Refuse(Refusal::Type { kind }),
        Claim::Answered { by } => Verdict::Refuse(Refusal::Answered { by }),
        Claim::Balancer | Claim::NodePort => match wanted(snapshot, service) {
            Ok(spec) => Verdict::Offer {
                claim,
                spec: Box::new(spec),
            },
            Err(refusal) => Verdict::Refuse(refusal),
        },
    }
}

fn offer(
    snapshot: &Snapshot,
    plan: &mut Plan,
    (service, claim): (&Service, &Claim),
    spec: TcpLoadBalancerSpec,
) {
    let name = Owner::from(service).exposure();
    let now = &snapshot.now;
    let refused = snapshot.refused.get(&name);
    let refused = refused.filter(|refused| refused.spec == spec);
    let offered = snapshot.offered.as_ref();
    let offered = offered.and_then(|offered| offered.items.get(&name));
    let known = offered.and_then(|it| it.spec.clone());
    let is_same = offered.is_some_and(|it| it.spec.as_ref() == Some(&spec));
    let said = offered.and_then(|it| it.status.as_ref());
    let shown = match (refused, said) {
        (Some(refused), _) => status::refused_by_manager(service, refused, now),
        (None, Some(said)) if is_same => {
            status::offered(&snapshot.config, (service, claim), said, now)
        }
        (None, _) => status::waiting(service, snapshot.offered.is_some(), now),
    };
    let has_place = *claim == Claim::Balancer || wrote_addresses(service);
    show(plan, service, shown, has_place);
    let owner = Owner::from(service);
    let Ask { is_new, spec } = ask(refused, known, spec);
    if snapshot.offered.is_none() {
        // What is asked for may depend on what the manager says.
    } else if !owner.is_guarded() {
        plan.guard.push(owner.target());
    } else if is_new {
        plan.put.push(name.clone());
    }
    if let Some(spec) = spec {
        plan.exposures.insert(name, spec);
    }
}

fn show(plan: &mut Plan, service: &Service, mut shown: Shown, with_addresses: bool) {
    let before = standing(service);
    if !with_addresses {
        // Another's, or none: nothing of ours to take away.
        shown.ingress.clone_from(&before.ingress);
    }
    if before == shown {
        return;
    }
    let spec = service.spec.as_ref();
    plan.show.push(Show {
        target: Owner::from(service).target(),
        is_alone: spec.is_some_and(|spec| spec.load_balancer_class.is_some()),
        notes: notes(&before, &shown),
        shown,
        with_addresses,
    });
}

/// Lets a Service go of which nothing is offered.
fn release(snapshot: &Snapshot, plan: &mut Plan, service: &Service) {
    let Some(offered) = &snapshot.offered else {
        return;
    };
    let owner = Owner::from(service);
    if owner.is_guarded() && !offered.items.contains_key(&owner.exposure()) {
        plan.release.push(owner.target());
    }
}

/// What of the manager's does not belong there.
fn compare(snapshot: &Snapshot, offered: &Offered, unwanted: &BTreeSet<String>, plan: &mut Plan) {
    for (name, item) in &offered.items {
        let is_routed = item.spec.as_ref().is_some_and(routed::is_routed);
        if is_routed || plan.exposures.contains_key(name) || snapshot.refused.contains_key(name) {
            continue;
        }
        let from = item.spec.as_ref().and_then(|spec| spec.source.as_ref());
        // Another Service of that name is there, so that the one of this exposure is gone.
        let is_replaced = from.is_some_and(|from| {
            let key = Key::new(&from.namespace, &from.name);
            let other = snapshot.services.get(&key);
            other.is_some_and(|other| Owner::from(other).source() != *from)
        });
        if unwanted.contains(name) || is_replaced {
            plan.withdraw.push(name.clone());
        } else {
            plan.orphans.push(name.clone());
        }
    }
}

/// Whether anything of ours is on a Service.
#[must_use]
pub fn is_touched(service: &Service) -> bool {
    let addresses = has_addresses(service) && wrote_addresses(service);
    Owner::from(service).is_guarded() || has_conditions(service) || addresses
}

#[cfg(test)]
mod tests;
