//! What the kernel allows Kedge, and how a refusal is told to people.

use std::io;

use kedge_core::{Code, Coded, Fix, Problem};
use rustix::thread::{CapabilitySet, capabilities};

/// Kedge may not change the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Kedge lacks {missing}")]
pub struct Unprivileged {
    /// What is missing, by name.
    pub missing: &'static str,
}

/// Whether the calling thread may change addresses and open raw sockets.
///
/// # Errors
///
/// Which capability is missing.
pub fn check() -> Result<(), Unprivileged> {
    let effective =
        capabilities(None).map_or_else(|_| CapabilitySet::empty(), |sets| sets.effective);
    let has = |capability| effective.contains(capability);
    let missing = match (has(CapabilitySet::NET_ADMIN), has(CapabilitySet::NET_RAW)) {
        (true, true) => return Ok(()),
        (false, false) => "CAP_NET_ADMIN and CAP_NET_RAW",
        (false, true) => "CAP_NET_ADMIN",
        (true, false) => "CAP_NET_RAW",
    };
    Err(Unprivileged { missing })
}

impl Coded for Unprivileged {
    fn problem(&self) -> Problem {
        denied(self.to_string())
    }
}

/// The problem for an operation that failed with `error`: a missing privilege is told as such,
/// anything else under `code`.
pub(crate) fn problem(code: Code, what: String, error: &io::Error) -> Problem {
    if is_missing(error) {
        denied(what).evidence(error.to_string())
    } else {
        Problem::new(code, what).evidence(error.to_string())
    }
}

fn denied(what: String) -> Problem {
    Problem::new(Code::NetPermission, what)
        .consequence("nothing of this can work until Kedge may change the network")
        .fix(
            Fix::text(
                "run it as root, or give it CAP_NET_ADMIN and CAP_NET_RAW (in a systemd unit: \
                 AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW)",
            )
            .command("sudo kedge agent"),
        )
}

/// Whether the kernel refused for want of privilege.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}
