//! The session itself: what it knows, which inputs it takes, and its deadlines.

use std::{collections::VecDeque, sync::Arc};

use kedge_core::{Instant, Machine, bfd::Liveness, bgp::SessionState};

use super::{
    Because, Command, Config, Counts, Event, Heard, Input, Offers, Output, Peer, Place, Reject,
    Side, View,
    caller::{Caller, Damp},
    leave::Leaving,
    link::{Link, Phase},
    policy,
    received::Received,
};
use crate::{
    dice::Dice,
    wire::bgp::{Context, Frame, Message, Notification, Open, Refusal, cease, codes},
};

/// A neighbour, and the session with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub(super) config: Config,
    pub(super) offers: Arc<Offers>,
    pub(super) caller: Caller,
    pub(super) ours: Option<Link>,
    pub(super) theirs: Option<Link>,
    pub(super) leaving: Option<Leaving>,
    pub(super) ended: bool,
    /// How often in a row something was wrong with what was said.
    pub(super) failures: u32,
    /// How often in a row it was called for nothing.
    pub(super) attempts: u32,
    pub(super) dice: Dice,
    pub(super) counts: Counts,
    pub(super) notification: Option<(Side, Notification)>,
    pub(super) outputs: VecDeque<Output>,
    pub(super) bfd: Liveness,
    /// What was heard in the last session that was established.
    heard: Received,
    state: SessionState,
    since: Instant,
    pub(super) because: Because,
}

impl Session {
    /// A session that begins at `now`. `seed` is any number: it spreads calls and keepalives.
    #[must_use]
    pub fn new(now: Instant, config: Config, offers: Arc<Offers>, seed: u64) -> Self {
        let mut session = Self {
            config,
            offers,
            caller: Caller::Idle(None),
            ours: None,
            theirs: None,
            leaving: None,
            ended: false,
            failures: 0,
            attempts: 0,
            dice: Dice::new(seed),
            counts: Counts::default(),
            notification: None,
            outputs: VecDeque::new(),
            bfd: Liveness::Unknown,
            heard: Received::default(),
            state: SessionState::Idle,
            since: now,
            because: Because::Started,
        };
        session.start(now);
        if session.config.shutdown.is_some() {
            session.because = Because::Shutdown;
        } else if session.is_held() {
            session.because = Because::BfdAwaited;
        }
        session.go(now, Because::Started);
        session
    }

    /// How it runs.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What this host offers.
    #[must_use]
    pub fn offers(&self) -> &Offers {
        &self.offers
    }

    /// Its state: that of the connection that is furthest.
    #[must_use]
    pub const fn state(&self) -> SessionState {
        self.state
    }

    /// Reads a message of a connection, as what was agreed on there has it.
    ///
    /// # Errors
    ///
    /// It ends the session; both results go to [`Input::Heard`].
    pub fn read(&self, side: Side, frame: &Frame<'_>) -> Result<Message, Refusal> {
        let peered = self.link(side).and_then(Link::peered);
        let context = peered.map_or(
            Context {
                internal: self.config.is_internal(),
                four_octet: true,
                extended_next_hop: false,
            },
            |peered| peered.agreed.context,
        );
        Message::parse(frame, &context)
    }

    /// Whether a call of the neighbour takes the place of its last one, which the shell then says is
    /// closed: who calls anew before it said who it is gave up the other.
    #[must_use]
    pub fn yields(&self) -> bool {
        let phase = self.theirs.as_ref().map(|link| &link.phase);
        matches!(phase, Some(Phase::OpenSent))
    }

    /// The last routes it was told of, the newest first; also of the last session.
    pub fn heard(&self) -> impl Iterator<Item = &Heard> {
        self.received().last()
    }

    fn received(&self) -> &Received {
        let of = |link: &'_ Option<Link>| {
            link.as_ref()
                .is_some_and(|link| link.state() == SessionState::Established)
        };
        let link = if of(&self.ours) {
            &self.ours
        } else {
            &self.theirs
        };
        let peered = link.as_ref().filter(|_| of(link)).and_then(Link::peered);
        peered.map_or(&self.heard, |peered| &peered.received)
    }

    /// What it shows.
    #[must_use]
    pub fn view(&self) -> View {
        let links = Side::ALL
            .into_iter()
            .filter_map(|side| Some((side, self.link(side)?)));
        let furthest = links.max_by_key(|(_, link)| link.state());
        let peered = furthest.and_then(|(side, link)| Some((side, link, link.peered()?)));
        let peer = peered.map(|(side, _, peered)| Peer {
            asn: peered.open.asn,
            router_id: peered.open.router_id,
            hold_time: peered.open.hold_time,
            capabilities: peered.open.capabilities.clone(),
            agreed: peered.agreed,
            side,
            complete: peered.received.complete,
        });
        let established = peered.filter(|(_, link, _)| link.state() == SessionState::Established);
        let told = established.map(|(_, _, peered)| peered.rib.routes().clone());
        let without = established.map(|(_, link, peered)| {
            let none = |family| {
                policy::next_hop(&self.config, &peered.agreed, &link.place, family).is_none()
            };
            let all = self.offers.keys().copied();
            all.filter(|prefix| peered.agreed.speaks(prefix.family()) && none(prefix.family()))
                .collect()
        });
        View {
            state: self.state,
            since: self.since,
            because: self.because.clone(),
            peer,
            notification: self.notification.clone(),
            counts: self.counts,
            standing: established.and_then(|(_, _, peered)| peered.received.standing()),
            told: told.unwrap_or_default(),
            without_next_hop: without.unwrap_or_default(),
            next_at: self.caller.deadline(),
        }
    }

    pub(super) const fn link(&self, side: Side) -> Option<&Link> {
        match side {
            Side::Ours => self.ours.as_ref(),
            Side::Theirs => self.theirs.as_ref(),
        }
    }

    pub(super) const fn link_mut(&mut self, side: Side) -> &mut Option<Link> {
        match side {
            Side::Ours => &mut self.ours,
            Side::Theirs => &mut self.theirs,
        }
    }

    /// Tells people if the state is another one now.
    pub(super) fn go(&mut self, now: Instant, because: Because) {
        let links = [&self.ours, &self.theirs].into_iter().flatten();
        let furthest = links.map(Link::state).max();
        let to = furthest.unwrap_or_else(|| self.caller.state());
        if to == self.state {
            return;
        }
        let from = std::mem::replace(&mut self.state, to);
        self.since = now;
        self.because = because.clone();
        self.outputs
            .push_back(Output::Event(Box::new(Event { from, to, because })));
    }

    /// Says OPEN on a connection that is new.
    fn open(&mut self, now: Instant, side: Side, place: Place) {
        *self.link_mut(side) = Some(Link::new(now, place));
        let open = Open {
            asn: self.config.local_as,
            hold_time: self.config.hold_time,
            router_id: self.config.router_id,
            capabilities: super::capabilities(&self.config),
        };
        let mut bytes = Vec::new();
        open.put(&mut bytes);
        self.send(now, side, bytes, 1);
        self.go(now, Because::Connected(side));
    }

    /// Sends messages on a connection.
    pub(super) fn send(&mut self, now: Instant, side: Side, bytes: Vec<u8>, count: u32) {
        let Some(link) = self.link_mut(side) else {
            return;
        };
        if link.stuck_at.is_none() {
            link.stuck_at = link.stuck_limit().map(|limit| now + limit);
        }
        self.counts.messages_out = self.counts.messages_out.saturating_add(u64::from(count));
        self.outputs.push_back(Output::Send(side, bytes));
    }

    /// Ends a connection with a NOTIFICATION.
    pub(super) fn end(&mut self, now: Instant, side: Side, notification: Notification, damp: Damp) {
        let because = Because::Told(notification.clone());
        self.end_because(now, side, notification, because, damp);
    }

    pub(super) fn end_because(
        &mut self,
        now: Instant,
        side: Side,
        notification: Notification,
        because: Because,
        damp: Damp,
    ) {
        if self.link(side).is_none() {
            return;
        }
        let mut bytes = Vec::new();
        notification.put(&mut bytes);
        self.send(now, side, bytes, 1);
        self.counts.notifications_out = self.counts.notifications_out.saturating_add(1);
        if !notification.is(codes::CEASE, cease::COLLISION) {
            self.notification = Some((Side::Ours, notification));
        }
        self.outputs.push_back(Output::Close(side));
        self.lose(now, side, because, damp);
    }

    /// Forgets a connection, and goes on from there.
    pub(super) fn lose(&mut self, now: Instant, side: Side, because: Because, damp: Damp) {
        let Some(link) = self.link_mut(side).take() else {
            return;
        };
        if let Phase::Established(since, peered) = link.phase {
            self.counts.lost = self.counts.lost.saturating_add(1);
            self.heard = peered.received;
            if now.since(since) >= STABLE {
                self.failures = 0;
            }
        }
        let is_alone = self.link(side.other()).is_none();
        let is_called = matches!(self.caller, Caller::Dialing(_));
        if is_alone && self.leaving.is_some() {
            self.finish(now);
        } else if is_alone && self.config.shutdown.is_some() {
            self.start(now);
        } else if is_alone && !(is_called && damp == Damp::No) {
            self.try_later(now, damp);
        }
        self.go(now, because);
    }

    /// Ends every connection.
    pub(super) fn end_all(&mut self, now: Instant, notification: &Notification, because: &Because) {
        for side in Side::ALL {
            if let Some(link) = self.link(side) {
                let is_hard = link.peered().is_some_and(|peered| peered.agreed.hard_reset);
                let notification = notification.clone();
                let notification = if is_hard {
                    notification.hard()
                } else {
                    notification
                };
                self.end_because(now, side, notification, because.clone(), Damp::No);
            }
        }
    }

    fn configure(&mut self, now: Instant, config: Config) {
        let before = std::mem::replace(&mut self.config, config);
        if before == self.config || self.leaving.is_some() {
            return;
        }
        match (&before.shutdown, self.config.shutdown.clone()) {
            (None, Some(text)) => {
                self.end_all(now, &Notification::shutdown(&text), &Because::Shutdown);
                // Where there was no connection.
                self.start(now);
                self.go(now, Because::Shutdown);
            }
            (Some(_), None) => {
                self.start(now);
                self.go(now, Because::Enabled);
            }
            (Some(_), Some(_)) => {}
            (None, None) if before.differs_in_open(&self.config) => {
                let notification = Notification::cease(cease::RECONFIGURED);
                let because = Because::Told(notification.clone());
                self.end_all(now, &notification, &because);
                (self.failures, self.attempts) = (0, 0);
                self.start(now);
                self.go(now, Because::Started);
            }
            (None, None) => {
                let waits = matches!(self.caller, Caller::Dialing(_) | Caller::Waiting(_));
                if before.passive != self.config.passive && waits {
                    self.start(now);
                    self.go(now, Because::Started);
                }
                self.tell(now);
                self.heed_path(now);
            }
        }
    }

    fn admit(&self) -> Result<(), Reject> {
        match self.caller {
            _ if self.leaving.is_some() => Err(Reject::Ended),
            Caller::Idle(_) => Err(Reject::Down),
            Caller::Dialing(_) | Caller::Waiting(_) | Caller::Content if self.theirs.is_some() => {
                Err(Reject::Busy)
            }
            Caller::Dialing(_) | Caller::Waiting(_) | Caller::Content => Ok(()),
        }
    }

    /// What a connection has due.
    fn watch(&mut self, now: Instant, side: Side) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let Some(link) = self.link(side) else { return };
        if due(link.stuck_at) {
            let limit = link.stuck_limit().unwrap_or_default();
            let notification = Notification::new(codes::SEND_HOLD, 0, Vec::new());
            let because = Because::Stuck { limit };
            self.end_because(now, side, notification, because, Damp::No);
        } else if due(link.hold_at) {
            let hold = link
                .peered()
                .and_then(|peered| peered.agreed.hold_time.duration());
            let limit = hold.unwrap_or(super::link::OPEN_HOLD);
            let notification = Notification::new(codes::HOLD, 0, Vec::new());
            let because = Because::Silent { limit };
            self.end_because(now, side, notification, because, Damp::No);
        } else if due(link.keepalive_at) {
            self.keep_alive(now, side);
        }
    }
}

impl Machine for Session {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        if self.ended {
            return Err(Reject::Ended);
        }
        match input {
            Input::Config(config) => self.configure(now, *config),
            Input::Offers(offers) => {
                self.offers = offers;
                self.tell(now);
            }
            Input::Command(Command::Leave(farewell)) => return self.leave(now, farewell),
            Input::Command(Command::Reset) => {
                let notification = Notification::cease(cease::RESET);
                let because = Because::Told(notification.clone());
                let is_there = self.ours.is_some() || self.theirs.is_some();
                self.end_all(now, &notification, &because);
                if !is_there && self.leaving.is_none() {
                    (self.failures, self.attempts) = (0, 0);
                    self.start(now);
                    self.go(now, Because::Started);
                }
            }
            Input::Connected(place) => {
                if !matches!(self.caller, Caller::Dialing(_)) {
                    return Err(Reject::NotDialing);
                }
                self.caller = Caller::Content;
                self.open(now, Side::Ours, place);
            }
            Input::DialFailed(error) => {
                if !matches!(self.caller, Caller::Dialing(_)) {
                    return Err(Reject::NotDialing);
                }
                self.caller = Caller::Content;
                if self.theirs.is_none() {
                    self.try_later(now, Damp::No);
                }
                self.go(now, Because::DialFailed(error));
            }
            Input::Accepted(place) => {
                self.admit()?;
                if matches!(self.caller, Caller::Waiting(_)) {
                    self.caller = Caller::Content;
                }
                self.open(now, Side::Theirs, place);
            }
            Input::Closed(side) => {
                self.link(side).ok_or(Reject::NoConnection)?;
                self.lose(now, side, Because::Closed, Damp::No);
            }
            Input::Heard(side, message) => {
                self.link(side).ok_or(Reject::NoConnection)?;
                self.hear(now, side, message);
            }
            Input::Written(side, is_all) => {
                self.link(side).ok_or(Reject::NoConnection)?;
                self.written(now, side, is_all);
            }
            Input::Found => self.find(now),
            Input::Bfd(liveness) => self.follow(now, liveness),
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        if self
            .leaving
            .as_ref()
            .is_some_and(|leaving| leaving.until <= now)
        {
            return self.finish(now);
        }
        for side in Side::ALL {
            self.watch(now, side);
        }
        if self.caller.deadline().is_some_and(|at| at <= now) {
            self.call(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let links = [&self.ours, &self.theirs].into_iter().flatten();
        let links = links.flat_map(Link::deadlines);
        let leaving = self.leaving.as_ref().map(|leaving| leaving.until);
        links.chain(self.caller.deadline()).chain(leaving).min()
    }
}

/// After how long what went wrong before counts no more.
const STABLE: std::time::Duration = std::time::Duration::from_secs(60);
