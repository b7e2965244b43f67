//! The echo on tokio: [`Client`] asks a peer through the tunnel, [`Responder`] answers.
//!
//! Both bind overlay addresses, so they must be started after the device has them, and in its
//! network namespace.

mod client;
mod responder;
mod target;

use std::{io, net::IpAddr, path::Path};

use kedge_core::{Code, Coded, Fix, Problem};
use kedge_net::netns;
pub use kedge_tunnel_proto::echo::{Config, PORT, Report};
use tracing::debug;

pub use self::{
    client::Client,
    responder::Responder,
    target::{Asked, Target},
};

/// The echo could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot bind the echo to {address} port {port}")]
pub struct EchoError {
    /// The overlay address.
    pub address: IpAddr,
    /// The port; 0 is any.
    pub port: u16,
    /// What the kernel answered.
    pub source: io::Error,
}

impl Coded for EchoError {
    fn problem(&self) -> Problem {
        Problem::new(
            Code::NetKernel,
            format!("the tunnel's echo cannot use {}", self.address),
        )
        .caused_by(self)
        .consequence("a gateway that forgot its keys is found after minutes, not seconds")
        .fix(
            Fix::text("see whether the address stands on the tunnel's interface")
                .command("ip address show"),
        )
    }
}

/// Binds a socket in the network namespace at `within`, or in this thread's own.
pub(crate) fn bind(
    within: Option<&Path>,
    address: IpAddr,
    port: u16,
) -> Result<tokio::net::UdpSocket, EchoError> {
    let open = || {
        let socket = netns::within(within, || std::net::UdpSocket::bind((address, port)))?;
        socket.set_nonblocking(true)?;
        tokio::net::UdpSocket::from_std(socket)
    };
    open().map_err(|source| EchoError {
        address,
        port,
        source,
    })
}

/// An ICMP error for something sent earlier: a change of the path, no defect of the socket.
pub(crate) fn socket_failed(err: &io::Error) {
    debug!(
        error = err as &dyn std::error::Error,
        "echo socket reports an error"
    );
}
