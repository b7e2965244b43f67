//! What there is to read, told by the text a scraper reads.

use std::collections::{BTreeMap, BTreeSet};

/// A metric, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Its name, as queries spell it.
    pub name: String,
    /// Counter, gauge or histogram.
    pub kind: String,
    /// What it says.
    pub help: String,
    /// Its labels and the values there are.
    pub labels: BTreeMap<String, BTreeSet<String>>,
}

/// Every metric of a text in the format scrapers read, in its order.
pub(super) fn described(text: &str) -> Vec<Described> {
    let mut all: Vec<Described> = Vec::new();
    for line in text.lines() {
        if let Some((name, help)) = after(line, "# HELP ") {
            all.push(Described {
                name: name.to_owned(),
                help: help.to_owned(),
                ..Described::default()
            });
        } else if let Some(last) = all.last_mut() {
            if let Some((_, kind)) = after(line, "# TYPE ") {
                kind.clone_into(&mut last.kind);
                if kind == "counter" {
                    last.name.push_str("_total");
                }
            } else {
                labels(line, &mut last.labels);
            }
        }
    }
    all
}

fn after<'a>(line: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(word)?.split_once(' ')
}

/// The labels of a sample; of a histogram without its buckets.
fn labels(sample: &str, all: &mut BTreeMap<String, BTreeSet<String>>) {
    let inner = sample
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    let Some((inner, _)) = inner else { return };
    let each = inner.split(',').filter_map(|label| label.split_once('='));
    for (label, value) in each.filter(|(label, _)| *label != "le") {
        let value = value.trim_matches('"').to_owned();
        all.entry(label.to_owned()).or_default().insert(value);
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::Metrics;

    #[test]
    fn every_metric_is_described_with_its_labels_and_no_label_names_an_object() {
        let all = Metrics::reference().unwrap();
        let of = |name: &str| {
            let mut found = all.iter().filter(|it| it.name == name);
            found.next().unwrap_or_else(|| panic!("{name}: {all:#?}"))
        };
        let values = |name: &str, label: &str| -> Vec<String> {
            of(name).labels[label].iter().cloned().collect()
        };
        let states = [
            "active",
            "adding",
            "disabled",
            "disabling",
            "removed",
            "removing",
        ];
        assert_eq!(values("kedge_lb_members", "state"), states);
        assert_eq!(
            values("kedge_enrolments_total", "outcome"),
            ["granted", "refused"]
        );
        let steps = values("kedge_controller_reconcile_duration_seconds", "controller");
        assert_eq!(steps, ["plan", "write"]);
        assert_eq!(of("kedge_controller_queue_depth").kind, "gauge");
        assert_eq!(of("kedge_identity_conflicts_total").kind, "counter");
        // What objects come and go by would make it grow for ever.
        let bounded = ["state", "outcome", "controller", "because", "kind"];
        for metric in &all {
            assert!(!metric.help.is_empty(), "{metric:?}");
            for label in metric.labels.keys() {
                assert!(bounded.contains(&label.as_str()), "{metric:?}");
            }
        }
    }
}
