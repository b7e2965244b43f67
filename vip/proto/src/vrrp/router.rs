//! The virtual router itself: what it knows, which inputs it takes, and its deadlines.

use std::{collections::VecDeque, net::IpAddr, sync::Arc, time::Duration};

use kedge_core::{
    Instant, Machine,
    vip::{AdvertInterval, Priority, RouterState},
};

use super::{
    Because, Command, Config, ConfigError, Event, Input, Link, LinkLoss, Output, Peer, Reject,
    Stats, Ticket, Verdict, View, Waiting,
    checksum::Checksums,
    damping::Damping,
    health::{self, FreshProbe},
    notices::Notices,
    state::State,
    timing,
};
use crate::claim::{Announcer, Defence};

/// One virtual router: (interface, VRID, address family).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    pub(super) config: Config,
    pub(super) verdict: Verdict,
    pub(super) link: Link,
    pub(super) state: State,
    pub(super) since: Instant,
    pub(super) because: Because,
    /// `Active_Adver_Interval`: learned from the Active, our own without one.
    pub(super) interval: AdvertInterval,
    /// The Active as last accepted.
    pub(super) active: Option<Peer>,

    /// Whether no frame from another station was heard since the link came up.
    pub(super) deaf: bool,
    /// The earliest take-over that the first-claim and link-up waits allow, skew included: hosts
    /// that boot together must not take over together.
    pub(super) not_before: Instant,
    /// Whether nobody on this host ever held the addresses.
    pub(super) unclaimed: bool,
    /// From when on `preempt` counts.
    pub(super) preempt_from: Instant,
    /// How often in a row the kernel refused an address.
    pub(super) refusals: u32,
    pub(super) announcer: Announcer,
    pub(super) defence: Defence,
    /// Whether a claim is still unanswered because the bucket was empty: the last word on the
    /// wire must be ours.
    pub(super) owes_announcement: bool,
    pub(super) damping: Damping,
    pub(super) fresh: FreshProbe,
    pub(super) checksums: Checksums,
    pub(super) notices: Notices,
    pub(super) ticket: Ticket,
    pub(super) stats: Stats,
    pub(super) outputs: VecDeque<Output>,
}

impl Router {
    /// A router in Initialize; it waits for [`Input::Link`] and [`Command::Start`].
    ///
    /// # Errors
    ///
    /// The configuration contradicts itself.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            verdict: Verdict::Unproven,
            link: Link::Down(LinkLoss::Unknown),
            state: State::Initialize,
            since: Instant::ZERO,
            because: Because::Stopped,
            interval: config.interval,
            active: None,

            deaf: false,
            not_before: Instant::ZERO,
            unclaimed: config.first_claim,
            preempt_from: Instant::ZERO,
            refusals: 0,
            announcer: Announcer::default(),
            defence: Defence::new(),
            owes_announcement: false,
            damping: Damping::new(),
            fresh: FreshProbe::default(),
            checksums: Checksums::default(),
            notices: Notices::default(),
            ticket: Ticket::default(),
            stats: Stats::default(),
            outputs: VecDeque::new(),
            config,
        })
    }

    /// The configuration in force; its addresses are those that [`Output::Own`] is about.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> RouterState {
        self.state.name()
    }

    /// The priority that is or would be advertised.
    #[must_use]
    pub fn priority(&self) -> Priority {
        health::effective(&self.config, self.verdict)
    }

    /// Whether announcements may leave: to be asked again before each one, because the sockets
    /// may have brought a better advert since it was queued.
    #[must_use]
    pub const fn announcing(&self) -> bool {
        self.announcer.is_running()
    }

    /// The router's account of itself.
    #[must_use]
    pub fn view(&self) -> View {
        let (held, takes_over_at, waiting) = match &self.state {
            State::Backup(backup) => {
                let probe = backup.probe.as_ref().map(|probe| probe.ends_at());
                let waiting = probe.map(|until| Waiting::FirstClaim { until }).or(self
                    .deaf
                    .then_some(Waiting::Frame {
                        until: self.not_before,
                    }));
                (false, Some(self.takes_over_at(backup)), waiting)
            }
            State::Active(active) => (active.held, None, None),
            State::Releasing(releasing) => (releasing.held, None, None),
            State::Initialize | State::Fault(_) => (false, None, None),
        };
        View {
            state: self.state(),
            since: self.since,
            because: self.because.clone(),
            held,
            priority: self.priority(),
            verdict: self.verdict,
            active: self.active,
            takes_over_at,
            waiting,
            both_checksums: self.checksums.sends_both(self.config.checksum),
            stats: self.stats,
        }
    }
}

impl Machine for Router {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        self.accept(&input)?;
        // An Active that was not scheduled must not answer anything before it let go.
        self.let_go_after_stall(now);
        match input {
            Input::Advert(received) => self.on_advert(now, &received),
            Input::Unverified { src, mac, why } => self.on_unverified(now, src, mac, why),
            Input::Neighbor(packet) => self.on_neighbor(now, &packet),
            Input::Owned { result, .. } => self.on_owned(now, result),
            Input::Link(link) => self.on_link(now, link),
            Input::Heard => self.on_frame(now),
            Input::Health(verdict) => self.on_health(now, verdict),
            Input::Probed { healthy } => self.on_probed(now, healthy),
            Input::Command(Command::Start) => self.start(now),
            Input::Command(Command::Stop) => self.stop(now),
            Input::Command(Command::HandOver) => self.hand_over(now),
            Input::Config(config) => self.reconfigure(now, config),
        }
        self.drain_children();
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.let_go_after_stall(now);
        match &self.state {
            State::Initialize => {}
            State::Backup(_) => self.backup_timeout(now),
            State::Active(_) => self.active_timeout(now),
            State::Releasing(_) => self.releasing_timeout(now),
            State::Fault(_) => self.fault_timeout(now),
        }
        self.announcer.handle_timeout(now);
        self.drain_children();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = match &self.state {
            State::Initialize => None,
            State::Backup(backup) => {
                let probe = backup.probe.as_ref().and_then(|probe| probe.poll_timeout());
                let suspect = backup.suspect.map(|_| backup.down_at);
                let takes_over_at = self.takes_over_at(backup);
                Some(
                    [probe, suspect]
                        .into_iter()
                        .flatten()
                        .fold(takes_over_at, Instant::min),
                )
            }
            State::Active(active) if self.owes_announcement => {
                Some(active.advert_at.min(self.defence.ready_at()))
            }
            State::Active(active) => Some(active.advert_at),
            State::Releasing(releasing) => Some(releasing.poll_timeout()),
            State::Fault(fault) => fault.poll_timeout(),
        };
        own.into_iter().chain(self.announcer.poll_timeout()).min()
    }
}

impl Router {
    /// `Skew_Time` at the interval in force.
    pub(super) fn skew(&self) -> Duration {
        timing::skew(self.config.version, self.interval, self.priority())
    }

    /// `Active_Down_Interval` of an Active that advertises at `interval`.
    pub(super) fn active_down(&self, interval: AdvertInterval) -> Duration {
        timing::active_down(self.config.version, interval, self.priority())
    }

    /// What is announced and probed.
    pub(super) fn claimed(&self) -> Arc<[IpAddr]> {
        self.config.held().collect()
    }

    fn on_health(&mut self, now: Instant, verdict: Verdict) {
        let before = self.priority();
        self.verdict = verdict;
        if verdict != Verdict::Healthy {
            self.fresh.cancel();
        }
        self.priority_changed(now, before, Because::Health(verdict));
    }

    /// Reports and advertises a new effective priority.
    pub(super) fn priority_changed(&mut self, now: Instant, before: Priority, because: Because) {
        let after = self.priority();
        if before != after {
            self.event(Event::Priority {
                from: before,
                to: after,
                because,
            });
            self.advertise(now);
        }
    }

    fn start(&mut self, now: Instant) {
        if self.deaf {
            self.deafen(now);
        }
        self.take_part(now, Because::Started);
    }

    fn stop(&mut self, now: Instant) {
        match &self.state {
            State::Initialize => {}
            State::Backup(_) | State::Fault(_) => {
                self.enter(now, State::Initialize, Because::Stopped);
            }
            State::Active(_) => self.leave(now),
            State::Releasing(_) => self.leave_faster(now),
        }
    }
}
