//! One WireGuard interface: opened, given peers, read, closed.

mod identity;
mod other_port;
mod realms;
mod streams;

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use ipnet::IpNet;
use kedge_core::{Instant, Problem};
use kedge_net::{
    clock,
    tun::{Interface, Lead, Tun},
    udp::Group,
};
use kedge_tunnel_proto::{
    counters::State,
    directory::{Directory, Entry, PeerId, PeerSpec},
    fallback::is_lane,
    keys::{PrivateKey, PublicKey},
    memory::Memory,
    noise::CoreName,
    realm::Realm,
};
use tokio::sync::watch;
use tracing::info;

use self::realms::Inside;
use crate::{
    Handle,
    backend::{Backend, Desired, Diff, Event, Kind, Paths},
    config::DeviceConfig,
    crew::{Crew, Hired, Shared},
    error::{ApplyError, OpenError, RehandshakeError},
    handshakes::Handshakes,
    kernel::LOOK,
    lanes::Lanes,
    offload::Standing,
    shelf::Shelf,
    stats::{DeviceStats, PeerStats},
    worker::{Command, Reconfiguration},
    workers::Workers,
};

/// One WireGuard interface.
///
/// Dropped without [`close`](Self::close) it leaves the `unreachable` routes of its prefixes
/// behind, as a crash does: traffic for the tunnel must not leave unencrypted.
#[derive(Debug)]
pub struct Device {
    inner: Arc<Inner>,
    workers: Vec<JoinHandle<()>>,
}

pub(crate) struct Inner {
    control: Mutex<Control>,
    crew: Crew,
    running: watch::Receiver<bool>,
    pub(crate) shared: Shared,
    workers: Workers,
    noise_core: CoreName,
    port: u16,
    other_port: Option<u16>,
    /// Why the other port is not there.
    other_problem: Option<Problem>,
}

pub(crate) struct Control {
    pub(crate) directory: Directory,
    /// Its own, the newest last, and the first of them.
    keys: Vec<PublicKey>,
    public_key: PublicKey,
    interface: Interface,
    /// Interfaces of realms beside it.
    realms: BTreeMap<Realm, Inside>,
    addresses: Vec<IpNet>,
    paths: Paths,
    /// When addresses and routes are looked at again.
    look_at: Instant,
    pub(crate) handshakes: Handshakes,
}

impl Device {
    /// Opens the TUN device and the UDP sockets in this thread's network namespace and starts the
    /// worker.
    ///
    /// # Errors
    ///
    /// No TUN device, no privilege, a taken name or port; nothing is left behind.
    pub fn open(config: DeviceConfig) -> Result<Self, OpenError> {
        let group = Group::bind(config.listen_port, config.workers.count)?;
        let (other, other_problem) = other_port::open(&config);
        let tun = Tun::open(&config.ifname)?;
        let mut interface = Interface::set_up(&tun, config.mtu)?;
        interface.set_addresses(&config.addresses)?;
        let all = group.all().chain(other.iter().flat_map(Group::all));
        let offload = Arc::new(Standing::settle(&tun, all, config.offload));
        offload.fit(&mut interface);
        let (crew, received) = Crew::new(config.workers.count).map_err(OpenError::Worker)?;
        let (ended, running) = watch::channel(true);
        let memories = config.memory.share(crew.count());
        let public_key = config.private_key.public();
        let port = group.port();
        let other_port = other.as_ref().map(Group::port);
        let shared = Shared {
            lanes: Arc::new(Lanes::new(crew.first_bell())),
            drops: Arc::default(),
            guard: Arc::default(),
            offload,
            shelf: Arc::new(Shelf::new(memories.clone())),
        };
        let hired = Hired {
            tun,
            ports: group.into(),
            other: other.map(Into::into),
            received,
            memories,
            private_key: config.private_key,
            mtu: config.mtu,
            noise_core: config.noise_core,
            ends_with_interface: false,
        };
        let workers = crew.start(hired, &shared, &ended);
        let workers = workers.map_err(OpenError::Worker)?;
        info!(
            ifname = config.ifname, listen_port = port, other_port, public_key = %public_key,
            because = "configured", "tunnel device open"
        );
        let directory = Directory::new(public_key);
        let control = Mutex::new(Control {
            directory,
            keys: vec![public_key],
            public_key,
            interface,
            realms: BTreeMap::new(),
            addresses: config.addresses,
            paths: Paths::default(),
            look_at: clock::now() + LOOK,
            handshakes: Handshakes::default(),
        });
        let inner = Inner {
            control,
            crew,
            running,
            shared,
            workers: config.workers,
            noise_core: config.noise_core,
            port,
            other_port,
            other_problem,
        };
        Ok(Self {
            inner: Arc::new(inner),
            workers,
        })
    }

    /// Has exactly `peers`, and their prefixes routed into the tunnel. Sessions of peers that stay
    /// survive.
    ///
    /// # Errors
    ///
    /// The peers do not go together, or the kernel refused a route.
    pub fn apply(&self, peers: Vec<PeerSpec>) -> Result<(), ApplyError> {
        self.inner.apply(peers).map(drop)
    }

    /// Has exactly `addresses` on the interface.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub fn set_addresses(&self, addresses: &[IpNet]) -> Result<(), ApplyError> {
        self.inner.set_addresses(addresses).map(drop)
    }

    /// Starts a handshake with a peer whatever its session's state.
    ///
    /// # Errors
    ///
    /// No peer has that name, or the worker takes no commands.
    pub fn rehandshake(&self, name: &str) -> Result<(), RehandshakeError> {
        self.inner.rehandshake(name)
    }

    /// Every peer, by name.
    #[must_use]
    pub fn stats(&self) -> Vec<PeerStats> {
        self.inner.stats()
    }

    /// The device as a whole.
    #[must_use]
    pub fn device_stats(&self) -> DeviceStats {
        self.inner.device_stats()
    }

    /// The UDP port in use.
    #[must_use]
    pub fn local_port(&self) -> u16 {
        self.inner.port
    }

    /// A handle for tasks that outlive a borrow.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::userspace(Arc::clone(&self.inner))
    }

    /// Ends the worker and takes back every route, the `unreachable` ones too.
    ///
    /// # Errors
    ///
    /// The kernel refused to remove a route; the device is closed all the same.
    pub fn close(mut self) -> Result<(), ApplyError> {
        let withdrawn = self.inner.control().interface.set_leads(&[]);
        self.stop();
        withdrawn?;
        Ok(())
    }

    fn stop(&mut self) {
        if self.workers.is_empty() {
            return;
        }
        self.inner.crew.dismiss();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl Backend for Device {
    fn kind(&self) -> Kind {
        Kind::Userspace
    }

    fn apply(&self, desired: &Desired) -> Result<Diff, ApplyError> {
        let realms = self.inner.open_realms(&desired.realms);
        // The peers first: they may be a change of gateways, before which nothing is asked of the kernel.
        let peers = self.inner.apply(desired.peers.clone());
        let addresses = self.inner.set_addresses(&desired.addresses);
        let diff = peers?;
        self.inner.close_realms(&desired.realms)?;
        realms?;
        Ok(Diff {
            addresses: addresses?,
            ..diff
        })
    }

    fn set_keys(&self, keys: &[PrivateKey]) -> Result<(), ApplyError> {
        self.inner.set_keys(keys)
    }

    fn lead(&self, paths: &Paths) -> Result<Diff, ApplyError> {
        self.inner.lead(paths)
    }

    fn events(&self) -> Vec<Event> {
        if !self.device_stats().running {
            return vec![Event::Lost];
        }
        let strayed = self.inner.is_strayed().then_some(Event::Strayed);
        strayed.into_iter().collect()
    }

    fn stats(&self) -> Vec<PeerStats> {
        self.inner.stats()
    }

    fn device_stats(&self) -> DeviceStats {
        self.inner.device_stats()
    }

    fn handle(&self) -> Handle {
        Self::handle(self)
    }

    fn close(self: Box<Self>) -> Result<(), ApplyError> {
        Self::close(*self)
    }
}

impl Control {
    fn leads(&self) -> Vec<Lead> {
        let entries = self.directory.entries();
        entries
            .filter(|entry| entry.spec.realm.is_none())
            .flat_map(|entry| self.paths.leads(&entry.spec))
            .collect()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Inner {
    /// What must outlive the process, if there is more of it than the last time somebody asked: half
    /// a minute old at most, and everything when the device is closed.
    pub(crate) fn learned(&self) -> Option<Memory> {
        self.shared.shelf.take()
    }

    /// Starts a handshake with a peer whatever its session's state.
    ///
    /// # Errors
    ///
    /// No peer has that name, or the worker takes no commands.
    pub(crate) fn rehandshake(&self, name: &str) -> Result<(), RehandshakeError> {
        let control = self.control();
        let entry = control
            .directory
            .find(name)
            .ok_or_else(|| RehandshakeError::Unknown(name.escape_debug().take(80).collect()))?;
        let told = self.crew.try_tell(
            &control.directory.home(entry),
            Command::Rehandshake(entry.id),
        );
        told.then_some(()).ok_or(RehandshakeError::Busy)
    }

    /// Sends an inner packet through a peer, whoever owns its destination: a question that has to go
    /// this way. Whether it was sent.
    pub(crate) fn send_through(&self, name: &str, packet: &[u8]) -> bool {
        self.command_of(name, |id| Command::Send(id, packet.into()))
    }

    /// The same in one piece, as long as it is. Whether it was taken.
    pub(crate) fn send_whole(&self, name: &str, packet: &[u8]) -> bool {
        self.command_of(name, |id| Command::Whole(id, packet.into()))
    }

    fn command_of(&self, name: &str, command: impl FnOnce(PeerId) -> Command) -> bool {
        let control = self.control();
        let entry = control.directory.find(name);
        let peer = entry.map(|entry| (entry.id, control.directory.home(entry)));
        peer.is_some_and(|(id, key)| self.crew.try_tell(&key, command(id)))
    }

    /// Sends one initiation for a peer to each of these places. Whether the worker was told.
    pub(crate) fn call(&self, name: &str, places: Vec<SocketAddr>) -> bool {
        self.command_of(name, |id| Command::Call(id, places))
    }

    /// Where the session with a peer leads, while there is one.
    pub(crate) fn session(&self, name: &str) -> Option<SocketAddr> {
        let control = self.control();
        let reading = control.directory.find(name)?.counters.read();
        let there = reading.state == State::Connected;
        // A stream is no place that others could call.
        reading.endpoint.filter(|at| there && !is_lane(*at))
    }

    /// Every peer, by name.
    pub(crate) fn stats(&self) -> Vec<PeerStats> {
        let mut control = self.control();
        let Control {
            directory,
            handshakes,
            ..
        } = &mut *control;
        let mut stats: Vec<PeerStats> = directory
            .entries()
            .map(|entry| {
                let reading = entry.counters.read();
                let at = handshakes.wall(&entry.spec.public_key, reading.last_handshake);
                PeerStats::of(entry, &reading, at)
            })
            .collect();
        handshakes.forget_others(directory.entries().map(|entry| entry.spec.public_key));
        stats.sort_by(|a, b| a.name.cmp(&b.name));
        stats
    }

    /// The device as a whole.
    pub(crate) fn device_stats(&self) -> DeviceStats {
        DeviceStats {
            public_key: self.public_key(),
            listen_port: self.port,
            other_port: self.other_port,
            other_problem: self.other_problem.clone(),
            running: *self.running.borrow(),
            offload: Some(self.shared.offload.read()),
            workers: Some(self.workers),
            guard: Some(self.shared.guard.read()),
            drops: self.shared.drops.nonzero(),
        }
    }

    /// Has exactly these peers, and their prefixes routed into the tunnel.
    fn apply(&self, peers: Vec<PeerSpec>) -> Result<Diff, ApplyError> {
        let mut control = self.control();
        let change = control.directory.plan(peers)?;
        let diff = Diff::of_peers(&control.directory, &change);
        if !change.is_empty() {
            control.directory.commit(&change);
            self.crew.change(change)?;
        }
        if !diff.added.is_empty() {
            self.keep_to_paths(&control)?;
        }
        let leads = control.leads();
        let routes = control.interface.set_leads(&leads)? + control.lead_realms()?;
        Ok(Diff { routes, ..diff })
    }

    /// Sends no more to each peer than the way to it carries.
    fn lead(&self, paths: &Paths) -> Result<Diff, ApplyError> {
        let mut control = self.control();
        let control = &mut *control;
        let same = control.paths == *paths;
        control.paths.clone_from(paths);
        let (before, mtu) = (
            control.interface.mtu(),
            paths.device(control.interface.mtu()),
        );
        let mut device = mtu > before && control.set_mtu(mtu)?;
        let routes = control.interface.set_leads(&control.leads())? + control.lead_realms()?;
        device |= control.set_mtu(mtu)?;
        if device {
            let reconfiguration = || Reconfiguration {
                mtu: Some(mtu),
                ..Reconfiguration::default()
            };
            let all = &self.crew;
            all.tell_all(|| Command::Reconfigure(Box::new(reconfiguration())))?;
        }
        if !same {
            self.keep_to_paths(control)?;
        }
        Ok(Diff {
            device,
            routes,
            ..Diff::default()
        })
    }

    fn keep_to_paths(&self, control: &Control) -> Result<(), ApplyError> {
        let entries = control.directory.entries();
        let known = |entry: &Entry| Some((entry.id, control.paths.of(&entry.spec.name)?));
        let known: Vec<_> = entries.filter_map(known).collect();
        self.crew.tell_all(|| Command::Paths(known.clone()))
    }

    fn set_addresses(&self, addresses: &[IpNet]) -> Result<usize, ApplyError> {
        let mut control = self.control();
        control.addresses = addresses.to_vec();
        Ok(control.interface.set_addresses(addresses)? + control.address_realms(addresses)?)
    }

    /// Whether somebody else changed addresses or routes. The worker's peers nobody can change.
    fn is_strayed(&self) -> bool {
        let mut control = self.control();
        if clock::now() < control.look_at {
            return false;
        }
        control.look_at = clock::now() + LOOK;
        let (addresses, leads) = (control.addresses.clone(), control.leads());
        // Who cannot be asked is asked again.
        matches!(control.interface.has(&addresses, &leads), Ok(false))
            || control.are_realms_strayed()
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
