//! The thread that moves packets: a [`Shard`] and the system calls around it.
//!
//! It waits in one call for the TUN, both sockets, the bell and the next deadline, and then
//! takes a bounded number from each, so that none starves another.

mod crew;
mod inward;
mod live;
mod realms;
mod telling;
mod whole;

use std::{
    collections::{BTreeMap, VecDeque},
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
    udp::{Family, Inbox},
    wait::{Alarm, Doorbell, Waiter},
};
use kedge_tunnel_proto::{
    directory::{Change, PeerId},
    drops::Drops,
    guard::Guard,
    keys::PrivateKey,
    memory::Memory,
    noise::{CoreName, HEAD},
    realm::Realm,
    shard::{Admitted, Shard},
};
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

pub(crate) use self::live::{Identities, Reconfiguration};
use crate::{
    from_host::FromHost,
    lanes::{Inbound, Lanes},
    network::{At, Network, Port},
    noise::{noise, unix},
    offload::Standing,
    outbox::Outbox,
    post::{Mail, Post},
    seed::seed,
    shelf::Shelf,
    to_host::ToHost,
    tuns::Tuns,
};

/// What the worker is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Peers change.
    Change(Box<Change>),
    /// A peer's session is dead.
    Rehandshake(PeerId),
    /// A packet goes through this peer, whoever owns its destination.
    Send(PeerId, Box<[u8]>),
    /// A packet goes through this peer as it is, in one piece or not at all.
    Whole(PeerId, Box<[u8]>),
    /// What the ways to these peers carry.
    Paths(Vec<(PeerId, u16)>),
    /// A peer is asked over the way to a place.
    Ask(PeerId, SocketAddr, u64),
    /// A peer may be at each of these places.
    Call(PeerId, Vec<SocketAddr>),
    /// Whoever owns the device has it otherwise.
    Reconfigure(Box<Reconfiguration>),
    /// A realm has this interface, or none.
    Realm(Realm, Option<Arc<Tun>>),
    /// End.
    Stop,
}

/// What the worker works with.
pub(crate) struct Engine {
    /// Which of the workers it is: the first reads the TUN device and hears who wants a session.
    pub(crate) number: u8,
    pub(crate) workers: u8,
    pub(crate) tun: Tun,
    pub(crate) port: Port,
    /// The other port, if there is one.
    pub(crate) other: Option<Port>,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) post: Post,
    pub(crate) bell: Arc<Doorbell>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) private_key: PrivateKey,
    pub(crate) mtu: u16,
    pub(crate) noise_core: CoreName,
    pub(crate) drops: Arc<Drops>,
    pub(crate) guard: Arc<Guard>,
    /// Whether the device is meant to end with its interface.
    pub(crate) ends_with_interface: bool,
    pub(crate) offload: Arc<Standing>,
    /// What is known of peers from before.
    pub(crate) memory: Memory,
    pub(crate) shelf: Arc<Shelf>,
}

/// Starts a worker. `running` becomes false when it ends by itself.
pub(crate) fn spawn(engine: Engine, running: watch::Sender<bool>) -> io::Result<JoinHandle<()>> {
    let (number, expected) = (engine.number, engine.ends_with_interface);
    let mut worker = Worker::new(engine, running.clone())?;
    let name = format!("kedge-tunnel-{number}");
    thread::Builder::new().name(name).spawn(move || {
        let outcome = worker.run();
        worker.note();
        if let Err(err) = outcome {
            running.send_replace(false);
            // A device is there with all of its workers, or not at all.
            worker.post.ring();
            let (ifname, error) = (worker.tuns.own.name(), &err as &dyn std::error::Error);
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
#[expect(clippy::struct_excessive_bools, reason = "a set of descriptors")]
struct Ready {
    tun: bool,
    v4: bool,
    v6: bool,
    door_v4: bool,
    door_v6: bool,
    other_v4: bool,
    other_v6: bool,
    other_door_v4: bool,
    other_door_v6: bool,
    bell: bool,
}

struct Worker {
    number: u8,
    /// Whether all of the device's workers run.
    running: watch::Sender<bool>,
    shard: Shard,
    /// When the shard was last told the time of day.
    wall_set_at: Instant,
    /// When what must outlive the process was looked at last.
    noted_at: Instant,
    shelf: Arc<Shelf>,
    tuns: Tuns,
    /// Realms whose interfaces have something to read.
    busy: Vec<Realm>,
    network: Network,
    inbox: Inbox,
    inbound: Inbound,
    post: Post,
    mail: Mail,
    /// Handshakes that the first worker has admitted.
    callers: VecDeque<Admitted>,
    outbox: Outbox,
    from_host: FromHost,
    to_host: ToHost,
    offload: Arc<Standing>,
    bell: Arc<Doorbell>,
    alarm: Alarm,
    waiter: Waiter,
    commands: Receiver<Command>,
    under_load: bool,
    /// Of peers that are not called by their key.
    names: BTreeMap<PeerId, String>,
}

impl Worker {
    fn new(engine: Engine, running: watch::Sender<bool>) -> io::Result<Self> {
        let Engine {
            number,
            workers,
            tun,
            port: Port { sockets, door },
            other,
            lanes,
            post,
            bell,
            commands,
            private_key,
            mtu,
            noise_core,
            drops,
            guard,
            ends_with_interface: _,
            offload,
            memory,
            shelf,
        } = engine;
        let standing = offload.read();
        let noise = noise(noise_core)?;
        let alarm = Alarm::new()?;
        let waiter = Waiter::new()?;
        if number == 0 {
            waiter.add(&tun, TUN)?;
        }
        waiter.add(&*bell, BELL)?;
        waiter.add(&alarm, ALARM)?;
        for (sockets, v4, v6) in [
            (Some(&sockets), UDP_V4, UDP_V6),
            (door.as_ref(), DOOR_V4, DOOR_V6),
            (other.as_ref().map(|it| &it.sockets), OTHER_V4, OTHER_V6),
            (
                other.as_ref().and_then(|it| it.door.as_ref()),
                OTHER_DOOR_V4,
                OTHER_DOOR_V6,
            ),
        ] {
            for (family, key) in [(Family::V4, v4), (Family::V6, v6)] {
                if let Some(fd) = sockets.and_then(|sockets| sockets.fd(family)) {
                    waiter.add(&fd, key)?;
                }
            }
        }
        let mut shard = Shard::new(&private_key, number, mtu, seed(), drops, noise);
        if number == 0 {
            shard.show(guard);
        }
        shard.join(workers);
        shard.remember(memory);
        if !sockets.are_open() {
            shard.rest();
        }
        Ok(Self {
            number,
            running,
            shard,
            wall_set_at: clock::now(),
            noted_at: clock::now(),
            shelf,
            tuns: Tuns::new(tun),
            busy: Vec::new(),
            network: Network::new(sockets, lanes, standing.gso)
                .with_door(door)
                .with_other(other),
            inbox: Inbox::new(),
            inbound: Inbound::default(),
            mail: post.room(),
            post,
            callers: VecDeque::new(),
            outbox: Outbox::new(),
            from_host: FromHost::new(),
            to_host: ToHost::new(standing.coalesced()),
            offload,
            bell,
            alarm,
            waiter,
            commands,
            under_load: false,
            names: BTreeMap::new(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            self.tell_the_time();
            self.transmit_due();
            self.tell();
            let ready = self.wait()?;
            if ready.bell {
                if self.obey().is_break() {
                    return Ok(());
                }
                self.drain_lanes();
                self.open_mail();
            }
            if ready.tun {
                self.from_host.drain(
                    (None, &self.tuns.own),
                    &mut self.shard,
                    &mut self.outbox,
                    &mut self.network,
                    &mut self.post,
                )?;
                self.hand_over();
            }
            self.drain_realms();
            for (is_ready, at, family) in [
                (ready.v4, At::Own, Family::V4),
                (ready.v6, At::Own, Family::V6),
                (ready.door_v4, At::Door, Family::V4),
                (ready.door_v6, At::Door, Family::V6),
                (ready.other_v4, At::Other, Family::V4),
                (ready.other_v6, At::Other, Family::V6),
                (ready.other_door_v4, At::OtherDoor, Family::V4),
                (ready.other_door_v6, At::OtherDoor, Family::V6),
            ] {
                if is_ready {
                    self.drain_network(at, family);
                }
            }
            self.shake_hands();
            self.hand_over();
            self.watch_load();
        }
    }

    /// Waits until there is something to do, and says what.
    fn wait(&mut self) -> io::Result<Ready> {
        // The deadline has moved on since the alarm rang, and setting it anew silences it.
        let due = if self.callers.is_empty() {
            self.shard.poll_timeout()
        } else {
            Some(Instant::ZERO)
        };
        // A flood that ended wakes nobody.
        let calm = self.under_load.then(|| clock::now() + LOAD_PAUSE);
        self.alarm.set(due.into_iter().chain(calm).min())?;
        let mut ready = Ready::default();
        for key in self.waiter.wait()? {
            match *key {
                TUN => ready.tun = true,
                UDP_V4 => ready.v4 = true,
                UDP_V6 => ready.v6 = true,
                DOOR_V4 => ready.door_v4 = true,
                DOOR_V6 => ready.door_v6 = true,
                OTHER_V4 => ready.other_v4 = true,
                OTHER_V6 => ready.other_v6 = true,
                OTHER_DOOR_V4 => ready.other_door_v4 = true,
                OTHER_DOOR_V6 => ready.other_door_v6 = true,
                BELL => ready.bell = true,
                key => self.busy.extend(realms::of(key)),
            }
        }
        Ok(ready)
    }

    fn obey(&mut self) -> ControlFlow<()> {
        self.bell.silence();
        if !*self.running.borrow() {
            return ControlFlow::Break(());
        }
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
                Ok(Command::Send(peer, packet)) => self.send_to(peer, &packet),
                Ok(Command::Whole(peer, packet)) => self.send_whole(peer, &packet),
                Ok(Command::Paths(paths)) => self.set_paths(&paths),
                Ok(Command::Ask(peer, place, number)) => self.ask(peer, place, number),
                Ok(Command::Call(peer, places)) => self.call(peer, &places),
                Ok(Command::Reconfigure(reconfiguration)) => self.reconfigure(*reconfiguration),
                Ok(Command::Realm(realm, tun)) => self.set_realm(realm, tun),
                Err(TryRecvError::Empty) => return ControlFlow::Continue(()),
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    return ControlFlow::Break(());
                }
            }
        }
    }

    fn send_to(&mut self, peer: PeerId, packet: &[u8]) {
        let now = clock::now();
        if self.outbox.is_full() {
            self.network.send(now, &mut self.outbox, &mut self.shard);
        }
        let slot = self.outbox.slot();
        let Some(inner) = slot
            .get_mut(HEAD..)
            .and_then(|rest| rest.get_mut(..packet.len()))
        else {
            return;
        };
        inner.copy_from_slice(packet);
        if let Some(transmit) = self.shard.send_to(now, peer, slot, packet.len()) {
            self.outbox.push(transmit);
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

    /// Sends what is due, and what has become possible.
    fn transmit_due(&mut self) {
        let now = clock::now();
        while let Some(transmit) = self.shard.poll_transmit(now, self.outbox.slot()) {
            self.outbox.push(transmit);
            if self.outbox.is_full() {
                self.network.send(now, &mut self.outbox, &mut self.shard);
            }
        }
        self.network.send(now, &mut self.outbox, &mut self.shard);
    }

    /// The wall clock may be set while we run, by minutes on a host without a battery for it.
    fn tell_the_time(&mut self) {
        let now = clock::now();
        if now.since(self.wall_set_at) >= WALL_PAUSE {
            self.wall_set_at = now;
            self.shard.set_wall(now, unix());
        }
        if now.since(self.noted_at) >= NOTE_PAUSE {
            self.noted_at = now;
            self.note();
        }
    }

    /// Leaves what was learned of peers for whoever writes it down.
    fn note(&mut self) {
        if let Some(memory) = self.shard.learned() {
            self.shelf.leave(self.number, memory);
        }
    }
}

/// How old the shard's idea of the time of day may be.
const WALL_PAUSE: Duration = Duration::from_secs(10);

/// How old what is known of peers may be on the disk. Who replays an initiation of this time after a
/// crash gets an answer that is of no use to anybody.
const NOTE_PAUSE: Duration = Duration::from_secs(30);

/// How long nobody looks whether the load is over.
const LOAD_PAUSE: Duration = Duration::from_millis(250);

const TUN: u64 = 0;
const UDP_V4: u64 = 1;
const UDP_V6: u64 = 2;
const BELL: u64 = 3;
const ALARM: u64 = 4;
const DOOR_V4: u64 = 5;
const DOOR_V6: u64 = 6;
const OTHER_V4: u64 = 7;
const OTHER_V6: u64 = 8;
const OTHER_DOOR_V4: u64 = 9;
const OTHER_DOOR_V6: u64 = 10;
