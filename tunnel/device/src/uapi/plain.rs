//! A device whose tools own it: it routes nothing, and has the peers it is told to have.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use aws_lc_rs::rand;
use kedge_net::{
    tun::{Interface, Tun},
    udp::{BindError, Sockets},
    wait::Doorbell,
};
use kedge_tunnel_proto::{
    directory::Directory,
    drops::Drops,
    keys::PrivateKey,
    memory::Memory,
    noise::CoreName,
    uapi::{
        Configuration, Errno, Set,
        answer::{self, Secrets},
    },
};
use tokio::sync::watch;
use tracing::{debug, info, warn};
use zeroize::Zeroizing;

use super::{Tool, traffic};
use crate::{
    device::COMMANDS,
    error::OpenError,
    handshakes::Handshakes,
    lanes::Lanes,
    noise::noise,
    offload::{Allowed, Standing},
    post::Post,
    worker::{self, Command, Reconfiguration},
};

/// What a plain device is opened with; tools tell it the rest.
#[derive(Debug)]
pub struct PlainConfig {
    /// The interface's name.
    pub ifname: String,
    /// A TUN device that is open already.
    pub tun: Option<OwnedFd>,
    /// Whose handshakes and sessions its peers have.
    pub noise_core: CoreName,
}

/// A device whose tools own it. It ends with its interface, and its interface with it.
#[derive(Debug)]
pub struct Plain {
    control: Mutex<Control>,
    commands: SyncSender<Command>,
    bell: Arc<Doorbell>,
    running: watch::Receiver<bool>,
    worker: Option<JoinHandle<()>>,
    ifname: String,
    index: u32,
    noise_core: CoreName,
}

#[derive(Debug)]
struct Control {
    configuration: Configuration,
    directory: Directory,
    handshakes: Handshakes,
    /// None as long as the link is down.
    sockets: Arc<Sockets>,
    link_up: bool,
    mtu: u16,
}

impl Plain {
    /// Makes the interface, down and without addresses, and starts the worker.
    ///
    /// # Errors
    ///
    /// No TUN device, no privilege, a taken name; nothing is left behind.
    pub fn open(config: PlainConfig) -> Result<Self, OpenError> {
        let tun = match config.tun {
            Some(fd) => Tun::adopt(fd)?,
            None => Tun::open(&config.ifname)?,
        };
        let ifname = tun.name().to_owned();
        let mut interface = Interface::prepare(&tun, MTU)?;
        let index = interface.index();
        let bell = Arc::new(Doorbell::new().map_err(OpenError::Worker)?);
        let sockets = Arc::new(Sockets::closed());
        let (commands, received) = sync_channel(COMMANDS);
        let offload = Arc::new(Standing::settle(&tun, [&*sockets], Allowed::ALL));
        offload.fit(&mut interface);
        let engine = worker::Engine {
            number: 0,
            workers: 1,
            tun,
            sockets: Arc::clone(&sockets),
            door: None,
            other: None,
            post: Post::alone(Arc::clone(&bell)),
            lanes: Arc::new(Lanes::new(Arc::clone(&bell))),
            bell: Arc::clone(&bell),
            commands: received,
            private_key: nobodys_key().map_err(OpenError::Worker)?,
            mtu: MTU,
            noise_core: config.noise_core,
            drops: Arc::new(Drops::default()),
            guard: Arc::default(),
            ends_with_interface: true,
            offload,
            memory: Memory::default(),
            shelf: Arc::default(),
        };
        let (ended, running) = watch::channel(true);
        let worker = worker::spawn(engine, ended).map_err(OpenError::Worker)?;
        info!(ifname, because = "asked for", "WireGuard device open");
        let control = Control {
            configuration: Configuration::default(),
            directory: Directory::unruled(),
            handshakes: Handshakes::default(),
            sockets,
            link_up: false,
            mtu: MTU,
        };
        Ok(Self {
            control: Mutex::new(control),
            commands,
            bell,
            running,
            worker: Some(worker),
            ifname,
            index,
            noise_core: config.noise_core,
        })
    }

    /// The interface's name when it was opened.
    #[must_use]
    pub fn ifname(&self) -> &str {
        &self.ifname
    }

    /// The kernel's number for the interface.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Waits until the interface is gone.
    pub async fn ended(&self) {
        let mut running = self.running.clone();
        // An error is a worker that is gone as well.
        let _ = running.wait_for(|running| !running).await;
    }

    /// Follows the link: down closes the sockets, up opens them again, and packets are padded up to
    /// its MTU.
    pub fn follow(&self, up: bool, mtu: u32) {
        let mut control = self.control();
        let mut change = Reconfiguration::default();
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        if mtu != control.mtu {
            control.mtu = mtu;
            change.mtu = Some(mtu);
        }
        control.link_up = up;
        if up != control.sockets.are_open() {
            match control.sockets_for(up, control.configuration.listen_port()) {
                Ok(sockets) => {
                    let port = sockets.port();
                    info!(ifname = self.ifname, up, port, because = "link", "sockets");
                    change.sockets = Some(sockets);
                }
                Err(err) => {
                    let error = &err as &dyn std::error::Error;
                    warn!(
                        ifname = self.ifname,
                        error, "no UDP socket, the device is deaf"
                    );
                }
            }
        }
        let _ = self.order(&mut control, change);
    }

    /// The link is in a namespace that is not seen from here, up or not.
    pub fn follow_unseen(&self) {
        let mtu = self.control().mtu;
        self.follow(true, mtu.into());
    }

    /// Hands changes to the worker, which makes them between two packets.
    fn order(&self, control: &mut Control, change: Reconfiguration) -> Result<(), Errno> {
        if let Some(sockets) = &change.sockets {
            control.sockets = Arc::clone(sockets);
        }
        let empty = change.private_key.is_none()
            && change.sockets.is_none()
            && change.mtu.is_none()
            && change.change.is_empty();
        if empty {
            return Ok(());
        }
        let command = Command::Reconfigure(Box::new(change));
        self.commands.send(command).map_err(|_| Errno::Io)?;
        self.bell.ring();
        Ok(())
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tool for Plain {
    fn get(&self) -> Zeroizing<String> {
        let mut control = self.control();
        let Control {
            configuration,
            directory,
            handshakes,
            sockets,
            ..
        } = &mut *control;
        for entry in directory.entries() {
            let endpoint = entry.counters.read().endpoint;
            configuration.note_endpoint(&entry.spec.public_key, endpoint);
        }
        handshakes.forget_others(directory.entries().map(|entry| entry.spec.public_key));
        let port = match sockets.port() {
            0 => configuration.listen_port(),
            port => port,
        };
        answer::get(configuration, port, Secrets::Told, |key| {
            traffic(directory, handshakes, key)
        })
    }

    fn set(&self, set: Set) -> Result<(), Errno> {
        let mut control = self.control();
        let mut wanted = control.configuration.clone();
        for entry in control.directory.entries() {
            let endpoint = entry.counters.read().endpoint;
            wanted.note_endpoint(&entry.spec.public_key, endpoint);
        }
        let port_named = set.listen_port.is_some();
        wanted.apply(set);

        // First what can fail. Nothing has changed until all of it has been done.
        let mut change = Reconfiguration::default();
        if wanted.public_key() != control.configuration.public_key()
            && let Some(key) = wanted.private_key()
        {
            let noise = noise(self.noise_core).map_err(|err| self.refuse(&err, Errno::Io))?;
            change.private_key = Some((key.clone(), noise));
        }
        if port_named && control.link_up && !control.has_port(wanted.listen_port()) {
            let sockets =
                control
                    .sockets_for(true, wanted.listen_port())
                    .map_err(|err| match err {
                        BindError::PortInUse { .. } => self.refuse(&err, Errno::AddressInUse),
                        BindError::Refused { .. } => self.refuse(&err, Errno::Io),
                    })?;
            change.sockets = Some(sockets);
        }
        let sockets = change.sockets.as_ref().unwrap_or(&control.sockets);
        if change.sockets.is_some() || wanted.fwmark() != control.configuration.fwmark() {
            sockets
                .set_mark(wanted.fwmark())
                .map_err(|err| self.refuse(&err, Errno::Io))?;
        }

        control.directory.settle_endpoints();
        change.change = control
            .directory
            .plan(wanted.specs())
            .map_err(|err| self.refuse(&err, Errno::Invalid))?;
        control.directory.commit(&change.change);
        control.configuration = wanted;
        debug!(
            ifname = self.ifname,
            added = change.change.add.len(),
            updated = change.change.update.len(),
            removed = change.change.remove.len(),
            key = change.private_key.is_some(),
            port = control.sockets.port(),
            because = "a tool",
            "WireGuard device changes"
        );
        self.order(&mut control, change)
    }
}

impl Plain {
    fn refuse(&self, error: &dyn std::error::Error, errno: Errno) -> Errno {
        // The tool is told a number alone.
        let error = error.to_string();
        warn!(ifname = self.ifname, error, "a change is refused");
        errno
    }
}

impl Control {
    /// Whether the sockets are already what `port` asks for: any will do for whoever names none, as
    /// long as the kernel had chosen it.
    fn has_port(&self, port: u16) -> bool {
        if !self.sockets.are_open() {
            return false;
        }
        let chosen = self.configuration.listen_port() == 0;
        port == self.sockets.port() || port == 0 && chosen
    }

    fn sockets_for(&self, up: bool, port: u16) -> Result<Arc<Sockets>, BindError> {
        if !up {
            return Ok(Arc::new(Sockets::closed()));
        }
        let sockets = Sockets::bind(port)?;
        match self.configuration.fwmark() {
            0 => {}
            mark => sockets
                .set_mark(mark)
                .map_err(|source| BindError::Refused { port, source })?,
        }
        Ok(Arc::new(sockets))
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            // It may have ended with the interface; then nobody listens and that is fine.
            let _ = self.commands.send(Command::Stop);
            self.bell.ring();
            let _ = worker.join();
        }
    }
}

/// A key for a device that was given none: it has no peers, and nobody can know it.
fn nobodys_key() -> std::io::Result<PrivateKey> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| std::io::Error::other("the system gives no randomness"))?;
    Ok(PrivateKey::from_random(bytes))
}

/// What every WireGuard device begins with: 1500 bytes of Ethernet without IPv6, UDP and
/// WireGuard's own.
pub const MTU: u16 = 1_420;
