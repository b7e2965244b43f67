//! Taking messages, by the state of their connection (RFC 4271 section 8.2.2), and saying what is
//! to be said.

use std::collections::BTreeMap;

use kedge_core::Instant;

use super::{
    Because, Keep, Output, Session, Side,
    caller::{Caller, Damp},
    collision,
    link::{Due, Link, Peered, Phase},
    negotiate, policy,
    received::Received,
    rib::Rib,
};
use crate::wire::bgp::{
    Family, Message, Messages, Notification, Open, Refusal, RouteRefresh, Subtype, Update, cease,
    codes, end_of_rib, keepalive,
};

impl Session {
    pub(super) fn hear(&mut self, now: Instant, side: Side, message: Result<Message, Refusal>) {
        self.counts.messages_in = self.counts.messages_in.saturating_add(1);
        let message = match message {
            Ok(message) => message,
            Err(refusal) => {
                if let Some(fault) = &refusal.fault {
                    self.counts.flawed(fault);
                }
                return self.end(now, side, refusal.notification, Damp::Yes);
            }
        };
        if let Message::Notification(notification) = message {
            return self.told(now, side, notification);
        }
        let Some(link) = self.link_mut(side) else {
            return;
        };
        link.hear(now);
        match (&link.phase, message) {
            (_, Message::Notification(_)) => {}
            (Phase::OpenSent, Message::Open(open)) => self.opened(now, side, open),
            (Phase::OpenConfirm(_), Message::Keepalive) => self.agreed(now, side),
            (Phase::Established(..), Message::Keepalive) => {}
            (Phase::Established(..), Message::Update(update)) => self.updated(now, side, update),
            (Phase::Established(..), Message::RouteRefresh(refresh)) => {
                self.asked(now, side, refresh);
            }
            // Not at this time (RFC 6608).
            (
                phase,
                Message::Open(_)
                | Message::Update(_)
                | Message::Keepalive
                | Message::RouteRefresh(_),
            ) => {
                let subcode = match phase {
                    Phase::OpenSent => 1,
                    Phase::OpenConfirm(_) => 2,
                    Phase::Established(..) => 3,
                };
                let notification = Notification::new(codes::STATE, subcode, Vec::new());
                self.end(now, side, notification, Damp::Yes);
            }
        }
    }

    /// The neighbour ends it. One that was told to, or that keeps another connection, has done
    /// nothing wrong.
    fn told(&mut self, now: Instant, side: Side, notification: Notification) {
        self.counts.notifications_in = self.counts.notifications_in.saturating_add(1);
        let (because, damp) = if notification.is(codes::CEASE, cease::COLLISION) {
            (Because::Collision, Damp::No)
        } else {
            self.notification = Some((Side::Theirs, notification.clone()));
            let is_cease = notification.code() == codes::CEASE;
            let damp = if is_cease { Damp::No } else { Damp::Yes };
            (Because::Heard(notification), damp)
        };
        self.outputs.push_back(Output::Close(side));
        self.lose(now, side, because, damp);
    }

    /// The neighbour says who it is.
    fn opened(&mut self, now: Instant, side: Side, open: Open) {
        let agreed = match negotiate(&self.config, &open) {
            Ok(agreed) => agreed,
            Err(notification) => return self.end(now, side, notification, Damp::Yes),
        };
        let ours = (self.config.router_id, self.config.local_as);
        let Keep(kept) = collision(ours, (open.router_id, open.asn));
        let collision = Notification::cease(cease::COLLISION);
        match self.link(side.other()).map(|link| &link.phase) {
            None | Some(Phase::OpenSent) => {}
            Some(Phase::OpenConfirm(_)) if kept == side => {
                let because = Because::Collision;
                self.end_because(now, side.other(), collision, because, Damp::No);
            }
            Some(Phase::OpenConfirm(_) | Phase::Established(..)) => {
                let because = Because::Collision;
                return self.end_because(now, side, collision, because, Damp::No);
            }
        }
        let is_bounded = self.config.max_prefixes.is_some();
        if let Some(link) = self.link_mut(side) {
            link.phase = Phase::OpenConfirm(Box::new(Peered {
                open,
                agreed,
                rib: Rib::default(),
                received: Received::new(is_bounded),
            }));
            link.hear(now);
        }
        self.keep_alive(now, side);
        self.go(now, Because::Opened);
    }

    /// The neighbour agrees.
    fn agreed(&mut self, now: Instant, side: Side) {
        let collision = Notification::cease(cease::COLLISION);
        self.end_because(now, side.other(), collision, Because::Collision, Damp::No);
        self.hang_up();
        self.caller = Caller::Content;
        self.attempts = 0;
        self.counts.established = self.counts.established.saturating_add(1);
        if let Some(link) = self.link_mut(side) {
            link.phase = match std::mem::replace(&mut link.phase, Phase::OpenSent) {
                Phase::OpenConfirm(peered) => Phase::Established(now, peered),
                other @ (Phase::OpenSent | Phase::Established(..)) => other,
            };
            link.due = Due {
                routes: true,
                end: true,
                again: [false; 2],
            };
        }
        self.go(now, Because::Agreed);
        self.catch_up(now, side);
    }

    fn updated(&mut self, now: Instant, side: Side, update: Update) {
        let counts = &mut self.counts;
        let more = |count: &mut u64, by: usize| {
            *count = count.saturating_add(u64::try_from(by).unwrap_or(u64::MAX));
        };
        more(&mut counts.updates_in, 1);
        more(&mut counts.routes_announced, update.announced.len());
        more(&mut counts.routes_withdrawn, update.withdrawn.len());
        more(&mut counts.routes_refused, update.refused.len());
        for fault in &update.faults {
            counts.flawed(fault);
        }
        let most = self.config.max_prefixes;
        let peered = self.link_mut(side).as_mut().and_then(Link::established);
        let excess = peered.and_then(|peered| peered.received.take(now, update, most));
        if let (Some(family), Some(most)) = (excess, most) {
            // RFC 4486 section 4.
            let mut data = family.afi().to_be_bytes().to_vec();
            data.push(1);
            data.extend(most.to_be_bytes());
            let notification = Notification::new(codes::CEASE, cease::MAX_PREFIXES, data);
            self.end(now, side, notification, Damp::For(EXCESS_REST));
        }
    }

    /// The neighbour wants our routes of a family again. It gets them once for all the times that it
    /// asks while it takes the last ones.
    fn asked(&mut self, now: Instant, side: Side, refresh: RouteRefresh) {
        let Some(family) = refresh
            .family()
            .filter(|_| refresh.subtype == Subtype::Request)
        else {
            return;
        };
        self.counts.refreshes = self.counts.refreshes.saturating_add(1);
        if let Some(link) = self.link_mut(side) {
            let [four, six] = &mut link.due.again;
            *match family {
                Family::Ipv4 => four,
                Family::Ipv6 => six,
            } = true;
        }
        self.catch_up(now, side);
    }

    /// Tells the neighbour what is offered, as far as that is new.
    pub(super) fn tell(&mut self, now: Instant) {
        for side in Side::ALL {
            if let Some(link) = self.link_mut(side)
                && link.established().is_some()
            {
                link.due.routes = true;
                self.catch_up(now, side);
            }
        }
    }

    /// The neighbour took something.
    pub(super) fn written(&mut self, now: Instant, side: Side, is_all: bool) {
        if let Some(link) = self.link_mut(side) {
            let limit = link.stuck_limit().filter(|_| !is_all);
            link.stuck_at = limit.map(|limit| now + limit);
        }
        if is_all {
            self.catch_up(now, side);
        }
    }

    /// Says what is due, unless something else is still under way: whoever takes nothing is told
    /// what is so when it does, and not what was so before.
    pub(super) fn catch_up(&mut self, now: Instant, side: Side) {
        let leaving = self.leaving.is_some();
        let Self {
            config,
            offers,
            ours,
            theirs,
            ..
        } = self;
        let link = match side {
            Side::Ours => ours,
            Side::Theirs => theirs,
        };
        let Some(link) = link.as_mut() else { return };
        if link.stuck_at.is_some() {
            return;
        }
        let (place, due) = (link.place, link.due);
        let Some(peered) = link.established() else {
            return;
        };
        let agreed = peered.agreed;
        let four_octet = agreed.context.four_octet;
        let mut messages = Messages::default();
        if due.routes {
            let wanted: BTreeMap<_, _> = offers
                .iter()
                .filter_map(|(prefix, offer)| {
                    let path = policy::path(config, &agreed, &place, leaving, prefix, offer)?;
                    Some((*prefix, path))
                })
                .collect();
            messages.extend(peered.rib.change(wanted, four_octet));
        }
        let [four, six] = due.again;
        for (family, is_due) in [(Family::Ipv4, four), (Family::Ipv6, six)] {
            if is_due && agreed.speaks(family) {
                let mark = |messages: &mut Messages, subtype| {
                    if agreed.enhanced_refresh {
                        let mut bytes = Vec::new();
                        RouteRefresh::of(family, subtype).put(&mut bytes);
                        messages.extend(Messages { bytes, count: 1 });
                    }
                };
                mark(&mut messages, Subtype::Begin);
                messages.extend(peered.rib.again(family, four_octet));
                mark(&mut messages, Subtype::End);
            }
            if due.end && agreed.speaks(family) {
                messages.extend(end_of_rib(family));
            }
        }
        link.due = Due::default();
        if !messages.is_empty() {
            self.counts.updates_out = self
                .counts
                .updates_out
                .saturating_add(u64::from(messages.count));
            self.send(now, side, messages.bytes, messages.count);
            self.rest(now, side);
        }
    }

    /// Says that we are there.
    pub(super) fn keep_alive(&mut self, now: Instant, side: Side) {
        let messages = keepalive();
        self.send(now, side, messages.bytes, messages.count);
        self.rest(now, side);
    }

    /// Sets when to say so next: a third of the hold time after the last message that did, less a
    /// random part (RFC 4271 sections 4.4 and 10).
    fn rest(&mut self, now: Instant, side: Side) {
        let hold = self.link(side).and_then(Link::peered);
        let hold = hold.and_then(|peered| peered.agreed.hold_time.duration());
        let pause = hold.map(|hold| self.spread(hold / 3));
        if let Some(link) = self.link_mut(side) {
            link.keepalive_at = pause.map(|pause| now + pause);
        }
    }
}

/// How long nothing is taken from a neighbour that announced more than it may.
const EXCESS_REST: std::time::Duration = std::time::Duration::from_secs(60);
