//! What the manager counts, from its registry.

use std::fmt::{self, Write as _};

use kedge_manager_controller::metrics::Metrics;

use crate::cell;

/// The page.
pub fn page() -> Result<String, fmt::Error> {
    let mut text = String::from(HEAD);
    for metric in Metrics::reference()? {
        let labels = metric.labels.iter().map(|(label, values)| {
            if label == "kind" {
                return "`kind`".to_owned();
            }
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            format!("`{label}`: {}", values.join(", "))
        });
        let labels: Vec<String> = labels.collect();
        let (name, kind) = (&metric.name, &metric.kind);
        let help = cell(&metric.help);
        writeln!(
            text,
            "| `{name}` | {kind} | {} | {help} |",
            labels.join("; ")
        )?;
    }
    Ok(text)
}

const HEAD: &str = "# Metrics of `kedge manager`

`GET /metrics` at `metrics.listen`, in the OpenMetrics format. No label names an object, an address or
a key, so their number does not grow with the fleet; `kind` is a kind of the cluster's.

| name | type | labels | what it says |
|---|---|---|---|
";
