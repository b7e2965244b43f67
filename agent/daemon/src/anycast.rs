//! VIPs that every healthy host has: whether routers are told of them here, and whether the address
//! stands. No I/O.
//!
//! ```text
//!        well               ill, or no longer wanted            after a while
//!  Off ───────► Told ───────────────────────────────► Lingers ───────────────► Off
//!                 │                                      ▲
//!                 └──── the host leaves ────► Leaves ────┘ after `graceful_shutdown`
//! ```
//!
//! The address comes before the route and goes after it: what routers still send is answered.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use kedge_core::{Instant, Name};
use kedge_vip_proto::vrrp::Verdict;

use crate::{announce::Route, desired::Anycast};

/// Every VIP of the kind.
#[derive(Debug, Default)]
pub(crate) struct Anycasts {
    all: BTreeMap<Name, One>,
    /// How long routes say that they go away before they do.
    graceful: Duration,
}

#[derive(Debug)]
struct One {
    vip: Anycast,
    wanted: bool,
    health: Option<(Verdict, String)>,
    /// Every critical track that fails.
    failing: String,
    phase: Phase,
    because: String,
    since: Instant,
}

/// Where a VIP is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is neither route nor address.
    Off,
    /// Routers are told.
    Told,
    /// They are told that the route goes away.
    Leaves { until: Instant },
    /// The route is gone, and the address stands.
    Lingers { until: Instant },
}

impl Phase {
    /// In one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Told => "announced",
            Self::Leaves { .. } => "leaving",
            Self::Lingers { .. } => "withdrawn",
        }
    }
}

/// A VIP as people see it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown<'a> {
    pub vip: &'a Anycast,
    pub phase: Phase,
    pub because: &'a str,
    pub since: Instant,
}

/// A VIP whose way led on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub name: Name,
    pub from: Phase,
    pub to: Phase,
    pub because: String,
}

impl Anycasts {
    /// Makes `wanted` all there are. What is not wanted any more goes in order.
    pub fn want(&mut self, now: Instant, wanted: &[Anycast], graceful: Duration) -> Vec<Moved> {
        self.graceful = graceful;
        for one in self.all.values_mut() {
            one.wanted = wanted.iter().any(|vip| vip.name == one.vip.name);
        }
        for vip in wanted {
            match self.all.get_mut(&vip.name) {
                Some(one) => {
                    if one.vip.health != vip.health {
                        one.health = None;
                    }
                    one.vip = vip.clone();
                }
                None => {
                    self.all
                        .insert(vip.name.clone(), One::new(now, vip.clone()));
                }
            }
        }
        self.settle(now)
    }

    /// Whether a VIP of that name is of this kind.
    pub fn has(&self, name: &Name) -> bool {
        self.all.contains_key(name)
    }

    /// Takes what its health gate says.
    pub fn judge(
        &mut self,
        now: Instant,
        name: &Name,
        verdict: Verdict,
        because: &str,
    ) -> Vec<Moved> {
        if let Some(one) = self.all.get_mut(name) {
            one.health = Some((verdict, because.to_owned()));
        }
        self.settle(now)
    }

    /// Takes which critical tracks fail; empty: none.
    pub fn heed(&mut self, now: Instant, name: &Name, failing: &str) -> Vec<Moved> {
        if let Some(one) = self.all.get_mut(name) {
            failing.clone_into(&mut one.failing);
        }
        self.settle(now)
    }

    /// Goes on where time alone leads.
    pub fn settle(&mut self, now: Instant) -> Vec<Moved> {
        let graceful = self.graceful;
        let mut moved = Vec::new();
        for one in self.all.values_mut() {
            while let Some(step) = one.step(now, graceful) {
                moved.push(step);
            }
        }
        self.all
            .retain(|_, one| one.wanted || one.phase != Phase::Off);
        moved
    }

    /// When [`settle`](Self::settle) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let all = self.all.values().filter_map(|one| match one.phase {
            Phase::Leaves { until } | Phase::Lingers { until } => Some(until),
            Phase::Off | Phase::Told => None,
        });
        all.min()
    }

    /// The routes that routers are told of.
    pub fn routes(&self) -> impl Iterator<Item = Route<'_>> {
        self.all.values().filter_map(|one| {
            let leaving = match one.phase {
                Phase::Told => false,
                Phase::Leaves { .. } => true,
                Phase::Off | Phase::Lingers { .. } => return None,
            };
            Some(Route {
                name: &one.vip.name,
                addresses: one.vip.addresses.clone(),
                announced: &one.vip.announced,
                leaving,
            })
        })
    }

    /// The addresses that stand.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let standing = self.all.values().filter(|one| one.phase != Phase::Off);
        standing.flat_map(|one| one.vip.addresses.iter().copied())
    }

    /// Every one, by name.
    pub fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.all.values().map(|one| Shown {
            vip: &one.vip,
            phase: one.phase,
            because: &one.because,
            since: one.since,
        })
    }
}

impl One {
    fn new(now: Instant, vip: Anycast) -> Self {
        Self {
            vip,
            wanted: true,
            health: None,
            failing: String::new(),
            phase: Phase::Off,
            because: "nothing is known of its service yet".to_owned(),
            since: now,
        }
    }

    /// Why it is ill, or what it is well by.
    fn state(&self) -> Result<String, String> {
        if !self.failing.is_empty() {
            return Err(self.failing.clone());
        }
        match (&self.vip.health, &self.health) {
            (None, _) => Ok("no health probe is configured".to_owned()),
            (Some(_), Some((Verdict::Healthy, because))) => Ok(because.clone()),
            (Some(_), Some((Verdict::Unproven | Verdict::Failing, because))) => {
                Err(because.clone())
            }
            (Some(_), None) => Err("nothing is known of its service yet".to_owned()),
        }
    }

    /// The next step, if one is due.
    fn step(&mut self, now: Instant, graceful: Duration) -> Option<Moved> {
        let (to, because) = match (self.phase, self.goal()) {
            (Phase::Off | Phase::Lingers { .. } | Phase::Leaves { .. }, Goal::Told(because)) => {
                (Phase::Told, because)
            }
            (Phase::Told, Goal::Left(because)) if !graceful.is_zero() => (
                Phase::Leaves {
                    until: now + graceful,
                },
                because,
            ),
            (Phase::Leaves { until }, Goal::Left(_)) if until > now => return None,
            (Phase::Told | Phase::Leaves { .. }, Goal::Left(because) | Goal::Gone(because)) => (
                Phase::Lingers {
                    until: now + LINGER,
                },
                because,
            ),
            (Phase::Lingers { until }, Goal::Left(because) | Goal::Gone(because))
                if until <= now =>
            {
                (Phase::Off, because)
            }
            (Phase::Told, Goal::Told(because))
            | (Phase::Off, Goal::Gone(because) | Goal::Left(because)) => {
                self.because = because;
                return None;
            }
            (Phase::Lingers { .. }, Goal::Left(_) | Goal::Gone(_)) => return None,
        };
        let from = std::mem::replace(&mut self.phase, to);
        self.because.clone_from(&because);
        self.since = now;
        let name = self.vip.name.clone();
        Some(Moved {
            name,
            from,
            to,
            because,
        })
    }

    fn goal(&self) -> Goal {
        if !self.wanted {
            return Goal::Gone("it is not configured any more".to_owned());
        }
        match self.state() {
            Err(because) => Goal::Gone(because),
            Ok(_) if self.vip.leaves => Goal::Left("this host is drained, or goes down".to_owned()),
            Ok(because) => Goal::Told(because),
        }
    }
}

/// Where a VIP is to be.
enum Goal {
    /// Routers are told.
    Told(String),
    /// Routers send elsewhere, and nothing is wrong: there is time.
    Left(String),
    /// Routers send elsewhere at once.
    Gone(String),
}

/// How long an address outlives its route: until every router on the way has heard of it.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
