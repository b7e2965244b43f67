//! UDP echo whose answer names the responder.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use clap::Args;
use kedge_core::{Code, Problem};

use super::PRIORITY;
use crate::probe::{NAME_BYTES, PROBE_BYTES, parse};

/// Flags of the echo responder.
#[derive(Clone, Debug, Args)]
pub struct EchoArgs {
    /// The name its answers carry
    #[arg(long)]
    name: String,
    /// Where it listens
    #[arg(long, default_value_t = super::default_listen())]
    listen: SocketAddr,
}

pub(super) fn run(args: &EchoArgs) -> Result<(), Problem> {
    let socket = bind(args.listen)?;
    answer(&socket, &args.name)
        .map_err(|err| Problem::new(Code::LabStepFailed, "UDP echo ended").caused_by(&err))
}

pub(super) fn bind(listen: SocketAddr) -> Result<UdpSocket, Problem> {
    UdpSocket::bind(listen).map_err(|err| {
        Problem::new(Code::LabStepFailed, format!("cannot bind UDP {listen}")).caused_by(&err)
    })
}

/// Answers probes until the socket fails.
///
/// The answer leaves by the host's own address and not by the VIP: what is measured is whether a
/// probe reaches whoever holds the VIP, and the answer says who that is.
pub(super) fn answer(socket: &UdpSocket, name: &str) -> io::Result<()> {
    _ = kedge_net::sched::real_time(PRIORITY);
    let name = name.as_bytes().iter().take(NAME_BYTES).copied();
    let mut buffer = [0; PROBE_BYTES + NAME_BYTES + 1];
    let mut out = Vec::with_capacity(buffer.len());
    loop {
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            // An earlier answer met a closed port.
            Err(err) if is_passing(&err) => continue,
            Err(err) => return Err(err),
        };
        let probe = buffer.get(..length).unwrap_or_default();
        // Answers, which carry a name, are not answered: two responders must not talk for ever.
        if length == PROBE_BYTES && parse(probe).is_some() {
            out.clear();
            out.extend_from_slice(probe);
            out.extend(name.clone());
            // A host whose link is down cannot answer; the prober notices.
            _ = socket.send_to(&out, from);
        }
    }
}

fn is_passing(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
    )
}
