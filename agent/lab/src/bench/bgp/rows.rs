//! The rows of the bench and their goals.

use super::{
    super::{
        Row, Samples,
        row::{compared, informative},
    },
    announce::Announced,
    load::Loaded,
    speaker::Speaker,
};

/// Everything that was measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// From the end of a speaker to a withdrawn route, in the order of [`Speaker::ALL`].
    pub(super) death: [Samples; 3],
    /// The same from a cut: of Kedge and BIRD, at 50 ms and at 10.
    pub(super) cut: [Samples; 2],
    pub(super) fast_cut: [Samples; 2],
    /// Why there is nothing of the latter although it was asked for.
    pub(super) refused: Option<String>,
    pub(super) announced: Announced,
    /// Microseconds of processor time for a packet, by how many sessions there are.
    pub(super) costs: Vec<(u16, [Samples; 2])>,
    /// Microseconds for a packet that is heard, and for one that is heard with one that is sent, without a
    /// kernel.
    pub(super) machine: [Samples; 2],
    pub(super) loaded: Vec<Loaded>,
}

impl Measured {
    /// The rows of what was measured.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        rows.extend(self.deaths());
        rows.extend(cut("bfd_50ms", &self.cut, "BIRD, 50 ms", 0.160));
        let fast = cut("bfd_10ms", &self.fast_cut, FAST, 0.035);
        let missed = self.refused.as_ref().map(|_| Row {
            met: false,
            met_excellent: false,
            ..judged(
                compared(
                    "bfd_10ms",
                    "s",
                    &Samples::default(),
                    FAST,
                    &Samples::default(),
                    1e-5,
                ),
                0.035,
            )
        });
        rows.extend(missed.or(fast));
        rows.extend(self.announcements());
        rows.extend(self.costs.iter().map(|(sessions, both)| {
            let [ours, theirs] = both;
            let metric = format!("bfd_packet_cpu.{sessions}");
            let row = compared(&metric, "µs", ours, "BIRD, 50 ms", theirs, 0.001);
            Row {
                must: "p50 ≤ 1.0 × peer".to_owned(),
                excellent: "p50 ≤ 0.8 × peer".to_owned(),
                met: row.p50 <= row.peer_p50,
                met_excellent: row.p50 <= 0.8 * row.peer_p50,
                ..row
            }
        }));
        for (metric, ours) in ["bfd_machine.heard", "bfd_machine.heard_and_sent"]
            .iter()
            .zip(&self.machine)
        {
            if ours.is_empty() {
                continue;
            }
            let row = compared(metric, "µs", ours, "", &Samples::default(), 0.001);
            rows.push(Row {
                ratio: 0.0,
                must: "p50 ≤ 1".to_owned(),
                excellent: "p50 ≤ 0.2".to_owned(),
                met: row.p50 <= 1.0,
                met_excellent: row.p50 <= 0.2,
                ..row
            });
        }
        rows.extend(self.flaps());
        rows
    }

    fn deaths(&self) -> Vec<Row> {
        beside_both("speaker_death", &self.death, |row, is_faster| {
            if !is_faster {
                return informative(row);
            }
            let limit = 1.1 * row.peer_p50 + 0.001;
            Row {
                must: "p50 ≤ 1.1 × peer + 0.001".to_owned(),
                excellent: "p50 ≤ 1.0 × peer".to_owned(),
                met: row.p50 <= limit,
                met_excellent: row.p50 <= row.peer_p50,
                ..row
            }
        })
    }

    fn announcements(&self) -> Vec<Row> {
        beside_both(
            "announce_1000",
            &self.announced.seconds,
            |row, is_faster| {
                if !is_faster {
                    return informative(row);
                }
                Row {
                    must: "p50 ≤ 0.1".to_owned(),
                    excellent: "p50 ≤ 1.0 × peer".to_owned(),
                    met: row.p50 <= 0.1,
                    met_excellent: row.p50 <= row.peer_p50,
                    ..row
                }
            },
        )
    }

    fn flaps(&self) -> Vec<Row> {
        let Some((ours, others)) = self.loaded.split_first() else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for (at, theirs) in others.iter().enumerate() {
            let count = |loaded: &Loaded| f64::from(loaded.flaps);
            let both = [ours, theirs].map(|it| Samples::from_iter([count(it)]));
            let [mine, other] = &both;
            let metric = if at == 0 {
                FLAPS
            } else {
                "bfd_256.flaps.normal"
            };
            let row = compared(
                metric,
                "in the soak",
                mine,
                theirs.subject.name(),
                other,
                1.0,
            );
            let none = ours.flaps == 0;
            let row = Row {
                n: usize::try_from(ours.seconds).unwrap_or(usize::MAX),
                ..row
            };
            rows.push(if at > 0 {
                informative(row)
            } else {
                Row {
                    must: "0".to_owned(),
                    excellent: "0 in 3 600 s".to_owned(),
                    met: none,
                    met_excellent: none && ours.seconds >= 3_600,
                    ..row
                }
            });
        }
        if let Some(theirs) = others.first() {
            let [mine, other] = [ours, theirs].map(|it| Samples::from_iter([it.cost]));
            let peer = theirs.subject.name();
            let cost = compared("bfd_256.cpu", "µs a packet", &mine, peer, &other, 0.001);
            rows.push(informative(cost));
        }
        rows
    }
}

/// A row beside the faster one of both peers, and one beside the other.
fn beside_both(
    metric: &str,
    [ours, bird, gobgp]: &[Samples; 3],
    goal: impl Fn(Row, bool) -> Row,
) -> Vec<Row> {
    if ours.is_empty() {
        return Vec::new();
    }
    let mut peers = [(Speaker::Bird, bird), (Speaker::GoBgp, gobgp)];
    peers.sort_by(|(_, one), (_, other)| one.p50().total_cmp(&other.p50()));
    let [(faster, first), (slower, second)] = peers;
    let slow = format!("{metric}.slower_peer");
    vec![
        goal(
            compared(metric, "s", ours, faster.name(), first, 1e-5),
            true,
        ),
        goal(
            compared(&slow, "s", ours, slower.name(), second, 1e-5),
            false,
        ),
    ]
}

fn cut(metric: &str, [ours, theirs]: &[Samples; 2], peer: &str, limit: f64) -> Option<Row> {
    if ours.is_empty() {
        return None;
    }
    Some(judged(
        compared(metric, "s", ours, peer, theirs, 1e-5),
        limit,
    ))
}

fn judged(row: Row, limit: f64) -> Row {
    Row {
        must: format!("p50 ≤ {limit}, ≤ 1.1 × peer"),
        excellent: format!("max ≤ {limit}, p50 ≤ 1.0 × peer"),
        met: row.p50 <= limit && row.p50 <= 1.1 * row.peer_p50,
        met_excellent: row.max <= limit && row.p50 <= row.peer_p50,
        ..row
    }
}

const FAST: &str = "BIRD, 10 ms, real-time";
const FLAPS: &str = "bfd_256.flaps";

#[cfg(test)]
mod tests {
    use super::{super::pair::Subject, *};

    fn of(values: &[f64]) -> Samples {
        values.iter().copied().collect()
    }

    fn find<'a>(rows: &'a [Row], metric: &str) -> &'a Row {
        rows.iter().find(|row| row.metric == metric).unwrap()
    }

    fn loaded(subject: Subject, flaps: u32) -> Loaded {
        Loaded {
            subject,
            seconds: 60,
            flaps,
            cost: 5.0,
            stood_still: String::new(),
        }
    }

    #[test]
    fn what_was_not_measured_has_no_row() {
        assert_eq!(Measured::default().rows(), []);
    }

    #[test]
    fn a_death_is_judged_against_the_faster_peer() {
        let mut measured = Measured {
            death: [of(&[0.0042]), of(&[0.003]), of(&[0.02])],
            ..Measured::default()
        };
        let rows = measured.rows();
        let death = find(&rows, "speaker_death");
        assert_eq!(death.peer, "BIRD");
        assert!(death.met && !death.met_excellent, "{death:?}");
        let other = find(&rows, "speaker_death.slower_peer");
        assert!(other.must.is_empty() && other.peer == "GoBGP");
        measured.death[0] = of(&[0.0044]);
        assert!(!find(&measured.rows(), "speaker_death").met);
        measured.death[2] = of(&[0.001]);
        let rows = measured.rows();
        assert_eq!(find(&rows, "speaker_death").peer, "GoBGP");
    }

    #[test]
    fn a_cut_is_judged_by_its_limit_and_by_the_peer() {
        let judged = |ours: f64, theirs: f64| {
            let measured = Measured {
                cut: [of(&[ours]), of(&[theirs])],
                fast_cut: [of(&[ours / 5.0]), of(&[theirs / 5.0])],
                ..Measured::default()
            };
            let rows = measured.rows();
            ["bfd_50ms", "bfd_10ms"].map(|metric| find(&rows, metric).met)
        };
        assert_eq!(judged(0.14, 0.13), [true, true]);
        assert_eq!(judged(0.17, 0.17), [false, true]);
        assert_eq!(judged(0.18, 0.18), [false, false]);
        assert_eq!(judged(0.15, 0.13), [false, false], "the peer is faster");
        let measured = Measured {
            refused: Some("it is not kept".to_owned()),
            ..Measured::default()
        };
        let rows = measured.rows();
        assert!(!find(&rows, "bfd_10ms").met && rows.len() == 1);
    }

    #[test]
    fn one_flap_misses_the_goal_and_a_dear_packet_does() {
        let mut measured = Measured {
            costs: vec![
                (8, [of(&[9.0]), of(&[8.0])]),
                (64, [of(&[6.0]), of(&[8.0])]),
            ],
            machine: [of(&[0.1]), of(&[1.1])],
            loaded: vec![
                loaded(Subject::Kedge, 0),
                loaded(Subject::Bird, 3),
                loaded(Subject::BirdAsItComes, 300),
            ],
            ..Measured::default()
        };
        let rows = measured.rows();
        assert!(!find(&rows, "bfd_packet_cpu.8").met);
        assert!(find(&rows, "bfd_packet_cpu.64").met_excellent);
        assert!(find(&rows, "bfd_machine.heard").met_excellent);
        assert!(!find(&rows, "bfd_machine.heard_and_sent").met);
        assert!(find(&rows, "bfd_256.flaps").met);
        assert_eq!(find(&rows, "bfd_256.flaps").n, 60);
        assert_eq!(find(&rows, "bfd_256.flaps.normal").peer_p50, 300.0);
        measured.loaded[0].flaps = 1;
        assert!(!find(&measured.rows(), "bfd_256.flaps").met);
    }
}
