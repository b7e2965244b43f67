//! What was measured, as rows beside their goals.

use super::{
    super::{Row, Samples},
    listing::Listed,
    site::Fleet,
    subject::Sample,
};

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    beyond: Samples,
    listed: Samples,
    cpu: Samples,
    started: Samples,
    objects: usize,
    start_writes: u64,
    pub(super) rss: Samples,
    pub(super) rss_enrolled: f64,
    pub(super) noop: Samples,
    pub(super) fill: Samples,
    pub(super) fill_asked: Samples,
    pub(super) enrol: Samples,
    pub(super) enrolled: usize,
    pub(super) idle: Samples,
    pub(super) idle_hosts: usize,
}

/// A row's name, unit and goal.
#[derive(Clone, Copy, Debug)]
struct Goal {
    metric: &'static str,
    unit: &'static str,
    must: &'static str,
    excellent: &'static str,
    /// At most, or at least where `is_rate`.
    limits: (f64, f64),
    is_rate: bool,
}

impl Measured {
    /// A start that was measured.
    pub(super) fn start(&mut self, took: f64, list: &Listed, seen: &Sample, wrote: u64) {
        self.beyond.push((took - list.seconds).max(0.0));
        self.started.push(took);
        self.listed.push(list.seconds);
        self.cpu.push(seen.cpu);
        self.objects = list.objects;
        self.start_writes += wrote;
    }

    /// The rows, and what one must know to read them.
    pub(super) fn rows(&self, fleet: &Fleet) -> (Vec<Row>, Vec<String>) {
        let [sync, rss, noop, idle, fill, enrol] = GOALS;
        let rows = vec![
            sync.row(&self.beyond),
            rss.row(&self.rss),
            noop.row(&self.noop),
            Row {
                n: self.idle_hosts,
                ..idle.row(&self.idle)
            },
            fill.row(&self.fill),
            enrol.row(&self.enrol),
        ];
        let notes = vec![
            format!(
                "{} hosts, {} clusters, {} objects of the kinds the manager reads; etcd and the API \
                 server run on the same machine.",
                fleet.hosts, fleet.clusters, self.objects
            ),
            format!(
                "sync_10k: from the start of the process to read, leading and planned takes {:.2} s \
                 and {:.2} s of CPU, medians; a plain client lists the same kinds in {:.2} s, the \
                 best of three before each start. {} writes in all starts.",
                self.started.p50(),
                self.cpu.p50(),
                self.listed.p50(),
                self.start_writes
            ),
            format!(
                "rss_10k: after a start and at rest; with {} more hosts on the line {:.1} MiB.",
                self.enrolled, self.rss_enrolled
            ),
            "noop_rate: a Cluster of every site says something new that changes nothing; objects that \
             plans looked at by the time plans took."
                .to_owned(),
            format!(
                "idle_writes: requests that write at the API server, or objects whose version moved, \
                 whichever is more, while {} hosts ask and report; leases left out.",
                self.enrolled
            ),
            format!(
                "fill: from the API server's answer to the blank infrastructure cluster until a watch \
                 shows its endpoint; from the request itself p50 {:.1} ms.",
                self.fill_asked.p50() * 1e3
            ),
            format!(
                "enrol_1000: {} hosts at once with the agents' own client, until each has its \
                 certificate and its desired state.",
                self.enrolled
            ),
        ];
        (rows, notes)
    }
}

impl Goal {
    fn row(&self, samples: &Samples) -> Row {
        let meets = |limit: f64| {
            !samples.is_empty()
                && if self.is_rate {
                    samples.p50() >= limit
                } else {
                    samples.p50() <= limit
                }
        };
        Row {
            metric: self.metric.to_owned(),
            unit: self.unit.to_owned(),
            n: samples.len(),
            p50: round(samples.p50()),
            p99: round(samples.p99()),
            max: round(samples.max()),
            must: self.must.to_owned(),
            excellent: self.excellent.to_owned(),
            met: meets(self.limits.0),
            met_excellent: meets(self.limits.1),
            ..Row::default()
        }
    }
}

/// Four digits behind the point.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// The rows, in order.
const GOALS: [Goal; 6] = [
    Goal {
        metric: "sync_10k.beyond_list",
        unit: "s",
        must: "p50 ≤ 1.5",
        excellent: "p50 ≤ 0.75",
        limits: (1.5, 0.75),
        is_rate: false,
    },
    Goal {
        metric: "rss_10k",
        unit: "MiB",
        must: "≤ 64",
        excellent: "≤ 48",
        limits: (64.0, 48.0),
        is_rate: false,
    },
    Goal {
        metric: "noop_rate",
        unit: "objects/s",
        must: "p50 ≥ 10000",
        excellent: "p50 ≥ 20000",
        limits: (10_000.0, 20_000.0),
        is_rate: true,
    },
    Goal {
        metric: "idle_writes",
        unit: "per host and minute",
        must: "0",
        excellent: "0",
        limits: (0.0, 0.0),
        is_rate: false,
    },
    Goal {
        metric: "fill",
        unit: "s",
        must: "p50 ≤ 0.05",
        excellent: "p50 ≤ 0.025",
        limits: (0.05, 0.025),
        is_rate: false,
    },
    Goal {
        metric: "enrol_1000",
        unit: "s",
        must: "≤ 120",
        excellent: "≤ 30",
        limits: (120.0, 30.0),
        is_rate: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_must_be_high_and_everything_else_low() {
        let [sync, _, noop, idle, ..] = GOALS;
        let good = sync.row(&Samples::from_iter([1.4, 1.6, 0.9]));
        assert!(
            good.met && !good.met_excellent,
            "the median counts: {good:?}"
        );
        assert!(!sync.row(&Samples::from_iter([1.6])).met);
        assert!(noop.row(&Samples::from_iter([12_000.0])).met);
        assert!(!noop.row(&Samples::from_iter([9_999.0])).met);
        assert!(idle.row(&Samples::from_iter([0.0])).met_excellent);
        assert!(!idle.row(&Samples::from_iter([0.001])).met);
        assert!(
            !sync.row(&Samples::from_iter([])).met,
            "nothing measured is no goal met"
        );
    }

    #[test]
    fn the_start_is_counted_beyond_the_list() {
        let mut measured = Measured::default();
        let list = Listed {
            seconds: 0.5,
            objects: 10,
        };
        measured.start(1.75, &list, &Sample::default(), 0);
        let (rows, notes) = measured.rows(&Fleet::new(10, 1));
        let names: Vec<&str> = rows.iter().map(|row| row.metric.as_str()).collect();
        let wanted = [
            "sync_10k.beyond_list",
            "rss_10k",
            "noop_rate",
            "idle_writes",
            "fill",
            "enrol_1000",
        ];
        assert_eq!(names, wanted);
        assert!((rows[0].p50 - 1.25).abs() < 1e-9);
        assert!(notes[1].contains("1.75 s"), "{}", notes[1]);
    }
}
