//! Who is heard of: reports, open streams, and what gateways say.
//!
//! A host is alive while it asks for its desired state or reports. When a gateway stops hearing a
//! host it heard before, the host is *doubted*: its open request is answered at once, and unless
//! it asks again within [`PROBE`] it is silent. So a host that lost power is noticed in seconds
//! although its TCP connection stays half open.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use kedge_control::report::{GatewayReport, HostReport};

use crate::{
    snapshot::{GatewayLive, Hearing, HostLive, Live},
    store::Name,
    world::Party,
};

/// How long silence is normal: longer than the pause between two requests of a live client.
pub const GRACE: Duration = Duration::from_secs(30);
/// How long a doubted host has to speak.
pub const PROBE: Duration = Duration::from_secs(2);
/// How long a host has to speak before another machine with its identity takes its place.
pub const CONTEST: Duration = Duration::from_secs(5);
/// How long an identity counts as used twice after that was seen last: a certificate's life.
pub const CALM: Duration = Duration::from_secs(86_400);

/// What was heard since the manager started.
#[derive(Debug)]
pub struct Tracker {
    started: Instant,
    hosts: BTreeMap<Name, Heard<HostReport>>,
    gateways: BTreeMap<(Name, String), Heard<GatewayReport>>,
    /// The namespaces whose plans look at something new.
    news: BTreeSet<String>,
    /// The namespaces of hosts that were doubted since somebody asked.
    doubts: BTreeSet<String>,
    /// Whether plans were told that who was never heard is silent.
    told_unheard: bool,
}

/// A machine, and which of its lives: what tells a copy from its original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// The kernel's boot id.
    pub boot_id: String,
    /// `/etc/machine-id`.
    pub machine_id: String,
}

/// What becomes of whoever asks with an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the one.
    Yours,
    /// Another has it, and is asked whether it lives.
    Probed,
    /// Another has it and lives.
    Taken,
}

#[derive(Debug)]
struct Heard<R> {
    last: Option<Instant>,
    streams: u32,
    doubted: Option<Instant>,
    report: Option<R>,
    /// Who holds the identity, as far as it says.
    holder: Option<Life>,
    /// Since when another wants it, and whether the holder has spoken since.
    contest: Option<(Instant, bool)>,
    /// When it was last seen to be used twice.
    conflict: Option<Instant>,
    /// What plans were told.
    told: Hearing,
    told_contested: bool,
}

impl<R> Default for Heard<R> {
    fn default() -> Self {
        Self {
            last: None,
            streams: 0,
            doubted: None,
            report: None,
            holder: None,
            contest: None,
            conflict: None,
            told: Hearing::Unknown,
            told_contested: false,
        }
    }
}

impl<R> Heard<R> {
    fn hear(&mut self, now: Instant) {
        self.last = Some(now);
        self.doubted = None;
    }

    fn hearing(&self, now: Instant, started: Instant) -> Hearing {
        let doubted = self
            .doubted
            .is_some_and(|since| now.duration_since(since) >= PROBE);
        let recently = |last: Instant| now.duration_since(last) < GRACE;
        if doubted {
            Hearing::Silent
        } else if self.streams > 0 || self.last.is_some_and(recently) {
            Hearing::Alive
        } else if self.last.is_none() && recently(started) {
            Hearing::Unknown
        } else {
            Hearing::Silent
        }
    }
}

impl<R> Heard<R> {
    fn is_contested(&self, now: Instant) -> bool {
        self.conflict
            .is_some_and(|seen| now.duration_since(seen) < CALM)
    }
}

impl Tracker {
    /// Nothing was heard yet.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self {
            started: now,
            hosts: BTreeMap::new(),
            gateways: BTreeMap::new(),
            news: BTreeSet::new(),
            doubts: BTreeSet::new(),
            told_unheard: false,
        }
    }

    /// Takes a host's report; says whether it differs from the last one.
    pub fn host_report(&mut self, name: &Name, report: HostReport, now: Instant) -> bool {
        let heard = self.hosts.entry(name.clone()).or_default();
        if let Some(holder) = &heard.holder {
            let is_holder =
                holder.boot_id == report.boot_id && holder.machine_id == report.machine_id;
            // What another says while the holder asks is not the holder's word.
            if !is_holder && heard.streams > 0 {
                return false;
            }
            if let (true, Some((_, spoke))) = (is_holder, &mut heard.contest) {
                *spoke = true;
            }
        }
        heard.hear(now);
        let news = heard.report.as_ref() != Some(&report);
        heard.report = Some(report);
        if news {
            self.news.insert(name.namespace.clone());
        }
        news
    }

    /// Whether the machine that asks with a host's identity is the one that has it. Where another
    /// has it, that one is probed: its open request is answered at once, and if it does not ask
    /// again within [`CONTEST`] it was the one before a reboot, or is dead.
    pub fn claim_host(&mut self, name: &Name, life: &Life, now: Instant) -> Claim {
        let heard = self.hosts.entry(name.clone()).or_default();
        if *life == Life::default() {
            return Claim::Yours;
        }
        let is_holder = heard.holder.as_ref().is_none_or(|holder| holder == life);
        let recent = heard
            .last
            .is_some_and(|last| now.duration_since(last) < CONTEST);
        if is_holder {
            if let Some((_, spoke)) = &mut heard.contest {
                *spoke = true;
            }
        } else if heard.streams > 0 || recent || heard.contest.is_some() {
            match heard.contest {
                None => {
                    heard.contest = Some((now, false));
                    heard.doubted = Some(now);
                    return Claim::Probed;
                }
                Some((_, true)) => {
                    heard.contest = None;
                    heard.conflict = Some(now);
                    return Claim::Taken;
                }
                Some((since, false)) if now.duration_since(since) < CONTEST => {
                    return Claim::Probed;
                }
                Some(_) => {}
            }
        }
        if !is_holder {
            heard.contest = None;
        }
        heard.holder = Some(life.clone());
        Claim::Yours
    }

    /// A host's identity was seen to be used twice.
    pub fn conflicted(&mut self, name: &Name, now: Instant) {
        self.hosts.entry(name.clone()).or_default().conflict = Some(now);
    }

    /// Takes a gateway's report; says whether it differs from the last one.
    pub fn gateway_report(
        &mut self,
        key: &(Name, String),
        report: GatewayReport,
        now: Instant,
    ) -> bool {
        let heard = self.gateways.entry(key.clone()).or_default();
        heard.hear(now);
        let news = heard.report.as_ref() != Some(&report);
        let alive = |report: &GatewayReport| -> BTreeSet<String> {
            let alive = report.peers.iter().filter(|peer| peer.alive);
            alive.map(|peer| peer.name.clone()).collect()
        };
        let before = heard.report.as_ref().map(alive).unwrap_or_default();
        let lost: BTreeSet<String> = before.difference(&alive(&report)).cloned().collect();
        heard.report = Some(report);
        if news {
            self.news.insert(key.0.namespace.clone());
        }
        for peer in &lost {
            let Some((namespace, name)) = peer.split_once('/') else {
                continue;
            };
            if let Some(host) = self.hosts.get_mut(&Name::new(namespace, name)) {
                host.doubted = Some(now);
                self.doubts.insert(namespace.to_owned());
            }
        }
        news
    }

    /// A host opened a request that waits.
    pub fn open_host(&mut self, name: &Name, now: Instant) {
        let heard = self.hosts.entry(name.clone()).or_default();
        heard.hear(now);
        heard.streams += 1;
    }

    /// A host's waiting request ended.
    pub fn close_host(&mut self, name: &Name, now: Instant) {
        if let Some(heard) = self.hosts.get_mut(name) {
            heard.streams = heard.streams.saturating_sub(1);
            // The answer was written, not read: that says nothing about a doubted host.
            heard.last = Some(now);
        }
    }

    /// A gateway instance opened a request that waits.
    pub fn open_gateway(&mut self, key: &(Name, String), now: Instant) {
        let heard = self.gateways.entry(key.clone()).or_default();
        heard.hear(now);
        heard.streams += 1;
    }

    /// A gateway instance's waiting request ended.
    pub fn close_gateway(&mut self, key: &(Name, String), now: Instant) {
        if let Some(heard) = self.gateways.get_mut(key) {
            heard.streams = heard.streams.saturating_sub(1);
            heard.last = Some(now);
        }
    }

    /// The namespaces of hosts that were doubted since this was last asked.
    pub fn doubts(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.doubts)
    }

    /// Whether a gateway stopped hearing the host and it has not spoken since.
    #[must_use]
    pub fn is_doubted(&self, name: &Name) -> bool {
        self.hosts
            .get(name)
            .is_some_and(|heard| heard.doubted.is_some())
    }

    /// Whether the member asks or reports.
    #[must_use]
    pub fn hears(&self, party: &Party, now: Instant) -> bool {
        let hearing = match party {
            Party::Host(name) => {
                let heard = self.hosts.get(name);
                heard.map(|heard| heard.hearing(now, self.started))
            }
            Party::Instance(gateway, name) => {
                let heard = self.gateways.get(&(gateway.clone(), name.clone()));
                heard.map(|heard| heard.hearing(now, self.started))
            }
        };
        hearing == Some(Hearing::Alive)
    }

    /// Forgets a host.
    pub fn forget_host(&mut self, name: &Name) {
        self.hosts.remove(name);
    }

    /// Forgets a gateway instance.
    pub fn forget_gateway(&mut self, key: &(Name, String)) {
        self.gateways.remove(key);
    }

    /// The namespaces whose plans look at something new since this was last asked; `None` stands
    /// for all of them.
    pub fn news(&mut self, now: Instant) -> Option<BTreeSet<String>> {
        let started = self.started;
        for (name, heard) in &mut self.hosts {
            let (hearing, is_contested) = (heard.hearing(now, started), heard.is_contested(now));
            let last = std::mem::replace(&mut heard.told, hearing);
            let was_contested = std::mem::replace(&mut heard.told_contested, is_contested);
            if last != hearing || was_contested != is_contested {
                self.news.insert(name.namespace.clone());
            }
        }
        for ((gateway, _), heard) in &mut self.gateways {
            let hearing = heard.hearing(now, started);
            if std::mem::replace(&mut heard.told, hearing) != hearing {
                self.news.insert(gateway.namespace.clone());
            }
        }
        let news = std::mem::take(&mut self.news);
        if !self.told_unheard && now.duration_since(started) >= GRACE {
            self.told_unheard = true;
            return None;
        }
        Some(news)
    }

    /// Who is heard of in a namespace, and what is true of its hosts that never were.
    #[must_use]
    pub fn live_in(&self, space: &str, now: Instant) -> (Live, Hearing) {
        let from = Name::new(space, "");
        let hosts = self.hosts.range(from.clone()..);
        let hosts = hosts.take_while(|(name, _)| name.namespace == space);
        let hosts = hosts.map(|(name, heard)| {
            let live = HostLive {
                hearing: heard.hearing(now, self.started),
                report: heard.report.clone(),
                is_contested: heard.is_contested(now),
            };
            (name.clone(), live)
        });
        let gateways = self.gateways.range((from, String::new())..);
        let gateways = gateways.take_while(|((gateway, _), _)| gateway.namespace == space);
        let gateways = gateways.map(|(key, heard)| {
            let live = GatewayLive {
                hearing: heard.hearing(now, self.started),
                report: heard.report.clone(),
            };
            (key.clone(), live)
        });
        let live = Live {
            hosts: hosts.collect(),
            gateways: gateways.collect(),
        };
        (
            live,
            Heard::<HostReport>::default().hearing(now, self.started),
        )
    }

    /// Who is heard of, as plans see it. Without a first word nobody is silent before [`GRACE`].
    #[must_use]
    pub fn live(&self, now: Instant, hosts: impl Iterator<Item = Name>) -> Live {
        let unheard = Heard::<HostReport>::default();
        let hosts = hosts.map(|name| {
            let heard = self.hosts.get(&name).unwrap_or(&unheard);
            let live = HostLive {
                hearing: heard.hearing(now, self.started),
                report: heard.report.clone(),
                is_contested: heard.is_contested(now),
            };
            (name, live)
        });
        let gateways = self.gateways.iter().map(|(key, heard)| {
            let live = GatewayLive {
                hearing: heard.hearing(now, self.started),
                report: heard.report.clone(),
            };
            (key.clone(), live)
        });
        Live {
            hosts: hosts.collect(),
            gateways: gateways.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
