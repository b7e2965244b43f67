//! Endpoints at a gateway that this host answers for while no gateway is reached: what the machine of each says is
//! done here.
//!
//! Taken: listeners first, then the [detour](kedge_net::detour) that leads new connections to them. Left: the
//! detour of new connections first, and what runs has a while to end.

mod probe;
mod relay;
mod view;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::SystemTime,
};

use kedge_control::agent::ShortcutConfig;
use kedge_core::{Coded as _, Fix, Instant, Machine as _, Problem, with_causes};
use kedge_net::{
    clock,
    detour::{DetourError, Detours},
};
use kedge_tunnel_proto::shortcut::{Config, Input, Output, Shortcut, State};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tracing::{info, warn};

use self::{
    probe::Probe,
    relay::{Relay, Targets},
};
use crate::desired::{ShortcutWish, unanswered};

/// Every endpoint that this host may answer for.
#[derive(Debug)]
pub(crate) struct Shortcuts {
    detours: Option<Detours>,
    /// Why the kernel leads nothing here.
    problem: Option<Problem>,
    entries: BTreeMap<String, Entry>,
    refused: Vec<(ShortcutConfig, String)>,
    tell: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    /// Whether a gateway answers through the tunnel.
    tunnel: bool,
}

/// What tasks have to say.
#[derive(Debug)]
enum Event {
    /// Who answered.
    Heard {
        /// The endpoint's name.
        name: String,
        /// Whether it answered by its gateway.
        endpoint: bool,
        /// The hosts of the site that did.
        answering: Vec<IpAddr>,
    },
    /// Of what was left to the gateway nothing runs any more.
    Drained(String),
}

#[derive(Debug)]
struct Entry {
    wish: ShortcutConfig,
    machine: Shortcut,
    /// The state as it was told last, and since when.
    told: (State, SystemTime),
    probe: Option<Probe>,
    targets: watch::Sender<Targets>,
    relay: Option<Relay>,
    draining: Option<Relay>,
    taken: u64,
    /// Why it could not be taken the last time.
    problem: Option<Problem>,
}

impl Shortcuts {
    /// None yet. What an earlier process left in the kernel is gone.
    pub fn new() -> Self {
        let (tell, events) = mpsc::channel(EVENTS);
        let opened = Detours::open().and_then(|mut detours| {
            let count = detours.clear()?;
            if count > 0 {
                info!(
                    count,
                    because = "an earlier process left them",
                    "rules of shortcuts removed"
                );
            }
            Ok(detours)
        });
        let (detours, problem) = match opened {
            Ok(detours) => (Some(detours), None),
            Err(error) => (None, Some(error.problem())),
        };
        Self {
            detours,
            problem,
            entries: BTreeMap::new(),
            refused: Vec::new(),
            tell,
            events,
            tunnel: false,
        }
    }

    /// Answers for these and no others, as far as each one's time has come.
    pub fn want(&mut self, wishes: &[ShortcutWish]) {
        let refused = wishes.iter();
        let refused = refused.filter_map(|it| Some((it.config.clone(), it.refused.clone()?)));
        self.refused = refused.collect();
        let wanted: BTreeMap<&str, &ShortcutConfig> = wishes
            .iter()
            .filter(|wish| wish.refused.is_none())
            .map(|wish| (wish.config.name.as_str(), &wish.config))
            .collect();
        let is_same = |name: &String, entry: &Entry| {
            let wish = wanted.get(name.as_str());
            wish.is_some_and(|wish| places(wish).eq(places(&entry.wish)))
        };
        let gone = self.entries.iter().filter(|(name, it)| !is_same(name, it));
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.forget(&name, "it is not wanted as it was");
        }
        for (name, wish) in wanted {
            let entry = self.entries.entry(name.to_owned());
            let entry = entry.or_insert_with(|| Entry::new(wish.clone(), self.tunnel));
            if entry.wish != *wish {
                entry.wish = wish.clone();
                // It asks others from here on.
                entry.probe = None;
            }
            self.act(name);
        }
    }

    /// Takes whether a gateway answers through the tunnel.
    pub fn tunnel(&mut self, answers: bool) {
        if std::mem::replace(&mut self.tunnel, answers) != answers {
            for name in self.names() {
                self.give(&name, Input::Tunnel(answers));
            }
        }
    }

    /// Waits until something is to be done, and does it. Loses nothing when it is cancelled.
    pub async fn changed(&mut self) {
        let due = self.entries.values();
        let due = due.filter_map(|entry| entry.machine.poll_timeout()).min();
        let due = async {
            match due {
                Some(due) => sleep(due.since(clock::now())).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = self.events.recv() => event,
            () = due => None,
        };
        match event {
            Some(event) => self.hear(event),
            None => self.time(clock::now()),
        }
    }

    /// Leaves every endpoint to its gateway, and ends what runs.
    pub fn leave(&mut self) {
        for name in self.names() {
            self.forget(&name, "the agent ends");
        }
    }

    fn names(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }

    fn time(&mut self, now: Instant) {
        for name in self.names() {
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.machine.handle_timeout(now);
            }
            self.act(&name);
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Heard {
                name,
                endpoint,
                answering,
            } => {
                let Some(entry) = self.entries.get_mut(&name) else {
                    return;
                };
                // Asked before it was known that nobody needs to.
                if !entry.machine.asks() {
                    return;
                }
                let any = !answering.is_empty();
                entry.aim(answering);
                // The gateway's word first: nothing is taken that it answers for again.
                self.give(&name, Input::Endpoint(endpoint));
                self.give(&name, Input::Targets(any));
            }
            Event::Drained(name) => self.settle(&name),
        }
    }

    fn give(&mut self, name: &str, input: Input) {
        if let Some(entry) = self.entries.get_mut(name) {
            // Nothing is told here that it does not wait for.
            let _ = entry.machine.handle_input(clock::now(), input);
        }
        self.act(name);
    }

    /// Does what the machine says, and has somebody ask while it wants to know.
    fn act(&mut self, name: &str) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        while let Some(output) = entry.machine.poll_output() {
            match output {
                Output::Take => {
                    let done = entry.take(name, self.detours.as_mut(), &self.tell);
                    entry.problem = done.err();
                    if let Some(problem) = &entry.problem {
                        let what = &problem.what;
                        warn!(shortcut = name, KEDGE_CODE = %problem.code, what, "not taken, tried again");
                    }
                    let taken = Input::Taken(entry.problem.is_none());
                    let _ = entry.machine.handle_input(clock::now(), taken);
                }
                Output::Release => entry.release(name, self.detours.as_mut()),
            }
        }
        let asks = entry.machine.asks();
        if !asks {
            entry.probe = None;
        } else if entry.probe.is_none() {
            entry.probe = Some(Probe::start(&entry.wish, self.tell.clone()));
        }
        entry.tell(name);
        self.settle(name);
    }

    /// Takes a detour away over which nothing runs any more.
    fn settle(&mut self, name: &str) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        if entry.draining.as_mut().is_some_and(Relay::is_over) {
            entry.draining = None;
            if entry.relay.is_none() {
                entry.lift(self.detours.as_mut());
            }
        }
    }

    fn forget(&mut self, name: &str, because: &str) {
        let Some(mut entry) = self.entries.remove(name) else {
            return;
        };
        let stood = entry.relay.take().is_some() | entry.draining.take().is_some();
        entry.lift(self.detours.as_mut());
        if stood {
            info!(
                shortcut = name,
                from = "this host",
                to = "gateway",
                because,
                "endpoint"
            );
        }
    }
}

impl Entry {
    fn new(wish: ShortcutConfig, tunnel: bool) -> Self {
        let now = clock::now();
        let mut machine = Shortcut::new(now, Config::default());
        let _ = machine.handle_input(now, Input::Tunnel(tunnel));
        let entry = Self {
            told: (machine.state().0, SystemTime::now()),
            wish,
            machine,
            probe: None,
            targets: watch::channel(Targets::default()).0,
            relay: None,
            draining: None,
            taken: 0,
            problem: None,
        };
        entry.aim(Vec::new());
        entry
    }

    /// Leads connections to who answers.
    fn aim(&self, answering: Vec<IpAddr>) {
        let all = self.wish.targets.iter().map(|target| target.address);
        let silent = all.filter(|address| !answering.contains(address));
        let targets = Targets {
            silent: silent.collect(),
            answering,
        };
        self.targets.send_if_modified(|known| {
            let is_news = *known != targets;
            *known = targets;
            is_news
        });
    }

    /// Listens, and leads new connections here.
    fn take(
        &mut self,
        name: &str,
        detours: Option<&mut Detours>,
        tell: &mpsc::Sender<Event>,
    ) -> Result<(), Problem> {
        let Some(detours) = detours else {
            return Err(refused(name, "the kernel tells nobody of its rules"));
        };
        // What runs there has the very places that are listened at.
        self.draining = None;
        let relay = Relay::start((name, &ports(&self.wish)), &self.targets.subscribe(), tell);
        let relay = relay.map_err(|(place, error)| taken(name, place, &error))?;
        let places: Vec<SocketAddr> = places(&self.wish).collect();
        if let Err(error) = detours.put_up(&places) {
            return Err(refused(name, &with_causes(&error)));
        }
        self.relay = Some(relay);
        self.taken += 1;
        Ok(())
    }

    /// Leaves new connections to the gateway, and gives what runs a while.
    fn release(&mut self, name: &str, detours: Option<&mut Detours>) {
        let places: Vec<SocketAddr> = places(&self.wish).collect();
        let narrowed = detours.map_or(Ok(()), |detours| detours.narrow(&places));
        note(name, narrowed);
        if let Some(relay) = self.relay.take() {
            relay.drain();
            self.draining = Some(relay);
        }
    }

    /// Leaves everything to the gateway.
    fn lift(&self, detours: Option<&mut Detours>) {
        let places: Vec<SocketAddr> = places(&self.wish).collect();
        let lifted = detours.map_or(Ok(()), |detours| detours.take_down(&places));
        note(&self.wish.name, lifted);
    }

    /// Says whenever somebody else answers.
    fn tell(&mut self, name: &str) {
        let (state, _) = self.machine.state();
        let (before, _) = self.told;
        if state == before {
            return;
        }
        self.told = (state, SystemTime::now());
        let (from, to) = (view::word(before), view::word(state));
        let because = self.because();
        info!(shortcut = name, from, to, because, "endpoint");
    }
}

/// The endpoint's addresses with their ports.
fn places(wish: &ShortcutConfig) -> impl Iterator<Item = SocketAddr> {
    let ports = || wish.ports.iter().map(|port| port.port.get());
    let addresses = wish.addresses.iter();
    addresses.flat_map(move |address| ports().map(|port| SocketAddr::new(*address, port)))
}

/// The same with the port of the hosts.
fn ports(wish: &ShortcutConfig) -> Vec<(SocketAddr, u16)> {
    let addresses = wish.addresses.iter();
    let all = addresses.flat_map(|address| {
        let ports = wish.ports.iter();
        ports.map(|it| {
            let place = SocketAddr::new(*address, it.port.get());
            (place, it.target_port.get())
        })
    });
    all.collect()
}

fn note(name: &str, done: Result<(), DetourError>) {
    if let Err(error) = done {
        let error = &error as &dyn std::error::Error;
        warn!(shortcut = name, error, "the kernel keeps a part of it");
    }
}

fn refused(name: &str, why: &str) -> Problem {
    unanswered(name, why).fix(Fix::text("see what the kernel said").command("ip rule list"))
}

/// Somebody else listens at a place.
fn taken(name: &str, place: SocketAddr, error: &std::io::Error) -> Problem {
    let port = place.port();
    unanswered(name, &format!("it cannot listen at {place}: {error}")).fix(
        Fix::text("give the endpoint a port at the gateway that nobody listens at on this host")
            .command(format!("ss -Hltnp 'sport = :{port}'")),
    )
}

const EVENTS: usize = 64;

#[cfg(test)]
mod tests;
