//! A host: router, kernel, and what can happen to both.

use std::{collections::VecDeque, time::Duration};

use kedge_core::{Instant, vip::RouterState};
use kedge_vip_proto::vrrp::{Config, Input, Ticket, Tracked, Verdict, View};

use crate::{frame::Frame, subject::Subject};

/// One host.
#[derive(Clone, Debug)]
pub struct Host<S> {
    /// The router, while the process lives.
    pub router: Option<S>,
    /// How the next process is configured.
    pub config: Config,
    /// Counts processes, so that what was meant for an earlier one is dropped.
    pub epoch: u32,
    /// Whether the link is up.
    pub link: bool,
    /// Whether a frame arrived since the link came up.
    pub heard: bool,
    /// Whether the process is not scheduled.
    pub stalled: bool,
    /// What waits for it.
    pub backlog: VecDeque<Inbound>,
    /// How late its next timer is served.
    pub late: Duration,
    /// What its kernel holds.
    pub kernel: Kernel,
    /// Whether its service answers.
    pub healthy: bool,
    /// What its health gate says.
    pub verdict: Verdict,
    /// What its tracks say.
    pub tracked: Tracked,
}

/// Something that arrived for a process.
#[derive(Clone, Debug)]
pub enum Inbound {
    /// A frame.
    Frame(Frame),
    /// Anything else.
    Input(Input),
}

/// The address in the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel {
    /// The request that is in force, if the address is wanted.
    pub wanted: Option<Ticket>,
    /// Whether the kernel has the address and answers for it.
    pub holds: bool,
}

impl<S: Subject> Host<S> {
    /// A host that is off.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            router: None,
            config,
            epoch: 0,
            link: true,
            heard: false,
            stalled: false,
            backlog: VecDeque::new(),
            late: Duration::ZERO,
            kernel: Kernel::default(),
            healthy: true,
            verdict: Verdict::Unproven,
            tracked: Tracked::default(),
        }
    }

    /// Whether its router can act at present.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.router.is_some() && !self.stalled
    }

    /// Its router's account of itself, if it can act.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        self.router
            .as_ref()
            .filter(|_| !self.stalled)
            .map(Subject::view)
    }

    /// Its router's state, if it can act and has a link.
    #[must_use]
    pub fn state(&self) -> Option<RouterState> {
        self.router
            .as_ref()
            .filter(|_| self.link && !self.stalled)
            .map(Subject::state)
    }

    /// When its router wants to act.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        let router = self.router.as_ref().filter(|_| !self.stalled)?;
        router.poll_timeout().map(|due| due + self.late)
    }
}
