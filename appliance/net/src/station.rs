//! Whether anybody else is on the link.
//!
//! Behind a switch port that is still listening or learning a host hears nobody, and so believes
//! that nobody owns the address. It must not claim one before it heard a frame of another station.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use crate::bpf::{REFUSE, jump_equal, jump_greater, load_byte, load_word, take};
use crate::sys::packet::{Instruction, Layer, Mac, PacketSocket};

/// Listens for the first frame of another station on one interface. Drop it once it was heard:
/// every frame of the link passes its filter.
#[derive(Debug)]
pub struct StationListener {
    socket: PacketSocket,
    own: Mac,
}

impl StationListener {
    /// Opens the socket in the network namespace of the calling thread; `own` is the interface's
    /// hardware address.
    ///
    /// # Errors
    ///
    /// The kernel refused, for instance without `CAP_NET_RAW`.
    pub fn open(ifindex: u32, own: Mac) -> io::Result<Self> {
        let socket = PacketSocket::open(Layer::Frame, ETHERTYPE_ALL, ifindex, FROM_STATIONS)?;
        Ok(Self { socket, own })
    }

    /// Whether a frame of another station has arrived. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` once after the interface went down.
    pub fn heard(&self) -> io::Result<bool> {
        while let Some(arrival) = self.socket.receive(&mut [0; 14])? {
            if arrival.mac != self.own {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl AsFd for StationListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Everything but 01:80:c2:00:00:*, which switches themselves send (spanning tree, LLDP, pause),
/// and what this host loops back to itself: its own group reports arrive like anybody's.
const FROM_STATIONS: &[Instruction] = &[
    load_word(PACKET_TYPE),
    jump_greater(LAST_RECEIVED_TYPE, 5, 0),
    load_word(0),
    jump_equal(0x0180_c200, 0, 2),
    load_byte(4),
    jump_equal(0, 1, 0),
    take(14),
    REFUSE,
];

const ETHERTYPE_ALL: u16 = 0x0003;
/// `SKF_AD_OFF + SKF_AD_PKTTYPE`.
const PACKET_TYPE: u32 = 0xffff_f004;
/// `PACKET_OTHERHOST`; above it are the types of packets on their way out.
const LAST_RECEIVED_TYPE: u32 = 3;
