//! What asking a peer through the tunnel told.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Questions through the tunnel, and their answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelPing {
    /// The peer.
    pub peer: String,
    /// This end's address in the tunnel.
    pub from: IpAddr,
    /// The peer's.
    pub to: IpAddr,
    /// How long each packet was inside the tunnel, in bytes.
    pub bytes: u16,
    /// Questions sent.
    pub sent: u32,
    /// Answers received.
    pub received: u32,
    /// The share that was lost, in percent.
    pub loss_percent: f64,
    /// From the first question to the end, in seconds.
    pub duration_seconds: f64,
    /// The round trips; none without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<RoundTrips>,
    /// Each question.
    pub items: Vec<PingItem>,
}

/// Round trips, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoundTrips {
    /// The shortest.
    pub min_seconds: f64,
    /// The mean.
    pub avg_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
    /// The standard deviation.
    pub deviation_seconds: f64,
}

/// One question.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PingItem {
    /// Counts from 1.
    pub sequence: u32,
    /// The round trip; none if there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_seconds: Option<f64>,
}

impl RoundTrips {
    /// Of all round trips; `None` of none.
    #[must_use]
    pub fn of(all: &[f64]) -> Option<Self> {
        let count = u32::try_from(all.len()).ok().filter(|count| *count > 0)?;
        let mean = all.iter().sum::<f64>() / f64::from(count);
        let spread = all.iter().map(|rtt| (rtt - mean).powi(2)).sum::<f64>();
        Some(Self {
            min_seconds: all.iter().copied().fold(f64::INFINITY, f64::min),
            avg_seconds: mean,
            max_seconds: all.iter().copied().fold(0.0, f64::max),
            deviation_seconds: (spread / f64::from(count)).sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_summed_up() {
        assert_eq!(RoundTrips::of(&[]), None);
        let one = RoundTrips::of(&[0.5]).unwrap();
        assert_eq!((one.min_seconds, one.max_seconds), (0.5, 0.5));
        assert!(one.deviation_seconds.abs() < 1e-12);
        let two = RoundTrips::of(&[1.0, 3.0]).unwrap();
        assert_eq!((two.avg_seconds, two.deviation_seconds), (2.0, 1.0));
    }
}
