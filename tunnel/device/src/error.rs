//! What can go wrong with a device.

use std::io;

use kedge_core::{Code, Coded, Fix, Problem};
use kedge_net::{
    netns::EnclosureError,
    tun::{InterfaceError, TunError},
    udp::BindError,
    wireguard::{WireguardError, link::LinkError},
};
use kedge_tunnel_proto::directory::PlanError;

/// A device could not be opened. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The TUN device.
    #[error("the tunnel has no TUN device")]
    Tun(#[from] TunError),
    /// The UDP port.
    #[error("the tunnel has no UDP socket")]
    Udp(#[from] BindError),
    /// The interface's addresses, MTU or state.
    #[error("the tunnel's interface cannot be set up")]
    Interface(#[from] InterfaceError),
    /// A namespace beside its own.
    #[error("the tunnel cannot enter a network namespace")]
    Enclosure(#[from] EnclosureError),
    /// The worker thread.
    #[error("the tunnel's worker cannot be started")]
    Worker(#[source] io::Error),
    /// The kernel's WireGuard.
    #[error("the tunnel has no device of the kernel's")]
    Kernel(#[from] WireguardError),
    /// The kernel's interface, or one that is left of it.
    #[error("the tunnel has no interface of the kernel's")]
    Link(#[from] LinkError),
}

/// Peers or addresses could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The peers do not go together; nothing changed.
    #[error("the tunnel's peers do not go together")]
    Plan(#[from] PlanError),
    /// The kernel refused a route or address; the peers changed, applying again tries again.
    #[error("the tunnel's routes and addresses cannot be set")]
    Interface(#[from] InterfaceError),
    /// The interface of a realm cannot be had; all else is done.
    #[error("the tunnel has no interface in a network namespace")]
    Realm(#[source] Box<OpenError>),
    /// The interface was taken away.
    #[error("the tunnel's device has ended")]
    Stopped,
    /// The kernel's WireGuard refused or did not answer.
    #[error("the kernel's tunnel device cannot be changed")]
    Kernel(#[from] WireguardError),
    /// The kernel's interface could not be removed.
    #[error("the kernel's tunnel device cannot be removed")]
    Link(#[from] LinkError),
    /// The system gave no randomness.
    #[error("the tunnel's handshakes have no randomness")]
    Randomness(#[source] io::Error),
    /// The data plane cannot do that.
    #[error("the tunnel's data plane cannot do that: {0}")]
    Unsupported(&'static str),
}

/// A handshake could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RehandshakeError {
    /// No peer has that name.
    #[error("no tunnel peer is called `{0}`")]
    Unknown(String),
    /// It is busy or has ended; the next try may work.
    #[error("the tunnel's device takes no commands")]
    Busy,
}

impl Coded for OpenError {
    fn problem(&self) -> Problem {
        match self {
            Self::Tun(error) => error.problem(),
            Self::Udp(error) => error.problem(),
            Self::Interface(error) => error.problem(),
            Self::Kernel(error) => error.problem(),
            Self::Link(error) => error.problem(),
            Self::Enclosure(error) => error.problem(),
            Self::Worker(_) => Problem::new(Code::SysUnexpected, "a thread cannot be started")
                .caused_by(self)
                .consequence("there is no tunnel")
                .fix(Fix::text(
                    "look at the process's limits: threads, descriptors, memory",
                )),
        }
    }
}

impl Coded for ApplyError {
    fn problem(&self) -> Problem {
        match self {
            Self::Plan(error) => error.problem(),
            Self::Realm(error) => error.problem(),
            Self::Interface(error) => error.problem(),
            Self::Kernel(error) => error.problem(),
            Self::Link(error) => error.problem(),
            Self::Randomness(_) => Problem::new(Code::SysUnexpected, "no random bytes")
                .caused_by(self)
                .consequence("the tunnel keeps the key it has")
                .fix(Fix::text("look at the kernel's log")),
            Self::Unsupported(why) => Problem::new(Code::TunKey, self.to_string())
                .evidence(*why)
                .consequence("the tunnel keeps the key it has")
                .fix(Fix::text(
                    "use the data plane that can: `tunnel.data_plane: userspace`",
                )),
            Self::Stopped => Problem::new(Code::TunDeviceMissing, "the tunnel's interface is gone")
                .evidence(self.to_string())
                .consequence("no packet passes the tunnel")
                .fix(Fix::text(
                    "find out who deleted the interface and restart Kedge",
                )),
        }
    }
}

impl Coded for RehandshakeError {
    fn problem(&self) -> Problem {
        let code = match self {
            Self::Unknown(_) => Code::TunUnknown,
            Self::Busy => Code::SysUnexpected,
        };
        Problem::new(code, self.to_string())
            .consequence("the session stays as it is")
            .fix(Fix::text("list the peers").command("kedge tunnel list"))
    }
}
