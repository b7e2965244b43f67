//! What goes through an interface without a link layer, as tcpdump sees it: the packets that this host
//! gives to a tunnel, and those it gets out of it. Who moves them, a process or the kernel, makes no
//! difference, and without a tap nobody pays for it.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

use crate::{
    bpf::take,
    sys::packet::{Instruction, Layer, PacketSocket},
    tun,
};

/// A tap on one interface. What it has no room for is dropped and counted.
#[derive(Debug)]
pub struct Tap {
    socket: PacketSocket,
    dropped: u64,
}

/// A packet that went by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// How long it is; more than the buffer when that took only its beginning.
    pub length: usize,
    /// Whether this host sent it.
    pub outgoing: bool,
    /// When, since 1970.
    pub at: Duration,
}

impl Tap {
    /// Opens a tap in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// There is no such interface (`ENODEV`); the kernel refused, for instance without `CAP_NET_RAW`.
    pub fn open(ifname: &str) -> io::Result<Self> {
        let ifindex = tun::index(ifname)?;
        let socket =
            PacketSocket::open_seeing(Layer::Packet, ETHERTYPE_ALL, ifindex, &WHOLE, true)?;
        // Without the privilege it is as large as the host allows.
        if set_socket_recv_buffer_size_force(&socket, QUEUE).is_err() {
            set_socket_recv_buffer_size(&socket, QUEUE)?;
        }
        // Asks for stamps; there is none yet.
        let _ = socket.stamp();
        Ok(Self { socket, dropped: 0 })
    }

    /// Takes the next packet, if there is one. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` once after the interface went down.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Tapped>> {
        let Some(arrival) = self.socket.receive(buffer)? else {
            return Ok(None);
        };
        let now = || SystemTime::now().duration_since(UNIX_EPOCH);
        let at = self.socket.stamp().or_else(|_| now());
        Ok(Some(Tapped {
            length: arrival.length,
            outgoing: arrival.outgoing,
            at: at.unwrap_or_default(),
        }))
    }

    /// How many there was no room for.
    pub fn dropped(&mut self) -> u64 {
        self.dropped += u64::from(self.socket.take_drops().unwrap_or_default());
        self.dropped
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Every packet, whole: what is cut off would not be counted in its length.
const WHOLE: [Instruction; 1] = [take(u32::MAX)];
const ETHERTYPE_ALL: u16 = 0x0003;
/// A few milliseconds of ten gigabits a second.
const QUEUE: usize = 8 << 20;
