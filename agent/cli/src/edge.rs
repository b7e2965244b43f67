//! The build for hosts: without the manager.

use kedge_core::{Code, Fix, Problem};

use crate::client::Failure;

/// Why a command of the manager cannot be run here.
pub(crate) fn without_manager() -> Failure {
    Problem::new(Code::SysUsage, "this build of kedge has no manager")
        .evidence("it is the build for hosts, as packages and edge images carry it")
        .fix(Fix::text(
            "run the manager from its image or from the tarball, which hold everything",
        ))
        .into()
}
