//! The MSS clamp beside a device, put up by a thread of its own: `nft` is a program, and where a disk or a
//! processor keeps it waiting for seconds, whoever looks after the device has VIPs to look after as well.

use std::{thread, time::Duration};

use kedge_core::{Coded as _, Instant, Problem};
use kedge_net::{
    clamp::{Clamp, ClampError},
    clock,
};
use tracing::warn;

/// Has a clamp as long as there is a device. Without one a tunnel works on.
#[derive(Debug)]
pub(crate) struct Clamper {
    state: State,
    problem: Option<Problem>,
    /// When it is tried again.
    again_at: Instant,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Down,
    Working(thread::JoinHandle<Done>),
    Stands(Clamp),
}

/// The clamp, and whether it was down.
type Done = Result<(Clamp, bool), ClampError>;

impl Clamper {
    /// None stands yet.
    pub const fn new() -> Self {
        Self {
            state: State::Down,
            problem: None,
            again_at: Instant::ZERO,
        }
    }

    /// Looks after the clamp of that interface, about once a second; never waits. Whether somebody else had
    /// taken it down, and it stands again.
    pub fn tend(&mut self, interface: &str) -> bool {
        match std::mem::take(&mut self.state) {
            State::Down if clock::now() < self.again_at => {}
            State::Down => {
                let interface = interface.to_owned();
                self.work(move || Clamp::install(&interface).map(|clamp| (clamp, false)));
            }
            State::Stands(clamp) if clamp.is_in_doubt() => {
                self.work(move || clamp.restore().map(|was_down| (clamp, was_down)));
            }
            State::Working(thread) if thread.is_finished() => return self.take(thread),
            same @ (State::Stands(_) | State::Working(_)) => self.state = same,
        }
        false
    }

    /// Why there is none.
    pub const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Leaves it to whoever comes next.
    pub fn leave(&mut self) {
        *self = Self::new();
    }

    /// Takes it down, and waits for that: nothing of a device that is closed stays.
    pub fn remove(&mut self) {
        let clamp = match std::mem::take(&mut self.state) {
            State::Down => None,
            State::Working(thread) => thread.join().ok().and_then(Result::ok).map(|(it, _)| it),
            State::Stands(clamp) => Some(clamp),
        };
        if let Some(Err(error)) = clamp.map(Clamp::remove) {
            let error = &error as &dyn std::error::Error;
            warn!(error, "the tunnel's MSS clamp stays behind");
        }
        *self = Self::new();
    }

    fn work(&mut self, work: impl FnOnce() -> Done + Send + 'static) {
        // A thread is in the network namespace of the one that starts it, and so is its `nft`.
        let started = thread::Builder::new().name("kedge-nft".into()).spawn(work);
        match started {
            Ok(thread) => self.state = State::Working(thread),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(error, "nft is run later");
                self.again_at = clock::now() + PAUSE;
            }
        }
    }

    fn take(&mut self, thread: thread::JoinHandle<Done>) -> bool {
        match thread.join() {
            Ok(Ok((clamp, was_down))) => {
                self.state = State::Stands(clamp);
                self.problem = None;
                was_down
            }
            failed => {
                self.again_at = clock::now() + PAUSE;
                self.problem = failed
                    .ok()
                    .and_then(Result::err)
                    .map(|error| error.problem());
                false
            }
        }
    }
}

/// How long what failed waits.
const PAUSE: Duration = Duration::from_secs(30);
