//! What follows from an answer, and from none.

use kedge_core::Instant;

use super::{Discovery, FLOOR, Search, Standing, State};

impl Discovery {
    /// A packet of that size has arrived; 0 is the short question.
    pub(super) fn passed(&mut self, now: Instant, size: u16) {
        match self.state {
            State::Idle => {}
            State::Ask { before, .. } => {
                self.pause = self.config.again;
                let trial = self.trial(now, Some(FLOOR));
                self.state = State::Base { trial, before };
            }
            // It comes late, from before they were given up.
            State::Silent { .. } => self.begin(now, None),
            State::Base { before, .. } => {
                if size >= FLOOR {
                    self.search(now, before);
                }
            }
            State::Floor { .. } => {
                if size >= FLOOR {
                    self.search(now, None);
                }
            }
            State::Search(search) => self.searched(now, search, size),
            State::Confirm { raise_at, .. } => {
                if size >= self.mtu {
                    self.found(now, size, raise_at);
                }
            }
            State::Complete { raise_at, .. } => {
                if size > self.mtu {
                    self.found(now, size, raise_at);
                }
            }
        }
    }

    /// The least passes: how much more? `before` is what passed once.
    fn search(&mut self, now: Instant, before: Option<u16>) {
        if before.is_some() || self.standing == Standing::Floor {
            self.mtu = FLOOR;
            self.standing = Standing::Probed;
        }
        let high = before.unwrap_or(self.most);
        if high <= FLOOR {
            self.found(now, FLOOR, now + self.config.raise);
            return;
        }
        self.state = State::Search(Search {
            low: FLOOR,
            high,
            trial: self.trial(now, Some(high)),
            leapt: true,
            climbs: false,
        });
    }

    fn searched(&mut self, now: Instant, search: Search, size: u16) {
        if size <= search.low {
            return;
        }
        let search = Search {
            low: size,
            high: search.high.max(size),
            ..search
        };
        if self.mtu < size {
            self.mtu = size;
            self.standing = Standing::Probed;
        }
        if search.trial.size.is_some_and(|trial| size < trial) {
            // An earlier one, late: this one is still out.
            self.state = State::Search(search);
        } else {
            self.go_on(now, search);
        }
    }

    fn go_on(&mut self, now: Instant, search: Search) {
        let Search { low, high, .. } = search;
        if low >= high {
            self.found(now, low, now + self.config.raise);
            return;
        }
        let size = if search.leapt {
            low + (high - low).div_ceil(2)
        } else {
            high
        };
        self.state = State::Search(Search {
            trial: self.trial(now, Some(size)),
            leapt: true,
            climbs: false,
            ..search
        });
    }

    fn found(&mut self, now: Instant, mtu: u16, raise_at: Instant) {
        self.mtu = mtu.min(self.most);
        self.standing = Standing::Probed;
        self.state = State::Complete {
            confirm_at: now + self.config.confirm,
            sent: self.sent,
            raise_at,
        };
    }

    /// All questions of one size went unanswered.
    pub(super) fn exhausted(&mut self, now: Instant) {
        match self.state {
            State::Idle | State::Complete { .. } | State::Silent { .. } | State::Floor { .. } => {}
            State::Ask { .. } => {
                if self.standing == Standing::Unasked {
                    self.standing = Standing::Unanswered;
                }
                let again_at = now + self.pause;
                self.pause = (self.pause * 2).min(self.config.rarest);
                self.state = State::Silent { again_at };
            }
            State::Base { .. } => {
                self.mtu = FLOOR;
                self.standing = Standing::Floor;
                let again_at = now + self.config.rarest;
                self.state = State::Floor { again_at };
            }
            State::Search(search) if search.climbs => {
                self.found(now, search.low, now + self.config.raise);
            }
            State::Search(search) => {
                self.mtu = search.low;
                self.standing = Standing::Probed;
                let size = search.trial.size.unwrap_or(search.high);
                let high = size.saturating_sub(1).max(search.low);
                self.go_on(now, Search { high, ..search });
            }
            // Either nothing passes any more, or nothing so large: the short question tells.
            State::Confirm { .. } => {
                self.holes += 1;
                let before = Some(self.mtu);
                self.begin(now, before);
            }
        }
    }

    pub(super) fn climb(&mut self, now: Instant) {
        let low = self.mtu;
        self.state = State::Search(Search {
            low,
            high: self.most,
            trial: self.trial(now, Some(low + 1)),
            leapt: false,
            climbs: true,
        });
    }
}
