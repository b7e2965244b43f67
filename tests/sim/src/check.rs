//! What must hold at every step, and how long anything may last.

use std::{fmt, time::Duration};

use kedge_core::{Instant, vip::RouterState};
use kedge_vip_proto::vrrp::{Input, Output, Reject, Ticket, View};

use crate::{
    host::Host,
    network::Network,
    setup::{Setup, mac, source},
    subject::{Cause, Subject},
};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Instant,
    /// At which host.
    pub host: usize,
    /// What.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: host {}: {}", self.at, self.host, self.what)
    }
}

/// Watches every step of every router.
#[derive(Clone, Debug)]
pub struct Checker {
    interval: Duration,
    slack: Duration,
    slowest: Duration,
    owner: Vec<bool>,
    tracks: Vec<Track>,
    /// `dual[one][other]`: since when both are Active on one clean segment.
    dual: Vec<Vec<Option<Instant>>>,
}

/// What is known about one router.
#[derive(Clone, Debug, Default)]
struct Track {
    /// The request for the addresses that is in force.
    wanted: Option<Ticket>,
    /// Whether it was confirmed.
    confirmed: bool,
    /// When it last sent an advert above zero.
    sent_at: Option<Instant>,
    /// Since when it could act although its segment has no owner.
    ownerless: Option<Instant>,
}

impl Checker {
    /// A checker of a world with `setup`.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        let hosts = setup.configs.len();
        Self {
            interval: setup.interval.duration(),
            // A timer is late twice at most: the Active's and the Backup's.
            slack: setup.lateness * 2 + Duration::from_micros(10),
            slowest: setup.delay.1,
            owner: setup.configs.iter().map(|config| config.owner).collect(),
            tracks: vec![Track::default(); hosts],
            dual: vec![vec![None; hosts]; hosts],
        }
    }

    /// A process died.
    pub fn died(&mut self, host: usize) {
        self.tracks[host] = Track::default();
    }

    /// Something was broken or repaired: every bound on time begins anew.
    pub fn disturbed(&mut self, _now: Instant) {
        for track in &mut self.tracks {
            track.ownerless = None;
        }
        self.dual
            .iter_mut()
            .flatten()
            .for_each(|since| *since = None);
    }

    /// A router acted.
    ///
    /// # Errors
    ///
    /// It broke an invariant.
    #[expect(clippy::too_many_arguments, reason = "a step is what it is")]
    pub fn acted(
        &mut self,
        now: Instant,
        host: usize,
        cause: &Cause,
        result: Result<(), Reject>,
        before: &View,
        after: &View,
        outputs: &[Output],
        next: Option<Instant>,
    ) -> Result<(), Violation> {
        let fail = |what: String| {
            Err(Violation {
                at: now,
                host,
                what,
            })
        };
        if result.is_err() && !(outputs.is_empty() && before == after) {
            return fail(format!("a refused input changed something: {outputs:?}"));
        }
        if matches!(cause, Cause::Timeout) && next.is_some_and(|next| next <= now) {
            return fail(format!(
                "after a timeout the next one is due already: {next:?}"
            ));
        }
        if let Cause::Input(Input::Owned {
            ticket,
            result: Ok(()),
        }) = cause
            && self.tracks[host].wanted == Some(*ticket)
        {
            self.tracks[host].confirmed = true;
        }
        self.steps_down(now, host, cause, result, before, after)?;
        self.takes_over_no_later(now, host, cause, result, before, after)?;
        self.lets_go_first(now, host, before, outputs)?;
        self.sends(now, host, before, after, outputs)
    }

    /// A router steps down on the very delivery of a better advert.
    fn steps_down(
        &self,
        now: Instant,
        host: usize,
        cause: &Cause,
        result: Result<(), Reject>,
        before: &View,
        after: &View,
    ) -> Result<(), Violation> {
        let Cause::Input(Input::Advert(heard)) = cause else {
            return Ok(());
        };
        let Some(priority) = heard.advert.priority.filter(|_| heard.mac != mac(host)) else {
            return Ok(());
        };
        let better = (priority, heard.src) > (before.priority, source(host, heard.src.is_ipv6()));
        let active = |view: &View| view.state == RouterState::Active;
        if active(before) && active(after) && better && result.is_ok() {
            let what = format!("stays Active after a better advert: {:?}", heard.advert);
            return Err(Violation {
                at: now,
                host,
                what,
            });
        }
        Ok(())
    }

    /// Only a valid advert moves a take-over later.
    fn takes_over_no_later(
        &self,
        now: Instant,
        host: usize,
        cause: &Cause,
        result: Result<(), Reject>,
        before: &View,
        after: &View,
    ) -> Result<(), Violation> {
        let (Some(old), Some(new)) = (before.takes_over_at, after.takes_over_at) else {
            return Ok(());
        };
        let advert = matches!(
            cause,
            Cause::Input(Input::Advert(heard)) if result.is_ok() && heard.advert.priority.is_some()
        );
        if before.since == after.since && new > old && !advert {
            let what = format!("{cause:?} moved the take-over from {old:?} to {new:?}");
            return Err(Violation {
                at: now,
                host,
                what,
            });
        }
        Ok(())
    }

    /// An Active that was silent for three intervals lets go before anything leaves.
    fn lets_go_first(
        &self,
        now: Instant,
        host: usize,
        before: &View,
        outputs: &[Output],
    ) -> Result<(), Violation> {
        let silent = self.tracks[host]
            .sent_at
            .map_or(Duration::ZERO, |at| now.since(at));
        let late = before.state == RouterState::Active && silent > self.interval * 3;
        let first = outputs
            .iter()
            .find(|output| !matches!(output, Output::Event(_)));
        match first {
            None | Some(Output::Own { hold: false, .. }) => Ok(()),
            Some(_) if !late || self.owner[host] => Ok(()),
            Some(output) => {
                let what = format!("after {silent:?} of silence the first thing was {output:?}");
                Err(Violation {
                    at: now,
                    host,
                    what,
                })
            }
        }
    }

    /// What leaves, leaves in the right state and order.
    fn sends(
        &mut self,
        now: Instant,
        host: usize,
        before: &View,
        after: &View,
        outputs: &[Output],
    ) -> Result<(), Violation> {
        let fail = |what: &str| {
            Err(Violation {
                at: now,
                host,
                what: what.to_owned(),
            })
        };
        let track = &mut self.tracks[host];
        if before.state != after.state && after.state == RouterState::Active {
            // From here on silence counts, even if nothing is ever sent.
            track.sent_at = Some(now);
        }
        for output in outputs {
            match output {
                Output::Send(transmit) if transmit.advert.priority.is_some() => {
                    let active = [before, after].map(|view| view.state == RouterState::Active);
                    if active == [false, false] {
                        return fail("an advert left a router that is not Active");
                    }
                    track.sent_at = Some(now);
                }
                Output::Own { hold, ticket } => {
                    track.wanted = hold.then_some(*ticket);
                    track.confirmed = false;
                }
                Output::Announce(_) if !track.confirmed => {
                    return fail("announced before the kernel held the address");
                }
                Output::Send(_)
                | Output::Announce(_)
                | Output::ProbeAddress(_)
                | Output::ProbeHealth
                | Output::Prove { .. }
                | Output::Event(_) => {}
            }
        }
        let holding = matches!(after.state, RouterState::Active | RouterState::Releasing);
        if track.wanted.is_some() != holding {
            return fail("the address is wanted in the wrong state");
        }
        Ok(())
    }

    /// Time passed; nothing happened since the last step.
    ///
    /// # Errors
    ///
    /// Something lasted too long.
    pub fn passed<S: Subject>(
        &mut self,
        now: Instant,
        hosts: &[Host<S>],
        network: &Network,
    ) -> Result<(), Violation> {
        let states: Vec<Option<RouterState>> = hosts.iter().map(Host::state).collect();
        self.adverts_continue(now, &states)?;
        if !network.is_calm() {
            self.disturbed(now);
            return Ok(());
        }
        self.duels_end(now, &states, network)?;
        self.somebody_owns(now, hosts, &states, network)
    }

    /// An Active advertises every interval.
    fn adverts_continue(
        &self,
        now: Instant,
        states: &[Option<RouterState>],
    ) -> Result<(), Violation> {
        for (host, state) in states.iter().enumerate() {
            let silent = self.tracks[host]
                .sent_at
                .map_or(Duration::ZERO, |at| now.since(at));
            // A host that was just resumed acts before time passes.
            if *state == Some(RouterState::Active) && silent > self.interval + self.slack {
                let what = format!("an Active was silent for {silent:?}");
                return Err(Violation {
                    at: now,
                    host,
                    what,
                });
            }
        }
        Ok(())
    }

    /// Two Actives that hear each other end within one advert and its way.
    fn duels_end(
        &mut self,
        now: Instant,
        states: &[Option<RouterState>],
        network: &Network,
    ) -> Result<(), Violation> {
        let bound = self.interval + self.slowest + self.slack;
        let active = |host: usize| states[host] == Some(RouterState::Active);
        for one in 0..states.len() {
            for other in 0..one {
                if !active(one) || !active(other) || !network.connects(one, other) {
                    self.dual[one][other] = None;
                    continue;
                }
                let since = *self.dual[one][other].get_or_insert(now);
                if now.since(since) > bound {
                    let what = format!("Active beside host {other} for {:?}", now.since(since));
                    return Err(Violation {
                        at: now,
                        host: one,
                        what,
                    });
                }
            }
        }
        Ok(())
    }

    /// A clean segment with somebody able to own the VIP has an owner.
    fn somebody_owns<S: Subject>(
        &mut self,
        now: Instant,
        hosts: &[Host<S>],
        states: &[Option<RouterState>],
        network: &Network,
    ) -> Result<(), Violation> {
        // The longest Active_Down of any priority, and the last advert's way.
        let bound = self.interval * 4 + self.slowest + self.slack;
        for (host, state) in states.iter().enumerate() {
            let owned = || {
                states.iter().enumerate().any(|(other, state)| {
                    let owns = matches!(state, Some(RouterState::Active | RouterState::Releasing));
                    owns && (other == host || network.connects(host, other))
                })
            };
            let waits = || hosts[host].view().is_none_or(|view| view.waiting.is_some());
            if *state != Some(RouterState::Backup) || owned() || waits() {
                self.tracks[host].ownerless = None;
                continue;
            }
            let since = *self.tracks[host].ownerless.get_or_insert(now);
            if now.since(since) > bound {
                let what = format!("nobody owns the VIP for {:?}", now.since(since));
                return Err(Violation {
                    at: now,
                    host,
                    what,
                });
            }
        }
        Ok(())
    }
}
