//! The states; each owns its deadlines.

use kedge_core::{Instant, vip::RouterState};

use super::{AddressRefused, Config, LinkLoss, Peer, unverified::Check};
use crate::{
    claim::Probe,
    wire::{Claim, Mac},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Initialize,
    Backup(Backup),
    Active(Active),
    Releasing(Releasing),
    Fault(Fault),
}

/// Listening for the Active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backup {
    /// When listening began.
    pub(super) since: Instant,
    /// When the Active counts as gone. Only a valid advert moves it later.
    pub(super) down_at: Instant,
    /// What `down_at` stands for.
    pub(super) cause: Cause,
    /// The first-claim probes, while they run.
    pub(super) probe: Option<Probe>,
    /// The question to somebody who advertises without proof, before a claim after silence.
    pub(super) check: Option<Check>,
    /// Until when the Active may say goodbye to us.
    pub(super) next_until: Option<Instant>,
    /// Who answered the probes before it was known whether an Active serves the address.
    pub(super) suspect: Option<Claim>,
}

/// What the end of a Backup's wait means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The Active (if there was one) fell silent.
    Silence,
    /// The Active said goodbye.
    Goodbye,
    /// The Active said goodbye to us.
    Succession,
    /// The Active's process ended.
    Gone,
    /// The Active is alive, of lower priority, and preemption is on.
    Preempt(Peer),
    /// The Active is alive and unhealthy, and our own fresh probe succeeded.
    Pull(Peer),
    /// The Active is alive and drained, and we are not.
    Relieve(Peer),
    /// The Active is alive, of lower priority, and the operator wants the VIP here.
    Order(Peer),
}

/// Holding the addresses, or about to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Active {
    /// When the next advert is due.
    pub(super) advert_at: Instant,
    /// When the last one was sent.
    pub(super) sent_at: Instant,
    /// Whether the kernel said that it holds the addresses.
    pub(super) held: bool,
    /// The station that was Active before, if any was heard.
    pub(super) before: Option<Mac>,
}

/// Said goodbye, still answering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Releasing {
    /// When the next goodbye is due.
    pub(super) advert_at: Instant,
    /// When the last one was sent.
    pub(super) sent_at: Instant,
    /// When to stop answering.
    pub(super) release_at: Instant,
    /// Who took over.
    pub(super) successor: Option<Successor>,
    /// What follows.
    pub(super) then: Then,
    /// Whether the kernel said that it holds the addresses.
    pub(super) held: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Successor {
    pub(super) peer: Peer,
    announced: Seen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Stop,
    Backup,
}

/// Unable to hold the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No usable link.
    Link(LinkLoss),
    /// Something failed without which the VIP must not be here.
    Tracked,
    /// A host that is no VRRP router answers for an address.
    InUse {
        claim: Claim,
        /// When to ask again.
        probe_at: Instant,
        /// Whether anybody answered since the last time.
        answered: bool,
    },
    /// The kernel did not take an address.
    Refused {
        refused: AddressRefused,
        retry_at: Instant,
    },
}

impl State {
    pub(super) const fn name(&self) -> RouterState {
        match self {
            Self::Initialize => RouterState::Initialize,
            Self::Backup(_) => RouterState::Backup,
            Self::Active(_) => RouterState::Active,
            Self::Releasing(_) => RouterState::Releasing,
            Self::Fault(_) => RouterState::Fault,
        }
    }
}

impl Successor {
    pub(super) const fn new(peer: Peer) -> Self {
        Self {
            peer,
            announced: Seen([0; 4]),
        }
    }

    /// Notes a claim; whether the successor has now announced all of `addresses`.
    pub(super) fn announced(&mut self, config: &Config, claim: Claim) -> bool {
        // It may announce where every member does, whatever it advertises from.
        if claim.mac != self.peer.mac && !claim.is_virtual(config.vrid) {
            return false;
        }
        let index = config.held().position(|address| address == claim.address);
        if let Some(index) = index {
            self.announced.insert(index);
        }
        // Addresses beyond those that are remembered are announced after them.
        self.announced.count() == config.held().count().min(Seen::CAPACITY)
    }
}

/// A set of positions in an address list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen([u64; 4]);

impl Seen {
    const CAPACITY: usize = 256;

    fn insert(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    fn count(&self) -> usize {
        let ones = self.0.iter().map(|word| word.count_ones());
        usize::try_from(ones.sum::<u32>()).unwrap_or(usize::MAX)
    }
}
