//! The rows of the bench and their goals.

use super::{
    super::{
        Row, Samples,
        row::{compared, informative},
    },
    Costs, Pair, Series,
    lan::ADVERT,
    soak::Soak,
};

/// Everything that was measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) costs: Option<Costs>,
    pub(super) kill: Pair,
    pub(super) stop: Pair,
    pub(super) reload: Pair,
    pub(super) upgrade: Pair,
    pub(super) hang: Pair,
    pub(super) death: Pair,
    pub(super) fast_death: Pair,
    pub(super) one_second: Series,
    pub(super) soaks: Vec<Soak>,
}

impl Soak {
    fn row(&self) -> Row {
        let count = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let both = self.take_overs.map(count);
        let [ours, theirs] = &both.map(|count| Samples::from_iter([count]));
        let (metric, peer) = match self.fast {
            true => ("false_takeovers", "keepalived, 10 ms, real-time"),
            false => ("false_takeovers.default", PEER),
        };
        let row = row(metric, "in the soak", ours, peer, theirs);
        let none = row.max == 0.0;
        Row {
            n: usize::try_from(self.seconds).unwrap_or(usize::MAX),
            must: "0".to_owned(),
            excellent: "0 in 86 400 s".to_owned(),
            met: none,
            met_excellent: none && self.seconds >= 86_400,
            ..row
        }
    }
}

impl Measured {
    /// Ticks the prober overslept in all runs.
    pub(super) fn missed(&self) -> u64 {
        let pairs = [
            &self.kill,
            &self.stop,
            &self.reload,
            &self.upgrade,
            &self.hang,
            &self.death,
            &self.fast_death,
        ];
        let all = pairs.into_iter().flatten();
        all.map(|series| series.missed_ticks).sum()
    }

    /// The rows of what was measured.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        if self.has_faults() {
            rows.extend(self.faults());
        }
        rows.extend(self.soaks.iter().map(Soak::row));
        rows.extend(self.costs.iter().flat_map(Costs::rows));
        rows
    }

    fn has_faults(&self) -> bool {
        let [ours, _] = &self.kill;
        !ours.lost.is_empty()
    }

    fn faults(&self) -> Vec<Row> {
        let mut rows = self.kills();
        for (metric, [ours, theirs]) in [
            ("stop.lost", &self.stop),
            ("reload.lost", &self.reload),
            ("upgrade.lost", &self.upgrade),
        ] {
            rows.push(nothing_lost(metric, &ours.lost, &theirs.lost));
        }
        let [ours, theirs] = &self.upgrade;
        rows.push(Row {
            unit: "moves".to_owned(),
            ..nothing_lost("upgrade.moved", &ours.moves, &theirs.moves)
        });
        let [ours, theirs] = &self.stop;
        rows.push(informative(row(
            "stop.switch",
            "s",
            &ours.switch,
            PEER,
            &theirs.switch,
        )));
        rows.extend(self.deaths());
        rows.push(self.hung());
        rows
    }

    fn kills(&self) -> Vec<Row> {
        let [ours, theirs] = &self.kill;
        let beyond = row(
            "sigkill.beyond_skew",
            "s",
            &ours.beyond,
            PEER,
            &theirs.beyond,
        );
        let beyond = Row {
            must: "p99 ≤ 0.005".to_owned(),
            excellent: "p99 ≤ 0.0015".to_owned(),
            met: beyond.p99 <= 0.005,
            met_excellent: beyond.p99 <= 0.0015,
            ..beyond
        };
        let stale = Samples::from_iter([f64::from(ours.stale)]);
        let stale_peer = Samples::from_iter([f64::from(theirs.stale)]);
        let stale = row("sigkill.stale", "VIPs", &stale, PEER, &stale_peer);
        let stale = Row {
            n: ours.lost.len(),
            must: "0".to_owned(),
            excellent: "0".to_owned(),
            met: ours.stale == 0,
            met_excellent: ours.stale == 0,
            ..stale
        };
        vec![
            nothing_lost("sigkill.lost", &ours.lost, &theirs.lost),
            informative(row(
                "sigkill.switch",
                "s",
                &ours.switch,
                PEER,
                &theirs.switch,
            )),
            beyond,
            stale,
        ]
    }

    fn deaths(&self) -> Vec<Row> {
        let [ours, theirs] = &self.death;
        let outage = row("dead_host.default", "s", &ours.outage, PEER, &theirs.outage);
        // Three intervals, the skew of the successor (priority 192 at least), and scheduling.
        let interval = ADVERT.as_secs_f64();
        let worst = 3.0 * interval + interval * (256.0 - 192.0) / 256.0 + 0.01;
        let default = Row {
            must: format!("p50 ≤ 0.265, max ≤ {worst:.3}, ≤ 1.0 × peer"),
            excellent: "p50 ≤ 0.85 × peer".to_owned(),
            met: outage.p50 <= 0.265 && outage.max <= worst && outage.p50 <= outage.peer_p50,
            met_excellent: outage.max <= worst && outage.p50 <= 0.85 * outage.peer_p50,
            ..outage
        };
        let [ours, theirs] = &self.fast_death;
        let peer = "keepalived, 10 ms, real-time";
        let outage = row("dead_host.fast", "s", &ours.outage, peer, &theirs.outage);
        let fast = Row {
            must: "p50 ≤ 0.029, ≤ 1.0 × peer".to_owned(),
            excellent: "p50 ≤ 0.026".to_owned(),
            met: outage.p50 <= 0.029 && outage.p50 <= outage.peer_p50,
            met_excellent: outage.p50 <= 0.026 && outage.p50 <= outage.peer_p50,
            ..outage
        };
        let [ours, _] = &self.death;
        let peer = "keepalived, 1 s (its default)";
        let theirs = &self.one_second.outage;
        let by_default = row("dead_host.each_by_default", "s", &ours.outage, peer, theirs);
        let by_default = Row {
            must: "p50 ≤ 0.13 × peer".to_owned(),
            excellent: "p50 ≤ 0.11 × peer".to_owned(),
            met: by_default.p50 <= 0.13 * by_default.peer_p50,
            met_excellent: by_default.p50 <= 0.11 * by_default.peer_p50,
            ..by_default
        };
        vec![default, fast, by_default]
    }

    fn hung(&self) -> Row {
        let [ours, theirs] = &self.hang;
        let fenced = row("hung.fenced", "s", &ours.fenced, PEER, &theirs.fenced);
        let lease = 3.0 * ADVERT.as_secs_f64() + 0.01;
        Row {
            must: format!("max ≤ {lease:.3}"),
            excellent: format!("max ≤ {lease:.3}"),
            met: fenced.max <= lease,
            met_excellent: fenced.max <= lease,
            ..fenced
        }
    }
}

impl Costs {
    fn rows(&self) -> Vec<Row> {
        let row = |metric, unit, [ours, theirs]: &[Samples; 2]| {
            compared(metric, unit, ours, PEER, theirs, 1e-6)
        };
        let goal = |row: Row| Row {
            must: "≤ 1.0 × peer".to_owned(),
            excellent: "≤ 0.5 × peer".to_owned(),
            met: row.ratio >= 1.0,
            met_excellent: row.ratio >= 2.0,
            ..row
        };
        let pss = row("pss", "MiB", &self.pss);
        // Memory is no matter of luck: it holds all the time, or it does not.
        let pss = Row {
            must: "max ≤ 1.0 × peer".to_owned(),
            met: pss.max <= pss.peer_p50,
            ..goal(pss)
        };
        vec![
            pss,
            goal(row("cpu", "% of a processor", &self.kept)),
            informative(row("cpu.free", "% of a processor", &self.free)),
            informative(row("cpu.backup", "% of a processor", &self.backup)),
        ]
    }
}

fn nothing_lost(metric: &str, ours: &Samples, theirs: &Samples) -> Row {
    let lost = row(metric, "probes", ours, PEER, theirs);
    Row {
        must: "max 0".to_owned(),
        excellent: "max 0 in 1 000".to_owned(),
        met: lost.max == 0.0,
        met_excellent: lost.max == 0.0 && lost.n >= 1_000,
        ..lost
    }
}

fn row(metric: &str, unit: &str, ours: &Samples, peer: &str, theirs: &Samples) -> Row {
    // One probe, or the time of one.
    let resolution = if unit == "s" { 0.001 } else { 1.0 };
    compared(metric, unit, ours, peer, theirs, resolution)
}

const PEER: &str = "keepalived, 100 ms";

#[cfg(test)]
mod tests {
    use super::{super::Sample, *};

    fn series(sample: Sample, runs: u32) -> Series {
        let mut series = Series::default();
        for _ in 0..runs {
            series.add(&sample);
        }
        series
    }

    fn outage(seconds: f64) -> Series {
        let sample = Sample {
            outage: seconds,
            ..Sample::default()
        };
        series(sample, 5)
    }

    fn find<'a>(rows: &'a [Row], metric: &str) -> &'a Row {
        rows.iter().find(|row| row.metric == metric).unwrap()
    }

    #[test]
    fn goals_are_judged_against_the_peer_of_the_same_run() {
        let mut measured = Measured {
            kill: [outage(0.0), outage(0.0)],
            death: [outage(0.25), outage(0.3)],
            fast_death: [outage(0.027), outage(0.028)],
            one_second: outage(3.1),
            ..Measured::default()
        };
        let good = measured.rows();
        assert!(!good.iter().any(|row| row.metric == "pss"), "not measured");
        assert!(
            good.iter().all(|row| row.met || row.metric == "x"),
            "{good:#?}"
        );
        let death = find(&good, "dead_host.default");
        assert!((death.ratio - 1.2).abs() < 1e-9 && death.met_excellent);
        assert!(!find(&good, "dead_host.fast").met_excellent);
        measured.death = [outage(0.26), outage(0.25)];
        assert!(!find(&measured.rows(), "dead_host.default").met);
        measured.death = [outage(0.45), outage(0.5)];
        assert!(!find(&measured.rows(), "dead_host.default").met);
        assert!(!find(&measured.rows(), "dead_host.each_by_default").met);
    }

    #[test]
    fn a_probe_a_stale_address_or_a_long_answer_misses_a_goal() {
        let bad = Sample {
            lost: 1,
            beyond: 0.006,
            stale: true,
            fenced: 0.311,
            ..Sample::default()
        };
        let measured = Measured {
            kill: [series(bad, 3), Series::default()],
            stop: [series(bad, 3), Series::default()],
            hang: [series(bad, 3), Series::default()],
            soaks: vec![Soak {
                fast: true,
                seconds: 60,
                take_overs: [1, 0],
                said: Vec::new(),
                stood_still: String::new(),
            }],
            costs: Some(Costs {
                pss: [[3.0, 5.0, 3.0], [4.0; 3]].map(Samples::from_iter),
                kept: [[0.02, 0.01, 0.9], [0.04; 3]].map(Samples::from_iter),
                ..Costs::default()
            }),
            ..Measured::default()
        };
        let rows = measured.rows();
        for metric in [
            "sigkill.lost",
            "sigkill.beyond_skew",
            "sigkill.stale",
            "stop.lost",
            "hung.fenced",
            "false_takeovers",
            "pss",
        ] {
            assert!(!find(&rows, metric).met, "{metric}");
        }
        assert!(find(&rows, "cpu").met_excellent, "the median counts");
        assert_eq!(find(&rows, "sigkill.stale").max, 3.0);
    }
}
