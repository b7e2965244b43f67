//! Which way packets between two hosts go: through the gateway at once, and straight when that is proven.
//!
//! Both hosts call each other at every place where the other might be, at the same time and again, so
//! that their NATs let the answers in. The call is a handshake, so nobody else can answer it; the path
//! that came about is asked by an echo inside the tunnel, which nobody else sees. Only then, and only
//! where it is as quick as the gateway's, packets take it. What is known of a peer comes from gateways
//! both hosts have sessions with; their word is a lease.
//!
//! The state of one peer is drawn in `peer.rs`.

mod because;
mod candidate;
mod echo;
mod message;
mod packet;
mod peer;

use std::{
    collections::{BTreeMap, VecDeque},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ipnet::IpNet;
use kedge_core::{Instant, Machine};

use self::peer::Peer;
pub use self::{
    because::{Because, Path, Refusal},
    candidate::{Candidate, CandidateKind, Nat, PLACES},
    message::{Hello, MEETING_PORT, Mention, Word},
    packet::{Probe, ProbeError},
    peer::LEASE,
};
use crate::{echo::Message, keys::PublicKey};

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Exactly these peers may be met, the first ones before others. What is known of those that stay is
    /// kept.
    Peers(Vec<PublicKey>),
    /// Why this host has no direct paths, if it has none.
    Refuse(Option<Refusal>),
    /// Where this host says it may be called.
    Candidates(Vec<Candidate>),
    /// What leads into the tunnel: nobody is called there.
    Inside(Vec<IpNet>),
    /// These are the gateways; what others have said counts no more.
    Gateways(Vec<String>),
    /// Where a gateway sees this host.
    SeenAt {
        /// The gateway.
        gateway: String,
        /// Where.
        at: SocketAddr,
    },
    /// What a gateway tells of a peer, and that it still may.
    Told {
        /// The gateway.
        gateway: String,
        /// The peer.
        peer: PublicKey,
        /// What.
        told: Told,
    },
    /// Where the session with a peer leads, while there is one.
    Session {
        /// The peer.
        peer: PublicKey,
        /// Where.
        at: Option<SocketAddr>,
    },
    /// An answer came from a peer.
    Answer {
        /// The peer.
        peer: PublicKey,
        /// On which path.
        path: Path,
        /// The answer.
        message: Message,
    },
}

/// What a gateway tells of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Whether it has direct paths at all.
    pub willing: bool,
    /// What its NAT does, by its own word.
    pub nat: Nat,
    /// Where the gateway sees it.
    pub at: Option<SocketAddr>,
    /// Where it says it may be called.
    pub candidates: Vec<Candidate>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Start a handshake with a peer and send the same initiation to each of these places.
    Call {
        /// The peer.
        peer: PublicKey,
        /// The places.
        to: Vec<SocketAddr>,
    },
    /// Ask a peer on a path.
    Ask {
        /// The peer.
        peer: PublicKey,
        /// The path.
        path: Path,
        /// The question.
        message: Message,
    },
    /// Send packets for a peer this way from here on.
    Use {
        /// The peer.
        peer: PublicKey,
        /// The way.
        path: Path,
        /// Why.
        because: Because,
    },
}

/// Why an input was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// It is about somebody who is none of the peers.
    #[error("no such peer")]
    UnknownPeer,
    /// It comes from somebody who is none of the gateways.
    #[error("no such gateway")]
    UnknownGateway,
    /// An answer to what was not asked, or not on this path, or long ago.
    #[error("unexpected answer")]
    Unexpected,
}

/// What is known of a peer, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Which way packets go.
    pub path: Path,
    /// Why.
    pub because: Because,
    /// Since when.
    pub since: Instant,
    /// Where the peer is, on a direct path.
    pub at: Option<SocketAddr>,
    /// The round trip of the direct path, where it answered.
    pub direct_rtt: Option<Duration>,
    /// That of the gateway's.
    pub gateway_rtt: Option<Duration>,
    /// What the peer's NAT does, by its own word.
    pub nat: Nat,
    /// Where it may be called.
    pub called: Vec<SocketAddr>,
}

/// The choice of paths to all peers of this host.
#[derive(Clone, Debug)]
pub struct Direct {
    own: Own,
    peers: BTreeMap<PublicKey, Peer>,
    gateways: Vec<String>,
    calls: Calls,
    /// Makes the numbers that answers are told by.
    seed: u64,
    outputs: VecDeque<Output>,
}

/// What is known of this host.
#[derive(Clone, Debug, Default)]
struct Own {
    refusal: Option<Refusal>,
    candidates: Vec<Candidate>,
    seen: BTreeMap<String, SocketAddr>,
    inside: Vec<IpNet>,
}

/// How many calls went out within this second, so that nobody is flooded through us.
#[derive(Clone, Debug)]
struct Calls {
    since: Instant,
    all: usize,
    targets: BTreeMap<IpAddr, usize>,
}

impl Direct {
    /// Nobody to meet yet. `seed` must not be guessed.
    #[must_use]
    pub fn new(now: Instant, seed: u64) -> Self {
        Self {
            own: Own::default(),
            peers: BTreeMap::new(),
            gateways: Vec::new(),
            calls: Calls::new(now),
            seed,
            outputs: VecDeque::new(),
        }
    }

    /// What this host's NAT does.
    #[must_use]
    pub fn nat(&self) -> Nat {
        self.own.nat()
    }

    /// Where gateways see this host.
    #[must_use]
    pub const fn seen(&self) -> &BTreeMap<String, SocketAddr> {
        &self.own.seen
    }

    /// Whether somebody is being called: a session may come about at any moment.
    #[must_use]
    pub fn calls(&self) -> bool {
        self.peers.values().any(Peer::is_called)
    }

    /// What is known of a peer.
    #[must_use]
    pub fn view(&self, peer: &PublicKey) -> Option<View> {
        Some(self.peers.get(peer)?.view(&self.own))
    }

    fn take_peers(&mut self, now: Instant, wanted: &[PublicKey]) {
        let mut before = std::mem::take(&mut self.peers);
        for key in wanted.iter().take(PEERS) {
            let peer = before.remove(key).unwrap_or_else(|| {
                let secrets = (self.random(), self.random());
                Peer::new(now, *key, secrets)
            });
            self.peers.insert(*key, peer);
        }
        for (peer, gone) in before {
            if gone.is_direct() {
                let because = Because::Refused(Refusal::Limit);
                let path = Path::Gateway;
                self.outputs.push_back(Output::Use {
                    peer,
                    path,
                    because,
                });
            }
        }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014). What it makes has to be distinct; that it cannot be guessed
    /// comes from the seed.
    const fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.seed;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn advance(&mut self, now: Instant) {
        let (own, calls, outputs) = (&self.own, &mut self.calls, &mut self.outputs);
        for peer in self.peers.values_mut() {
            peer.advance(now, own, &mut |output| {
                let Output::Call { peer, to } = output else {
                    outputs.push_back(output);
                    return true;
                };
                let allowed = calls.allow(now, &to);
                if allowed {
                    outputs.push_back(Output::Call { peer, to });
                }
                allowed
            });
        }
    }

    fn hurry(&mut self, now: Instant) {
        for peer in self.peers.values_mut() {
            peer.hurry(now);
        }
    }

    fn take(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        match input {
            Input::Peers(wanted) => self.take_peers(now, &wanted),
            Input::Refuse(refusal) => self.own.refusal = refusal,
            Input::Candidates(mut candidates) => {
                candidates.truncate(PLACES);
                if self.own.candidates != candidates {
                    self.own.candidates = candidates;
                    self.hurry(now);
                }
            }
            Input::Inside(inside) => self.own.inside = inside,
            Input::Gateways(gateways) => {
                self.gateways = gateways;
                let known = |name: &String| self.gateways.contains(name);
                self.own.seen.retain(|gateway, _| known(gateway));
                for peer in self.peers.values_mut() {
                    peer.forget_gateways(known);
                }
            }
            Input::SeenAt { gateway, at } => {
                if !self.gateways.contains(&gateway) {
                    return Err(Reject::UnknownGateway);
                }
                if self.own.seen.insert(gateway, at) != Some(at) {
                    self.hurry(now);
                }
            }
            Input::Told {
                gateway,
                peer,
                mut told,
            } => {
                if !self.gateways.contains(&gateway) {
                    return Err(Reject::UnknownGateway);
                }
                told.candidates.truncate(PLACES);
                let peer = self.peers.get_mut(&peer).ok_or(Reject::UnknownPeer)?;
                peer.tell(now, gateway, told);
            }
            Input::Session { peer, at } => {
                let peer = self.peers.get_mut(&peer).ok_or(Reject::UnknownPeer)?;
                peer.see_session(now, at);
            }
            Input::Answer {
                peer,
                path,
                message,
            } => {
                let peer = self.peers.get_mut(&peer).ok_or(Reject::UnknownPeer)?;
                if !peer.answered(now, path, message) {
                    return Err(Reject::Unexpected);
                }
            }
        }
        Ok(())
    }
}

impl Machine for Direct {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        self.take(now, input)?;
        self.advance(now);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            self.advance(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.peers.values().filter_map(Peer::due).min()
    }
}

impl Own {
    fn nat(&self) -> Nat {
        Nat::of(&self.candidates, self.seen.values().copied())
    }
}

impl Calls {
    const fn new(now: Instant) -> Self {
        Self {
            since: now,
            all: 0,
            targets: BTreeMap::new(),
        }
    }

    /// Whether these may be called, too, which they then are.
    fn allow(&mut self, now: Instant, to: &[SocketAddr]) -> bool {
        if now.since(self.since) >= SECOND {
            *self = Self::new(now);
        }
        let mut targets = self.targets.clone();
        for at in to {
            let count = targets.entry(at.ip()).or_default();
            *count += 1;
            if *count > PER_TARGET {
                return false;
            }
        }
        if self.all + to.len() > IN_ALL {
            return false;
        }
        self.all += to.len();
        self.targets = targets;
        true
    }
}

/// Peers that may have a direct path at the same time.
pub const PEERS: usize = 64;
const SECOND: Duration = Duration::from_secs(1);
/// Calls to one address within a second: there may be many hosts behind one NAT.
const PER_TARGET: usize = 32;
/// Calls within a second.
const IN_ALL: usize = 256;

#[cfg(test)]
mod tests;
