//! The thread that moves packets: a [`Shard`] and the system calls around it.
//!
//! It waits in one call for the TUN, both sockets, the bell and the next deadline, and then
//! takes a bounded number from each, so that none starves another.

mod live;

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    ops::ControlFlow,
    sync::{
        Arc,
        mpsc::{Receiver, TryRecvError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use kedge_core::Instant;
use kedge_net::{
    clock,
    tun::Tun,
    udp::{Family, Sockets},
    wait::{Alarm, Doorbell, Waiter},
};
use kedge_tunnel_proto::{
    directory::{Change, PeerId},
    drops::{DropReason, Drops},
    keys::PrivateKey,
    noise::CoreName,
    shard::{Event, EventKind, Outcome, Shard, Transmit},
};
use tokio::sync::watch;
use tracing::{debug, error, field::display, info, trace, warn};

pub(crate) use self::live::Reconfiguration;
use crate::{
    noise::{noise, unix},
    seed::seed,
};

/// What the worker is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Peers change.
    Change(Box<Change>),
    /// A peer's session is dead.
    Rehandshake(PeerId),
    /// Whoever owns the device has it otherwise.
    Reconfigure(Box<Reconfiguration>),
    /// End.
    Stop,
}

/// What the worker works with.
pub(crate) struct Engine {
    pub(crate) tun: Tun,
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) bell: Arc<Doorbell>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) private_key: PrivateKey,
    pub(crate) mtu: u16,
    pub(crate) noise_core: CoreName,
    pub(crate) drops: Arc<Drops>,
    /// Whether the device is meant to end with its interface.
    pub(crate) ends_with_interface: bool,
}

/// Starts the worker of the shard `number`. `running` becomes false when it ends by itself.
pub(crate) fn spawn(
    engine: Engine,
    number: u8,
    running: watch::Sender<bool>,
) -> io::Result<JoinHandle<()>> {
    let expected = engine.ends_with_interface;
    let mut worker = Worker::new(engine, number)?;
    let name = format!("kedge-tunnel-{number}");
    thread::Builder::new().name(name).spawn(move || {
        if let Err(err) = worker.run() {
            running.send_replace(false);
            let (ifname, error) = (worker.tun.name(), &err as &dyn std::error::Error);
            if expected && Tun::is_gone(&err) {
                info!(
                    ifname,
                    because = "the interface was deleted",
                    "tunnel device ends"
                );
            } else {
                error!(ifname, error, "the tunnel's worker has ended");
            }
        }
    })
}

#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a set of four descriptors")]
struct Ready {
    tun: bool,
    v4: bool,
    v6: bool,
    bell: bool,
}

struct Worker {
    shard: Shard,
    /// When the shard was last told the time of day.
    wall_set_at: Instant,
    tun: Tun,
    sockets: Arc<Sockets>,
    bell: Arc<Doorbell>,
    alarm: Alarm,
    waiter: Waiter,
    commands: Receiver<Command>,
    under_load: bool,
    names: BTreeMap<PeerId, String>,
    /// A packet or datagram as it came; with room for padding.
    taken: Box<[u8]>,
    /// What is made of it.
    made: Box<[u8]>,
}

impl Worker {
    fn new(engine: Engine, number: u8) -> io::Result<Self> {
        let Engine {
            tun,
            sockets,
            bell,
            commands,
            private_key,
            mtu,
            noise_core,
            drops,
            ends_with_interface: _,
        } = engine;
        let noise = noise(noise_core)?;
        let alarm = Alarm::new()?;
        let waiter = Waiter::new()?;
        waiter.add(&tun, TUN)?;
        waiter.add(&*bell, BELL)?;
        waiter.add(&alarm, ALARM)?;
        for (family, key) in [(Family::V4, UDP_V4), (Family::V6, UDP_V6)] {
            if let Some(fd) = sockets.fd(family) {
                waiter.add(&fd, key)?;
            }
        }
        let mut shard = Shard::new(&private_key, number, mtu, seed(), drops, noise);
        if !sockets.are_open() {
            shard.rest();
        }
        Ok(Self {
            shard,
            wall_set_at: clock::now(),
            tun,
            sockets,
            bell,
            alarm,
            waiter,
            commands,
            under_load: false,
            names: BTreeMap::new(),
            taken: vec![0; BUFFER].into_boxed_slice(),
            made: vec![0; BUFFER].into_boxed_slice(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            self.tell_the_time();
            self.transmit_due();
            self.tell();
            let ready = self.wait()?;
            if ready.bell && self.obey().is_break() {
                return Ok(());
            }
            if ready.tun {
                self.drain_host()?;
            }
            if ready.v4 {
                self.drain_network(Family::V4);
            }
            if ready.v6 {
                self.drain_network(Family::V6);
            }
            self.shake_hands();
            self.watch_load();
        }
    }

    /// Waits until there is something to do, and says what.
    fn wait(&mut self) -> io::Result<Ready> {
        // The deadline has moved on since the alarm rang, and setting it anew silences it.
        self.alarm.set(self.shard.poll_timeout())?;
        let mut ready = Ready::default();
        for key in self.waiter.wait()? {
            match *key {
                TUN => ready.tun = true,
                UDP_V4 => ready.v4 = true,
                UDP_V6 => ready.v6 = true,
                BELL => ready.bell = true,
                _ => {}
            }
        }
        Ok(ready)
    }

    fn obey(&mut self) -> ControlFlow<()> {
        self.bell.silence();
        loop {
            match self.commands.try_recv() {
                Ok(Command::Change(change)) => {
                    self.rename(&change);
                    self.shard.apply(clock::now(), *change);
                }
                Ok(Command::Rehandshake(peer)) => {
                    debug!(peer = self.name(peer), "handshake forced");
                    self.shard.force_handshake(clock::now(), peer);
                }
                Ok(Command::Reconfigure(reconfiguration)) => self.reconfigure(*reconfiguration),
                Err(TryRecvError::Empty) => return ControlFlow::Continue(()),
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    return ControlFlow::Break(());
                }
            }
        }
    }

    /// Packets of the host, into the tunnel.
    fn drain_host(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            // The last bytes are kept for padding.
            let room = self.taken.len().saturating_sub(PADDING);
            let Some(buffer) = self.taken.get_mut(..room) else {
                return Ok(());
            };
            let length = match self.tun.read(buffer) {
                Ok(length) => length,
                Err(err) if Tun::is_gone(&err) => return Err(err),
                Err(_) => return Ok(()),
            };
            trace!(length, "from the host");
            let now = clock::now();
            if let Some(transmit) = self
                .shard
                .send(now, &mut self.taken, length, &mut self.made)
            {
                self.transmit(transmit);
            }
        }
        Ok(())
    }

    /// Datagrams of the network, out of the tunnel.
    fn drain_network(&mut self, family: Family) {
        for _ in 0..BATCH {
            let (length, from) = match self.sockets.receive(family, &mut self.taken) {
                Ok(received) => received,
                // An ICMP error for something sent earlier is reported on the next call.
                Err(err) if err.kind() != io::ErrorKind::WouldBlock => continue,
                Err(_) => return,
            };
            let Some(datagram) = self.taken.get(..length) else {
                continue;
            };
            trace!(length, %from, "from the network");
            let outcome = self
                .shard
                .receive(clock::now(), from, datagram, &mut self.made);
            self.pass_on(outcome);
            self.transmit_ready();
        }
    }

    /// Carries out a few of the handshakes that wait. Packets are looked after in between: what
    /// peers send to each other never waits for those who want to be peers.
    fn shake_hands(&mut self) {
        for _ in 0..HANDSHAKES {
            let begun = clock::now();
            let Some(outcome) = self.shard.poll_handshake(begun, &mut self.made) else {
                return;
            };
            self.pass_on(outcome);
            self.transmit_ready();
            self.shard.handshake_took(clock::now().since(begun));
        }
    }

    fn watch_load(&mut self) {
        let under_load = self.shard.is_under_load(clock::now());
        if under_load == self.under_load {
            return;
        }
        self.under_load = under_load;
        let because = "handshakes asked for, in processor time";
        if under_load {
            warn!(
                because,
                "strangers have to prove where they are before a handshake"
            );
        } else {
            info!(because, "strangers get a handshake without a proof again");
        }
    }

    fn pass_on(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Nothing => {}
            Outcome::Send(transmit) => self.transmit(transmit),
            Outcome::Cookie { to, length } => self.send(to, length, None),
            Outcome::Deliver { length, peer } => self.deliver(length, peer),
        }
    }

    fn deliver(&mut self, length: usize, peer: PeerId) {
        let Some(packet) = self.made.get(..length) else {
            return;
        };
        if let Err(err) = self.tun.write(packet) {
            trace!(
                error = &err as &dyn std::error::Error,
                "the host refused a packet"
            );
            self.shard.count(Some(peer), DropReason::DeliverFailed);
        }
    }

    fn transmit(&mut self, Transmit { to, length, peer }: Transmit) {
        self.send(to, length, Some(peer));
    }

    fn send(&mut self, to: SocketAddr, length: usize, peer: Option<PeerId>) {
        let Some(datagram) = self.made.get(..length) else {
            return;
        };
        if let Err(err) = self.sockets.send(to, datagram) {
            trace!(%to, error = &err as &dyn std::error::Error, "the network refused a datagram");
            self.shard.count(peer, DropReason::SendFailed);
        }
    }

    /// Sends what has become possible, such as packets that waited for a handshake.
    fn transmit_ready(&mut self) {
        if self.shard.poll_timeout() == Some(Instant::ZERO) {
            self.transmit_due();
        }
    }

    fn transmit_due(&mut self) {
        while let Some(transmit) = self.shard.poll_transmit(clock::now(), &mut self.made) {
            self.transmit(transmit);
        }
    }

    /// The wall clock may be set while we run, by minutes on a host without a battery for it.
    fn tell_the_time(&mut self) {
        let now = clock::now();
        if now.since(self.wall_set_at) >= WALL_PAUSE {
            self.wall_set_at = now;
            self.shard.set_wall(now, unix());
        }
    }

    fn tell(&mut self) {
        while let Some(Event { peer, change }) = self.shard.poll_event() {
            let peer = self.name(peer);
            match change {
                EventKind::State { from, to } => {
                    info!(peer, ?from, ?to, because = "handshake", "tunnel session");
                }
                EventKind::Moved { from, to } => {
                    let (from, to) = (from.map(display), to.map(display));
                    info!(
                        peer,
                        from,
                        to,
                        because = "authenticated data",
                        "tunnel endpoint"
                    );
                }
            }
        }
    }

    fn rename(&mut self, change: &Change) {
        for id in &change.remove {
            self.names.remove(id);
        }
        let updated = change.update.iter().map(|update| &update.entry);
        for entry in change.add.iter().chain(updated) {
            self.names.insert(entry.id, entry.spec.name.clone());
        }
    }

    fn name(&self, peer: PeerId) -> &str {
        self.names.get(&peer).map_or("?", String::as_str)
    }
}

/// How old the shard's idea of the time of day may be.
const WALL_PAUSE: Duration = Duration::from_secs(10);

const TUN: u64 = 0;
const UDP_V4: u64 = 1;
const UDP_V6: u64 = 2;
const BELL: u64 = 3;
const ALARM: u64 = 4;

/// The largest UDP payload or IP packet, and padding.
const BUFFER: usize = 65_536 + PADDING;
const PADDING: usize = 64;

/// How many handshakes are carried out before packets have their turn: a millisecond's worth.
const HANDSHAKES: usize = 8;

/// How many packets one side may take before the other has its turn.
const BATCH: usize = 64;
