//! A row of a result.

use serde::{Deserialize, Serialize};

use super::stats::{Samples, ratio};

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What was measured.
    pub metric: String,
    /// Its unit; smaller is better, except for rates.
    pub unit: String,
    /// How many samples.
    pub n: usize,
    /// Half of the samples are no larger.
    pub p50: f64,
    /// 99 of 100 samples are no larger.
    pub p99: f64,
    /// The largest sample.
    pub max: f64,
    /// The peer in the same run, and how it was set.
    pub peer: String,
    /// The peer's median.
    #[serde(rename = "peerP50")]
    pub peer_p50: f64,
    /// How many times better than the peer: above 1 Kedge is ahead.
    pub ratio: f64,
    /// The goal that must be reached.
    pub must: String,
    /// The goal beyond it.
    pub excellent: String,
    /// Whether `must` was reached.
    pub met: bool,
    /// Whether `excellent` was.
    pub met_excellent: bool,
}

/// `ours` beside `theirs`; what is smaller than `resolution` cannot be told from it. Without a goal.
pub(super) fn compared(
    metric: &str,
    unit: &str,
    ours: &Samples,
    peer: &str,
    theirs: &Samples,
    resolution: f64,
) -> Row {
    Row {
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        n: ours.len(),
        p50: micro(ours.p50()),
        p99: micro(ours.p99()),
        max: micro(ours.max()),
        peer: peer.to_owned(),
        peer_p50: micro(theirs.p50()),
        ratio: micro(ratio(ours.p50(), theirs.p50(), resolution)),
        ..Row::default()
    }
}

/// A row without a goal of its own has met it.
pub(super) fn informative(row: Row) -> Row {
    Row { met: true, ..row }
}

/// Six digits behind the point: a probe each millisecond knows no more.
fn micro(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
