//! Between which addresses a datagram goes.

use std::net::{IpAddr, SocketAddr};

/// Where a datagram came from, and where it came to.
///
/// A host with several addresses answers from the one it was called at: who called another one has a
/// firewall or NAT on the way that takes the answer for a stranger's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The other end.
    pub there: SocketAddr,
    /// The address of this host; `None` leaves it to the routes.
    pub here: Option<IpAddr>,
}

impl From<SocketAddr> for Way {
    fn from(there: SocketAddr) -> Self {
        Self { there, here: None }
    }
}
