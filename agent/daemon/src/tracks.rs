//! What VIPs track beside their link and their service: who watches it, and what the VIPs are told.
//!
//! Tracks of the same thing share one task. The first word about interfaces, processes and files is
//! there before the VIP takes part; that of a script, a BFD session or a unit is its last one of this boot, or
//! that all is well: a restart of the agent moves no VIP.

mod seen;
mod sum;
mod unit;
mod watch;

use std::{collections::BTreeMap, net::IpAddr};

use kedge_control::local::TrackStatus;
use kedge_core::{Name, Problem};
use kedge_host::{bus::Bus, saver::Saver, state::Store};
use kedge_vip_speaker::{Tracks as Told, bfd::Levels};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, watch as told},
    task::JoinHandle,
};
use tracing::info;

pub(crate) use self::seen::Seen;
use crate::{
    boot,
    config::{Failure, ScriptConfig, TrackConfig, Tracked},
};

/// What a VIP is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrackEvent {
    pub vip: Name,
    pub told: Told,
}

/// Everything that is tracked on this host.
pub(crate) struct Tracks {
    saver: Saver<Remembered>,
    remembered: Remembered,
    /// What could not be read of them.
    unread: Option<Problem>,
    vips: BTreeMap<Name, Of>,
    running: BTreeMap<Tracked, Running>,
    /// What BFD sessions say.
    levels: told::Receiver<Levels>,
    /// Whom they watch.
    peers: BTreeMap<Name, IpAddr>,
    /// Where units are asked about.
    bus: Option<Bus>,
    results: mpsc::Receiver<(Tracked, Seen)>,
    /// Kept so that `results` never ends, and cloned into each task.
    tell: mpsc::Sender<(Tracked, Seen)>,
}

/// What one VIP tracks, by name.
pub(crate) type Of = BTreeMap<Name, TrackConfig>;

struct Running {
    task: JoinHandle<()>,
    /// As the VIPs were told.
    seen: Seen,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The last answers of scripts and BFD sessions; they count only within their boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remembered {
    boot_id: String,
    /// By program and arguments, or name and peer.
    good: BTreeMap<String, bool>,
}

impl Tracks {
    /// Nothing is tracked yet; what scripts answered within this boot is read from `store`.
    pub fn new(store: Store, boot_id: String) -> Self {
        let restored = store.load::<Remembered>(STATE);
        let remembered = restored
            .value
            .filter(|it| boot::is_same(&it.boot_id, &boot_id));
        let (tell, results) = mpsc::channel(QUEUE);
        Self {
            saver: Saver::start(store, STATE),
            remembered: remembered.unwrap_or(Remembered {
                boot_id,
                good: BTreeMap::new(),
            }),
            unread: restored.problems.into_iter().next(),
            vips: BTreeMap::new(),
            running: BTreeMap::new(),
            levels: told::Sender::default().subscribe(),
            peers: BTreeMap::new(),
            bus: None,
            results,
            tell,
        }
    }

    /// With the bus on which systemd says what becomes of units.
    pub fn over(self, bus: Bus) -> Self {
        let bus = Some(bus);
        Self { bus, ..self }
    }

    /// Where BFD sessions say what they see, and whom each of them watches.
    pub fn follow(&mut self, levels: told::Receiver<Levels>, peers: BTreeMap<Name, IpAddr>) {
        (self.levels, self.peers) = (levels, peers);
    }

    /// Makes `wanted` what is tracked. What stays is watched on undisturbed.
    ///
    /// Returns what VIPs are told that are new or track something else.
    pub fn apply(&mut self, wanted: BTreeMap<Name, Of>) -> Vec<TrackEvent> {
        let all = || wanted.values().flat_map(BTreeMap::values);
        self.running
            .retain(|what, _| all().any(|track| track.what == *what));
        for TrackConfig { what, .. } in all() {
            if !self.running.contains_key(what) {
                let running = self.start(what);
                self.running.insert(what.clone(), running);
            }
        }
        let before = std::mem::replace(&mut self.vips, wanted);
        let changed = |vip: &&Name| before.get(*vip) != self.vips.get(*vip);
        let changed = self.vips.keys().filter(changed);
        changed
            .filter_map(|vip| self.tell(vip, |_| false))
            .collect()
    }

    /// Waits for something that is tracked to change. Loses nothing when it is cancelled.
    pub async fn changed(&mut self) -> Vec<TrackEvent> {
        let Some((what, seen)) = self.results.recv().await else {
            return std::future::pending().await;
        };
        let Some(running) = self.running.get_mut(&what) else {
            return Vec::new();
        };
        let turned = running.seen.good != seen.good;
        running.seen = seen;
        if turned {
            let Seen { good, because } = &running.seen;
            info!(track = %what, good, because, "a track changed");
        }
        if let Some(key) = self.key(&what) {
            let good = self.running.get(&what).is_none_or(|it| it.seen.good);
            if self.remembered.good.insert(key, good) != Some(good) {
                self.saver.save(self.remembered.clone());
            }
        }
        let about = |track: &TrackConfig| track.what == what;
        let concerned = self.vips.iter().filter(|(_, of)| of.values().any(about));
        concerned
            .filter_map(|(vip, _)| self.tell(vip, about))
            .collect()
    }

    /// What every VIP is told.
    pub fn all(&self) -> Vec<TrackEvent> {
        let vips = self.vips.keys();
        vips.filter_map(|vip| self.tell(vip, |_| false)).collect()
    }

    /// What a VIP tracks, as people see it.
    pub fn of(&self, vip: &Name) -> Vec<TrackStatus> {
        let tracks = self.vips.get(vip).into_iter().flatten();
        let tell = |(name, track): (&Name, &TrackConfig)| {
            let seen = &self.running.get(&track.what)?.seen;
            Some(TrackStatus {
                name: name.to_string(),
                what: track.what.to_string(),
                good: seen.good,
                because: seen.because.clone(),
                weight: match track.failure {
                    Failure::Costs(cost) => i16::try_from(cost).ok().map(|cost| -cost),
                    Failure::Bars => None,
                },
                critical: track.failure == Failure::Bars,
            })
        };
        tracks.filter_map(tell).collect()
    }

    /// What is wrong with keeping the answers.
    pub fn problems(&self) -> impl Iterator<Item = Problem> + '_ {
        self.unread.iter().cloned().chain(self.saver.problem())
    }

    /// Watches nothing any more and has the last answers on the disk.
    pub async fn finish(self) {
        drop(self.running);
        self.saver.finish().await;
    }

    fn tell(&self, vip: &Name, changed: impl Fn(&TrackConfig) -> bool) -> Option<TrackEvent> {
        let of = self.vips.get(vip)?;
        let told = sum::sum(
            of,
            |what| self.running.get(what).map(|it| &it.seen),
            changed,
        );
        Some(TrackEvent {
            vip: vip.clone(),
            told,
        })
    }

    fn start(&self, what: &Tracked) -> Running {
        let tell = watch::Teller::new(what.clone(), self.tell.clone());
        let (seen, task) = match what {
            Tracked::Interface(name) => watch::interface(name.clone(), tell),
            Tracked::Process(name) => watch::process(name.clone(), tell),
            Tracked::File(path) => watch::file(path.clone(), tell),
            Tracked::Script(script) => watch::script(script.clone(), self.restored(what), tell),
            Tracked::Bfd(name) => {
                let was_lost = self.restored(what) == Some(false);
                watch::bfd(name.clone(), self.levels.clone(), was_lost, tell)
            }
            Tracked::Unit(name) => {
                let before = self.restored(what);
                unit::watch(name.clone(), self.bus.clone(), before, tell)
            }
        };
        Running { task, seen }
    }

    /// What was last said of it within this boot.
    fn restored(&self, what: &Tracked) -> Option<bool> {
        self.remembered.good.get(&self.key(what)?).copied()
    }

    /// What something is remembered by, if it is.
    fn key(&self, what: &Tracked) -> Option<String> {
        match what {
            Tracked::Script(script) => Some(key(script)),
            Tracked::Bfd(name) => {
                let peer = self.peers.get(name)?;
                Some(format!("bfd\u{1f}{name}\u{1f}{peer}"))
            }
            Tracked::Unit(name) => Some(format!("unit\u{1f}{name}")),
            Tracked::Interface(_) | Tracked::Process(_) | Tracked::File(_) => None,
        }
    }
}

/// What a script is remembered by.
fn key(script: &ScriptConfig) -> String {
    let program = script.program.to_string_lossy();
    let words = std::iter::once(program.as_ref());
    let words = words.chain(script.arguments.iter().map(String::as_str));
    words.collect::<Vec<_>>().join("\u{1f}")
}

const STATE: &str = "tracks";
/// Tasks wait when nobody takes what they saw; they never drop it.
const QUEUE: usize = 16;

#[cfg(test)]
mod tests;
