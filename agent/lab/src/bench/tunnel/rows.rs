//! The rows of the bench and their goals.

use super::{
    super::{Row, Samples},
    engine::Engine,
    load::Passed,
    site::Site,
};
use crate::error::LabError;

/// What was measured of one engine, a value for each run.
#[derive(Debug, Default)]
pub(super) struct Measured {
    throughput: Samples,
    processor: Samples,
    small: Samples,
    lost: Samples,
    added: Samples,
    added_p99: Samples,
    memory: Samples,
    last: String,
}

/// An engine with what was measured of it.
#[derive(Debug)]
pub(super) struct Peer<'a> {
    engine: &'a Engine,
    measured: Measured,
}

/// A row before anybody is compared in it.
struct Metric {
    name: &'static str,
    unit: &'static str,
    samples: fn(&Measured) -> &Samples,
    /// Whether more is better.
    rate: bool,
    /// How many times better than a peer Kedge must be, and is when it is excellent.
    goals: &'static [(&'static str, f64, f64)],
}

impl Measured {
    /// Measures an engine once.
    pub(super) fn take(&mut self, site: &mut Site) -> Result<(), LabError> {
        let Passed {
            amount,
            seconds,
            processor_seconds,
        } = site.stream()?;
        let (gigabits, gigabytes) = (amount * 8.0 / 1e9 / seconds, amount / 1e9);
        self.throughput.push(gigabits);
        self.processor.push(processor_seconds / gigabytes.max(1e-9));
        self.memory.push(site.memory()?);
        let small = site.small()?;
        let sent = 50_000.0 * small.seconds;
        self.small
            .push(small.processor_seconds / small.amount.max(1.0) * 1e6);
        self.lost.push((1.0 - small.amount / sent).max(0.0));
        let [inside, beside] = site.round_trips()?;
        self.added.push((inside.p50() - beside.p50()) * 1e6);
        self.added_p99.push((inside.p99() - beside.p99()) * 1e6);
        self.last = format!(
            "{gigabits:.2} Gbit/s, {:.2} s of processor per GB",
            processor_seconds / gigabytes.max(1e-9)
        );
        Ok(())
    }

    /// What the last run has shown.
    pub(super) fn last(&self) -> &str {
        &self.last
    }
}

impl<'a> Peer<'a> {
    pub(super) const fn new(engine: &'a Engine, measured: Measured) -> Self {
        Self { engine, measured }
    }

    pub(super) fn version(&self) -> String {
        self.engine.version()
    }
}

/// Each metric beside each peer, for Kedge as it is by default and then for its other core.
pub(super) fn rows(ours: &[Peer<'_>], peers: &[Peer<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, ours) in ours.iter().enumerate() {
        for metric in &METRICS {
            for peer in peers {
                let row = metric.row(ours, peer);
                rows.push(if at == 0 {
                    row
                } else {
                    Row {
                        must: String::new(),
                        excellent: String::new(),
                        ..row
                    }
                });
            }
        }
    }
    rows
}

impl Metric {
    fn row(&self, ours: &Peer<'_>, peer: &Peer<'_>) -> Row {
        let (samples, theirs) = (
            (self.samples)(&ours.measured),
            (self.samples)(&peer.measured),
        );
        // What cannot be told from nothing is no reason to be infinitely ahead.
        let [p50, peer_p50] = [samples.p50(), theirs.p50()].map(|value| value.max(1e-3));
        let ratio = if self.rate {
            p50 / peer_p50
        } else {
            peer_p50 / p50
        };
        let goal = self
            .goals
            .iter()
            .find(|(name, _, _)| *name == peer.engine.name());
        let times = |goal: f64| format!("{goal} times better");
        Row {
            metric: format!("{}.{}", ours.engine.name(), self.name),
            unit: self.unit.to_owned(),
            n: samples.len(),
            p50: milli(samples.p50()),
            p99: milli(samples.p99()),
            max: milli(samples.max()),
            peer: peer.engine.name().to_owned(),
            peer_p50: milli(theirs.p50()),
            ratio: milli(ratio),
            must: goal.map_or_else(String::new, |(_, must, _)| times(*must)),
            excellent: goal.map_or_else(String::new, |(_, _, excellent)| times(*excellent)),
            met: goal.is_none_or(|(_, must, _)| ratio >= *must),
            met_excellent: goal.is_none_or(|(_, _, excellent)| ratio >= *excellent),
        }
    }
}

fn milli(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

const METRICS: [Metric; 7] = [
    Metric {
        name: "tcp.throughput",
        unit: "Gbit/s",
        samples: |measured| &measured.throughput,
        rate: true,
        goals: &[("boringtun-cli", 6.0, 9.0), ("gotatun-cli", 4.0, 5.5)],
    },
    Metric {
        name: "tcp.processor",
        unit: "s per GB",
        samples: |measured| &measured.processor,
        rate: false,
        goals: &[("wireguard-go", 1.7, 2.0)],
    },
    Metric {
        name: "udp64.processor",
        unit: "µs per packet",
        samples: |measured| &measured.small,
        rate: false,
        goals: &[("wireguard-go", 4.0, 7.0), ("boringtun-cli", 3.0, 4.5)],
    },
    Metric {
        name: "udp64.lost",
        unit: "of all",
        samples: |measured| &measured.lost,
        rate: false,
        goals: &[],
    },
    Metric {
        name: "rtt.added",
        unit: "µs",
        samples: |measured| &measured.added,
        rate: false,
        goals: &[("wireguard-go", 1.67, 2.2)],
    },
    Metric {
        name: "rtt.added_p99",
        unit: "µs",
        samples: |measured| &measured.added_p99,
        rate: false,
        goals: &[],
    },
    Metric {
        name: "pss",
        unit: "MiB",
        samples: |measured| &measured.memory,
        rate: false,
        goals: &[],
    },
];
