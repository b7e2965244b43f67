//! A device that should be there: opened, opened again when it was lost, and given what is wanted.

use std::time::Duration;

use ipnet::IpNet;
use kedge_core::{Coded as _, Instant, Problem};
use kedge_net::{clock, tun};
use kedge_tunnel_proto::{keys::PrivateKey, memory::Memory, noise::CoreName};
use tracing::{info, warn};

use crate::{Device, DeviceConfig, Handle, PeerSpec, offload::Allowed};

/// What should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The TUN interface's name.
    pub ifname: String,
    /// The UDP port; 0 lets the kernel choose.
    pub listen_port: u16,
    /// The MTU of the TUN interface.
    pub mtu: u16,
    /// Whose handshakes and sessions its peers have.
    pub noise_core: CoreName,
    /// What may be left to the kernel.
    pub offload: Allowed,
    /// The addresses on it.
    pub addresses: Vec<IpNet>,
    /// The peers.
    pub peers: Vec<PeerSpec>,
}

/// Keeps a [`Device`] as it is wanted. A failure is a problem and is tried again; it is never a
/// reason to stop.
#[derive(Debug)]
pub struct Keeper {
    key: PrivateKey,
    /// What is known of peers, for the next device.
    memory: Memory,
    /// Whether somebody has to write it down.
    learned: bool,
    wish: Option<Wish>,
    device: Option<Device>,
    /// What the device has.
    applied: Option<Wish>,
    /// The interface that was taken away; its `unreachable` routes still keep packets in.
    lost: Option<String>,
    problem: Option<Problem>,
    retry_at: Instant,
    pause: Duration,
    openings: u64,
}

impl Keeper {
    /// Nothing is wanted yet; `memory` is what was [learned](Self::learned) before.
    #[must_use]
    pub const fn new(key: PrivateKey, memory: Memory) -> Self {
        Self {
            key,
            memory,
            learned: false,
            wish: None,
            device: None,
            applied: None,
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

    /// Does what is still to do; call it about once a second.
    pub fn tend(&mut self) {
        if self
            .device
            .as_ref()
            .is_some_and(|device| !device.device_stats().running)
        {
            warn!(
                because = "its interface was taken away",
                "tunnel device lost"
            );
            self.recall();
            self.device = None;
            self.lost = self.applied.take().map(|applied| applied.ifname);
        }
        let wanted = self.wish.as_ref().map(|wish| wish.ifname.as_str());
        if let Some(lost) = self.lost.take_if(|lost| Some(lost.as_str()) != wanted) {
            clear_leftovers(&lost);
        }
        match self.wish.clone() {
            None => self.close(),
            Some(wish) if self.applied.as_ref() == Some(&wish) => {}
            Some(_) if clock::now() < self.retry_at => {}
            Some(wish) => self.satisfy(wish),
        }
    }

    /// How often a device was opened: whoever holds sockets or handles of one starts anew when it
    /// grows.
    #[must_use]
    pub const fn openings(&self) -> u64 {
        self.openings
    }

    /// The device, while it is open.
    #[must_use]
    pub const fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// What is wrong.
    #[must_use]
    pub const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// What must outlive the process, if there is more of it than the last time.
    pub fn learned(&mut self) -> Option<&Memory> {
        self.recall();
        std::mem::take(&mut self.learned).then_some(&self.memory)
    }

    /// Closes the device and takes back its routes.
    pub fn close(&mut self) {
        self.applied = None;
        self.problem = None;
        if let Some(device) = self.device.take() {
            let handle = device.handle();
            if let Err(err) = device.close() {
                warn!(
                    error = &err as &dyn std::error::Error,
                    "tunnel routes stay behind"
                );
            }
            self.take_from(&handle);
        }
    }

    fn recall(&mut self) {
        if let Some(handle) = self.device.as_ref().map(Device::handle) {
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
            let fixed = |wish: &Wish| (wish.listen_port, wish.mtu, wish.noise_core, wish.offload);
            applied.ifname == wish.ifname && fixed(applied) == fixed(&wish)
        });
        if self.device.is_some() && self.applied.is_some() && !same_device {
            info!(
                because = "its name, port, MTU, Noise core or offload changed",
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
                let config = DeviceConfig {
                    ifname: wish.ifname.clone(),
                    private_key: self.key.clone(),
                    listen_port: wish.listen_port,
                    addresses: wish.addresses.clone(),
                    mtu: wish.mtu,
                    noise_core: wish.noise_core,
                    offload: wish.offload,
                    memory: self.memory.clone(),
                };
                let device = Device::open(config).map_err(|error| error.problem())?;
                self.lost = None;
                self.openings += 1;
                device
            }
        };
        let same = self.applied.as_ref().map(|applied| &applied.addresses) == Some(&wish.addresses);
        // A change of peers alone may be a change of gateways: nothing is asked of the kernel first.
        let addressed = if same {
            Ok(())
        } else {
            device.set_addresses(&wish.addresses)
        };
        let done = addressed.and_then(|()| device.apply(wish.peers.clone()));
        // What could be done stays done: a refused route must not cost the sessions.
        self.device = Some(device);
        // The device is the wished one even when a peer or route was refused.
        self.applied.get_or_insert_with(|| Wish {
            addresses: Vec::new(),
            peers: Vec::new(),
            ..wish.clone()
        });
        done.map_err(|error| error.problem())
    }
}

/// Clears the routes that a killed process left for `ifname`: whoever starts and wants no tunnel
/// calls it. What cannot be cleared is logged.
pub fn clear_leftovers(ifname: &str) {
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
