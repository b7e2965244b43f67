//! Which of several gateways packets go through.
//!
//! Sessions to all of them are up at the same time; one is active. What is known of a path comes from
//! three places: BFD with the gateway says whether it is there, the echo says so where there is no
//! BFD, and probes of targets behind it say whether it forwards.
//!
//! ```text
//!   active fails, leaves, or forwards nothing ──► the first that is well, at once
//!   a preferred one is well for `return_after` ──► back to it
//!   nothing behind any of them answers ─────────► the targets are what died: all stays
//!   only over TLS, and another over UDP ────────► the other
//!   nobody is well ─────────────────────────────► the least bad; when all are gone, the same
//! ```

mod evidence;

use std::{collections::VecDeque, fmt, time::Duration};

use kedge_core::{Instant, Machine};

pub use self::evidence::{Evidence, Session, Target, Verdict};

/// How patient the choice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a preferred gateway must be well before it is active again.
    pub return_after: Duration,
    /// How long after the start the first gateway may take to come up before another is taken.
    pub patience: Duration,
    /// For how long authenticated data counts against a session that was lost.
    pub data_counts: Duration,
    /// By how much the last answer through another gateway must be younger before the lack of answers
    /// is this gateway's fault: two probe intervals.
    pub margin: Duration,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The gateways, the preferred ones first. What is known of those that stay is kept.
    Gateways(Vec<String>),
    /// What is known of the paths through some gateways, all of it and at once: two that are lost at
    /// the same time are not tried one after the other.
    Seen(Vec<(String, Evidence)>),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send through this gateway from here on.
    Activate {
        /// The one before.
        from: Option<String>,
        /// The gateway.
        to: String,
        /// Why.
        because: Because,
    },
}

/// Why a gateway is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It is the first of them, and nothing is known yet.
    First,
    /// The one before is no longer wanted.
    Removed,
    /// The one before is in a worse state.
    Better(Verdict),
    /// It is preferred, and was well for that long.
    Returned(Duration),
}

/// Why an input was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// It is about a gateway that is not one of these.
    #[error("no such gateway")]
    Unknown,
}

/// What is known of a gateway, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its name.
    pub gateway: String,
    /// Whether packets go through it.
    pub active: bool,
    /// How it is.
    pub verdict: Verdict,
    /// How long it must still be well before it is active again, where that is what it waits for.
    pub returns_in: Option<Duration>,
}

/// The choice between gateways.
#[derive(Clone, Debug)]
pub struct Failover {
    config: Config,
    begun: Instant,
    now: Instant,
    /// In the order of preference.
    gateways: Vec<Gateway>,
    active: Option<String>,
    because: Because,
    since: Instant,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Debug)]
struct Gateway {
    name: String,
    evidence: Evidence,
    /// Since when it is well, as far as anything is asked of it.
    proven_since: Option<Instant>,
}

impl Failover {
    /// No gateway yet.
    #[must_use]
    pub const fn new(now: Instant, config: Config) -> Self {
        Self {
            config,
            begun: now,
            now,
            gateways: Vec::new(),
            active: None,
            because: Because::First,
            since: now,
            outputs: VecDeque::new(),
        }
    }

    /// Is as patient as that from here on.
    pub const fn configure(&mut self, config: Config) {
        self.config = config;
    }

    /// The gateway that packets go through.
    #[must_use]
    pub fn active(&self) -> Option<&str> {
        self.active.as_deref()
    }

    /// Why it is that one, and since when.
    #[must_use]
    pub const fn because(&self) -> (Because, Instant) {
        (self.because, self.since)
    }

    /// Whether nothing behind any gateway answers, so that the answers say nothing of the gateways.
    #[must_use]
    pub fn is_target_unreachable(&self) -> bool {
        let mut asked = self.reachable().filter_map(|it| it.evidence.target);
        let first = asked.next();
        first.is_some_and(|target| target.missed) && asked.all(|target| target.missed)
    }

    /// Every gateway, in the order of preference.
    #[must_use]
    pub fn view(&self) -> Vec<View> {
        let waits = self.active_place().filter(|at| self.rank_at(*at) == 0);
        let view = |(place, it): (usize, &Gateway)| View {
            gateway: it.name.clone(),
            active: self.active.as_ref() == Some(&it.name),
            verdict: self.verdict(it),
            returns_in: it
                .proven_since
                .filter(|_| waits.is_some_and(|active| place < active))
                .map(|since| (since + self.config.return_after).since(self.now)),
        };
        self.gateways.iter().enumerate().map(view).collect()
    }

    fn take(&mut self, now: Instant, wanted: Vec<String>) {
        let mut known = std::mem::take(&mut self.gateways);
        for name in wanted {
            if self.gateways.iter().any(|it| it.name == name) {
                continue;
            }
            let old = known.iter().position(|it| it.name == name);
            let gateway = old.map_or_else(
                || Gateway {
                    name,
                    evidence: Evidence::default(),
                    proven_since: None,
                },
                |at| known.swap_remove(at),
            );
            self.gateways.push(gateway);
        }
        let is_there = |name: &String| self.gateways.iter().any(|it| it.name == *name);
        if self.active.as_ref().is_some_and(is_there) {
            return;
        }
        let because = match self.active {
            None => Because::First,
            Some(_) => Because::Removed,
        };
        match self.best() {
            Some(best) => self.activate(now, best, because),
            None => self.active = None,
        }
    }

    fn choose(&mut self, now: Instant) {
        for place in 0..self.gateways.len() {
            let proven = self
                .gateways
                .get(place)
                .is_some_and(|it| it.evidence.is_proven() && self.verdict(it) == Verdict::Well);
            if let Some(it) = self.gateways.get_mut(place) {
                it.proven_since = it.proven_since.or(Some(now)).filter(|_| proven);
            }
        }
        let Some(active) = self.active_place() else {
            return;
        };
        let rank = self.rank_at(active);
        if rank == 0 {
            let waited = |it: &Gateway| {
                let since = it.proven_since?;
                (since + self.config.return_after <= now).then(|| now.since(since))
            };
            let mut preferred = self.gateways.iter().take(active).enumerate();
            let back = preferred.find_map(|(place, it)| Some((place, waited(it)?)));
            if let Some((place, waited)) = back {
                self.activate(now, place, Because::Returned(waited));
            }
            return;
        }
        let Some(verdict) = self.gateways.get(active).map(|it| self.verdict(it)) else {
            return;
        };
        if verdict == Verdict::Unknown && now < self.begun + self.config.patience {
            return;
        }
        if let Some(best) = self.best().filter(|best| self.rank_at(*best) < rank) {
            self.activate(now, best, Because::Better(verdict));
        }
    }

    fn activate(&mut self, now: Instant, place: usize, because: Because) {
        let Some(to) = self.gateways.get(place).map(|it| it.name.clone()) else {
            return;
        };
        let from = self.active.replace(to.clone());
        (self.because, self.since) = (because, now);
        self.outputs
            .push_back(Output::Activate { from, to, because });
    }

    /// The first of those that are least bad.
    fn best(&self) -> Option<usize> {
        (0..self.gateways.len()).min_by_key(|place| (self.rank_at(*place), *place))
    }

    fn active_place(&self) -> Option<usize> {
        let active = self.active.as_ref()?;
        self.gateways.iter().position(|it| it.name == *active)
    }

    fn rank_at(&self, place: usize) -> u8 {
        let gateway = self.gateways.get(place);
        gateway.map_or(u8::MAX, |it| self.verdict(it).rank())
    }

    fn verdict(&self, gateway: &Gateway) -> Verdict {
        let alone = gateway.evidence.verdict(self.now, self.config.data_counts);
        let reached = matches!(alone, Verdict::Well | Verdict::OverTls);
        if reached && self.is_to_blame(gateway) {
            return Verdict::ForwardsNothing;
        }
        alone
    }

    /// Whether what lies behind it answers through another gateway, and has done so since it last
    /// answered through this one.
    fn is_to_blame(&self, gateway: &Gateway) -> bool {
        let Some(own) = gateway.evidence.target.filter(|target| target.missed) else {
            return false;
        };
        let others = self.reachable().filter(|it| it.name != gateway.name);
        others.filter_map(|it| it.evidence.target).any(|other| {
            let Some(theirs) = other.answered.filter(|_| !other.missed) else {
                return false;
            };
            own.answered
                .is_none_or(|ours| theirs > ours + self.config.margin)
        })
    }

    fn reachable(&self) -> impl Iterator<Item = &Gateway> {
        let reaches = move |it: &&Gateway| {
            let verdict = it.evidence.verdict(self.now, self.config.data_counts);
            matches!(verdict, Verdict::Well | Verdict::OverTls | Verdict::Leaving)
        };
        self.gateways.iter().filter(reaches)
    }
}

impl Machine for Failover {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        match input {
            Input::Gateways(wanted) => {
                self.now = now;
                self.take(now, wanted);
            }
            Input::Seen(seen) => {
                let is_known = |name: &String| self.gateways.iter().any(|it| it.name == *name);
                if !seen.iter().all(|(name, _)| is_known(name)) {
                    return Err(Reject::Unknown);
                }
                for (name, evidence) in seen {
                    let known = self.gateways.iter_mut().find(|it| it.name == name);
                    if let Some(known) = known {
                        known.evidence = evidence;
                    }
                }
                self.now = now;
            }
        }
        self.choose(now);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            self.now = now;
            self.choose(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let active = self.active_place()?;
        let patience = self.begun + self.config.patience;
        let data = self
            .gateways
            .iter()
            .filter_map(|it| it.evidence.data_until(self.config.data_counts));
        let returns = self.gateways.iter().take(active);
        let returns = returns.filter_map(|it| Some(it.proven_since? + self.config.return_after));
        let all = data.chain(returns).chain([patience]);
        all.filter(|due| *due > self.now).min()
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("it is the first of them"),
            Self::Removed => f.write_str("the one before is no longer wanted"),
            Self::Better(verdict) => write!(f, "the one before {verdict}"),
            Self::Returned(after) => write!(
                f,
                "it is preferred, and was well for {:.1} s",
                after.as_secs_f64()
            ),
        }
    }
}

#[cfg(test)]
mod tests;
