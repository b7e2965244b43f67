//! Who is at the other end of a link: learned from what routers say of themselves (RFC 4861), as a
//! neighbour without a configured address says it (`neighbor eth0 interface` of FRR).
//!
//! The host says the same of itself, so that the other side learns its address, with a router lifetime of
//! zero: nobody takes it as a default router (section 4.2).

use std::{collections::VecDeque, net::Ipv6Addr, time::Duration};

use kedge_core::{Instant, Machine};

use crate::{dice::Dice, wire::nd::router::Message};

/// One link, and who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether anything can be said and heard.
    is_open: bool,
    found: Option<Found>,
    /// Another router that was heard, which is not spoken with.
    other: Option<Found>,
    /// How many of the first advertisements are left.
    first: u8,
    said_at: Option<Instant>,
    next_at: Option<Instant>,
    dice: Dice,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    address: Ipv6Addr,
    heard_at: Instant,
}

/// What can happen on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// From here on something can be said and heard, or no longer.
    Open(bool),
    /// A message came from a station of the link. `in_use`: a session with the known one stands, which
    /// is not to end for another one's word.
    Heard {
        /// Whom it is from; unspecified for one that has no address yet.
        from: Ipv6Addr,
        /// What it says.
        message: Message,
        /// Whether a session with the known router stands.
        in_use: bool,
    },
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Say it: an advertisement to every node, a solicitation to every router.
    Send(Message),
    /// The neighbour has this address from here on.
    Found(Ipv6Addr),
}

/// Nothing can be said or heard yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link is not open")]
pub struct Closed;

impl Link {
    /// A link on which nobody was heard. `seed` is any number: it spreads what is said.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            is_open: false,
            found: None,
            other: None,
            first: 0,
            said_at: None,
            next_at: None,
            dice: Dice::new(seed),
            outputs: VecDeque::new(),
        }
    }

    /// The router that was found.
    #[must_use]
    pub const fn found(&self) -> Option<Ipv6Addr> {
        match &self.found {
            Some(found) => Some(found.address),
            None => None,
        }
    }

    /// Another one that is there at `now` as well, and that nobody speaks with.
    #[must_use]
    pub fn other(&self, now: Instant) -> Option<Ipv6Addr> {
        let fresh = self.other.filter(|it| now.since(it.heard_at) < SILENCE);
        fresh.map(|it| it.address)
    }

    fn hear(&mut self, now: Instant, address: Ipv6Addr, in_use: bool) {
        let heard = Found {
            address,
            heard_at: now,
        };
        match self.found {
            Some(known) if known.address == address => self.found = Some(heard),
            Some(known) if in_use || now.since(known.heard_at) < SILENCE => {
                self.other = Some(heard);
            }
            Some(_) | None => {
                self.found = Some(heard);
                self.other = self.other.filter(|other| other.address != address);
                self.outputs.push_back(Output::Found(address));
                // It may have begun after what was said last.
                self.answer(now);
            }
        }
    }

    /// Says soon that this host is there, but no more often than section 6.2.6 has it.
    fn answer(&mut self, now: Instant) {
        let soon = now + self.part_of(Duration::ZERO, DELAY);
        let due = match self.said_at {
            Some(said_at) => soon.max(said_at + LEAST),
            None => soon,
        };
        self.next_at = Some(self.next_at.map_or(due, |at| at.min(due)));
    }

    fn say(&mut self, now: Instant) {
        self.outputs.push_back(Output::Send(Message::HERE));
        self.said_at = Some(now);
        let pause = if self.first > 0 {
            self.first -= 1;
            LEAST
        } else {
            self.part_of(INTERVAL[0], INTERVAL[1])
        };
        self.next_at = Some(now + pause);
    }

    fn part_of(&mut self, from: Duration, to: Duration) -> Duration {
        let range = to.saturating_sub(from).as_nanos();
        let part = (range * u128::from(self.dice.roll())) >> 32;
        from + Duration::from_nanos(u64::try_from(part).unwrap_or_default())
    }
}

impl Machine for Link {
    type Input = Input;
    type Output = Output;
    type Reject = Closed;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Closed> {
        match input {
            Input::Open(true) => {
                self.is_open = true;
                self.first = FIRST;
                self.outputs.push_back(Output::Send(Message::Solicitation));
                self.say(now);
            }
            Input::Open(false) => {
                self.is_open = false;
                self.next_at = None;
            }
            Input::Heard { .. } if !self.is_open => return Err(Closed),
            Input::Heard {
                message: Message::Solicitation,
                ..
            } => self.answer(now),
            Input::Heard {
                from,
                message: Message::Advertisement { .. },
                in_use,
            } => self.hear(now, from, in_use),
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.next_at.is_some_and(|at| at <= now) {
            self.say(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_at
    }
}

/// The shortest time between two advertisements (RFC 4861 section 10, `MIN_DELAY_BETWEEN_RAS`).
const LEAST: Duration = Duration::from_secs(3);
/// How many follow the first one that quickly (`MAX_INITIAL_RTR_ADVERTISEMENTS`).
const FIRST: u8 = 3;
/// The longest time until a solicitation is answered (`MAX_RA_DELAY_TIME`).
const DELAY: Duration = Duration::from_millis(500);
/// Between two advertisements (section 6.2.1: a third of the longest at least); FRR's longest is the same.
const INTERVAL: [Duration; 2] = [Duration::from_millis(3_300), Duration::from_secs(10)];
/// After how much silence another router takes the place of the known one.
const SILENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xa);
    const B: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xb);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn outputs(link: &mut Link) -> Vec<Output> {
        std::iter::from_fn(|| link.poll_output()).collect()
    }

    fn open() -> Link {
        let mut link = Link::new(7);
        link.handle_input(at(0), Input::Open(true)).unwrap();
        link
    }

    fn heard(from: Ipv6Addr, in_use: bool) -> Input {
        Input::Heard {
            from,
            message: Message::Advertisement { lifetime: 0 },
            in_use,
        }
    }

    #[test]
    fn a_link_that_opens_is_asked_and_told_at_once_and_then_less_and_less_often() {
        let mut link = open();
        let here = Output::Send(Message::HERE);
        assert_eq!(
            outputs(&mut link),
            [Output::Send(Message::Solicitation), here]
        );
        let mut times = Vec::new();
        let mut last = at(0);
        for _ in 0..40 {
            let due = link.poll_timeout().unwrap();
            link.handle_timeout(due);
            assert_eq!(outputs(&mut link), [here]);
            times.push(due.since(last));
            last = due;
        }
        assert_eq!(times[..3], [LEAST; 3]);
        let rest = &times[3..];
        assert!(
            rest.iter()
                .all(|it| (INTERVAL[0]..INTERVAL[1]).contains(it))
        );
        assert!(rest.iter().any(|it| *it != rest[0]), "nothing is spread");
        link.handle_input(last, Input::Open(false)).unwrap();
        assert_eq!(link.poll_timeout(), None);
        assert_eq!(link.handle_input(last, heard(A, false)), Err(Closed));
    }

    #[test]
    fn who_asks_is_answered_soon_but_not_more_often_than_every_three_seconds() {
        let mut link = open();
        outputs(&mut link);
        let ask = Input::Heard {
            from: Ipv6Addr::UNSPECIFIED,
            message: Message::Solicitation,
            in_use: false,
        };
        link.handle_input(at(100), ask).unwrap();
        assert_eq!(link.poll_timeout(), Some(at(3_000)));
        for due in [3_000, 6_000, 9_000] {
            link.handle_timeout(at(due));
        }
        // The next one is a while away.
        assert!(link.poll_timeout().unwrap() >= at(12_300));
        link.handle_input(at(12_100), ask).unwrap();
        let due = link.poll_timeout().unwrap();
        assert!((at(12_100)..=at(12_600)).contains(&due), "{due:?}");
    }

    #[test]
    fn the_first_router_is_the_neighbour_until_it_is_silent_and_no_session_stands() {
        let mut link = open();
        outputs(&mut link);
        link.handle_input(at(10), heard(A, false)).unwrap();
        assert_eq!(outputs(&mut link), [Output::Found(A)]);
        assert_eq!(link.found(), Some(A));
        // Heard again, it is nobody new.
        link.handle_input(at(9_000), heard(A, true)).unwrap();
        assert_eq!(outputs(&mut link), []);
        // Another one is seen, and nothing else.
        link.handle_input(at(20_000), heard(B, false)).unwrap();
        assert_eq!(outputs(&mut link), []);
        assert_eq!((link.found(), link.other(at(21_000))), (Some(A), Some(B)));
        assert_eq!(link.other(at(51_000)), None);
        link.handle_input(at(60_000), heard(B, true)).unwrap();
        assert_eq!((outputs(&mut link), link.found()), (vec![], Some(A)));
        link.handle_input(at(61_000), heard(B, false)).unwrap();
        assert_eq!(outputs(&mut link), [Output::Found(B)]);
        assert_eq!((link.found(), link.other(at(61_000))), (Some(B), None));
    }
}
