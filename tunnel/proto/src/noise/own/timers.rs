//! When to start a handshake, try again, give up, or say that we are there. Section 6 of the
//! WireGuard paper.

use std::time::Duration;

use kedge_core::Instant;

use super::random::Random;

/// What was sent and heard, as far as it matters for what comes next.
#[derive(Debug, Default)]
pub(super) struct Timers {
    attempt: Option<Attempt>,
    /// The last attempt came to nothing.
    gave_up: bool,
    /// A session was used that is worth replacing.
    worn: bool,
    /// The first packet since which nothing came back, and how long we wait for that.
    unanswered: Option<(Instant, Duration)>,
    /// The first packet that we answered with nothing.
    owed: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    since: Instant,
    retry_at: Instant,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Initiation,
    Keepalive,
    /// `REKEY_ATTEMPT_TIME` is over.
    GiveUp,
}

impl Timers {
    pub(super) fn due(&self, now: Instant) -> Due {
        if let Some(attempt) = self.attempt {
            if now.since(attempt.since) >= REKEY_ATTEMPT_TIME {
                return Due::GiveUp;
            }
            if now >= attempt.retry_at {
                return Due::Initiation;
            }
        } else {
            let waited = |(since, limit)| now.since(since) >= limit;
            if self.worn || self.unanswered.is_some_and(waited) {
                return Due::Initiation;
            }
        }
        match self.owed {
            Some(since) if now.since(since) >= KEEPALIVE_TIMEOUT => Due::Keepalive,
            _ => Due::Nothing,
        }
    }

    /// Whether an initiation may be sent that nobody insists on.
    pub(super) fn may_initiate(&self, now: Instant) -> bool {
        self.attempt.is_none_or(|attempt| now >= attempt.retry_at)
    }

    /// When the initiation under way is sent again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.attempt.map(|attempt| attempt.retry_at)
    }

    pub(super) const fn has_given_up(&self) -> bool {
        self.gave_up
    }

    pub(super) fn initiated(&mut self, now: Instant, random: &mut Random) {
        self.attempt = Some(Attempt {
            since: self.attempt.map_or(now, |attempt| attempt.since),
            retry_at: now + REKEY_TIMEOUT + random.up_to(JITTER),
        });
        self.gave_up = false;
        self.worn = false;
        self.unanswered = None;
        self.owed = None;
    }

    /// An initiation of ours was answered.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// The peer has confirmed a session that it asked for: an initiation of ours is not needed.
    pub(super) fn confirmed(&mut self) {
        self.attempt = None;
        self.gave_up = false;
        self.worn = false;
    }

    pub(super) fn gave_up(&mut self) {
        *self = Self {
            gave_up: true,
            ..Self::default()
        };
    }

    pub(super) fn wear(&mut self) {
        self.worn = true;
    }

    /// A data message was sent.
    pub(super) fn sent(&mut self, now: Instant, empty: bool, random: &mut Random) {
        self.owed = None;
        if !empty && self.unanswered.is_none() {
            self.unanswered = Some((now, NO_ANSWER + random.up_to(JITTER)));
        }
    }

    /// An authentic data message came.
    pub(super) fn heard(&mut self, now: Instant, empty: bool) {
        self.unanswered = None;
        if !empty && self.owed.is_none() {
            self.owed = Some(now);
        }
    }
}

pub(super) const REKEY_ATTEMPT_TIME: Duration = Duration::from_secs(90);
const REKEY_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// `KEEPALIVE_TIMEOUT + REKEY_TIMEOUT`.
const NO_ANSWER: Duration = Duration::from_secs(15);
/// Many peers must not come at once.
const JITTER: Duration = Duration::from_millis(333);

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn random() -> Random {
        Random::new(Zeroizing::new([1; 32]))
    }

    #[test]
    fn an_initiation_is_repeated_after_five_seconds_and_given_up_after_ninety() {
        let (mut timers, mut random) = (Timers::default(), random());
        timers.initiated(at(0), &mut random);
        assert_eq!(timers.due(at(4_999)), Due::Nothing);
        assert!(!timers.may_initiate(at(4_999)));
        assert_eq!(timers.due(at(5_333)), Due::Initiation);
        assert!(timers.may_initiate(at(5_333)));
        let mut now = 0;
        let mut sent = 1;
        let given_up = loop {
            now += 1;
            match timers.due(at(now)) {
                Due::Initiation => {
                    timers.initiated(at(now), &mut random);
                    sent += 1;
                }
                Due::GiveUp => break now,
                due => assert_eq!(due, Due::Nothing),
            }
        };
        assert_eq!((given_up, sent), (90_000, 18));
        timers.gave_up();
        assert!(timers.has_given_up());
        assert_eq!(timers.due(at(1_000_000)), Due::Nothing);
        timers.initiated(at(1_000_000), &mut random);
        assert!(!timers.has_given_up(), "and then it begins anew");
        assert_eq!(timers.due(at(1_089_999)), Due::Initiation);
    }

    #[test]
    fn data_without_an_answer_asks_for_a_handshake_after_fifteen_seconds() {
        let (mut timers, mut random) = (Timers::default(), random());
        timers.sent(at(0), true, &mut random);
        assert_eq!(
            timers.due(at(60_000)),
            Due::Nothing,
            "a keepalive asks for nothing"
        );
        timers.sent(at(0), false, &mut random);
        timers.sent(at(14_000), false, &mut random);
        assert_eq!(timers.due(at(14_999)), Due::Nothing);
        assert_eq!(
            timers.due(at(15_333)),
            Due::Initiation,
            "since the first packet"
        );
        timers.heard(at(15_400), true);
        assert_eq!(timers.due(at(60_000)), Due::Nothing);
    }

    #[test]
    fn data_that_we_answer_with_nothing_is_answered_with_a_keepalive_after_ten_seconds() {
        let (mut timers, mut random) = (Timers::default(), random());
        timers.heard(at(0), true);
        assert_eq!(
            timers.due(at(60_000)),
            Due::Nothing,
            "keepalives are no ping-pong"
        );
        timers.heard(at(0), false);
        timers.heard(at(9_000), false);
        assert_eq!(timers.due(at(9_999)), Due::Nothing);
        assert_eq!(
            timers.due(at(10_000)),
            Due::Keepalive,
            "since the first packet"
        );
        timers.sent(at(10_000), true, &mut random);
        assert_eq!(timers.due(at(60_000)), Due::Nothing);
    }

    #[test]
    fn a_worn_session_asks_for_a_handshake_once() {
        let (mut timers, mut random) = (Timers::default(), random());
        timers.wear();
        assert_eq!(timers.due(at(0)), Due::Initiation);
        timers.initiated(at(0), &mut random);
        timers.wear();
        assert_eq!(timers.due(at(1)), Due::Nothing, "one is under way");
        timers.answered();
        assert_eq!(timers.due(at(60_000)), Due::Nothing);
    }
}
