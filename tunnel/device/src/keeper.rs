//! A device that should be there: opened, opened again when it was lost, and given what is wanted.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use ipnet::IpNet;
use kedge_core::{Coded as _, Instant, Problem};
use kedge_net::{clamp, clock, tun};
use kedge_tunnel_proto::{
    keys::{Overlap, PrivateKey, PublicKey, Using, overlap},
    memory::Memory,
    noise::CoreName,
    realm::Realm,
};
use tracing::{info, warn};

use crate::{
    ApplyError, Device, DeviceConfig, Handle, PeerSpec, PeerStats,
    backend::{Backend, Desired, Event, Kind, Paths},
    clamper::Clamper,
    kernel::{self, Kernel, KernelConfig},
    offload::Allowed,
    workers::Workers,
};

/// What should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The TUN interface's name.
    pub ifname: String,
    /// The UDP port; 0 lets the kernel choose.
    pub listen_port: u16,
    /// Another one beside it.
    pub other_port: Option<u16>,
    /// The MTU of the TUN interface.
    pub mtu: u16,
    /// Whose handshakes and sessions its peers have.
    pub noise_core: CoreName,
    /// What may be left to the kernel.
    pub offload: Allowed,
    /// How many threads move its packets.
    pub workers: Workers,
    /// The addresses on it.
    pub addresses: Vec<IpNet>,
    /// The peers.
    pub peers: Vec<PeerSpec>,
    /// The network namespaces of their realms.
    pub realms: BTreeMap<Realm, PathBuf>,
}

/// Keeps a data plane as it is wanted. A failure is a problem and is tried again; it is never a
/// reason to stop.
#[derive(Debug)]
pub struct Keeper {
    kind: Kind,
    /// No other kind ever uses it: each has stamps of its own.
    key: PrivateKey,
    /// The key it goes over to.
    next_key: Option<PrivateKey>,
    /// What is known of peers, for the next device.
    memory: Memory,
    /// Whether somebody has to write it down.
    learned: bool,
    wish: Option<Wish>,
    device: Option<Box<dyn Backend>>,
    /// What the device has.
    applied: Option<Wish>,
    /// What the ways to peers carry, and whether the device has it.
    paths: Paths,
    led: bool,
    clamper: Clamper,
    /// Somebody else changed it since.
    strayed: bool,
    repairs: u64,
    /// The interface that was taken away; its `unreachable` routes still keep packets in.
    lost: Option<String>,
    problem: Option<Problem>,
    retry_at: Instant,
    pause: Duration,
    openings: u64,
}

impl Keeper {
    /// Nothing is wanted yet of the engine; `memory` is what was [learned](Self::learned) before.
    #[must_use]
    pub const fn new(key: PrivateKey, memory: Memory) -> Self {
        Self::of(Kind::Userspace, key, memory)
    }

    /// Nothing is wanted yet of that data plane. `key` is its own: what another has used is refused by
    /// peers until their clocks have passed its stamps.
    #[must_use]
    pub const fn of(kind: Kind, key: PrivateKey, memory: Memory) -> Self {
        Self {
            kind,
            key,
            next_key: None,
            memory,
            learned: false,
            wish: None,
            device: None,
            applied: None,
            paths: Paths {
                device: None,
                peers: BTreeMap::new(),
            },
            led: true,
            clamper: Clamper::new(),
            strayed: false,
            repairs: 0,
            lost: None,
            problem: None,
            retry_at: Instant::ZERO,
            pause: FIRST_PAUSE,
            openings: 0,
        }
    }

    /// Wants `wish` from here on, and does it. Sessions of peers that stay survive.
    pub fn want(&mut self, wish: Option<Wish>) {
        if self.wish != wish {
            self.wish = wish;
            self.pause = FIRST_PAUSE;
            self.retry_at = Instant::ZERO;
        }
        self.tend();
    }

    /// Is known by `key` from here on, and goes over to `next`: sessions go on where the data plane can
    /// do that.
    pub fn set_keys(&mut self, key: PrivateKey, next: Option<PrivateKey>) {
        self.key = key;
        self.next_key = next;
        if let Some(Err(err)) = self.device.as_deref().map(|device| self.identify(device)) {
            let error = &err as &dyn std::error::Error;
            warn!(error, "the tunnel's device keeps its keys");
        }
    }

    /// How far the peers are with the key `next`, which they may use since `since`; `counts` says for whom
    /// the one of before is kept.
    #[must_use]
    pub fn overlap(
        &self,
        next: &PublicKey,
        since: Instant,
        counts: impl Fn(&PeerStats) -> bool,
    ) -> Overlap {
        // Without a device nobody was asked, and the old key goes for nobody.
        let Some(device) = self.device() else {
            return Overlap::default();
        };
        let stats = device.stats();
        let using = stats.iter().map(|peer| Using {
            name: &peer.name,
            pair: peer.pair,
            counts: counts(peer),
        });
        overlap(clock::now(), next, since, using)
    }

    fn identify(&self, device: &dyn Backend) -> Result<(), ApplyError> {
        let newer = self.next_key.iter();
        let keys: Vec<_> = std::iter::once(&self.key).chain(newer).cloned().collect();
        device.set_keys(&keys)
    }

    /// Sends no more to each peer in one piece than this from here on.
    pub fn lead(&mut self, paths: Paths) {
        if self.paths != paths {
            self.paths = paths;
            self.led = false;
        }
        if !self.led && self.applied.is_some() {
            self.bring_to_lead();
        }
    }

    /// Does what is still to do; call it about once a second.
    pub fn tend(&mut self) {
        let events = self.device.as_ref().map(|device| device.events());
        for event in events.unwrap_or_default() {
            match event {
                Event::Lost => {
                    warn!(
                        because = "its interface was taken away",
                        "tunnel device lost"
                    );
                    self.recall();
                    self.device = None;
                    self.lost = self.applied.take().map(|applied| applied.ifname);
                }
                Event::Strayed => self.strayed = true,
            }
        }
        let wanted = self.wish.as_ref().map(|wish| wish.ifname.as_str());
        if let Some(lost) = self.lost.take_if(|lost| Some(lost.as_str()) != wanted) {
            clear_leftovers(&lost);
        }
        match self.wish.clone() {
            None => self.close(),
            Some(wish) if self.applied.as_ref() == Some(&wish) && !self.strayed => {}
            Some(_) if clock::now() < self.retry_at => {}
            Some(wish) => self.satisfy(wish),
        }
        // Without a clamp the tunnel works on.
        if let Some(applied) = self.applied.as_ref().filter(|_| self.device.is_some())
            && self.clamper.tend(&applied.ifname)
        {
            self.repairs += 1;
            let because = "somebody else removed it";
            warn!(because, "MSS clamp of the tunnel put up again");
        }
    }

    /// How often a device was opened: whoever holds sockets or handles of one starts anew when it
    /// grows.
    #[must_use]
    pub const fn openings(&self) -> u64 {
        self.openings
    }

    /// How often something was repaired that somebody else had changed.
    #[must_use]
    pub const fn repairs(&self) -> u64 {
        self.repairs
    }

    /// The device, while it is open.
    #[must_use]
    pub fn device(&self) -> Option<&dyn Backend> {
        self.device.as_deref()
    }

    /// What is wrong.
    #[must_use]
    pub const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// What is wrong beside the device itself.
    #[must_use]
    pub const fn clamp_problem(&self) -> Option<&Problem> {
        self.clamper.problem()
    }

    /// What must outlive the process, if there is more of it than the last time.
    pub fn learned(&mut self) -> Option<&Memory> {
        self.recall();
        std::mem::take(&mut self.learned).then_some(&self.memory)
    }

    /// Leaves the device to the process that comes next: the kernel's stays as it is, the engine's is
    /// [closed](Self::close).
    pub fn leave(&mut self) {
        if self.kind == Kind::Kernel {
            self.device = None;
            self.clamper.leave();
        }
        self.close();
    }

    /// Closes the device and takes back its routes.
    pub fn close(&mut self) {
        self.applied = None;
        self.strayed = false;
        self.problem = None;
        self.clamper.remove();
        if let Some(device) = self.device.take() {
            let handle = device.handle();
            if let Err(err) = device.close() {
                warn!(
                    error = &err as &dyn std::error::Error,
                    "something of the tunnel stays behind"
                );
            }
            self.take_from(&handle);
        }
    }

    fn recall(&mut self) {
        if let Some(handle) = self.device.as_ref().map(|device| device.handle()) {
            self.take_from(&handle);
        }
    }

    fn take_from(&mut self, handle: &Handle) {
        if let Some(memory) = handle.learned() {
            self.memory = memory;
            self.learned = true;
        }
    }

    fn satisfy(&mut self, wish: Wish) {
        let same_device = self.applied.as_ref().is_some_and(|applied| {
            let fixed = |wish: &Wish| {
                let workers = wish.workers.count;
                (
                    (wish.listen_port, wish.other_port),
                    wish.mtu,
                    wish.noise_core,
                    wish.offload,
                    workers,
                )
            };
            applied.ifname == wish.ifname && fixed(applied) == fixed(&wish)
        });
        if self.device.is_some() && self.applied.is_some() && !same_device {
            info!(
                because = "its name, port, MTU, Noise core, offload or workers changed",
                "tunnel device closes"
            );
            self.close();
        }
        let outcome = self.bring_about(&wish);
        match outcome {
            Ok(()) => {
                self.applied = Some(wish);
                self.problem = None;
                self.pause = FIRST_PAUSE;
            }
            Err(problem) => {
                if self.problem.as_ref() != Some(&problem) {
                    warn!(KEDGE_CODE = %problem.code, what = problem.what, "tunnel, retrying");
                }
                self.problem = Some(problem);
                self.retry_at = clock::now() + self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    fn bring_about(&mut self, wish: &Wish) -> Result<(), Problem> {
        let device = match self.device.take() {
            Some(device) => device,
            None => {
                let device = self.open(wish)?;
                self.lost = None;
                self.openings += 1;
                device
            }
        };
        let desired = Desired {
            addresses: wish.addresses.clone(),
            peers: wish.peers.clone(),
            realms: wish.realms.clone(),
        };
        let known = self.identify(&*device);
        let done = known.and_then(|()| device.apply(&desired));
        let led = device.lead(&self.paths);
        self.led = led.is_ok();
        if std::mem::take(&mut self.strayed)
            && let Ok(diff) = &done
            && !diff.is_empty()
        {
            self.repairs += 1;
            warn!(
                ?diff,
                because = "somebody else changed it",
                "tunnel device repaired"
            );
        }
        // What could be done stays done: a refused route must not cost the sessions.
        self.device = Some(device);
        // The device is the wished one even when a peer or route was refused.
        self.applied.get_or_insert_with(|| Wish {
            addresses: Vec::new(),
            peers: Vec::new(),
            realms: BTreeMap::new(),
            ..wish.clone()
        });
        done.map(drop).map_err(|error| error.problem())
    }

    fn bring_to_lead(&mut self) {
        let Some(device) = &self.device else { return };
        match device.lead(&self.paths) {
            Ok(_) => self.led = true,
            Err(err) => {
                let error = &err as &dyn std::error::Error;
                warn!(error, "the MTU of a tunnel route is tried again");
            }
        }
    }

    fn open(&self, wish: &Wish) -> Result<Box<dyn Backend>, Problem> {
        if self.kind == Kind::Kernel {
            let config = KernelConfig {
                ifname: wish.ifname.clone(),
                private_key: self.key.clone(),
                listen_port: wish.listen_port,
                mtu: wish.mtu,
            };
            let device = Kernel::open(&config).map_err(|error| error.problem())?;
            return Ok(Box::new(device));
        }
        // The kernel's device outlives its process, and it has the name.
        kernel::clear(&wish.ifname).map_err(|error| error.problem())?;
        let config = DeviceConfig {
            ifname: wish.ifname.clone(),
            private_key: self.key.clone(),
            listen_port: wish.listen_port,
            other_port: wish.other_port,
            addresses: wish.addresses.clone(),
            mtu: wish.mtu,
            noise_core: wish.noise_core,
            offload: wish.offload,
            workers: wish.workers,
            memory: self.memory.clone(),
        };
        let device = Device::open(config).map_err(|error| error.problem())?;
        Ok(Box::new(device))
    }
}

/// Clears the routes and the interface of the kernel's that a killed process left for `ifname`: whoever
/// starts and wants no tunnel calls it. What cannot be cleared is logged.
pub fn clear_leftovers(ifname: &str) {
    match kernel::clear(ifname) {
        Ok(false) => {}
        Ok(true) => info!(
            ifname,
            because = "no tunnel is wanted",
            "tunnel interface of an earlier process removed"
        ),
        Err(err) => warn!(
            ifname,
            error = &err as &dyn std::error::Error,
            "a tunnel interface stays behind"
        ),
    }
    // Without nftables there is none.
    if clamp::stands(ifname).unwrap_or(false)
        && let Err(err) = clamp::take_down(ifname)
    {
        let error = &err as &dyn std::error::Error;
        warn!(ifname, error, "an MSS clamp stays behind");
    }
    match tun::clear_leftovers(ifname) {
        Ok(0) => {}
        Ok(routes) => info!(
            ifname,
            routes,
            because = "no tunnel is wanted",
            "tunnel routes of an earlier process cleared"
        ),
        Err(err) => warn!(
            ifname,
            error = &err as &dyn std::error::Error,
            "tunnel routes stay behind"
        ),
    }
}

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
