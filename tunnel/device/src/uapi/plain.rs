//! A device whose tools own it: it routes nothing, and has the peers it is told to have.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use aws_lc_rs::rand;
use kedge_net::{
    tun::{Interface, Tun},
    udp::{BindError, Group},
};
use kedge_tunnel_proto::{
    directory::{Change, Directory},
    keys::PrivateKey,
    memory::Memory,
    noise::{CoreName, Noise},
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
    crew::{Crew, Hired, Shared},
    error::OpenError,
    handshakes::Handshakes,
    lanes::Lanes,
    network::Port,
    noise::noise,
    offload::{Allowed, Standing},
    ports::Ports,
    shelf::Shelf,
    worker::{Command, Reconfiguration},
    workers::Workers,
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
    /// How many threads move its packets.
    pub workers: Workers,
}

/// A device whose tools own it. It ends with its interface, and its interface with it.
#[derive(Debug)]
pub struct Plain {
    control: Mutex<Control>,
    crew: Crew,
    running: watch::Receiver<bool>,
    workers: Vec<JoinHandle<()>>,
    ifname: String,
    index: u32,
    noise_core: CoreName,
}

#[derive(Debug)]
struct Control {
    configuration: Configuration,
    directory: Directory,
    handshakes: Handshakes,
    /// Closed as long as the link is down.
    ports: Ports,
    link_up: bool,
    mtu: u16,
}

/// What the workers are told; the rest stays.
#[derive(Default)]
struct Order {
    /// Another private key, with randomness for each worker.
    private_key: Option<(PrivateKey, Vec<Noise>)>,
    ports: Option<Ports>,
    mtu: Option<u16>,
    change: Change,
}

impl Plain {
    /// Makes the interface, down and without addresses, and starts the workers.
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
        let Workers { count, because } = config.workers;
        let (crew, received) = Crew::new(count).map_err(OpenError::Worker)?;
        let ports = Ports::closed(crew.count());
        let offload = Arc::new(Standing::settle(&tun, ports.all(), Allowed::ALL));
        offload.fit(&mut interface);
        let shared = Shared {
            lanes: Arc::new(Lanes::new(crew.first_bell())),
            drops: Arc::default(),
            guard: Arc::default(),
            offload,
            shelf: Arc::new(Shelf::default()),
        };
        let hired = Hired {
            tun,
            ports: ports.clone(),
            other: None,
            received,
            memories: Memory::default().share(crew.count()),
            private_key: nobodys_key().map_err(OpenError::Worker)?,
            mtu: MTU,
            noise_core: config.noise_core,
            ends_with_interface: true,
        };
        let (ended, running) = watch::channel(true);
        let workers = crew.start(hired, &shared, &ended);
        let workers = workers.map_err(OpenError::Worker)?;
        info!(ifname, workers = count, because, "WireGuard device open");
        let control = Control {
            configuration: Configuration::default(),
            directory: Directory::unruled(),
            handshakes: Handshakes::default(),
            ports,
            link_up: false,
            mtu: MTU,
        };
        Ok(Self {
            control: Mutex::new(control),
            crew,
            running,
            workers,
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
        let mut order = Order::default();
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        if mtu != control.mtu {
            control.mtu = mtu;
            order.mtu = Some(mtu);
        }
        control.link_up = up;
        if up != control.ports.are_open() {
            match self.ports_for(&control, up, control.configuration.listen_port()) {
                Ok(ports) => {
                    let port = ports.port();
                    info!(ifname = self.ifname, up, port, because = "link", "sockets");
                    order.ports = Some(ports);
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
        let _ = self.order(&mut control, order);
    }

    /// The link is in a namespace that is not seen from here, up or not.
    pub fn follow_unseen(&self) {
        let mtu = self.control().mtu;
        self.follow(true, mtu.into());
    }

    /// Hands changes to the workers, each of which makes its part of them between two packets.
    fn order(&self, control: &mut Control, order: Order) -> Result<(), Errno> {
        let Order {
            private_key,
            ports,
            mtu,
            change,
        } = order;
        let empty = private_key.is_none() && ports.is_none() && mtu.is_none() && change.is_empty();
        if empty {
            return Ok(());
        }
        let (key, noises) = private_key.unzip();
        let mut noises = noises.unwrap_or_default().into_iter();
        let places: Vec<Port> = ports.iter().flat_map(Ports::each).collect();
        let mut places = places.into_iter();
        let shares = change.share(self.crew.count()).into_iter();
        let commands = shares.map(|change| {
            Command::Reconfigure(Box::new(Reconfiguration {
                private_key: key.clone().zip(noises.next()),
                port: places.next(),
                mtu,
                change,
                ..Reconfiguration::default()
            }))
        });
        let told = self.crew.tell_each(commands.collect());
        if let Some(ports) = ports {
            control.ports = ports;
        }
        told.map_err(|_| Errno::Io)
    }

    fn ports_for(&self, control: &Control, up: bool, port: u16) -> Result<Ports, BindError> {
        let workers = self.crew.count();
        if !up {
            return Ok(Ports::closed(workers));
        }
        let ports = Ports::from(Group::bind(port, workers)?);
        match control.configuration.fwmark() {
            0 => {}
            mark => ports
                .set_mark(mark)
                .map_err(|source| BindError::Refused { port, source })?,
        }
        Ok(ports)
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
            ports,
            ..
        } = &mut *control;
        for entry in directory.entries() {
            let endpoint = entry.counters.read().endpoint;
            configuration.note_endpoint(&entry.spec.public_key, endpoint);
        }
        handshakes.forget_others(directory.entries().map(|entry| entry.spec.public_key));
        let port = match ports.port() {
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
        let mut order = Order::default();
        if wanted.public_key() != control.configuration.public_key()
            && let Some(key) = wanted.private_key()
        {
            // Each worker has randomness of its own.
            let noises = (0..self.crew.count()).map(|_| noise(self.noise_core));
            let noises = noises.collect::<Result<_, _>>();
            let noises = noises.map_err(|err| self.refuse(&err, Errno::Io))?;
            order.private_key = Some((key.clone(), noises));
        }
        if port_named && control.link_up && !control.has_port(wanted.listen_port()) {
            let ports = self.ports_for(&control, true, wanted.listen_port());
            let ports = ports.map_err(|err| match err {
                BindError::PortInUse { .. } => self.refuse(&err, Errno::AddressInUse),
                BindError::Refused { .. } => self.refuse(&err, Errno::Io),
            })?;
            order.ports = Some(ports);
        }
        let ports = order.ports.as_ref().unwrap_or(&control.ports);
        if order.ports.is_some() || wanted.fwmark() != control.configuration.fwmark() {
            ports
                .set_mark(wanted.fwmark())
                .map_err(|err| self.refuse(&err, Errno::Io))?;
        }

        control.directory.settle_endpoints();
        order.change = control
            .directory
            .plan(wanted.specs())
            .map_err(|err| self.refuse(&err, Errno::Invalid))?;
        control.directory.commit(&order.change);
        control.configuration = wanted;
        debug!(
            ifname = self.ifname,
            added = order.change.add.len(),
            updated = order.change.update.len(),
            removed = order.change.remove.len(),
            key = order.private_key.is_some(),
            port = control.ports.port(),
            because = "a tool",
            "WireGuard device changes"
        );
        self.order(&mut control, order)
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
        if !self.ports.are_open() {
            return false;
        }
        let chosen = self.configuration.listen_port() == 0;
        port == self.ports.port() || port == 0 && chosen
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // They may have ended with the interface; then nobody listens and that is fine.
        self.crew.dismiss();
        for worker in self.workers.drain(..) {
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
