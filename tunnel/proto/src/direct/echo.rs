//! Questions on one path, what their answers took, and how many in a row had none.

use std::{collections::VecDeque, time::Duration};

use kedge_core::Instant;

use crate::echo::Message;

/// The asking end of one path to a peer.
#[derive(Clone, Debug)]
pub(super) struct Echo {
    /// Not to be guessed: who does not see the path cannot answer.
    session: u64,
    next: u64,
    /// Questions that may still be answered, oldest first.
    open: VecDeque<(u64, Instant)>,
    /// What the last answers took.
    took: VecDeque<Duration>,
    /// Questions without an answer since the last one.
    pub misses: u32,
    /// Answers since the start of this try.
    pub answers: u32,
}

impl Echo {
    pub const fn new(session: u64) -> Self {
        Self {
            session,
            next: 0,
            open: VecDeque::new(),
            took: VecDeque::new(),
            misses: 0,
            answers: 0,
        }
    }

    /// Begins anew: what was known of the path counts no more.
    pub fn restart(&mut self) {
        self.open.clear();
        self.took.clear();
        self.misses = 0;
        self.answers = 0;
    }

    /// The path leads elsewhere: what answers took on the one before counts no more.
    pub fn forget_times(&mut self) {
        self.took.clear();
    }

    /// The next question.
    pub fn ask(&mut self, now: Instant) -> Message {
        let sequence = self.next;
        self.next += 1;
        if self.open.len() >= OPEN {
            self.open.pop_front();
        }
        self.open.push_back((sequence, now));
        Message {
            is_answer: false,
            session: self.session,
            sequence,
        }
    }

    /// Takes an answer; whether it is one to an open question.
    pub fn answered(&mut self, now: Instant, message: Message) -> bool {
        if !message.is_answer || message.session != self.session {
            return false;
        }
        let place = self
            .open
            .iter()
            .position(|(sequence, _)| *sequence == message.sequence);
        let Some((_, asked)) = place.and_then(|at| self.open.remove(at)) else {
            return false;
        };
        // What was asked before is answered or lost: it is no miss any more.
        self.open
            .retain(|(sequence, _)| *sequence > message.sequence);
        if self.took.len() >= KEPT {
            self.took.pop_front();
        }
        self.took.push_back(now.since(asked));
        self.answers = self.answers.saturating_add(1);
        self.misses = 0;
        true
    }

    /// Gives up on questions that are too old.
    pub fn expire(&mut self, now: Instant) {
        let patience = self.patience();
        while self
            .open
            .front()
            .is_some_and(|(_, asked)| now.since(*asked) >= patience)
        {
            self.open.pop_front();
            self.misses = self.misses.saturating_add(1);
        }
    }

    /// When the oldest question is too old.
    pub fn due(&self) -> Option<Instant> {
        let (_, asked) = self.open.front()?;
        Some(*asked + self.patience())
    }

    /// Whether an answer is waited for.
    pub fn waits(&self) -> bool {
        !self.open.is_empty()
    }

    /// The round trip: the best of the last answers, since only queues make one longer.
    pub fn rtt(&self) -> Option<Duration> {
        self.took.iter().min().copied()
    }

    /// How long an answer may take: a slow path is given four round trips, and never a second.
    fn patience(&self) -> Duration {
        let usual = self.rtt().map_or(PATIENCE, |rtt| rtt * 4);
        usual.clamp(PATIENCE, LONGEST)
    }
}

const PATIENCE: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_millis(800);
const OPEN: usize = 16;
const KEPT: usize = 8;
