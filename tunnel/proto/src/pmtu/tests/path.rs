//! A machine and the way that it asks, on a virtual clock.

use std::collections::BinaryHeap;

use super::*;

pub fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// What a way does with questions and answers.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The largest that passes.
    pub limit: u16,
    /// The same for the way back.
    pub back: u16,
    pub delay: Duration,
    /// In percent, each way.
    pub loss: u8,
    /// Nobody answers.
    pub silent: bool,
}

pub struct Path {
    pub way: Way,
    /// Bytes sent to the peer each second.
    pub data: u64,
    machine: Discovery,
    now: Instant,
    sent: u64,
    told_at: Instant,
    random: u64,
    /// Answers under way, the first one first.
    answers: BinaryHeap<std::cmp::Reverse<(Instant, u64)>>,
}

/// An answer is no longer than this, headers and all.
const ANSWER: u16 = 72;

impl Path {
    pub fn new(limit: u16) -> Self {
        Self::seeded(limit, 1)
    }

    pub fn seeded(limit: u16, seed: u64) -> Self {
        Self {
            way: Way {
                limit,
                back: u16::MAX,
                delay: Duration::from_millis(10),
                loss: 0,
                silent: false,
            },
            data: 0,
            machine: Discovery::new(Config::default(), 7),
            now: at(0),
            sent: 0,
            told_at: at(0),
            random: seed | 1,
            answers: BinaryHeap::new(),
        }
    }

    pub fn report(&self) -> Report {
        self.machine.report()
    }

    pub fn begin(&mut self, most: u16, start: u16) {
        let path = Input::Path { most, start };
        self.machine.handle_input(self.now, path).unwrap();
        self.carry();
    }

    /// From the beginning until nothing is asked any more.
    pub fn settle(&mut self, most: u16, start: u16) -> Duration {
        self.begin(most, start);
        let begun = self.now;
        while !matches!(self.machine.state, State::Complete { .. }) {
            assert!(self.now.since(begun) < Duration::from_mins(1), "settled");
            self.step(self.now + Duration::from_mins(1));
        }
        self.now.since(begun)
    }

    /// Until `holds`.
    pub fn until(&mut self, what: &str, holds: impl Fn(&Report) -> bool) -> Duration {
        let begun = self.now;
        while !holds(&self.report()) {
            assert!(self.now.since(begun) < Duration::from_mins(15), "{what}");
            self.step(self.now + Duration::from_mins(15));
        }
        self.now.since(begun)
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until_after(time, |_, _| {});
    }

    pub fn run_until_after(&mut self, time: Duration, each: impl FnMut(&Report, Instant)) {
        self.run_until(self.now + time, each);
    }

    pub fn run_until(&mut self, end: Instant, mut each: impl FnMut(&Report, Instant)) {
        while self.now < end {
            self.step(end);
            each(&self.report(), self.now);
        }
    }

    /// The next thing that happens, not later than `end`.
    fn step(&mut self, end: Instant) {
        let answer = self.answers.peek().map(|first| first.0.0);
        let told = self.told_at + Duration::from_secs(1);
        let due = self.machine.poll_timeout();
        let next = [answer, due, Some(told), Some(end)]
            .into_iter()
            .flatten()
            .min();
        self.now = next.unwrap().max(self.now);
        if answer.is_some_and(|at| at <= self.now) {
            let std::cmp::Reverse((_, sequence)) = self.answers.pop().unwrap();
            let message = Message {
                is_answer: true,
                session: 7,
                sequence,
            };
            let _ = self
                .machine
                .handle_input(self.now, Input::Received(message));
        }
        if told <= self.now {
            self.told_at = self.now;
            self.sent += self.data;
            let sent = Input::Sent(self.sent);
            self.machine.handle_input(self.now, sent).unwrap();
        }
        self.machine.handle_timeout(self.now);
        self.carry();
    }

    fn carry(&mut self) {
        for (message, size) in asked(&mut self.machine) {
            let size = size.unwrap_or(ANSWER);
            let lost = self.way.silent || self.chance() || self.chance();
            let passes = size <= self.way.limit || size <= ANSWER;
            if !lost && passes && ANSWER <= self.way.back {
                let at = self.now + self.way.delay * 2;
                self.answers.push(std::cmp::Reverse((at, message.sequence)));
            }
        }
    }

    /// xorshift64.
    fn chance(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 100 < u64::from(self.way.loss)
    }
}
