//! The rows of the bench and their goals.

use super::{
    super::{
        Row, Samples,
        row::{compared, informative},
    },
    faults::Faults,
    memory::Memory,
    propagation::Propagation,
    proxies::{Cost, Proxies},
};

/// Everything that was measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) propagation: Option<Propagation>,
    pub(super) memory: Option<Memory>,
    pub(super) faults: Faults,
    pub(super) proxies: Option<Proxies>,
}

impl Measured {
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        rows.extend(self.propagation.iter().flat_map(propagation));
        rows.extend(self.memory.iter().flat_map(memory));
        rows.extend(faults(&self.faults));
        rows.extend(self.proxies.iter().flat_map(proxies));
        // Of a part that was left out there is nothing.
        rows.retain(|row| row.n > 0);
        rows
    }
}

fn propagation(measured: &Propagation) -> Vec<Row> {
    let [change, whole, one] = &measured.change;
    let [add, add_whole] = &measured.add;
    let peer = "state of the world";
    vec![
        at_most(
            alone("endpoint_change", "ms", change),
            change.p50(),
            3.0,
            1.5,
        ),
        times(
            beside("endpoint_change.sotw_ratio", "ms", change, peer, whole),
            40.0,
            60.0,
        ),
        Row {
            must: "≤ 1.5 × the peer".to_owned(),
            excellent: "≤ 1.2 ×".to_owned(),
            met: change.p50() <= one.p50() * 1.5,
            met_excellent: change.p50() <= one.p50() * 1.2,
            ..beside(
                "endpoint_change.one_service",
                "ms",
                change,
                "the same with one service",
                one,
            )
        },
        informative(alone("endpoint_change.plan", "ms", &measured.plan)),
        at_most(alone("add_service", "ms", add), add.p50(), 20.0, 10.0),
        times(
            beside("add_service.sotw_ratio", "ms", add, peer, add_whole),
            35.0,
            70.0,
        ),
        informative(alone("add_service.plan", "ms", &measured.add_plan)),
        none(alone("removed_picks", "connections", &measured.picks)),
    ]
}

fn memory(measured: &Memory) -> Vec<Row> {
    let [plain, checked, two] = &measured.each;
    vec![
        at_most(
            alone("envoy_kb_per_service", "KiB", plain),
            plain.max(),
            45.0,
            42.0,
        ),
        informative(alone("envoy_kb_per_service.checks", "KiB", checked)),
        informative(alone("envoy_kb_per_service.two_threads", "KiB", two)),
    ]
}

fn faults(measured: &Faults) -> Vec<Row> {
    let backoff = "Envoy's default back-off";
    let restart = &measured.reattach;
    let hole = &measured.hole;
    vec![
        none(alone("restart.dropped", "connections", &measured.dropped)),
        at_most(
            beside(
                "restart.reattach",
                "s",
                restart,
                backoff,
                &measured.default_backoff,
            ),
            restart.max(),
            1.0,
            0.3,
        ),
        none(alone(
            "restart.manager_dropped",
            "connections",
            &measured.manager_dropped,
        )),
        informative(alone(
            "restart.manager_change",
            "s",
            &measured.manager_change,
        )),
        informative(alone("add_service.object", "s", &measured.object)),
        at_most(
            compared(
                "blackhole",
                "s",
                hole,
                "checks of 5 s, 5 s, 3 alone",
                &measured.slow_checks,
                // A client connects each 20 ms.
                0.02,
            ),
            hole.max(),
            1.0,
            0.5,
        ),
        informative(alone("blackhole.late", "s", &measured.hole_late)),
        at_most(
            alone("blackhole.checks", "s", &measured.quick_checks),
            measured.quick_checks.max(),
            2.5,
            2.3,
        ),
    ]
}

fn proxies(measured: &Proxies) -> Vec<Row> {
    let (builtin, envoy) = (&measured.builtin, &measured.envoy);
    let mut rows = vec![
        share(
            "builtin.cpu_ratio",
            (builtin, "Envoy", envoy),
            bulk,
            [0.6, 0.5],
        ),
        share(
            "builtin.cpu_ratio.connect",
            (builtin, "Envoy", envoy),
            connect,
            [0.75, 0.6],
        ),
    ];
    if let Some(haproxy) = &measured.haproxy {
        rows.push(share(
            "envoy.cpu_ratio",
            (envoy, "HAProxy", haproxy),
            bulk,
            [1.0, 0.9],
        ));
        rows.push(share(
            "envoy.cpu_ratio.connect",
            (envoy, "HAProxy", haproxy),
            connect,
            [2.0, 1.8],
        ));
    }
    let resident = &builtin.resident;
    let row = beside("builtin.rss", "MiB", resident, "Envoy", &envoy.resident);
    rows.push(at_most(row, resident.max(), 10.0, 5.0));
    rows.push(informative(beside(
        "builtin.rss.anonymous",
        "MiB",
        &builtin.anonymous,
        "Envoy",
        &envoy.anonymous,
    )));
    for (name, cost) in [("builtin", builtin), ("envoy", envoy)] {
        let metric = format!("{name}.refused");
        rows.push(none(alone(&metric, "connections", &cost.refused)));
    }
    rows
}

fn bulk(cost: &Cost) -> &Samples {
    &cost.bulk
}

fn connect(cost: &Cost) -> &Samples {
    &cost.connect
}

/// Which share of the peer's processor time ours is to be at most.
fn share(
    metric: &str,
    (ours, peer, theirs): (&Cost, &str, &Cost),
    of: fn(&Cost) -> &Samples,
    [must, excellent]: [f64; 2],
) -> Row {
    let (ours, theirs) = (of(ours), of(theirs));
    let unit = if metric.ends_with("connect") {
        "µs"
    } else {
        "s/GiB"
    };
    let share = ours.p50() / theirs.p50().max(1e-9);
    Row {
        must: format!("≤ {must} × the peer"),
        excellent: format!("≤ {excellent} ×"),
        met: share <= must,
        met_excellent: share <= excellent,
        ..beside(metric, unit, ours, peer, theirs)
    }
}

fn alone(metric: &str, unit: &str, samples: &Samples) -> Row {
    Row {
        ratio: 0.0,
        ..compared(metric, unit, samples, "", &Samples::default(), 1e-9)
    }
}

fn beside(metric: &str, unit: &str, ours: &Samples, peer: &str, theirs: &Samples) -> Row {
    compared(metric, unit, ours, peer, theirs, 1e-9)
}

fn at_most(row: Row, value: f64, must: f64, excellent: f64) -> Row {
    Row {
        must: format!("≤ {must}"),
        excellent: format!("≤ {excellent}"),
        met: value <= must,
        met_excellent: value <= excellent,
        ..row
    }
}

/// How many times better it is to be than the peer.
fn times(row: Row, must: f64, excellent: f64) -> Row {
    Row {
        must: format!("≥ {must} ×"),
        excellent: format!("≥ {excellent} ×"),
        met: row.ratio >= must,
        met_excellent: row.ratio >= excellent,
        ..row
    }
}

fn none(row: Row) -> Row {
    let is_met = row.max == 0.0;
    Row {
        must: "0".to_owned(),
        excellent: "0".to_owned(),
        met: is_met,
        met_excellent: is_met,
        ..row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        values.iter().copied().collect()
    }

    #[test]
    fn each_row_is_judged_by_its_own_goal() {
        let measured = Measured {
            propagation: Some(Propagation {
                change: [samples(&[1.0, 2.0]), samples(&[80.0]), samples(&[0.5])],
                add: [samples(&[25.0]), samples(&[100.0])],
                picks: samples(&[0.0, 1.0]),
                ..Propagation::default()
            }),
            ..Measured::default()
        };
        let rows = measured.rows();
        let met = |metric: &str| {
            let row = rows.iter().find(|row| row.metric == metric).unwrap();
            (row.met, row.met_excellent)
        };
        assert_eq!(met("endpoint_change"), (true, true));
        assert_eq!(met("endpoint_change.sotw_ratio"), (true, true));
        assert_eq!(met("endpoint_change.one_service"), (false, false));
        assert_eq!(met("add_service"), (false, false));
        assert_eq!(met("add_service.sotw_ratio"), (false, false));
        assert_eq!(met("removed_picks"), (false, false));
        assert_eq!(rows.len(), 6, "what was not measured has no row: {rows:?}");
    }

    #[test]
    fn a_share_of_the_peer_is_no_more_than_it_may_be() {
        let cost = |bulk: f64| Cost {
            bulk: samples(&[bulk]),
            ..Cost::default()
        };
        let (ours, theirs) = (cost(0.55), cost(1.0));
        let row = share(
            "builtin.cpu_ratio",
            (&ours, "Envoy", &theirs),
            bulk,
            [0.6, 0.5],
        );
        assert_eq!(
            (row.met, row.met_excellent, &*row.unit),
            (true, false, "s/GiB")
        );
        let row = share(
            "builtin.cpu_ratio",
            (&theirs, "Envoy", &ours),
            bulk,
            [0.6, 0.5],
        );
        assert!(!row.met);
    }
}
