//! Health gates: who asks which URL, and what the VIPs are told.
//!
//! VIPs with the same probe share one task. A verdict survives a restart of the process together
//! with the boot id: an upgrade must not look like "no API server has answered since boot", or it
//! would move the VIP.

mod gate;
mod probe;
mod trust;

use std::collections::BTreeMap;

use kedge_control::local::HealthStatus;
use kedge_core::{Name, Problem};
use kedge_host::{Root, saver::Saver, state::Store};
use kedge_vip_proto::vrrp::Verdict;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use tracing::{debug, info};

use self::{
    gate::Gate,
    probe::{Answer, Asker},
};
use crate::{boot, config::ProbeConfig};

/// What a gate tells the rest of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GateEvent {
    /// The verdict for a VIP, or what is wrong with its service, changed, or is told for the first time.
    Verdict {
        vip: Name,
        verdict: Verdict,
        because: String,
    },
    /// The fresh probe that was asked for has ended.
    Fresh { vip: Name, healthy: bool },
}

/// Every health gate of the host.
pub(crate) struct Gates {
    root: Root,
    saver: Saver<Remembered>,
    boot_id: String,
    remembered: Remembered,
    /// What could not be read of them.
    unread: Vec<Problem>,
    vips: BTreeMap<Name, ProbeConfig>,
    tasks: BTreeMap<ProbeConfig, Running>,
    results: mpsc::Receiver<(ProbeConfig, Told)>,
    /// Kept so that `results` never ends, and cloned into each task.
    tell: mpsc::Sender<(ProbeConfig, Told)>,
}

struct Running {
    task: JoinHandle<()>,
    ask: mpsc::Sender<()>,
    view: watch::Receiver<GateView>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is known of one probe.
#[derive(Clone, Debug, Default, PartialEq)]
struct GateView {
    verdict: Verdict,
    because: String,
    latency_seconds: Option<f64>,
}

#[derive(Clone, Debug)]
enum Told {
    Verdict,
    Fresh(bool),
}

/// The last verdicts, by URL; they count only within their boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remembered {
    boot_id: String,
    /// Whether the URL answered well: one that never did is not in here.
    healthy: BTreeMap<String, bool>,
}

impl Remembered {
    fn of_boot(self, boot_id: &str) -> Self {
        if boot::is_same(&self.boot_id, boot_id) {
            self
        } else {
            Self {
                boot_id: boot_id.to_owned(),
                healthy: BTreeMap::new(),
            }
        }
    }

    fn verdict(&self, url: &str) -> Option<Verdict> {
        self.healthy.get(url).map(|healthy| match healthy {
            true => Verdict::Healthy,
            false => Verdict::Failing,
        })
    }

    /// Notes a verdict; whether that is news.
    fn note(&mut self, url: &str, verdict: Verdict) -> bool {
        let healthy = match verdict {
            Verdict::Healthy => true,
            Verdict::Failing => false,
            Verdict::Unproven => return false,
        };
        self.healthy.insert(url.to_owned(), healthy) != Some(healthy)
    }
}

impl Gates {
    /// No gates yet; verdicts of this boot are read from `store`.
    pub fn new(root: Root, store: Store, boot_id: String) -> Self {
        let restored = store.load::<Remembered>(STATE);
        let remembered = restored.value.unwrap_or_default();
        let (tell, results) = mpsc::channel(QUEUE);
        Self {
            root,
            saver: Saver::start(store, STATE),
            remembered: remembered.of_boot(&boot_id),
            unread: restored.problems,
            boot_id,
            vips: BTreeMap::new(),
            tasks: BTreeMap::new(),
            results,
            tell,
        }
    }

    /// Makes `wanted` the VIPs that have a gate. Probes that stay go on undisturbed.
    ///
    /// Returns the verdicts of the VIPs that are new or have another probe.
    pub fn apply(&mut self, wanted: BTreeMap<Name, ProbeConfig>) -> Vec<GateEvent> {
        self.tasks
            .retain(|probe, _| wanted.values().any(|wanted| wanted == probe));
        for probe in wanted.values() {
            if !self.tasks.contains_key(probe) {
                let running = self.start(probe);
                self.tasks.insert(probe.clone(), running);
            }
        }
        let changed: Vec<Name> = wanted
            .iter()
            .filter(|(name, probe)| self.vips.get(*name) != Some(probe))
            .map(|(name, _)| name.clone())
            .collect();
        self.vips = wanted;
        changed
            .iter()
            .filter_map(|name| self.verdict(name))
            .collect()
    }

    /// Asks the service behind a VIP at once; answered by [`GateEvent::Fresh`].
    pub fn probe_now(&self, vip: &Name) {
        let running = self.vips.get(vip).and_then(|probe| self.tasks.get(probe));
        if let Some(running) = running {
            // A full queue holds the same wish already.
            let _ = running.ask.try_send(());
        }
    }

    /// Waits for what a gate has to tell. Loses nothing when it is cancelled.
    pub async fn changed(&mut self) -> Vec<GateEvent> {
        let Some((probe, told)) = self.results.recv().await else {
            return std::future::pending().await;
        };
        if matches!(told, Told::Verdict) {
            self.persist(&probe);
        }
        let vips = self.vips.iter().filter(|(_, of)| **of == probe);
        vips.filter_map(|(vip, _)| match told {
            Told::Verdict => self.verdict(vip),
            Told::Fresh(healthy) => Some(GateEvent::Fresh {
                vip: vip.clone(),
                healthy,
            }),
        })
        .collect()
    }

    /// The gates as people see them.
    pub fn status(&self) -> Vec<HealthStatus> {
        let tell = |(vip, probe): (&Name, &ProbeConfig)| {
            let view = self.tasks.get(probe)?.view.borrow().clone();
            Some(HealthStatus {
                vip: vip.to_string(),
                probe: probe.url.to_string(),
                verdict: word(view.verdict).to_owned(),
                because: view.because,
                latency_seconds: view.latency_seconds,
            })
        };
        self.vips.iter().filter_map(tell).collect()
    }

    /// Whether what a VIP leads to answers here, once that is known.
    pub fn answers(&self, vip: &Name) -> Option<bool> {
        let view = self.tasks.get(self.vips.get(vip)?)?.view.borrow();
        match view.verdict {
            Verdict::Healthy => Some(true),
            Verdict::Failing => Some(false),
            Verdict::Unproven => None,
        }
    }

    /// Every verdict there is.
    pub fn verdicts(&self) -> Vec<GateEvent> {
        let vips = self.vips.keys();
        vips.filter_map(|vip| self.verdict(vip)).collect()
    }

    /// What is wrong with keeping the verdicts.
    pub fn problems(&self) -> impl Iterator<Item = Problem> + '_ {
        self.unread.iter().cloned().chain(self.saver.problem())
    }

    /// Ends every probe and has the last verdicts on the disk.
    pub async fn finish(self) {
        drop(self.tasks);
        self.saver.finish().await;
    }

    fn verdict(&self, vip: &Name) -> Option<GateEvent> {
        let view = self.tasks.get(self.vips.get(vip)?)?.view.borrow();
        Some(GateEvent::Verdict {
            vip: vip.clone(),
            verdict: view.verdict,
            because: view.because.clone(),
        })
    }

    fn persist(&mut self, probe: &ProbeConfig) {
        let Some(running) = self.tasks.get(probe) else {
            return;
        };
        let verdict = running.view.borrow().verdict;
        if self.remembered.note(probe.url.as_str(), verdict) {
            self.saver.save(self.remembered.clone());
        }
    }

    fn start(&self, probe: &ProbeConfig) -> Running {
        let restored = self.remembered.verdict(probe.url.as_str());
        let gate = Gate::new(probe.rise, probe.fall, restored);
        let first = GateView {
            verdict: gate.verdict(),
            because: restored.map_or_else(
                || unproven(probe, None),
                |verdict| {
                    format!(
                        "{} was {} before Kedge was restarted",
                        probe.url,
                        word(verdict)
                    )
                },
            ),
            latency_seconds: None,
        };
        debug!(probe = %probe.url, boot = self.boot_id, verdict = %first.verdict, "gate starts");
        let (publish, view) = watch::channel(first);
        let (ask, asked) = mpsc::channel(1);
        let asker = Asker::new(probe, &self.root);
        let task = tokio::spawn(ask_for_ever(
            probe.clone(),
            gate,
            asker,
            asked,
            publish,
            self.tell.clone(),
        ));
        Running { task, ask, view }
    }
}

async fn ask_for_ever(
    probe: ProbeConfig,
    mut gate: Gate,
    mut asker: Asker,
    mut asked: mpsc::Receiver<()>,
    publish: watch::Sender<GateView>,
    tell: mpsc::Sender<(ProbeConfig, Told)>,
) {
    let mut next = Instant::now();
    let mut told = publish.borrow().because.clone();
    loop {
        let fresh = tokio::select! {
            biased;
            wish = asked.recv() => match wish {
                Some(()) => true,
                None => return,
            },
            () = sleep_until(next) => false,
        };
        // Measured from start to start, so that slow answers do not thin out the probes.
        next = Instant::now() + probe.interval;
        let answer = asker.ask().await;
        let from = gate.verdict();
        let changed = gate.observe(answer.healthy);
        let because = because(&probe, &gate, &answer);
        if let Some(verdict) = changed {
            info!(
                probe = %probe.url, from = word(from), to = word(verdict), because, "health"
            );
        }
        // What is wrong may change while the verdict stays: people look for the cause of today.
        let ill = gate.verdict() != Verdict::Healthy && !answer.healthy;
        let is_news = changed.is_some() || (ill && because != told);
        if is_news {
            told.clone_from(&because);
        }
        publish.send_replace(GateView {
            verdict: gate.verdict(),
            because,
            latency_seconds: answer.healthy.then_some(answer.latency.as_secs_f64()),
        });
        let news = [
            is_news.then_some(Told::Verdict),
            fresh.then_some(Told::Fresh(answer.healthy)),
        ];
        for told in news.into_iter().flatten() {
            if tell.send((probe.clone(), told)).await.is_err() {
                return;
            }
        }
    }
}

fn because(probe: &ProbeConfig, gate: &Gate, answer: &Answer) -> String {
    let url = &probe.url;
    let what = &answer.what;
    let millis = answer.latency.as_secs_f64() * 1_000.0;
    match (gate.verdict(), answer.healthy) {
        (Verdict::Unproven, _) => unproven(probe, Some(what)),
        (Verdict::Healthy, true) => format!("{url} {what} in {millis:.1} ms"),
        (Verdict::Healthy, false) => {
            let (against, fall) = (gate.against(), probe.fall);
            format!("{url} failed {against} of the {fall} times in a row that count: {what}")
        }
        (Verdict::Failing, false) => format!("{url} fails: {what}"),
        (Verdict::Failing, true) => {
            let (against, rise) = (gate.against(), probe.rise);
            format!("{url} {what}, {against} of the {rise} times in a row that count")
        }
    }
}

fn unproven(probe: &ProbeConfig, what: Option<&str>) -> String {
    let uri = probe.url.uri();
    let place = uri
        .authority()
        .map_or_else(String::new, ToString::to_string);
    // What it answers with may be the very fault: a certificate, a status.
    match (probe.auto, what) {
        (true, None) => format!("no API server has answered on {place} since boot (health: auto)"),
        (true, Some(what)) => {
            format!("no API server was healthy on {place} since boot (health: auto): {what}")
        }
        (false, None) => format!("{} has not answered since boot", probe.url),
        (false, Some(what)) => format!("{} was not healthy since boot: {what}", probe.url),
    }
}

/// The verdict as one word.
pub(crate) const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unproven => "unproven",
        Verdict::Healthy => "healthy",
        Verdict::Failing => "failing",
    }
}

const STATE: &str = "health";
/// Gates wait when nobody takes their verdicts; they never drop one.
const QUEUE: usize = 16;

#[cfg(test)]
mod tests;
