//! Label selectors, as in `metav1.LabelSelector`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selects objects by label. All parts must hold; an empty selector selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels that must have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// What it is compared with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    /// The value is one of the list.
    In,
    /// The value is none of the list, or the label is absent.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether an object with these labels is selected.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_by(|key| labels.get(key))
    }

    /// Whether an object is selected whose labels have these values.
    #[must_use]
    pub fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a String>) -> bool {
        let equal = |(key, value): (&String, &String)| label(key) == Some(value);
        self.match_labels.iter().all(equal)
            && self.match_expressions.iter().all(|requirement| {
                let value = label(&requirement.key);
                let listed = value.is_some_and(|value| requirement.values.contains(value));
                match requirement.operator {
                    Operator::In => listed,
                    Operator::NotIn => !listed,
                    Operator::Exists => value.is_some(),
                    Operator::DoesNotExist => value.is_none(),
                }
            })
    }
}

impl std::fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let labels = self
            .match_labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let expressions = self.match_expressions.iter().map(|requirement| {
            let Requirement {
                key,
                operator,
                values,
            } = requirement;
            let values = values.join(",");
            match operator {
                Operator::In => format!("{key} in ({values})"),
                Operator::NotIn => format!("{key} notin ({values})"),
                Operator::Exists => key.clone(),
                Operator::DoesNotExist => format!("!{key}"),
            }
        });
        let parts: Vec<String> = labels.chain(expressions).collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_compare_as_kubernetes_does() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let select = |key: &str, operator, values: &[&str]| LabelSelector {
            match_expressions: vec![Requirement {
                key: key.to_owned(),
                operator,
                values: values.iter().map(|&value| value.to_owned()).collect(),
            }],
            ..LabelSelector::default()
        };
        assert!(LabelSelector::default().matches(&labels));
        assert!(select("a", Operator::In, &["1", "2"]).matches(&labels));
        assert!(!select("a", Operator::NotIn, &["1"]).matches(&labels));
        assert!(select("b", Operator::NotIn, &["1"]).matches(&labels));
        assert!(!select("b", Operator::Exists, &[]).matches(&labels));
        assert!(select("b", Operator::DoesNotExist, &[]).matches(&labels));
        assert_eq!(
            select("a", Operator::In, &["1", "2"]).to_string(),
            "a in (1,2)"
        );
    }
}
