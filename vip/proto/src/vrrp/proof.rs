//! Proof from the wire: whether packets for our addresses reach this host once it has taken them
//! (R22).
//!
//! That the kernel holds an address and that it was announced says nothing about the network: a
//! switch with port security, a hypervisor or a cloud may refuse what it is told. So after each
//! take-over the link's router is asked a question from the address. Its answer, or whatever else
//! arrives here for the address first, is the proof. Without one the address is announced anew and
//! people are told. It is never given away for that: a router that died would push it round all
//! hosts.

use std::time::Duration;

use kedge_core::Instant;

use super::{Notice, Output, router::Router};

/// What is known of packets for our addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// Not asked for: the addresses are not held, or there is nobody to ask.
    #[default]
    None,
    /// Looked for.
    Awaited {
        /// When the kernel took the addresses.
        since: Instant,
    },
    /// They arrive here.
    Seen {
        /// When the first one did.
        at: Instant,
    },
    /// None arrived, though the link's router was asked.
    Missing {
        /// When the kernel took the addresses.
        since: Instant,
    },
}

/// The answer to [`Output::Prove`] with `look: true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// A packet for one of the addresses arrived, sent to this host's hardware address.
    Arrived,
    /// No router is known on this link.
    NobodyToAsk,
}

/// The search for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Proving {
    proof: Proof,
    /// Questions asked in this round.
    asked: u32,
    /// When the next one is due, or the round ends.
    due: Option<Instant>,
    looking: bool,
}

impl Proving {
    pub(super) const fn proof(&self) -> Proof {
        self.proof
    }

    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Whether the shell was told to look and not to stop.
    pub(super) const fn is_looking(&self) -> bool {
        self.looking
    }
}

impl Router {
    /// The kernel holds the addresses, and they are being announced.
    pub(super) fn begin_to_prove(&mut self, now: Instant) {
        self.stop_proving();
        if !self.config.proves {
            return;
        }
        self.proving = Proving {
            proof: Proof::Awaited { since: now },
            asked: 0,
            due: Some(now + ASK_AFTER),
            looking: false,
        };
    }

    /// The addresses go, or are others.
    pub(super) fn stop_proving(&mut self) {
        self.look_away();
        self.proving = Proving::default();
    }

    pub(super) fn on_evidence(&mut self, now: Instant, evidence: Evidence) {
        self.look_away();
        self.proving.due = None;
        self.proving.proof = match evidence {
            Evidence::Arrived => Proof::Seen { at: now },
            Evidence::NobodyToAsk => Proof::None,
        };
    }

    /// Asks, three times in a second's distance, and draws the conclusion.
    pub(super) fn prove(&mut self, now: Instant) {
        if self.proving.due.is_none_or(|due| now < due) {
            return;
        }
        if self.proving.asked < QUESTIONS {
            self.proving.asked += 1;
            self.proving.due = Some(now + ASK_EVERY);
            self.proving.looking = true;
            self.outputs.push_back(Output::Prove { look: true });
            return;
        }
        self.look_away();
        self.proving.asked = 0;
        self.proving.due = Some(now + ASK_AGAIN);
        let (Proof::Awaited { since } | Proof::Missing { since }) = self.proving.proof else {
            return;
        };
        if let Proof::Awaited { .. } = self.proving.proof {
            self.announcer.burst(now);
        }
        self.proving.proof = Proof::Missing { since };
        self.notice(
            now,
            Notice::Unproven {
                addresses: self.config.addresses.clone(),
                since: now.since(since),
            },
        );
    }

    fn look_away(&mut self) {
        if std::mem::take(&mut self.proving.looking) {
            self.outputs.push_back(Output::Prove { look: false });
        }
    }
}

/// The burst of announcements comes first.
const ASK_AFTER: Duration = Duration::from_millis(200);
const ASK_EVERY: Duration = Duration::from_secs(1);
const QUESTIONS: u32 = 3;
/// With the three seconds of a round: six times a minute, so that the complaint ends soon after its
/// cause.
const ASK_AGAIN: Duration = Duration::from_secs(7);
