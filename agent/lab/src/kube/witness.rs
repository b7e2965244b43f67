//! What an API server says of itself: which requests it answered.

/// How many requests that write it answered, by its metrics; leases left out, and the counters that
/// are not `meant`.
#[must_use]
pub fn writes(metrics: &str, meant: impl Fn(&str) -> bool) -> u64 {
    let counters = metrics.lines().filter(|line| {
        let has = |label: &str, value: &str| line.contains(&format!("{label}=\"{value}\""));
        line.starts_with("apiserver_request_total{")
            && WRITES.iter().any(|verb| has("verb", verb))
            && !has("resource", "leases")
            && meant(line)
    });
    let values = counters.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole numbers that count: none is negative, and none of them is large"
    )]
    let all = values.sum::<f64>() as u64;
    all
}

const WRITES: [&str; 6] = [
    "POST",
    "PUT",
    "PATCH",
    "APPLY",
    "DELETE",
    "DELETECOLLECTION",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_and_leases_are_not() {
        let text = "\
# TYPE apiserver_request_total counter
apiserver_request_total{code=\"200\",resource=\"edgehosts\",verb=\"APPLY\"} 3
apiserver_request_total{code=\"201\",resource=\"events\",verb=\"POST\"} 2
apiserver_request_total{code=\"200\",resource=\"edgehosts\",verb=\"LIST\"} 50
apiserver_request_total{code=\"200\",resource=\"leases\",verb=\"PUT\"} 70
apiserver_request_duration_seconds_count{verb=\"PUT\"} 9
";
        assert_eq!(writes(text, |_| true), 5);
        assert_eq!(writes(text, |line| line.contains("events")), 2);
    }
}
