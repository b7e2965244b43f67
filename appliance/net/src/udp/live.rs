//! What changes about sockets while a device runs.

use std::{io, net::UdpSocket};

use socket2::SockRef;

use super::Sockets;

impl Sockets {
    /// No sockets: a device that is down. Nothing comes, and what is sent is refused.
    #[must_use]
    pub const fn closed() -> Self {
        Self {
            v4: None,
            v6: None,
            port: 0,
        }
    }

    /// Whether anything can be sent.
    #[must_use]
    pub const fn are_open(&self) -> bool {
        self.v4.is_some() || self.v6.is_some()
    }

    /// Marks what is sent from here on (`SO_MARK`), for rules of routing; 0 is no mark.
    ///
    /// # Errors
    ///
    /// The kernel's answer: no privilege.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        let mark = |socket: &UdpSocket| SockRef::from(socket).set_mark(mark);
        self.v4.iter().chain(&self.v6).try_for_each(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::Family;

    #[test]
    fn a_closed_device_has_nothing_to_wait_for_and_refuses() {
        let closed = Sockets::closed();
        assert!(!closed.are_open());
        assert!(closed.fd(Family::V4).is_none() && closed.fd(Family::V6).is_none());
        closed.set_mark(7).unwrap();
        assert!(Sockets::bind(0).unwrap().are_open());
    }
}
