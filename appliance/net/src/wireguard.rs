//! The kernel's own WireGuard: [links](link) of that kind, and what is configured on them by generic
//! netlink (`linux/wireguard.h`).
//!
//! ```text
//!   Set ──► request: messages of bounded size ──► kernel
//!   Observed ◄── dump: one device over several messages ◄── kernel
//! ```
//!
//! Both codecs are our own, because keys pass through them: they are written once, to memory that is
//! wiped, and nothing that holds one prints it.

mod attribute;
mod dump;
pub mod link;
pub mod module;
mod request;
mod socket;

use std::{fmt, net::SocketAddr, time::SystemTime};

use ipnet::IpNet;
use zeroize::{Zeroize, ZeroizeOnDrop};

pub use self::{
    dump::{Dump, ParseError},
    request::requests,
    socket::{Wireguard, WireguardError},
};

/// A public key.
pub type PublicKey = [u8; 32];

/// A private or preshared key. It prints as `***` and is wiped when dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct SecretKey([u8; 32]);

/// A device as the kernel tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The kernel's number for the link.
    pub ifindex: u32,
    /// Its name.
    pub ifname: String,
    /// Its private key, unless it has none.
    pub private_key: Option<SecretKey>,
    /// The public key that belongs to it.
    pub public_key: Option<PublicKey>,
    /// The UDP port; 0 while the link was never up.
    pub listen_port: u16,
    /// The mark of its datagrams; 0 is none.
    pub fwmark: u32,
    /// Its peers, in the kernel's order.
    pub peers: Vec<ObservedPeer>,
}

/// A peer as the kernel tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedPeer {
    /// Its key.
    pub public_key: PublicKey,
    /// The key both ends were given beside their pairs.
    pub preshared_key: Option<SecretKey>,
    /// Where it was last heard from, or put.
    pub endpoint: Option<SocketAddr>,
    /// Seconds between keepalives; 0 is none.
    pub keepalive: u16,
    /// When its last handshake was completed.
    pub last_handshake: Option<SystemTime>,
    /// Bytes of WireGuard messages received.
    pub rx_bytes: u64,
    /// Bytes of WireGuard messages sent.
    pub tx_bytes: u64,
    /// Its prefixes.
    pub allowed_ips: Vec<IpNet>,
}

/// A change of a device. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// The private key.
    pub private_key: Option<SecretKey>,
    /// The UDP port; 0 lets the kernel choose.
    pub listen_port: Option<u16>,
    /// The mark of its datagrams; 0 is none.
    pub fwmark: Option<u32>,
    /// Peers, in the order in which they are changed.
    pub peers: Vec<PeerSet>,
}

/// A change of a peer. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSet {
    /// Which one.
    pub public_key: PublicKey,
    /// Remove it.
    pub remove: bool,
    /// Do nothing if there is none.
    pub update_only: bool,
    /// The preshared key; `Some(None)` takes it away.
    pub preshared_key: Option<Option<SecretKey>>,
    /// Where it is.
    pub endpoint: Option<SocketAddr>,
    /// Seconds between keepalives; 0 is none.
    pub keepalive: Option<u16>,
    /// Take away the prefixes it has first.
    pub replace_allowed_ips: bool,
    /// Prefixes it gets; another peer's are moved.
    pub allowed_ips: Vec<IpNet>,
}

impl Set {
    /// Whether nothing changes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.private_key.is_none()
            && self.listen_port.is_none()
            && self.fwmark.is_none()
            && self.peers.is_empty()
    }
}

impl PeerSet {
    /// Nothing about that peer yet.
    #[must_use]
    pub fn of(public_key: PublicKey) -> Self {
        Self {
            public_key,
            ..Self::default()
        }
    }
}

impl SecretKey {
    /// A key from its bytes. Zeros are `None`: no key.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        (*bytes != NO_KEY).then_some(Self(*bytes))
    }

    /// The key; do not log it.
    #[must_use]
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

const NO_KEY: [u8; 32] = [0; 32];

// linux/wireguard.h
const GET_DEVICE: u8 = 0;
const SET_DEVICE: u8 = 1;
const VERSION: u8 = 1;

/// `enum wgdevice_attribute`.
mod device {
    pub const IFINDEX: u16 = 1;
    pub const IFNAME: u16 = 2;
    pub const PRIVATE_KEY: u16 = 3;
    pub const PUBLIC_KEY: u16 = 4;
    pub const LISTEN_PORT: u16 = 6;
    pub const FWMARK: u16 = 7;
    pub const PEERS: u16 = 8;
}

/// `enum wgpeer_attribute` and `enum wgpeer_flag`.
mod peer {
    pub const PUBLIC_KEY: u16 = 1;
    pub const PRESHARED_KEY: u16 = 2;
    pub const FLAGS: u16 = 3;
    pub const ENDPOINT: u16 = 4;
    pub const KEEPALIVE: u16 = 5;
    pub const LAST_HANDSHAKE: u16 = 6;
    pub const RX_BYTES: u16 = 7;
    pub const TX_BYTES: u16 = 8;
    pub const ALLOWED_IPS: u16 = 9;

    pub const REMOVE_ME: u32 = 1;
    pub const REPLACE_ALLOWED_IPS: u32 = 2;
    pub const UPDATE_ONLY: u32 = 4;
}

/// `enum wgallowedip_attribute`.
mod allowed_ip {
    pub const FAMILY: u16 = 1;
    pub const ADDRESS: u16 = 2;
    pub const PREFIX_LENGTH: u16 = 3;
}

/// `AF_INET` and `AF_INET6` as the kernel writes them.
mod family {
    pub const V4: u16 = 2;
    pub const V6: u16 = 10;
}

#[cfg(test)]
mod tests;
