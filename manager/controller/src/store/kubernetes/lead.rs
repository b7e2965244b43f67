//! Who of several managers writes, as its Lease says, and where it serves the agent API.

use std::net::SocketAddr;

use super::cluster::Cluster;
use crate::store::Reign;

impl Cluster {
    /// The time of leading: another one whenever somebody else may have led in between.
    pub(in crate::store) fn reign_now(&self) -> Reign {
        Reign(self.inner.leader.reign())
    }

    /// Tells others where this manager serves the agent API: it stands in the Lease from here on.
    pub(in crate::store) fn publish(&self, address: SocketAddr) {
        let leader = &self.inner.leader;
        leader.tell_now(ADDRESS, &address.to_string());
    }

    /// Where the holder of the Lease serves the agent API, while another holds it.
    pub(super) fn elsewhere(&self) -> Option<SocketAddr> {
        self.inner.leader.told_by_other(ADDRESS)?.parse().ok()
    }
}

/// The annotation with the address: other managers pass connections on to it.
const ADDRESS: &str = "kedge.dev/agent-api";
