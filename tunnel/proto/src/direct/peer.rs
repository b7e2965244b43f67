//! What is tried with one peer.
//!
//! ```text
//!             nothing speaks against it             answer on the direct path
//!   Rest ─────────────────────────────► Call ──────────────────────────────► Prove
//!    ▲                                  │  ▲                                │   │
//!    │ refused, from anywhere           │  │ three misses    not quicker    │   │ quick enough
//!    │               15 rounds          ▼  │                ┌───────────────┘   ▼
//!    └───────────────────────────────► Pause ◄──────────────┘       misses    Carry
//!                                         └────► Call ◄────────────────────────┘
//! ```

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use kedge_core::Instant;

use super::{Because, Nat, Output, Own, Path, Refusal, Told, View, candidate::places, echo::Echo};
use crate::{echo::Message, keys::PublicKey};

/// One peer.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    key: PublicKey,
    /// What each gateway last told of it.
    told: BTreeMap<String, (Instant, Told)>,
    lease_until: Option<Instant>,
    stage: Stage,
    path: Path,
    because: Because,
    since: Instant,
    /// Where its session leads, while there is one.
    session: Option<SocketAddr>,
    /// Whether a question is due because there is a session.
    greets: bool,
    direct: Echo,
    gateway: Echo,
    pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing may be tried.
    Rest,
    /// Its candidates are called, once more at `due`.
    Call { round: usize, due: Instant },
    /// The direct path answered once: both paths are asked in step.
    Prove { asked: u32, due: Instant },
    /// Packets go the direct way.
    Carry { due: Instant, compare_at: Instant },
    /// Later again.
    Pause { until: Instant },
}

impl Peer {
    pub fn new(now: Instant, key: PublicKey, secrets: (u64, u64)) -> Self {
        Self {
            key,
            told: BTreeMap::new(),
            lease_until: None,
            stage: Stage::Rest,
            path: Path::Gateway,
            because: Because::Refused(Refusal::Unheard),
            since: now,
            session: None,
            greets: false,
            direct: Echo::new(secrets.0),
            gateway: Echo::new(secrets.1),
            pause: FIRST_PAUSE,
        }
    }

    pub fn tell(&mut self, now: Instant, gateway: String, told: Told) {
        self.lease_until = Some(now + LEASE);
        let news = self.told.get(&gateway).map(|(_, known)| known) != Some(&told);
        self.told.insert(gateway, (now, told));
        if news {
            self.hurry(now);
        }
    }

    /// Something is new that may make a path possible: it is not waited for longer.
    pub fn hurry(&mut self, now: Instant) {
        if matches!(self.stage, Stage::Pause { .. })
            && !matches!(self.because, Because::Slower { .. })
        {
            self.pause = FIRST_PAUSE;
            self.stage = Stage::Call { round: 0, due: now };
        }
    }

    pub fn forget_gateways(&mut self, is_there: impl Fn(&String) -> bool) {
        self.told.retain(|gateway, _| is_there(gateway));
    }

    /// Takes where its session leads. A new one is worth a question at once.
    pub fn see_session(&mut self, now: Instant, at: Option<SocketAddr>) {
        if self.session == at {
            return;
        }
        self.session = at;
        if at.is_none() {
            return;
        }
        match self.stage {
            Stage::Call { .. } => self.greets = true,
            // It was called by the peer.
            Stage::Pause { .. } if !matches!(self.because, Because::Slower { .. }) => {
                self.direct.restart();
                self.gateway.restart();
                self.stage = Stage::Prove { asked: 0, due: now };
            }
            Stage::Carry { .. } => self.direct.forget_times(),
            Stage::Rest | Stage::Prove { .. } | Stage::Pause { .. } => {}
        }
    }

    pub fn answered(&mut self, now: Instant, path: Path, message: Message) -> bool {
        match path {
            Path::Gateway => self.gateway.answered(now, message),
            Path::Direct => {
                let taken = self.direct.answered(now, message);
                if taken && matches!(self.stage, Stage::Call { .. }) {
                    self.gateway.restart();
                    self.stage = Stage::Prove { asked: 0, due: now };
                }
                taken
            }
        }
    }

    /// Does what is due. `own` is what is known of this host.
    pub fn advance(&mut self, now: Instant, own: &Own, out: &mut dyn FnMut(Output) -> bool) {
        self.direct.expire(now);
        self.gateway.expire(now);
        if let Err(refusal) = self.permitted(now, own) {
            self.stage = Stage::Rest;
            self.turn(now, Path::Gateway, Because::Refused(refusal), out);
            return;
        }
        if self.stage == Stage::Rest {
            self.pause = FIRST_PAUSE;
            self.begin(now, out, Because::Calling);
        }
        let greets = std::mem::take(&mut self.greets);
        if greets && matches!(self.stage, Stage::Call { .. }) {
            self.ask(now, Path::Direct, out);
        }
        match self.stage {
            Stage::Call { round, due } if due <= now => self.call(now, own, round, out),
            Stage::Prove { asked, due } => self.prove(now, (asked, due), out),
            Stage::Carry { due, compare_at } => self.carry(now, own, (due, compare_at), out),
            Stage::Pause { until } if until <= now => {
                let because = match self.because {
                    slower @ Because::Slower { .. } => slower,
                    _ => Because::Calling,
                };
                self.begin(now, out, because);
                self.advance(now, own, out);
            }
            Stage::Rest | Stage::Call { .. } | Stage::Pause { .. } => {}
        }
    }

    pub fn due(&self) -> Option<Instant> {
        let stage = match self.stage {
            // Who is refused waits for an input.
            Stage::Rest => return None,
            Stage::Call { due, .. } | Stage::Prove { due, .. } => due,
            Stage::Carry { due, compare_at } => {
                let due = due.min(compare_at);
                self.direct.due().map_or(due, |it| it.min(due))
            }
            Stage::Pause { until } => until,
        };
        self.lease_until.into_iter().chain([stage]).min()
    }

    pub fn view(&self, own: &Own) -> View {
        View {
            path: self.path,
            because: self.because,
            since: self.since,
            at: self.session.filter(|_| self.path == Path::Direct),
            direct_rtt: self.direct.rtt(),
            gateway_rtt: self.gateway.rtt(),
            nat: self.nat(),
            called: self.places(own, false),
        }
    }

    /// Whether packets go the direct way.
    pub fn is_direct(&self) -> bool {
        self.path == Path::Direct
    }

    /// Whether it is being called.
    pub const fn is_called(&self) -> bool {
        matches!(self.stage, Stage::Call { .. })
    }

    fn begin(&mut self, now: Instant, out: &mut dyn FnMut(Output) -> bool, because: Because) {
        self.direct.restart();
        self.stage = Stage::Call { round: 0, due: now };
        self.turn(now, Path::Gateway, because, out);
    }

    fn call(&mut self, now: Instant, own: &Own, round: usize, out: &mut dyn FnMut(Output) -> bool) {
        let Some(wait) = ROUNDS.get(round) else {
            self.rest_a_while(now, Because::Unanswered, out);
            return;
        };
        // Behind one NAT the way outside and back in again is for whoever has no other.
        let near = self.places(own, true);
        let first = round < LATE && self.is_behind_the_same(own) && !near.is_empty();
        let to = if first || self.is_near_only(own) {
            near
        } else {
            self.places(own, false)
        };
        let called = out(Output::Call { peer: self.key, to });
        // Where too many are called at once the round is made up for.
        let (round, wait) = if called {
            (round + 1, *wait)
        } else {
            (round, HELD)
        };
        self.stage = Stage::Call {
            round,
            due: now + wait,
        };
        if self.session.is_some() {
            self.ask(now, Path::Direct, out);
        }
    }

    fn prove(
        &mut self,
        now: Instant,
        (asked, due): (u32, Instant),
        out: &mut dyn FnMut(Output) -> bool,
    ) {
        let (direct, gateway) = (self.direct.rtt(), self.gateway.rtt());
        if let Some(direct) = direct.filter(|_| self.direct.answers >= PROOFS)
            && (self.gateway.answers >= PROOFS || asked >= ASKED)
        {
            match gateway {
                Some(gateway) if direct > gateway + MARGIN => {
                    self.rest_a_while(now, Because::Slower { direct, gateway }, out);
                }
                gateway => {
                    self.pause = FIRST_PAUSE;
                    self.stage = Stage::Carry {
                        due: now + INTERVAL,
                        compare_at: now + COMPARE,
                    };
                    let because = Because::Proven { direct, gateway };
                    self.turn(now, Path::Direct, because, out);
                }
            }
            return;
        }
        if due > now {
            return;
        }
        if asked >= ASKED * 2 || self.direct.misses >= MISSES {
            self.direct.restart();
            self.stage = Stage::Call {
                round: LATE,
                due: now + STEP,
            };
            return;
        }
        self.ask(now, Path::Direct, out);
        self.ask(now, Path::Gateway, out);
        self.stage = Stage::Prove {
            asked: asked + 1,
            due: now + STEP,
        };
    }

    fn carry(
        &mut self,
        now: Instant,
        own: &Own,
        (mut due, mut compare_at): (Instant, Instant),
        out: &mut dyn FnMut(Output) -> bool,
    ) {
        if self.direct.misses >= MISSES {
            self.begin(now, out, Because::Lost);
            self.call(now, own, 0, out);
            return;
        }
        let both = self.direct.rtt().zip(self.gateway.rtt());
        if let Some((direct, gateway)) = both
            && direct > gateway + WORSE
        {
            self.rest_a_while(now, Because::Slower { direct, gateway }, out);
            return;
        }
        // A question without an answer is followed by the next one at once, not a second later.
        let missed = self.direct.misses > 0 && !self.direct.waits();
        if due <= now || missed {
            self.ask(now, Path::Direct, out);
            due = now + INTERVAL;
        }
        if compare_at <= now {
            self.ask(now, Path::Gateway, out);
            compare_at = now + COMPARE;
        }
        self.stage = Stage::Carry { due, compare_at };
    }

    fn ask(&mut self, now: Instant, path: Path, out: &mut dyn FnMut(Output) -> bool) {
        let echo = match path {
            Path::Direct => &mut self.direct,
            Path::Gateway => &mut self.gateway,
        };
        let message = echo.ask(now);
        out(Output::Ask {
            peer: self.key,
            path,
            message,
        });
    }

    fn rest_a_while(
        &mut self,
        now: Instant,
        because: Because,
        out: &mut dyn FnMut(Output) -> bool,
    ) {
        self.stage = Stage::Pause {
            until: now + self.pause,
        };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.turn(now, Path::Gateway, because, out);
    }

    fn turn(
        &mut self,
        now: Instant,
        path: Path,
        because: Because,
        out: &mut dyn FnMut(Output) -> bool,
    ) {
        let turns = self.path != path;
        // Why it was lost is of use for as long as it is called again.
        let stays = self.because == Because::Lost && because == Because::Calling;
        if !stays && std::mem::discriminant(&self.because) != std::mem::discriminant(&because) {
            self.since = now;
        }
        if !stays {
            self.because = because;
        }
        if turns {
            self.path = path;
            self.since = now;
            out(Output::Use {
                peer: self.key,
                path,
                because,
            });
        }
    }

    /// Whether anything may be tried.
    fn permitted(&self, now: Instant, own: &Own) -> Result<(), Refusal> {
        if let Some(refusal) = own.refusal {
            return Err(refusal);
        }
        match self.lease_until {
            None => return Err(Refusal::Unheard),
            Some(until) if until <= now => return Err(Refusal::LeaseOver),
            Some(_) => {}
        }
        match self.newest() {
            None => return Err(Refusal::Unheard),
            Some(told) if !told.willing => return Err(Refusal::PeerOrdered),
            Some(_) => {}
        }
        let near = self.is_near_only(own);
        if self.places(own, near).is_empty() {
            return Err(match (near, own.nat()) {
                (true, Nat::Symmetric) => Refusal::SymmetricHere,
                (true, _) => Refusal::SymmetricThere,
                (false, _) => Refusal::NoCandidate,
            });
        }
        Ok(())
    }

    /// Whether a symmetric NAT leaves only the addresses of a network that both are in.
    fn is_near_only(&self, own: &Own) -> bool {
        use Nat::{Open, Symmetric};
        let (here, there) = (own.nat(), self.nat());
        // Who has no NAT is reached from behind any.
        (here == Symmetric && there != Open) || (there == Symmetric && here != Open)
    }

    fn places(&self, own: &Own, near: bool) -> Vec<SocketAddr> {
        let seen: Vec<SocketAddr> = self.told.values().filter_map(|(_, it)| it.at).collect();
        let said = match self.newest() {
            Some(told) if !near || self.is_behind_the_same(own) => told.candidates.as_slice(),
            _ => &[],
        };
        places(said, &seen, &own.inside, near)
    }

    /// Whether a gateway sees both hosts at one address.
    fn is_behind_the_same(&self, own: &Own) -> bool {
        let mut pairs = self.told.iter().filter_map(|(gateway, (_, told))| {
            let (own, theirs) = (own.seen.get(gateway)?, told.at?);
            Some(own.ip() == theirs.ip())
        });
        pairs.any(|same| same)
    }

    fn nat(&self) -> Nat {
        self.newest().map(|told| told.nat).unwrap_or_default()
    }

    fn newest(&self) -> Option<&Told> {
        let newest = self.told.values().max_by_key(|(at, _)| *at);
        newest.map(|(_, told)| told)
    }
}

/// What is waited after each round of calls.
const ROUNDS: [Duration; 15] = {
    let mut rounds = [Duration::from_secs(1); 15];
    rounds[0] = Duration::from_millis(200);
    rounds[1] = Duration::from_millis(300);
    rounds
};
/// The round after which a path that answered once and no more is called on.
const LATE: usize = 3;
/// Where too many are called at once.
const HELD: Duration = Duration::from_millis(100);
/// For how long a gateway's word allows a direct path.
pub const LEASE: Duration = Duration::from_secs(600);
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Answers that prove a path.
const PROOFS: u32 = 3;
/// Questions to the gateway's path before it counts as silent.
const ASKED: u32 = 8;
/// From one question to the next while a path is being proven.
const STEP: Duration = Duration::from_millis(50);
/// From one question to the next while it carries packets.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often the gateway's path is asked beside.
const COMPARE: Duration = Duration::from_secs(10);
const MISSES: u32 = 3;
/// By how much a direct path may be slower when it is taken.
const MARGIN: Duration = Duration::from_millis(1);
/// By how much it may become slower: less is the noise of queues.
const WORSE: Duration = Duration::from_millis(10);
