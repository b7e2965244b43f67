//! Conditions of the v1beta1 contract: with a severity, and summed up in `Ready`.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::objects::at;

/// How bad a condition is that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something failed.
    Error,
    /// Something may fail.
    Warning,
    /// Something is under way.
    Info,
}

/// The conditions of an object.
#[derive(Clone, Debug)]
pub struct Conditions(Vec<Value>);

impl Conditions {
    /// Those an object has.
    #[must_use]
    pub fn of(object: &DynamicObject) -> Self {
        let all = at(object, "/status/conditions").as_array();
        Self(all.cloned().unwrap_or_default())
    }

    /// Says that one holds.
    pub fn yes(&mut self, kind: &str) {
        self.set(json!({"type": kind, "status": "True"}));
    }

    /// Says that one does not hold.
    pub fn no(&mut self, kind: &str, severity: Severity, reason: &str, message: &str) {
        self.set(json!({
            "type": kind,
            "status": "False",
            "severity": format!("{severity:?}"),
            "reason": reason,
            "message": message,
        }));
    }

    /// All of them, `Ready` first: as bad as the worst.
    #[must_use]
    pub fn with_summary(&mut self) -> Value {
        let others = self.0.iter().filter(|one| one["type"] != "Ready");
        let worst = others.min_by_key(|one| {
            let severity = one["severity"].as_str();
            let rank = ["Error", "Warning", "Info"]
                .iter()
                .position(|name| severity == Some(name));
            rank.unwrap_or(usize::MAX)
        });
        if let Some(worst) = worst {
            let mut summary = worst.clone();
            summary["type"] = json!("Ready");
            self.set(summary);
        }
        self.0
            .sort_by_key(|one| (one["type"] != "Ready", one["type"].to_string()));
        json!(self.0)
    }

    /// Sets a condition; the time is that of its last change.
    fn set(&mut self, mut wanted: Value) {
        let kind = wanted["type"].clone();
        let before = self.0.iter().position(|one| one["type"] == kind);
        let before = before.map(|at| self.0.remove(at));
        wanted["lastTransitionTime"] = match before {
            Some(before) if same(&before, &wanted) => before["lastTransitionTime"].clone(),
            _ => json!(now()),
        };
        self.0.push(wanted);
    }
}

fn same(a: &Value, b: &Value) -> bool {
    ["status", "severity", "reason", "message"]
        .iter()
        .all(|field| a[field] == b[field])
}

fn now() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
