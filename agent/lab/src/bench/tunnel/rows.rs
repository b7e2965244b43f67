//! The rows of the bench and their goals.

use super::{
    super::{Row, Samples},
    engine::Engine,
    load::Passed,
    site::{Site, in_vxlan, inner},
};
use crate::error::LabError;

/// What was measured of one engine, a value for each run.
#[derive(Debug, Default)]
pub(super) struct Measured {
    throughput: Samples,
    processor: Samples,
    /// Processor time where the kernel cuts runs of datagrams, not the card.
    segmenting: Samples,
    /// What a copy loop and a seal loop take together, of what it takes.
    share: Samples,
    vxlan: Samples,
    vxlan_processor: Samples,
    small: Samples,
    lost: Samples,
    added: Samples,
    added_p99: Samples,
    memory: Samples,
    /// Until the last host of a storm had its session, and how often each asked.
    pub(super) storm: Samples,
    pub(super) initiations: Samples,
    /// The same of a larger storm.
    pub(super) large_storm: Samples,
    /// Memory for each peer that is known and has never been heard, and for each with a session.
    pub(super) dormant: Samples,
    pub(super) active: Samples,
    /// Of a train of packets during a flood of initiations, the share that arrived; and what newcomers
    /// waited for a session meanwhile.
    pub(super) goodput: Samples,
    pub(super) newcomers: Samples,
    /// Of a train of packets while peers are changed.
    pub(super) syncconf: Samples,
    /// For how long nothing was answered when the active gateway was killed.
    pub(super) failover: Samples,
    /// Of a train of packets while the active gateway is drained.
    pub(super) drain: Samples,
    /// Until 99 of 100 hosts were answered again after their gateway was stopped, and killed.
    pub(super) restart: Samples,
    pub(super) killed: Samples,
    /// How often each asked for a session meanwhile.
    pub(super) restart_initiations: Samples,
    /// From the end of a long outage to the first packet that came through.
    pub(super) outage: Samples,
    /// Of what a gateway takes for a handshake, the share that no loop can do without.
    pub(super) handshakes: Samples,
    /// Processor time of a gateway whose peers are silent, in percent of one.
    pub(super) idle: Samples,
    /// How many times longer a round trip takes in a flood.
    pub(super) slowed: Samples,
    /// For how long nothing was answered when a host had another address.
    pub(super) roaming: Samples,
    /// How long packets of a peer came through after it was removed.
    pub(super) revoke: Samples,
    /// Of a train of packets while a preshared key is put in force.
    pub(super) rotation: Samples,
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
    goal: Goal,
}

/// What must be reached, and what is excellent.
enum Goal {
    /// How many times better than each of these peers Kedge is to be; a row for each peer.
    Times(&'static [(&'static str, f64, f64)]),
    /// What no sample may exceed; one row, beside wireguard-go.
    AtMost(f64, f64),
    /// What each sample has to reach; one row, beside wireguard-go.
    AtLeast(f64, f64),
}

impl Measured {
    /// Measures what an engine carries, once, and says what a gigabyte took of the processor.
    pub(super) fn take(&mut self, site: &mut Site) -> Result<f64, LabError> {
        let Passed {
            amount,
            seconds,
            processor_seconds,
        } = site.stream(inner(1))?;
        let (gigabits, gigabytes) = (amount * 8.0 / 1e9 / seconds, amount / 1e9);
        self.throughput.push(gigabits);
        self.processor.push(processor_seconds / gigabytes.max(1e-9));
        self.memory.push(site.memory()?);
        let vxlan = site.stream(in_vxlan(1))?;
        self.vxlan.push(vxlan.amount * 8.0 / 1e9 / vxlan.seconds);
        self.vxlan_processor
            .push(vxlan.processor_seconds / (vxlan.amount / 1e9).max(1e-9));
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
        Ok(processor_seconds / gigabytes.max(1e-9))
    }

    /// Measures the same where no card cuts runs of datagrams, once.
    pub(super) fn take_cut(&mut self, site: &mut Site) -> Result<(), LabError> {
        site.card_cuts(false)?;
        let passed = site.stream(inner(1));
        site.card_cuts(true)?;
        let passed = passed?;
        let cost = passed.processor_seconds / (passed.amount / 1e9).max(1e-9);
        self.segmenting.push(cost);
        self.last = format!("{cost:.2} s of processor per GB where the kernel cuts");
        Ok(())
    }

    /// Takes the limit of this run, beside the processor time that it took itself.
    pub(super) fn take_limit(&mut self, seconds_per_gigabyte: f64, ours: f64) {
        self.share.push(seconds_per_gigabyte / ours.max(1e-9));
    }

    /// What the last run has shown.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    pub(super) fn say(&mut self, last: String) {
        self.last = last;
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

/// Each metric beside each peer, for Kedge as it is by default and then, without goals, for its other
/// core. What was not measured has no row.
pub(super) fn rows(ours: &[Peer<'_>], peers: &[Peer<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, ours) in ours.iter().enumerate() {
        for metric in &METRICS {
            let beside = metric.beside(peers).into_iter();
            let found = beside.filter_map(|peer| metric.row(ours, peer));
            rows.extend(found.map(|row| if at == 0 { row } else { other_core(row) }));
        }
    }
    rows
}

fn other_core(row: Row) -> Row {
    Row {
        metric: format!("own_core.{}", row.metric),
        must: String::new(),
        excellent: String::new(),
        ..row
    }
}

impl Metric {
    /// Whom it is measured beside.
    fn beside<'a, 'b>(&self, peers: &'a [Peer<'b>]) -> Vec<Option<&'a Peer<'b>>> {
        match self.goal {
            Goal::Times(_) => peers.iter().map(Some).collect(),
            Goal::AtMost(..) | Goal::AtLeast(..) => {
                vec![peers.iter().find(|peer| peer.engine.name() == REFERENCE)]
            }
        }
    }

    fn row(&self, ours: &Peer<'_>, peer: Option<&Peer<'_>>) -> Option<Row> {
        let samples = (self.samples)(&ours.measured);
        if samples.is_empty() {
            return None;
        }
        let row = Row {
            metric: self.name.to_owned(),
            unit: self.unit.to_owned(),
            n: samples.len(),
            p50: milli(samples.p50()),
            p99: milli(samples.p99()),
            max: milli(samples.max()),
            met: true,
            met_excellent: true,
            ..Row::default()
        };
        let compared = peer
            .map(|peer| (peer, (self.samples)(&peer.measured)))
            .filter(|(_, theirs)| !theirs.is_empty());
        let (row, ratio) = match compared {
            None => (row, None),
            Some((peer, theirs)) => {
                // What cannot be told from nothing is no reason to be infinitely ahead.
                let [p50, peer_p50] = [samples.p50(), theirs.p50()].map(|value| value.max(1e-3));
                let ratio = if self.rate {
                    p50 / peer_p50
                } else {
                    peer_p50 / p50
                };
                let row = Row {
                    peer: peer.engine.name().to_owned(),
                    peer_p50: milli(theirs.p50()),
                    ratio: milli(ratio),
                    ..row
                };
                (row, Some((peer.engine.name(), ratio)))
            }
        };
        Some(match self.goal {
            Goal::Times(goals) => against(row, goals, ratio?),
            Goal::AtMost(must, excellent) => Row {
                must: if must.is_finite() {
                    format!("max {must}")
                } else {
                    String::new()
                },
                excellent: format!("max {excellent}"),
                met: samples.max() <= must,
                met_excellent: samples.max() <= excellent,
                ..row
            },
            Goal::AtLeast(must, excellent) => Row {
                must: format!("min {must}"),
                excellent: format!("min {excellent}"),
                met: samples.min() >= must,
                met_excellent: samples.min() >= excellent,
                ..row
            },
        })
    }
}

/// The row beside a peer, which is in its name.
fn against(row: Row, goals: &[(&str, f64, f64)], (peer, ratio): (&str, f64)) -> Row {
    let goal = goals.iter().find(|(name, _, _)| *name == peer);
    let times = |goal: f64| format!("{goal} times better");
    Row {
        metric: format!("{}vs_{}", row.metric, peer.replace('-', "_")),
        must: goal.map_or_else(String::new, |(_, must, _)| times(*must)),
        excellent: goal.map_or_else(String::new, |(_, _, excellent)| times(*excellent)),
        met: goal.is_none_or(|(_, must, _)| ratio >= *must),
        met_excellent: goal.is_none_or(|(_, _, excellent)| ratio >= *excellent),
        ..row
    }
}

fn milli(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Whom a row with a bound of its own stands beside.
const REFERENCE: &str = "wireguard-go";

/// A row whose name ends before the peer's.
const fn times(
    name: &'static str,
    unit: &'static str,
    samples: fn(&Measured) -> &Samples,
    goals: &'static [(&'static str, f64, f64)],
) -> Metric {
    Metric {
        name,
        unit,
        samples,
        rate: false,
        goal: Goal::Times(goals),
    }
}

const fn rate(metric: Metric) -> Metric {
    Metric {
        rate: true,
        ..metric
    }
}

/// A row with a bound: what must not be exceeded, and what is excellent.
const fn at_most(
    name: &'static str,
    unit: &'static str,
    samples: fn(&Measured) -> &Samples,
    (must, excellent): (f64, f64),
) -> Metric {
    Metric {
        name,
        unit,
        samples,
        rate: false,
        goal: Goal::AtMost(must, excellent),
    }
}

/// The same with what has to be reached.
const fn at_least(
    name: &'static str,
    unit: &'static str,
    samples: fn(&Measured) -> &Samples,
    (must, excellent): (f64, f64),
) -> Metric {
    Metric {
        name,
        unit,
        samples,
        rate: true,
        goal: Goal::AtLeast(must, excellent),
    }
}

const METRICS: [Metric; 31] = [
    rate(times(
        "tcp.",
        "Gbit/s",
        |measured| &measured.throughput,
        &[("boringtun-cli", 6.0, 9.0), ("gotatun", 4.0, 5.5)],
    )),
    times(
        "tcp.cpu_",
        "s per GB",
        |measured| &measured.processor,
        &[("wireguard-go", 1.7, 2.0)],
    ),
    at_least(
        "tcp.share_of_limit",
        "of its processor time",
        |measured| &measured.share,
        (0.8, 0.92),
    ),
    times(
        "segmenting.cpu_",
        "s per GB",
        |measured| &measured.segmenting,
        &[("wireguard-go", 1.8, 2.4), ("boringtun-cli", 2.5, 3.2)],
    ),
    rate(times(
        "vxlan.",
        "Gbit/s",
        |measured| &measured.vxlan,
        &[("wireguard-go", 3.0, 4.0)],
    )),
    times(
        "vxlan.cpu_",
        "s per GB",
        |measured| &measured.vxlan_processor,
        &[],
    ),
    times(
        "udp64.cpu_",
        "µs per packet",
        |measured| &measured.small,
        &[("wireguard-go", 4.0, 7.0), ("boringtun-cli", 3.0, 4.5)],
    ),
    times("udp64.lost_", "of all", |measured| &measured.lost, &[]),
    times(
        "rtt.",
        "µs",
        |measured| &measured.added,
        &[("wireguard-go", 1.67, 2.2)],
    ),
    times("rtt.p99_", "µs", |measured| &measured.added_p99, &[]),
    at_most(
        "rss_line_rate",
        "MiB",
        |measured| &measured.memory,
        (25.0, 12.0),
    ),
    at_most("storm_2000", "s", |measured| &measured.storm, (3.0, 1.5)),
    times(
        "storm_2000.initiations_",
        "per host",
        |measured| &measured.initiations,
        &[],
    ),
    at_most(
        "storm_10000",
        "s",
        |measured| &measured.large_storm,
        (f64::INFINITY, 4.0),
    ),
    at_least(
        "flood.goodput",
        "of all",
        |measured| &measured.goodput,
        (0.9, 0.97),
    ),
    at_most(
        "flood.handshake_p99",
        "s",
        |measured| &measured.newcomers,
        (1.0, 0.2),
    ),
    at_most(
        "peer_memory.dormant",
        "KiB",
        |measured| &measured.dormant,
        (1.0, 0.5),
    ),
    at_most(
        "peer_memory.active",
        "KiB",
        |measured| &measured.active,
        (16.0, 12.0),
    ),
    at_most(
        "syncconf.lost",
        "packets",
        |measured| &measured.syncconf,
        (0.0, 0.0),
    ),
    at_most(
        "gateway_failover",
        "s",
        |measured| &measured.failover,
        (0.5, 0.35),
    ),
    at_most(
        "drain.lost",
        "packets",
        |measured| &measured.drain,
        (0.0, 0.0),
    ),
    at_most(
        "gateway_restart_2000.p99",
        "s",
        |measured| &measured.restart,
        (5.0, 2.0),
    ),
    at_most(
        "gateway_killed_2000.p99",
        "s",
        |measured| &measured.killed,
        (5.0, 2.0),
    ),
    at_most(
        "gateway_restart_2000.initiations",
        "per host",
        |measured| &measured.restart_initiations,
        (f64::INFINITY, 2.0),
    ),
    at_most("outage_200s", "s", |measured| &measured.outage, (30.0, 6.0)),
    at_least(
        "handshakes.share_of_limit",
        "of its processor time",
        |measured| &measured.handshakes,
        (0.78, 0.95),
    ),
    at_most(
        "idle_10000",
        "% of a processor",
        |measured| &measured.idle,
        (0.3, 0.1),
    ),
    at_most(
        "flood.data_p99",
        "times longer",
        |measured| &measured.slowed,
        (2.0, 1.2),
    ),
    at_most("roaming", "s", |measured| &measured.roaming, (1.0, 0.2)),
    at_most("revoke", "s", |measured| &measured.revoke, (5.0, 1.0)),
    at_most(
        "rotation.lost",
        "packets",
        |measured| &measured.rotation,
        (0.0, 0.0),
    ),
];
