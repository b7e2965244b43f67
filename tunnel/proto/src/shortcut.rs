//! When a host answers for an endpoint at a gateway itself, towards hosts of its site, and when it leaves that
//! to the gateway again.
//!
//! ```text
//!             neither the tunnel nor the endpoint answers        7 s later, and a host of the site answers
//!    Gateway ─────────────────────────────────────────► Doubted ───────────────────────────────────► Taking
//!     ▲   ▲           one of them answers                │   ▲           it could not be taken          │
//!     │   └──────────────────────────────────────────────┘   └───────────── (again 5 s later) ──────────┤
//!     │                                                                                                 │ taken
//!     │      the endpoint answered for 10 s        the endpoint answers                                 ▼
//!     └─────────────────────────────── Returning ◄────────────────────────────────────────────── Standing
//!                                          └───────────────── it does not any more ─────────────────►
//! ```
//! The way back is the endpoint's own answer, by the gateway: a tunnel that is up does not say that anybody
//! behind the gateway is reached, and clients come by the endpoint.

use std::{collections::VecDeque, time::Duration};

use kedge_core::{Instant, Machine};

/// How patient it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// For how long neither tunnel nor endpoint answers before it is taken.
    pub take_after: Duration,
    /// For how long the endpoint answers before it is left to the gateway.
    pub return_after: Duration,
    /// How long after it could not be taken that is tried again.
    pub retry: Duration,
}

impl Default for Config {
    /// The tunnel takes three seconds to be sure, so that it is taken ten seconds after the last answer: a gateway
    /// that is started again is back by then, and a node is not given up for forty.
    ///
    /// A way back that lasts ten seconds is one: as long as a preferred gateway is waited for.
    fn default() -> Self {
        Self {
            take_after: Duration::from_secs(7),
            return_after: Duration::from_secs(10),
            retry: Duration::from_secs(5),
        }
    }
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Whether a gateway answers through the tunnel.
    Tunnel(bool),
    /// Whether the endpoint answered, by the gateway.
    Endpoint(bool),
    /// Whether a host of the site answered that serves what is behind the endpoint.
    Targets(bool),
    /// Whether it was taken as it was told.
    Taken(bool),
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answer for the endpoint, and say whether that was possible.
    Take,
    /// Leave it to the gateway: new connections first, then what runs.
    Release,
}

/// Who answers for the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The gateway.
    Gateway,
    /// The gateway, which is not reached.
    Doubted,
    /// Nobody knows yet: it is being taken.
    Taking,
    /// This host.
    Standing,
    /// This host, for as long as the gateway has to prove itself.
    Returning,
}

/// Why an input was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// Nothing was to be taken.
    #[error("nothing is being taken")]
    Unasked,
}

/// Who answers for one endpoint.
#[derive(Clone, Debug)]
pub struct Shortcut {
    config: Config,
    state: State,
    since: Instant,
    /// When the state is over by itself.
    due: Option<Instant>,
    tunnel: bool,
    endpoint: bool,
    targets: bool,
    outputs: VecDeque<Output>,
}

impl Shortcut {
    /// The gateway does, with nothing known of it: it has as long as one that was lost.
    #[must_use]
    pub fn new(now: Instant, config: Config) -> Self {
        let mut new = Self {
            config,
            state: State::Gateway,
            since: now,
            due: None,
            tunnel: false,
            endpoint: false,
            targets: false,
            outputs: VecDeque::new(),
        };
        new.run(now);
        new
    }

    /// Who answers, and since when.
    #[must_use]
    pub const fn state(&self) -> (State, Instant) {
        (self.state, self.since)
    }

    /// Whether a gateway answers through the tunnel, the endpoint by the gateway, a host of the site.
    #[must_use]
    pub const fn heard(&self) -> (bool, bool, bool) {
        (self.tunnel, self.endpoint, self.targets)
    }

    /// Whether endpoint and hosts are to be asked: not while the tunnel says all there is to know. A site's
    /// hosts would ask their gateway each second for nothing.
    #[must_use]
    pub const fn asks(&self) -> bool {
        !self.tunnel || self.is_taken()
    }

    /// Whether this host answers, or is about to.
    #[must_use]
    pub const fn is_taken(&self) -> bool {
        match self.state {
            State::Gateway | State::Doubted => false,
            State::Taking | State::Standing | State::Returning => true,
        }
    }

    fn run(&mut self, now: Instant) {
        if !self.asks() {
            // What was heard last says nothing when the tunnel goes.
            (self.endpoint, self.targets) = (false, false);
        }
        let reached = self.tunnel || self.endpoint;
        match self.state {
            State::Gateway if !reached => {
                self.turn(now, State::Doubted, Some(self.config.take_after));
            }
            State::Doubted if reached => self.turn(now, State::Gateway, None),
            State::Doubted if self.targets && self.is_due(now) => {
                self.turn(now, State::Taking, None);
                self.outputs.push_back(Output::Take);
            }
            State::Standing if self.endpoint => {
                self.turn(now, State::Returning, Some(self.config.return_after));
            }
            State::Returning if !self.endpoint => self.turn(now, State::Standing, None),
            State::Returning if self.is_due(now) => {
                self.turn(now, State::Gateway, None);
                self.outputs.push_back(Output::Release);
            }
            State::Gateway
            | State::Doubted
            | State::Taking
            | State::Standing
            | State::Returning => {}
        }
    }

    fn turn(&mut self, now: Instant, state: State, lasts: Option<Duration>) {
        (self.state, self.since) = (state, now);
        self.due = lasts.map(|lasts| now + lasts);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}

impl Machine for Shortcut {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        match input {
            Input::Tunnel(answers) => self.tunnel = answers,
            Input::Endpoint(answers) => self.endpoint = answers,
            Input::Targets(answer) => self.targets = answer,
            Input::Taken(_) if self.state != State::Taking => return Err(Reject::Unasked),
            Input::Taken(true) => self.turn(now, State::Standing, None),
            Input::Taken(false) => {
                self.turn(now, State::Doubted, Some(self.config.retry));
            }
        }
        self.run(now);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.is_due(now) {
            self.run(now);
            // Nobody of the site answers: the next answer is what is waited for.
            if self.state == State::Doubted && self.is_due(now) {
                self.due = Some(Instant::ZERO);
            }
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due.filter(|due| *due > Instant::ZERO)
    }
}

#[cfg(test)]
mod tests;
