//! Kinds that the API server does not let us see.
//!
//! What every plan looks at has to be seen once before anything is decided: until then this manager
//! does not lead. Of the other kinds only those wait whose decisions would be wrong without them;
//! where nobody uses a kind, nobody needs the right to it. A kind that was seen and is refused later
//! is as it was last seen, and is told of.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use kedge_core::{Code, Fix, Problem};
use kedge_crd::{
    Machine, Resource as _, VipPoolSpec,
    capi::{self, ObjectRef},
    elemental, meta,
};
use kube::core::Status;
use tracing::warn;

use super::{cache::Realm, cluster::lock, problems::missing_rule};
use crate::store::{ADDRESS_KIND, CLAIM_KIND, IPAM_GROUP, stock::Stock};

/// What is not seen, and why.
#[derive(Debug, Default)]
pub(in crate::store) struct Blind(Mutex<BTreeMap<Realm, Refused>>);

#[derive(Debug)]
struct Refused {
    problem: Problem,
    /// Whether it was never seen.
    is_unseen: bool,
}

impl Blind {
    /// The objects are not shown.
    pub(super) fn refuse(&self, realm: &Realm, status: &Status, is_unseen: bool) {
        let mut all = self.lock();
        let last = all.get(realm);
        let is_unseen = is_unseen || last.is_some_and(|last| last.is_unseen);
        let problem = problem(realm, status, is_unseen);
        if last.is_none_or(|last| last.problem != problem) {
            warn!(KEDGE_CODE = %problem.code, %problem, "a kind cannot be read; it is tried again");
        }
        all.insert(realm.clone(), Refused { problem, is_unseen });
    }

    /// Whether a watch was refused the objects.
    pub(super) fn knows(&self, realm: &Realm) -> bool {
        self.lock().contains_key(realm)
    }

    /// They are shown, or nobody wants to see them; says whether that is news.
    pub(super) fn clear(&self, realm: &Realm) -> bool {
        self.lock().remove(realm).is_some()
    }

    /// Whether everything was seen that every plan looks at.
    pub(super) fn is_fit(&self) -> bool {
        let all = self.lock();
        !all.iter()
            .any(|(realm, refused)| refused.is_unseen && is_vital(realm))
    }

    /// Whether what a namespace holds cannot be decided upon without what is not seen: hosts are
    /// found by Elemental's part of a Machine, and addresses are given by who has one.
    pub(super) fn hides(&self, stock: &Stock, space: &str) -> bool {
        let all = self.lock();
        let is_hidden = |group: &str, kind: &str| {
            let mut unseen = all.iter().filter(|(_, refused)| refused.is_unseen);
            unseen.any(|(realm, _)| realm.group == group && realm.kind == kind)
        };
        let by_address = is_hidden(IPAM_GROUP, CLAIM_KIND) || is_hidden(IPAM_GROUP, ADDRESS_KIND);
        let by_machine = is_hidden(elemental::GROUP, elemental::MACHINE_KIND);
        drop(all);
        let pools = || stock.take_kind(meta::GROUP, VipPoolSpec::KIND, Some(space));
        let machines = || stock.take_kind(capi::GROUP, "Machine", Some(space)).open();
        (by_address && !pools().is_empty())
            || (by_machine
                && machines().by_key.values().any(|layers| {
                    let machine: Option<Machine> = layers.as_written();
                    let part = machine.and_then(|machine| machine.spec.infrastructure_ref);
                    part.is_some_and(|part| is_elemental(&part))
                }))
    }

    /// What is not seen, for people.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let all = self.lock();
        all.values()
            .map(|refused| refused.problem.clone())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Realm, Refused>> {
        lock(&self.0)
    }
}

fn is_elemental(part: &ObjectRef) -> bool {
    part.group() == elemental::GROUP && part.kind == elemental::MACHINE_KIND
}

/// Whether every plan looks at objects of the kind.
fn is_vital(realm: &Realm) -> bool {
    realm.group == meta::GROUP || realm.group == capi::GROUP
}

fn problem(realm: &Realm, status: &Status, is_unseen: bool) -> Problem {
    let Realm {
        group,
        kind,
        namespace,
    } = realm;
    let place = namespace.as_ref();
    let place = place.map_or_else(String::new, |space| format!(" in namespace {space}"));
    let named = match group.as_str() {
        "" => kind.clone(),
        group => format!("{kind} of {group}"),
    };
    let what = format!("the API server does not let the manager see {named}{place}");
    let follows = match (is_unseen, is_vital(realm)) {
        (true, true) => "the manager decides and writes nothing until it does",
        (true, false) => "what needs it waits; everything else goes on",
        (false, _) => "the manager goes on with what it saw last",
    };
    let problem = Problem::new(Code::CapiKindUnseen, what)
        .evidence(status.message.clone())
        .consequence(follows);
    match missing_rule(status, (group, kind), &["get", "list", "watch"]) {
        Some(rule) => problem.fix(Fix::text(format!(
            "give the manager's role this rule{place}: {rule}"
        ))),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Layers, Name, ObjectKey, UserDocument};
    use serde_json::{Value, json};

    fn refusal() -> Status {
        Status {
            code: 403,
            message:
                "machines.x is forbidden: User \"u\" cannot list resource \"machines\" in API \
                      group \"x\" at the cluster scope"
                    .to_owned(),
            ..Status::default()
        }
    }

    fn put(stock: &mut Stock, group: &str, kind: &str, space: &str, spec: Value) {
        let key = ObjectKey::new(group, kind, Name::new(space, "a"));
        let value =
            json!({"kind": kind, "metadata": {"name": "a", "namespace": space}, "spec": spec});
        let origin = String::new();
        let user = Some(UserDocument { value, origin });
        let layers = Layers {
            user,
            ..Layers::default()
        };
        stock.put(&key, &layers);
    }

    #[test]
    fn what_every_plan_looks_at_must_have_been_seen_once() {
        let blind = Blind::default();
        assert!(blind.is_fit());
        let hosts = Realm::of(meta::GROUP, "EdgeHost");
        blind.refuse(&hosts, &refusal(), true);
        assert!(!blind.is_fit());
        let problem = format!("{:?}", blind.problems());
        assert!(problem.contains("EdgeHost of kedge.dev"), "{problem}");
        assert!(problem.contains("writes nothing"), "{problem}");
        assert!(blind.clear(&hosts) && blind.is_fit());
        assert!(!blind.clear(&hosts), "that is no news");
        // Seen once it is as it was.
        blind.refuse(&hosts, &refusal(), false);
        assert!(blind.is_fit() && blind.problems().len() == 1);
    }

    #[test]
    fn a_kind_that_few_need_holds_up_those_few_alone() {
        let mut stock = Stock::default();
        let elemental = json!({"infrastructureRef": {"apiGroup": elemental::GROUP,
            "kind": elemental::MACHINE_KIND, "name": "a"}});
        let other = json!({"infrastructureRef": {"apiGroup": "x", "kind": "Y", "name": "a"}});
        put(&mut stock, capi::GROUP, "Machine", "elemental", elemental);
        put(&mut stock, capi::GROUP, "Machine", "other", other);
        put(&mut stock, meta::GROUP, "VIPPool", "pooled", json!({}));
        let spaces = ["elemental", "other", "pooled", "empty"];
        let hidden = |blind: &Blind| spaces.map(|space| blind.hides(&stock, space));
        let blind = Blind::default();
        assert_eq!(hidden(&blind), [false; 4]);
        let machines = Realm::of(elemental::GROUP, elemental::MACHINE_KIND);
        blind.refuse(&machines, &refusal(), true);
        assert_eq!(hidden(&blind), [true, false, false, false]);
        blind.refuse(&Realm::of(IPAM_GROUP, ADDRESS_KIND), &refusal(), true);
        assert_eq!(hidden(&blind), [true, false, true, false]);
        // What was never seen is not seen by being refused again.
        blind.refuse(&machines, &refusal(), false);
        assert_eq!(hidden(&blind), [true, false, true, false]);
        blind.clear(&machines);
        blind.refuse(&machines, &refusal(), false);
        assert_eq!(hidden(&blind), [false, false, true, false]);
        blind.refuse(&Realm::of("infra", "Cluster"), &refusal(), true);
        assert!(blind.is_fit());
    }
}
