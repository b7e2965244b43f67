//! The virtual router itself.

use std::collections::VecDeque;

use kedge_core::{Instant, Machine, vip::RouterState};

use super::{Because, Config, ConfigError, Input, Output, Reject, Stats, Verdict, View};

/// One virtual router: (interface, VRID) for IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    config: Config,
    outputs: VecDeque<Output>,
}

impl Router {
    /// A router in Initialize; it waits for [`Input::Link`] and
    /// [`Command::Start`](super::Command::Start).
    ///
    /// # Errors
    ///
    /// The configuration contradicts itself.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            outputs: VecDeque::new(),
        })
    }

    /// The configuration in force.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> RouterState {
        RouterState::Initialize
    }

    /// Whether announcements may leave: to be asked again before each one, because the sockets
    /// may have brought a better advert since it was queued.
    #[must_use]
    pub const fn announcing(&self) -> bool {
        false
    }

    /// The router's account of itself.
    #[must_use]
    pub fn view(&self) -> View {
        View {
            state: self.state(),
            since: Instant::ZERO,
            because: Because::Started,
            held: false,
            priority: self.config.priority,
            verdict: Verdict::default(),
            active: None,
            takes_over_at: None,
            waiting: None,
            both_checksums: false,
            stats: Stats::default(),
        }
    }
}

impl Machine for Router {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, _now: Instant, _input: Input) -> Result<(), Reject> {
        Err(Reject::WrongState)
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
