//! What is to be done about the Ingresses of a cluster.

pub mod claim;
mod refusal;
pub mod status;
mod tls;
mod wanted;

use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::{Ingress, IngressLoadBalancerIngress};

use self::{
    claim::{Claim, claim},
    refusal::Refusal,
    status::{standing, wrote_addresses},
    wanted::{Wanted, wanted},
};
use super::{
    http::{Http, ShowIngress, Standing},
    owner::Owner,
    status::Note,
    trouble::Trouble,
};
use crate::snapshot::{Ingresses, Key, Snapshot};

/// The Secrets that Ingresses of ours name.
#[must_use]
pub fn secrets(ingresses: &Ingresses) -> BTreeSet<Key> {
    let ours = ingresses.all.values().filter(|ingress| {
        claim(ingresses, ingress) == Claim::Ours && ingress.metadata.deletion_timestamp.is_none()
    });
    ours.flat_map(tls::secrets).collect()
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

/// Takes the Ingresses into a plan.
pub fn take(http: &mut Http<'_>, ingresses: &Ingresses) {
    for ingress in ingresses.all.values() {
        let owner = Owner::from(ingress);
        match verdict(http.snapshot, ingresses, ingress) {
            Verdict::Offer(wanted) => {
                offer(http, ingress, *wanted);
                continue;
            }
            Verdict::Refuse(Refusal::PassthroughTo {
                trouble: Trouble::Opening { key, port },
            }) => http.open((key, port)),
            Verdict::Refuse(refusal) => {
                show(http, ingress, Vec::new());
                http.tell(owner, vec![Note::warning(refusal.reason(), &refusal)]);
            }
            Verdict::Leave => {}
            Verdict::TakeBack => {
                if wrote_addresses(ingress) {
                    show(http, ingress, Vec::new());
                }
            }
        }
        http.unwant(owner);
    }
}

fn offer(http: &mut Http<'_>, ingress: &Ingress, wanted: Wanted) {
    let (snapshot, owner) = (http.snapshot, Owner::from(ingress));
    let troubles = wanted.troubles.iter();
    let mut notes: Vec<Note> = troubles
        .map(|trouble| Note::warning(trouble.reason(), trouble))
        .collect();
    if let Some(because) = &snapshot.refused_certificates
        && !wanted.asked.certificates.is_empty()
    {
        notes.push(Note::warning("CertificateRefused", because));
    }
    match http.standing(owner, &wanted.asked) {
        Standing::Refused(because) => {
            let each = because.iter();
            notes.extend(each.map(|because| Note::warning("RefusedByManager", because)));
            if snapshot.refused_http.contains_key(&owner.exposure()) {
                show(http, ingress, Vec::new());
            }
        }
        Standing::Said(said) => {
            let shown = status::offered(&wanted.asked.spec, said);
            notes.extend(status::notes(said, &shown));
            show(http, ingress, shown);
        }
        // What was told before may hold still.
        Standing::Waiting => {
            let told = http.told(owner).iter();
            let told: Vec<Note> = told.filter(|it| !notes.contains(it)).cloned().collect();
            notes.extend(told);
        }
    }
    if snapshot.offered.is_some() {
        http.tell(owner, notes);
    }
    http.want(owner, wanted.asked);
}

fn show(http: &mut Http<'_>, ingress: &Ingress, shown: Vec<IngressLoadBalancerIngress>) {
    if standing(ingress) != shown {
        http.routes.show.push(ShowIngress {
            target: Owner::from(ingress).target(),
            ingress: shown,
        });
    }
}

/// Whether anything of ours is on an Ingress.
#[must_use]
pub fn is_touched(ingress: &Ingress) -> bool {
    Owner::from(ingress).is_guarded() || wrote_addresses(ingress)
}
