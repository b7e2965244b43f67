//! Whether anybody else is on the link.
//!
//! Behind a switch port that is still listening or learning a host hears nobody, and so believes
//! that nobody owns the address. It must not claim one before it heard a frame of another station.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use crate::sys::packet::{Instruction, Layer, PacketSocket};

/// Listens for the first frame of another station on one interface. Drop it once it was heard:
/// every frame of the link passes its filter.
#[derive(Debug)]
pub struct StationListener(PacketSocket);

impl StationListener {
    /// Opens the socket in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel refused, for instance without `CAP_NET_RAW`.
    pub fn open(ifindex: u32) -> io::Result<Self> {
        PacketSocket::open(Layer::Frame, ETHERTYPE_ALL, ifindex, FROM_STATIONS).map(Self)
    }

    /// Whether a frame of another station has arrived. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` once after the interface went down.
    pub fn heard(&self) -> io::Result<bool> {
        self.0
            .receive(&mut [0; 14])
            .map(|arrival| arrival.is_some())
    }
}

impl AsFd for StationListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

const ETHERTYPE_ALL: u16 = 0x0003;
const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Everything but 01:80:c2:00:00:*, which switches themselves send (spanning tree, LLDP, pause).
const FROM_STATIONS: &[Instruction] = &[
    Instruction {
        code: LOAD_WORD,
        jt: 0,
        jf: 0,
        k: 0,
    },
    Instruction {
        code: JUMP_EQUAL,
        jt: 0,
        jf: 2,
        k: 0x0180_c200,
    },
    Instruction {
        code: LOAD_BYTE,
        jt: 0,
        jf: 0,
        k: 4,
    },
    Instruction {
        code: JUMP_EQUAL,
        jt: 1,
        jf: 0,
        k: 0,
    },
    Instruction {
        code: RETURN,
        jt: 0,
        jf: 0,
        k: 14,
    },
    Instruction {
        code: RETURN,
        jt: 0,
        jf: 0,
        k: 0,
    },
];
