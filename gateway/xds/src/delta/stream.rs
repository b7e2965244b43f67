//! The machine: the channels of all kinds, and who may speak before whom.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use kedge_core::{Instant, Machine};

use super::{
    channel::{Channel, Load},
    message::{
        Change, Input, MAX_NAME, MAX_NAMES, Name, Outcome, Output, Reject, Request, Response,
        Settled,
    },
};
use crate::Kind;

/// How long a listener waits for the members of a new cluster: a client that never asks for them must
/// not keep everything else waiting.
pub const WARMING: Duration = Duration::from_secs(5);

/// One stream of incremental ADS.
#[derive(Debug, Default)]
pub struct Stream {
    channels: Channels,
    /// New clusters whose members Envoy has not taken yet.
    warming: BTreeMap<Name, Warming>,
    nonce: u64,
    outputs: VecDeque<Output>,
}

/// A cluster that waits for its members.
#[derive(Debug)]
struct Warming {
    /// The response it was told in. Members that are told before are of one that was.
    nonce: u64,
    /// When it is waited for no longer.
    until: Instant,
}

#[derive(Debug, Default)]
struct Channels {
    secrets: Channel,
    clusters: Channel,
    endpoints: Channel,
    listeners: Channel,
    routes: Channel,
}

impl Channels {
    const fn of(&mut self, kind: Kind) -> &mut Channel {
        match kind {
            Kind::Secret => &mut self.secrets,
            Kind::Cluster => &mut self.clusters,
            Kind::Endpoint => &mut self.endpoints,
            Kind::Listener => &mut self.listeners,
            Kind::Route => &mut self.routes,
        }
    }
}

impl Stream {
    /// A stream on which nothing was said, and what is wanted at its start.
    #[must_use]
    pub fn new(wanted: Vec<Change>) -> Self {
        let mut stream = Self::default();
        stream.changed(wanted);
        stream
    }

    /// Whether Envoy holds what is wanted, all of it and nothing else.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let Channels {
            secrets,
            clusters,
            endpoints,
            listeners,
            routes,
        } = &self.channels;
        let all = [secrets, clusters, endpoints, listeners, routes];
        all.into_iter().all(Channel::is_settled)
    }

    fn changed(&mut self, changes: Vec<Change>) {
        for change in changes {
            self.channels
                .of(change.kind)
                .want(change.name, change.revision);
        }
    }

    fn asked(&mut self, request: Request) -> Result<(), Reject> {
        let kind = request.kind;
        let mut names = request.subscribe.iter().chain(&request.unsubscribe);
        if names.any(|name| name.len() > MAX_NAME) {
            return Err(Reject::NameTooLong);
        }
        let channel = self.channels.of(kind);
        if channel.names() + request.subscribe.len() > MAX_NAMES {
            return Err(Reject::TooManyNames);
        }
        let mut settled = match (request.nonce, &request.refused) {
            (Some(nonce), Some(detail)) => channel.refused(nonce, detail),
            (Some(nonce), None) => channel.acknowledged(nonce),
            (None, _) => Vec::new(),
        };
        let is_first = !channel.is_open();
        if is_first {
            let everything = kind.is_listed() && request.subscribe.is_empty();
            let mut holds = request.holds;
            if kind == Kind::Endpoint {
                // A cluster whose members were on the way when the last stream ended still waits for
                // them, and nobody can tell: all are told again.
                holds.iter_mut().for_each(|(_, version)| *version = None);
            }
            channel.open(everything, holds);
        }
        // Whoever leaves a name and asks for it in one request wants it told again.
        for name in &request.unsubscribe {
            channel.unsubscribe(name);
        }
        for name in request.subscribe {
            channel.subscribe(name);
        }
        if is_first {
            settled.extend(channel.held());
        }
        for (name, outcome) in settled {
            self.settled(kind, name, outcome, request.nonce);
        }
        Ok(())
    }

    fn settled(&mut self, kind: Kind, name: Name, outcome: Outcome, nonce: Option<u64>) {
        match kind {
            // Of clusters that wait Envoy acknowledges nothing until they have their members.
            Kind::Cluster if matches!(outcome, Outcome::Applied(_)) => {}
            Kind::Cluster => {
                self.warming.remove(&name);
            }
            Kind::Endpoint => {
                let is_over = |warming: &Warming| nonce.is_some_and(|nonce| nonce > warming.nonce);
                if self.warming.get(&name).is_some_and(is_over) {
                    self.warming.remove(&name);
                }
            }
            Kind::Secret | Kind::Listener | Kind::Route => {}
        }
        let settled = Settled {
            kind,
            name,
            outcome,
        };
        self.outputs.push_back(Output::Settled(settled));
    }

    /// Sends what may be sent.
    fn advance(&mut self, now: Instant) {
        for kind in Kind::ALL {
            self.channels.of(kind).tidy();
        }
        for kind in Kind::ALL {
            let Some(load) = self.next(kind) else {
                continue;
            };
            self.nonce += 1;
            let response = Response {
                kind,
                nonce: self.nonce,
                told: load.told.clone(),
                removed: load.removed.clone(),
            };
            self.channels.of(kind).sent(self.nonce, load);
            if kind == Kind::Cluster {
                self.members_follow(now, &response);
            }
            self.outputs.push_back(Output::Send(response));
        }
    }

    fn next(&mut self, kind: Kind) -> Option<Load> {
        let Channels {
            secrets,
            clusters,
            endpoints,
            listeners,
            routes,
        } = &mut self.channels;
        let is_grounded =
            self.warming.is_empty() && !clusters.is_behind() && !endpoints.is_behind();
        // After a reconnect it may hold listeners that it has not told yet.
        let is_heard = listeners.is_open() && (routes.is_open() || routes.is_empty());
        let is_unused = is_heard && listeners.is_settled() && routes.is_settled();
        match kind {
            Kind::Secret => secrets.next(true, |_| is_unused),
            Kind::Cluster => clusters.next(true, |_| is_unused),
            // Whoever hears that there are no members keeps those it has, and waits for none.
            Kind::Endpoint => endpoints.next(false, |_| true),
            Kind::Listener if is_grounded => listeners.next(false, |_| true),
            Kind::Route if is_grounded => routes.next(false, |_| true),
            Kind::Listener | Kind::Route => None,
        }
    }

    /// Clusters were told: their members are told after them.
    fn members_follow(&mut self, now: Instant, response: &Response) {
        let Channels {
            clusters,
            endpoints: members,
            ..
        } = &mut self.channels;
        for (name, _) in &response.told {
            members.repeat(name);
            let has_members = members.is_wanted(name) && !members.is_refused(name);
            let is_whole = clusters.is_known(name) && members.is_known(name);
            if has_members && !is_whole {
                let warming = Warming {
                    nonce: response.nonce,
                    until: now + WARMING,
                };
                self.warming.insert(name.clone(), warming);
            }
        }
    }
}

impl Machine for Stream {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        match input {
            Input::Request(request) => self.asked(request)?,
            Input::Changed(changes) => self.changed(changes),
        }
        let members = &self.channels.endpoints;
        self.warming.retain(|name, _| members.is_wanted(name));
        self.advance(now);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.warming.retain(|_, warming| warming.until > now);
        self.advance(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.warming.values().map(|warming| warming.until).min()
    }
}
