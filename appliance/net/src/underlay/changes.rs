//! That ways may have changed, the moment they do.

use std::{io, os::fd::OwnedFd};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netlink::SocketAddrNetlink, recv,
        socket_with, sockopt,
    },
};
use tokio::io::unix::AsyncFd;

use crate::sys;

/// Hears that routes, rules, next hops or links of one network namespace changed. What changed it does not
/// read: whoever wants to know asks for the ways that matter ([`Underlay`](super::Underlay)), so a host
/// with the routes of the whole Internet costs no more than any other.
#[derive(Debug)]
pub struct Changes(AsyncFd<OwnedFd>);

impl Changes {
    /// Listens in the network namespace of the calling thread, on the current runtime.
    ///
    /// # Errors
    ///
    /// The kernel refused a socket.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // No protocol is that of routes (`NETLINK_ROUTE` is 0).
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&fd, &SocketAddrNetlink::new(0, GROUPS))?;
        // One that was not heard says as much as one that was.
        sockopt::set_socket_recv_buffer_size(&fd, BUFFER)?;
        sys::descriptor::watch(fd).map(Self)
    }

    /// Waits until something changed that was not [taken](Self::take). Loses nothing when it is cancelled.
    ///
    /// # Errors
    ///
    /// The runtime is ending.
    pub async fn told(&self) -> io::Result<()> {
        self.0.readable().await.map(drop)
    }

    /// Takes all that was told so far.
    ///
    /// # Errors
    ///
    /// The socket broke.
    pub async fn take(&self) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        // Cleared first: what is told meanwhile makes it ready again.
        ready.clear_ready();
        let mut message = [0; 64];
        loop {
            match recv(ready.get_inner(), &mut message, RecvFlags::empty()) {
                // More than its buffer holds was told.
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

const BUFFER: usize = 32 << 10;

const GROUPS: u32 = group(libc::RTNLGRP_LINK)
    | group(libc::RTNLGRP_IPV4_ROUTE)
    | group(libc::RTNLGRP_IPV6_ROUTE)
    | group(libc::RTNLGRP_IPV4_RULE)
    | group(libc::RTNLGRP_IPV6_RULE)
    | group(libc::RTNLGRP_NEXTHOP);

const fn group(number: libc::c_uint) -> u32 {
    1 << (number - 1)
}
