//! What is simulated: the router, or one that is broken on purpose.

use kedge_core::{Instant, Machine, vip::RouterState};
use kedge_vip_proto::vrrp::{Config, Input, Output, Reject, Router, View};

/// A virtual router as the simulator drives it.
pub trait Subject: Machine<Input = Input, Output = Output, Reject = Reject> + Clone {
    /// A router with `config`.
    fn with(config: Config) -> Self;
    /// Its account of itself.
    fn view(&self) -> View;
    /// Its state, which is cheaper to ask for.
    fn state(&self) -> RouterState;
    /// Whether announcements may leave.
    fn announcing(&self) -> bool;
}

impl Subject for Router {
    fn with(config: Config) -> Self {
        Self::new(config).expect("the simulator configures sensibly")
    }

    fn view(&self) -> View {
        Self::view(self)
    }

    fn state(&self) -> RouterState {
        Self::state(self)
    }

    fn announcing(&self) -> bool {
        Self::announcing(self)
    }
}

/// What made a router act.
#[derive(Clone, Debug)]
pub enum Cause {
    /// An input.
    Input(Input),
    /// Its deadline.
    Timeout,
}

impl Cause {
    /// Lets `subject` act.
    ///
    /// # Errors
    ///
    /// The input was refused.
    pub fn apply<S: Subject>(&self, subject: &mut S, now: Instant) -> Result<(), Reject> {
        match self {
            Self::Input(input) => subject.handle_input(now, input.clone()),
            Self::Timeout => {
                subject.handle_timeout(now);
                Ok(())
            }
        }
    }
}
