//! The virtual router itself: what it knows, which inputs it takes, and its deadlines.

use std::{collections::VecDeque, net::IpAddr, sync::Arc, time::Duration};

use kedge_core::{
    Instant, Machine,
    vip::{AdvertInterval, Priority, RouterState},
};

use super::{
    Because, Command, Config, ConfigError, Event, Input, Lead, Link, LinkLoss, Output, Peer,
    Reject, Stats, Ticket, Tracked, Verdict, View, Waiting,
    checksum::Checksums,
    damping::Damping,
    health::{self, FreshProbe},
    notices::Notices,
    proof::Proving,
    state::State,
    timing,
    unverified::Unverified,
};
use crate::claim::{Announcer, Defence};

/// One virtual router: (interface, VRID, address family).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    pub(super) config: Config,
    pub(super) verdict: Verdict,
    pub(super) tracked: Tracked,
    pub(super) lead: Option<Lead>,
    pub(super) unverified: Option<Unverified>,
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
    pub(super) proving: Proving,
    pub(super) damping: Damping,
    pub(super) fresh: FreshProbe,
    pub(super) checksums: Checksums,
    pub(super) notices: Notices,
    /// The priority that a frozen Active keeps.
    pub(super) pinned: Option<Priority>,
    /// Whether the VIP was given away by order and not taken back since.
    pub(super) yielded: bool,
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
            tracked: Tracked::default(),
            lead: None,
            unverified: None,
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
            proving: Proving::default(),
            damping: Damping::new(),
            fresh: FreshProbe::default(),
            checksums: Checksums::default(),
            notices: Notices::default(),
            pinned: None,
            yielded: false,
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
        let effective = self.effective();
        self.pinned
            .map_or(effective, |pinned| pinned.max(effective))
    }

    /// The same without what a freeze holds fast.
    fn effective(&self) -> Priority {
        match self.lead.filter(|_| self.config.follows) {
            Some(lead) => lead.priority,
            None => health::effective(&self.config, self.verdict, self.tracked),
        }
    }

    /// What is tracked, as this router was last told.
    #[must_use]
    pub const fn tracked(&self) -> Tracked {
        self.tracked
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
                let frame = self.deaf.then_some(Waiting::Frame {
                    until: self.not_before,
                });
                let holder = backup.check.map(|check| Waiting::Holder {
                    mac: check.mac,
                    until: check.ends_at,
                });
                let waiting = probe.map(|until| Waiting::FirstClaim { until });
                let waiting = waiting.or(frame).or(holder);
                (false, self.takes_over_at(backup), waiting)
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
            tracked: self.tracked,
            active: self.active,
            takes_over_at,
            waiting,
            proof: self.proving.proof(),
            yielded: self.yielded,
            pinned: self.priority() != self.effective(),
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
            Input::Tracked(tracked) => self.on_tracked(now, tracked),
            Input::Lead(lead) => self.on_lead(now, lead),
            Input::Probed { healthy } => self.on_probed(now, healthy),
            Input::Evidence(evidence) => self.on_evidence(now, evidence),
            Input::PeerGone { address } => self.on_peer_gone(now, address),
            Input::Command(Command::Start) => self.start(now),
            Input::Command(Command::Resume) => self.resume(now),
            Input::Command(Command::Stop) => self.stop(now),
            Input::Command(Command::HandOver) => self.give_away(now),
            Input::Command(Command::Take) => self.take_here(now),
            Input::Command(Command::Succeed) => self.be_next(now),
            Input::Config(config) => self.reconfigure(now, config),
        }
        self.pin(now);
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
        self.pin(now);
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
                let again = backup.check.and_then(|check| check.again_at);
                let all = [probe, suspect, again, takes_over_at];
                all.into_iter().flatten().min()
            }
            State::Active(active) => {
                let owed = self.owes_announcement.then(|| self.defence.ready_at());
                let all = [owed, self.proving.poll_timeout()];
                all.into_iter().flatten().chain([active.advert_at]).min()
            }
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
            self.deafen(now, self.config.startup_wait);
        }
        self.take_part(now, Because::Started);
    }

    /// Goes on as Active. Nobody else can be yet, so nothing is asked and nothing is waited for.
    fn resume(&mut self, now: Instant) {
        let linked = matches!(self.link, Link::Up { .. });
        let led = !self.config.follows || self.is_led_to_active();
        if !linked || !led || self.is_barred() {
            return self.start(now);
        }
        self.deaf = false;
        self.unclaimed = false;
        self.preempt_from = now + self.config.preempt_delay;
        self.take_over(now, Because::Resumed);
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
