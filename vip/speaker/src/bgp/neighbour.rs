//! One neighbour: its session, its connections, and what goes between them.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::SystemTime,
};

use kedge_core::{Instant, Machine as _, Problem, bfd::Liveness};
use kedge_net::{bgp, clock};
use kedge_vip_proto::{
    bgp::{Command, DialError, Farewell, Input, Offers, Output, Place, Session, Side, View},
    wire::{
        bgp::{Frame, Prefix},
        nd::router::Message,
    },
};
use tokio::{net::TcpStream, sync::mpsc, task::AbortHandle};

use super::{
    BgpEvent, BgpSnapshot, BgpSpec,
    connection::{Connection, Present, Report, dial},
    on_link::OnLink,
    problems,
};

#[derive(Debug)]
pub(super) struct Neighbour {
    pub spec: BgpSpec,
    session: Session,
    ours: Option<Connection>,
    theirs: Option<Connection>,
    dialing: Option<(u64, AbortHandle)>,
    /// Where its address is learned, if none is configured.
    link: Option<OnLink>,
    refused: BTreeMap<&'static str, u64>,
    liveness: Liveness,
    changed: SystemTime,
    ended: bool,
}

/// What a neighbour needs of the shell.
pub(super) struct Means<'a> {
    pub reports: &'a mpsc::Sender<Report>,
    pub present: &'a Present,
    pub numbers: &'a mut u64,
    pub events: &'a mut Vec<BgpEvent>,
}

impl Means<'_> {
    const fn number(&mut self) -> u64 {
        *self.numbers = self.numbers.saturating_add(1);
        *self.numbers
    }

    fn carry(&self, number: u64, stream: TcpStream) -> Connection {
        Connection::carry(number, stream, self.reports.clone(), self.present.clone())
    }
}

impl Neighbour {
    pub(super) fn new(
        now: Instant,
        spec: BgpSpec,
        offers: Arc<Offers>,
        seed: u64,
        means: &mut Means<'_>,
    ) -> Self {
        let session = Session::new(now, spec.config.clone(), offers, seed);
        let interface = spec.interface.clone().filter(|_| spec.peer.is_none());
        let mut neighbour = Self {
            spec,
            session,
            ours: None,
            theirs: None,
            dialing: None,
            link: interface.map(|name| OnLink::new(now, name, seed)),
            refused: BTreeMap::new(),
            liveness: Liveness::Unknown,
            changed: SystemTime::now(),
            ended: false,
        };
        neighbour.drain(now, means);
        neighbour
    }

    /// Whether nothing more comes of it.
    pub(super) const fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let link = self.link.as_ref().and_then(OnLink::deadline);
        link.into_iter().chain(self.session.poll_timeout()).min()
    }

    pub(super) fn timeout(&mut self, now: Instant, means: &mut Means<'_>) {
        if let Some(link) = &mut self.link
            && link.deadline().is_some_and(|due| due <= now)
        {
            link.timeout(now, means.number(), means.reports);
        }
        self.session.handle_timeout(now);
        self.drain(now, means);
    }

    /// Follows what is wanted of it; it is reached the same way.
    pub(super) fn adjust(
        &mut self,
        now: Instant,
        spec: &BgpSpec,
        offers: &Arc<Offers>,
        liveness: Liveness,
        means: &mut Means<'_>,
    ) {
        if self.spec.config != spec.config {
            self.spec = spec.clone();
            self.give(now, Input::Config(Box::new(spec.config.clone())), means);
        }
        self.give(now, Input::Offers(Arc::clone(offers)), means);
        if std::mem::replace(&mut self.liveness, liveness) != liveness {
            self.give(now, Input::Bfd(liveness), means);
        }
    }

    pub(super) fn leave(&mut self, now: Instant, farewell: Farewell, means: &mut Means<'_>) {
        self.give(now, Input::Command(Command::Leave(farewell)), means);
    }

    /// Its address, once it is known.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        let found = self.link.as_ref().and_then(OnLink::found);
        self.spec.peer.or(found.map(IpAddr::V6))
    }

    /// Whether what was reported under that number was heard on its link.
    pub(super) fn hears(&self, number: u64) -> bool {
        self.link.as_ref().is_some_and(|link| link.hears(number))
    }

    /// Somebody on its link said something; whether it has another address from here on.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        from: Ipv6Addr,
        message: Message,
        means: &mut Means<'_>,
    ) -> bool {
        let in_use = !self.is_unsettled();
        let link = self.link.as_mut();
        let is_found = link.is_some_and(|link| link.hear(now, from, message, in_use));
        if is_found {
            self.give(now, Input::Found, means);
        }
        is_found
    }

    /// Whether a call from there is one of its.
    pub(super) fn is_from(&self, from: &SocketAddr) -> bool {
        let on_link = match (from, &self.spec.interface) {
            (SocketAddr::V6(from), Some(name)) if from.ip().is_unicast_link_local() => {
                kedge_net::link::number_of(name) == Some(from.scope_id())
            }
            _ => true,
        };
        Some(from.ip().to_canonical()) == self.peer() && on_link
    }

    /// It called.
    pub(super) fn called(&mut self, now: Instant, stream: TcpStream, means: &mut Means<'_>) {
        if self.session.yields() && self.theirs.take().is_some() {
            self.give(now, Input::Closed(Side::Theirs), means);
        }
        let Some(peer) = self.peer() else { return };
        if bgp::admit(&stream, peer, &self.spec.guard()).is_err() {
            return;
        }
        let place = self.place(&stream);
        match self.session.handle_input(now, Input::Accepted(place)) {
            Ok(()) => {
                let number = means.number();
                self.theirs = Some(means.carry(number, stream));
                self.drain(now, means);
            }
            Err(reject) => self.count(reject.label()),
        }
    }

    /// A call of ours came to an end.
    pub(super) fn dialed(
        &mut self,
        now: Instant,
        number: u64,
        outcome: Result<TcpStream, DialError>,
        means: &mut Means<'_>,
    ) {
        if self.dialing.as_ref().is_none_or(|(it, _)| *it != number) {
            return;
        }
        self.dialing = None;
        match outcome {
            Ok(stream) => {
                let place = self.place(&stream);
                self.ours = Some(means.carry(number, stream));
                self.give(now, Input::Connected(place), means);
            }
            Err(error) => self.give(now, Input::DialFailed(error), means),
        }
    }

    /// Whether that call is its.
    pub(super) fn calls(&self, number: u64) -> bool {
        self.dialing.as_ref().is_some_and(|(it, _)| *it == number)
    }

    /// Whether what is wrong with it may change with time alone.
    pub(super) fn is_unsettled(&self) -> bool {
        self.session.state() != kedge_core::bgp::SessionState::Established
    }

    /// Which of its connections has that number.
    pub(super) fn side(&self, number: u64) -> Option<Side> {
        let has = |side: &Side| {
            let connection = match side {
                Side::Ours => &self.ours,
                Side::Theirs => &self.theirs,
            };
            connection.as_ref().is_some_and(|it| it.number == number)
        };
        Side::ALL.into_iter().find(has)
    }

    pub(super) fn written(
        &mut self,
        now: Instant,
        side: Side,
        is_all: bool,
        means: &mut Means<'_>,
    ) {
        self.give(now, Input::Written(side, is_all), means);
    }

    pub(super) fn gone(&mut self, now: Instant, side: Side, means: &mut Means<'_>) {
        *self.slot(side) = None;
        self.give(now, Input::Closed(side), means);
    }

    /// Bytes came: whole messages are handed over one by one, as each may decide how the next one
    /// reads.
    pub(super) fn bytes(&mut self, now: Instant, side: Side, bytes: &[u8], means: &mut Means<'_>) {
        let Some(connection) = self.slot(side) else {
            return;
        };
        let number = connection.number;
        connection.buffer.extend(bytes);
        while self.side(number) == Some(side) {
            let Some(connection) = self.slot(side) else {
                return;
            };
            let buffer = std::mem::take(&mut connection.buffer);
            let heard = match Frame::split(&buffer) {
                Ok(None) => {
                    connection.buffer = buffer;
                    return;
                }
                Ok(Some((frame, rest))) => {
                    connection.buffer = rest.to_vec();
                    self.session.read(side, &frame)
                }
                Err(refusal) => Err(refusal),
            };
            self.give(now, Input::Heard(side, heard), means);
        }
    }

    fn give(&mut self, now: Instant, input: Input, means: &mut Means<'_>) {
        if let Err(reject) = self.session.handle_input(now, input) {
            self.count(reject.label());
        }
        self.drain(now, means);
    }

    fn drain(&mut self, now: Instant, means: &mut Means<'_>) {
        let mut broken = Vec::new();
        let mut nobody = false;
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Dial => match self.peer() {
                    Some(peer) => {
                        let number = means.number();
                        let handle = dial(number, &self.spec, peer, means.reports.clone());
                        self.dialing = Some((number, handle));
                    }
                    None => nobody = true,
                },
                Output::HangUp => {
                    if let Some((_, handle)) = self.dialing.take() {
                        handle.abort();
                    }
                }
                Output::Send(side, bytes) => {
                    let slot = self.slot(side).as_ref();
                    if slot.is_some_and(|connection| !connection.send(bytes)) {
                        broken.push(side);
                    }
                }
                Output::Close(side) => *self.slot(side) = None,
                Output::Event(event) => {
                    self.changed = SystemTime::now();
                    means.events.push(BgpEvent {
                        name: self.spec.name.clone(),
                        from: event.from,
                        to: event.to,
                        because: event.because.to_string(),
                        at: self.changed,
                    });
                }
                Output::Ended => self.ended = true,
            }
        }
        if nobody {
            self.give(now, Input::DialFailed(DialError::NoNeighbour), means);
        }
        for side in broken {
            if self.slot(side).take().is_some() {
                self.give(now, Input::Closed(side), means);
            }
        }
    }

    const fn slot(&mut self, side: Side) -> &mut Option<Connection> {
        match side {
            Side::Ours => &mut self.ours,
            Side::Theirs => &mut self.theirs,
        }
    }

    fn count(&mut self, reason: &'static str) {
        let count = self.refused.entry(reason).or_default();
        *count = count.saturating_add(1);
    }

    /// Our end of a connection, and what the interface has beside it: but for what is offered, as
    /// packets to a VIP that came by that VIP would go round.
    fn place(&self, stream: &TcpStream) -> Place {
        let Ok(end) = stream.local_addr() else {
            return Place::default();
        };
        let local = end.ip().to_canonical();
        let all = bgp::beside(&end).unwrap_or_default();
        let is_offered =
            |address: &IpAddr| self.session.offers().contains_key(&Prefix::host(*address));
        let others = || all.iter().filter(|address| !is_offered(address));
        let mut place = Place {
            v4: others().find_map(|it| match it {
                IpAddr::V4(v4) if !v4.is_loopback() => Some(*v4),
                IpAddr::V4(_) | IpAddr::V6(_) => None,
            }),
            v6: others().find_map(|it| match it {
                IpAddr::V6(v6) if !v6.is_unicast_link_local() && !v6.is_loopback() => Some(*v6),
                IpAddr::V4(_) | IpAddr::V6(_) => None,
            }),
            link_local: None,
        };
        // Who is spoken to over IPv4 may be on another link of IPv6 (RFC 2545 section 3).
        if self.spec.multihop.is_none() && local.is_ipv6() {
            place.link_local = others().find_map(|it| match it {
                IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(*v6),
                IpAddr::V4(_) | IpAddr::V6(_) => None,
            });
        }
        match local {
            IpAddr::V4(v4) => place.v4 = Some(v4),
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                place.v6 = place.v6.or(Some(v6));
                place.link_local = Some(v6);
            }
            IpAddr::V6(v6) => place.v6 = Some(v6),
        }
        if self.link.is_some() {
            // The other end may have no address of IPv4 there at all, and no way to one.
            place.v4 = None;
        }
        place
    }

    fn problems(&self, now: Instant, view: &View) -> Vec<Problem> {
        let peer = self.peer();
        let mut problems = problems::of(&self.spec, peer, view, now.since(view.since));
        if let Some(link) = &self.link {
            problems.extend(
                link.problem()
                    .map(|it| it.object(problems::object(&self.spec))),
            );
            let other = link.other(now).zip(link.found());
            problems.extend(other.map(|both| problems::two_routers(&self.spec, both)));
        }
        problems
    }

    pub(super) fn snapshot(&self, now: Instant) -> BgpSnapshot {
        let view = self.session.view();
        let furthest = view.peer.as_ref().map(|peer| peer.side);
        let connection = match furthest {
            Some(Side::Theirs) => &self.theirs,
            Some(Side::Ours) | None => &self.ours,
        };
        let problems = self.problems(now, &view);
        BgpSnapshot {
            spec: self.spec.clone(),
            peer: self.peer(),
            view,
            since: self.changed,
            ends: connection.as_ref().and_then(|it| it.ends),
            heard: self.session.heard().cloned().collect(),
            refused: self.refused.clone(),
            problems,
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        if let Some((_, handle)) = self.dialing.take() {
            handle.abort();
        }
    }
}

/// The moment, on the clock of all deadlines.
pub(super) fn now() -> Instant {
    clock::now()
}
