//! What every data plane of the tunnel can do: Kedge's own engine in [userspace](crate::Device), and the
//! [kernel's](crate::kernel::Kernel).

use std::{collections::BTreeMap, fmt, path::PathBuf};

use ipnet::IpNet;
use kedge_net::{tun::Lead, wireguard::module::Module};
use kedge_tunnel_proto::{
    directory::{Change, Directory, PeerSpec},
    keys::{PrivateKey, PublicKey},
    realm::Realm,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ApplyError, DeviceStats, Handle, PeerStats};

/// Who moves the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Kedge's own engine.
    Userspace,
    /// The kernel's WireGuard.
    Kernel,
}

/// Who is to move the packets, as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Kedge's own engine, whatever the kernel has: a change of the data plane is a change of the key,
    /// and is not made by a module that was installed.
    #[default]
    Auto,
    /// The kernel's WireGuard and no other.
    Kernel,
    /// Kedge's own engine.
    Userspace,
}

/// What a device is to have; it can change while the device runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// The addresses on its interface.
    pub addresses: Vec<IpNet>,
    /// Its peers.
    pub peers: Vec<PeerSpec>,
    /// The network namespaces of realms beside its own.
    pub realms: BTreeMap<Realm, PathBuf>,
}

/// What the ways to peers carry in one piece, in bytes of inner packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// The MTU of the interface, which is the most of any peer; `None` leaves it.
    pub device: Option<u16>,
    /// By the peers' names. To others goes what the interface takes.
    pub peers: BTreeMap<String, u16>,
}

impl Paths {
    pub(crate) fn device(&self, before: u16) -> u16 {
        self.device.unwrap_or(before)
    }

    /// What the way to a peer carries, if that is known.
    #[must_use]
    pub fn of(&self, peer: &str) -> Option<u16> {
        self.peers.get(peer).copied()
    }

    pub(crate) fn leads(&self, spec: &PeerSpec) -> impl Iterator<Item = Lead> {
        let mtu = self.of(&spec.name);
        let prefixes = spec.allowed_ips.iter();
        prefixes.map(move |prefix| Lead {
            prefix: *prefix,
            mtu,
        })
    }
}

/// What was changed to come from what there was to what is desired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Whether the device itself changed: its key, port, mark, or that it was down.
    pub device: bool,
    /// Peers that came.
    pub added: Vec<PublicKey>,
    /// Peers that went.
    pub removed: Vec<PublicKey>,
    /// Peers that stayed and are not the same.
    pub changed: Vec<PublicKey>,
    /// Addresses that came or went.
    pub addresses: usize,
    /// Routes that came or went.
    pub routes: usize,
}

/// What happened to a device from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its interface was taken away. It comes to nothing any more and must be opened anew.
    Lost,
    /// Somebody else changed it, its addresses or its routes: applying again repairs that.
    Strayed,
}

/// A data plane of one WireGuard interface, opened.
///
/// Dropped without [`close`](Self::close) it leaves what keeps packets for the tunnel from leaving
/// unencrypted, as a crash does.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Which one it is.
    fn kind(&self) -> Kind;

    /// Comes to exactly `desired`, by the smallest change: peers that stay lose nothing. Applied again
    /// it changes nothing.
    ///
    /// # Errors
    ///
    /// The peers do not go together (then nothing changed), or the kernel refused a part (then the
    /// others are done).
    fn apply(&self, desired: &Desired) -> Result<Diff, ApplyError>;

    /// Is known by exactly these keys, the newest last: peers are answered by each, and sessions go over
    /// to the newest as peers are found to know it.
    ///
    /// # Errors
    ///
    /// The data plane has one key for life ([`Capability::SeveralKeys`]), or is gone.
    fn set_keys(&self, keys: &[PrivateKey]) -> Result<(), ApplyError>;

    /// Sends no more to each peer in one piece than the way to it carries: routes of ours get an MTU of
    /// their own. Applied again it changes nothing.
    ///
    /// # Errors
    ///
    /// The kernel refused a part; what was done before stays.
    fn lead(&self, paths: &Paths) -> Result<Diff, ApplyError>;

    /// What happened from outside since the last time; to be asked about once a second.
    fn events(&self) -> Vec<Event>;

    /// Every peer, by name.
    fn stats(&self) -> Vec<PeerStats>;

    /// The device as a whole.
    fn device_stats(&self) -> DeviceStats;

    /// A handle for tasks that outlive a borrow.
    fn handle(&self) -> Handle;

    /// Ends it and takes back everything, the `unreachable` routes too.
    ///
    /// # Errors
    ///
    /// The kernel refused to remove a route; the device is closed all the same.
    fn close(self: Box<Self>) -> Result<(), ApplyError>;
}

/// Something that not every data plane can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// The handshakes and sessions of `noise_core: own`.
    OwnCore,
    /// Switches for what is left to the kernel.
    OffloadSwitches,
    /// What was known of peers outlives the device: where they were, which initiations they sent.
    RememberedPeers,
    /// A handshake can be forced without ending the session that is there.
    LosslessRehandshake,
    /// Inner packets are counted, and those that were not carried, with their reason.
    PacketCounters,
    /// Several gateways lead to the same, each accepted from and one sent to.
    SeveralGateways,
    /// Sessions outlive the process.
    OutlivesProcess,
    /// What the way to a peer carries can be found out by questions of that size.
    PathMtu,
    /// Datagrams go in a stream where UDP does not pass.
    Streams,
    /// A key is followed by another one while sessions go on.
    SeveralKeys,
    /// Peers have interfaces in network namespaces of their own.
    Realms,
}

impl Mode {
    /// The data plane it stands for.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Auto | Self::Userspace => Kind::Userspace,
            Self::Kernel => Kind::Kernel,
        }
    }

    /// Why it is that one, on a host whose kernel stands to WireGuard like this.
    #[must_use]
    pub const fn because(self, module: Module) -> &'static str {
        match (self, module) {
            (Self::Kernel, _) => "tunnel.data_plane is kernel",
            (Self::Userspace, _) => "tunnel.data_plane is userspace",
            (Self::Auto, Module::Absent) => "auto: the kernel has no WireGuard",
            (Self::Auto, Module::Loaded | Module::Loadable) => {
                "auto: the kernel has WireGuard, which `tunnel.data_plane: kernel` would use, with \
                 another key and new sessions"
            }
        }
    }
}

impl Kind {
    /// Why it cannot do that; `None` if it can.
    #[must_use]
    pub const fn lacks(self, capability: Capability) -> Option<&'static str> {
        match (self, capability) {
            (Self::Userspace, Capability::OutlivesProcess) => {
                Some("the engine's sessions are in the process")
            }
            (Self::Userspace, _) | (Self::Kernel, Capability::OutlivesProcess) => None,
            (Self::Kernel, Capability::OwnCore) => {
                Some("the kernel has its own handshakes and sessions")
            }
            (Self::Kernel, Capability::OffloadSwitches) => {
                Some("packets never leave the kernel: there is nothing to leave to it")
            }
            (Self::Kernel, Capability::SeveralGateways) => {
                Some("in the kernel a prefix belongs to one peer, for both directions")
            }
            (Self::Kernel, Capability::RememberedPeers) => {
                Some("the kernel takes no stamps: a peer that is made anew has seen no initiation")
            }
            (Self::Kernel, Capability::LosslessRehandshake) => {
                Some("the kernel starts a handshake only for a peer without a session")
            }
            (Self::Kernel, Capability::PathMtu) => {
                Some("the kernel lets its datagrams be cut on the way: an answer proves nothing")
            }
            (Self::Kernel, Capability::Streams) => {
                Some("the kernel sends its datagrams over UDP and no other way")
            }
            (Self::Kernel, Capability::SeveralKeys) => {
                Some("the kernel's device has one private key, and another one ends its sessions")
            }
            (Self::Kernel, Capability::Realms) => {
                Some("the kernel's device has one interface, and its peers one address plan")
            }
            (Self::Kernel, Capability::PacketCounters) => {
                Some("the kernel counts bytes by peer and nothing else")
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Userspace => "userspace",
            Self::Kernel => "kernel",
        })
    }
}

impl Diff {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The peers of a change of `directory`, before it is committed.
    pub(crate) fn of_peers(directory: &Directory, change: &Change) -> Self {
        let key = |entry: &kedge_tunnel_proto::directory::Entry| entry.spec.public_key;
        let gone = directory.entries();
        let gone = gone.filter(|entry| change.remove.contains(&entry.id));
        Self {
            removed: gone.map(key).collect(),
            added: change.add.iter().map(key).collect(),
            changed: change.update.iter().map(|it| key(&it.entry)).collect(),
            ..Self::default()
        }
    }
}
