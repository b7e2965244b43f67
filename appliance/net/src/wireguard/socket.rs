//! The socket at which the kernel is asked.

use std::{fmt, io, time::Duration};

use kedge_core::{Code, Coded, Fix, Problem};
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use zeroize::{Zeroize as _, Zeroizing};

use super::{
    Dump, GET_DEVICE, Observed, ParseError, Set, VERSION,
    attribute::{Writer, attributes},
    device, requests,
};
use crate::{
    privilege,
    rtnl::{BUFFER, receive, slices},
};

/// The kernel's WireGuard, in the network namespace of the thread that opened it.
pub struct Wireguard {
    socket: Socket,
    family: u16,
    sequence: u32,
    buffer: Zeroizing<Vec<u8>>,
}

/// The kernel's WireGuard cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WireguardError {
    /// The kernel has none, or may not load it.
    #[error("the kernel knows no WireGuard")]
    Missing(#[source] io::Error),
    /// No socket for requests.
    #[error("cannot open a generic netlink socket")]
    Open(#[source] io::Error),
    /// The kernel did not tell what is configured.
    #[error("the kernel does not tell what its WireGuard device {ifindex} has")]
    Read {
        /// The link.
        ifindex: u32,
        /// What went wrong.
        source: io::Error,
    },
    /// The kernel refused a change.
    #[error("the kernel refused a change of its WireGuard device {ifindex}")]
    Change {
        /// The link.
        ifindex: u32,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl fmt::Debug for Wireguard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The buffer may hold keys.
        f.debug_struct("Wireguard")
            .field("family", &self.family)
            .finish_non_exhaustive()
    }
}

impl WireguardError {
    /// Whether the port that was wanted is taken.
    #[must_use]
    pub fn is_port_taken(&self) -> bool {
        matches!(self, Self::Change { source, .. } if source.raw_os_error() == Some(libc::EADDRINUSE))
    }
}

impl Wireguard {
    /// Opens the socket. The kernel loads its module if it has one and is allowed to.
    ///
    /// # Errors
    ///
    /// [`WireguardError::Missing`] if it has none; else the kernel refused a socket.
    pub fn open() -> Result<Self, WireguardError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_GENERIC)?;
            socket.bind_auto()?;
            set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
            Ok(socket)
        };
        let mut kernel = Self {
            socket: open().map_err(WireguardError::Open)?,
            family: 0,
            sequence: 0,
            buffer: Zeroizing::new(Vec::with_capacity(BUFFER)),
        };
        kernel.family = kernel.find_family().map_err(|error| {
            if error.raw_os_error() == Some(libc::ENOENT) {
                WireguardError::Missing(error)
            } else {
                WireguardError::Open(error)
            }
        })?;
        Ok(kernel)
    }

    /// What the link with that number has; `None` if there is no such link, or of another kind.
    ///
    /// # Errors
    ///
    /// The kernel did not answer, or not so that it can be understood.
    pub fn device(&mut self, ifindex: u32) -> Result<Option<Observed>, WireguardError> {
        let mut last = io::ErrorKind::ResourceBusy.into();
        for _ in 0..ATTEMPTS {
            match self.dump(ifindex) {
                Ok(Some(observed)) => return Ok(Some(observed)),
                // It changed while it was told.
                Ok(None) => {}
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EOPNOTSUPP)) =>
                {
                    return Ok(None);
                }
                Err(source) => {
                    last = source;
                    break;
                }
            }
        }
        let source = last;
        Err(WireguardError::Read { ifindex, source })
    }

    /// Makes a change of the link with that number, in as many messages as it takes. After an error
    /// the messages before stay done.
    ///
    /// # Errors
    ///
    /// The kernel refused, `EADDRINUSE` when the port is taken.
    pub fn set(&mut self, ifindex: u32, set: &Set) -> Result<(), WireguardError> {
        for message in requests(ifindex, set, LIMIT) {
            self.send(self.family, NLM_F_REQUEST | NLM_F_ACK, &message)
                .and_then(|()| self.answer(|_| Ok(())).map(drop))
                .map_err(|source| WireguardError::Change { ifindex, source })?;
        }
        Ok(())
    }

    fn find_family(&mut self) -> io::Result<u16> {
        let mut message = Writer::new(64, &[GET_FAMILY, 1, 0, 0]);
        message.put(FAMILY_NAME, b"wireguard\0");
        let message = message.finish();
        self.send(CONTROL, NLM_F_REQUEST | NLM_F_ACK, &message)?;
        let mut family = None;
        self.answer(|body| {
            for attribute in attributes(body.get(4..).unwrap_or_default()) {
                if let (FAMILY_ID, value) = attribute? {
                    family = value.try_into().ok().map(u16::from_ne_bytes);
                }
            }
            Ok(())
        })?;
        family.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The device; `None` when it changed while it was told.
    fn dump(&mut self, ifindex: u32) -> io::Result<Option<Observed>> {
        let mut message = Writer::new(64, &[GET_DEVICE, VERSION, 0, 0]);
        message.put(device::IFINDEX, &ifindex.to_ne_bytes());
        let message = message.finish();
        self.send(self.family, NLM_F_REQUEST | NLM_F_DUMP, &message)?;
        let mut dump = Dump::default();
        let whole = self.answer(|body| dump.take(body))?;
        Ok(whole.then(|| dump.finish()))
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let length = HEADER + body.len();
        let mut message = Zeroizing::new(Vec::with_capacity(length));
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        message.extend_from_slice(&length.to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&self.sequence.to_ne_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(body);
        self.socket.send_to(&message, &SocketAddr::new(0, 0), 0)?;
        Ok(())
    }

    /// Gives every message of the answer to `each`, to its end; whether nothing changed meanwhile.
    fn answer(
        &mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), ParseError>,
    ) -> io::Result<bool> {
        let mut whole = true;
        loop {
            receive(&self.socket, &mut self.buffer)?;
            let mut outcome = None;
            for message in slices(&self.buffer) {
                let Some((header, body)) = message.split_first_chunk::<HEADER>() else {
                    continue;
                };
                let [_, _, _, _, k, l, f, g, s, t, u, v, ..] = *header;
                if u32::from_ne_bytes([s, t, u, v]) != self.sequence {
                    continue;
                }
                whole &= u16::from_ne_bytes([f, g]) & NLM_F_DUMP_INTR == 0;
                match u16::from_ne_bytes([k, l]) {
                    ERROR | DONE => outcome = Some(code(body)),
                    _ => each(body)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
                }
            }
            self.buffer.zeroize();
            match outcome {
                Some(0) => return Ok(whole),
                Some(code) => return Err(io::Error::from_raw_os_error(code)),
                None => {}
            }
        }
    }
}

/// The error number that ends an answer; 0 is none.
fn code(body: &[u8]) -> i32 {
    body.first_chunk()
        .map_or(0, |code| i32::from_ne_bytes(*code).saturating_neg())
}

impl Coded for WireguardError {
    fn problem(&self) -> Problem {
        match self {
            Self::Missing(source) => Problem::new(
                Code::TunNoKernel,
                "the kernel of this host has no WireGuard",
            )
            .caused_by(self)
            .evidence(source.to_string())
            .consequence(
                "there is no tunnel: `tunnel.data_plane: kernel` wants the kernel's and no other",
            )
            .fix(
                Fix::text(
                    "load the module, or let Kedge do it in userspace (`tunnel.data_plane: auto`)",
                )
                .command("sudo modprobe wireguard"),
            ),
            Self::Open(source) | Self::Read { source, .. } | Self::Change { source, .. } => {
                privilege::problem(Code::NetKernel, self.to_string(), source)
                    .consequence("the tunnel is not what it should be; it is tried again")
                    .fix(
                        Fix::text("see what the kernel has")
                            .command("ip -details link show type wireguard"),
                    )
            }
        }
    }
}

/// The length of a `struct nlmsghdr`.
const HEADER: usize = 16;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// `GENL_ID_CTRL`, and of it `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID` and `CTRL_ATTR_FAMILY_NAME`.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// The most bytes in a message, as `wg` has it.
const LIMIT: usize = 8_192;
/// How often a device is asked for when changes run through the answer.
const ATTEMPTS: usize = 8;
/// A kernel that must load a module first answers late.
const PATIENCE: Duration = Duration::from_secs(5);
