//! How a refusal by the kernel is told to people.

use std::io;

use kedge_core::{Code, Fix, Problem};

/// The problem for an operation that failed with `error`: a missing privilege is told as such,
/// anything else under `code`.
pub(crate) fn problem(code: Code, what: String, error: &io::Error) -> Problem {
    if is_missing(error) {
        Problem::new(Code::NetPermission, what)
            .evidence(error.to_string())
            .consequence("nothing of this can work until Kedge may change the network")
            .fix(
                Fix::text(
                    "run it as root, or give it CAP_NET_ADMIN and CAP_NET_RAW (in a systemd unit: \
                     AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW)",
                )
                .command("sudo kedge agent"),
            )
    } else {
        Problem::new(code, what).evidence(error.to_string())
    }
}

/// Whether the kernel refused for want of privilege.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}
