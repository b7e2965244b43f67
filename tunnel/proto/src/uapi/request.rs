//! Requests, as typed as they can be without knowing the device.

use std::net::SocketAddr;

use ipnet::IpNet;

use crate::keys::{PresharedKey, PrivateKey, PublicKey};

/// A request of the cross-platform protocol.
#[derive(Clone, Debug)]
pub enum Request {
    /// `get=1`: everything there is to know.
    Get,
    /// `set=1`: changes.
    Set(Set),
}

/// Changes of a device. `None` and `false` leave something as it is.
#[derive(Clone, Debug, Default)]
pub struct Set {
    /// The device's key; `Some(None)` takes it away.
    pub private_key: Option<Option<PrivateKey>>,
    /// The UDP port; 0 lets the kernel choose.
    pub listen_port: Option<u16>,
    /// The mark of the device's own datagrams; 0 is none.
    pub fwmark: Option<u32>,
    /// Peers that are not listed go.
    pub replace_peers: bool,
    /// Peers, in the order they were listed; one may be listed more than once.
    pub peers: Vec<PeerSet>,
}

/// Changes of a peer.
#[derive(Clone, Debug)]
pub struct PeerSet {
    /// Whose.
    pub public_key: PublicKey,
    /// Only if there is such a peer.
    pub update_only: bool,
    /// The peer goes.
    pub remove: bool,
    /// The key that was shared before; `Some(None)` takes it away.
    pub preshared_key: Option<Option<PresharedKey>>,
    /// Where it is.
    pub endpoint: Option<SocketAddr>,
    /// Seconds between keepalives; 0 sends none.
    pub keepalive: Option<u16>,
    /// Prefixes that are not listed go.
    pub replace_allowed_ips: bool,
    /// Prefixes that come or go, in order.
    pub allowed_ips: Vec<AllowedIp>,
}

/// A prefix that comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedIp {
    /// The prefix, host bits zero.
    pub prefix: IpNet,
    /// Written with `-` before it: it goes.
    pub remove: bool,
}

impl PeerSet {
    /// No change of that peer, except that it comes if it is not there.
    #[must_use]
    pub const fn new(public_key: PublicKey) -> Self {
        Self {
            public_key,
            update_only: false,
            remove: false,
            preshared_key: None,
            endpoint: None,
            keepalive: None,
            replace_allowed_ips: false,
            allowed_ips: Vec::new(),
        }
    }
}
