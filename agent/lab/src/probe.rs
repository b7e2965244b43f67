//! The packet train: one numbered UDP datagram per millisecond, and what its answers say.
//!
//! A probe is 16 bytes: a magic, the train's number, the probe's number. The answer repeats it and
//! adds the name of who answered, so that a switch of the responder is seen even when nothing was
//! lost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A probe's length.
pub const PROBE_BYTES: usize = 16;

/// The longest name an answer carries.
pub const NAME_BYTES: usize = 63;

const MAGIC: [u8; 4] = *b"KPB1";

/// Writes a probe.
#[must_use]
pub fn emit(train: u32, number: u64) -> [u8; PROBE_BYTES] {
    let mut probe = [0; PROBE_BYTES];
    let bytes = MAGIC
        .into_iter()
        .chain(train.to_be_bytes())
        .chain(number.to_be_bytes());
    probe
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, byte)| *to = byte);
    probe
}

/// Reads a probe, or an answer: the train, the number, and the name that follows.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<(u32, u64, &str)> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (train, rest) = rest.split_first_chunk::<4>()?;
    let (number, name) = rest.split_first_chunk::<8>()?;
    let name = std::str::from_utf8(name)
        .ok()
        .filter(|name| name.len() <= NAME_BYTES)?;
    (*magic == MAGIC).then(|| {
        (
            u32::from_be_bytes(*train),
            u64::from_be_bytes(*number),
            name,
        )
    })
}

/// One train while it runs. Times are seconds since the train began, numbers count the ticks of
/// the interval; a tick the prober overslept has no probe.
#[derive(Debug, Default)]
pub struct Train {
    probes: BTreeMap<u64, Probe>,
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    sent: f64,
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    at: f64,
    name: usize,
}

/// What a train measured. It begins with the first probe that was answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeReport {
    /// When the train began, on the machine's CLOCK_BOOTTIME.
    pub begun_boottime_seconds: f64,
    /// The time between probes.
    pub interval_seconds: f64,
    /// Probes sent.
    pub sent: u64,
    /// Probes nobody answered.
    pub lost_probes: u64,
    /// The longest row of lost probes, in time. What the prober overslept next to it counts in:
    /// nobody saw an answer then.
    pub outage_seconds: f64,
    /// Every row of lost probes.
    pub gaps: Vec<Gap>,
    /// Every change of who answered.
    pub switches: Vec<Switch>,
    /// Who answered, and how often.
    pub responders: BTreeMap<String, u64>,
    /// Ticks the prober itself overslept: how far the machine can be trusted.
    pub missed_ticks: u64,
    /// Half of the answers took no longer.
    pub latency_p50_seconds: f64,
    /// The slowest answer.
    pub latency_max_seconds: f64,
}

/// A row of lost probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// When the first probe after the last answered one was due.
    pub at_seconds: f64,
    /// How long until a probe was sent that was answered.
    pub seconds: f64,
    /// How many probes it has.
    pub lost: u64,
    /// Ticks in it that the prober overslept.
    pub missed_ticks: u64,
    /// Whether the train ended before an answer came.
    pub open: bool,
}

/// A change of who answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Switch {
    /// When the first probe was sent that the new one answered.
    pub at_seconds: f64,
    /// Who answered before.
    pub from: String,
    /// Who answers now.
    pub to: String,
}

impl Train {
    /// Records a probe that was sent.
    pub fn sent(&mut self, number: u64, at: f64) {
        self.probes.insert(
            number,
            Probe {
                sent: at,
                answer: None,
            },
        );
    }

    /// Records an answer. Only the first to a probe counts; true when it is news who answers.
    pub fn answered(&mut self, number: u64, at: f64, name: &str) -> bool {
        let known = self.names.iter().position(|known| known == name);
        let Some(probe) = self
            .probes
            .get_mut(&number)
            .filter(|probe| probe.answer.is_none())
        else {
            return false;
        };
        let index = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        probe.answer = Some(Answer { at, name: index });
        let before = self
            .probes
            .range(..number)
            .rev()
            .find_map(|(_, probe)| probe.answer);
        before.is_none_or(|before| before.name != index)
    }

    /// What the train measured so far.
    #[must_use]
    pub fn report(&self, interval: f64) -> ProbeReport {
        let mut report = ProbeReport {
            interval_seconds: interval,
            ..ProbeReport::default()
        };
        let begun = self
            .probes
            .iter()
            .skip_while(|(_, probe)| probe.answer.is_none());
        let mut latencies = Vec::new();
        let mut gap: Option<Gap> = None;
        let mut last: Option<(u64, Probe)> = None;
        let mut speaker: Option<usize> = None;
        for (&number, probe) in begun {
            report.sent += 1;
            let before = last.replace((number, *probe));
            let missed = before.map_or(0, |(before, _)| (number - before).saturating_sub(1));
            report.missed_ticks += missed;
            if let Some(gap) = &mut gap {
                gap.missed_ticks += missed;
            }
            let Some(answer) = probe.answer else {
                report.lost_probes += 1;
                gap.get_or_insert(Gap {
                    at_seconds: before.map_or(probe.sent, |(_, before)| before.sent + interval),
                    seconds: 0.0,
                    lost: 0,
                    missed_ticks: missed,
                    open: true,
                })
                .lost += 1;
                continue;
            };
            latencies.push(answer.at - probe.sent);
            let name = self.name(answer.name);
            *report.responders.entry(name.clone()).or_default() += 1;
            if let Some(before) = speaker.replace(answer.name)
                && before != answer.name
            {
                let from = self.name(before);
                report.switches.push(Switch {
                    at_seconds: probe.sent,
                    from,
                    to: name,
                });
            }
            if let Some(mut ended) = gap.take() {
                ended.seconds = probe.sent - ended.at_seconds;
                ended.open = false;
                report.gaps.push(ended);
            }
        }
        if let (Some(mut open), Some((_, last))) = (gap, last) {
            open.seconds = last.sent + interval - open.at_seconds;
            report.gaps.push(open);
        }
        report.outage_seconds = report
            .gaps
            .iter()
            .map(|gap| gap.seconds)
            .fold(0.0, f64::max);
        latencies.sort_by(f64::total_cmp);
        report.latency_p50_seconds = latencies.get(latencies.len() / 2).copied().unwrap_or(0.0);
        report.latency_max_seconds = latencies.last().copied().unwrap_or(0.0);
        report
    }

    fn name(&self, index: usize) -> String {
        self.names.get(index).cloned().unwrap_or_default()
    }
}

impl ProbeReport {
    /// How much of the outage was seen: without the ticks the prober overslept, in which nobody
    /// can tell whether an answer would have come.
    #[must_use]
    pub fn outage_seen_seconds(&self) -> f64 {
        self.gaps
            .iter()
            .map(|gap| gap.seconds - gap.missed_ticks as f64 * self.interval_seconds)
            .fold(0.0, f64::max)
    }

    /// Who answered last.
    #[must_use]
    pub fn last_responder(&self) -> Option<&str> {
        match self.switches.last() {
            Some(switch) => Some(&switch.to),
            None => self.responders.keys().next().map(String::as_str),
        }
    }
}

#[cfg(test)]
mod tests;
