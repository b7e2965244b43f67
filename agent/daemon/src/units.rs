//! Units of systemd that concern this host: those of Kubernetes, told to the manager, and those that are
//! stopped while the host is drained.

use std::collections::BTreeMap;

use kedge_control::{local::Order, report::ReportedUnit};
use kedge_host::{
    bus::Bus,
    units::{self, UnitState, Verb},
};
use tokio::{sync::mpsc, task::JoinHandle, time::sleep};
use tracing::{info, warn};

use crate::{agent::Agent, config::UnitName, status::holds};

/// What systemd says of them.
#[derive(Debug)]
pub(crate) struct Units {
    pub bus: Bus,
    seen: BTreeMap<&'static str, UnitState>,
    news: mpsc::Receiver<(&'static str, Option<UnitState>)>,
    tell: mpsc::Sender<(&'static str, Option<UnitState>)>,
    following: Vec<JoinHandle<()>>,
    /// Whether those of a drain are stopped, by this agent or one before it.
    stopped: bool,
}

impl Units {
    /// Nobody is asked yet.
    pub(crate) fn new(bus: Bus, drained: bool) -> Self {
        let (tell, news) = mpsc::channel(QUEUE);
        Self {
            bus,
            seen: BTreeMap::new(),
            news,
            tell,
            following: Vec::new(),
            stopped: drained,
        }
    }

    /// Follows the units of Kubernetes while there is a manager to tell.
    pub(crate) fn want(&mut self, wanted: bool) {
        let wanted = wanted && self.bus.is_there();
        if !wanted {
            self.end();
            self.seen.clear();
        } else if self.following.is_empty() {
            let follow = |name| tokio::spawn(follow(self.bus.clone(), name, self.tell.clone()));
            self.following = KUBERNETES.into_iter().map(follow).collect();
        }
    }

    /// Waits until something changed. Loses nothing when it is cancelled.
    pub(crate) async fn changed(&mut self) {
        let Some((name, state)) = self.news.recv().await else {
            return std::future::pending().await;
        };
        match state.filter(UnitState::exists) {
            Some(state) => drop(self.seen.insert(name, state)),
            None => drop(self.seen.remove(name)),
        }
    }

    /// Those that exist, for the manager.
    pub(crate) fn reported(&self) -> Vec<ReportedUnit> {
        let told = |(name, state): (&&'static str, &UnitState)| ReportedUnit {
            name: (*name).to_owned(),
            active: state.active.clone(),
            sub: state.sub.clone(),
        };
        self.seen.iter().map(told).collect()
    }

    fn end(&mut self) {
        for task in self.following.drain(..) {
            task.abort();
        }
    }

    /// Has units stopped in this order, or started in the other one. Nobody waits for it.
    fn order(&self, names: &[UnitName], verb: Verb) {
        let mut names: Vec<String> = names.iter().map(ToString::to_string).collect();
        if verb == Verb::Start {
            names.reverse();
        }
        let bus = self.bus.clone();
        tokio::spawn(async move {
            for name in names {
                match units::order(&bus, &name, verb).await {
                    Ok(()) => info!(unit = name, ?verb, because = "drain", "systemd was told"),
                    Err(why) => warn!(unit = name, ?verb, %why, "systemd does not do it"),
                }
            }
        });
    }
}

impl Drop for Units {
    fn drop(&mut self) {
        self.end();
    }
}

impl Agent {
    /// Stops what a drain stops, once no VIP is held: until then it may be what answers.
    pub(crate) fn stop_drained_units(&mut self) {
        let names = &self.live.config().drain_stops;
        let due = !self.units.stopped && !names.is_empty() && self.orders.drained_since().is_some();
        if due && !self.speaker.snapshot().iter().any(|vip| holds(vip.state)) {
            self.units.stopped = true;
            self.units.order(names, Verb::Stop);
        }
    }

    /// Starts them again, when the drain has ended.
    pub(crate) fn start_drained_units(&mut self, order: Order) {
        let names = &self.live.config().drain_stops;
        if order == Order::Undrain && std::mem::take(&mut self.units.stopped) {
            self.units.order(names, Verb::Start);
        }
    }
}

async fn follow(
    bus: Bus,
    name: &'static str,
    tell: mpsc::Sender<(&'static str, Option<UnitState>)>,
) {
    let mut told = None;
    loop {
        // While nobody can be asked, what was told is as good as anything.
        if let Ok(mut unit) = units::follow(&bus, name).await {
            while let Ok(state) = unit.state().await {
                let state = Some(state);
                if state != told {
                    told.clone_from(&state);
                    if tell.send((name, state)).await.is_err() {
                        return;
                    }
                }
                if unit.changed().await.is_err() {
                    break;
                }
            }
        }
        sleep(RETRY).await;
    }
}

/// Those that Kubernetes hosts have, by the name of their package.
const KUBERNETES: [&str; 7] = [
    "containerd.service",
    "crio.service",
    "k3s-agent.service",
    "k3s.service",
    "kubelet.service",
    "rke2-agent.service",
    "rke2-server.service",
];
const QUEUE: usize = 16;
const RETRY: std::time::Duration = std::time::Duration::from_secs(30);
