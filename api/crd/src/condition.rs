//! `metav1.Condition`, and how a new one meets the last one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a condition holds.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum Status {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell.
    #[default]
    Unknown,
}

impl Status {
    /// The status as it is spelt.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// One aspect of an object's state. Messages hold neither timestamps nor counters: they would be
/// written again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The aspect, such as `EndpointPublished`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// A CamelCase word from a fixed list.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// A sentence.
    #[serde(default)]
    #[schemars(length(max = 32_768))]
    pub message: String,
    /// When `status` last changed, RFC 3339.
    #[serde(default)]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// The generation of the spec this was observed at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// A condition without a time of transition; [`merge`] supplies it.
    pub fn new(
        kind: &str,
        status: impl Into<Status>,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind: kind.to_owned(),
            status: status.into(),
            reason: reason.to_owned(),
            message: message.into(),
            last_transition_time: String::new(),
            observed_generation: None,
        }
    }
}

/// The new conditions, with the time of transition of the old ones where the status is the same
/// and `now` where it is not. Sorted by type.
#[must_use]
pub fn merge(old: &[Condition], mut new: Vec<Condition>, now: &str) -> Vec<Condition> {
    for condition in &mut new {
        let kept = old
            .iter()
            .find(|last| last.kind == condition.kind && last.status == condition.status)
            .map(|last| last.last_transition_time.as_str())
            .filter(|time| !time.is_empty());
        kept.unwrap_or(now)
            .clone_into(&mut condition.last_transition_time);
    }
    new.sort_by(|a, b| a.kind.cmp(&b.kind));
    new
}

/// The condition of that type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_status_moves_the_time_of_transition() {
        let old = merge(&[], vec![Condition::new("Ready", true, "A", "a")], "t1");
        let same = merge(&old, vec![Condition::new("Ready", true, "B", "b")], "t2");
        assert_eq!(same[0].last_transition_time, "t1");
        assert_eq!(same[0].reason, "B");
        let other = merge(&old, vec![Condition::new("Ready", false, "B", "b")], "t2");
        assert_eq!(other[0].last_transition_time, "t2");
    }
}
