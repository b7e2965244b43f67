//! The kernel's WireGuard as a data plane.
//!
//! ```text
//!   apply(desired) ──► rules between peers ──► plan: desired − what the kernel has ──► netlink
//!   events(), stats() ◄── what the kernel has
//! ```
//!
//! The device outlives the process: whoever opens it again takes it over as it is, with its sessions.
//! Nobody is told of changes by others, so they are looked for.

mod ledger;
mod peer;
mod plan;

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ipnet::IpNet;
use kedge_core::Instant;
use kedge_net::{
    clock,
    tun::{Interface, Lead},
    udp::BindError,
    wireguard::{Observed, ObservedPeer, Set, Wireguard, link::WireguardLinks},
};
use kedge_tunnel_proto::{
    directory::Directory,
    keys::{PrivateKey, PublicKey},
};
use tracing::{debug, info};

use self::{
    ledger::Ledger,
    peer::{anew, counted, newest, stats},
    plan::Wanted,
};
use crate::{
    ApplyError, DeviceStats, Handle, OpenError, PeerStats, RehandshakeError,
    backend::{Backend, Capability, Desired, Diff, Event, Kind, Paths},
};

/// What the kernel's device is opened with.
#[derive(Clone, Debug)]
pub struct KernelConfig {
    /// The interface's name, such as `kedge0`.
    pub ifname: String,
    /// This device's key, which no other data plane ever uses.
    pub private_key: PrivateKey,
    /// The UDP port of both families; 0 lets the kernel choose.
    pub listen_port: u16,
    /// The MTU of the interface.
    pub mtu: u16,
}

/// A WireGuard interface of the kernel's.
#[derive(Debug)]
pub struct Kernel(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    ifname: String,
    key: PrivateKey,
    public_key: PublicKey,
    listen_port: u16,
    state: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    wireguard: Wireguard,
    links: WireguardLinks,
    interface: Interface,
    directory: Directory,
    /// Where peers were wanted the last time.
    placed: BTreeMap<PublicKey, Option<SocketAddr>>,
    ledgers: BTreeMap<PublicKey, Ledger>,
    addresses: Vec<IpNet>,
    paths: Paths,
    /// Whether anything was applied yet: before, nothing is amiss.
    settled: bool,
    running: bool,
    port: u16,
    /// When addresses and routes are looked at again.
    look_at: Instant,
}

impl Kernel {
    /// Makes the interface in this thread's network namespace, or takes over one of Kedge's that is
    /// there already, with the peers and sessions it has.
    ///
    /// # Errors
    ///
    /// The kernel has no WireGuard, no privilege, a taken name or port; nothing new is left behind.
    pub fn open(config: &KernelConfig) -> Result<Self, OpenError> {
        let mut wireguard = Wireguard::open()?;
        let mut links = WireguardLinks::open(&config.ifname)?;
        let (ifindex, made) = links.ensure(&config.ifname)?;
        let opened = Inner::open(config, &mut wireguard, ifindex);
        if made && opened.is_err() {
            // It was not there before.
            let _ = links.remove(&config.ifname);
        }
        let (interface, port) = opened?;
        let public_key = config.private_key.public();
        info!(
            ifname = config.ifname, listen_port = port, public_key = %public_key,
            taken_over = !made, because = "configured", "tunnel device of the kernel's open"
        );
        let inside = Inside {
            wireguard,
            links,
            interface,
            directory: Directory::new(public_key),
            placed: BTreeMap::new(),
            ledgers: BTreeMap::new(),
            addresses: Vec::new(),
            paths: Paths::default(),
            settled: false,
            running: true,
            port,
            look_at: clock::now(),
        };
        Ok(Self(Arc::new(Inner {
            ifname: config.ifname.clone(),
            key: config.private_key.clone(),
            public_key,
            listen_port: config.listen_port,
            state: Mutex::new(inside),
        })))
    }

    /// Starts a handshake with a peer, which ends its session.
    ///
    /// # Errors
    ///
    /// No peer has that name, or the kernel refused.
    pub fn rehandshake(&self, name: &str) -> Result<(), RehandshakeError> {
        self.0.rehandshake(name)
    }
}

/// Removes what a process left that used the kernel's data plane under this name; whether there was
/// anything. What is not Kedge's stays.
///
/// # Errors
///
/// The kernel did not answer, or refused.
pub fn clear(ifname: &str) -> Result<bool, kedge_net::wireguard::link::LinkError> {
    WireguardLinks::open(ifname)?.remove(ifname)
}

impl Backend for Kernel {
    fn kind(&self) -> Kind {
        Kind::Kernel
    }

    fn apply(&self, desired: &Desired) -> Result<Diff, ApplyError> {
        self.0.apply(desired)
    }

    fn set_keys(&self, keys: &[PrivateKey]) -> Result<(), ApplyError> {
        let same = keys.iter().all(|key| key.public() == self.0.public_key);
        let why = Kind::Kernel.lacks(Capability::SeveralKeys);
        why.filter(|_| !same)
            .map_or(Ok(()), |why| Err(ApplyError::Unsupported(why)))
    }

    fn lead(&self, paths: &Paths) -> Result<Diff, ApplyError> {
        self.0.lead(paths)
    }

    fn events(&self) -> Vec<Event> {
        self.0.events()
    }

    fn stats(&self) -> Vec<PeerStats> {
        self.0.stats()
    }

    fn device_stats(&self) -> DeviceStats {
        self.0.device_stats()
    }

    fn handle(&self) -> Handle {
        Handle::kernel(Arc::clone(&self.0))
    }

    fn close(self: Box<Self>) -> Result<(), ApplyError> {
        // The link first: while it goes, the `unreachable` routes still keep packets in.
        let mut inside = self.0.state();
        inside.running = false;
        let removed = inside.links.remove(&self.0.ifname);
        let withdrawn = inside.interface.set_leads(&[]);
        removed?;
        withdrawn?;
        Ok(())
    }
}

impl Inner {
    fn open(
        config: &KernelConfig,
        wireguard: &mut Wireguard,
        ifindex: u32,
    ) -> Result<(Interface, u16), OpenError> {
        let mut interface = Interface::of_link(&config.ifname, config.mtu)?;
        let observed = wireguard.device(ifindex)?.unwrap_or_default();
        let (set, _) = plan::diff(
            &Wanted {
                key: &config.private_key,
                port: config.listen_port,
                peers: Vec::new(),
                placed: &BTreeMap::new(),
            },
            &observed,
        );
        // Its peers stay until somebody says which ones there are to be.
        let set = Set {
            peers: Vec::new(),
            ..set
        };
        let taken = |port| {
            OpenError::Udp(BindError::PortInUse {
                port,
                source: io::ErrorKind::AddrInUse.into(),
            })
        };
        wireguard.set(ifindex, &set).map_err(|error| {
            if error.is_port_taken() {
                taken(config.listen_port)
            } else {
                error.into()
            }
        })?;
        interface.raise().map_err(|error| {
            if error.is_port_taken() {
                taken(config.listen_port)
            } else {
                error.into()
            }
        })?;
        let observed = wireguard.device(ifindex)?.unwrap_or_default();
        Ok((interface, observed.listen_port))
    }

    fn state(&self) -> MutexGuard<'_, Inside> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted<'a>(&'a self, inside: &'a Inside) -> Wanted<'a> {
        Wanted {
            key: &self.key,
            port: self.listen_port,
            peers: inside.directory.entries().map(|it| &it.spec).collect(),
            placed: &inside.placed,
        }
    }

    fn apply(&self, desired: &Desired) -> Result<Diff, ApplyError> {
        if let Some(why) = Kind::Kernel.lacks(Capability::Realms)
            && !desired.realms.is_empty()
        {
            return Err(ApplyError::Unsupported(why));
        }
        let mut inside = self.state();
        let peers = desired.peers.iter().map(newest).collect();
        let change = inside.directory.plan(peers)?;
        inside.directory.commit(&change);
        inside.settled = true;
        let raised = inside.raise()?;
        inside.addresses.clone_from(&desired.addresses);
        // One address that is refused must not keep the peers from what they should have.
        let addresses = inside.interface.set_addresses(&desired.addresses);
        let observed = inside.observe()?.ok_or(ApplyError::Stopped)?;
        let (set, diff) = plan::diff(&self.wanted(&inside), &observed);
        let ifindex = inside.interface.index();
        inside.wireguard.set(ifindex, &set)?;
        inside.settle_ledgers(&observed);
        let placed = inside.directory.entries();
        inside.placed = placed
            .map(|entry| (entry.spec.public_key, entry.spec.endpoint))
            .collect();
        let leads = inside.leads();
        let routes = inside.interface.set_leads(&leads)?;
        inside.look_at = clock::now() + LOOK;
        Ok(Diff {
            device: diff.device || raised,
            addresses: addresses?,
            routes,
            ..diff
        })
    }

    fn lead(&self, paths: &Paths) -> Result<Diff, ApplyError> {
        let mut inside = self.state();
        inside.paths.clone_from(paths);
        let (before, leads) = (inside.interface.mtu(), inside.leads());
        let mtu = paths.device(before);
        let mut device = mtu > before && inside.interface.set_mtu(mtu)?;
        let routes = inside.interface.set_leads(&leads)?;
        device |= inside.interface.set_mtu(mtu)?;
        Ok(Diff {
            device,
            routes,
            ..Diff::default()
        })
    }

    fn events(&self) -> Vec<Event> {
        let mut inside = self.state();
        if !inside.running {
            return vec![Event::Lost];
        }
        if !inside.settled {
            return Vec::new();
        }
        match self.is_strayed(&mut inside) {
            Ok(None) => {
                inside.running = false;
                vec![Event::Lost]
            }
            Ok(Some(true)) => vec![Event::Strayed],
            Ok(Some(false)) => Vec::new(),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                debug!(error, "the kernel's tunnel device cannot be looked at");
                Vec::new()
            }
        }
    }

    /// Whether somebody changed it; `None` if it is gone.
    fn is_strayed(&self, inside: &mut Inside) -> Result<Option<bool>, ApplyError> {
        let Some(observed) = inside.observe()? else {
            return Ok(None);
        };
        let (set, _) = plan::diff(&self.wanted(inside), &observed);
        if !set.is_empty() || !inside.interface.is_raised()? {
            return Ok(Some(true));
        }
        if clock::now() < inside.look_at {
            return Ok(Some(false));
        }
        inside.look_at = clock::now() + LOOK;
        let (addresses, leads) = (inside.addresses.clone(), inside.leads());
        let whole = inside.interface.has(&addresses, &leads)?;
        Ok(Some(!whole))
    }

    pub(crate) fn stats(&self) -> Vec<PeerStats> {
        let mut inside = self.state();
        let observed = match inside.observe() {
            Ok(observed) => observed.unwrap_or_default(),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                debug!(error, "the kernel's tunnel device cannot be read");
                Observed::default()
            }
        };
        let there: BTreeMap<_, _> = observed
            .peers
            .iter()
            .map(|peer| (peer.public_key, peer))
            .collect();
        let none = ObservedPeer::default();
        let mut stats: Vec<PeerStats> = inside
            .directory
            .entries()
            .map(|entry| {
                let spec = &entry.spec;
                let ledger = inside.ledgers.get(&spec.public_key).copied();
                let peer = there.get(spec.public_key.as_bytes());
                stats(spec, peer.unwrap_or(&&none), ledger.unwrap_or_default())
            })
            .collect();
        stats.sort_by(|a, b| a.name.cmp(&b.name));
        stats
    }

    pub(crate) fn heard(&self, name: &str) -> Option<Instant> {
        let inside = self.state();
        let key = inside.directory.find(name)?.spec.public_key;
        inside.ledgers.get(&key)?.last_data()
    }

    pub(crate) fn device_stats(&self) -> DeviceStats {
        let inside = self.state();
        DeviceStats {
            public_key: self.public_key,
            listen_port: inside.port,
            other_port: None,
            other_problem: None,
            running: inside.running,
            offload: None,
            workers: None,
            guard: None,
            drops: Vec::new(),
        }
    }

    /// Makes the peer anew where it is: the only way to a handshake that the kernel has. Whoever wants it
    /// has found the session dead.
    pub(crate) fn rehandshake(&self, name: &str) -> Result<(), RehandshakeError> {
        let mut inside = self.state();
        let entry = inside.directory.find(name);
        let unknown = || RehandshakeError::Unknown(name.escape_debug().take(80).collect());
        let spec = entry.ok_or_else(unknown)?.spec.clone();
        let busy = |_| RehandshakeError::Busy;
        let observed = inside.observe().map_err(busy)?.unwrap_or_default();
        let peers = observed.peers.iter();
        let mut peers = peers.filter(|peer| peer.public_key == *spec.public_key.as_bytes());
        let endpoint = peers.next().and_then(|peer| peer.endpoint);
        let ifindex = inside.interface.index();
        let set = anew(&spec, endpoint);
        let done = inside.wireguard.set(ifindex, &set);
        inside
            .ledgers
            .entry(spec.public_key)
            .or_default()
            .begin_anew();
        done.map_err(|error| {
            let error = &error as &dyn std::error::Error;
            debug!(error, "the kernel refused a peer");
            RehandshakeError::Busy
        })
    }
}

impl Inside {
    /// What the kernel has, and what it has counted; `None` if the interface is gone.
    fn observe(&mut self) -> Result<Option<Observed>, ApplyError> {
        let observed = self.wireguard.device(self.interface.index())?;
        if let Some(observed) = &observed {
            self.port = observed.listen_port;
            let now = clock::now();
            for peer in &observed.peers {
                let key = PublicKey::from_bytes(peer.public_key).ok();
                if let Some(ledger) = key.and_then(|key| self.ledgers.get_mut(&key)) {
                    ledger.take(now, counted(peer));
                }
            }
        }
        Ok(observed)
    }

    /// Whether it was down.
    fn raise(&mut self) -> Result<bool, ApplyError> {
        self.interface.raise().map_err(|error| {
            if error.is_gone() {
                ApplyError::Stopped
            } else {
                error.into()
            }
        })
    }

    /// A ledger for each peer: of those that were there, from what they had counted.
    fn settle_ledgers(&mut self, observed: &Observed) {
        let there: BTreeMap<_, _> = observed
            .peers
            .iter()
            .map(|peer| (peer.public_key, counted(peer)))
            .collect();
        let before = std::mem::take(&mut self.ledgers);
        for entry in self.directory.entries() {
            let key = entry.spec.public_key;
            let adopted = there.get(key.as_bytes()).copied();
            let fresh = || adopted.map(Ledger::adopt).unwrap_or_default();
            let ledger = before.get(&key).copied().unwrap_or_else(fresh);
            self.ledgers.insert(key, ledger);
        }
    }

    fn leads(&self) -> Vec<Lead> {
        let entries = self.directory.entries();
        entries
            .flat_map(|entry| self.paths.leads(&entry.spec))
            .collect()
    }
}

/// How often addresses and routes are looked at; the kernel's table of routes may be large.
pub(crate) const LOOK: Duration = Duration::from_secs(5);
