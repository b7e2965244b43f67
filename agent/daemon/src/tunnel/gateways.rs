//! Several gateways to the same prefixes: what is known of each, and which one is active.

use std::{net::IpAddr, time::Duration};

use kedge_control::local::GatewayUse;
use kedge_core::{Instant, Machine as _, Name, bfd::Liveness};
use kedge_net::clock;
use kedge_tunnel_device::PeerSpec;
use kedge_tunnel_proto::failover::{
    Because, Config, Evidence, Failover, Input, Output, Session, Target, Verdict,
};
use kedge_vip_speaker::bfd::{BfdSpec, Interval, Level, Levels, Multiplier};
use tracing::{debug, info, warn};

use crate::desired::{FailoverWish, Peer, TunnelWish};

/// The gateways, and the choice between them.
#[derive(Debug)]
pub(super) struct Gateways {
    wish: FailoverWish,
    machine: Failover,
}

/// What is known of the path through a gateway, beside BFD.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Whether its echo is answered.
    pub answers: Option<bool>,
    /// When authenticated data came from it last.
    pub heard: Option<Instant>,
    /// What lies behind it.
    pub target: Option<Target>,
    /// Whether it is reached over TLS alone.
    pub over_tls: bool,
}

impl Gateways {
    /// The first of them is active.
    pub fn new(now: Instant, wish: FailoverWish) -> Self {
        let machine = Failover::new(now, config(&wish));
        let mut gateways = Self { wish, machine };
        gateways.take(now);
        gateways
    }

    /// Whether they are as somebody wants them.
    pub fn are(&self, wish: &FailoverWish) -> bool {
        self.wish == *wish
    }

    /// Wants them otherwise. Who stays keeps its place.
    pub fn want(&mut self, now: Instant, wish: FailoverWish) {
        self.wish = wish;
        self.machine.configure(config(&self.wish));
        self.take(now);
    }

    /// The active one.
    pub fn active(&self) -> Option<&str> {
        self.machine.active()
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.machine.poll_timeout()
    }

    /// Takes what is known of all of them. Whether another one is active since.
    pub fn see(&mut self, now: Instant, levels: &Levels, known: impl Fn(&str) -> Known) -> bool {
        let evidence = |gateway: &String| {
            let level = session_name(gateway).and_then(|name| levels.get(&name));
            let Known {
                answers,
                heard,
                target,
                over_tls,
            } = known(gateway);
            let evidence = Evidence {
                session: session(level),
                answers,
                heard,
                target,
                over_tls,
            };
            (gateway.clone(), evidence)
        };
        let seen = self.wish.gateways.iter().map(evidence).collect();
        if let Err(reject) = self.machine.handle_input(now, Input::Seen(seen)) {
            debug!(%reject, "a gateway is not one of these");
        }
        self.machine.handle_timeout(now);
        self.act()
    }

    /// Leads what lies behind the gateways through the active one, and takes it from all.
    pub fn lead(&self, peer: &mut PeerSpec) {
        let prefixes = self.wish.prefixes.iter().copied();
        if self.active() == Some(peer.name.as_str()) {
            peer.allowed_ips.extend(prefixes);
        } else if self.wish.gateways.contains(&peer.name) {
            peer.accepts.extend(prefixes);
        }
    }

    /// What people see of a gateway.
    pub fn view(&self, name: &str) -> Option<GatewayUse> {
        let view = self.machine.view();
        let view = view.into_iter().find(|view| view.gateway == name)?;
        let (because, since) = self.machine.because();
        let because = if view.active {
            format!("{because}")
        } else {
            match (view.verdict, view.returns_in) {
                (Verdict::Well, Some(left)) => {
                    format!("it is active again in {:.0} s", left.as_secs_f64().ceil())
                }
                (Verdict::Well, None) => "another one is active, and well".to_owned(),
                (verdict, _) => format!("it {verdict}"),
            }
        };
        Some(GatewayUse {
            active: view.active,
            because,
            active_seconds: view.active.then(|| clock::now().since(since).as_secs_f64()),
            targets_unreachable: self.machine.is_target_unreachable(),
        })
    }

    fn take(&mut self, now: Instant) {
        let gateways = Input::Gateways(self.wish.gateways.clone());
        // A set of gateways is never refused.
        let _ = self.machine.handle_input(now, gateways);
        self.act();
    }

    fn act(&mut self) -> bool {
        let mut changed = false;
        while let Some(output) = self.machine.poll_output() {
            let Output::Activate { from, to, because } = output;
            let why = because.to_string();
            match because {
                Because::Better(Verdict::Silent | Verdict::ForwardsNothing) => {
                    warn!(from, to, because = why, "another gateway is active");
                }
                _ => info!(from, to, because = why, "another gateway is active"),
            }
            changed = true;
        }
        changed
    }
}

/// The BFD sessions with gateways: those that one of several is watched with, and those that every other one
/// may ask for, as it does when connections come through it to this host.
pub(crate) fn sessions(wish: &TunnelWish) -> Vec<BfdSpec> {
    let failover = wish.failover.as_ref();
    let spec = |peer: &Peer| {
        let (local, remote) = peer.echo?;
        let name = session_name(&peer.name)?;
        let watched = failover.filter(|it| it.gateways.contains(&peer.name));
        Some(match watched {
            Some(failover) => spec(name, local, remote, failover.interval),
            None => spec(name, local, remote, ASKED_FOR).asked_for(),
        })
    };
    wish.peers.iter().filter_map(spec).collect()
}

fn spec(name: Name, local: IpAddr, remote: IpAddr, interval: Duration) -> BfdSpec {
    let micros = u32::try_from(interval.as_micros()).unwrap_or(u32::MAX);
    let interval = Interval::from_micros(micros);
    BfdSpec::in_tunnel(name, [local, remote], interval)
}

/// The name of a gateway's session among all of the host's.
fn session_name(gateway: &str) -> Option<Name> {
    let plain = |character: char| match character.to_ascii_lowercase() {
        plain @ ('a'..='z' | '0'..='9' | '-') => plain,
        _ => '-',
    };
    let name: String = "tunnel-"
        .chars()
        .chain(gateway.chars().map(plain))
        .take(63)
        .collect();
    name.parse().ok()
}

fn session(level: Option<&Level>) -> Session {
    match level {
        Some(level) if level.peer_leaves => Session::Leaving,
        Some(level) => match level.liveness {
            Liveness::Unknown => Session::Unknown,
            Liveness::Alive => Session::Alive,
            Liveness::Lost => Session::Lost,
        },
        None => Session::Unknown,
    }
}

fn config(wish: &FailoverWish) -> Config {
    Config {
        return_after: wish.return_after,
        patience: PATIENCE,
        data_counts: wish.interval * u32::from(Multiplier::DEFAULT.get()),
        margin: wish.interval * 2,
    }
}

/// A session takes a second or two to come up: BFD begins slowly (RFC 5880 section 6.8.3).
const PATIENCE: Duration = Duration::from_secs(3);
/// A gateway that asks for a session knows of this host's end after three of them.
const ASKED_FOR: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_names_whatever_gateways_are_called() {
        for (gateway, name) in [
            ("gw-a", "tunnel-gw-a"),
            ("GW 1.fra", "tunnel-gw-1-fra"),
            ("", "tunnel-"),
        ] {
            assert_eq!(session_name(gateway).unwrap().as_str(), name);
        }
        let long = session_name(&"g".repeat(300)).unwrap();
        assert_eq!(long.as_str().len(), 63);
    }
}
