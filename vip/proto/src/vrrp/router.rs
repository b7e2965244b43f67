//! The virtual router itself: what it knows, which inputs it takes, and its deadlines.

use std::{collections::VecDeque, net::Ipv4Addr};

use kedge_core::{
    Instant, Machine,
    vip::{AdvertInterval, Priority, RouterState},
};

use super::{
    Because, Command, Config, ConfigError, Event, Input, Link, LinkLoss, Notice, Output, Peer,
    Reject, Stats, Ticket, Transmit, Verdict, View, Waiting,
    checksum::Checksums,
    damping::Damping,
    health::{self, FreshProbe},
    notices::Notices,
    state::{Backup, State},
    timing::skew,
};
use crate::{
    claim::{Announcer, Defence, Watch},
    wire::{
        Mac, arp,
        vrrp::{Advert, Received},
    },
};

/// One virtual router: (interface, VRID) for IPv4.
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
    /// When an advert (not a goodbye) for one of our addresses was last heard.
    pub(super) served_at: Option<Instant>,
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
            served_at: None,
            deaf: false,
            not_before: Instant::ZERO,
            unclaimed: config.first_claim,
            preempt_from: Instant::ZERO,
            refusals: 0,
            announcer: Announcer::default(),
            defence: Defence::new(),
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
            Input::Arp(packet) => self.on_arp(now, &packet),
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
                let takes_over_at = self.takes_over_at(backup);
                Some(probe.map_or(takes_over_at, |probe| probe.min(takes_over_at)))
            }
            State::Active(active) => Some(active.advert_at),
            State::Releasing(releasing) => Some(releasing.poll_timeout()),
            State::Fault(fault) => fault.poll_timeout(),
        };
        own.into_iter().chain(self.announcer.poll_timeout()).min()
    }
}

impl Router {
    /// Refuses inputs that make no sense, before anything changes.
    fn accept(&self, input: &Input) -> Result<(), Reject> {
        match input {
            Input::Advert(received) => {
                let own = self.listening()?;
                if received.advert.vrid != self.config.vrid {
                    return Err(Reject::OtherVrid);
                }
                if received.mac == own {
                    Err(Reject::OwnPacket)
                } else {
                    Ok(())
                }
            }
            Input::Arp(packet) => {
                let own = self.listening()?;
                if packet.sender_mac == own {
                    return Err(Reject::OwnPacket);
                }
                let ours = self.config.addresses.contains(packet.sender);
                if ours {
                    Ok(())
                } else {
                    Err(Reject::OtherAddress)
                }
            }
            Input::Owned { ticket, .. } => {
                let waiting = match &self.state {
                    State::Active(active) => !active.held,
                    State::Releasing(releasing) => !releasing.held,
                    State::Initialize | State::Backup(_) | State::Fault(_) => false,
                };
                let current = waiting && *ticket == self.ticket;
                if current {
                    Ok(())
                } else {
                    Err(Reject::OldTicket)
                }
            }
            Input::Probed { .. } if !self.fresh.is_asked() => Err(Reject::NotAsked),
            Input::Heard if matches!(self.link, Link::Down(_)) => Err(Reject::NotListening),
            Input::Command(command) => {
                let sensible = match command {
                    Command::Start => self.state == State::Initialize,
                    Command::Stop => self.state != State::Initialize,
                    Command::HandOver => {
                        matches!(self.state, State::Active(_)) && !self.config.owner
                    }
                };
                if sensible {
                    Ok(())
                } else {
                    Err(Reject::WrongState)
                }
            }
            Input::Config(config) => self.accept_config(config).map_err(Reject::Config),
            Input::Link(_) | Input::Heard | Input::Health(_) | Input::Probed { .. } => Ok(()),
        }
    }

    /// Our hardware address, if we take packets at all.
    fn listening(&self) -> Result<Mac, Reject> {
        match self.link {
            Link::Up { mac, .. } if self.state != State::Initialize => Ok(mac),
            Link::Up { .. } | Link::Down(_) => Err(Reject::NotListening),
        }
    }

    /// Nothing proves that the link carries frames.
    pub(super) fn deafen(&mut self, now: Instant) {
        self.deaf = true;
        self.not_before = now + self.config.link_up_wait + skew(self.interval, self.priority());
    }

    /// A frame from another station arrived.
    fn on_frame(&mut self, now: Instant) {
        if self.deaf {
            self.deaf = false;
            self.not_before = now + skew(self.interval, self.priority());
            self.wait_for_probes();
        }
    }

    /// No take-over before the first-claim probes ended.
    pub(super) fn wait_for_probes(&mut self) {
        if let State::Backup(Backup {
            probe: Some(probe), ..
        }) = &self.state
        {
            let skew = skew(self.interval, self.priority());
            self.not_before = self.not_before.max(probe.ends_at() + skew);
        }
    }

    fn on_advert(&mut self, now: Instant, received: &Received) {
        self.on_frame(now);
        self.stats.adverts_received += 1;
        self.checksums.heard(received.src, received.forms);
        self.compare(now, received);
        let Some(priority) = received.advert.priority else {
            self.stats.goodbyes_received += 1;
            return self.on_goodbye(now, received.src);
        };
        let peer = Peer {
            address: received.src,
            mac: received.mac,
            priority,
            interval: received.advert.interval,
            heard_at: now,
        };
        let ours = !received
            .advert
            .addresses
            .is_disjoint(&self.config.addresses);
        if ours {
            self.served_at = Some(now);
        }
        match &self.state {
            State::Initialize => {}
            State::Backup(_) => self.backup_advert(now, peer, ours),
            State::Active(_) => self.active_advert(now, peer),
            State::Releasing(_) => self.releasing_advert(now, peer),
            State::Fault(_) => self.fault_advert(now, peer, ours),
        }
    }

    fn on_goodbye(&mut self, now: Instant, src: Ipv4Addr) {
        match &self.state {
            State::Backup(_) => self.backup_goodbye(now, src),
            State::Active(_) => self.active_goodbye(now),
            State::Initialize | State::Releasing(_) | State::Fault(_) => {}
        }
    }

    /// Reports how an advert differs from our configuration. Differences never drop it: hosts
    /// that ignore each other are two Actives.
    fn compare(&mut self, now: Instant, received: &Received) {
        let (theirs, ours) = (&received.advert.addresses, &self.config.addresses);
        let src = received.src;
        if !theirs.same_set(ours) {
            self.stats.address_list_errors += 1;
            let notice = if theirs.is_disjoint(ours) {
                Notice::VridInUse {
                    vrid: self.config.vrid,
                    src,
                    mac: received.mac,
                    addresses: theirs.clone(),
                }
            } else {
                Notice::AddressesDiffer {
                    src,
                    theirs: theirs.clone(),
                    ours: ours.clone(),
                }
            };
            self.notice(now, notice);
        }
        let (theirs, ours) = (received.advert.interval, self.config.interval);
        if theirs != ours {
            self.stats.interval_errors += 1;
            self.notice(now, Notice::IntervalDiffers { src, theirs, ours });
        }
    }

    fn on_arp(&mut self, now: Instant, packet: &arp::Packet) {
        let Link::Up { mac, .. } = self.link else {
            return;
        };
        let watch = Watch::new(self.config.addresses.clone(), mac);
        let Some(claim) = watch.claim(packet) else {
            return;
        };
        self.on_frame(now);
        match &self.state {
            State::Initialize => {}
            State::Backup(_) => self.backup_claim(now, claim),
            State::Active(_) => self.active_claim(now, claim),
            State::Releasing(_) => self.releasing_claim(now, claim),
            State::Fault(_) => self.fault_claim(claim),
        }
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

    /// Changes the state and says so.
    pub(super) fn enter(&mut self, now: Instant, state: State, because: Because) {
        let from = self.state.name();
        self.state = state;
        self.since = now;
        self.because = because.clone();
        let to = self.state.name();
        self.event(Event::State { from, to, because });
    }

    /// Sends an advert, or a goodbye without `priority`, in every form that is needed.
    pub(super) fn send(&mut self, priority: Option<Priority>) {
        let Link::Up { source: src, .. } = self.link else {
            return;
        };
        let advert = Advert {
            vrid: self.config.vrid,
            priority,
            interval: self.config.interval,
            addresses: self.config.addresses.clone(),
        };
        let (first, second) = self.checksums.forms(self.config.checksum);
        for form in [Some(first), second].into_iter().flatten() {
            self.stats.adverts_sent += 1;
            if priority.is_none() {
                self.stats.goodbyes_sent += 1;
            }
            let advert = advert.clone();
            self.outputs
                .push_back(Output::Send(Transmit { src, form, advert }));
        }
    }

    /// Asks the kernel to hold the addresses.
    pub(super) fn own(&mut self) {
        self.ticket = Ticket(self.ticket.0.wrapping_add(1));
        self.outputs.push_back(Output::Own {
            hold: true,
            ticket: self.ticket,
        });
    }

    /// Takes back every announcement, then the addresses: in this order, so that none follows.
    pub(super) fn disown(&mut self) {
        self.silence();
        self.outputs.push_back(Output::Own {
            hold: false,
            ticket: self.ticket,
        });
    }

    /// Takes back every announcement that has not left.
    pub(super) fn silence(&mut self) {
        self.announcer.cancel();
        self.outputs
            .retain(|output| !matches!(output, Output::Announce(_)));
    }

    pub(super) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    pub(super) fn notice(&mut self, now: Instant, notice: Notice) {
        if self.notices.is_news(now, &notice) {
            self.event(Event::Notice(notice));
        }
    }

    fn drain_children(&mut self) {
        while let Some(packet) = self.announcer.poll_output() {
            self.outputs.push_back(Output::Announce(packet));
        }
        if let State::Backup(backup) = &mut self.state
            && let Some(probe) = &mut backup.probe
        {
            while let Some(packet) = probe.poll_output() {
                self.outputs.push_back(Output::ProbeAddress(packet));
            }
        }
    }
}
