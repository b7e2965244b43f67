//! What is told about objects, as Kubernetes' Events: changes an operator cares about.
//!
//! A plan's writes say what changes, so an event is a difference: nothing is told twice, and only
//! whoever writes tells. What hosts ask for is told by the manager they ask.

use kedge_core::Problem;
use kedge_crd::{Condition, condition::Status, meta};
use serde_json::Value;

use crate::{
    managers,
    plan::marks::{ELEMENTAL_MACHINE, PRE_DRAIN_HOOK, PRE_TERMINATE_HOOK, RESERVED},
    store::{Layer, ObjectKey, Objects, Write},
};

/// One thing to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The object it is about.
    pub key: ObjectKey,
    /// The object's uid, where it is known.
    pub uid: String,
    /// Whether somebody should look.
    pub is_warning: bool,
    /// The reason, as one word.
    pub reason: String,
    /// What was done, as one word.
    pub action: &'static str,
    /// A sentence.
    pub note: String,
}

impl Notice {
    /// Something about an object that a request led to.
    #[must_use]
    pub fn asked(key: ObjectKey, reason: &str, note: impl Into<String>) -> Self {
        Self {
            key,
            uid: String::new(),
            is_warning: false,
            reason: reason.to_owned(),
            action: "Request",
            note: note.into(),
        }
    }

    /// A request that was refused.
    #[must_use]
    pub fn refused(key: ObjectKey, reason: &str, problem: &Problem) -> Self {
        Self {
            is_warning: true,
            ..Self::asked(key, reason, format!("{} ({})", problem.what, problem.code))
        }
    }
}

/// What there is to tell once these writes are carried out.
#[must_use]
pub fn notices(objects: &Objects, writes: &[Write]) -> Vec<Notice> {
    let of_write = |write: &Write| match &write.layer {
        Layer::Status => {
            let mut all = conditions(objects, write);
            all.extend(moved(objects, write));
            all
        }
        Layer::Marks => {
            let mut all = hooks(objects, write);
            all.extend(reserved(objects, write));
            all
        }
        Layer::Owned(manager) => filled(objects, write, manager).into_iter().collect(),
    };
    writes.iter().flat_map(of_write).collect()
}

fn conditions(objects: &Objects, write: &Write) -> Vec<Notice> {
    if write.key.group != meta::GROUP {
        return Vec::new();
    }
    let before = read(objects.content(&write.key, &Layer::Status));
    let after = read(write.content.as_ref());
    let news = after.into_iter().filter_map(|now| {
        let old = before.iter().find(|old| old.kind == now.kind);
        let is_same = old.is_some_and(|old| old.status == now.status && old.reason == now.reason);
        let is_told = TOLD.contains(&now.kind.as_str());
        // What was never otherwise is no news, unless something is wrong.
        let is_good = (now.status == Status::True) != INVERTED.contains(&now.kind.as_str());
        let was_good = old.is_some_and(|old| {
            (old.status == Status::True) != INVERTED.contains(&old.kind.as_str())
        });
        let begins_well = old.is_none() && is_good && INVERTED.contains(&now.kind.as_str());
        if is_same || !is_told || begins_well {
            return None;
        }
        let is_warning = !is_good && (was_good || ALARMING.contains(&now.reason.as_str()));
        if !is_good && !is_warning {
            return None;
        }
        Some(Notice {
            is_warning,
            reason: now.reason.clone(),
            note: format!("{}: {}", now.kind, now.message),
            ..about(objects, &write.key, "Reconcile")
        })
    });
    news.collect()
}

fn hooks(objects: &Objects, write: &Write) -> Vec<Notice> {
    let before = objects.content(&write.key, &Layer::Marks);
    let has = |marks: Option<&Value>, hook: &str| {
        let annotations = marks.and_then(|marks| marks.pointer("/metadata/annotations"));
        annotations.is_some_and(|annotations| annotations.get(hook).is_some())
    };
    let change = |hook: &'static str| {
        let (had, has) = (has(before, hook), has(write.content.as_ref(), hook));
        let (reason, note) = match (had, has) {
            (false, true) => (
                "HookAdded",
                "its deletion waits until no traffic reaches it, at most for drain.timeout",
            ),
            (true, false) => (
                "HookRemoved",
                "its deletion does not wait for Kedge any more",
            ),
            _ => return None,
        };
        Some(Notice {
            reason: reason.to_owned(),
            note: format!("{note} ({hook})"),
            ..about(objects, &write.key, "Drain")
        })
    };
    [PRE_DRAIN_HOOK, PRE_TERMINATE_HOOK]
        .into_iter()
        .filter_map(change)
        .collect()
}

/// A VIP that another host holds than before.
fn moved(objects: &Objects, write: &Write) -> Option<Notice> {
    let vip = |content: Option<&Value>, field: &str| -> Option<String> {
        let vip = content?.pointer("/status/vip")?;
        let text = vip.get(field)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    };
    let before = objects.content(&write.key, &Layer::Status);
    let from = vip(before, "holder");
    let to = vip(write.content.as_ref(), "holder");
    let address = vip(write.content.as_ref(), "address").or_else(|| vip(before, "address"))?;
    let (reason, note) = match (&from, &to) {
        (None, Some(to)) => ("VIPAcquired", format!("{to} holds {address}")),
        (Some(from), None) => (
            "VIPReleased",
            format!("{from} does not hold {address} any more, and no other host says that it does"),
        ),
        (Some(from), Some(to)) if from != to => {
            ("VIPMoved", format!("{address} moved from {from} to {to}"))
        }
        _ => return None,
    };
    Some(Notice {
        is_warning: to.is_none(),
        reason: reason.to_owned(),
        note,
        ..about(objects, &write.key, "Reconcile")
    })
}

/// A host's record that is kept from being taken for a machine. A host can set the labels of its
/// own record: that it is done again says that somebody undid it.
fn reserved(objects: &Objects, write: &Write) -> Option<Notice> {
    let has = |marks: Option<&Value>| {
        let labels = marks.and_then(|marks| marks.pointer("/metadata/labels"));
        let machine = labels.and_then(|labels| labels.get(ELEMENTAL_MACHINE));
        machine.is_some_and(|machine| machine == RESERVED)
    };
    if has(objects.content(&write.key, &Layer::Marks)) || !has(write.content.as_ref()) {
        return None;
    }
    Some(Notice {
        reason: "HostReserved".to_owned(),
        note: "no machine takes it until a control plane is initialized whose endpoint is the \
               address of a host"
            .to_owned(),
        ..about(objects, &write.key, "Reserve")
    })
}

/// A blank endpoint of somebody's infrastructure cluster that is filled.
fn filled(objects: &Objects, write: &Write, manager: &str) -> Option<Notice> {
    if manager != managers::ENDPOINT || write.key.group == meta::GROUP {
        return None;
    }
    let endpoint = |content: Option<&Value>| -> Option<String> {
        let endpoint = content?.pointer("/spec/controlPlaneEndpoint")?;
        let host = endpoint.get("host")?.as_str()?;
        Some(format!("{host} port {}", endpoint.get("port")?))
    };
    let now = endpoint(write.content.as_ref())?;
    if endpoint(objects.owned(&write.key, manager)).as_ref() == Some(&now) {
        return None;
    }
    Some(Notice {
        reason: "EndpointFilled".to_owned(),
        note: format!("the control-plane endpoint was blank and is {now} now"),
        ..about(objects, &write.key, "Fill")
    })
}

fn about(objects: &Objects, key: &ObjectKey, action: &'static str) -> Notice {
    let server = objects.get(key).and_then(|layers| layers.server.as_ref());
    Notice {
        key: key.clone(),
        uid: server.map(|server| server.uid.clone()).unwrap_or_default(),
        is_warning: false,
        reason: String::new(),
        action,
        note: String::new(),
    }
}

fn read(content: Option<&Value>) -> Vec<Condition> {
    let list = content.and_then(|content| content.pointer("/status/conditions"));
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|one| serde_json::from_value(one.clone()).ok())
        .collect()
}

/// The conditions whose changes are told.
const TOLD: [&str; 9] = [
    "EndpointPublished",
    "Exists",
    "IdentityUnique",
    "ControlPlaneUnblocked",
    "TunnelReady",
    "Degraded",
    "Exhausted",
    "Programmed",
    "VIPHealthy",
];
/// Those that are bad when they are true.
const INVERTED: [&str; 2] = ["Degraded", "Exhausted"];
/// Reasons somebody should look at, although it was never better.
const ALARMING: [&str; 8] = [
    "PoolExhausted",
    "Conflict",
    "Forbidden",
    "SANMissing",
    "IdentityConflict",
    "DeletionBlocked",
    "UnconfirmedHolder",
    "RolloutRequired",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Name;

    fn key(group: &str, kind: &str) -> ObjectKey {
        ObjectKey::new(group, kind, Name::new("edge", "a"))
    }

    fn write(key: &ObjectKey, layer: Layer, content: Value) -> Write {
        Write {
            key: key.clone(),
            layer,
            content: Some(content),
        }
    }

    fn status(status: &str, reason: &str) -> Value {
        json!({"status": {"conditions": [{"type": "EndpointPublished", "status": status,
            "reason": reason, "message": "so it is", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
    }

    #[test]
    fn a_change_is_told_once_and_waiting_is_no_news() {
        let balancer = key(meta::GROUP, "LoadBalancer");
        let mut objects = Objects::default();
        let reasons = |objects: &Objects, write: &Write| -> Vec<(String, bool)> {
            let all = notices(objects, std::slice::from_ref(write)).into_iter();
            all.map(|notice| (notice.reason, notice.is_warning))
                .collect()
        };
        let steps = [
            (("False", "WaitingForOwner"), None),
            (("False", "PoolExhausted"), Some(("PoolExhausted", true))),
            (("True", "Published"), Some(("Published", false))),
            (
                ("False", "WaitingForOwner"),
                Some(("WaitingForOwner", true)),
            ),
        ];
        for ((is, reason), told) in steps {
            let write = write(&balancer, Layer::Status, status(is, reason));
            let told: Vec<_> = told.into_iter().map(|(r, w)| (r.to_owned(), w)).collect();
            assert_eq!(reasons(&objects, &write), told, "{is} {reason}");
            objects.apply(&write);
            assert_eq!(reasons(&objects, &write), [], "{is} {reason} again");
        }
    }

    #[test]
    fn a_vip_is_told_when_it_comes_moves_and_goes() {
        let balancer = key(meta::GROUP, "LoadBalancer");
        let mut objects = Objects::default();
        let held =
            |holder: &str| json!({"status": {"vip": {"address": "10.0.0.1", "holder": holder}}});
        let steps = [
            ("", None),
            ("a", Some(("VIPAcquired", false, "a holds 10.0.0.1"))),
            ("b", Some(("VIPMoved", false, "10.0.0.1 moved from a to b"))),
            ("", Some(("VIPReleased", true, "b does not hold 10.0.0.1"))),
        ];
        for (holder, told) in steps {
            let write = write(&balancer, Layer::Status, held(holder));
            let found = notices(&objects, std::slice::from_ref(&write));
            match told {
                None => assert_eq!(found, [], "{holder}"),
                Some((reason, is_warning, note)) => {
                    assert_eq!(
                        (found[0].reason.as_str(), found[0].is_warning),
                        (reason, is_warning)
                    );
                    assert!(found[0].note.starts_with(note), "{}", found[0].note);
                }
            }
            objects.apply(&write);
            assert_eq!(notices(&objects, &[write]), [], "{holder} again");
        }
    }

    #[test]
    fn a_record_is_told_each_time_it_is_reserved() {
        let record = key("infrastructure.cluster.x-k8s.io", "ElementalHost");
        let mut objects = Objects::default();
        let reserve = write(
            &record,
            Layer::Marks,
            json!({"metadata": {"labels": {ELEMENTAL_MACHINE: RESERVED}}}),
        );
        let reasons = |objects: &Objects| -> Vec<String> {
            let all = notices(objects, std::slice::from_ref(&reserve)).into_iter();
            all.map(|notice| notice.reason).collect()
        };
        assert_eq!(reasons(&objects), ["HostReserved"]);
        objects.apply(&reserve);
        assert_eq!(reasons(&objects), [] as [String; 0]);
        // The host took the label off.
        objects.apply(&write(
            &record,
            Layer::Marks,
            json!({"metadata": {"labels": {}}}),
        ));
        assert_eq!(reasons(&objects), ["HostReserved"]);
    }

    #[test]
    fn hooks_and_fills_are_told_when_they_change() {
        let mut objects = Objects::default();
        let machine = key("cluster.x-k8s.io", "Machine");
        let hook = json!({"metadata": {"annotations": {PRE_DRAIN_HOOK: "kedge-manager"}}});
        let infra = key("infrastructure.cluster.x-k8s.io", "ElementalCluster");
        let fill = json!({"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}});
        let owned = Layer::Owned(managers::ENDPOINT.to_owned());
        let writes = [
            write(&machine, Layer::Marks, hook),
            write(&infra, owned, fill),
        ];
        let told = notices(&objects, &writes);
        assert_eq!(told[0].reason, "HookAdded");
        assert_eq!(told[1].reason, "EndpointFilled");
        assert!(told[1].note.contains("10.0.0.1 port 6443"));
        for write in &writes {
            objects.apply(write);
        }
        assert_eq!(notices(&objects, &writes), []);
        let mut gone = writes[0].clone();
        gone.content = None;
        assert_eq!(notices(&objects, &[gone])[0].reason, "HookRemoved");
    }
}
