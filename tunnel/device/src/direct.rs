//! Direct paths to other hosts, on tokio: [`Meeting`] says to gateways where this host is, hears from
//! them where others are, and has those called and asked.
//!
//! It listens on overlay addresses, on the tunnel's interface alone.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use kedge_core::{Instant, Machine as _};
use kedge_net::clock;
use kedge_tunnel_proto::{
    direct::{
        Candidate, Direct, Hello, Input, MEETING_PORT, Nat, Output, Path, Probe, Refusal, Reject,
        View, Word,
    },
    keys::PublicKey,
};
use tokio::{
    net::UdpSocket,
    sync::{Notify, mpsc, watch},
    task::{JoinHandle, JoinSet},
};
use tracing::{debug, info, trace};

use crate::{Handle, echo::EchoError, seed::seed};

/// Whom this host may meet, and through whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The peers.
    pub peers: Vec<Met>,
    /// The gateways that may tell of them.
    pub gateways: Vec<Teller>,
    /// The gateway that packets go through.
    pub active: Option<String>,
    /// Why this host has no direct paths, if it has none.
    pub refusal: Option<Refusal>,
    /// Where it may be called.
    pub candidates: Vec<Candidate>,
    /// What leads into the tunnel.
    pub inside: Vec<IpNet>,
}

/// A peer that may be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// What the device calls it.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
    /// An overlay address of this host, and one of the peer's of the same family.
    pub ends: (IpAddr, IpAddr),
}

/// A gateway that may tell of peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Teller {
    /// What the device calls it.
    pub name: String,
    /// An overlay address of this host, and one of the gateway's of the same family.
    pub ends: (IpAddr, IpAddr),
}

/// What is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// What this host's NAT does.
    pub nat: Nat,
    /// Where gateways see this host.
    pub seen: BTreeMap<String, SocketAddr>,
    /// Every peer, by name.
    pub peers: BTreeMap<String, View>,
}

/// Meets peers until dropped.
#[derive(Debug)]
pub struct Meeting {
    task: JoinHandle<()>,
    standing: watch::Receiver<Standing>,
    wish: watch::Sender<Wish>,
}

impl Meeting {
    /// Listens on each of `addresses` of the interface; `changed` hears when packets are to take another
    /// path.
    ///
    /// # Errors
    ///
    /// An address is not on this host or the port is taken.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(
        handle: Handle,
        ifname: &str,
        addresses: &[IpAddr],
        wish: Wish,
        changed: Arc<Notify>,
    ) -> Result<Self, EchoError> {
        let (tell, told) = mpsc::channel(QUEUE);
        let sockets = Sockets::open(ifname, addresses, &tell)?;
        let (wish, wished) = watch::channel(wish);
        let (published, standing) = watch::channel(Standing::default());
        let now = clock::now();
        let mut shell = Shell {
            handle,
            sockets,
            machine: Direct::new(now, seed()),
            wish: Wish::default(),
            answered: BTreeMap::new(),
            said: Hello::default(),
            hello_at: now,
            look_at: now,
            published,
            changed,
        };
        shell.take(now, &wished.borrow());
        Ok(Self {
            task: tokio::spawn(shell.run(wished, told)),
            standing,
            wish,
        })
    }

    /// Wants it otherwise from here on.
    pub fn want(&self, wish: Wish) {
        self.wish.send_if_modified(|known| {
            let news = *known != wish;
            *known = wish;
            news
        });
    }

    /// What is known.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Which way packets for a peer are to go.
    #[must_use]
    pub fn path(&self, name: &str) -> Path {
        let standing = self.standing.borrow();
        standing
            .peers
            .get(name)
            .map(|it| it.path)
            .unwrap_or_default()
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sockets on overlay addresses, on the tunnel's interface alone; what is heard goes into a queue.
#[derive(Debug)]
pub struct Sockets {
    all: Vec<(IpAddr, Arc<UdpSocket>)>,
    // Dropping the set ends the tasks.
    _tasks: JoinSet<()>,
}

/// A datagram, and from whom.
pub type Heard = (IpAddr, Vec<u8>);

impl Sockets {
    /// Listens on each of `addresses`.
    ///
    /// # Errors
    ///
    /// An address is not on this host or the port is taken.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn open(
        ifname: &str,
        addresses: &[IpAddr],
        heard: &mpsc::Sender<Heard>,
    ) -> Result<Self, EchoError> {
        let mut tasks = JoinSet::new();
        let mut all = Vec::new();
        for address in addresses {
            let port = MEETING_PORT;
            let open = || {
                let socket = std::net::UdpSocket::bind((*address, port))?;
                socket.set_nonblocking(true)?;
                let socket = UdpSocket::from_std(socket)?;
                socket.bind_device(Some(ifname.as_bytes()))?;
                Ok(Arc::new(socket))
            };
            let socket = open().map_err(|source| EchoError {
                address: *address,
                port,
                source,
            })?;
            tasks.spawn(listen(Arc::clone(&socket), heard.clone()));
            all.push((*address, socket));
        }
        Ok(Self { all, _tasks: tasks })
    }

    /// Sends a datagram from one overlay address to another's meeting port. What is lost is sent again
    /// sooner or later.
    pub fn send(&self, (from, to): (IpAddr, IpAddr), bytes: &[u8]) {
        let socket = self.all.iter().find(|(address, _)| *address == from);
        let to = SocketAddr::new(to, MEETING_PORT);
        if let Some(Err(error)) = socket.map(|(_, socket)| socket.try_send_to(bytes, to)) {
            let error = &error as &dyn std::error::Error;
            trace!(%to, error, "not sent");
        }
    }
}

async fn listen(socket: Arc<UdpSocket>, heard: mpsc::Sender<Heard>) {
    let mut buffer = [0; BUFFER];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, from)) if from.port() == MEETING_PORT => {
                let bytes = buffer.get(..length).unwrap_or_default().to_vec();
                if heard.send((from.ip(), bytes)).await.is_err() {
                    return;
                }
            }
            Ok(_) => {}
            // An ICMP error for something sent earlier. The pause keeps a kernel that goes on refusing
            // from taking a core.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

struct Shell {
    handle: Handle,
    sockets: Sockets,
    machine: Direct,
    wish: Wish,
    /// When each gateway answered last.
    answered: BTreeMap<String, Instant>,
    /// What was said of this host last.
    said: Hello,
    hello_at: Instant,
    look_at: Instant,
    published: watch::Sender<Standing>,
    changed: Arc<Notify>,
}

impl Shell {
    async fn run(mut self, mut wished: watch::Receiver<Wish>, mut told: mpsc::Receiver<Heard>) {
        loop {
            self.look();
            self.machine.handle_timeout(clock::now());
            self.execute();
            self.say_hello();
            self.publish();
            let now = clock::now();
            if self.machine.calls() {
                self.look_at = self.look_at.min(now + CLOSE_LOOK);
            }
            let due = self.machine.poll_timeout();
            let due = due.into_iter().chain([self.hello_at, self.look_at]).min();
            let wait = due.map_or(Duration::MAX, |at| at.since(now));
            tokio::select! {
                Some((from, bytes)) = told.recv() => self.hear(from, &bytes),
                changed = wished.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let wish = wished.borrow_and_update().clone();
                    self.take(clock::now(), &wish);
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn take(&mut self, now: Instant, wish: &Wish) {
        let wish = wish.clone();
        let keys = wish.peers.iter().map(|peer| peer.key).collect();
        let gateways: Vec<String> = wish.gateways.iter().map(|it| it.name.clone()).collect();
        self.answered.retain(|name, _| gateways.contains(name));
        for input in [
            Input::Refuse(wish.refusal),
            Input::Inside(wish.inside.clone()),
            Input::Candidates(wish.candidates.clone()),
            Input::Gateways(gateways),
            Input::Peers(keys),
        ] {
            // Wishes are never refused.
            let _ = self.machine.handle_input(now, input);
        }
        self.wish = wish;
    }

    /// Looks where sessions lead, often while somebody is called.
    fn look(&mut self) {
        let now = clock::now();
        if now < self.look_at {
            return;
        }
        self.look_at = now
            + if self.machine.calls() {
                CLOSE_LOOK
            } else {
                LOOK
            };
        for Met { name, key, .. } in &self.wish.peers {
            let at = self.handle.session(name);
            // Beyond the number of peers that may be met.
            let _: Result<(), Reject> = self
                .machine
                .handle_input(now, Input::Session { peer: *key, at });
        }
    }

    /// Tells the gateways of this host when that changes, and again and again: what they know of it, and
    /// what this host knows of others, is a lease.
    fn say_hello(&mut self) {
        let now = clock::now();
        let hello = Hello {
            willing: self.wish.refusal.is_none(),
            nat: self.machine.nat(),
            candidates: self.wish.candidates.clone(),
        };
        if self.said == hello && now < self.hello_at {
            return;
        }
        let bytes = hello.emit();
        self.said = hello;
        let mut all_answer = true;
        for Teller { name, ends } in &self.wish.gateways {
            let last = self.answered.get(name);
            all_answer &= last.is_some_and(|at| now.since(*at) < RENEW + SOON);
            self.sockets.send(*ends, &bytes);
        }
        self.hello_at = now + if all_answer { RENEW } else { SOON };
    }

    fn hear(&mut self, from: IpAddr, bytes: &[u8]) {
        let now = clock::now();
        let teller = self.wish.gateways.iter().find(|it| it.ends.1 == from);
        if let Some((teller, word)) = teller.zip(Word::parse(bytes)) {
            let gateway = teller.name.clone();
            self.answered.insert(gateway.clone(), now);
            self.learn(now, gateway, word);
            return;
        }
        let met = self.wish.peers.iter().find(|it| it.ends.1 == from);
        let Some((met, probe)) = met.zip(Probe::parse(bytes)) else {
            debug!(%from, "a datagram from somebody who is not to be met ignored");
            return;
        };
        let (peer, met) = (met.key, met.clone());
        let Some(answer) = probe.answer() else {
            let Probe { path, message } = probe;
            let input = Input::Answer {
                peer,
                path,
                message,
            };
            if let Err(reject) = self.machine.handle_input(now, input) {
                debug!(peer = met.name, %reject, "answer ignored");
            }
            return;
        };
        // Who has no direct paths any more must not keep the other end's alive.
        if probe.path == Path::Gateway || self.wish.refusal.is_none() {
            self.send(&met, &answer);
        }
    }

    fn learn(&mut self, now: Instant, gateway: String, word: Word) {
        if let Some(at) = word.seen {
            let input = Input::SeenAt {
                gateway: gateway.clone(),
                at,
            };
            let _ = self.machine.handle_input(now, input);
        }
        for mention in word.mentions {
            let input = Input::Told {
                gateway: gateway.clone(),
                peer: mention.peer,
                told: mention.told,
            };
            if let Err(reject) = self.machine.handle_input(now, input) {
                debug!(gateway, %reject, "what a gateway tells is not taken");
            }
        }
    }

    fn execute(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Call { peer, to } => {
                    let Some(met) = self.met(&peer) else { continue };
                    debug!(peer = met.name, places = ?to, "peer called");
                    if !self.handle.call(&met.name, to) {
                        debug!(peer = met.name, "not called: the worker is busy");
                    }
                }
                Output::Ask {
                    peer,
                    path,
                    message,
                } => {
                    if let Some(met) = self.met(&peer) {
                        self.send(met, &Probe { path, message });
                    }
                }
                Output::Use {
                    peer,
                    path,
                    because,
                } => {
                    let name = self.met(&peer).map(|met| met.name.as_str());
                    let to = match path {
                        Path::Gateway => "gateway",
                        Path::Direct => "direct",
                    };
                    let at = name.and_then(|name| self.handle.session(name));
                    let at = at
                        .filter(|_| path == Path::Direct)
                        .map(tracing::field::display);
                    info!(peer = name, to, at, because = %because, "tunnel path");
                }
            }
        }
    }

    /// Sends a question or an answer the way that it is about.
    fn send(&self, met: &Met, probe: &Probe) {
        let through = match probe.path {
            Path::Direct => Some(met.name.as_str()),
            Path::Gateway => self.wish.active.as_deref(),
        };
        let (from, to) = met.ends;
        let packet = probe.packet(from, to);
        let sent = through
            .zip(packet.ok())
            .is_some_and(|(through, packet)| self.handle.send_through(through, &packet));
        if !sent {
            trace!(peer = met.name, "question or answer not sent");
        }
    }

    fn met(&self, key: &PublicKey) -> Option<&Met> {
        self.wish.peers.iter().find(|met| met.key == *key)
    }

    fn publish(&self) {
        let view = |met: &Met| Some((met.name.clone(), self.machine.view(&met.key)?));
        let standing = Standing {
            nat: self.machine.nat(),
            seen: self.machine.seen().clone(),
            peers: self.wish.peers.iter().filter_map(view).collect(),
        };
        let paths = |standing: &Standing| -> Vec<(String, Path)> {
            let peers = standing.peers.iter();
            peers
                .map(|(name, view)| (name.clone(), view.path))
                .collect()
        };
        let mut turned = false;
        self.published.send_if_modified(|known| {
            turned = paths(known) != paths(&standing);
            std::mem::replace(known, standing.clone()) != standing
        });
        if turned {
            self.changed.notify_one();
        }
    }
}

/// How often a host says where it is when nothing changes.
const RENEW: Duration = Duration::from_secs(5);
/// The same for as long as a gateway has not answered.
const SOON: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_secs(1);
const CLOSE_LOOK: Duration = Duration::from_millis(20);
/// What may wait to be taken; more comes again.
const QUEUE: usize = 256;
const BUFFER: usize = 2048;
