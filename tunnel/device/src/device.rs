//! One WireGuard interface: opened, given peers, read, closed.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::SystemTime,
};

use ipnet::IpNet;
use kedge_core::Instant;
use kedge_net::{
    tun::{Interface, Tun},
    udp::Sockets,
    wait::Doorbell,
};
use kedge_tunnel_proto::{
    counters::Reading,
    directory::{Directory, Entry, PeerSpec},
    drops::Drops,
    keys::PublicKey,
    memory::Memory,
};
use tokio::sync::watch;
use tracing::info;

use crate::{
    config::DeviceConfig,
    error::{ApplyError, OpenError, RehandshakeError},
    handshakes::Handshakes,
    offload::Standing,
    shelf::Shelf,
    stats::{DeviceStats, PeerStats},
    worker::{self, Command},
};

/// One WireGuard interface.
///
/// Dropped without [`close`](Self::close) it leaves the `unreachable` routes of its prefixes
/// behind, as a crash does: traffic for the tunnel must not leave unencrypted.
#[derive(Debug)]
pub struct Device {
    handle: Handle,
    worker: Option<JoinHandle<()>>,
}

/// What the rest of a role needs of a [`Device`] while somebody else owns it.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Inner>);

struct Inner {
    control: Mutex<Control>,
    commands: SyncSender<Command>,
    bell: Arc<Doorbell>,
    running: watch::Receiver<bool>,
    drops: Arc<Drops>,
    offload: Arc<Standing>,
    shelf: Arc<Shelf>,
    public_key: PublicKey,
    port: u16,
}

pub(crate) struct Control {
    pub(crate) directory: Directory,
    interface: Interface,
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
        let sockets = Sockets::bind(config.listen_port)?;
        let tun = Tun::open(&config.ifname)?;
        let mut interface = Interface::set_up(&tun, config.mtu)?;
        interface.set_addresses(&config.addresses)?;
        let offload = Arc::new(Standing::settle(&tun, &sockets, config.offload));
        let bell = Arc::new(Doorbell::new().map_err(OpenError::Worker)?);
        let (ended, running) = watch::channel(true);
        let drops = Arc::new(Drops::default());
        let shelf = Arc::new(Shelf::default());
        let public_key = config.private_key.public();
        let port = sockets.port();
        let (commands, received) = sync_channel(COMMANDS);
        let engine = worker::Engine {
            tun,
            sockets: Arc::new(sockets),
            bell: Arc::clone(&bell),
            commands: received,
            private_key: config.private_key,
            mtu: config.mtu,
            noise_core: config.noise_core,
            drops: Arc::clone(&drops),
            ends_with_interface: false,
            offload: Arc::clone(&offload),
            memory: config.memory,
            shelf: Arc::clone(&shelf),
        };
        let worker = worker::spawn(engine, 0, ended).map_err(OpenError::Worker)?;
        info!(
            ifname = config.ifname, listen_port = port, public_key = %public_key,
            because = "configured", "tunnel device open"
        );
        let directory = Directory::new(public_key);
        let control = Mutex::new(Control {
            directory,
            interface,
            handshakes: Handshakes::default(),
        });
        let inner = Inner {
            control,
            commands,
            bell,
            running,
            drops,
            offload,
            shelf,
            public_key,
            port,
        };
        Ok(Self {
            handle: Handle(Arc::new(inner)),
            worker: Some(worker),
        })
    }

    /// Has exactly `peers`, and their prefixes routed into the tunnel. Sessions of peers that stay
    /// survive.
    ///
    /// # Errors
    ///
    /// The peers do not go together, or the kernel refused a route.
    pub fn apply(&self, peers: Vec<PeerSpec>) -> Result<(), ApplyError> {
        let inner = &self.handle.0;
        let mut control = inner.control();
        let change = control.directory.plan(peers)?;
        if !change.is_empty() {
            control.directory.commit(&change);
            inner
                .commands
                .send(Command::Change(Box::new(change)))
                .map_err(|_| ApplyError::Stopped)?;
            inner.bell.ring();
        }
        let prefixes: Vec<IpNet> = control
            .directory
            .entries()
            .flat_map(|entry| entry.spec.allowed_ips.iter().copied())
            .collect();
        control.interface.set_prefixes(&prefixes)?;
        Ok(())
    }

    /// Has exactly `addresses` on the interface.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub fn set_addresses(&self, addresses: &[IpNet]) -> Result<(), ApplyError> {
        self.handle.0.control().interface.set_addresses(addresses)?;
        Ok(())
    }

    /// Starts a handshake with a peer whatever its session's state.
    ///
    /// # Errors
    ///
    /// No peer has that name, or the worker takes no commands.
    pub fn rehandshake(&self, name: &str) -> Result<(), RehandshakeError> {
        self.handle.rehandshake(name)
    }

    /// Every peer, by name.
    #[must_use]
    pub fn stats(&self) -> Vec<PeerStats> {
        self.handle.stats()
    }

    /// The device as a whole.
    #[must_use]
    pub fn device_stats(&self) -> DeviceStats {
        self.handle.device_stats()
    }

    /// The UDP port in use.
    #[must_use]
    pub fn local_port(&self) -> u16 {
        self.handle.0.port
    }

    /// A handle for tasks that outlive a borrow.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends the worker and takes back every route, the `unreachable` ones too.
    ///
    /// # Errors
    ///
    /// The kernel refused to remove a route; the device is closed all the same.
    pub fn close(mut self) -> Result<(), ApplyError> {
        let withdrawn = self.handle.0.control().interface.set_prefixes(&[]);
        self.stop();
        Ok(withdrawn?)
    }

    fn stop(&mut self) {
        if let Some(worker) = self.worker.take() {
            // The worker may have ended by itself; then nobody listens and that is fine.
            let _ = self.handle.0.commands.send(Command::Stop);
            self.handle.0.bell.ring();
            let _ = worker.join();
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Handle {
    /// What must outlive the process, if there is more of it than the last time somebody asked: half
    /// a minute old at most, and everything when the device is closed.
    #[must_use]
    pub fn learned(&self) -> Option<Memory> {
        self.0.shelf.take()
    }

    /// Starts a handshake with a peer whatever its session's state.
    ///
    /// # Errors
    ///
    /// No peer has that name, or the worker takes no commands.
    pub fn rehandshake(&self, name: &str) -> Result<(), RehandshakeError> {
        let control = self.0.control();
        let entry = control
            .directory
            .find(name)
            .ok_or_else(|| RehandshakeError::Unknown(name.escape_debug().take(80).collect()))?;
        match self.0.commands.try_send(Command::Rehandshake(entry.id)) {
            Ok(()) => {
                self.0.bell.ring();
                Ok(())
            }
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                Err(RehandshakeError::Busy)
            }
        }
    }

    /// Sends an inner packet through a peer, whoever owns its destination: a question that has to go
    /// this way. Whether it was sent.
    #[must_use]
    pub fn send_through(&self, name: &str, packet: &[u8]) -> bool {
        let id = self.0.control().directory.find(name).map(|entry| entry.id);
        let command = id.map(|id| Command::Send(id, packet.into()));
        let taken = command.is_some_and(|command| self.0.commands.try_send(command).is_ok());
        if taken {
            self.0.bell.ring();
        }
        taken
    }

    /// When authenticated data came from a peer last.
    #[must_use]
    pub fn heard(&self, name: &str) -> Option<Instant> {
        let control = self.0.control();
        control.directory.find(name)?.counters.read().last_data
    }

    /// Every peer, by name.
    #[must_use]
    pub fn stats(&self) -> Vec<PeerStats> {
        let mut control = self.0.control();
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
                stats(entry, &reading, at)
            })
            .collect();
        handshakes.forget_others(stats.iter().map(|peer| peer.public_key));
        stats.sort_by(|a, b| a.name.cmp(&b.name));
        stats
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, Control> {
        self.0.control()
    }

    /// The device as a whole.
    #[must_use]
    pub fn device_stats(&self) -> DeviceStats {
        DeviceStats {
            public_key: self.0.public_key,
            listen_port: self.0.port,
            running: *self.0.running.borrow(),
            offload: self.0.offload.read(),
            drops: self.0.drops.nonzero(),
        }
    }
}

impl Inner {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("public_key", &self.public_key)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

fn stats(entry: &Entry, reading: &Reading, last_handshake: Option<SystemTime>) -> PeerStats {
    PeerStats {
        name: entry.spec.name.clone(),
        public_key: entry.spec.public_key,
        endpoint: reading.endpoint,
        state: reading.state,
        last_handshake,
        last_authenticated_data: reading.last_data,
        rx_bytes: reading.rx_bytes,
        tx_bytes: reading.tx_bytes,
        rx_packets: reading.rx_packets,
        tx_packets: reading.tx_packets,
        drops: entry.counters.drops.nonzero(),
    }
}

/// Commands that wait for the worker. Each is taken within a turn of its loop.
pub(crate) const COMMANDS: usize = 64;
