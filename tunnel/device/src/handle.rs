//! What the rest of a role needs of a device while somebody else owns it.

use std::{net::SocketAddr, sync::Arc};

use kedge_core::Instant;
use kedge_tunnel_proto::memory::Memory;

use crate::{DeviceStats, PeerStats, RehandshakeError, device, kernel, lanes::Lane};

/// What the rest of a role needs of a device while somebody else owns it.
#[derive(Clone, Debug)]
pub struct Handle(Of);

#[derive(Clone, Debug)]
enum Of {
    Userspace(Arc<device::Inner>),
    Kernel(Arc<kernel::Inner>),
}

impl Handle {
    pub(crate) const fn userspace(inner: Arc<device::Inner>) -> Self {
        Self(Of::Userspace(inner))
    }

    pub(crate) const fn kernel(inner: Arc<kernel::Inner>) -> Self {
        Self(Of::Kernel(inner))
    }

    /// What must outlive the process, if there is more of it than the last time somebody asked: half
    /// a minute old at most, and everything when the device is closed.
    #[must_use]
    pub fn learned(&self) -> Option<Memory> {
        match &self.0 {
            Of::Userspace(inner) => inner.learned(),
            // The kernel keeps what it learns to itself.
            Of::Kernel(_) => None,
        }
    }

    /// Starts a handshake with a peer whatever its session's state. In the kernel that ends the session.
    ///
    /// # Errors
    ///
    /// No peer has that name, or the data plane takes no commands.
    pub fn rehandshake(&self, name: &str) -> Result<(), RehandshakeError> {
        match &self.0 {
            Of::Userspace(inner) => inner.rehandshake(name),
            Of::Kernel(inner) => inner.rehandshake(name),
        }
    }

    /// Sends an inner packet through a peer, whoever owns its destination: a question that has to go
    /// this way. Whether it was sent, which in the kernel it never is: there the destination decides.
    #[must_use]
    pub fn send_through(&self, name: &str, packet: &[u8]) -> bool {
        match &self.0 {
            Of::Userspace(inner) => inner.send_through(name, packet),
            Of::Kernel(_) => false,
        }
    }

    /// Sends an inner packet through a peer in one piece or not at all, as long as it is: a question that
    /// finds out what the way carries. Whether it was taken, which in the kernel it never is.
    #[must_use]
    pub(crate) fn send_whole(&self, name: &str, packet: &[u8]) -> bool {
        match &self.0 {
            Of::Userspace(inner) => inner.send_whole(name, packet),
            Of::Kernel(_) => false,
        }
    }

    /// Calls a peer at each of these places, with one initiation for all of them. Whether it was sent,
    /// which in the kernel it never is: there a peer has one place.
    #[must_use]
    pub fn call(&self, name: &str, places: Vec<SocketAddr>) -> bool {
        match &self.0 {
            Of::Userspace(inner) => inner.call(name, places),
            Of::Kernel(_) => false,
        }
    }

    /// Where the session with a peer leads, while there is one. In the kernel nobody can tell.
    #[must_use]
    pub fn session(&self, name: &str) -> Option<SocketAddr> {
        match &self.0 {
            Of::Userspace(inner) => inner.session(name),
            Of::Kernel(_) => None,
        }
    }

    /// Makes a place for a stream that carries datagrams where UDP does not pass; in the kernel there is
    /// none ([`Capability::Streams`](crate::backend::Capability::Streams)).
    #[must_use]
    pub fn lane(&self) -> Option<Lane> {
        match &self.0 {
            Of::Userspace(inner) => Some(inner.lane()),
            Of::Kernel(_) => None,
        }
    }

    /// Asks a peer whether the way to a place works, wherever its packets go. Whether it was asked, which
    /// in the kernel it never is.
    #[must_use]
    pub fn ask(&self, name: &str, place: SocketAddr, number: u64) -> bool {
        match &self.0 {
            Of::Userspace(inner) => inner.ask(name, place, number),
            Of::Kernel(_) => false,
        }
    }

    /// The number of the last of these questions that was answered.
    #[must_use]
    pub fn answered(&self, name: &str) -> Option<u64> {
        match &self.0 {
            Of::Userspace(inner) => inner.answered(name),
            Of::Kernel(_) => None,
        }
    }

    /// When authenticated data came from a peer last.
    #[must_use]
    pub fn heard(&self, name: &str) -> Option<Instant> {
        match &self.0 {
            Of::Userspace(inner) => inner.heard(name),
            Of::Kernel(inner) => inner.heard(name),
        }
    }

    /// Every peer, by name.
    #[must_use]
    pub fn stats(&self) -> Vec<PeerStats> {
        match &self.0 {
            Of::Userspace(inner) => inner.stats(),
            Of::Kernel(inner) => inner.stats(),
        }
    }

    /// The device as a whole.
    #[must_use]
    pub fn device_stats(&self) -> DeviceStats {
        match &self.0 {
            Of::Userspace(inner) => inner.device_stats(),
            Of::Kernel(inner) => inner.device_stats(),
        }
    }

    /// The engine, where there is one. The kernel's device tools read from the kernel.
    pub(crate) fn engine(&self) -> Option<Arc<device::Inner>> {
        match &self.0 {
            Of::Userspace(inner) => Some(Arc::clone(inner)),
            Of::Kernel(_) => None,
        }
    }
}
