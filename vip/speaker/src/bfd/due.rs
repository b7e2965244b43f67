//! When each session wants to be looked at, and which of them a packet is for: side by side, so that a
//! wake-up among hundreds of sessions reads their moments and not the sessions.

use std::collections::BTreeMap;

use kedge_core::Instant;
use kedge_vip_proto::wire::bfd::Discriminator;

use super::instance::Instance;

/// What there is to know of a list of sessions, by their places in it.
#[derive(Debug, Default)]
pub(super) struct Due {
    moments: Vec<Moments>,
    places: BTreeMap<Discriminator, usize>,
}

/// [`Instant::FAR`] is never.
#[derive(Clone, Copy, Debug)]
struct Moments {
    /// From when on the session has something to do, if anybody is awake.
    ready: Instant,
    /// When it is worth a wake-up: without a socket nothing can be sent.
    wakes: Instant,
    /// When something becomes worth telling that nothing else tells.
    notice: Instant,
}

impl Moments {
    fn of(session: &Instance) -> Self {
        let deadline = session.deadline().filter(|_| session.has_socket());
        Self {
            ready: session.ready_at().unwrap_or(Instant::FAR),
            wakes: deadline.unwrap_or(Instant::FAR),
            notice: session.notice_at().unwrap_or(Instant::FAR),
        }
    }
}

impl Due {
    /// Learns all of a list that became another one.
    pub(super) fn learn(&mut self, sessions: &[Instance]) {
        self.moments.clear();
        self.moments.extend(sessions.iter().map(Moments::of));
        let places = sessions.iter().enumerate();
        self.places = places.map(|(at, it)| (it.local(), at)).collect();
    }

    /// Learns what became of the session at a place.
    pub(super) fn note(&mut self, place: usize, session: &Instance) {
        if let Some(moments) = self.moments.get_mut(place) {
            *moments = Moments::of(session);
        }
    }

    /// Where the session is that has a number.
    pub(super) fn place(&self, local: Discriminator) -> Option<usize> {
        self.places.get(&local).copied()
    }

    /// The next session from a place on that has something to do.
    pub(super) fn next_ready(&self, from: usize, now: Instant) -> Option<usize> {
        let rest = self.moments.get(from..)?;
        let found = rest.iter().position(|it| it.ready <= now)?;
        Some(from + found)
    }

    /// When to wake up for one of them.
    pub(super) fn wakes(&self) -> Option<Instant> {
        let first = self.moments.iter().map(|it| it.wakes).min();
        first.filter(|at| *at < Instant::FAR)
    }

    /// The first moment after another one at which something is to be told.
    pub(super) fn notice(&self, after: Instant) -> Option<Instant> {
        let all = self.moments.iter().map(|it| it.notice);
        all.filter(|at| *at > after && *at < Instant::FAR).min()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use kedge_vip_proto::bfd::Config;

    use super::{super::BfdSpec, *};

    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn session(number: u8) -> Instance {
        let spec = BfdSpec {
            name: format!("s{number}").parse().unwrap(),
            peer: Ipv4Addr::new(192, 0, 2, number).into(),
            interface: None,
            source: None,
            inside: None,
            multihop: false,
            config: Config::DEFAULT,
            on_request: false,
        };
        let local = Discriminator::new(u32::from(number)).unwrap();
        Instance::new(START, spec, Config::DEFAULT, local, 7)
    }

    #[test]
    fn what_is_due_is_found_from_a_place_on_and_no_more_once_it_is_noted() {
        let mut sessions = [1, 2, 3].map(session);
        let mut due = Due::default();
        due.learn(&sessions);
        let late = sessions[0].deadline().unwrap();
        assert_eq!(due.next_ready(0, late), Some(0));
        assert_eq!(due.next_ready(1, late), Some(1));
        assert_eq!(due.next_ready(3, late), None);
        assert_eq!(due.next_ready(4, late), None);
        // It has no socket, and its packet goes nowhere.
        let _ = sessions[0].timeout(late);
        due.note(0, &sessions[0]);
        assert_eq!(due.next_ready(0, late), Some(1));
        assert_eq!(due.wakes(), None, "without a socket nothing is worth it");
    }

    #[test]
    fn a_number_has_its_place_and_a_notice_its_moment() {
        let sessions = [5, 9].map(session);
        let mut due = Due::default();
        due.learn(&sessions);
        let number = |number| Discriminator::new(number).unwrap();
        assert_eq!(due.place(number(9)), Some(1));
        assert_eq!(due.place(number(6)), None);
        let notice = sessions[0].notice_at().unwrap();
        assert_eq!(due.notice(START), Some(notice));
        assert_eq!(due.notice(notice), None, "it was told");
        due.learn(&sessions[1..]);
        assert_eq!(due.place(number(5)), None);
        assert_eq!(due.place(number(9)), Some(0));
    }
}
