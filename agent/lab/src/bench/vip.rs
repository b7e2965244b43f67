//! `lab bench vip`: what a fault costs the client, with Kedge and with keepalived.
//!
//! Two LANs of the same form stand side by side in the same run, one for each. Each fault happens
//! on one and then on the other, and who goes first alternates.

use std::{path::PathBuf, time::Duration};

use super::{
    BenchArgs, BenchResult, Row, Samples,
    host::{ADVERT, Fault, Lan, Sample, System},
    stats::ratio,
};
use crate::{error::LabError, stage::Stage};

/// What the samples of one fault on one system say.
#[derive(Debug, Default)]
struct Series {
    outage: Samples,
    lost: Samples,
    switch: Samples,
    missed_ticks: u64,
}

pub(super) fn run(args: &BenchArgs, stage: &Stage) -> Result<BenchResult, LabError> {
    let kedge = crate::lab::executable(args.kedge.as_deref())?;
    let peer = keepalived_version()?;
    stage.heading("kedge lab bench vip");
    stage.tell(&format!(
        "{} runs of each fault, interleaved with {peer}",
        args.runs()
    ));

    let ours = Lan::start(System::Kedge, kedge.clone(), stage)?;
    let theirs = Lan::start(
        System::Keepalived { interval: ADVERT },
        kedge.clone(),
        stage,
    )?;
    let mut lans = [ours, theirs];
    stage.good("two LANs stand: one Active and two Backups on each");
    let result = measure(&mut lans, args, stage);
    let [ours, theirs] = lans;
    if let Some(directory) = &args.keep {
        ours.lab().keep_logs(&directory.join("kedge"))?;
        theirs.lab().keep_logs(&directory.join("keepalived"))?;
    }
    let mut left = ours.take_down();
    left.extend(theirs.take_down());
    let [death, stop, kill] = result?;
    let default = at_one_second(args, kedge, stage)?;

    let mut rows = rows(&death, &stop, &kill);
    rows.push(default_row(&death[0], &default));
    let missed: u64 = [&death, &stop, &kill]
        .into_iter()
        .flatten()
        .map(|series| series.missed_ticks)
        .sum();
    let mut notes = vec![
        "A probe per millisecond; faults are spread evenly over the advertisement interval; ratio is \
         the peer's median over ours, not below 1 ms."
            .to_owned(),
        "keepalived runs with priorities 150/140/130, Kedge with 254/223/192; part of a ratio is \
         the smaller skew."
            .to_owned(),
        "Agent kill: the guardian that hands over within the skew is not part of this version; \
         the kernel answers until the address's lifetime ends."
            .to_owned(),
        format!("Ticks the prober itself overslept: {}.", missed),
    ];
    notes.extend(left.iter().map(|left| format!("Left behind: {left}")));
    let command = format!("sudo kedge lab bench vip --runs {}", args.runs());
    let result = BenchResult::new("vip", peer, command, stage.seconds(), rows);
    Ok(BenchResult {
        ok: result.ok && left.is_empty(),
        notes,
        ..result
    })
}

/// The three faults, each on both LANs in turn.
fn measure(
    lans: &mut [Lan; 2],
    args: &BenchArgs,
    stage: &Stage,
) -> Result<[[Series; 2]; 3], LabError> {
    let mut all: [[Series; 2]; 3] = Default::default();
    let faults = [Fault::HostDeath, Fault::Stop, Fault::DaemonKill];
    for (fault, pair) in faults.into_iter().zip(&mut all) {
        stage.heading(fault.name());
        for run in 0..args.runs() {
            let mut seen = [None; 2];
            let order = if run % 2 == 0 { [0, 1] } else { [1, 0] };
            for index in order {
                let (Some(lan), Some(series), Some(seen)) = (
                    lans.get_mut(index),
                    pair.get_mut(index),
                    seen.get_mut(index),
                ) else {
                    continue;
                };
                let sample = lan.suffer(fault, run, stage)?;
                series.add(&sample);
                *seen = Some(sample);
            }
            if let [Some(ours), Some(theirs)] = seen {
                stage.tell(&format!(
                    "{:>3}  kedge {:>6.1} ms, {:>3} lost, switch {:>6.1} ms   keepalived {:>6.1} \
                     ms, {:>3} lost, switch {:>6.1} ms",
                    run + 1,
                    ours.outage * 1e3,
                    ours.lost,
                    ours.switch * 1e3,
                    theirs.outage * 1e3,
                    theirs.lost,
                    theirs.switch * 1e3,
                ));
            }
        }
    }
    Ok(all)
}

/// keepalived as it comes: adverts each second. A few runs; each costs three seconds.
fn at_one_second(args: &BenchArgs, kedge: PathBuf, stage: &Stage) -> Result<Series, LabError> {
    stage.heading("host death, keepalived at its default of 1 s");
    let mut lan = Lan::start(
        System::Keepalived {
            interval: Duration::from_secs(1),
        },
        kedge,
        stage,
    )?;
    let mut series = Series::default();
    for run in 0..args.runs().min(DEFAULT_RUNS) {
        let sample = lan.suffer(Fault::HostDeath, run, stage)?;
        stage.tell(&format!(
            "{:>3}  keepalived {:>6.1} ms",
            run + 1,
            sample.outage * 1e3
        ));
        series.add(&sample);
    }
    for left in lan.take_down() {
        stage.bad(&format!("left behind: {left}"));
    }
    Ok(series)
}

fn rows(death: &[Series; 2], stop: &[Series; 2], kill: &[Series; 2]) -> Vec<Row> {
    let peer = "keepalived, 100 ms";
    let [ours, theirs] = death;
    let outage = row(
        "host death: outage, 100 ms",
        "s",
        &ours.outage,
        peer,
        &theirs.outage,
    );
    // Three intervals, the skew of the successor (priority 223 at most), and scheduling.
    let worst = 3.0 * ADVERT.as_secs_f64() + ADVERT.as_secs_f64() * (256.0 - 223.0) / 256.0 + 0.01;
    let death = Row {
        must: format!("p50 ≤ 0.265, max ≤ {worst:.3}, ≤ 1.0 × peer"),
        excellent: "p50 ≤ 0.85 × peer".to_owned(),
        met: outage.p50 <= 0.265 && outage.max <= worst && outage.p50 <= outage.peer_p50,
        met_excellent: outage.max <= worst && outage.p50 <= 0.85 * outage.peer_p50,
        ..outage
    };

    let [ours, theirs] = stop;
    let lost = row(
        "graceful stop: lost probes",
        "probes",
        &ours.lost,
        peer,
        &theirs.lost,
    );
    let stop_lost = Row {
        must: "max 0".to_owned(),
        excellent: "max 0, ≤ 1/20 × peer".to_owned(),
        met: lost.max == 0.0,
        met_excellent: lost.max == 0.0 && lost.ratio >= 20.0,
        ..lost
    };
    let switch = row(
        "graceful stop: switch",
        "s",
        &ours.switch,
        peer,
        &theirs.switch,
    );

    let [ours, theirs] = kill;
    let lost = row(
        "agent kill: lost probes",
        "probes",
        &ours.lost,
        peer,
        &theirs.lost,
    );
    let kill_lost = Row {
        must: "max 0".to_owned(),
        excellent: "max 0".to_owned(),
        met: lost.max == 0.0,
        met_excellent: lost.max == 0.0,
        ..lost
    };
    let kill_switch = row(
        "agent kill: switch",
        "s",
        &ours.switch,
        peer,
        &theirs.switch,
    );
    vec![
        death,
        stop_lost,
        informative(switch),
        kill_lost,
        informative(kill_switch),
    ]
}

fn default_row(ours: &Series, theirs: &Series) -> Row {
    let peer = "keepalived, 1 s (its default)";
    let row = row(
        "host death: outage, each by default",
        "s",
        &ours.outage,
        peer,
        &theirs.outage,
    );
    Row {
        must: "p50 ≤ 0.13 × peer".to_owned(),
        excellent: "p50 ≤ 0.11 × peer".to_owned(),
        met: row.p50 <= 0.13 * row.peer_p50,
        met_excellent: row.p50 <= 0.11 * row.peer_p50,
        ..row
    }
}

fn row(metric: &str, unit: &str, ours: &Samples, peer: &str, theirs: &Samples) -> Row {
    // One probe, or the time of one.
    let resolution = if unit == "s" { 0.001 } else { 1.0 };
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

/// Six digits behind the point: a probe each millisecond knows no more.
fn micro(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// A row without a goal of its own has met it.
fn informative(row: Row) -> Row {
    Row { met: true, ..row }
}

impl Series {
    fn add(&mut self, sample: &Sample) {
        self.outage.push(sample.outage);
        self.lost
            .push(f64::from(u32::try_from(sample.lost).unwrap_or(u32::MAX)));
        self.switch.push(sample.switch);
        self.missed_ticks += sample.missed_ticks;
    }
}

impl Fault {
    const fn name(self) -> &'static str {
        match self {
            Self::HostDeath => "host death",
            Self::Stop => "graceful stop",
            Self::DaemonKill => "agent kill",
        }
    }
}

fn keepalived_version() -> Result<String, LabError> {
    let output = std::process::Command::new("keepalived")
        .arg("--version")
        .output();
    let output = output.map_err(|source| LabError::Spawn {
        program: "keepalived".to_owned(),
        node: "this machine".to_owned(),
        source,
    })?;
    // It writes to stderr: `Keepalived v2.2.7 (01/16,2022)`.
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().next().unwrap_or("keepalived");
    Ok(first.split(" (").next().unwrap_or(first).to_owned())
}

/// How often the peer's default is measured: its spread is known and each run takes seconds.
const DEFAULT_RUNS: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    fn series(outage: f64, lost: u64, runs: u32) -> Series {
        let mut series = Series::default();
        for _ in 0..runs {
            series.add(&Sample {
                outage,
                lost,
                switch: outage,
                missed_ticks: 1,
            });
        }
        series
    }

    #[test]
    fn goals_are_judged_against_the_peer_of_the_same_run() {
        let fast = || [series(0.25, 250, 5), series(0.3, 300, 5)];
        let none = || [series(0.0, 0, 5), series(0.05, 50, 5)];
        let good = rows(&fast(), &none(), &none());
        assert!(good.iter().all(|row| row.met), "{good:#?}");
        assert!((good[0].ratio - 1.2).abs() < 1e-9);
        assert!(good[0].met_excellent && good[1].met_excellent);
        assert_eq!((good[1].n, good[1].ratio), (5, 50.0));

        let slow = [series(0.26, 250, 5), series(0.25, 300, 5)];
        let lossy = [series(0.0, 1, 5), series(0.05, 50, 5)];
        let bad = rows(&slow, &lossy, &none());
        assert!(!bad[0].met && !bad[1].met && bad[3].met, "{bad:#?}");
        let late = [series(0.4, 250, 5), series(0.5, 300, 5)];
        assert!(
            !rows(&late, &none(), &none())[0].met,
            "three intervals are the limit"
        );
    }

    #[test]
    fn the_default_is_compared_with_the_default() {
        let row = default_row(&series(0.25, 0, 3), &series(3.1, 0, 3));
        assert!(row.met && row.met_excellent && row.ratio > 12.0, "{row:?}");
        assert!(!default_row(&series(0.5, 0, 3), &series(3.1, 0, 3)).met);
    }
}
