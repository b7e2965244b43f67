//! Datagrams as they come: many in one system call, and with `UDP_GRO` many in one buffer.

use std::{
    io, iter,
    net::{IpAddr, SocketAddr},
};

use super::{Family, Sockets};
use crate::sys::datagrams::{self, Bundle, MOST};

/// Room for what one call brings. Made once; nothing allocates later, and memory is used as far as
/// something came.
#[derive(Debug)]
pub struct Inbox {
    buffers: Box<[u8]>,
    bundles: [Option<Bundle>; MOST],
    count: usize,
}

/// One datagram, or several of one sender and one size.
#[derive(Debug)]
pub struct Received<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// To which address of this host.
    pub at: Option<IpAddr>,
    /// The bytes, one datagram behind the other.
    pub bytes: &'a mut [u8],
    /// How long each datagram is; the last may be shorter.
    pub stride: usize,
    /// Type of service, or traffic class, of each of them.
    pub traffic_class: u8,
}

/// What one call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// How many buffers it filled.
    pub bundles: usize,
    /// Whether there may be more.
    pub more: bool,
}

impl Inbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buffers: vec![0; MOST * SIZE].into_boxed_slice(),
            bundles: [None; MOST],
            count: 0,
        }
    }

    /// Takes what waits at the socket of `family`, in place of what was here.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is nothing.
    pub fn fill(&mut self, sockets: &Sockets, family: Family) -> io::Result<Arrived> {
        self.count = 0;
        let socket = sockets.fd(family).ok_or(io::ErrorKind::WouldBlock)?;
        self.count = datagrams::receive(socket, &mut self.buffers, SIZE, &mut self.bundles)?;
        Ok(Arrived {
            bundles: self.count,
            more: self.count == MOST,
        })
    }

    /// Forgets what was here.
    pub const fn clear(&mut self) {
        self.count = 0;
    }

    /// What came, in order. A bundle that no buffer could hold is `None`.
    pub fn received(&mut self) -> impl Iterator<Item = Option<Received<'_>>> {
        let filled = self.bundles.iter().take(self.count);
        self.buffers
            .chunks_exact_mut(SIZE)
            .zip(filled)
            .map(|(buffer, bundle)| {
                let bundle = bundle.filter(|bundle| !bundle.cut)?;
                Some(Received {
                    from: bundle.from,
                    at: bundle.at,
                    bytes: buffer.get_mut(..bundle.length)?,
                    stride: bundle.stride,
                    traffic_class: bundle.traffic_class,
                })
            })
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Received<'a> {
    /// Each datagram; an empty one counts, too.
    pub fn datagrams(self) -> impl Iterator<Item = &'a mut [u8]> {
        let (first, rest) = self.bytes.split_at_mut(self.stride.min(self.bytes.len()));
        iter::once(first).chain(rest.chunks_mut(self.stride.max(1)))
    }
}

/// The largest UDP payload, and the most that the kernel puts together.
const SIZE: usize = 65_536;
